"""Launches: a kernel's start and end, events, kernels in a row, the turnaround of CTAs, launch control."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....core.types import u8, u64
from ....dsl import Tile, TileParam, ptx, reg, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import initialized, now, one_lane, one_thread, read, wait

__all__ = ["BENCHMARKS"]

_WARP = 32
#: Launches in a row, few and many.
_FEW, _MANY = 4, 36
_TARGETS_CLC = ("sm_100a",)
#: What a CTA writes: when it began and ended, and the multiprocessor, plus 1.
_COLUMNS = 3


@cache
def nothing(target: str, dependent: bool = False) -> Kernel:
    """Build a kernel that does nothing; with ``dependent`` it starts before the launch before has ended."""

    @kernel(
        grid=1,
        block=_WARP,
        arch=target,
        dependent=dependent,
        name=f"nothing{'_dependent' if dependent else ''}",
    )
    def section() -> None:
        if dependent:
            ptx.griddepcontrol.launch_dependents()
            ptx.griddepcontrol.wait()
        else:
            ptx.bar.warp_sync()

    return section


def _launch(bench: Bench) -> dict[str, Readings]:
    """Events around nothing, around a kernel that does nothing, and around several in a row.

    All wait behind other work, so that the host is no part of their time. What events add to a launch is the
    time between two with nothing between them.
    """
    device, runs = bench.device, range(bench.device.repeats)

    def times(count: int, dependent: bool = False) -> Readings:
        launched = nothing(device.target, dependent) if count else None
        return np.array([device.stream(launched, count) for _ in runs])

    alone = times(1) - times(0)
    row, dependent = (
        (times(_MANY, dependent) - times(_FEW, dependent)) / (_MANY - _FEW) for dependent in (False, True)
    )
    return {
        "launch.event_ns": times(0),
        "launch.ns": alone,
        # A kernel without work adds the time from the last instruction before it to the next one's first.
        "launch.gap_ns": row,
        "launch.dependent_gap_ns": dependent,
    }


@cache
def turns(target: str, ctas: int, shared: int) -> Kernel:
    """Build a kernel of two CTAs for each multiprocessor, of which one is resident at a time."""

    @kernel(
        out_specs=(Tile(ctas, _COLUMNS, u64),),
        grid=ctas,
        block=_WARP,
        arch=target,
        extern_smem=True,
        name="turnaround",
    )
    def section(Out: TileParam) -> None:
        begin = ptx.special.clock64()
        smem.alloc(shared, u8)
        first, cta = one_thread(), ptx.special.ctaid.x()
        wide = reg.scalar(u64)
        ptx.inst.cvt.u64.u32(wide, ptx.special.smid() + 1)
        ptx.store(Out.at(cta, 0), begin, u64, pred=first)
        ptx.store(Out.at(cta, 2), wide, u64, pred=first)
        ptx.bar.sync(0)
        ptx.store(Out.at(cta, 1), ptx.special.clock64(), u64, pred=first)

    return section


def _turnaround(bench: Bench) -> dict[str, Readings]:
    """From the last read of the clock of a CTA to the first of the next one on its multiprocessor."""
    ctas = 2 * int(bench.value("sm.count"))
    shared = int(bench.value("sm.smem_bytes_per_cta")) * 3 // 4 // 1024 * 1024
    found = bench.device.run(turns(bench.device.target, ctas, shared)).output.astype(float)
    found = found[found[:, 2] > 0]
    gaps = []
    for number in np.unique(found[:, 2]):
        of_one = found[found[:, 2] == number]
        of_one = of_one[np.argsort(of_one[:, 0])]
        gaps.extend((of_one[1:, 0] - of_one[:-1, 1]) / bench.ghz)
    return {"cta.turnaround_ns": np.array(gaps)} if gaps else {}


@cache
def cancellations(target: str, ctas: int, shared: int) -> Kernel:
    """Build a kernel whose CTAs, two for each multiprocessor, ask once for a CTA that has not started."""

    @kernel(
        out_specs=(Tile(ctas, 1, u64),),
        grid=ctas,
        block=_WARP,
        arch=target,
        extern_smem=True,
        name="cancel",
    )
    def section(Out: TileParam) -> None:
        answer = smem.alloc(shared, u8, align=16)
        (done,) = initialized()
        with one_lane():
            begin = now()
            ptx.mbarrier.arrive_expect_tx(done, 16)
            ptx.clusterlaunchcontrol.try_cancel(answer, done)
            wait(done, 0)
            read(Out, ptx.special.ctaid.x(), begin)

    return section


def _cancel(bench: Bench) -> dict[str, Readings]:
    """The answer is there before the thread that waits for it goes on: the time to wake is not part of it."""
    ctas = 2 * int(bench.value("sm.count"))
    shared = int(bench.value("sm.smem_bytes_per_cta")) * 3 // 4 // 1024 * 1024
    found = bench.device.run(cancellations(bench.device.target, ctas, shared)).output.astype(float).ravel()
    wake = (
        bench.value("mbarrier.wake_clk")
        - bench.value("mbarrier.visible_clk")
        + bench.value("mbarrier.test_clk")
    )
    return {"clc.latency_clk": found[found > 0] - bench.overhead - wake}


BENCHMARKS = (
    Microbenchmark(
        "launches in a row",
        ("launch.event_ns", "launch.ns", "launch.gap_ns", "launch.dependent_gap_ns"),
        _launch,
    ),
    Microbenchmark("turnaround of CTAs", ("cta.turnaround_ns",), _turnaround),
    Microbenchmark("launch control", ("clc.latency_clk",), _cancel, _TARGETS_CLC),
)
