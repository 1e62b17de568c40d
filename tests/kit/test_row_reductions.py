"""Reductions along rows: every bit of the stated order, what is recorded, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, f32, kernel, kit, ptx, reg
from pyptx.core.types import b32, f16
from pyptx.dsl import RegArray
from tests.dsl.helpers import body_of, in_kernel

#: numpy's maximum keeps NaN; that of PTX without NaN in its name does not.
OPERATIONS = {"max": np.fmax, "max_nan": np.maximum, "min": np.fmin, "add": np.add}
LANES = 32


def rows_of_threads(
    operation: str, count: int, ways: int, *, start: bool = False, arch: str = "sm_90a"
) -> Kernel:
    """Each thread reduces a row of ``count`` numbers; ``start`` combines the row with itself."""

    @kernel(in_specs=(Tile(LANES, count, f32),), out_specs=(Tile(LANES, f32),), block=LANES, arch=arch)
    def reduced(X, D):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        values = reg.array(f32, count)
        for i, value in enumerate(values):
            ptx.inst.ld.global_.f32(value, X.at(tid, i))
        found = kit.row_reduce(values, operation, ways=ways)
        if start:
            found = kit.row_reduce(values, operation, start=found, ways=ways)
        ptx.inst.st.global_.f32(D.at(tid), found[0])

    return reduced


def rows_of_fragments(operation: str, n: int, across: bool) -> Kernel:
    """A warpgroup reduces the rows of an accumulator of 64 x n, which it loads from X."""

    @kernel(in_specs=(Tile(64, n, f32),), out_specs=(Tile(64, 4, f32),), block=128, arch="sm_90a")
    def reduced(X, D):  # type: ignore[no-untyped-def]
        acc = ptx.wgmma.accumulator(n=n)
        origin = acc.origin()
        for i, value in enumerate(acc):
            ptx.inst.ld.global_.f32(value, X.at(origin.row + acc.row(i), origin.column + acc.column(i)))
        found = kit.row_reduce(acc, operation, across=across)
        rows = sorted({acc.row(i) for i in range(acc.elements)})
        for row, value in zip(rows, found, strict=True):
            ptx.inst.st.global_.f32(D.at(origin.row + row, ptx.special.laneid() & 3), value)

    return reduced


def chained(values: np.ndarray, operation: str, ways: int, start: np.ndarray | None = None) -> np.ndarray:
    """The last axis of f32 numbers, combined as the docstring says."""
    combine = OPERATIONS[operation]
    columns = [] if start is None else [start]
    columns += list(np.moveaxis(values, -1, 0))
    chains = [reduce(combine, columns[first::ways]) for first in range(min(ways, len(columns)))]
    return reduce(combine, chains)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("count", "ways"), [(1, 4), (2, 4), (7, 4), (64, 1), (64, 4), (33, 8)])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_row_in_each_thread(operation: str, count: int, ways: int, arch: str) -> None:
    x = np.random.default_rng(count).standard_normal((LANES, count)).astype(np.float32)
    for start in (False, True):
        report = rows_of_threads(operation, count, ways, start=start, arch=arch).simulate(x)
        assert report.verdict == "clean", str(report)
        expected = chained(x, operation, ways)
        if start:
            expected = chained(x, operation, ways, expected)
        assert np.array_equal(report.outputs[0], expected)


@pytest.mark.parametrize("operation", ["max", "max_nan", "min"])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_rows_with_nan(operation: str, arch: str) -> None:
    x = np.random.default_rng(0).standard_normal((LANES, 16)).astype(np.float32)
    x[::3, 5] = np.nan
    x[1] = np.nan
    (found,) = rows_of_threads(operation, 16, 4, arch=arch).simulate(x).outputs
    assert np.array_equal(found, chained(x, operation, 4), equal_nan=True)
    assert np.isnan(found).sum() == (1 if operation != "max_nan" else 12)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("n", [8, 40])
def test_rows_of_a_fragment(operation: str, n: int) -> None:
    """A lane has two neighbors of each eight columns; then lanes 1 and 2 away exchange."""
    x = np.random.default_rng(n).standard_normal((64, n)).astype(np.float32)
    (alone,) = rows_of_fragments(operation, n, across=False).simulate(x).outputs
    (found,) = rows_of_fragments(operation, n, across=True).simulate(x).outputs
    combine = OPERATIONS[operation]
    parts = x.reshape(64, n // 8, 4, 2).transpose(0, 2, 1, 3).reshape(64, 4, -1)
    expected = chained(parts, operation, 4)
    assert np.array_equal(alone, expected)
    pairs = combine(expected, expected[:, [1, 0, 3, 2]])
    assert np.array_equal(found, combine(pairs, pairs[:, [2, 3, 0, 1]]))


def _opcodes(body: Callable[[], object], arch: str) -> list[str]:
    return [each.split()[0] for each in body_of(body, arch=arch)]


def _values(count: int = 8) -> RegArray:
    values = reg.array(f32, count)
    for value in values:
        ptx.inst.mov.f32(value, 1.0)
    return values


@pytest.mark.parametrize(
    ("operation", "arch", "count"),
    [("max", "sm_90a", 7), ("max", "sm_100a", 4), ("add", "sm_100a", 7)],
)
def test_how_many_instructions(operation: str, arch: str, count: int) -> None:
    def reduced() -> None:
        kit.row_reduce(_values(), operation, ways=1)

    body = _opcodes(reduced, arch)
    assert sum(each.startswith((operation, "mov.f32")) for each in body) - 8 == count


def test_fragments_exchange_twice_for_each_row() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(n=16)
        for value in acc:
            ptx.inst.mov.f32(value, 1.0)
        kit.row_reduce(acc, "max")

    assert sum(each.startswith("shfl.sync.bfly") for each in _opcodes(body, "sm_90a")) == 4


@pytest.mark.parametrize(
    ("check", "fragments"),
    [
        (lambda: kit.row_reduce(_values(), "mul"), ("mul", "max")),
        (lambda: kit.row_reduce(reg.array(b32, 8), "max"), ("f32", "view")),
        (lambda: kit.row_reduce(_values(), "max", ways=0), ("ways is 0",)),
        (lambda: kit.row_reduce(_values(), "max", start=reg.array(f32, 2)), ("expected 1 f32",)),
        (lambda: kit.row_reduce(ptx.wgmma.accumulator(n=8)[:2], "max"), ("whole D",)),
        (lambda: kit.row_reduce(ptx.wgmma.accumulator(n=8, dtype=f16), "max"), ("f32",)),
        (
            lambda: kit.row_reduce(ptx.wgmma.accumulator(n=8), "add", start=reg.array(f32, 2)),
            ("once for each lane", "across=False"),
        ),
        (lambda: kit.across_lanes(reg.array(f32, 1), ptx.wgmma.accumulator(n=8), "add"), ("expected 2 f32",)),
    ],
)
def test_what_is_refused(check: Callable[[], object], fragments: tuple[str, ...]) -> None:
    def body() -> None:
        with pytest.raises(SpecError) as caught:
            check()
        assert all(each in str(caught.value) for each in fragments), str(caught.value)

    in_kernel(body, arch="sm_90a")
