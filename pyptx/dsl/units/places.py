"""What Python knows about a place in shared memory: its alignment and its room.

Owns the checks that the copy units share.  They look at buffers of ``smem.alloc`` alone: of a register's
value nothing is known before the kernel runs.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ..operands import Addr, addr
from ..registers import Reg
from ..smem import Buffer

__all__ = ["Shared", "barrier", "check_place", "is_wide"]

#: What may stand for a place in shared memory.
Shared = Reg | Addr | Buffer


def check_place(what: str, place: object, nbytes: int | None, alignment: int, *, see: str) -> None:
    """Refuse a buffer that is known to be misaligned, or smaller than ``nbytes`` (where that is known).

    A single element (``buffer.at(...)``) is where a copy begins and sets no limit.
    """
    if not isinstance(place, Buffer):
        return
    offset = place.known_offset
    if offset is not None and offset % alignment:
        raise OperandError(
            f"{what} {place.name!r} lies at offset {offset}: expected a multiple of {alignment}",
            hint=f"smem.alloc(..., align={alignment})",
            see=see,
        )
    if nbytes is not None and place.shape and nbytes > place.nbytes:
        raise OperandError(f"{nbytes} bytes for {what} {place.name!r}, which has {place.nbytes}", see=see)


def barrier(mbar: Shared) -> Addr:
    """The address of an mbarrier: 8 bytes, aligned to 8."""
    see = "parallel-synchronization-and-communication-instructions-mbarrier-contents"
    check_place("the mbarrier", mbar, 8, 8, see=see)
    return addr(mbar)


def is_wide(place: object) -> bool:
    """Whether ``place`` is a 64-bit address: generic or global, where a shared one has 32 bits."""
    if isinstance(place, Addr):
        place = place.base
    return isinstance(place, Reg) and place.type.bits == 64
