"""Teams of threads: every bit of the stated order of reductions, whatever shares a row, and what is refused."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, f32, kernel, kit, ptx, reg
from tests.dsl.helpers import in_kernel

OPERATIONS = {"add": np.add, "max": np.maximum, "min": np.minimum}
ROUNDS = 3  # the two halves of the memory take turns


def reduced(size: int, teams: int, cluster: int, operation: str, count: int) -> Kernel:
    """Each team reduces ``count`` numbers of each thread, in several rounds with other numbers."""
    threads = size * teams

    @kernel(
        in_specs=(Tile(ROUNDS, count, cluster * threads, f32),),
        out_specs=(Tile(ROUNDS, count, cluster * threads, f32),),
        grid=(cluster,),
        block=(threads,),
        cluster=(cluster, 1, 1),
        arch="sm_90a",
    )
    def combine(X, Y):  # type: ignore[no-untyped-def]
        team = kit.RowTeam(size, teams=teams, cluster=cluster, most=count)
        at = ptx.special.ctaid.x() * threads + ptx.special.tid.x()
        with ptx.for_(0, ROUNDS) as round:
            values = list(reg.array(f32, count))
            for i, value in enumerate(values):
                ptx.inst.ld.global_.f32(value, X.at(round, i, at))
            for i, value in enumerate(team.reduce(values, operation)):
                ptx.inst.st.global_.f32(Y.at(round, i, at), value)
        ptx.ret()

    return combine


def stated(x: np.ndarray, size: int, cluster: int, operation: str) -> np.ndarray:
    """The numbers of all threads, combined as the docstring says; the last axis is the threads of a team."""
    combine = OPERATIONS[operation]
    lanes = min(size, 32)
    x = x.reshape(*x.shape[:-1], -1, lanes)
    step = lanes // 2
    while step:
        x = combine(x, x[..., np.arange(lanes) ^ step])
        step //= 2
    parts = x[..., 0]  # of each warp, or of each team of lanes
    parts = parts.reshape(*parts.shape[:-1], -1, max(1, size // 32) * cluster)
    columns = np.moveaxis(parts, -1, 0)
    chains = [reduce(combine, columns[way::4]) for way in range(min(4, len(columns)))]
    return np.repeat(reduce(combine, chains), size * cluster, axis=-1)


@pytest.mark.one_in(2)
@pytest.mark.sample(4)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("size", "teams", "cluster"),
    [
        (4, 8, 1),
        (16, 2, 1),
        (32, 1, 1),
        (32, 3, 1),
        (64, 3, 1),
        (96, 2, 1),
        (224, 1, 1),
        (32, 1, 2),
        (96, 1, 4),
    ],
)
def test_the_stated_order(operation: str, size: int, teams: int, cluster: int) -> None:
    x = np.random.default_rng(size).standard_normal((ROUNDS, 2, cluster * size * teams)).astype(np.float32)
    for schedule, seed in (("late", 0), ("random", 1)):
        report = reduced(size, teams, cluster, operation, 2).simulate(x, schedule=schedule, seed=seed)
        assert report.verdict == "clean" and report.holds == "every schedule", str(report)
        assert np.array_equal(report.outputs[0], stated(x, size, cluster, operation))


def moments(size: int, teams: int, cluster: int, each: int) -> Kernel:
    """Each team combines the moments of ``each`` numbers of each thread, in several rounds."""
    threads = size * teams

    @kernel(
        in_specs=(Tile(ROUNDS, each, cluster * threads, f32),),
        out_specs=(Tile(ROUNDS, 2, cluster * threads, f32),),
        grid=(cluster,),
        block=(threads,),
        cluster=(cluster, 1, 1),
        arch="sm_90a",
    )
    def combine(X, Y):  # type: ignore[no-untyped-def]
        team = kit.RowTeam(size, teams=teams, cluster=cluster, most=2)
        at = ptx.special.ctaid.x() * threads + ptx.special.tid.x()
        with ptx.for_(0, ROUNDS) as round:
            values = [ptx.load(f32, X.at(round, i, at), space="global") for i in range(each)]
            total = reg.scalar(f32, init=0.0)
            for value in values:
                total += value
            mean, squares = total * (1 / each), reg.scalar(f32, init=0.0)
            for value in values:
                difference = value - mean
                ptx.inst.fma.rn.f32(squares, difference, difference, squares)
            for i, value in enumerate(team.moments(total, squares, each)):
                ptx.store(Y.at(round, i, at), value, space="global")
        ptx.ret()

    return combine


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mean", [0.0, 3000.0])
@pytest.mark.parametrize(
    ("size", "teams", "cluster", "each"),
    [(4, 8, 1, 4), (32, 1, 1, 3), (32, 2, 1, 4), (64, 2, 1, 4), (256, 1, 1, 5), (32, 1, 2, 4), (64, 1, 4, 2)],
)
def test_moments(size: int, teams: int, cluster: int, each: int, mean: float) -> None:
    """Sums and squared differences are within the stated bound, in all threads, for every schedule."""
    given = np.random.default_rng(size).standard_normal((ROUNDS, each, cluster * size * teams)) + mean
    x = given.astype(np.float32)
    for schedule, seed in (("late", 0), ("random", 1)):
        report = moments(size, teams, cluster, each).simulate(x, schedule=schedule, seed=seed)
        assert report.verdict == "clean" and report.holds == "every schedule", str(report)
        # Numbers of each team, then of all its threads.
        wide = x.astype(np.float64).reshape(ROUNDS, each, teams, -1)
        count, u = wide.shape[1] * wide.shape[3], 2.0**-24
        exact = wide.sum(axis=(1, 3)), count * wide.var(axis=(1, 3))
        found = report.outputs[0].reshape(ROUNDS, 2, teams, -1)
        assert (found == found[..., :1]).all()
        total, squares = (found[:, i, :, 0].astype(np.float64) for i in range(2))
        levels = (size * cluster).bit_length()
        additions = each + levels
        magnitude = np.abs(wide).sum(axis=(1, 3))
        assert (np.abs(total - exact[0]) <= additions * u * magnitude).all()
        root = np.sqrt(levels * (wide**2).sum(axis=(1, 3)) * exact[1])
        bound = 2 * (additions + 2) * u * root + (additions + 4) * u * exact[1]
        assert (np.abs(squares - exact[1]) <= bound).all()


def test_moments_that_are_refused() -> None:
    def body() -> None:
        one = reg.scalar(f32, init=1.0)
        for size, most, word in ((96, 2, "96 threads"), (64, 1, "memory for 1")):
            with pytest.raises(SpecError) as caught:
                kit.RowTeam(size, most=most).moments(one, one, 4)
            assert word in str(caught.value)

    in_kernel(body, arch="sm_90a")


def test_values_are_combined_with_each_other_first() -> None:
    @kernel(in_specs=(Tile(5, 32, f32),), out_specs=(Tile(32, f32),), block=32, arch="sm_90a")
    def combine(X, Y):  # type: ignore[no-untyped-def]
        team, lane = kit.RowTeam(32), ptx.special.laneid()
        values = [ptx.load(f32, X.at(i, lane), space="global") for i in range(5)]
        ptx.inst.st.global_.f32(Y.at(lane), team.reduce(values, "add", ways=True))

    x = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
    (y,) = combine.simulate(x).outputs
    assert np.array_equal(y, stated(((x[0] + x[4]) + x[1]) + x[2] + x[3], 32, 1, "add"))


@pytest.mark.parametrize(
    ("size", "options", "word"),
    [
        (48, {}, "size is 48"),
        (8, {"teams": 3}, "whole warps"),
        (64, {"teams": 17}, "1024 threads"),
        (32, {"cluster": 3}, "cluster is 3"),
        (32, {"cluster": 2, "teams": 2}, "one team"),
    ],
)
def test_what_is_refused(size: int, options: dict[str, int], word: str) -> None:
    def body() -> None:
        with pytest.raises(SpecError) as caught:
            kit.RowTeam(size, **options)
        assert word in str(caught.value)

    in_kernel(body, arch="sm_90a")


def test_reductions_that_are_refused() -> None:
    def body() -> None:
        team = kit.RowTeam(32)
        values = reg.array(f32, 2, init=1.0)
        for given, operation, word in ((values[0], "mul", "'mul'"), (values, "add", "memory for 1")):
            with pytest.raises(SpecError) as caught:
                team.reduce(given, operation)
            assert word in str(caught.value)

    in_kernel(body, arch="sm_90a")
