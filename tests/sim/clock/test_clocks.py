"""The clocks that kernels read on the timed machine, sleeps, and barriers that all warps leave together."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import Tile, f32, kernel, ptx, u32, u64
from pyptx.timing.constants import gpu

H200 = gpu("h200")
#: Cycles of the instructions around what is measured, at most.
AROUND = 40


def run(built, mhz: float, *inputs) -> np.ndarray:
    """Return what a kernel writes on the timed machine."""
    (spec,) = built.options.specs[len(inputs) :]
    out = np.zeros(spec.shape({}), np.uint64)
    found = built.predict(*inputs, gpu=H200, clock=mhz, out=out)
    assert str(found.verdict) == "clean", found.findings
    return out.astype(float)


@kernel(out_specs=(Tile(2, u64),), block=32, arch="sm_90a")
def sleeps(Out):
    first = ptx.special.tid.x() == 0
    timer, clock = ptx.special.globaltimer(), ptx.special.clock64()
    ptx.nanosleep(5000)
    cycles, ns = ptx.special.clock64() - clock, ptx.special.globaltimer() - timer
    ptx.store(Out.at(0), cycles, u64, pred=first)
    ptx.store(Out.at(1), ns, u64, pred=first)


@pytest.mark.parametrize("mhz", [1000.0, 1800.0])
def test_clocks_count_cycles_and_ns(mhz: float) -> None:
    cycles, ns = run(sleeps, mhz)
    assert cycles == pytest.approx(5000 * mhz / 1000, abs=AROUND)
    assert ns == pytest.approx(5000, abs=AROUND)


@kernel(in_specs=(Tile(32, u32),), out_specs=(Tile(3, u64),), block=32, arch="sm_90a")
def loads(A, Out):
    lane = ptx.special.laneid()
    begin = ptx.special.clock64()
    value = ptx.load(u32, A.at(lane))
    issued = ptx.special.clock64() - begin
    used = value + 1
    arrived = ptx.special.clock64() - begin
    ptx.store(Out.at(0), issued, u64, pred=lane == 0)
    ptx.store(Out.at(1), arrived, u64, pred=lane == 0)
    ptx.store(Out.at(2), 1, u64, pred=used != 0)


def test_a_read_of_the_clock_waits_for_no_load_before_it() -> None:
    mhz = H200.value("sm.clock_max_mhz")
    issued, arrived, _ = run(loads, mhz, np.zeros(32, np.uint32))
    # The clock is read into the registers of the address, once the load has read them.
    assert 0 < issued <= AROUND + H200.value("lsu.read_clk")
    assert arrived == pytest.approx(H200.value("ldg.latency_hbm_clk"), abs=AROUND)


@kernel(in_specs=(Tile(4, 32, f32),), out_specs=(Tile(2, u64),), block=32, arch="sm_90a")
def sums(A, Out):
    lane = ptx.special.laneid()
    begin = ptx.special.clock64()
    one = ptx.load(f32, A.at(0, lane))
    one += one
    alone = ptx.special.clock64() - begin
    begin = ptx.special.clock64()
    values = [ptx.load(f32, A.at(row, lane)) for row in range(1, 4)]
    total = values[0] + values[1] + values[2]
    together = ptx.special.clock64() - begin
    ptx.store(Out.at(0), alone, u64, pred=lane == 0)
    ptx.store(Out.at(1), together, u64, pred=lane == 0)
    ptx.store(Out.at(1), 1, u64, pred=(one + total) != 0)


def test_loads_in_a_row_wait_together_where_they_are_used() -> None:
    """The last one is issued before the first one is there, although sums of the first stand behind it."""
    alone, together = run(sums, 1800.0, np.zeros((4, 32), np.float32))
    assert alone > 600
    assert together <= alone + AROUND


@kernel(out_specs=(Tile(4, u64),), block=128, arch="sm_90a")
def meet(Out):
    warp = ptx.special.tid.x() >> 5
    with ptx.if_(warp == 2):
        ptx.nanosleep(3000)
    ptx.bar.sync(0)
    left = ptx.special.clock64()
    ptx.store(Out.at(warp), left, u64, pred=ptx.special.laneid() == 0)


def test_all_warps_leave_a_barrier_together() -> None:
    """Also the last one that comes, which does not wait for another."""
    left = run(meet, 1800.0)
    assert left.max() - left.min() <= 4
