"""Moves data into and within tensor memory: copies from shared memory, the shift of rows."""

from __future__ import annotations

from ....core.errors import OperandError
from ...choices import CopyShape, Decompression
from ...emit import Predicate, emit
from ...operands import Addr, addr
from ...records import records
from ...registers import Reg
from .arguments import group

__all__ = ["cp", "shift"]

_CP = "tcgen05-instructions-tcgen05-cp"
#: Shapes of a copy, and the multicast modifiers of each: they name the warps whose lanes get the same rows.
_SHAPES: dict[str, tuple[str | None, ...]] = {
    "128x256b": (None,),
    "4x256b": (None,),
    "128x128b": (None,),
    "64x128b": ("warpx2::02_13", "warpx2::01_23"),
    "32x128b": ("warpx4",),
}


@records("tcgen05.cp")
def cp(
    taddr: Reg | Addr,
    desc: Reg | int,
    shape: CopyShape,
    multicast: str | None = None,
    cta_group: int = 1,
    *,
    decompress: Decompression | None = None,
    pred: Predicate = None,
) -> None:
    """Copy from shared memory to tensor memory, asynchronously; one thread issues the copy.

    Records one ``tcgen05.cp``.  A later mma of the same thread sees the data without a wait; a load does not.

    Args:
        taddr: address in tensor memory.
        desc: shared-memory descriptor of the source, a 64-bit register.
        shape: ``"128x256b"``, ``"4x256b"``, ``"128x128b"``, ``"64x128b"`` or ``"32x128b"``: number of lanes,
            and bits of each lane.
        multicast: for 64x128b ``"warpx2::02_13"`` or ``"warpx2::01_23"``, the pairs of warps that share
            the rows; for 32x128b ``"warpx4"``, all four warps (None means this too); otherwise None.
        cta_group: 1, or 2: each CTA of the pair copies from its own shared memory.
        decompress: format of the source: ``"b4x16_p64"``, 16 values of 4 bits and 8 bytes of padding, or
            ``"b6x16_p32"``, 16 values of 6 bits and 4 bytes of padding; each value becomes 8 bits.
        pred: guard.

    Raises:
        OperandError: no such shape or format, or a multicast that the shape does not have.

    PTX ISA: `#tcgen05-instructions-tcgen05-cp`.
    """
    legal = _SHAPES[shape]
    if multicast is None and len(legal) == 1:
        multicast = legal[0]
    if multicast not in legal:
        raise OperandError(
            f"multicast is {multicast!r} with shape {shape!r}: expected {' or '.join(map(repr, legal))}",
            see=_CP,
        )
    formats = (None, None) if decompress is None else ("b8x16", decompress)
    emit("tcgen05", ("cp", group(cta_group), shape, multicast, *formats), addr(taddr), desc, pred=pred)


@records("tcgen05.shift")
def shift(taddr: Reg | Addr, cta_group: int = 1, *, pred: Predicate = None) -> None:
    """Move the rows of tensor memory down by one, in 32 bytes of columns, asynchronously.

    Records one ``tcgen05.shift``.  All rows except the last move; one thread issues the shift.

    Args:
        taddr: address in tensor memory; its lane is a multiple of 32.
        cta_group: 1, or 2 for a pair of CTAs.
        pred: guard.

    PTX ISA: `#tcgen05-instructions-tcgen05-shift`.
    """
    emit("tcgen05", ("shift", group(cta_group), "down"), addr(taddr), pred=pred)
