"""Parts of the kernels of microbenchmarks: the rounds, the clock around a section, and setup.

A kernel runs its section in a loop of rounds and writes the cycles of each round. Every function says what it
records.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

from ...core.types import ScalarType, b64, u32, u64
from ...dsl import Buffer, Reg, Tile, TileParam, ptx, reg, smem
from ...entry import Kernel, kernel

__all__ = [
    "cleared",
    "each_pass",
    "each_round",
    "empty",
    "initialized",
    "now",
    "one_lane",
    "one_thread",
    "read",
    "readings",
    "shape_of",
    "spin",
    "use",
    "wait",
]

#: Bytes that a thread clears at once.
_WIDE = 16
_WARP = 32


def readings(rounds: int, columns: int = 1) -> Tile:
    """Return the spec of a kernel's output: a row for each round. Records nothing."""
    return Tile(rounds, columns, u64)


def shape_of(kernel: Kernel) -> tuple[int, ...]:
    """Return the shape of a kernel's first array."""
    spec = kernel.options.specs[0]
    assert isinstance(spec, Tile)
    return spec.shape({})


@cache
def empty(target: str, rounds: int) -> Kernel:
    """Build a kernel whose section is empty."""

    @kernel(out_specs=(readings(rounds),), block=_WARP, arch=target, name="empty_section")
    def section(Out: TileParam) -> None:
        first = one_thread()
        with each_round(rounds) as turn:
            begin = now()
            read(Out, turn, begin, pred=first)

    return section


@cache
def spin(target: str, rounds: int, ns: int) -> Kernel:
    """Build a kernel that spins for so many ns, and writes the cycles and the ns that this took."""

    @kernel(out_specs=(readings(rounds, 2),), block=_WARP, arch=target, name=f"spin_{ns}")
    def section(Out: TileParam) -> None:
        first = one_thread()
        with each_round(rounds) as turn:
            timer, clock = ptx.special.globaltimer(), ptx.special.clock64()
            passed = reg.scalar(u64, init=0)
            with ptx.do_while(partial(operator.lt, passed, ns)):
                ptx.inst.sub.u64(passed, ptx.special.globaltimer(), timer)
            cycles = ptx.special.clock64() - clock
            ptx.store(Out.at(turn, 0), cycles, u64, pred=first)
            ptx.store(Out.at(turn, 1), passed, u64, pred=first)

    return section


@contextmanager
def each_round(rounds: int) -> Iterator[Reg]:
    """Yield the number of each round. Records the instructions of a loop, and that ptxas must not unroll it.

    An unrolled section would run each time from instructions that are not in the cache.
    """
    turn = reg.scalar(u32, init=0, name="turn")
    with ptx.do_while(partial(operator.lt, turn, rounds)):
        ptx.pragma("nounroll")
        yield turn
        turn += 1


@contextmanager
def each_pass(output: TileParam, rounds: int, count: Reg) -> Iterator[None]:
    """Run the block ``count`` times in each round, between barriers of the CTA, and write the cycles.

    Records a predicate for thread 0, and the loops of rounds and passes, which ptxas may not unroll.
    """
    first = one_thread()
    with each_round(rounds) as turn:
        ptx.bar.sync(0)
        begin = now()
        with ptx.for_(0, count):
            ptx.pragma("nounroll")
            yield
        ptx.bar.sync(0)
        read(output, turn, begin, pred=first)


def now() -> Reg:
    """Return the clock of the multiprocessor. Records one ``mov``."""
    return ptx.special.clock64()


def read(
    output: TileParam, row: Reg | int, begin: Reg, column: Reg | int = 0, pred: Reg | None = None
) -> None:
    """Write the cycles since ``begin``: a read of the clock, a subtraction, an address, and a store."""
    end = ptx.special.clock64()
    ptx.store(output.at(row, column), end - begin, u64, pred=pred)


def use(output: TileParam, *values: Reg) -> None:
    """Use results, so that ptxas keeps what makes them. Records a false predicate, and guarded stores."""
    never = ptx.special.nctaid.z() == 0
    for value in values:
        ptx.store(ptx.addr(output.ptr), value, pred=never)


def one_thread() -> Reg:
    """Return a predicate that is true in thread 0 of a CTA. Records two instructions."""
    return ptx.special.tid.x() == 0


def initialized(count: int = 1, arrivals: int = 1) -> list[Buffer]:
    """Return mbarriers that thread 0 has initialized. All threads of the CTA must come here.

    Records for each a ``mbarrier.init``, and a predicate, a fence and a barrier.
    """
    made = [smem.alloc(1, b64) for _ in range(count)]
    first = one_thread()
    for each in made:
        ptx.mbarrier.init(each, arrivals, pred=first)
    ptx.fence.mbarrier_init(pred=first)
    ptx.bar.sync(0)
    return made


def cleared(shape: tuple[int, ...], kind: ScalarType, threads: int, swizzle: str = "128B") -> Buffer:
    """Return a buffer of zeros that engines may read. All threads of the CTA must come here.

    Records a loop of stores, a fence of the async proxy and a barrier.
    """
    made = smem.alloc(shape, kind, swizzle=swizzle)
    place = reg.scalar(u32, init=made.addr)
    place += ptx.special.tid.x() * _WIDE
    with ptx.for_(0, made.nbytes // (_WIDE * threads)):
        ptx.store(ptx.addr(place), [0, 0, 0, 0], u32, space="shared")
        place += _WIDE * threads
    ptx.fence.proxy_async("shared::cta")
    ptx.bar.sync(0)
    return made


@contextmanager
def one_lane(warp: int = 0) -> Iterator[None]:
    """Run the block in one lane of a warp. Records a comparison, an ``elect`` and two branches."""
    with ptx.if_(ptx.special.tid.x() >> 5 == warp), ptx.if_(ptx.warp.elect()):
        yield


def wait(mbar: Buffer, parity: Reg | int) -> None:
    """Wait for a phase: a ``try_wait`` and a branch back to it."""
    ptx.mbarrier.wait(mbar, parity)
