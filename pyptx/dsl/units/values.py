"""Records one instruction that computes a value, for a typed wrapper.

Owns the rules that all such wrappers share: the result is a new register named after the author's variable,
or the register given as ``out=``; all operands have one type, and numbers take that type.  The instruction
table decides which forms exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.types import ScalarType
from ...ir import Immediate, Operand, Pair
from .. import reg
from ..call_sites import here
from ..emit import Predicate
from ..operands import guard, operand
from ..operators import check_constant, joined
from ..register_arrays import RegArray
from ..registers import Reg, new_register, owned, result, writable
from ..trace import Trace, current
from ..types import as_number, encode_number

__all__ = [
    "Vector",
    "integer_modifier",
    "meet",
    "typed",
    "value",
    "value_pair",
    "values",
    "present",
    "register",
]

#: Registers that are read or written together.
Vector = RegArray | Sequence[Reg]


def present(*modifiers: str | bool | None) -> tuple[str, ...]:
    """Return ``modifiers`` without those that are None, False or empty."""
    return tuple(modifier for modifier in modifiers if isinstance(modifier, str) and modifier)


def register(what: str, value: object, bits: int, expected: str, *, see: str, hint: str = "") -> Reg:
    """Return the argument if it is a register of ``bits`` bits; else raise :class:`OperandError`."""
    if isinstance(value, Reg):
        if value.type.bits == bits:
            return value
        raise OperandError(
            f"{what} is {value}, a .{value.type} register: expected {expected}", hint=hint, see=see
        )
    raise OperandError(f"{what} is {value!r}: expected {expected}", hint=hint, see=see)


def meet(name: str, *given: Any) -> ScalarType:
    """Return the common type of the registers among ``given``, the operands of ``ptx.<name>``.

    Raises:
        OperandError: no register, or types that do not mix.
    """
    found: ScalarType | None = None
    for item in given:
        if isinstance(item, Reg):
            found = item.type if found is None else joined(found, item.type, lambda: f"ptx.{name}")
    if found is None:
        raise OperandError(
            f"ptx.{name} of {', '.join(map(repr, given))}: expected at least one register",
            hint="compute with numbers in Python, or make a register: reg.scalar(type, init=...)",
        )
    return found


def typed(given: Any, kind: ScalarType, trace: Trace) -> Operand:
    """Convert a register to an operand, or a number to a constant of ``kind``.

    Raises:
        OperandError: neither a register nor a number, a number that does not fit, a type without constants.
    """
    if isinstance(given, Reg):
        return owned(given, trace).operand
    number = as_number(given)
    if number is None:
        raise OperandError(f"{type(given).__name__} {given!r} is neither a register nor a number")
    check_constant(number, kind)
    return Immediate(encode_number(number, kind))


def integer_modifier(kind: ScalarType) -> str:
    """Return the modifier for arithmetic on ``kind``: ``u32`` for ``b32``, since bits count as unsigned."""
    return f"u{kind.bits}" if kind.kind == "b" else kind.name


def value(
    kind: ScalarType,
    opcode: str,
    modifiers: tuple[str, ...],
    operands: Sequence[Operand],
    *,
    out: Reg | None = None,
    pred: Predicate = None,
    hint: str = "t",
    storage: ScalarType | None = None,
) -> Reg:
    """Record one instruction whose first operand is ``out``, or a new register of ``kind``.

    Raises:
        OperandError: ``out`` is not a register, or the instruction does not take the operands.
        TraceError: ``out`` is read-only, such as a tile's pointer or a buffer's address.
    """
    trace = current()
    condition = guard(pred, trace)
    if out is None:
        return result(trace, kind, opcode, modifiers, tuple(operands), hint, condition, storage)
    trace.record(opcode, modifiers, (_target(out, trace).operand, *operands), condition)
    return out


def values(
    kind: ScalarType,
    count: int,
    opcode: str,
    modifiers: tuple[str, ...],
    operands: Sequence[Operand],
    *,
    out: Sequence[Reg | None] | None = None,
    pred: Predicate = None,
) -> RegArray:
    """Record one instruction whose first operand is the vector ``out``, or ``count`` new registers.

    Returns the registers written. A None in ``out`` becomes ``_`` in the vector.
    """
    trace = current()
    condition = guard(pred, trace)
    if out is not None:
        chosen = [_target(item, trace) for item in out if item is not None]
        trace.record(opcode, modifiers, (operand(list(out), trace), *operands), condition)
        return out if isinstance(out, RegArray) else RegArray(chosen, kind, "out")
    with trace.atomic():
        fresh = reg.array(kind, count)
        trace.record(opcode, modifiers, (operand(fresh, trace), *operands), condition)
    return fresh


def _target(out: Any, trace: Trace) -> Reg:
    if not isinstance(out, Reg):
        raise OperandError(f"out is {out!r}: expected a register")
    return writable(owned(out, trace))


def value_pair(
    kinds: tuple[ScalarType, ScalarType],
    hints: tuple[str, str],
    opcode: str,
    modifiers: tuple[str, ...],
    operands: Sequence[Operand],
    pred: Predicate = None,
) -> tuple[Reg, Reg]:
    """Record one instruction whose first operand is a pair ``d|p`` of new registers.

    The registers are named after the two variables that the author unpacks the pair into, else after
    ``hints``.
    """
    trace = current()
    condition = guard(pred, trace)
    site, source = here()
    if len(site.names) == 2:
        hints = (site.names[0], site.names[1])
    with trace.atomic():
        first, second = (new_register(trace, k, h, source) for k, h in zip(kinds, hints, strict=True))
        pair = Pair(first.operand, second.operand)
        trace.record(opcode, modifiers, (pair, *operands), condition, source)
    return first, second
