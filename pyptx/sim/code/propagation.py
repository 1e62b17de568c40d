"""How instruction forms pass on undefined bits: bits that come from memory which nothing wrote.

Owns :class:`Propagation`, a field of a form's semantics. :mod:`pyptx.sim.threads.tracked` applies it to the
instructions of threads that hold undefined bits in registers.
"""

from __future__ import annotations

import enum

from ...core.records import dataclass

__all__ = [
    "BITWISE",
    "EACH",
    "LOADED",
    "PARTS",
    "TOGETHER",
    "UPWARD",
    "USED",
    "Propagation",
    "Rule",
    "copied",
    "moved",
    "stored",
    "taken",
]


class Rule(enum.Enum):
    """Which bits of the results are undefined.

    ``EACH``: if an operand of a lane has an undefined bit, all bits of the lane's results, or of the element
    at the same position if all operands are packed. ``PARTS``: each operand gives one element of the result,
    the first operand the uppermost. ``MOVED``: the form moves bits, so the form's function
    computes the flags of the results from the flags of the operands. ``BITWISE``: the bits that change if
    undefined bits of the operands change. ``UPWARD``: as in a sum of integers, all bits from the lowest
    undefined bit of the operands on. ``TOGETHER``: as ``EACH``, but operands of every lane count for every
    lane. ``LOADED``: the bits that come from unwritten bytes of memory. ``STORED``: the form stores
    registers; bytes with undefined bits count as unwritten. ``CARRY``: as ``EACH``, with the carry flag as a
    result. ``TAKEN``: the form's own function passes on the undefined bits of some operands. ``USED``: none;
    an undefined operand is an error.
    """

    EACH = "each"
    MOVED = "moved"
    PARTS = "parts"
    BITWISE = "bitwise"
    UPWARD = "upward"
    TOGETHER = "together"
    LOADED = "loaded"
    STORED = "stored"
    CARRY = "carry"
    TAKEN = "taken"
    USED = "used"


@dataclass(frozen=True, slots=True)
class Propagation:
    """A rule, and for ``MOVED``, ``STORED`` and ``TAKEN`` the operands whose bits move.

    ``copies`` is True if the results are the operands, or parts of them, and not computed from them.
    ``reads_carry`` is True if a form of the rule ``CARRY`` reads the carry flag, too.
    """

    rule: Rule
    operands: tuple[str, ...] = ()
    copies: bool = False
    reads_carry: bool = False


EACH, BITWISE, UPWARD = Propagation(Rule.EACH), Propagation(Rule.BITWISE), Propagation(Rule.UPWARD)
PARTS = Propagation(Rule.PARTS)
TOGETHER, LOADED, USED = Propagation(Rule.TOGETHER), Propagation(Rule.LOADED), Propagation(Rule.USED)


def copied(*operands: str) -> Propagation:
    """Return the rule of a form whose results are copies of these operands."""
    return Propagation(Rule.MOVED, operands, copies=True)


def moved(*operands: str) -> Propagation:
    """Return the rule of a form that moves bits of these operands to its results."""
    return Propagation(Rule.MOVED, operands)


def taken(*operands: str) -> Propagation:
    """Return the rule of a form whose own function passes on undefined bits of these operands."""
    return Propagation(Rule.TAKEN, operands)


def stored(*operands: str) -> Propagation:
    """Return the rule of a form that stores bits of these operands in memory."""
    return Propagation(Rule.STORED, operands)
