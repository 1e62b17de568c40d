"""The tensor core of Hopper: ``wgmma`` of one warpgroup, m64nNk16, on zeros.

A section issues ``count`` products on one accumulator and waits for all. The time of one is its latency; what
one more adds in a full pipe is the interval. The product that finds no place is issued when the first one
ends, which shows when that began.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....core.types import b32, bf16
from ....dsl import TileParam, ptx
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import cleared, each_round, now, one_thread, read, readings, use

__all__ = ["BENCHMARKS"]

_THREADS, _ROWS, _K, _SPAN = 128, 64, 16, 64
_TARGETS = ("sm_90a",)
_FEW, _MANY = 8, 24
#: Rows that all threads clear at once.
_LEAST = 16
#: Products of which the first has ended when the last is issued: one more than a tensor core takes. Those of
#: N = 64 are issued before the first one ends.
_PLACES_AND_ONE, _SHORT = 8, 64


@cache
def products(
    target: str,
    rounds: int,
    n: int,
    count: int,
    in_registers: bool = False,
    waits: bool = True,
) -> Kernel:
    """Build a kernel whose section is ``count`` products with N = ``n``.

    Args:
        target, rounds: of the device.
        n: columns.
        count: products.
        in_registers: A is in registers.
        waits: the section ends with the wait for all products; otherwise with the issue of the last.
    """

    @kernel(
        out_specs=(readings(rounds),),
        block=_THREADS,
        arch=target,
        extern_smem=True,
        name=f"wgmma_n{n}_{'rs' if in_registers else 'ss'}_{count}{'' if waits else '_issue'}",
    )
    def section(Out: TileParam) -> None:
        tile_a = cleared((_ROWS, _SPAN), bf16, _THREADS)
        tile_b = cleared((max(n, _LEAST), _SPAN), bf16, _THREADS)
        b = ptx.wgmma.descriptor(tile_b)
        acc = ptx.wgmma.accumulator(n=n)
        for register in acc:
            ptx.inst.mov.b32(register, 0)
        a = None if in_registers else ptx.wgmma.descriptor(tile_a)
        # Zeros that ptxas does not know: it would set constants again for each product.
        zeros = ptx.load(b32, tile_a.addr, space="shared", vector=4)
        words = list(zeros)
        first = one_thread()
        with each_round(rounds) as turn:
            ptx.bar.sync(0)
            ptx.wgmma.fence()
            begin = now()
            for _ in range(count):
                ptx.wgmma.mma_async(acc, words if a is None else a, b, atype=bf16)
            ptx.wgmma.commit_group()
            if waits:
                ptx.wgmma.wait_group(0)
            read(Out, turn, begin, pred=first)
            ptx.wgmma.wait_group(0)
        use(Out, *acc)

    return section


def _interval(bench: Bench, n: int, in_registers: bool = False) -> Readings:
    device = bench.device
    return bench.slope(
        lambda count: products(device.target, device.rounds, n, count, in_registers), _FEW, _MANY
    )


def _intervals(bench: Bench) -> dict[str, Readings]:
    return {
        "wgmma.interval.per_n_clk": (_interval(bench, 256) - _interval(bench, 128)) / 128,
        "wgmma.interval.floor_ss_clk": _interval(bench, 8),
        "wgmma.interval.floor_rs_clk": _interval(bench, 8, in_registers=True),
    }


def _latency(bench: Bench) -> dict[str, Readings]:
    device, columns = bench.device, np.array([128, 192, 256])
    times = np.stack([bench.latency(products(device.target, device.rounds, int(n), 1)) for n in columns])
    slope, base = np.polyfit(columns, times, 1)
    return {"wgmma.latency.base_clk": base, "wgmma.latency.per_n_clk": slope}


def _issue(bench: Bench) -> dict[str, Readings]:
    """Products of the least N, as many as fit into the pipe's queue: the clock is read before they end."""
    device = bench.device
    return {
        "wgmma.issue_clk": bench.slope(
            lambda count: products(device.target, device.rounds, 8, count, waits=False), 1, 3
        )
    }


def _start(bench: Bench) -> dict[str, Readings]:
    device = bench.device

    def issued(count: int, in_registers: bool = False) -> Readings:
        """Return the cycles to the issue of the last product."""
        build = products(device.target, device.rounds, _SHORT, count, in_registers, waits=False)
        return bench.cycles(build)

    interval = _interval(bench, _SHORT)
    return {
        "wgmma.start_clk": issued(_PLACES_AND_ONE) - issued(1) - interval,
        "wgmma.start_rs_clk": issued(_PLACES_AND_ONE, in_registers=True) - issued(1, True) - interval,
    }


BENCHMARKS = (
    Microbenchmark(
        "interval of wgmma",
        (
            "wgmma.interval.per_n_clk",
            "wgmma.interval.floor_ss_clk",
            "wgmma.interval.floor_rs_clk",
        ),
        _intervals,
        _TARGETS,
    ),
    Microbenchmark(
        "latency of wgmma", ("wgmma.latency.base_clk", "wgmma.latency.per_n_clk"), _latency, _TARGETS
    ),
    Microbenchmark("issue of wgmma", ("wgmma.issue_clk",), _issue, _TARGETS),
    Microbenchmark("start of wgmma", ("wgmma.start_clk", "wgmma.start_rs_clk"), _start, _TARGETS),
)
