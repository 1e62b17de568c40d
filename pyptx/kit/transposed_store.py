"""The transpose of an accumulator of ``wgmma`` in shared memory, as rows of 16-bit elements.

Owns the addresses: columns of the accumulator become rows of 128 bytes, the 64 rows of a warpgroup the 64
elements of such a row, swizzled as TMA and ``wgmma`` expect it::

    accumulator 64 x n          shared memory: n rows of 64 elements
      row r, column c    ->       row c, element r
    warp w: rows 16 w ..        warp w: bytes 32 w .. 32 w + 31 of each row
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import bf16, f16
from ..dsl import Buffer, Reg, ptx
from ..dsl.units.fragments import Fragment

__all__ = ["TransposedStore"]

_SPAN = 128
_COLUMNS = 16


class TransposedStore:
    """The addresses at which the lanes of a warp write. The constructor records 11 instructions.

    ::

        place = kit.TransposedStore(warp & 3)
        place.store(kit.a_fragments(s), tile)       # tile: (n, 64) elements, swizzle "128B"
        ptx.fence.proxy_async("shared::cta")

    Args:
        warp: number of the warp in its warpgroup, a u32 register.
    """

    def __init__(self, warp: Reg) -> None:
        lane = ptx.special.laneid()
        row = (lane & 7) + (lane >> 4) * 8
        piece = ((lane >> 3) & 1) + warp * 2
        # The swizzle puts a piece of 16 bytes at its number XOR its row's number.
        self._place = row * _SPAN + (piece ^ (lane & 7)) * 16

    def store(self, fragments: Sequence[Fragment], tile: Buffer) -> None:
        """Store an accumulator's 16-bit elements. Records an ``add``, and a ``stmatrix.trans`` for each.

        Args:
            fragments: the accumulator as :func:`.operand_a.a_fragments` rounds it: 16 columns in each.
            tile: shared memory of (columns, 64) elements with 128-byte swizzle.

        Raises:
            SpecError: a tile of another shape or type.

        PTX ISA: `#warp-level-matrix-instructions-stmatrix`.
        """
        rows = _COLUMNS * len(fragments)
        if (
            tile.swizzle != "128B"
            or tile.stages is not None
            or tile.dtype not in (bf16, f16)
            or tile.shape != (rows, _SPAN // tile.dtype.nbytes)
            or any(part.dtype != tile.dtype.name for part in fragments)
        ):
            raise SpecError(
                f"the tile is {tile!r}: expected ({rows}, 64) elements of the fragments' type, with 128-byte "
                "swizzle"
            )
        place = self._place + tile.addr
        for number, fragment in enumerate(fragments):
            # 16 rows are two periods of the swizzle.
            ptx.stmatrix(ptx.addr(place, number * _COLUMNS * _SPAN), fragment, trans=True)
