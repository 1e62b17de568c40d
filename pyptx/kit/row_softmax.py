"""The exponentials of a row and their sum, relative to its maximum, for softmax and cross-entropy.

Owns the order of these operations, and what they do with infinities and NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.types import f32
from ..dsl import Reg, ptx, reg
from .row_stream import Piece, Row

__all__ = ["exponential", "row_exponentials"]

_LOG2_E = 1.4426950408889634
#: The lowest f32: the maximum of a thread without elements.
_LOWEST = -3.4028234663852886e38


def exponential(x: Reg, maximum: Reg) -> Reg:
    """Compute ``exp(x - maximum)``. Records a ``sub``, a ``mul`` and an ``ex2.approx.ftz``.

    With u = 2**-24 the relative error is at most ``3 * u * |x - maximum| + 2**-22``. Results below 2**-126
    are 0.
    """
    power = (x - maximum) * _LOG2_E
    ptx.inst.ex2.approx.ftz.f32(power, power)
    return power


def row_exponentials(
    row: Row,
    number: int = 0,
    *,
    visit: Callable[[Piece], None] | None = None,
    more: Reg | None = None,
) -> tuple[Reg, Reg, Callable[[Piece], Sequence[Reg]]]:
    """Return the maximum of a row, the sum of its exponentials, and a function that returns those of a piece.

    A row that is held is read once: the maximum of thread and team, then the exponentials, which stay in
    registers, and their sum, in the order of a thread's elements and then of
    :meth:`.row_team.RowTeam.reduce`.  Another row is read
    twice: each thread keeps a maximum and a sum, and multiplies the sum by ``exp(old - new)`` at each piece,
    before it adds the piece's exponentials; those are computed again by the function.

    The maximum is at least the lowest finite number, and ignores NaN. So a row of minus infinities has the
    sum 0, and one with NaN or plus infinity the sum NaN.

    Args:
        row: a row of a stream with ``fill=float("-inf")``.
        number: number of the input.
        visit: a function that is called for each piece in the first pass.
        more: f32 register that is added up over the team together with the sum, and gets the result; the
            stream needs ``most=2`` then.

    Returns:
        two f32 registers, equal in all threads of the team, and the function.
    """
    team = row.stream.team
    maximum, total = reg.scalar(f32, init=_LOWEST), reg.scalar(f32, init=0.0)
    held = row.stream.plan.held
    for piece in row.pieces():
        values = piece.values(number)
        if visit is not None:
            visit(piece)
        if held:
            for x in values:
                ptx.inst.max.f32(maximum, maximum, x)
        else:
            _add(values, maximum, total)
    highest = team.reduce(maximum, "max")
    exponentials = row.derive(lambda piece: [exponential(x, highest) for x in piece.values(number)])
    if held:
        for piece in row.pieces():
            for e in exponentials(piece):
                total += e
    else:
        total *= exponential(maximum, highest)
    if more is None:
        return highest, team.reduce(total, "add"), exponentials
    total, found = team.reduce([total, more], "add")
    more.set(found)
    return highest, total, exponentials


def _add(values: Sequence[Reg], maximum: Reg, total: Reg) -> None:
    """Add the exponentials of a piece to a sum, relative to a maximum that may grow; change both."""
    new = reg.scalar(f32, init=maximum)
    for x in values:
        ptx.inst.max.f32(new, new, x)
    total *= exponential(maximum, new)
    for x in values:
        total += exponential(x, new)
    maximum.set(new)
