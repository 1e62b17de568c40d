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
from .pieces import DEPTH, PIECE, TURN, Pieces, place_of

__all__ = ["BENCHMARKS", "copied", "loaded", "stored"]

_THREADS = 32
#: A rate is another one than the limit if it is below this share of it.
_CLEARLY = 0.98
#: CTAs of a cluster that load for each other.
_CLUSTER = 4

#: Whether each CTA loads new pieces all the time, or its first pieces again and again.
Pattern = Literal["stream", "again"]


@cache
def loaded(target: str, ctas: int, pattern: Pattern, turns: int) -> Kernel:
    """Build a kernel of which every CTA loads ``turns`` times as many pieces as are in flight."""
    region = TURN * (turns if pattern == "stream" else 1)

    @kernel(
        in_specs=(Tile(region * ctas, u8),),
        grid=ctas,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"load_{pattern}_{turns}",
    )
    def section(A: TileParam) -> None:
        pieces = Pieces()
        with one_lane():
            place = place_of(A.ptr, region)
            pieces.load(place)
            with ptx.for_(1, turns) as turn:
                if pattern == "stream":
                    place += TURN
                pieces.load(place, (turn - 1) & 1)
            pieces.finish((turns - 1) & 1)

    return section


@cache
def multicast(target: str, clusters: int, turns: int) -> Kernel:
    """Build a kernel of clusters of four whose CTAs each load a quarter of every piece for all four.

    Pieces are the same in all turns. A CTA loads into a slot when all four have got what was there.
    """
    part = PIECE // _CLUSTER

    @kernel(
        in_specs=(Tile(clusters * TURN, u8),),
        grid=clusters * _CLUSTER,
        cluster=_CLUSTER,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"multicast_stream_{turns}",
    )
    def section(A: TileParam) -> None:
        stages = smem.alloc((_CLUSTER, part), u8, align=128, stages=DEPTH)
        full, empty = initialized(DEPTH), initialized(DEPTH, _CLUSTER)
        rank = ptx.cluster.rank()
        ptx.cluster.sync(aligned=True)
        with one_lane():
            place = reg.scalar(u64)
            ptx.inst.mad.wide.u32(place, ptx.special.clusterid.x(), TURN, A.ptr)
            ptx.inst.mad.wide.u32(place, rank, part, place)

            def load(slot: int) -> None:
                ptx.mbarrier.arrive_expect_tx(full[slot], PIECE)
                ptx.cp.async_.bulk.load(
                    stages[slot].addr + rank * part,
                    ptx.addr(place, slot * PIECE),
                    part,
                    full[slot],
                    multicast=(1 << _CLUSTER) - 1,
                )

            for slot in range(DEPTH):
                load(slot)
            with ptx.for_(1, turns) as turn:
                for slot in range(DEPTH):
                    wait(full[slot], (turn - 1) & 1)
                    for peer in range(_CLUSTER):
                        ptx.mbarrier.arrive(ptx.cluster.map(empty[slot], peer), space="cluster")
                    # Arrivals take their time to the other CTAs.
                    if slot:
                        wait(empty[slot - 1], (turn - 1) & 1)
                        load(slot - 1)
                wait(empty[DEPTH - 1], (turn - 1) & 1)
                load(DEPTH - 1)
            for barrier in full:
                wait(barrier, (turns - 1) & 1)
        ptx.cluster.sync(aligned=True)

    return section


@cache
def stored(target: str, ctas: int, turns: int) -> Kernel:
    """Build a kernel of which every CTA stores ``turns`` times as many pieces as are in flight."""
    region = TURN * turns

    @kernel(
        in_specs=(Tile(region * ctas, u8),),
        grid=ctas,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"store_stream_{turns}",
    )
    def section(A: TileParam) -> None:
        smem.alloc(PIECE, u8, align=128, stages=DEPTH)
        piece = cleared((PIECE,), u8, _THREADS, swizzle="none")
        with one_lane():
            place = place_of(A.ptr, region)
            with ptx.for_(0, turns):
                for slot in range(DEPTH):
                    _store(place, slot, piece)
                    ptx.cp.async_.bulk.wait_group(DEPTH - 1)
                place += TURN
            ptx.cp.async_.bulk.wait_group(0)

    return section


def _store(place: Reg, slot: int, piece: Buffer) -> None:
    ptx.cp.async_.bulk.store(ptx.addr(place, slot * PIECE), piece, PIECE)
    ptx.cp.async_.bulk.commit_group()


@cache
def copied(target: str, ctas: int, turns: int) -> Kernel:
    """Build a kernel of which every CTA loads and stores ``turns`` times as many pieces as are in flight."""
    region = TURN * turns

    @kernel(
        in_specs=(Tile(region * ctas, u8), Tile(region * ctas, u8)),
        grid=ctas,
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"copy_stream_{turns}",
    )
    def section(A: TileParam, B: TileParam) -> None:
        pieces = Pieces()
        with one_lane():
            source, to = place_of(A.ptr, region), place_of(B.ptr, region)

            def forward(slot: int) -> None:
                _store(to, slot, pieces.stages[slot])
                ptx.cp.async_.bulk.wait_group(0, read=True)

            pieces.load(source)
            with ptx.for_(1, turns) as turn:
                source += TURN
                pieces.load(source, (turn - 1) & 1, done=forward)
                to += TURN
            pieces.finish((turns - 1) & 1, forward)
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
        bench.ns(build(turns), *[(TURN * ctas * (turns if pattern == "stream" else 1),)] * arrays, cold=True)
        for turns in (few, many)
    ]
    return TURN * (many - few) * ctas * arrays / (times[1] - times[0])


def _cached(bench: Bench) -> dict[str, Readings]:
    """Loads of what L2 holds, for four CTAs each, then for one each.

    Of the first, few bytes are read in L2, and many arrive. The second read all bytes that arrive: their rate
    is that of L2, unless it is as high as bytes can arrive.
    """
    target, ctas = bench.device.target, int(bench.value("sm.count"))
    clusters = bench.device.fitting(multicast(target, 1, 2))
    few, many = 24, 192
    less, more = (bench.ns(multicast(target, clusters, n), (clusters * TURN,)) for n in (few, many))
    arrived = TURN * (many - few) * clusters * _CLUSTER / (more - less)
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
