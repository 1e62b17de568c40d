"""Where the queries and keys of each sequence of a batch are: in rows, one behind the other, or in pages.

Owns the three ways in which arrays of attention hold sequences, and the copies of blocks of keys from them::

    rows     Q[B, S, H, D], K[B, Sk, Hk, D]        all sequences have S queries; lengths[B] keys, or Sk
    ragged   Q[1, all, H, D], K[1, all, Hk, D]     begins_q[B + 1], begins_k[B + 1]: where each one begins
    pages    K[pages, page, Hk, D]                 table[B, Sk / page]: the page of each page keys; lengths
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.errors import SpecError
from ..core.tuples import NamedTuple
from ..core.types import s32, u32
from ..dsl import Buffer, Reg, Tile, TileParam, ptx, reg
from ..dsl.operands import Addr
from .division import fast_divmod
from .head_operand import HeadOperand

__all__ = ["Sequence", "Sequences"]

_Number = Reg | int


class Sequence(NamedTuple):
    """One sequence; numbers, or s32 registers.

    Attributes:
        number: its number in the batch, a u32 register.
        queries, keys: how many it has.
        first_query, first_key: where they begin in their arrays' rows.
        row: the arrays' row that has them, for Q and O.
    """

    number: Reg
    queries: _Number
    keys: _Number
    first_query: _Number
    first_key: _Number
    row: _Number


class Sequences:
    """How arrays hold the sequences of a batch. The constructor records nothing.

    Args:
        count: number of sequences.
        queries, keys: most queries and keys of a sequence; all have as many where no array says otherwise.
        ragged: whether sequences lie one behind the other.
        lengths: whether an array has the number of keys of each sequence.
        page, pages: rows of a page, a multiple of 8, and number of pages of the pool; None for no pages.

    Attributes:
        names: names of the arrays that say where sequences are, in the order of :attr:`specs`.
        specs: their specs.

    Raises:
        SpecError: ragged sequences with lengths or pages, pages without lengths, or keys that do not fill
            pages.
    """

    def __init__(
        self,
        count: int,
        queries: int,
        keys: int,
        *,
        ragged: bool = False,
        lengths: bool = False,
        page: int | None = None,
        pages: int | None = None,
    ) -> None:
        if (page is None) != (pages is None):
            raise SpecError(f"page is {page} and pages is {pages}: expected both or none")
        if ragged and (lengths or page is not None):
            raise SpecError("ragged sequences with lengths or pages: begins_k has their lengths")
        if page is not None and (not lengths or page < 8 or page % 8 or keys % page):
            raise SpecError(
                f"page = {page} for {keys} keys, lengths={lengths}: expected a multiple of 8 that divides "
                "the keys, and lengths"
            )
        self.count, self.queries, self.keys = count, queries, keys
        self.ragged, self.lengths, self.page, self.pages = ragged, lengths, page, pages
        found = {}
        if ragged:
            found["begins_q"] = found["begins_k"] = Tile(count + 1, s32)
        if lengths:
            found["lengths"] = Tile(count, s32)
        if page is not None:
            found["table"] = Tile(count, keys // page, s32)
        self.names, self.specs = tuple(found), tuple(found.values())

    @property
    def exact(self) -> bool:
        """Whether every sequence has as many keys as its array has rows: TMA fills what is behind with 0."""
        return not (self.ragged or self.lengths)

    def at(self, number: Reg, arrays: dict[str, TileParam]) -> Sequence:
        """Return a sequence. Records two loads and a ``sub`` for each array of begins, a load for lengths.

        Args:
            number: its number, a u32 register.
            arrays: the parameters of :attr:`names`.
        """
        if self.ragged:
            places = []
            for name in ("begins_q", "begins_k"):
                begin, end = (
                    ptx.load(s32, arrays[name].at(number + i if i else number), space="global")
                    for i in range(2)
                )
                places.append((begin, end - begin))
            (query, queries), (key, keys) = places
            return Sequence(number, queries, keys, query, key, 0)
        keys_of: _Number = self.keys
        if self.lengths:
            keys_of = ptx.load(s32, arrays["lengths"].at(number), space="global")
        return Sequence(number, self.queries, keys_of, 0, 0, number)

    def pieces(self, block: int) -> int:
        """Return the rows of one copy of a block of keys: those of a page, if it is smaller.

        Raises:
            SpecError: pages and blocks of which neither is a multiple of the other.
        """
        if self.page is None:
            return block
        if block % self.page and self.page % block:
            raise SpecError(
                f"page = {self.page} and blocks of {block} keys: neither is a multiple of the other"
            )
        return min(block, self.page)

    def load(
        self,
        operand: HeadOperand,
        targets: Iterable[tuple[Buffer, TileParam]],
        arrays: dict[str, TileParam],
        *,
        sequence: Sequence,
        key: Reg,
        head: Reg | int,
        mbar: Reg | Addr,
    ) -> None:
        """Load a block of keys. Records :meth:`.head_operand.HeadOperand.load` for each target and page.

        For each page it also records a ``setp``, a guarded load of the table, and 3 to 6 instructions.  A
        page behind the sequence's end is one behind the pool, which TMA fills with zeros; its entry is not
        read.

        Args:
            operand: the operand, made with ``piece=pieces(block)``.
            targets: pairs of a stage of ``operand.stages`` and the array that is loaded there, K or V.
            arrays: the parameters of :attr:`names`.
            sequence: the sequence, of :meth:`at`.
            key: the block's first key, an s32 register.
            head: number of the head.
            mbar: the mbarrier that counts the bytes of the whole blocks.
        """
        if self.page is None or self.pages is None:
            position = key if isinstance(sequence.first_key, int) else key + sequence.first_key
            for stage, array in targets:
                operand.load(stage, array, position=position, head=head, batch=sequence.row, mbar=mbar)
            return
        for row in range(0, operand.rows, operand.piece):
            position = key + row if row else key
            exists = position < sequence.keys
            index, within = fast_divmod(position.view(u32), self.page)
            number = reg.scalar(s32, init=self.pages)
            ptx.inst.ld.global_.s32(number, arrays["table"].at(sequence.number, index), pred=exists)
            for stage, array in targets:
                operand.load(stage, array, position=within, head=head, batch=number, mbar=mbar, row=row)
