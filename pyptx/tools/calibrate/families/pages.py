"""Pages of memory: up to which span the TLBs translate every address, and what a miss of them adds to a load.

A chain of loads goes through a span of memory, from page to page in no order. It loads as many lines in each
span, and L2 holds all of them; but from some span on the TLBs do not hold all pages. From there on a share of
the loads misses, which grows with the span.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ....core.types import u32, u64
from ....dsl import Tile, TileParam, ptx, reg
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_round, now, one_thread, read, readings, shape_of, use

__all__ = ["BENCHMARKS", "latencies", "reach"]

_WARP = 32
#: Bytes of a page of device memory, and the shortest span.
_PAGE, _SHORTEST = 1 << 21, 1 << 23
#: The next place is ``place * _FACTOR + _MORE``: modulo a power of two, that comes to all of them in turn.
_FACTOR, _MORE = 1664525, 1013904223
#: Bytes by which the line of each load lies further within its page: an odd number of lines, so that no line
#: of a page comes twice.
_FURTHER = 37 * 128
#: A longer load is one with misses from this factor on.
_LONGER = 1.01
#: Values of the reach that are tried.
_TRIED = 1000


@cache
def chain(target: str, rounds: int, span: int, visits: int) -> Kernel:
    """Build a kernel of ``visits`` loads within a span of memory; each address depends on the load before.

    The words are 0, which ptxas does not know: an ``or`` into the address makes the chain. Sizes are powers
    of two.
    """
    places = min(span // _PAGE, visits)
    apart = span // places

    @kernel(
        in_specs=(Tile(places, apart // u64.nbytes, u64),),
        out_specs=(readings(rounds),),
        block=_WARP,
        arch=target,
        name=f"pages_{places}_of_{apart}_{visits}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        first = one_thread()
        word, address = reg.scalar(u64, init=0), reg.scalar(u64)
        with each_round(rounds) as turn:
            place, line = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
            begin = now()
            with each_round(visits):
                ptx.inst.mad.wide.u32(address, place, apart, A.ptr)
                ptx.inst.mad.wide.u32(address, line, 1, address)
                ptx.inst.or_.b64(address, address, word)
                ptx.inst.ld.global_.cg.u64(word, ptx.addr(address))
                ptx.inst.mad.lo.u32(place, place, _FACTOR, _MORE)
                ptx.inst.and_.b32(place, place, places - 1)
                ptx.inst.add.u32(line, line, _FURTHER)
                ptx.inst.and_.b32(line, line, apart - 1)
            read(Out, turn, begin, pred=first)
        use(Out, word)

    return section


def latencies(bench: Bench) -> dict[int, Readings]:
    """Return the ns of a load of the chain, for each span of memory in bytes, from short to long."""
    device = bench.device
    found: dict[int, Readings] = {}
    span = 1 << int(min(device.memory, bench.value("hbm.capacity_bytes") / 2)).bit_length() - 1
    # From long to short, so that memory is allocated once.
    while span >= _SHORTEST:
        built = chain(device.target, device.rounds, span, device.visits)
        found[span] = bench.cycles(built, shape_of(built)) / device.visits / bench.ghz
        span //= 2
    return dict(reversed(found.items()))


def reach(spans: NDArray[np.float64], taken: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return up to which span loads take equally long, and what a miss beyond it adds.

    A share ``1 - reach / span`` of the loads misses: least squares, for each of many values of the reach.
    None if the two longest spans do not show misses: one alone does not tell the reach from what a miss adds.

    Args:
        spans: bytes, from short to long.
        taken: ns of a load.
    """
    if taken[-2] < _LONGER * taken[0]:
        return None
    tried = np.geomspace(spans[0], spans[-2], _TRIED, endpoint=False)
    missing = np.maximum(0.0, 1 - tried[:, None] / spans)
    missing -= missing.mean(axis=1, keepdims=True)
    added = missing @ taken / (missing**2).sum(axis=1)
    wrong = ((taken - taken.mean() - added[:, None] * missing) ** 2).sum(axis=1)
    best = int(wrong.argmin())
    return float(tried[best]), float(added[best])


def _translations(bench: Bench) -> dict[str, Readings]:
    """Return nothing if all spans are within the reach."""
    found = latencies(bench)
    spans = np.array(list(found), float)
    each = [reach(spans, taken) for taken in np.array(list(found.values())).T]
    known = np.array([one for one in each if one is not None])
    # A few repetitions that something disturbed are no reach.
    if len(known) <= len(each) / 2:
        return {}
    return {"tlb.reach_bytes": known[:, 0], "tlb.miss_ns": known[:, 1]}


BENCHMARKS = (Microbenchmark("pages of memory", ("tlb.reach_bytes", "tlb.miss_ns"), _translations),)
