"""Instructions of a single thread: sleep, abort, stop for a debugger, trigger performance events.

PTX ISA: `#miscellaneous-instructions`.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ..emit import Predicate, checked, emit
from ..records import records
from ..registers import Reg
from ..types import as_whole

__all__ = ["brkpt", "nanosleep", "pmevent", "trap"]


@records("nanosleep")
def nanosleep(nanoseconds: Reg | int, *, pred: Predicate = None) -> None:
    """Sleep for about ``nanoseconds``. Records one ``nanosleep``.

    The thread sleeps at most twice as long, and at most a millisecond.

    Args:
        nanoseconds: 0..2**32-1, or a u32 register.
        pred: guard.

    Raises:
        OperandError: a number out of range.

    PTX ISA: `#miscellaneous-instructions-nanosleep`.
    """
    see = "miscellaneous-instructions-nanosleep"
    emit("nanosleep", ("u32",), checked("nanoseconds", nanoseconds, 0, 0xFFFFFFFF, see=see), pred=pred)


@records("trap")
def trap(*, pred: Predicate = None) -> None:
    """Abort the grid with an error. Records one ``trap``. PTX ISA: `#miscellaneous-instructions-trap`."""
    emit("trap", (), pred=pred)


@records("brkpt")
def brkpt(*, pred: Predicate = None) -> None:
    """Stop for the debugger. Records one ``brkpt``. PTX ISA: `#miscellaneous-instructions-brkpt`."""
    emit("brkpt", (), pred=pred)


@records("pmevent", "pmevent.mask")
def pmevent(event: int | None = None, *, mask: int | None = None, pred: Predicate = None) -> None:
    """Trigger a performance monitor event, or all events of a mask. Records one ``pmevent``.

    Args:
        event: number of the event, 0..15.
        mask: instead of one event, a mask with one bit for each event, 1..65535.
        pred: guard.

    Raises:
        OperandError: both or neither are given, or a number is out of range.

    PTX ISA: `#miscellaneous-instructions-pmevent`.
    """
    see = "miscellaneous-instructions-pmevent"
    if (event is None) == (mask is None):
        raise OperandError(f"event is {event!r} and mask is {mask!r}: expected exactly one of them", see=see)
    what, value, low, high = ("event", event, 0, 15) if mask is None else ("mask", mask, 1, 0xFFFF)
    number = as_whole(value)
    if number is None or not low <= number <= high:
        raise OperandError(f"{what} is {value!r}: expected {low}..{high}", see=see)
    emit("pmevent", (None if mask is None else "mask",), number, pred=pred)
