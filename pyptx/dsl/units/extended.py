"""``ptx.add_cc``, ``ptx.addc`` ...: integers wider than a register, with a carry between instructions.

Each function except :func:`add_wide` and :func:`sub_wide` records exactly one instruction.  Types are u32,
s32, u64 and s64; untyped bits count as unsigned.  Watch out: the carry is valid until the next instruction
that writes it; a branch or a call loses it.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ..choices import Half
from ..emit import Predicate
from ..records import records
from ..register_arrays import RegArray
from ..registers import Number, Reg
from ..trace import current
from .values import Vector, integer_modifier, meet, present, typed, value

__all__ = ["add_cc", "add_wide", "addc", "mad_cc", "madc", "sub_cc", "sub_wide", "subc"]

Value = Reg | Number

_MAD = "extended-precision-integer-arithmetic-instructions-mad-cc"


def _record(
    opcode: str,
    before: tuple[str | bool, ...],
    given: tuple[Value, ...],
    out: Reg | None,
    pred: Predicate,
) -> Reg:
    trace = current()
    kind = meet(opcode, *given)
    operands = [typed(item, kind, trace) for item in given]
    return value(kind, opcode, present(*before, integer_modifier(kind)), operands, out=out, pred=pred)


@records("add.cc")
def add_cc(a: Value, b: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``a + b``, and write the carry. Records one ``add.cc``.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions-add-cc`.
    """
    return _record("add", ("cc",), (a, b), out, pred)


@records("addc")
def addc(a: Value, b: Value, *, cc: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``a + b`` plus the carry; with ``cc`` write the new carry. Records one ``addc``.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions-addc`.
    """
    return _record("addc", (cc and "cc",), (a, b), out, pred)


@records("sub.cc")
def sub_cc(a: Value, b: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``a - b``, and write the borrow. Records one ``sub.cc``.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions-sub-cc`.
    """
    return _record("sub", ("cc",), (a, b), out, pred)


@records("subc")
def subc(a: Value, b: Value, *, cc: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``a - b`` minus the borrow; with ``cc`` write the new borrow. Records one ``subc``.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions-subc`.
    """
    return _record("subc", (cc and "cc",), (a, b), out, pred)


@records("mad.cc")
def mad_cc(
    a: Value, b: Value, c: Value, *, half: Half, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Compute the ``"lo"`` or ``"hi"`` half of ``a * b``, plus ``c``; write the carry.

    Records one ``mad.cc``.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions-mad-cc`.
    """
    return _record("mad", (half, "cc"), (a, b, c), out, pred)


@records("madc")
def madc(
    a: Value,
    b: Value,
    c: Value,
    *,
    half: Half,
    cc: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute the ``"lo"`` or ``"hi"`` half of ``a * b``, plus ``c`` and the carry. Records one ``madc``.

    With ``cc`` it writes the new carry.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions-madc`.
    """
    return _record("madc", (half, cc and "cc"), (a, b, c), out, pred)


def _chain(name: str, a: Vector, b: Vector) -> RegArray:
    first, between = (add_cc, addc) if name == "add_wide" else (sub_cc, subc)
    left, right = list(a), list(b)
    if len(left) != len(right) or len(left) < 2:
        raise OperandError(
            f"ptx.{name} of {len(left)} and {len(right)} registers: expected the same number, at least 2"
        )
    with current().atomic():
        parts = [first(left[0], right[0])]
        for number, (x, y) in enumerate(zip(left[1:], right[1:], strict=True), 2):
            parts.append(between(x, y, cc=number < len(left)))
    return RegArray(parts, parts[0].type, "sum" if name == "add_wide" else "difference")


def add_wide(a: Vector, b: Vector) -> RegArray:
    """Add two integers of ``n`` registers each, lowest first. The carry out of the last is not returned.

    Records ``n`` instructions: ``add.cc``, ``addc.cc`` ..., ``addc``.

    Raises:
        OperandError: different lengths, or fewer than 2 registers.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions`.
    """
    return _chain("add_wide", a, b)


def sub_wide(a: Vector, b: Vector) -> RegArray:
    """Subtract two integers of ``n`` registers each, lowest first. The borrow of the last is not returned.

    Records ``n`` instructions: ``sub.cc``, ``subc.cc`` ..., ``subc``. See :func:`add_wide`.

    PTX ISA: `#extended-precision-integer-arithmetic-instructions`.
    """
    return _chain("sub_wide", a, b)
