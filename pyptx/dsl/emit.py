"""Records one instruction for a typed wrapper, which checks its arguments and supplies the defaults."""

from __future__ import annotations

from typing import Any

from ..core.errors import OperandError
from .operands import guard, operand
from .registers import NotPred, Reg, materialize
from .trace import current
from .types import as_number

__all__ = ["Predicate", "checked", "emit"]

Predicate = Reg | NotPred | None


def emit(opcode: str, modifiers: tuple[str | None, ...], *operands: Any, pred: Predicate = None) -> None:
    """Record one instruction. Modifiers that are None are left out.

    For each ``~p`` among the operands, one ``not.pred`` is recorded first.
    """
    trace = current()
    present = tuple(modifier for modifier in modifiers if modifier is not None)
    condition = guard(pred, trace)
    if any(isinstance(value, NotPred) for value in operands):
        with trace.atomic():
            values = [operand(materialize(value, trace), trace) for value in operands]
            trace.record(opcode, present, values, condition)
        return
    trace.record(opcode, present, [operand(value, trace) for value in operands], condition)


def checked(what: str, value: Any, low: int, high: int, *, see: str, hint: str = "") -> Any:
    """Return the argument ``value`` if it is a register, or an integer in ``low..high``.

    Raises :class:`OperandError` for any other value; the message names the value and the allowed range.
    """
    if isinstance(value, Reg):
        return value
    number = as_number(value)
    if not isinstance(number, int) or not low <= number <= high:
        raise OperandError(f"{what} is {value!r}: expected {low}..{high}, or a register", hint=hint, see=see)
    return number
