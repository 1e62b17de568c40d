"""Barriers: of CTAs and clusters, mbarriers, warps, and fences.

Each operation runs ``few`` and ``many`` times in a row in one section; the difference is what one more takes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from ....core.types import u32
from ....dsl import Buffer, TileParam, ptx, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_round, initialized, now, one_lane, one_thread, read, readings, wait

__all__ = ["BENCHMARKS"]

_FEW, _MANY = 4, 20
_WARP = 32
#: Cycles of the branch behind a try, by ptxas's control codes.
_BRANCH = 5.0


@cache
def repeated(name: str, target: str, rounds: int, threads: int, cluster: int, count: int) -> Kernel:
    """Build a kernel whose section is ``count`` times the operation ``name``."""
    operation = _OPERATIONS[name]

    @kernel(
        out_specs=(readings(rounds),),
        grid=cluster,
        block=threads,
        cluster=cluster,
        arch=target,
        name=f"sync_{name}_{threads}x{count}",
    )
    def section(Out: TileParam) -> None:
        (barrier,), word = initialized(), smem.alloc(1, u32)
        first = one_thread() if cluster == 1 else (ptx.special.tid.x() | ptx.special.ctaid.x()) == 0
        with each_round(rounds) as turn:
            ptx.bar.sync(0)
            begin = now()
            for _ in range(count):
                operation(barrier, word)
            read(Out, turn, begin, pred=first)

    return section


def _cluster_barrier(barrier: Buffer, word: Buffer) -> None:
    ptx.cluster.arrive(aligned=True)
    ptx.cluster.wait(aligned=True)


def _store_and_fence(barrier: Buffer, word: Buffer) -> None:
    ptx.inst.st.volatile.shared.u32(ptx.addr(word), 0)
    ptx.fence.proxy_async("shared::cta")


_OPERATIONS: dict[str, Callable[[Buffer, Buffer], None]] = {
    "bar_sync": lambda barrier, word: ptx.bar.sync(0),
    "bar_warp_sync": lambda barrier, word: ptx.bar.warp_sync(),
    "cluster": _cluster_barrier,
    "test": lambda barrier, word: wait(barrier, 1),
    "fence_proxy": lambda barrier, word: ptx.fence.proxy_async("shared::cta"),
    "store_fence_proxy": _store_and_fence,
    "fence_proxy_all": lambda barrier, word: ptx.fence.proxy_async(),
    "fence_gpu": lambda barrier, word: ptx.fence.acq_rel("gpu"),
}


def one(bench: Bench, name: str, threads: int = _WARP, cluster: int = 1) -> Readings:
    """Return the cycles of one more operation."""
    build = partial(repeated, name, bench.device.target, bench.device.rounds, threads, cluster)
    return bench.slope(build, _FEW, _MANY)


@cache
def arrivals(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel in which the only thread that has not ended arrives ``count`` times in a row."""

    @kernel(out_specs=(readings(rounds),), block=_WARP, arch=target, name=f"arrivals_{count}")
    def section(Out: TileParam) -> None:
        # More arrivals than all rounds make: no phase ends.
        (barrier,) = initialized(arrivals=1 + rounds * count)
        with one_lane(), each_round(rounds) as turn:
            begin = now()
            for _ in range(count):
                ptx.mbarrier.arrive(barrier)
            read(Out, turn, begin)

    return section


def _arrive(bench: Bench) -> dict[str, Readings]:
    build = partial(arrivals, bench.device.target, bench.device.rounds)
    return {"mbarrier.arrive_clk": bench.slope(build, _FEW, _MANY)}


def _cta_barriers(bench: Bench) -> dict[str, Readings]:
    """The line through the barrier's time over the warps: its base, and its slope."""
    warps = np.array([2, 4, 8, 16])
    times = np.stack([one(bench, "bar_sync", _WARP * int(count)) for count in warps])
    slope, base = np.polyfit(warps, times, 1)
    return {"bar.sync_clk": base, "bar.sync_per_warp_clk": np.maximum(slope, 0.0)}


@cache
def ping_pong(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel in which two warps wake each other in turn, ``count`` times each."""

    @kernel(out_specs=(readings(rounds),), block=2 * _WARP, arch=target, name=f"ping_pong_{count}")
    def section(Out: TileParam) -> None:
        there, back = initialized(2)
        first, lane = one_thread(), ptx.special.laneid() == 0
        ping = ptx.special.tid.x() < _WARP
        with each_round(rounds) as turn:
            ptx.bar.sync(0)
            begin = now()
            # A round has an even number of phases, so that it begins with parity 0.
            with ptx.if_(ping):
                for number in range(count):
                    ptx.mbarrier.arrive(there, pred=lane)
                    wait(back, number & 1)
            with ptx.else_():
                for number in range(count):
                    wait(there, number & 1)
                    ptx.mbarrier.arrive(back, pred=lane)
            read(Out, turn, begin, pred=first)

    return section


def _wake(bench: Bench) -> dict[str, Readings]:
    """A ping-pong of two warps: each turn has two arrivals that wake a parked warp, and two branches."""
    return {"mbarrier.wake_clk": _woken(bench, ping_pong)}


def _woken(bench: Bench, ping_pong: Callable[[str, int, int], Kernel]) -> Readings:
    """Return the cycles of an arrival of a ping-pong to the wake, without the code around."""
    build = partial(ping_pong, bench.device.target, bench.device.rounds)
    around = bench.value("mbarrier.arrive_clk") + _BRANCH
    return bench.slope(build, _FEW, _MANY) / 2 - around


@cache
def peer_ping_pong(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel in which the CTAs of a pair wake each other in turn, ``count`` times each."""

    @kernel(out_specs=(readings(rounds),), grid=2, cluster=2, block=_WARP, arch=target, name=f"peers_{count}")
    def section(Out: TileParam) -> None:
        (own,) = initialized()
        rank = ptx.cluster.rank()
        ptx.cluster.sync(aligned=True)
        with one_lane():
            other = ptx.cluster.map(own, rank ^ 1)
            with each_round(rounds) as turn:
                begin = now()
                # A round has an even number of phases, so that it begins with parity 0.
                for number in range(count):
                    with ptx.if_(rank == 0):
                        ptx.mbarrier.arrive(other, space="cluster")
                    wait(own, number & 1)
                    with ptx.if_(rank != 0):
                        ptx.mbarrier.arrive(other, space="cluster")
                read(Out, turn, begin, pred=rank == 0)
        ptx.cluster.sync(aligned=True)

    return section


def _peer_wake(bench: Bench) -> dict[str, Readings]:
    """The same of two CTAs."""
    return {"mbarrier.peer_wake_clk": _woken(bench, peer_ping_pong)}


@cache
def own_phase(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel in which a thread arrives and tests its own phase until it is complete."""

    @kernel(out_specs=(readings(rounds),), block=_WARP, arch=target, name=f"own_phase_{count}")
    def section(Out: TileParam) -> None:
        (barrier,) = initialized()
        first = one_thread()
        with each_round(rounds) as turn:
            ptx.bar.warp_sync()
            begin = now()
            for number in range(count):
                ptx.mbarrier.arrive(barrier, pred=first)
                wait(barrier, number & 1)
            read(Out, turn, begin, pred=first)

    return section


def _visible(bench: Bench) -> dict[str, Readings]:
    build = partial(own_phase, bench.device.target, bench.device.rounds)
    return {"mbarrier.visible_clk": bench.slope(build, _FEW, _MANY)}


def _simple(constant: str, operation: str) -> Microbenchmark:
    return Microbenchmark(constant, (constant,), lambda bench: {constant: one(bench, operation)})


BENCHMARKS = (
    Microbenchmark("barrier of a CTA", ("bar.sync_clk", "bar.sync_per_warp_clk"), _cta_barriers),
    Microbenchmark(
        "barrier of a cluster",
        ("bar.cluster_clk",),
        lambda bench: {"bar.cluster_clk": one(bench, "cluster", cluster=2)},
    ),
    Microbenchmark("mbarrier.arrive_clk", ("mbarrier.arrive_clk",), _arrive),
    Microbenchmark("wake by an mbarrier", ("mbarrier.wake_clk",), _wake),
    Microbenchmark("wake by another CTA", ("mbarrier.peer_wake_clk",), _peer_wake),
    Microbenchmark("own phase of an mbarrier", ("mbarrier.visible_clk",), _visible),
    _simple("mbarrier.test_clk", "test"),
    _simple("bar.warp_sync_clk", "bar_warp_sync"),
    _simple("fence.proxy_async_clk", "fence_proxy"),
    _simple("fence.behind_store_clk", "store_fence_proxy"),
    _simple("fence.proxy_async_all_clk", "fence_proxy_all"),
    _simple("fence.gpu_clk", "fence_gpu"),
)
