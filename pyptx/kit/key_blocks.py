"""Which blocks of keys the rows of an attention tile see, and the masks of blocks that an edge cuts.

Owns the arithmetic of causal masks and sliding windows.  Query ``i`` stands at key ``at = i + keys -
queries``, so that the last query stands at the last key.  It sees the keys from ``at - left`` to ``at +
right``, as far as they exist; None is a side without bound, and a causal mask is ``right = 0``::

                 keys
                 0 1 2 3 4 5 6 7 8        left = 3, right = 0, blocks of 3 keys
    query 0      x x x x . . . . .        a tile of queries 0..2 goes through all blocks, the
          1      . x x x x . . . .        last and the first of which are cut by an edge
          2      . . x x x x . . .
"""

from __future__ import annotations

import math

from ..core.errors import SpecError
from ..core.types import s32, u32
from ..dsl import Reg, ptx
from ..dsl.units.fragments import Fragment
from .division import quotient
from .wgmma_epilogue import check_accumulator

__all__ = ["BlockRange", "KeyBlocks"]

_Number = Reg | int
#: Numbers of keys are below it.
_KEYS = 1 << 30


def _least(a: _Number, b: _Number) -> _Number:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else ptx.min(a, b)


def _most(a: _Number, b: _Number) -> _Number:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else ptx.max(a, b)


class BlockRange:
    """The blocks of one tile: numbers, or s32 registers.

    Attributes:
        first, end: the tile goes through the blocks from ``first`` to ``end - 1``, at least one.
        whole_first, whole_end: no mask cuts the blocks from ``whole_first`` to ``whole_end - 1``.
    """

    __slots__ = ("end", "first", "whole_end", "whole_first")

    def __init__(self, first: _Number, end: _Number, whole_first: _Number, whole_end: _Number) -> None:
        self.first, self.end, self.whole_first, self.whole_end = first, end, whole_first, whole_end


class KeyBlocks:
    """Blocks of keys under a mask. The constructor records nothing.

    Args:
        block: keys of a block.
        left, right: how many keys before and behind its place a query sees; None for all, negative numbers
            are allowed.

    Attributes:
        banded: whether there is a bound on either side.

    Raises:
        SpecError: a block without keys.
    """

    def __init__(self, block: int, left: int | None = None, right: int | None = None) -> None:
        if type(block) is not int or block < 1:
            raise SpecError(f"block is {block!r}: expected a positive number of keys")
        self.block, self.left, self.right = block, left, right
        self.banded = left is not None or right is not None

    def of(self, place: _Number, count: int, keys: _Number) -> BlockRange:
        """Return the blocks of ``count`` queries, the first of which stands at key ``place``.

        Records nothing for numbers; for registers about 5 instructions for each bound and side.  A tile that
        sees nothing has one block, which is not whole.

        Args:
            place: a number or s32 register; it may be negative.
            count: number of queries.
            keys: number of keys, a number or s32 register.
        """
        block = self.block
        first: _Number = 0
        whole_first: _Number = 0
        end_key, whole_key = keys, keys
        if self.right is not None:
            end_key = _least(place + (count + self.right), keys)
            whole_key = _most(_least(place + (self.right + 1), keys), 0)
        end = self._blocks(_most(end_key, 1) + (block - 1))
        whole_end = self._blocks(whole_key)
        if self.left is not None:
            first = _least(self._blocks(_most(place - self.left, 0)), end - 1)
            whole_first = _most(place + (count - 1 - self.left), 0)
            whole_first = self._blocks(whole_first + (block - 1))
        return BlockRange(first, end, whole_first, whole_end)

    def _blocks(self, keys: _Number) -> _Number:
        """Return how many whole blocks a number of keys has."""
        if isinstance(keys, int):
            return keys // self.block
        return quotient(keys.view(u32), self.block, limit=_KEYS).view(s32)

    def mask(self, s: Fragment, places: tuple[Reg, Reg], key: Reg, keys: _Number, column: Reg) -> None:
        """Set the scores of keys that a row does not see to -infinity.

        Records for each element a ``setp`` and a guarded ``mov`` for each bound, and up to 10 instructions.

        Args:
            s: the accumulator of the block's scores, in f32.
            places: the keys at which this thread's two rows stand, s32 registers.
            key: the block's first key, an s32 register.
            keys: number of keys, a number or s32 register.
            column: column of this thread's element 0, an s32 register.

        Raises:
            SpecError: an accumulator that is not whole, or has other columns than the block has keys.
        """
        check_accumulator(s)
        if s.layout.columns != self.block:
            raise SpecError(
                f"the accumulator has {s.layout.columns} columns: expected {self.block}, the block"
            )
        origin = key + column
        for number, place in enumerate(places):
            bound: _Number = keys if self.right is None else ptx.min(place + (self.right + 1), keys)
            end = bound - origin
            begin = None if self.left is None else place - self.left - origin
            for i, value in enumerate(s):
                if (s.row(i) != s.row(0)) != bool(number):
                    continue
                ptx.inst.mov.f32(value, -math.inf, pred=end <= s.column(i))
                if begin is not None:
                    ptx.inst.mov.f32(value, -math.inf, pred=begin > s.column(i))
