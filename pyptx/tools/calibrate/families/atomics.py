"""Atomics in L2: latency of one, time between two on one address, and how many the chip does."""

from __future__ import annotations

from functools import cache, partial

from ....core.types import u32, u64
from ....dsl import Tile, TileParam, ptx, reg
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_round, now, one_thread, read, readings, shape_of

__all__ = ["BENCHMARKS"]

_WARP, _THREADS, _SECTOR = 32, 256, 32
_FEW, _MANY = 8, 32
#: Reductions of each thread for a rate, few and many.
_SHORT, _LONG = 32, 256


@cache
def chain(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel that adds the result of each of ``count`` atomics by the next."""

    @kernel(
        in_specs=(Tile(1, u32),),
        out_specs=(readings(rounds),),
        block=_WARP,
        arch=target,
        name=f"atom_{count}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        value, first = reg.scalar(u32, init=0), one_thread()
        with each_round(rounds) as turn:
            begin = now()
            for _ in range(count):
                ptx.inst.atom.global_.add.u32(value, ptx.addr(A.ptr), value, pred=first)
            read(Out, turn, begin, pred=first)

    return section


@cache
def many(target: str, ctas: int, apart: int, count: int) -> Kernel:
    """Build a kernel whose threads make ``count`` reductions each, their addresses ``apart`` bytes apart.

    With ``apart`` 0 only one lane of each warp does, so that no two are combined in the SM.
    """
    span = max(1, _THREADS * ctas * apart // u64.nbytes)

    @kernel(in_specs=(Tile(span, u64),), grid=ctas, block=_THREADS, arch=target, name=f"red_{apart}_{count}")
    def section(A: TileParam) -> None:
        thread, place = reg.scalar(u32), reg.scalar(u64)
        ptx.inst.mad.lo.u32(thread, ptx.special.ctaid.x(), _THREADS, ptx.special.tid.x())
        ptx.inst.mad.wide.u32(place, thread, apart, A.ptr)
        lanes = ptx.special.laneid() < (_WARP if apart else 1)
        with ptx.for_(0, count):
            ptx.inst.red.global_.add.u32(ptx.addr(place), 1, pred=lanes)

    return section


def _latency(bench: Bench) -> dict[str, Readings]:
    build = partial(chain, bench.device.target, bench.device.rounds)
    return {"atom.latency_clk": bench.slope(build, _FEW, _MANY, (1,)) / bench.slowdown}


def _apart(bench: Bench, apart: int, lanes: int) -> Readings:
    """Return the ns between two of all reductions of the chip."""
    ctas = int(bench.value("sm.count"))
    build = partial(many, bench.device.target, ctas, apart)
    few, many_ = (bench.ns(build(count), shape_of(build(count))) for count in (_SHORT, _LONG))
    return (many_ - few) / ((_LONG - _SHORT) * ctas * _THREADS // _WARP * lanes)


def _rates(bench: Bench) -> dict[str, Readings]:
    """In cycles at the maximum clock, since L2 has a clock of its own."""
    clk = bench.value("sm.clock_max_mhz") / 1000
    return {
        "atom.same_address_clk": _apart(bench, 0, 1) * clk,
        "atom.sectors_per_clk": 1 / (_apart(bench, _SECTOR, _WARP) * clk),
    }


BENCHMARKS = (
    Microbenchmark("latency of an atomic", ("atom.latency_clk",), _latency),
    Microbenchmark("rate of atomics", ("atom.same_address_clk", "atom.sectors_per_clk"), _rates),
)
