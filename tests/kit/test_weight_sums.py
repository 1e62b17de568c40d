"""Gradients of weights: the stated order of the sums, bit for bit, and what is refused."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, bf16, f16, f32, kernel, kit, ptx, reg, u32


def columns(rows: int | str, width: int, dtype, warps: int) -> Kernel:  # type: ignore[no-untyped-def]
    @kernel(
        in_specs=(Tile(rows, width, f32),),
        out_specs=(Tile(width, dtype),),
        grid=-(-width // 32),
        block=32 * min(warps, 32),
        arch="sm_90a",
    )
    def summed(X, D):  # type: ignore[no-untyped-def]
        kit.column_sums(X, D, warps=warps)
        ptx.ret()

    return summed


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize(("rows", "width", "warps"), [(1, 32, 8), (50, 33, 4), (132, 70, 8), (7, 5, 1)])
def test_the_order_of_the_sums(rows: int, width: int, warps: int, dtype) -> None:  # type: ignore[no-untyped-def]
    x = np.random.default_rng(rows).standard_normal((rows, width)).astype(np.float32)
    zero = np.zeros(width, np.float32)
    parts = [reduce(np.add, [zero, *x[warp::warps]]) for warp in range(warps)]
    expected = reduce(np.add, parts).astype(dtype.dtype)
    for given in (rows, "R"):
        report = columns(given, width, dtype, warps).simulate(x, schedule="random")
        assert report.verdict == "clean" and report.holds == "every schedule", str(report)
        assert np.array_equal(report.outputs[0], expected)


def test_each_team_adds_its_own_rows_in_order() -> None:
    width, ctas = 200, 2
    plan = kit.RowPlan.make(width, [f32], [], threads=32, teams=2, ctas=ctas)

    @kernel(
        in_specs=(Tile("M", width, f32),),
        out_specs=(Tile(ctas * plan.teams, width + 4, f32),),
        grid=ctas,
        arch="sm_90a",
        **plan.options(),
    )
    def parts(X, P):  # type: ignore[no-untyped-def]
        stream = kit.RowStream(plan, X.extent(0), [X], [])
        sums = [reg.array(f32, plan.vector, init=0.0) for _ in range(plan.steps)]
        with stream.rows() as row:
            for piece in row.pieces():
                for sum, x in zip(sums[piece.step], piece.values(0), strict=True):
                    ptx.inst.add.rn.f32(sum, sum, x, pred=row.inside)
        kit.store_column_parts(stream, sums, P, first=4)
        ptx.ret()

    x = np.random.default_rng(0).standard_normal((11, width)).astype(np.float32)
    report = parts.simulate(x, out=np.zeros((4, width + 4), np.float32))
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    (found,) = report.outputs
    assert (found[:, :4] == 0).all()
    for team in range(4):  # team t of the grid has the rows t, t + 4, ...
        assert np.array_equal(found[team, 4:], reduce(np.add, x[team::4], np.zeros(width, np.float32)))


@pytest.mark.parametrize(("width", "pool"), [(200, 2), (331, 2), (264, 8)])
def test_a_pool_adds_the_sums_of_its_ctas_in_the_order_of_their_ranks(width: int, pool: int) -> None:
    ctas = 8 if pool == 8 else 4
    plan = kit.RowPlan.make(width, [f32], [], threads=64, ctas=ctas, pool=pool)

    @kernel(
        in_specs=(Tile("M", width, f32),),
        out_specs=(Tile(plan.part_rows, width + 4, f32),),
        grid=ctas,
        arch="sm_90a",
        **plan.options(),
    )
    def parts(X, P):  # type: ignore[no-untyped-def]
        stream = kit.RowStream(plan, X.extent(0), [X], [])
        sums = [reg.array(f32, plan.vector, init=0.0) for _ in range(plan.steps)]
        with stream.rows() as row:
            for piece in row.pieces():
                for sum, x in zip(sums[piece.step], piece.values(0), strict=True):
                    sum += x
        kit.store_column_parts(stream, sums, P, first=4)
        ptx.ret()

    x = np.random.default_rng(0).standard_normal((19, width)).astype(np.float32)
    report = parts.simulate(x, out=np.zeros((ctas // pool, width + 4), np.float32), schedule="random")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    (found,) = report.outputs
    assert (found[:, :4] == 0).all()
    of_cta = [reduce(np.add, x[cta::ctas], np.zeros(width, np.float32)) for cta in range(ctas)]
    for cluster, row in enumerate(found):
        assert np.array_equal(row[4:], reduce(np.add, of_cta[cluster * pool : (cluster + 1) * pool]))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("width", [1000, 2049, 2056, 5120, 8192, 8200])
def test_the_preferred_ring_fits(width: int, dtype, count: int) -> None:  # type: ignore[no-untyped-def]
    prefer = kit.column_ring(width, [dtype] * count)
    plan = kit.RowPlan.make(width, [dtype] * count, [dtype], **kit.column_tuning(width), prefer=prefer)
    assert (plan.design == "ring") == (width in (2056, 5120, 8192))
    assert plan.steps * plan.vector * plan.threads <= 8192
    assert plan.shared_bytes + 2 * 4 * width * (plan.pool > 1) <= 220 * 1024


@pytest.mark.parametrize("more", [{"pool": 3}, {"teams": 2}, {"ctas": 3}, {"cluster": 2}, {"ctas": None}])
def test_pools_that_no_plan_has(more: dict[str, int]) -> None:
    with pytest.raises(SpecError, match="pool"):
        kit.RowPlan.make(256, [f32], [], **{"threads": 32, "ctas": 4, "pool": 2, **more})


def test_what_is_refused() -> None:
    with pytest.raises(SpecError, match="type of the sums"):
        columns(4, 32, u32, 8).ptx()
    with pytest.raises(SpecError, match="warps is 33"):
        columns(4, 32, f32, 33).ptx()
    with pytest.raises(SpecError, match="named dim"):
        in_columns()


def in_columns() -> None:
    @kernel(in_specs=(Tile(4, "N", f32),), out_specs=(Tile("N", f32),), block=256, arch="sm_90a")
    def summed(X, D):  # type: ignore[no-untyped-def]
        kit.column_sums(X, D)

    summed.ptx(N=32)
