"""Sums of accumulators over the CTAs of a cluster, for products whose K is split among them (split-K).

Each CTA holds the sum over its part of K. It writes its accumulators into its shared memory, word for word as
its threads hold them; after a cluster barrier each CTA reads *its* columns of all parts from the CTAs'
shared memories, and adds them in the order of the ranks::

    rank 0   |part 0 of D: columns 0..31 | 32..63 | 64..95 | 96..127|       rank 0 sums columns 0..31
    rank 1   |part 1 of D:  ...                                     |       rank 1 sums columns 32..63
    rank 2   |part 2 of D:  ...                                     |        ...

So the order of the sums is fixed: ``((part 0 + part 1) + part 2) + ...``, each sum rounded to f32.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import f32, u32
from ..dsl import Reg, ptx, reg, smem
from ..dsl.units.fragments import Fragment
from .wgmma_epilogue import check_accumulator

__all__ = ["ClusterSum"]

_THREADS = 128
_PIECE = 16  # bytes that a thread writes or reads at a time: four elements


class ClusterSum:
    """The exchange of accumulators of ``columns`` columns. The constructor records nothing.

    ::

        total = kit.ClusterSum(parts=4, columns=128, blocks=2)
        total.put(acc, block, thread)           # in each warpgroup that has an accumulator
        ptx.cluster.sync()                      # in all threads of the cluster
        own = total.take(rank, block, thread)   # columns 32 * rank ... of the block's rows
        ...
        ptx.cluster.sync()                      # before the CTA ends: others may still read

    Args:
        parts: CTAs of the cluster, 1 to 16. Rank ``r`` sums the ``r``-th part of the columns.
        columns: columns of the accumulators; a part has a multiple of 8.
        blocks: number of accumulators (64 rows each) in a CTA.

    Raises:
        SpecError: other numbers.
        SharedMemoryError: there is no room for the accumulators, ``256 * columns`` bytes for each block.
    """

    def __init__(self, *, parts: int, columns: int, blocks: int) -> None:
        if type(parts) is not int or not 1 <= parts <= 16:
            raise SpecError(f"parts is {parts!r}: expected the CTAs of a cluster, 1..16")
        if columns < 1 or columns % (8 * parts):
            raise SpecError(
                f"{columns} columns: expected a multiple of {8 * parts}, 8 for each of the {parts} parts"
            )
        self.parts, self.columns, self.blocks = parts, columns, blocks
        self._block_bytes = 64 * columns * 4
        self._buffer = smem.alloc(blocks * self._block_bytes, align=128, name="partial")

    def _place(self, block: Reg | int, thread: Reg) -> Reg:
        place = thread * _PIECE + self._buffer.addr
        if isinstance(block, Reg):
            ptx.inst.mad.lo.u32(place, block, self._block_bytes, place)
        elif block:
            place += block * self._block_bytes
        return place

    def put(self, acc: Fragment, block: Reg | int, thread: Reg) -> None:
        """Write an accumulator. Records two or three instructions and ``columns / 8`` ``st.shared.v4``.

        Args:
            acc: the accumulator.
            block: its number in the CTA.
            thread: this thread's number in its warpgroup, 0..127.

        Raises:
            SpecError: the accumulator is not a whole one of f32, or has other columns.
        """
        check_accumulator(acc)
        if acc.layout.columns != self.columns:
            raise SpecError(f"{acc!r} has {acc.layout.columns} columns: expected {self.columns}")
        place = self._place(block, thread)
        for i in range(0, len(acc), 4):
            ptx.inst.st.shared.v4.f32(ptx.addr(place, i // 4 * _THREADS * _PIECE), acc[i : i + 4])

    def take(self, rank: Reg, block: Reg | int, thread: Reg) -> Fragment:
        """Return the sum over all parts of this CTA's columns, an accumulator of ``columns / parts`` columns.

        Records four or five instructions; for each part a ``mapa`` and, for each 8 columns, one
        ``ld.shared::cluster.v4`` and (but for the first part) four ``add``.

        Args:
            rank: this CTA's rank in the cluster.
            block, thread: as for :meth:`put`.
        """
        share = self.columns // self.parts
        total = ptx.wgmma.accumulator(n=share)
        place = self._place(block, thread)
        first = reg.scalar(u32)
        ptx.inst.mad.lo.u32(first, rank, share // 8 * _THREADS * _PIECE, place)
        for part in range(self.parts):
            there = ptx.cluster.map(first, part)
            for i in range(0, len(total), 4):
                source = ptx.addr(there, i // 4 * _THREADS * _PIECE)
                if part == 0:
                    ptx.inst.ld.shared__cluster.v4.f32(total[i : i + 4], source)
                    continue
                words = reg.array(f32, 4)
                ptx.inst.ld.shared__cluster.v4.f32(words, source)
                for value, word in zip(total[i : i + 4], words, strict=True):
                    ptx.inst.add.f32(value, value, word)
        return total
