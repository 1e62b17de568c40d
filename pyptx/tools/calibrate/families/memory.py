"""Memory, L2 and the fabric, which all multiprocessors share: bytes that move in a ns.

One thread of each multiprocessor keeps several bulk copies in flight. A rate is the difference of the bytes
of a long and a short launch over the difference of their times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Literal

import numpy as np

from ....core.types import u8, u64
from ....dsl import Buffer, Reg, Tile, TileParam, ptx, reg, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import cleared, initialized, one_lane, wait

__all__ = ["BENCHMARKS", "copied", "loaded", "stored"]

_THREADS = 32
#: Copies in flight of a multiprocessor, and bytes of each. They take more than half of its shared memory, so
#: that it runs one CTA.
_DEPTH, _PIECE = 8, 16384
_TURN = _DEPTH * _PIECE

#: A rate is another one than the limit if it is below this share of it.
_CLEARLY = 0.98
#: CTAs of a cluster that load for each other.
_CLUSTER = 4

#: Whether each CTA loads new pieces all the time, or its first pieces again and again.
Pattern = Literal["stream", "again"]


def _place(base: Reg, nbytes: int) -> Reg:
    """Return the address of the CTA's part of an array. Records two instructions."""
    place = reg.scalar(u64)
    ptx.inst.mad.wide.u32(place, ptx.special.ctaid.x(), nbytes, base)
    return place


@cache
def loaded(target: str, ctas: int, pattern: Pattern, turns: int) -> Kernel:
    """Build a kernel of which every CTA loads ``turns`` times as many pieces as are in flight."""
    region = _TURN * (turns if pattern == "stream" else 1)

    @kernel(
        in_specs=(Tile(region * ctas, u8),),
        grid=ctas,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"load_{pattern}_{turns}",
    )
    def section(A: TileParam) -> None:
        stages = smem.alloc(_PIECE, u8, align=128, stages=_DEPTH)
        full = initialized(_DEPTH)
        with one_lane():
            place = _place(A.ptr, region)
            _load(stages, full, place)
            with ptx.for_(1, turns) as turn:
                if pattern == "stream":
                    place += _TURN
                _load(stages, full, place, turn)
            for barrier in full:
                wait(barrier, (turns - 1) & 1)

    return section


def _load(
    stages: Buffer,
    full: list[Buffer],
    place: Reg,
    turn: Reg | None = None,
    done: Callable[[int], None] | None = None,
) -> None:
    """Load a piece into each slot; ``turn`` is the number of the turn, whose slots were loaded before.

    ``done`` is called for each slot when its piece of the turn before is there.
    """
    for slot, barrier in enumerate(full):
        if turn is not None:
            wait(barrier, (turn - 1) & 1)
        if done is not None:
            done(slot)
        ptx.mbarrier.arrive_expect_tx(barrier, _PIECE)
        ptx.cp.async_.bulk.load(stages[slot], ptx.addr(place, slot * _PIECE), _PIECE, barrier)


@cache
def multicast(target: str, clusters: int, turns: int) -> Kernel:
    """Build a kernel of clusters of four whose CTAs each load a quarter of every piece for all four.

    Pieces are the same in all turns. A CTA loads into a slot when all four have got what was there.
    """
    part = _PIECE // _CLUSTER

    @kernel(
        in_specs=(Tile(clusters * _TURN, u8),),
        grid=clusters * _CLUSTER,
        cluster=_CLUSTER,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"multicast_stream_{turns}",
    )
    def section(A: TileParam) -> None:
        stages = smem.alloc((_CLUSTER, part), u8, align=128, stages=_DEPTH)
        full, empty = initialized(_DEPTH), initialized(_DEPTH, _CLUSTER)
        rank = ptx.cluster.rank()
        ptx.cluster.sync(aligned=True)
        with one_lane():
            place = reg.scalar(u64)
            ptx.inst.mad.wide.u32(place, ptx.special.clusterid.x(), _TURN, A.ptr)
            ptx.inst.mad.wide.u32(place, rank, part, place)

            def load(slot: int) -> None:
                ptx.mbarrier.arrive_expect_tx(full[slot], _PIECE)
                ptx.cp.async_.bulk.load(
                    stages[slot].addr + rank * part,
                    ptx.addr(place, slot * _PIECE),
                    part,
                    full[slot],
                    multicast=(1 << _CLUSTER) - 1,
                )

            for slot in range(_DEPTH):
                load(slot)
            with ptx.for_(1, turns) as turn:
                for slot in range(_DEPTH):
                    wait(full[slot], (turn - 1) & 1)
                    for peer in range(_CLUSTER):
                        ptx.mbarrier.arrive(ptx.cluster.map(empty[slot], peer), space="cluster")
                    # Arrivals take their time to the other CTAs.
                    if slot:
                        wait(empty[slot - 1], (turn - 1) & 1)
                        load(slot - 1)
                wait(empty[_DEPTH - 1], (turn - 1) & 1)
                load(_DEPTH - 1)
            for barrier in full:
                wait(barrier, (turns - 1) & 1)
        ptx.cluster.sync(aligned=True)

    return section


@cache
def stored(target: str, ctas: int, turns: int) -> Kernel:
    """Build a kernel of which every CTA stores ``turns`` times as many pieces as are in flight."""
    region = _TURN * turns

    @kernel(
        in_specs=(Tile(region * ctas, u8),),
        grid=ctas,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"store_stream_{turns}",
    )
    def section(A: TileParam) -> None:
        smem.alloc(_PIECE, u8, align=128, stages=_DEPTH)
        piece = cleared((_PIECE,), u8, _THREADS, swizzle="none")
        with one_lane():
            place = _place(A.ptr, region)
            with ptx.for_(0, turns):
                for slot in range(_DEPTH):
                    _store(place, slot, piece)
                    ptx.cp.async_.bulk.wait_group(_DEPTH - 1)
                place += _TURN
            ptx.cp.async_.bulk.wait_group(0)

    return section


def _store(place: Reg, slot: int, piece: Buffer) -> None:
    ptx.cp.async_.bulk.store(ptx.addr(place, slot * _PIECE), piece, _PIECE)
    ptx.cp.async_.bulk.commit_group()


@cache
def copied(target: str, ctas: int, turns: int) -> Kernel:
    """Build a kernel of which every CTA loads and stores ``turns`` times as many pieces as are in flight."""
    region = _TURN * turns

    @kernel(
        in_specs=(Tile(region * ctas, u8), Tile(region * ctas, u8)),
        grid=ctas,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"copy_stream_{turns}",
    )
    def section(A: TileParam, B: TileParam) -> None:
        stages = smem.alloc(_PIECE, u8, align=128, stages=_DEPTH)
        full = initialized(_DEPTH)
        with one_lane():
            source, to = _place(A.ptr, region), _place(B.ptr, region)

            def forward(slot: int) -> None:
                _store(to, slot, stages[slot])
                ptx.cp.async_.bulk.wait_group(0, read=True)

            _load(stages, full, source)
            with ptx.for_(1, turns) as turn:
                source += _TURN
                _load(stages, full, source, turn, forward)
                to += _TURN
            for slot, barrier in enumerate(full):
                wait(barrier, (turns - 1) & 1)
                forward(slot)
            ptx.cp.async_.bulk.wait_group(0)

    return section


def _rate(
    bench: Bench,
    build: Callable[[int], Kernel],
    few: int,
    many: int,
    arrays: int,
    pattern: Pattern = "stream",
) -> Readings:
    """Return the bytes that all CTAs move in a ns, between a launch with few and one with many turns."""
    ctas = int(bench.value("sm.count"))
    times = [
        bench.ns(build(turns), *[(_TURN * ctas * (turns if pattern == "stream" else 1),)] * arrays, cold=True)
        for turns in (few, many)
    ]
    return _TURN * (many - few) * ctas * arrays / (times[1] - times[0])


def _cached(bench: Bench) -> dict[str, Readings]:
    """Loads of what L2 holds, for four CTAs each, then for one each.

    Of the first, few bytes are read in L2, and many arrive. The second read all bytes that arrive: their rate
    is that of L2, unless it is as high as bytes can arrive.
    """
    target, ctas = bench.device.target, int(bench.value("sm.count"))
    clusters = bench.device.fitting(multicast(target, 1, 2))
    few, many = 24, 192
    less, more = (bench.ns(multicast(target, clusters, n), (clusters * _TURN,)) for n in (few, many))
    arrived = _TURN * (many - few) * clusters * _CLUSTER / (more - less)
    read = _rate(bench, partial(loaded, target, ctas, "again"), few, many, 1, "again")
    found = {"l2.fabric_bytes_per_ns": arrived}
    return {**found, "l2.bytes_per_ns": read} if np.median(read) < _CLEARLY * np.median(arrived) else found


def _read(bench: Bench) -> dict[str, Readings]:
    build = partial(loaded, bench.device.target, int(bench.value("sm.count")), "stream")
    return {"hbm.read_bytes_per_ns": _rate(bench, build, 8, 56, 1)}


def _engines(bench: Bench, loads: int, stores: int) -> float:
    """Return the bytes that the copy engines of all SMs move in a ns, so many loaded for each stored."""
    value = bench.value
    loading = 1 / min(value("tma.sm_bytes_per_clk"), value("tma.row_per_clk") * value("tma.row_bytes"))
    storing = 1000 / value("sm.clock_max_mhz") / value("tma.store_bytes_per_clk")
    return value("sm.count") * (loads + stores) / (loads * loading / bench.ghz + stores * storing)


def _if_memory_binds(name: str, found: Readings, engines: float) -> dict[str, Readings]:
    """Return a rate of memory, or nothing if the copy engines move no more."""
    return {name: found} if np.median(found) < _CLEARLY * engines else {}


def _written(bench: Bench) -> dict[str, Readings]:
    build = partial(stored, bench.device.target, int(bench.value("sm.count")))
    found = _rate(bench, build, 4, 12, 1)
    return _if_memory_binds("hbm.write_bytes_per_ns", found, _engines(bench, 0, 1))


def _mixed(bench: Bench) -> dict[str, Readings]:
    build = partial(copied, bench.device.target, int(bench.value("sm.count")))
    found = _rate(bench, build, 8, 40, 2)
    return _if_memory_binds("hbm.mixed_bytes_per_ns", found, _engines(bench, 1, 1))


BENCHMARKS = (
    Microbenchmark("loads that L2 holds", ("l2.bytes_per_ns", "l2.fabric_bytes_per_ns"), _cached),
    Microbenchmark("reads of memory", ("hbm.read_bytes_per_ns",), _read),
    Microbenchmark("writes of memory", ("hbm.write_bytes_per_ns",), _written),
    Microbenchmark("reads and writes of memory", ("hbm.mixed_bytes_per_ns",), _mixed),
)
