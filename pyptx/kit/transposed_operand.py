"""Operand B of 8-bit products whose rows lie along K: a tile [k, n] in shared memory turned to [n, k].

Owns the transposition and the order of K in which it leaves the elements.  ``wgmma`` reads 8-bit operands
K-major only, and V of attention has its keys, which are K of the second product, in rows.  ``ldmatrix``
transposes pairs of bytes and leaves in each thread the keys ``2 j`` and ``2 j + 1`` of two elements; bytes of
two such registers make a word of four keys.  So K has in each 16 keys the order ::

    byte of the row     0 1 2 3   4 5 6  7    8 9 10 11    12 13 14 15
    key                 0 1 8 9   2 3 10 11   4 5 12 13    6  7  14 15

which is also the order in which a thread's part of an accumulator becomes operand A without an exchange
(:func:`.operand_a.a_fragments`): both operands have it, so products are right.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import ScalarType, b32
from ..dsl import Buffer, Reg, ptx, reg, smem
from ..layout import OperandTile
from .head_operand import HeadOperand, StageDescriptors

__all__ = ["TransposedOperand"]

_SPAN = 128
#: Rows and bytes of a row that one ``ldmatrix`` of four matrices reads.
_KEYS, _BYTES = 32, 16
_LANES = 32
#: Selectors of ``prmt`` for the bytes of an even and of an odd element in two registers of ``ldmatrix``.
_BYTES_OF = (0x6420, 0x7531)
#: K of one product on 8-bit types.
_WGMMA_K = 32


class TransposedOperand:
    """A tile of :class:`.head_operand.HeadOperand` in 8 bits, turned. The constructor records nothing.

    ::

        loaded = kit.HeadOperand(128, 128, e4m3)
        turned = kit.TransposedOperand(loaded)
        raw, tiles = loaded.stages(2), turned.stages(2)
        ...                                         # TMA loads raw[0]
        turned.turn(raw[0], tiles[0], warp=warp, warps=4)
        ptx.fence.proxy_async("shared::cta")        # in each thread; then a barrier, or an arrival
        ...
        steps = turned.descriptors(tiles[0]).steps()

    Args:
        loaded: the tile as TMA loads it: 8-bit elements, rows a multiple of 32.

    Attributes:
        swizzle: that of the turned tile: the widest that divides its rows.

    Raises:
        SpecError: elements of another size, or other rows.
    """

    def __init__(self, loaded: HeadOperand) -> None:
        if loaded.dtype.nbytes != 1:
            raise SpecError(
                f"a tile of {loaded.dtype}: expected 8-bit elements, others need no transposition"
            )
        if loaded.rows % _KEYS:
            raise SpecError(f"a tile of {loaded.rows} rows: expected a multiple of {_KEYS}, K of a product")
        self.loaded = loaded
        self.dtype: ScalarType = loaded.dtype
        self._span = next(span for span in (128, 64, 32) if loaded.rows % span == 0)
        self.swizzle = f"{self._span}B"
        self._tile = OperandTile(loaded.elements, loaded.rows, 8, "K", self.swizzle)

    def stages(self, count: int, name: str | None = None) -> Buffer:
        """Allocate ``count`` stages of shared memory. Records nothing."""
        rows = self.loaded.rows // self._span * self.loaded.elements
        return smem.alloc((rows, self._span), self.dtype, swizzle=self.swizzle, stages=count, name=name)

    def turn(self, source: Buffer, target: Buffer, *, warp: Reg, warps: int, ahead: int = 1) -> None:
        """Turn a tile, by the lanes of ``warps`` warps; each takes every ``warps``-th 16 elements.

        Records 19 instructions for the lane's places and a ``ptx.for_``; in it 8 for the places of its
        elements, and for each 32 rows ``ldmatrix.x4.trans``, four ``prmt``, an ``xor`` and ``stmatrix.x4``.
        No two addresses of a matrix are in the same banks.

        Args:
            source: one stage of ``loaded.stages``, which has arrived.
            target: one stage of :meth:`stages`, which no product reads.
            warp: this warp's number among them, a u32 register.
            warps: number of warps.
            ahead: number of ``ldmatrix`` in front of the first ``stmatrix``, each with four registers; their
                latencies overlap.
        """
        rows, elements = self.loaded.rows, self.loaded.elements
        lane = ptx.special.laneid()
        # ldmatrix: lane l has the address of row l. The swizzle moves its piece by the row's number.
        from_row = source.addr + lane * _SPAN
        turn = (lane & 7) << 4
        # stmatrix: matrices 2 and 3 have keys 16 to 31. Of the pairs of elements 0 to 3, matrices 0 and 2
        # have the even ones and 1 and 3 the odd ones, of pairs 4 to 7 the other way around: so the eight rows
        # of a matrix have eight different swizzles.
        element = (lane & 7) * 2 + (((lane >> 3) ^ (lane >> 2)) & 1)
        half = (lane >> 4) << 4
        selectors = reg.array(b32, 2)
        swapped = lane >= _LANES // 2  # the lanes that hold pairs 4 to 7
        for selector, (even, odd) in zip(selectors, (_BYTES_OF, _BYTES_OF[::-1]), strict=True):
            ptx.inst.selp.b32(selector, odd, even, swapped)
        mask = (self._span // _BYTES - 1) << 4
        with ptx.for_(warp, elements // _BYTES, warps) as number:
            slab, chunk = number >> 3, (number & 7) << 4
            place = from_row + slab * (rows * _SPAN) + (chunk ^ turn)
            offset = (element + number * _BYTES) * self._span + half
            stored = target.addr + (offset ^ ((offset >> 3) & mask))
            firsts = range(0, rows, _KEYS)
            for begin in range(0, len(firsts), ahead):
                loaded = []
                for first in firsts[begin : begin + ahead]:
                    words = reg.array(b32, 4)
                    ptx.ldmatrix(words, ptx.addr(place, first * _SPAN), trans=True)
                    loaded.append((first, words))
                for first, words in loaded:
                    out = reg.array(b32, 4)
                    for place_of, word in enumerate(out):
                        low, high = words[place_of & 2], words[place_of | 1]
                        ptx.inst.prmt.b32(word, low, high, selectors[place_of & 1])
                    column = first % self._span
                    where = stored ^ column if column else stored
                    ptx.stmatrix(ptx.addr(where, (first - column) * elements), out)

    def descriptors(self, stage: Buffer) -> StageDescriptors:
        """Make the descriptors of a turned tile for ``wgmma``. Records four instructions.

        Args:
            stage: the first of the stages.
        """
        offsets = [self._tile.k_offset(at) for at in range(0, self.loaded.rows, _WGMMA_K)]
        return StageDescriptors(ptx.wgmma.descriptor(stage, self._tile), stage.stage_bytes, offsets)
