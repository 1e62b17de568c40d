"""Reads of registers by several warps of a scheduler, and the clock beside products of warps."""

from __future__ import annotations

from functools import cache

import pytest

from pyptx import Tile, b32, f32, kernel, ptx, reg
from pyptx.entry import Kernel
from pyptx.timing.constants import gpu

H200 = gpu("h200")
#: Multiply-adds of a thread between two lengths of the loop, and warps of a scheduler.
STEPS, WARPS = 128, 4


@cache
def multiply(three: bool, rounds: int) -> Kernel:
    """Build a kernel whose threads have eight sums, with two factors for each, or the sum as one of them."""

    @kernel(out_specs=(Tile(1, f32),), block=128 * WARPS, arch="sm_90a", name=f"sums_{three}_{rounds}")
    def sums(Out):
        some = [ptx.cvt(ptx.special.tid.x() + n, f32, rounding="rn") for n in range(8)]
        factors = [ptx.cvt(ptx.special.tid.x() * n, f32, rounding="rn") for n in range(3, 11)]
        others = [ptx.cvt(ptx.special.tid.x() * n, f32, rounding="rn") for n in range(11, 19)]
        with ptx.for_(0, ptx.special.nctaid.x() * rounds):
            ptx.pragma("nounroll")
            for _ in range(STEPS // 8):
                for each, a, b in zip(some, factors, others, strict=True):
                    ptx.inst.fma.rn.f32(each, each, a, b if three else each)
        for each in some:
            ptx.store(Out.at(0), each, f32, pred=each == 1.0)

    return sums


@pytest.mark.full
@pytest.mark.parametrize(("three", "least", "most"), [(True, 1.49, 1.76), (False, 0.99, 1.05)])
def test_what_several_warps_read_fills_the_banks_of_registers(three: bool, least: float, most: float) -> None:
    """Measured on an H200: multiply-adds of three registers take 1.5 to 1.75 clk, by how ptxas places them."""
    few, many = (multiply(three, rounds).predict(gpu=H200, clock=1980.0).cycles for rounds in (2, 6))
    assert least <= (many - few) / (4 * STEPS * WARPS) <= most


@kernel(out_specs=(Tile(1, f32),), block=32, grid=132, arch="sm_90a")
def products(Out):
    a, b, total = (reg.array(kind, n) for kind, n in ((b32, 4), (b32, 2), (f32, 4)))
    for each in (*a, *b):
        ptx.inst.mov.b32(each, ptx.special.ctaid.x())
    for each in total:
        ptx.inst.mov.f32(each, 0.0)
    with ptx.for_(0, 64):
        ptx.inst.mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32(total, a, b, total)
    ptx.store(Out.at(0), total[0], f32, pred=total[0] == 1.0)


@pytest.mark.full
def test_products_of_warps_lower_the_clock() -> None:
    """ncu, H200: kernels of mma.sync run at 1720 to 1840 MHz, as those of wgmma do at most."""
    found = products.predict(gpu=H200, clock="burst")
    most = H200.value("sm.clock_max_mhz") * (1 - H200.value("power.tensor_droop"))
    assert found.mhz == pytest.approx(most, rel=0.01)
