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
