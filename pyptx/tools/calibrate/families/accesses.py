"""Loads and atomics of threads: shared memory, the shared memory of another CTA, L1, L2 and memory.

A chain of loads, each of which gives the address of the next, shows the latency. All warps of a full CTA with
independent loads show the rate of one multiprocessor.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Literal

from ....core.types import b32, u8, u32, u64
from ....dsl import Tile, TileParam, ptx, reg, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import cleared, each_round, now, one_thread, read, readings, shape_of, use

__all__ = ["BENCHMARKS"]

_WARP, _FULL = 32, 1024
_FEW, _MANY = 8, 32
#: Bytes between neighbors of a chain in global memory: they lie in different lines and slices of L2.
_STEP = 4224
#: The cache in which a chain hits.
Level = Literal["l1", "l2"]


@cache
def shared_chain(target: str, rounds: int, count: int, peer: bool = False) -> Kernel:
    """Build a kernel that reads ``count`` times a word of shared memory which holds its own address.

    With ``peer`` the word is in the other CTA of a cluster.
    """
    size = 2 if peer else 1
    space = "shared::cluster" if peer else "shared"

    @kernel(
        out_specs=(readings(rounds),),
        grid=size,
        cluster=size,
        block=_WARP,
        arch=target,
        name=f"chain_{'peer' if peer else 'shared'}_{count}",
    )
    def section(Out: TileParam) -> None:
        word = smem.alloc(1, b32)
        first = (ptx.special.tid.x() | ptx.special.ctaid.x()) == 0
        place = reg.scalar(u32, init=word.addr)
        if peer:
            ptx.cluster.map(word.addr, ptx.cluster.rank() ^ 1, out=place)
        # Each CTA writes into its own word the address by which the other one reads it.
        own = ptx.cluster.map(word.addr, ptx.cluster.rank()) if peer else place
        ptx.store(word, own, pred=one_thread())
        if peer:
            ptx.cluster.sync(aligned=True)
        else:
            ptx.bar.sync(0)
        with each_round(rounds) as turn:
            begin = now()
            for _ in range(count):
                ptx.inst.ld[f"{space}.u32"](place, ptx.addr(place))
            read(Out, turn, begin, pred=first)
        use(Out, place)
        if peer:
            ptx.cluster.sync(aligned=True)

    return section


@cache
def chain(target: str, rounds: int, level: Level, count: int) -> Kernel:
    """Build a kernel that goes through ``count`` words of global memory, each the address of the next.

    The kernel writes the words; L2 holds them. With ``l1`` it is one word, the address of itself.
    """
    step = 0 if level == "l1" else _STEP

    @kernel(
        in_specs=(Tile(1 + count * step // u64.nbytes, u64),),
        out_specs=(readings(rounds),),
        block=_WARP,
        arch=target,
        name=f"chain_{level}_{count}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        first = one_thread()
        for number in range(count if step else 1):
            place = A.ptr + number * step
            ptx.store(ptx.addr(place), A.ptr + (number + 1) % count * step, u64, pred=first)
        ptx.bar.sync(0)
        place = reg.scalar(u64, init=A.ptr)
        with each_round(rounds) as turn:
            begin = now()
            for _ in range(count):
                ptx.inst.ld[f"global.{'ca' if level == 'l1' else 'cg'}.u64"](place, ptx.addr(place))
            read(Out, turn, begin, pred=first)
        use(Out, place)

    return section


@cache
def cold_chain(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel that loads words which no cache holds; each address depends on the load before.

    The words are 0, which ptxas does not know: an ``or`` into the address makes the chain.
    """
    span = (_MANY + 1) * _STEP

    @kernel(
        in_specs=(Tile(span * rounds // u64.nbytes, u64),),
        out_specs=(readings(rounds),),
        block=_WARP,
        arch=target,
        name=f"chain_memory_{count}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        first = one_thread()
        place = reg.scalar(u64, init=A.ptr)
        with each_round(rounds) as turn:
            begin = now()
            word = reg.scalar(u64)
            for number in range(count):
                ptx.inst.ld.global_.cg.u64(word, ptx.addr(place, number * _STEP))
                ptx.inst.or_.b64(place, place, word)
            read(Out, turn, begin, pred=first)
            place += span
        use(Out, place)

    return section


#: Where the loads of a rate lie: in one line of L1 for each warp, in 32 sectors of L1 for each instruction,
#: in L2, in shared memory, or in that of the other CTA of a cluster.
Place = Literal["l1", "sectors", "l2", "shared", "peer"]
#: Loads in flight of each thread.
_DEEP = 4
_SECTOR, _WIDE = 32, 16


@cache
def many_loads(target: str, rounds: int, place: Place, count: int) -> Kernel:
    """Build a kernel in which all threads of a CTA make ``count`` times four independent loads.

    Loads are 16 bytes wide; those of ``sectors`` are 4, and the lanes of a warp are a sector apart.
    """
    peer, inside = place == "peer", place in ("shared", "peer")
    words = 1 if place == "sectors" else 4
    apart = _SECTOR if place == "sectors" else _WIDE
    # L1 holds what one warp reads; L2 what all warps read.
    step = _WARP * apart if place in ("l1", "sectors") else _FULL * _WIDE
    span = _DEEP * step
    space = {"shared": "shared", "peer": "shared::cluster", "l2": "global.cg"}.get(place, "global.ca")
    load = f"{space}.v4.b32" if words == 4 else f"{space}.b32"
    size = 2 if peer else 1

    @kernel(
        in_specs=(Tile(span, u8),),
        out_specs=(readings(rounds),),
        grid=size,
        cluster=size,
        block=_FULL,
        arch=target,
        extern_smem=True,
        name=f"loads_{place}_{count}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        tid = ptx.special.tid.x()
        first = (tid | ptx.special.ctaid.x()) == 0
        if inside:
            buffer = cleared((span,), u8, _FULL, swizzle="none")
            base = reg.scalar(u32, init=buffer.addr)
            if peer:
                ptx.cluster.sync(aligned=True)
                ptx.cluster.map(base, ptx.cluster.rank() ^ 1, out=base)
            base += tid * _WIDE
        else:
            base = reg.scalar(u64)
            ptx.inst.mad.wide.u32(base, tid & (_WARP - 1) if place != "l2" else tid, apart, A.ptr)
        loaded = [reg.array(b32, words, name=f"loaded{slot}_") for slot in range(_DEEP)]
        sums = [reg.scalar(b32, init=0, name=f"sum{slot}") for slot in range(_DEEP)]
        # 0, which ptxas does not know: it would take loads of the same addresses together.
        moved = reg.scalar(base.type, name="moved")
        if inside:
            ptx.inst.sub.u32(moved, ptx.special.nctaid.z(), 1)
        else:
            ptx.inst.cvt.u64.u32(moved, ptx.special.nctaid.z() - 1)
        with each_round(rounds) as turn:
            ptx.bar.sync(0)
            begin = now()
            with ptx.for_(0, ptx.special.nctaid.y() * count):
                base += moved
                for slot, registers in enumerate(loaded):
                    ptx.inst.ld[load](registers if words > 1 else registers[0], ptx.addr(base, slot * step))
                for total, registers in zip(sums, loaded, strict=True):
                    for register in registers:
                        ptx.inst.xor.b32(total, total, register)
            ptx.bar.sync(0)
            read(Out, turn, begin, pred=first)
        use(Out, *sums)
        if peer:
            ptx.cluster.sync(aligned=True)

    return section


def _moved(bench: Bench, place: Place) -> Readings:
    """Return the bytes that a CTA loads in a cycle; for ``sectors``, the sectors that L1 looks up."""
    build = partial(many_loads, bench.device.target, bench.device.rounds, place)
    one = bench.slope(build, 4, 12, shape_of(build(1)))
    return _FULL * _DEEP * (1 if place == "sectors" else _WIDE) / one


def _rates(bench: Bench) -> dict[str, Readings]:
    places: dict[str, Place] = {
        "lds.bytes_per_clk": "shared",
        "ldg.l1_bytes_per_clk": "l1",
        "ldg.sectors_per_clk": "sectors",
        "ldg.sm_bytes_per_clk": "l2",
        "dsmem.load_bytes_per_clk": "peer",
    }
    return {name: _moved(bench, place) for name, place in places.items()}


def _shared(bench: Bench) -> dict[str, Readings]:
    build = partial(shared_chain, bench.device.target, bench.device.rounds)
    return {"lds.latency_clk": bench.slope(build, _FEW, _MANY)}


def _peer(bench: Bench) -> dict[str, Readings]:
    build = partial(shared_chain, bench.device.target, bench.device.rounds, peer=True)
    return {"dsmem.latency_clk": bench.slope(build, _FEW, _MANY)}


def _level(bench: Bench, level: Level) -> Readings:
    """Return the cycles of one more load of a chain in a cache."""
    build = partial(chain, bench.device.target, bench.device.rounds, level)
    return (
        bench.cycles(build(_MANY), (1 + _MANY * (0 if level == "l1" else _STEP) // u64.nbytes,))
        - bench.cycles(build(_FEW), (1 + _FEW * (0 if level == "l1" else _STEP) // u64.nbytes,))
    ) / (_MANY - _FEW)


def _cached(bench: Bench) -> dict[str, Readings]:
    """L2 is beyond the SM: its constant is that at the maximum clock."""
    return {
        "ldg.latency_l1_clk": _level(bench, "l1"),
        "l2.latency_clk": _level(bench, "l2") / bench.slowdown,
    }


def _memory(bench: Bench) -> dict[str, Readings]:
    device = bench.device
    shape = ((_MANY + 1) * _STEP * device.rounds // u64.nbytes,)
    few, many = (
        bench.cycles(cold_chain(device.target, device.rounds, n), shape, cold=True) for n in (_FEW, _MANY)
    )
    latency = (many - few) / (_MANY - _FEW) / bench.slowdown
    return {
        "ldg.latency_hbm_clk": latency,
        "hbm.latency_ns": (latency - bench.value("l2.latency_clk")) / bench.value("sm.clock_max_mhz") * 1000,
    }


BENCHMARKS = (
    Microbenchmark("load from shared memory", ("lds.latency_clk",), _shared),
    Microbenchmark(
        "bytes of loads of one multiprocessor",
        (
            "lds.bytes_per_clk",
            "ldg.l1_bytes_per_clk",
            "ldg.sectors_per_clk",
            "ldg.sm_bytes_per_clk",
            "dsmem.load_bytes_per_clk",
        ),
        _rates,
    ),
    Microbenchmark("load from L1 and L2", ("ldg.latency_l1_clk", "l2.latency_clk"), _cached),
    Microbenchmark("load from memory", ("ldg.latency_hbm_clk", "hbm.latency_ns"), _memory),
    Microbenchmark("load from the other CTA's shared memory", ("dsmem.latency_clk",), _peer),
)
