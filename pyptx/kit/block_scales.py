"""Scales of blocks for products on fp8: their loads, one block of K ahead, and the sums that they scale.

Owns what a consumer warpgroup does beside ``wgmma`` if A has a scale for each 128 elements of a row and B
one for each block of 128 x 128.  The tensor core keeps about 13 bits of a sum of fp8 products, so it sums one
block of K; the threads multiply the block's sum by both scales and add it to totals in f32.

A thread holds two rows of each accumulator of 64 rows, so it needs two scales of A for each of them, and one
of B: it loads them from global memory itself, while the tensor core works on the block before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..core.errors import SpecError
from ..core.types import f32, u32, u64
from ..dsl import Reg, TileParam, ptx, reg
from ..dsl.units.fragments import Fragment

__all__ = ["BLOCK", "BlockScales"]

#: Elements of K, and of N, that share a scale.
BLOCK = 128
_ROWS = 64


class BlockScales:
    """The scales of one warpgroup's rows and columns. Make it in the warpgroup.

    ::

        scales = kit.BlockScales(scales_A, scales_B, blocks=1)
        with tiles.loop() as tile:
            scales.begin(totals, row=m_base + first_row, column=n_base, last=M - 1)
            with ptx.for_(0, K, 128) as k:
                slot = consumer.acquire()
                multiply(accs, slot.index, accumulate=False)
                ptx.wgmma.commit_group()
                scales.turn(more=k < K - 128)
                ptx.wgmma.wait_group(0)
                operands.hand_back(consumer)
                for block in range(blocks):
                    scales.add(accs[block], totals[block], block)

    Records the thread's row in the accumulator (8 instructions), and with ``a_major="M"`` two more.

    Args:
        a, b: the parameters with the scales, in f32: of A ``[blocks of K, rows]`` (``a_major="M"``) or
            ``[rows, blocks of K]`` (``"K"``), of B ``[blocks of N, blocks of K]``; of several matrices with
            their number in front.
        blocks: number of accumulators of 64 rows, one below the other.
        a_major: the dimension of A's scales whose neighbors are adjacent.

    Raises:
        SpecError: scales of another type or number of dimensions.
    """

    def __init__(self, a: TileParam, b: TileParam, *, blocks: int, a_major: Literal["M", "K"] = "M") -> None:
        for name, scales in (("A", a), ("B", b)):
            if scales.spec.dtype is not f32 or len(scales.spec.dims) not in (2, 3):
                raise SpecError(
                    f"the scales of {name} are {scales.spec!r}: expected two or three dims in f32"
                )
        if a_major not in ("M", "K"):
            raise SpecError(f"a_major is {a_major!r}: expected 'M' or 'K'")
        self.a, self.b, self.blocks, self.a_major = a, b, blocks, a_major
        self._row = ptx.wgmma.accumulator(n=8).origin().row
        # Bytes from a row's scale to that of the next block of K.
        self._step: Reg | int = 4
        if a_major == "M":
            self._step = reg.scalar(u64)
            ptx.inst.mul.wide.u32(self._step, reg.scalar(u32, init=0) + a.extent(-1), 4)

    def begin(
        self,
        totals: Sequence[Fragment],
        *,
        row: Reg,
        column: Reg,
        last: Reg | int,
        a_matrix: Reg | None = None,
        b_matrix: Reg | None = None,
    ) -> None:
        """Begin a tile: clear the totals, and load the scales of the first block of K.

        Records a ``mov`` for each total; for each scale of A two ``add``, a ``min``, its address, a load and
        an ``add``; for that of B a ``shr``, a ``min``, and the same.

        Args:
            totals: accumulators of the warpgroup's blocks.
            row, column: first row of the warpgroup, and first column of the tile, whose columns are in one
                block.
            last: the last row that has a scale; rows behind it get its scale.
            a_matrix, b_matrix: number of the matrix, if the scales have three dims.
        """
        for total in totals:
            for value in total:
                value.set(0.0)
        a_front = () if a_matrix is None else (a_matrix,)
        b_front = () if b_matrix is None else (b_matrix,)
        self._places: list[Reg] = []
        for below in (block * _ROWS + half for block in range(self.blocks) for half in (0, 8)):
            known = ptx.min(row + self._row + below, last)
            place = (0, known) if self.a_major == "M" else (known, 0)
            self._places.append(_address(self.a, *a_front, *place))
        known = ptx.min(column >> (BLOCK.bit_length() - 1), self.b.extent(-2) - 1)
        self._places.append(_address(self.b, *b_front, known, 0))
        self._coming = [reg.scalar(f32) for _ in self._places]
        self._now = [reg.scalar(f32) for _ in self._places]
        self._load(None)

    def _load(self, more: Reg | None) -> None:
        """Load the scales of the next block of K, and go on to the one after it."""
        for i, (value, place) in enumerate(zip(self._coming, self._places, strict=True)):
            ptx.inst.ld.global_.nc.f32(value, ptx.addr(place), pred=more)
            ptx.inst.add.u64(place, place, 4 if i == len(self._places) - 1 else self._step)

    def turn(self, *, more: Reg | bool) -> None:
        """Take the loaded scales as those of the current block of K, and load the next if ``more``.

        Records for each scale a ``mov``, a load and an ``add``; only the ``mov`` if ``more`` is False.
        """
        for value, loaded in zip(self._now, self._coming, strict=True):
            ptx.inst.mov.f32(value, loaded)
        if more is not False:
            self._load(None if more is True else more)

    def add(self, acc: Fragment, total: Fragment, block: int = 0) -> None:
        """Add an accumulator's sums to its totals. Records two ``mul`` and an ``fma`` for each element.

        Elements 4i and 4i + 1 of an accumulator are in the thread's first row, the next two in the row 8
        below.
        """
        *of_rows, of_columns = self._now
        factors = [factor * of_columns for factor in of_rows[2 * block : 2 * block + 2]]
        for j, (value, summand) in enumerate(zip(total, acc, strict=True)):
            ptx.inst.fma.rn.f32(value, summand, factors[j >> 1 & 1], value)


def _address(scales: TileParam, *indices: Reg | int) -> Reg:
    """Return the address of a scale in a register of its own, which the caller moves on."""
    place = scales.at(*indices)
    base = place.base
    assert isinstance(base, Reg)
    return base + place.offset if place.offset else base
