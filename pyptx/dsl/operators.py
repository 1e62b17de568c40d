"""The instruction of each operator of registers: the typing rules.

Both operands have the same type, or one is untyped bits of the other's width (b32 with u32 or s32); a Python
number takes the register's type.  Untyped bits add, subtract and multiply as unsigned integers; where the
sign matters, they need ``.view(u32)`` or ``.view(s32)``.  Float operators write their rounding (``.rn``),
because ptxas may fuse a multiply and an add without rounding.  f16, f16x2, bf16 and bf16x2 have ``+ - *`` and
negation; f16 and bf16 also have comparisons; f32x2 has ``+ - *``.  bf16 and bf16x2 need sm_90 (negation
sm_80), f32x2 needs sm_100.

Division truncates toward zero and ``%`` has the dividend's sign, as PTX defines them: not Python's floor.

The functions record nothing: :class:`~.registers.Reg` records what they return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import OperandError
from ..core.tuples import NamedTuple
from ..core.types import ScalarType, pred
from ..ir import Immediate, Operand, Register
from .types import as_number, as_whole, bits_of, encode_number, move_type

__all__ = [
    "Operation",
    "Term",
    "binary",
    "check_constant",
    "complement",
    "copy",
    "joined",
    "negate",
    "shift",
]


class Term:
    """A register as an operand: its type as the author sees it, and the register in the PTX text."""

    __slots__ = ("operand", "type")
    operand: Register
    type: ScalarType

    def __str__(self) -> str:
        return str(self.operand)


class Operation(NamedTuple):
    """One instruction: the type of its result, its opcode and modifiers, and the operands that it reads."""

    type: ScalarType
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]


_SYMBOL = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "rem": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_ORDERED = frozenset({"lt", "le", "gt", "ge"})
#: Operations whose result depends on the sign of an integer.
_SIGN_MATTERS = _ORDERED | {"div", "floordiv", "rem"}
_COMPARISONS = _ORDERED | {"eq", "ne"}
_ARITHMETIC_BITS = (16, 32, 64)
#: Floats that PTX adds, subtracts and multiplies: bf16 and bf16x2 from sm_90 on, f32x2 from sm_100 on.
_COMPUTED = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2"})


# --- types ----------------------------------------------------------------------------------------


def _describe(value: object) -> str:
    return f"{value} (.{value.type})" if isinstance(value, Term) else repr(value)


def _what(operation: str, left: object, right: object) -> str:
    return f"{_describe(left)} {_SYMBOL[operation]} {_describe(right)}"


def _common_type(operation: str, left: Any, right: Any) -> ScalarType:
    """Return the common type of the operands ``left`` and ``right``.

    Raises :class:`OperandError` naming both types and the remedy.
    """
    kinds: list[ScalarType] = []
    for value in (left, right):
        if isinstance(value, Term):
            kinds.append(value.type)
        elif as_number(value) is None:
            raise OperandError(
                f"{_what(operation, left, right)}: {type(value).__name__} is neither a register nor a number",
                hint="operands of an operator are registers and Python numbers",
            )
    return joined(kinds[0], kinds[-1], lambda: _what(operation, left, right))


def joined(a: ScalarType, b: ScalarType, what: Callable[[], str]) -> ScalarType:
    """Return the common type of values of types ``a`` and ``b``; ``what`` names the call in the error.

    Raises :class:`OperandError` naming both types and the remedy.
    """
    if a is b:
        return a
    if a.bits == b.bits:
        for bits, typed in ((a, b), (b, a)):
            if bits.kind == "b" and typed.kind in "us":
                return typed
    if a.bits == b.bits and pred not in (a, b):
        remedy = f"reinterpret the bits of one: x.view({a}) or x.view({b})"
        if "f" in (a.kind, b.kind) and "b" not in (a.kind, b.kind):
            to, of = (a, b) if a.kind == "f" else (b, a)
            remedy = f"convert the value: ptx.inst.cvt.rn.{to}.{of}(d, x); or {remedy}"
    else:
        remedy = f"convert one: ptx.inst.cvt.{a}.{b}(d, x), or .{b}.{a}"
    raise OperandError(f"{what()}: the types .{a} and .{b} do not mix", hint=remedy)


def _operand(value: Any, kind: ScalarType, operation: str) -> Operand:
    """Return a register, or a number as an immediate of type ``kind``, as an IR operand."""
    if isinstance(value, Term):
        return value.operand
    number = as_number(value)
    assert number is not None  # common_type() refused everything else
    check_constant(number, kind)
    immediate = encode_number(number, kind)
    if operation in _SIGN_MATTERS and kind.kind in "us" and not isinstance(immediate, float):
        half = 1 << (kind.bits - 1)
        low, high = (0, 2 * half - 1) if kind.kind == "u" else (-half, half - 1)
        if not low <= immediate <= high:
            raise OperandError(
                f"`{_SYMBOL[operation]}` with {immediate}, which is outside .{kind}: expected {low}..{high}"
            )
    return Immediate(immediate)


def check_constant(value: int | float, kind: ScalarType) -> None:
    """Raise :class:`OperandError` for a constant of a type that PTX takes only in registers."""
    if kind.lanes > 1 or (kind.kind == "f" and kind.bits == 16):
        raise OperandError(
            f"{value!r} was given where a .{kind} is expected, and PTX has no constants of that type",
            hint="pack a register from its parts: ptx.pack(low, high)"
            if kind.lanes > 1
            else f"put it in a register once: reg.scalar({kind}, init={value!r})",
        )


#: A cache of opcode and modifiers by operation and type name.
_spelled: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}


def _spelling(operation: str, kind: ScalarType, left: object, right: object) -> tuple[str, tuple[str, ...]]:
    known = _spelled.get((operation, kind.name))
    if known is None:
        what = _what(operation, left, right)
        known = _spelled[operation, kind.name] = _spell(operation, kind, what)
    return known


def _spell(operation: str, kind: ScalarType, what: str) -> tuple[str, tuple[str, ...]]:
    symbol = _SYMBOL[operation]
    if kind is pred:
        if operation in ("and", "or", "xor"):
            return operation, ("pred",)
        raise OperandError(
            f"{what}: predicates have no `{symbol}`",
            hint="combine them with & | ^ ~; p ^ q is true where p and q differ",
        )
    if operation in ("and", "or", "xor"):
        if kind.kind == "f":
            raise OperandError(
                f"{what}: `{symbol}` works on bits, not on .{kind}",
                hint=f"use x.view({bits_of(kind)})",
            )
        _wide_enough(kind, what)
        return operation, (bits_of(kind).name,)
    if kind.kind == "f":
        return _spell_float(operation, kind, what)
    _wide_enough(kind, what)
    if kind.kind == "b" and operation in _SIGN_MATTERS:
        raise OperandError(
            f"{what}: `{symbol}` depends on the sign, and .{kind} has none",
            hint=f"choose unsigned or signed: x.view(u{kind.bits}) or x.view(s{kind.bits})",
        )
    if operation in _COMPARISONS:
        return "setp", (operation, kind.name)
    name = f"u{kind.bits}" if kind.kind == "b" else kind.name
    if operation == "mul":
        return "mul", ("lo", name)
    return ("div" if operation == "floordiv" else operation), (name,)


def _spell_float(operation: str, kind: ScalarType, what: str) -> tuple[str, tuple[str, ...]]:
    if operation in ("floordiv", "rem"):
        raise OperandError(
            f"{what}: there is no `{_SYMBOL[operation]}` for .{kind}",
            hint="divide with /, then round with ptx.inst.cvt.rzi or .rmi to an integer",
        )
    if kind.name not in _COMPUTED:
        raise OperandError(
            f"{what}: PTX does not compute with .{kind}",
            hint="convert it first, with ptx.cvt" if kind.lanes == 1 else "convert or unpack it first",
        )
    if operation in _COMPARISONS:
        if kind.lanes > 1:
            raise OperandError(
                f"{what}: a comparison of packs has two results",
                hint=f'both at once: low, high = ptx.setp_pair("{operation}", x, y)'
                if kind.bits == 32
                else "compare the parts: ptx.unpack(x)",
            )
        return "setp", ("neu" if operation == "ne" else operation, kind.name)
    if operation == "div" and kind.name not in ("f32", "f64"):
        raise OperandError(
            f"{what}: PTX does not divide .{kind}",
            hint="convert to f32 first, with ptx.cvt, or multiply by a reciprocal",
        )
    return operation, ("rn", kind.name)


def _wide_enough(kind: ScalarType, what: str) -> None:
    if kind.bits not in _ARITHMETIC_BITS:
        raise OperandError(
            f"{what}: PTX computes on 16, 32 and 64 bits, not on .{kind}",
            hint=f"convert first: ptx.inst.cvt.u32.u{kind.bits}(d, x)"
            if kind.bits == 8
            else "compute on its parts",
        )


# --- the operators --------------------------------------------------------------------------------


def binary(operation: str, left: Any, right: Any) -> Operation:
    """Return the instruction of ``left OP right``, each a :class:`Term` or a number.

    A comparison is a ``setp``. For NaN, ``!=`` of floats is true (``.neu``), and every other comparison is
    false.

    Raises:
        OperandError: the types do not mix, or have no such operator; the message names the remedy.
    """
    kind = _common_type(operation, left, right)
    opcode, modifiers = _spelling(operation, kind, left, right)
    operands = (_operand(left, kind, operation), _operand(right, kind, operation))
    return Operation(pred if operation in _COMPARISONS else kind, opcode, modifiers, operands)


def shift(operation: str, value: Any, amount: Any) -> Operation:
    """Return the instruction of ``value << amount`` or ``>>``; ``>>`` of a signed type copies the sign.

    Raises:
        OperandError: the value is not an integer, or the amount is not a 32-bit integer.
    """
    symbol = _SYMBOL[operation]
    if not isinstance(value, Term) and as_number(value) is None:
        raise OperandError(
            f"{_what(operation, value, amount)}: {type(value).__name__} is neither a register nor a number"
        )
    kind: ScalarType = value.type if isinstance(value, Term) else amount.type
    if kind.kind not in "usb" or kind.lanes > 1:
        raise OperandError(f"{_what(operation, value, amount)}: `{symbol}` shifts integers, not .{kind}")
    if kind.bits not in _ARITHMETIC_BITS:
        _wide_enough(kind, _what(operation, value, amount))
    if isinstance(amount, Term):
        if amount.type.bits != 32 or amount.type.kind not in "usb":
            raise OperandError(
                f"{_what(operation, value, amount)}: the amount of a shift is a 32-bit integer, "
                f"not .{amount.type}",
                hint=f"convert it: ptx.inst.cvt.u32.{amount.type}(d, x)",
            )
        by: Operand = amount.operand
    else:
        count = as_whole(amount)
        if count is None or not 0 <= count < 1 << 32:
            raise OperandError(
                f"{_what(operation, value, amount)}: "
                f"the amount of a shift is an integer in 0..{(1 << 32) - 1}, not {amount!r}"
            )
        by = Immediate(count)
    # A left shift is the same for all types; a right shift of a signed type fills with the sign.
    spelled = kind if operation == "shr" else bits_of(kind)
    return Operation(kind, operation, (spelled.name,), (_operand(value, kind, operation), by))


def negate(register: Term) -> Operation:
    """Return the instruction of ``-x``: ``neg``. Unsigned and untyped values wrap, as in ``0 - x``."""
    kind, what = register.type, f"-{_describe(register)}"
    if kind is pred:
        raise OperandError(f"{what}: predicates have no sign", hint="~p negates a predicate")
    if kind.kind == "f":
        if kind.name not in _COMPUTED - {"f32x2"}:
            raise OperandError(
                f"{what}: PTX does not negate .{kind}",
                hint="negate its parts: ptx.unpack(x)"
                if kind.lanes > 1
                else "convert it first, with ptx.cvt",
            )
        modifiers = (kind.name,)
    elif kind.lanes > 1:
        modifiers = (kind.name,)
    else:
        _wide_enough(kind, what)
        modifiers = (f"s{kind.bits}",)
    return Operation(kind, "neg", modifiers, (register.operand,))


def complement(register: Term) -> Operation:
    """Return the instruction of ``~x`` of an integer: ``not``."""
    kind, what = register.type, f"~{_describe(register)}"
    if kind.kind == "f":
        raise OperandError(f"{what}: `~` works on bits, not on .{kind}", hint=f"use x.view({bits_of(kind)})")
    _wide_enough(kind, what)
    return Operation(kind, "not", (bits_of(kind).name,), (register.operand,))


def copy(register: Term, value: Any) -> Operation:
    """Return the ``mov`` that writes a :class:`Term` or a number into ``register``.

    A register of untyped bits takes any value of its width; an integer register also takes untyped bits. A
    register of 8 bits is copied by a ``cvt.u8.u8``.

    Raises:
        OperandError: a value of another type, or a number that does not fit.
    """
    kind = register.type
    source: Register | Immediate
    if isinstance(value, Term):
        source = value.operand
        if value.type is kind:
            spelled = move_type(kind)
        elif value.type.bits == kind.bits and (
            kind.kind == "b" or (value.type.kind == "b" and kind.kind in "us")
        ):
            spelled = move_type(bits_of(kind))
        else:
            raise _cannot_set(register, value)
    else:
        number = as_number(value)
        if number is None:
            raise OperandError(
                f"{register} is .{kind} and cannot be set to {value!r}: expected a register or a number"
            )
        source, spelled = Immediate(encode_number(number, kind)), move_type(kind)
    narrow = any(isinstance(part, Register) and part.type.bits == 8 for part in (register.operand, source))
    if narrow:
        return Operation(kind, "cvt", ("u8", "u8"), (source,))
    return Operation(kind, "mov", (spelled.name,), (source,))


def _cannot_set(register: Term, value: Term) -> OperandError:
    kind, given = register.type, value.type
    if pred in (given, kind):
        remedy = "make a predicate by comparing (x != 0); use one to select (ptx.inst.selp)"
    elif given.bits == kind.bits:
        remedy = f"x.view({kind}) reads the same bits as .{kind}"
    else:
        remedy = f"convert: ptx.inst.cvt.{kind}.{given}(d, x)"
    return OperandError(f"{register} is .{kind} and cannot be set to {value} (.{given})", hint=remedy)
