"""Accumulators in global sums: exact for integers, in any number of CTAs, in order where the order is given."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, f32, kernel, kit, ptx, u32

WARPS = 4


def adding(columns: int, ctas: int, *, ordered: bool = False, direct: bool = False) -> tuple[Kernel, Kernel]:
    """A kernel whose CTA c adds X[c] to the sums, twice, and one that stores the sums as a matrix."""
    sums = kit.SummedAccumulator(columns, warps=WARPS)

    @kernel(
        in_specs=(Tile(ctas, 64, columns, f32),),
        out_specs=(sums.spec(1), Tile(WARPS, u32)),
        grid=ctas,
        block=32 * WARPS,
        arch="sm_90a",
        cooperative=ordered,
    )
    def add(X, SUMS, COUNTS):  # type: ignore[no-untyped-def]
        warp, cta = kit.warp_index(), ptx.special.ctaid.x()
        leader = ptx.warp.elect()
        staging = sums.staging()
        acc = ptx.wgmma.accumulator(n=columns)
        origin = acc.origin()
        for i, value in enumerate(acc):
            place = X.at(cta, origin.row + acc.row(i), origin.column + acc.column(i))
            ptx.inst.ld.global_.f32(value, place)
        terms = kit.OrderedTerms(COUNTS.at(0).base, leader)
        for time in range(2):
            if direct:
                sums.add_registers(acc, SUMS.at(0, warp, 0).base)
                continue
            if ordered:
                terms.count()
            sums.stage(acc, staging.rows(warp, 1), leader)
            if ordered:
                terms.wait(warp, cta + time * ctas)
            sums.add(SUMS.at(0, warp, 0).base, staging.rows(warp, 1), leader)
        if ordered:
            terms.count()
        ptx.cp.async_.bulk.wait_group(0, pred=leader)

    @kernel(in_specs=(sums.spec(1),), out_specs=(Tile(64, columns, f32),), block=32 * WARPS, arch="sm_90a")
    def read(SUMS, Y):  # type: ignore[no-untyped-def]
        acc = sums.load(SUMS.at(0, kit.warp_index(), 0).base)
        kit.wgmma_epilogue.direct(acc, Y.ptr, 4 * columns)

    return add, read


def run(x: np.ndarray, schedule: str, **how: bool) -> np.ndarray:
    ctas, _, columns = x.shape
    add, read = adding(columns, ctas, **how)
    empty = (np.zeros((1, WARPS, 16 * columns), np.float32), np.zeros(WARPS, np.uint32))
    first = add.simulate(x, out=empty, schedule=schedule, sanitize="strict")
    second = read.simulate(first.outputs[0], schedule=schedule, sanitize="strict")
    for report in (first, second):
        assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    return np.asarray(second.outputs[0])


@pytest.mark.one_in(2)
@pytest.mark.sample(2)
@pytest.mark.parametrize(("columns", "ctas"), [(8, 1), (64, 3), (80, 2)])
@pytest.mark.parametrize("direct", [False, True])
def test_sums(columns: int, ctas: int, direct: bool) -> None:
    x = np.random.default_rng(columns).integers(-9, 9, (ctas, 64, columns)).astype(np.float32)
    for schedule in ("eager", "late"):
        assert np.array_equal(run(x, schedule, direct=direct), 2 * x.sum(0))


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_terms_in_order(schedule: str) -> None:
    """Numbers whose f32 sum depends on the order give that of the order of the CTAs."""
    x = np.random.default_rng(1).standard_normal((4, 64, 8)).astype(np.float32)
    x *= np.float32([1e6, 1, 1e4, 1e-2])[:, None, None]
    expected = np.zeros((64, 8), np.float32)
    for term in (*x, *x):
        expected += term
    assert not np.array_equal(expected, sum(x[::-1]) * np.float32(2))
    assert np.array_equal(run(x, schedule, ordered=True), expected)


def test_what_is_refused() -> None:
    for columns in (0, 12, 264):
        with pytest.raises(SpecError, match="columns is"):
            kit.SummedAccumulator(columns, warps=4)
    with pytest.raises(SpecError, match="warps is 0"):
        kit.SummedAccumulator(64, warps=0)

    @kernel(out_specs=(Tile(1, f32),), block=128, arch="sm_90a")
    def other(Y):  # type: ignore[no-untyped-def]
        sums = kit.SummedAccumulator(64, warps=4)
        sums.stage(ptx.wgmma.accumulator(n=32), sums.staging().rows(0, 1), ptx.warp.elect())

    with pytest.raises(SpecError, match="32 columns: expected 64"):
        other.ptx()
