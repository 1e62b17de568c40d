"""Tensor memory: loads and stores of one warp and of four, allocation, copies and shifts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

from ....core.types import b32, u8
from ....dsl import Reg, TileParam, ptx, reg, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import cleared, each_round, initialized, now, one_lane, one_thread, read, readings, use, wait

__all__ = ["BENCHMARKS"]

_TARGETS = ("sm_100a",)
_WARP, _COLUMNS = 32, 512
#: Columns, and registers, of one load or store; 128 bytes of each lane.
_WIDE = 32
_NBYTES = _WARP * _WIDE * 4
_FEW, _MANY = 1, 4
#: Threads of a CTA that reaches all lanes; rows and bytes of a copy.
_THREADS, _LANES, _ROW = 128, 128, 32


@contextmanager
def _allocated() -> Iterator[Reg]:
    """Yield the address of all columns, which warp 0 allocates and frees. All threads must come here."""
    slot = smem.alloc(1, b32)
    warp = ptx.special.tid.x() >> 5
    with ptx.if_(warp == 0):
        ptx.tcgen05.alloc(slot, _COLUMNS)
        ptx.tcgen05.relinquish_alloc_permit()
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    tmem = smem.load(b32, slot)
    yield tmem
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    with ptx.if_(warp == 0):
        ptx.tcgen05.dealloc(tmem, _COLUMNS)


@cache
def moves(target: str, rounds: int, warps: int, loads: bool, count: int) -> Kernel:
    """Build a kernel whose warps load or store 32 columns ``count`` times, and wait."""

    @kernel(
        out_specs=(readings(rounds, warps),),
        block=_WARP * warps,
        arch=target,
        name=f"tmem_{'ld' if loads else 'st'}_{warps}_{count}",
    )
    def section(Out: TileParam) -> None:
        warp = ptx.special.tid.x() >> 5
        words = [reg.array(b32, _WIDE, name=f"words{number}_") for number in range(_MANY)]
        for register in (each for vector in words for each in vector):
            ptx.inst.mov.b32(register, 0)
        with _allocated() as tmem:
            mine = tmem + (warp << 21)
            # Cells must have been written before they are loaded.
            for number, zeros in enumerate(words):
                ptx.tcgen05.st(mine + number * _WIDE, zeros)
            ptx.tcgen05.wait_st()
            with each_round(rounds) as turn:
                ptx.bar.sync(0)
                begin = now()
                for number, vector in enumerate(words[:count]):
                    place = mine + number * _WIDE
                    if loads:
                        ptx.tcgen05.ld(vector, place)
                    else:
                        ptx.tcgen05.st(place, vector)
                if loads:
                    ptx.tcgen05.wait_ld()
                else:
                    ptx.tcgen05.wait_st()
                read(Out, turn, begin, warp, pred=ptx.special.laneid() == 0)
            use(Out, *(each for vector in words for each in vector))

    return section


def _times(bench: Bench, warps: int, loads: bool) -> tuple[Readings, Readings]:
    """Return the cycles of one more access of each warp, and of one access with its wait."""
    build = partial(moves, bench.device.target, bench.device.rounds, warps, loads)
    return bench.slope(build, _FEW, _MANY), bench.latency(build(_FEW))


def _ports(bench: Bench) -> dict[str, Readings]:
    load, alone = _times(bench, 1, True)
    store, _ = _times(bench, 1, False)
    return {
        "tmem.load_bytes_per_clk_warp": _NBYTES / load,
        "tmem.store_bytes_per_clk_warp": _NBYTES / store,
        "tmem.load_bytes_per_clk_sm": 4 * _NBYTES / _times(bench, 4, True)[0],
        "tmem.store_bytes_per_clk_sm": 4 * _NBYTES / _times(bench, 4, False)[0],
        "tmem.load_latency_clk": alone - load,
    }


@cache
def allocations(target: str, rounds: int) -> Kernel:
    """Build a kernel whose section allocates columns of tensor memory, of which all are free."""

    @kernel(out_specs=(readings(rounds),), block=_WARP, arch=target, name="tmem_alloc")
    def section(Out: TileParam) -> None:
        slot, first = smem.alloc(1, b32), one_thread()
        with each_round(rounds) as turn:
            begin = now()
            ptx.tcgen05.alloc(slot, _COLUMNS)
            read(Out, turn, begin, pred=first)
            ptx.bar.warp_sync()
            ptx.tcgen05.dealloc(smem.load(b32, slot), _COLUMNS)
        ptx.tcgen05.relinquish_alloc_permit()

    return section


@cache
def copies(target: str, rounds: int, shifts: bool, count: int) -> Kernel:
    """Build a kernel whose section copies from shared memory, or shifts rows, ``count`` times."""

    @kernel(
        out_specs=(readings(rounds),),
        block=_THREADS,
        arch=target,
        name=f"tmem_{'shift' if shifts else 'cp'}_{count}",
    )
    def section(Out: TileParam) -> None:
        source = cleared((_LANES, _ROW), u8, _THREADS, swizzle="none")
        (done,) = initialized()
        zeros = reg.array(b32, _ROW // b32.nbytes)
        for register in zeros:
            ptx.inst.mov.b32(register, 0)
        with _allocated() as tmem:
            ptx.tcgen05.st(tmem + (ptx.special.tid.x() >> 5 << 21), zeros)
            ptx.tcgen05.wait_st()
            ptx.tcgen05.fence_before_thread_sync()
            ptx.bar.sync(0)
            ptx.tcgen05.fence_after_thread_sync()
            with one_lane():
                desc = ptx.tcgen05.smem_descriptor(source, swizzle="none", leading=128, stride=256)
                with each_round(rounds) as turn:
                    begin = now()
                    for _ in range(count):
                        if shifts:
                            ptx.tcgen05.shift(tmem)
                        else:
                            ptx.tcgen05.cp(tmem, desc, "128x256b")
                    ptx.tcgen05.commit(done)
                    wait(done, turn & 1)
                    read(Out, turn, begin)

    return section


def _alloc(bench: Bench) -> dict[str, Readings]:
    return {"tmem.alloc_clk": bench.latency(allocations(bench.device.target, bench.device.rounds))}


def _moved(bench: Bench) -> dict[str, Readings]:
    names = {"tmem.cp_clk": False, "tmem.shift_clk": True}
    return {
        name: bench.slope(partial(copies, bench.device.target, bench.device.rounds, shifts), 4, 16)
        for name, shifts in names.items()
    }


BENCHMARKS = (
    Microbenchmark(
        "loads and stores of tensor memory",
        (
            "tmem.load_bytes_per_clk_warp",
            "tmem.store_bytes_per_clk_warp",
            "tmem.load_bytes_per_clk_sm",
            "tmem.store_bytes_per_clk_sm",
            "tmem.load_latency_clk",
        ),
        _ports,
        _TARGETS,
    ),
    Microbenchmark("allocation of tensor memory", ("tmem.alloc_clk",), _alloc, _TARGETS),
    Microbenchmark("copies to tensor memory and shifts", ("tmem.cp_clk", "tmem.shift_clk"), _moved, _TARGETS),
)
