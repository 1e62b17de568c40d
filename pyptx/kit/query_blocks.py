"""Which blocks of queries see a block of keys, and the masks of transposed scores.

Owns the arithmetic of the backward of attention, which goes through queries where the forward goes through
keys (:mod:`.key_blocks`).  Query ``i`` of a causal mask sees the keys up to ``i + behind``, where ``behind``
is the number of keys less that of queries; so key k is seen by the queries from ``k - behind`` on::

                 keys    block 0   block 1
    queries  block 0     x . . .   . . . .      behind = 0, blocks of 4: block 1 of keys is seen by the blocks
                         x x . .   . . . .      of queries from 1 on, and the diagonal cuts only block 1
                         x x x .   . . . .
                         x x x x   . . . .
             block 1     x x x x   x . . .
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import s32, u32
from ..dsl import Reg, ptx, reg
from ..dsl.units.fragments import Fragment
from .division import fast_divmod
from .wgmma_epilogue import check_accumulator

__all__ = ["QueryBlocks", "QueryRange"]

#: Above every number of a query.
_NEVER = 1 << 30


class QueryRange:
    """The blocks of queries that see a block of keys: numbers, or u32 registers.

    Attributes:
        first: the first of them; the last is that of the last query.
        whole: no mask cuts the blocks from ``whole`` on. It may be above the number of blocks.
    """

    __slots__ = ("first", "whole")

    def __init__(self, first: Reg | int, whole: Reg | int) -> None:
        self.first, self.whole = first, whole


class QueryBlocks:
    """Blocks of queries, and blocks of keys that they see. The constructor records nothing.

    Args:
        queries, keys: number of queries and of keys.
        block: queries of a block.
        key_block: keys of a block.
        causal: whether query i sees the keys up to ``i + keys - queries`` only.

    Attributes:
        count, key_count: number of blocks of queries and of keys.
        masked: whether a mask cuts any block: that of the diagonal, or keys behind the end.

    Raises:
        SpecError: a number that is not positive.
    """

    def __init__(self, queries: int, keys: int, *, block: int, key_block: int, causal: bool = False) -> None:
        for what, value in (("queries", queries), ("keys", keys), ("block", block), ("key_block", key_block)):
            if type(value) is not int or value < 1:
                raise SpecError(f"{what} is {value!r}: expected a positive number")
        self.queries, self.keys, self.block, self.key_block = queries, keys, block, key_block
        self.causal = causal
        self.behind = keys - queries
        self.count, self.key_count = -(-queries // block), -(-keys // key_block)
        self._ragged = keys % key_block != 0
        self.masked = causal or self._ragged

    def lengths(self) -> list[int]:
        """Return how many blocks see each block of keys; never more than the block of keys before has."""
        firsts = (
            max(0, number * self.key_block - self.behind) // self.block if self.causal else 0
            for number in range(self.key_count)
        )
        return [max(1, self.count - first) for first in firsts]

    def of(self, number: Reg) -> QueryRange:
        """Return the blocks that see a block of keys, at least one.

        Records 10 to 16 instructions for a causal mask, and two or three if the last keys do not fill a
        block.  Keys that no query sees have the last block, which is not whole.

        Args:
            number: number of the block of keys, a u32 register.
        """
        first: Reg | int = 0
        whole: Reg | int = 0
        if self.causal:
            key = (number * self.key_block).view(s32)
            seen = ptx.max(key - self.behind, 0).view(u32)
            first = ptx.min(fast_divmod(seen, self.block)[0], self.count - 1)
            seen = ptx.max(key + (self.key_block - 1 - self.behind), 0).view(u32)
            whole = fast_divmod(seen + (self.block - 1), self.block)[0]
        if self._ragged:
            masked = reg.scalar(u32, init=whole)
            ptx.inst.mov.u32(masked, self.count, pred=number == self.key_count - 1)
            whole = masked
        return QueryRange(first, whole)

    def mask(self, p: Fragment, key: Reg, query: Reg) -> None:
        """Set elements whose query does not see the key, or whose key does not exist, to 0.

        Records for each element a ``setp`` and a guarded ``mov``, and up to 12 instructions.

        Args:
            p: an accumulator whose rows are keys, in f32.
            key: the key of this thread's element 0, a u32 register.
            query: its query, a u32 register.

        Raises:
            SpecError: an accumulator that is not whole, or has other columns than a block has queries.
        """
        check_accumulator(p)
        if p.layout.columns != self.block:
            raise SpecError(f"the accumulator has {p.layout.columns} columns: expected {self.block}")
        for below in (0, 8):
            own = (key + below).view(s32)
            # The least query that sees the key.
            least = own - self.behind if self.causal else reg.scalar(s32, init=0)
            if self._ragged:
                least = ptx.selp(_NEVER, least, own >= self.keys)
            least = least - query.view(s32)
            for i, value in enumerate(p):
                if p.row(i) - p.row(0) == below:
                    ptx.inst.mov.f32(value, 0.0, pred=least > p.column(i))
