"""Warpgroups on the tensor core, beside what an H200 took for the same kernels."""

from __future__ import annotations

import operator
from functools import partial

import numpy as np
import pytest

from pyptx import Tile, bf16, kernel, ptx, reg, u32, u64
from pyptx.entry import Kernel
from pyptx.tools.calibrate.kernels import cleared

ROUNDS, PRODUCTS, DELAY = 8, 4, 150


def contending(n: int) -> Kernel:
    """Build a kernel whose warpgroups each multiply four times and wait, the second one later by a delay.

    Its output has for each round the clock behind the wait of both.
    """

    @kernel(out_specs=(Tile(ROUNDS, 2, u64),), block=256, arch="sm_90a")
    def section(Out):
        tile_a, tile_b = cleared((128, 64), bf16, 256), cleared((n, 64), bf16, 256)
        group = ptx.special.tid.x() >> 7
        a = reg.scalar(u64)
        ptx.inst.mad.wide.u32(a, group, 64 * 128 // 16, ptx.wgmma.descriptor(tile_a))
        b = ptx.wgmma.descriptor(tile_b)
        acc = ptx.wgmma.accumulator(n=n)
        turn, passed = reg.scalar(u32, init=0), reg.scalar(u64, init=0)
        ptx.bar.sync(0)
        start = ptx.special.clock64()
        with ptx.if_(group == 1), ptx.do_while(partial(operator.lt, passed, DELAY)):
            ptx.inst.sub.u64(passed, ptx.special.clock64(), start)
        with ptx.do_while(partial(operator.lt, turn, ROUNDS)):
            ptx.pragma("nounroll")
            ptx.wgmma.fence()
            for k in range(PRODUCTS):
                ptx.wgmma.mma_async(
                    acc, ptx.wgmma.advance(a, 32 * k), ptx.wgmma.advance(b, 32 * k), atype=bf16, scale_d=k > 0
                )
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.store(
                Out.at(turn, group),
                ptx.special.clock64() - start,
                u64,
                pred=(ptx.special.tid.x() & 127) == 0,
            )
            turn += 1
        never = ptx.special.nctaid.z() == 0
        for value in acc:
            ptx.store(ptx.addr(Out.ptr), value, pred=never)

    return section


@pytest.mark.full
@pytest.mark.parametrize(("n", "measured"), [(128, 540), (256, 1052)])
def test_batches_of_two_warpgroups_run_one_after_the_other(n: int, measured: int) -> None:
    ends = np.zeros((ROUNDS, 2), np.uint64)
    found = contending(n).predict(gpu="h200", clock=1980.0, data="zeros", out=ends)
    assert str(found.verdict) == "clean"
    periods = np.diff(ends.astype(np.int64), axis=0)[2:]
    # The chip loses 14 cycles between two batches here, and none between those of test_batches.py.
    assert periods.mean() == pytest.approx(measured - 28, rel=0.01)
    # Neither batch is cut: the warpgroups end half a period apart.
    apart = ends[4:, 1].astype(np.int64) - ends[4:, 0].astype(np.int64)
    period = measured - 28
    assert np.abs(apart % period - period / 2).max() <= period / 8


@kernel(out_specs=(Tile(2, u64),), block=128, arch="sm_90a")
def late(Out):
    """Four products of a warpgroup whose first warp comes 300 cycles later than the others."""
    tile = cleared((128, 64), bf16, 128)
    operand = ptx.wgmma.descriptor(tile)
    acc = ptx.wgmma.accumulator(n=128)
    for register in acc:
        ptx.inst.mov.b32(register, 0)
    tid, passed = ptx.special.tid.x(), reg.scalar(u64, init=0)
    ptx.bar.sync(0)
    start = ptx.special.clock64()
    with ptx.if_(tid < 32), ptx.do_while(partial(operator.lt, passed, 300)):
        ptx.inst.sub.u64(passed, ptx.special.clock64(), start)
    ptx.wgmma.fence()
    begun = ptx.special.clock64()
    for _ in range(PRODUCTS):
        ptx.wgmma.mma_async(acc, operand, operand, atype=bf16)
    ptx.wgmma.commit_group()
    ptx.wgmma.wait_group(0)
    took = ptx.special.clock64() - begun
    ptx.store(Out.at(0), took, u64, pred=tid == 0)
    ptx.store(Out.at(1), took, u64, pred=tid == 127)
    never = ptx.special.nctaid.z() == 0
    for value in acc:
        ptx.store(ptx.addr(Out.ptr), value, pred=never)


def test_a_product_begins_when_its_last_warp_has_issued_it() -> None:
    """On an H200 (2026-11-28) the wait of a warp that comes 200 cycles later is as long as without delay."""
    out = np.zeros(2, np.uint64)
    assert str(late.predict(gpu="h200", clock=1980.0, data="zeros", out=out).verdict) == "clean"
    last, first = out.astype(float)
    assert PRODUCTS * 64 <= last <= PRODUCTS * 64 + 120
    assert first - last == pytest.approx(300, abs=60)
