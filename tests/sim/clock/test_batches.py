"""Batches of products of one to three warpgroups, beside what an H200 took for the same kernels (2026-11-29)."""

from __future__ import annotations

import operator
from functools import partial

import numpy as np
import pytest

from pyptx import Tile, b32, bf16, f32, kernel, ptx, reg, u32, u64
from pyptx.entry import Kernel
from pyptx.tools.calibrate.kernels import cleared
from tests.sim.clock.tiles import rows

ROUNDS = 8
#: Cycles of the two instructions by which ptxas sets A of a product in registers to zero again. On the chip all
#: stand in front of the fence; here each stands at its product, beside products that run.
ZEROS = 4


def batches(parts: list[tuple[int, bool, int]], groups: int, think: int) -> Kernel:
    """Build a kernel whose warpgroups issue products, wait for all, and compute for ``think`` cycles.

    ``parts`` are N, whether A is in registers, and the number of products. The warpgroups begin half of
    ``think`` apart. The output has for each round and warpgroup the clocks before and behind the issue.
    """
    threads = 128 * groups

    @kernel(out_specs=(Tile(ROUNDS, groups, 2, u32),), block=threads, arch="sm_90a", extern_smem=True)
    def section(Out):
        tile_a = cleared((64 * groups, 64), bf16, threads)
        tile_b = cleared(rows(max(n for n, _, _ in parts), groups), bf16, threads)
        group = ptx.special.tid.x() >> 7
        a, b = reg.scalar(u64), ptx.wgmma.descriptor(tile_b)
        ptx.inst.mad.wide.u32(a, group, 64 * 128 // 16, ptx.wgmma.descriptor(tile_a))
        sums = [ptx.wgmma.accumulator(n=n) for n, _, _ in parts]
        for register in (each for acc in sums for each in acc):
            ptx.inst.mov.b32(register, 0)
        fragment = reg.array(b32, 4)
        for register in fragment:
            ptx.inst.mov.b32(register, 0)
        x, y = reg.scalar(f32, init=0.0), reg.scalar(f32)
        ptx.inst.cvt.rn.f32.u32(y, ptx.special.ctaid.x())
        first, turn, at = (ptx.special.tid.x() & 127) == 0, reg.scalar(u32, init=0), reg.scalar(u64)
        ptx.inst.mad.wide.u32(at, group, 8, Out.ptr)

        def compute(cycles: int) -> None:
            for _ in range(cycles // 4):
                ptx.inst.fma.rn.f32(x, x, y, y)

        ptx.bar.sync(0)
        for late in range(1, groups) if think else ():
            with ptx.if_(group == late):
                compute(late * think // 2)
        with ptx.do_while(partial(operator.lt, turn, ROUNDS)):
            ptx.pragma("nounroll")
            begin = ptx.special.clock()
            ptx.wgmma.fence()
            for acc, (_, in_registers, products) in zip(sums, parts, strict=True):
                for _ in range(products):
                    ptx.wgmma.mma_async(acc, fragment if in_registers else a, b, atype=bf16)
                ptx.wgmma.commit_group()
            issued = ptx.special.clock()
            ptx.wgmma.wait_group(0)
            compute(think)
            ptx.inst.st.volatile.global_.u32(ptx.addr(at), begin, pred=first)
            ptx.inst.st.volatile.global_.u32(ptx.addr(at, 4), issued, pred=first)
            ptx.inst.add.u64(at, at, 8 * groups)
            turn += 1
        never = ptx.special.nctaid.z() == 0
        ptx.store(ptx.addr(Out.ptr), x, pred=never)
        for register in (each for acc in sums for each in acc):
            ptx.store(ptx.addr(Out.ptr), register, pred=never)

    return section


SHARED, REGISTERS = [(64, False, 8)], [(128, True, 8)]
MIXED = [(64, False, 8), (128, True, 4)]


@pytest.mark.full
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("parts", "groups", "think", "period", "issue"),
    [
        # Two and three warpgroups that only multiply: the tensor core is never idle, and a batch of 8 takes
        # twice its time to issue.
        (SHARED, 2, 0, 516, 237),
        (REGISTERS, 2, 0, 1024, 535),
        (REGISTERS, 3, 0, 1533, 1044),
        (MIXED, 2, 0, 1028, 631),
        # They come while the other computes: what stands in front of the fence shows.
        (SHARED, 2, 400, 744, 72),
        (REGISTERS, 2, 400, 1077 - 8 * ZEROS, 175 - 8 * ZEROS),
        (REGISTERS, 3, 400, 1536, 620),
        (MIXED, 2, 800, 1434 - 4 * ZEROS, 223 - 4 * ZEROS),
    ],
)
def test_rounds_of_warpgroups(
    parts: list[tuple[int, bool, int]], groups: int, think: int, period: float, issue: float
) -> None:
    out = np.zeros((ROUNDS, groups, 2), np.uint32)
    found = batches(parts, groups, think).predict(gpu="h200", clock=1980.0, data="zeros", out=out)
    assert str(found.verdict) == "clean"
    clocks = out[2:].astype(np.int64)
    assert np.diff(clocks[..., 0], axis=0).mean() == pytest.approx(period, rel=0.035)
    assert (clocks[..., 1] - clocks[..., 0]).mean() == pytest.approx(issue, rel=0.1, abs=15)
