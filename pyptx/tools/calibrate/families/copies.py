"""The copy engine of one multiprocessor: rows, bytes and instructions a cycle, latencies, multicast.

A section issues ``count`` copies of one box and waits for all. What one more adds is the time of the unit
that is busiest: the engine's rows, its instructions, or the link. The latency of one copy is without the time
of its rows.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from ....core.types import bf16
from ....dsl import Layout, Tile, TileParam, ptx, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import cleared, each_round, initialized, now, one_lane, read, readings, wait

__all__ = ["BENCHMARKS"]

_WARP = 32
#: Columns of the array: its rows are so far apart that none of them belongs to the same lines as another.
_PITCH = 512
_FEW, _MANY = 8, 40
#: Rows between the boxes of two rounds that must not be in L2.
_APART = 4096


def _array(rows: int, row_bytes: int, total: int) -> Tile:
    box = (rows, row_bytes // bf16.nbytes)
    return Tile(total, _PITCH, bf16, Layout.TMA_NONE, tma_box=box)


@cache
def loads(target: str, rounds: int, rows: int, row_bytes: int, count: int, apart: int = 0) -> Kernel:
    """Build a kernel whose section loads a box ``count`` times; that of each round ``apart`` rows further."""
    total = max(rows, apart * rounds)

    @kernel(
        in_specs=(_array(rows, row_bytes, total),),
        out_specs=(readings(rounds),),
        block=_WARP,
        arch=target,
        name=f"load_{rows}x{row_bytes}_{count}{'_apart' if apart else ''}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        tile = smem.alloc((rows, row_bytes // bf16.nbytes), bf16, align=128)
        (full,) = initialized()
        with one_lane(), each_round(rounds) as turn:
            row = turn * apart
            begin = now()
            ptx.mbarrier.arrive_expect_tx(full, count * rows * row_bytes)
            for _ in range(count):
                ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A.tma_desc(), coord=(0, row), mbar=full)
            wait(full, turn & 1)
            read(Out, turn, begin)

    return section


@cache
def stores(
    target: str, rounds: int, rows: int, row_bytes: int, count: int, read_only: bool = False
) -> Kernel:
    """Build a kernel whose section stores a box ``count`` times, and waits until the stores are complete.

    With ``read_only`` it waits until their shared memory has been read.
    """

    @kernel(
        in_specs=(_array(rows, row_bytes, rows),),
        out_specs=(readings(rounds),),
        block=_WARP,
        arch=target,
        name=f"store_{rows}x{row_bytes}_{count}{'_read' if read_only else ''}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        tile = cleared((rows, row_bytes // bf16.nbytes), bf16, _WARP, swizzle="none")
        with one_lane(), each_round(rounds) as turn:
            begin = now()
            for _ in range(count):
                ptx.cp.async_.bulk.tensor_2d(dst=A.tma_desc(), src=tile, coord=(0, 0))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0, read=read_only)
            read(Out, turn, begin)

    return section


@cache
def multicasts(target: str, rounds: int, size: int, rows: int, row_bytes: int, count: int) -> Kernel:
    """Build a kernel in which every CTA of a cluster loads ``count`` boxes for all CTAs of the cluster."""

    @kernel(
        in_specs=(_array(rows, row_bytes, rows * size),),
        out_specs=(readings(rounds),),
        grid=size,
        cluster=size,
        block=_WARP,
        arch=target,
        name=f"multicast_{size}_{rows}x{row_bytes}_{count}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        tiles = smem.alloc((rows, row_bytes // bf16.nbytes), bf16, align=128, stages=size)
        (full,) = initialized()
        rank = ptx.cluster.rank()
        first = (ptx.special.tid.x() | rank) == 0
        with each_round(rounds) as turn:
            ptx.cluster.sync(aligned=True)
            begin = now()
            with one_lane():
                ptx.mbarrier.arrive_expect_tx(full, size * count * rows * row_bytes)
                for _ in range(count):
                    ptx.cp.async_.bulk.tensor_2d(
                        dst=tiles[rank], src=A.tma_desc(), coord=(0, rank * rows), mbar=full,
                        multicast=(1 << size) - 1,
                    )  # fmt: skip
            wait(full, turn & 1)
            read(Out, turn, begin, pred=first)

    return section


def _slope(bench: Bench, rows: int, row_bytes: int) -> Readings:
    """Return the cycles of one more load of a box that L2 holds."""
    build = partial(loads, bench.device.target, bench.device.rounds, rows, row_bytes)
    return bench.slope(build, _FEW, _MANY, _shape(rows))


def _shape(rows: int) -> tuple[int, int]:
    return (rows, _PITCH)


def _engine(bench: Bench) -> dict[str, Readings]:
    """Boxes of one short row, of many short rows, and of long rows."""
    rows = 64
    return {
        "tma.issue_clk": _slope(bench, 1, 16),
        "tma.row_per_clk": rows / _slope(bench, rows, 32),
        "tma.sm_bytes_per_clk": rows * 256 / _slope(bench, rows, 256),
    }


def _latency(bench: Bench) -> dict[str, Readings]:
    """One small box: the same in all rounds, which L2 holds, and another in each, which memory holds."""
    device = bench.device
    alone = bench.value("tma.issue_clk")
    near = bench.latency(loads(device.target, device.rounds, 1, 16, 1), _shape(1))
    cold = loads(device.target, device.rounds, 1, 16, 1, _APART)
    far = bench.latency(cold, _shape(_APART * device.rounds), cold=True)
    return {
        "tma.latency_l2_ns": (near - alone) / bench.ghz,
        "tma.latency_hbm_ns": (far - alone) / bench.ghz,
    }


def _store(bench: Bench) -> dict[str, Readings]:
    """Boxes of two sizes: what their bytes take, what each takes beyond them; and both waits for a box."""
    device = bench.device
    small, large, row_bytes = 64, 128, 256

    def one(rows: int) -> Readings:
        build = partial(stores, device.target, device.rounds, rows, row_bytes)
        return bench.slope(build, 4, 12, _shape(rows))

    def alone(read_only: bool) -> Readings:
        built = stores(device.target, device.rounds, small, row_bytes, 1, read_only)
        return bench.latency(built, _shape(small))

    less, more = one(small), one(large)
    each = (more - less) / ((large - small) * row_bytes)
    return {
        "tma.store_bytes_per_clk": 1 / each,
        "tma.store_issue_clk": np.maximum(less - small * row_bytes * each, 0.0),
        "tma.store_latency_ns": np.maximum(alone(False) - alone(True), 0.0) / bench.ghz,
    }


def _received(bench: Bench) -> dict[str, Readings]:
    """What a CTA of four gets: its own loads at the rate of loads, those of others at the rate received."""
    # The least count is such that loads of the CTA's own are in flight until those of the others arrive.
    device, size, rows, row_bytes = bench.device, 4, 16, 256
    build = partial(multicasts, device.target, device.rounds, size, rows, row_bytes)
    one = bench.slope(build, 32, 60, _shape(rows * size))
    nbytes = rows * row_bytes
    others = np.maximum(one - nbytes / bench.value("tma.sm_bytes_per_clk"), 1.0)
    return {"tma.received_bytes_per_clk": (size - 1) * nbytes / others}


BENCHMARKS = (
    Microbenchmark(
        "rows, bytes and instructions of TMA",
        ("tma.issue_clk", "tma.row_per_clk", "tma.sm_bytes_per_clk"),
        _engine,
    ),
    Microbenchmark("latency of TMA loads", ("tma.latency_l2_ns", "tma.latency_hbm_ns"), _latency),
    Microbenchmark(
        "TMA stores", ("tma.store_bytes_per_clk", "tma.store_issue_clk", "tma.store_latency_ns"), _store
    ),
    Microbenchmark("multicast", ("tma.received_bytes_per_clk",), _received),
)
