"""Code of threads beside products of other warpgroups, beside what an H200 took for the same kernels (2026-11-29)."""

from __future__ import annotations

import operator
from functools import partial

import numpy as np
import pytest

from pyptx import Tile, bf16, f32, kernel, ptx, reg, u32, u64
from pyptx.dsl import Reg
from pyptx.entry import Kernel
from pyptx.tools.calibrate.kernels import cleared
from tests.sim.clock.tiles import rows

pytestmark = pytest.mark.full

ROUNDS, INSTRUCTIONS, COLUMNS = 12, 256, 128


def compute(form: str, sums: list[Reg], parts: list[Reg], factor: Reg) -> None:
    """Record independent multiply-adds, a chain of them, exponentials, or multiply-adds with exponentials."""
    for i in range(INSTRUCTIONS):
        value, part = sums[i % len(sums)], parts[i % len(parts)]
        if form == "chain":
            ptx.inst.fma.rn.f32(sums[0], sums[0], factor, factor)
        elif form == "in a row" or (form == "mixed" and i % 8):
            ptx.inst.fma.rn.f32(value, part, factor, value)
        elif form == "mixed" or i % 4 == 0:
            ptx.inst.ex2.approx.ftz.f32(value, value)


def steady(form: str, multiplying: int, computing: int) -> Kernel:
    """Build a kernel in which some warpgroups only multiply, 16 products a round, and others only compute.

    The output has the clock of each round of the warps that compute.
    """
    groups = multiplying + computing
    threads = 128 * groups

    @kernel(out_specs=(Tile(ROUNDS, 4 * computing, u32),), block=threads, arch="sm_90a", extern_smem=True)
    def section(Out):
        tile_a, tile_b = (cleared(rows(COLUMNS, groups), bf16, threads) for _ in range(2))
        group, warp = ptx.special.tid.x() >> 7, ptx.special.tid.x() >> 5
        a, b = ptx.wgmma.descriptor(tile_a), ptx.wgmma.descriptor(tile_b)
        acc = ptx.wgmma.accumulator(n=COLUMNS)
        for register in acc:
            ptx.inst.mov.b32(register, 0)
        factor = reg.scalar(f32)
        ptx.inst.cvt.rn.f32.u32(factor, ptx.special.ctaid.x())
        sums, parts = reg.array(f32, 32), reg.array(f32, 16)
        for number, register in enumerate((*sums, *parts)):
            ptx.inst.add.f32(register, factor, float(number + 1))
        turn, at = reg.scalar(u32, init=0), reg.scalar(u64)
        ptx.bar.sync(0)
        with ptx.if_(group < multiplying), ptx.do_while(partial(operator.lt, turn, 2 * ROUNDS)):
            ptx.pragma("nounroll")
            ptx.wgmma.fence()
            for _ in range(16):
                ptx.wgmma.mma_async(acc, a, b, atype=bf16)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            turn += 1
        with ptx.if_(group >= multiplying):
            first = (ptx.special.tid.x() & 31) == 0
            ptx.inst.mad.wide.u32(at, warp - 4 * multiplying, 4, Out.ptr)
            with ptx.do_while(partial(operator.lt, turn, ROUNDS)):
                ptx.pragma("nounroll")
                begin = ptx.special.clock()
                compute(form, list(sums), list(parts), factor)
                ptx.inst.st.volatile.global_.u32(ptx.addr(at), begin, pred=first)
                ptx.inst.add.u64(at, at, 16 * computing)
                turn += 1
        never = ptx.special.nctaid.z() == 0
        for register in (*acc, *sums):
            ptx.store(ptx.addr(Out.ptr), register, pred=never)

    return section


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("form", "multiplying", "computing", "cycles"),
    [
        # Multiply-adds in a row lose nothing to products; what stands around them does.
        ("in a row", 1, 2, 528),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (
                ("in a row", 1, 1, 308),
                ("in a row", 2, 1, 340),
                # Two chains, which fit beside each other without products, take twice as long.
                ("chain", 1, 2, 1955),
                ("chain", 2, 1, 1117),
                ("exponentials", 2, 1, 724),
                ("mixed", 1, 2, 612),
                ("mixed", 2, 1, 397),
            )
        ),
    ],
)
def test_code_beside_products(form: str, multiplying: int, computing: int, cycles: float) -> None:
    out = np.zeros((ROUNDS, 4 * computing), np.uint32)
    found = steady(form, multiplying, computing).predict(gpu="h200", clock=1980.0, data="zeros", out=out)
    assert str(found.verdict) == "clean"
    assert np.diff(out[2:].astype(np.int64), axis=0).mean() == pytest.approx(cycles, rel=0.16)
