"""Checks the alignment and the size of places in shared memory while the kernel is recorded.

Owns the checks that the copy units share.  They apply only to buffers of ``smem.alloc``: the value of a
register is not known before the kernel runs.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ..operands import Addr, addr
from ..registers import Reg
from ..smem import Buffer

__all__ = ["Shared", "barrier", "check_place", "is_wide"]

#: The types that an author may pass for a place in shared memory.
Shared = Reg | Addr | Buffer


def check_place(what: str, place: object, nbytes: int | None, alignment: int, *, see: str) -> None:
    """Raise :class:`OperandError` for a buffer that is misaligned, or smaller than ``nbytes`` if given.

    A single element (``buffer.at(...)``) marks the start of a copy: its size is not checked.
    """
    if not isinstance(place, Buffer):
        return
    offset = place.known_offset
    if offset is not None and offset % alignment:
        raise OperandError(
            f"{what} {place.name!r} lies at offset {offset}: expected a multiple of {alignment}",
            hint=f"allocate it with smem.alloc(..., align={alignment})",
            see=see,
        )
    if nbytes is not None and place.shape and nbytes > place.nbytes:
        raise OperandError(f"{nbytes} bytes for {what} {place.name!r}, which has {place.nbytes}", see=see)


def barrier(mbar: Shared) -> Addr:
    """Return the address of an mbarrier. A buffer must have 8 bytes and be aligned to 8."""
    see = "parallel-synchronization-and-communication-instructions-mbarrier-contents"
    check_place("the mbarrier", mbar, 8, 8, see=see)
    return addr(mbar)


def is_wide(place: object) -> bool:
    """True if ``place`` is a 64-bit address, generic or global; a shared address has 32 bits."""
    if isinstance(place, Addr):
        place = place.base
    return isinstance(place, Reg) and place.type.bits == 64
