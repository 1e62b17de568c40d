"""Kernels that keep one part of the chip at work, evenly: what a microbenchmark of power runs.

A load is a number of equal sections in a row, of about 5 us each on a GPU. At the beginning of each, and at
the end, the first thread of the grid writes the clock of its multiprocessor and the timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal

from ....core.types import bf16, f32, u8, u32, u64
from ....dsl import Buffer, Reg, Tile, TileParam, ptx, reg, smem
from ....entry import Kernel, kernel
from ..kernels import each_round, one_lane, one_thread, readings, use
from .pieces import TURN, Pieces, place_of

__all__ = [
    "FMAS",
    "PRODUCTS",
    "ROWS",
    "STREAMED",
    "WARPGROUP",
    "multiplied",
    "streamed",
    "tensored",
]

#: Multiply-adds of each chain in a pass of the loop.
FMAS = 64
#: Products of a section, in batches of at most 16 in a row on one accumulator.
PRODUCTS, _BATCH = 64, 16
#: Rows of A, K of one product, stages of operands, and elements of a row of a stage.
ROWS, _K, _STAGES, _SPAN = 64, 16, 4, 64
WARPGROUP, _WARP = 128, 32
#: Bytes that a thread moves at once into shared memory.
_WIDE = 16
#: Turns of a stream in a section, and the bytes of a section.
_TURNS = 2
STREAMED = _TURNS * TURN
#: Sections after which a stream begins anew. All CTAs read far more meanwhile than L2 holds.
_AGAIN = 32
#: x x + c wanders without an end, with all bits of its mantissa.
_CHAOTIC = -1.8


@contextmanager
def _sections(output: TileParam, count: int) -> Iterator[Reg]:
    """Yield the number of each section. Records the loop, and what writes clock and timer."""
    first = one_thread() & (ptx.special.ctaid.x() == 0)

    def write(row: Reg | int) -> None:
        clock, timer = ptx.special.clock64(), ptx.special.globaltimer()
        ptx.store(output.at(row, 0), clock, u64, pred=first)
        ptx.store(output.at(row, 1), timer, u64, pred=first)

    with each_round(count) as turn:
        write(turn)
        yield turn
    write(count)


@cache
def multiplied(
    target: str, ctas: int, threads: int, chains: int, data: str, passes: int, sections: int
) -> Kernel:
    """Build a kernel of multiply-adds: ``FMAS`` of each chain in a pass.

    Args:
        target: of the device.
        ctas, threads, chains: CTAs, threads of each, and independent chains of a thread.
        data: with ``"zeros"`` all numbers are 0; otherwise all bits of them change in each step.
        passes: passes of a section.
        sections: sections of the launch.
    """

    @kernel(
        out_specs=(readings(sections + 1, 2),),
        grid=ctas,
        block=threads,
        arch=target,
        name=f"fma_{data}_{ctas}x{threads}x{chains}_{passes}_{sections}",
    )
    def section(Out: TileParam) -> None:
        zeros = data == "zeros"
        constant = reg.scalar(f32, init=0.0 if zeros else _CHAOTIC)
        seed = ptx.special.ctaid.y() if zeros else ptx.special.tid.x()
        numbers = [reg.scalar(f32, name=f"x{number}_") for number in range(chains)]
        for number, each in enumerate(numbers):
            ptx.inst.cvt.rn.f32.u32(each, seed)
            # Below 1 in all threads, from where it wanders; 0 stays 0.
            ptx.inst.mul.rn.f32(each, each, (number + 1) / 4096)
        with _sections(Out, sections), ptx.for_(0, passes):
            ptx.pragma("nounroll")
            for _ in range(FMAS):
                for each in numbers:
                    ptx.inst.fma.rn.f32(each, each, each, constant)
        use(Out, *numbers)

    return section


@cache
def streamed(target: str, ctas: int, level: Literal["l2", "hbm"], sections: int) -> Kernel:
    """Build a kernel whose CTAs read ``STREAMED`` bytes in a section, by bulk copies.

    With ``l2`` each reads its first bytes again and again; with ``hbm`` so many others meanwhile that L2 has
    lost them.
    """
    again = min(sections, _AGAIN) if level == "hbm" else 1
    region = STREAMED * again if level == "hbm" else TURN

    @kernel(
        in_specs=(Tile(region * ctas, u8),),
        out_specs=(readings(sections + 1, 2),),
        grid=ctas,
        block=_WARP,
        arch=target,
        extern_smem=True,
        name=f"stream_{level}_{ctas}_{sections}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        pieces = Pieces()
        parity, place = reg.scalar(u32, init=0), reg.scalar(u64)
        begin = place_of(A.ptr, region)
        ptx.inst.mov.u64(place, begin)
        with one_lane():
            pieces.load(place)
            with _sections(Out, sections) as turn:
                if level == "hbm":
                    ptx.inst.mad.wide.u32(place, turn % again, STREAMED, begin)
                for number in range(_TURNS):
                    pieces.load(place, parity, offset=number * TURN if level == "hbm" else 0)
                    parity ^= 1
            pieces.finish(parity)

    return section


@cache
def tensored(target: str, ctas: int, n: int, batch: int, sections: int) -> Kernel:
    """Build a kernel of ``PRODUCTS`` of ``wgmma`` in a section, m64nNk16, of operands in shared memory.

    Args:
        target: of the device.
        ctas: CTAs.
        n: columns.
        batch: products in a row on one accumulator. Behind fewer than 16 the warps wait for all of them, so
            that the tensor core rests meanwhile; 16 follow the ones before at once.
        sections: sections of the launch.
    """
    nbytes = _STAGES * (ROWS + n) * _SPAN * bf16.nbytes

    @kernel(
        in_specs=(Tile(nbytes // bf16.nbytes, bf16),),
        out_specs=(readings(sections + 1, 2),),
        grid=ctas,
        block=WARPGROUP,
        arch=target,
        extern_smem=True,
        name=f"wgmma_n{n}_by{batch}_{sections}",
    )
    def section(A: TileParam, Out: TileParam) -> None:
        # One allocation, so that one loop fills it: operands are numbers in no order.
        rows = smem.alloc((_STAGES * (ROWS + n), _SPAN), bf16, swizzle="128B")
        _filled(rows, A)
        of_a = ptx.wgmma.descriptor(rows)
        of_b = ptx.wgmma.advance(of_a, _STAGES * ROWS * _SPAN * bf16.nbytes)
        acc = ptx.wgmma.accumulator(n=n)
        for register in acc:
            ptx.inst.mov.b32(register, 0)
        # A count that ptxas knows lets it drop all batches but the last, whose sum alone is used.
        count = ptx.special.nctaid.z() * (PRODUCTS // batch)
        with _sections(Out, sections), ptx.for_(0, count):
            ptx.pragma("nounroll")
            ptx.wgmma.fence()
            for number in range(batch):
                stage, step = divmod(number, _SPAN // _K)
                inside = stage * _SPAN * bf16.nbytes
                a = ptx.wgmma.advance(of_a, inside * ROWS + step * _K * bf16.nbytes)
                b = ptx.wgmma.advance(of_b, inside * n + step * _K * bf16.nbytes)
                # The first drops the sum of the last batch, which would grow until products are lost in it.
                ptx.wgmma.mma_async(acc, a, b, atype=bf16, scale_d=number > 0)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(1 if batch == _BATCH else 0)
        ptx.wgmma.wait_group(0)
        use(Out, *acc)

    return section


def _filled(rows: Buffer, source: TileParam) -> None:
    """Copy an array into shared memory as it is. All threads of the CTA must come here."""
    place, to = reg.scalar(u64), reg.scalar(u32, init=rows.addr)
    offset = ptx.special.tid.x() * _WIDE
    to += offset
    ptx.inst.mad.wide.u32(place, ptx.special.tid.x(), _WIDE, source.ptr)
    with ptx.for_(0, rows.nbytes // (_WIDE * WARPGROUP)):
        words = [reg.scalar(u32, name=f"word{number}_") for number in range(4)]
        ptx.inst.ld.global_.v4.u32(words, ptx.addr(place))
        ptx.store(ptx.addr(to), words, u32, space="shared")
        place += _WIDE * WARPGROUP
        to += _WIDE * WARPGROUP
    ptx.fence.proxy_async("shared::cta")
    ptx.bar.sync(0)
