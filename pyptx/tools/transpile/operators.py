"""Finds the Python operator that records an instruction, and the types that the operator needs.

Owns the inverse of :mod:`pyptx.dsl.operators`: an instruction becomes ``a + b`` only if this expression, with
registers of the given types, records the same opcode, modifiers and operands in the same order.
"""

from __future__ import annotations

from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...ir import Instruction

__all__ = ["OPERATIONS", "Operation", "operation_of", "result_type"]


@dataclass(frozen=True, slots=True)
class Operation:
    """The Python operator ``symbol`` on operands of type ``kind``, which emits an instruction.

    ``what`` is ``arithmetic``, ``bits``, ``shift``, ``compare``, ``unary`` or ``float``.
    """

    symbol: str
    kind: ScalarType
    what: str
    signed: bool = False


def _operations() -> dict[tuple[str, tuple[str, ...]], Operation]:
    found: dict[tuple[str, tuple[str, ...]], Operation] = {}
    compare = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
    for bits in (16, 32, 64):
        for sign in "us":
            kind = TYPES[f"{sign}{bits}"]
            found["add", (kind.name,)] = Operation("+", kind, "arithmetic")
            found["sub", (kind.name,)] = Operation("-", kind, "arithmetic")
            found["mul", ("lo", kind.name)] = Operation("*", kind, "arithmetic")
            found["div", (kind.name,)] = Operation("//", kind, "arithmetic", signed=True)
            found["rem", (kind.name,)] = Operation("%", kind, "arithmetic", signed=True)
            found["shr", (kind.name,)] = Operation(">>", kind, "shift")
            for name, symbol in compare.items():
                ordered = name not in ("eq", "ne")
                found["setp", (name, kind.name)] = Operation(symbol, kind, "compare", signed=ordered)
        kind = TYPES[f"b{bits}"]
        for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
            found[name, (kind.name,)] = Operation(symbol, kind, "bits")
        found["shl", (kind.name,)] = Operation("<<", kind, "shift")
        found["shr", (kind.name,)] = Operation(">>", kind, "shift")
        found["not", (kind.name,)] = Operation("~", kind, "unary")
        found["neg", (f"s{bits}",)] = Operation("-", TYPES[f"s{bits}"], "unary")
        for name in ("eq", "ne"):
            found["setp", (name, kind.name)] = Operation(compare[name], kind, "compare")
    for kind in (TYPES["f32"], TYPES["f64"]):
        for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
            found[name, ("rn", kind.name)] = Operation(symbol, kind, "float")
        for name, symbol in compare.items():
            found["setp", ("neu" if name == "ne" else name, kind.name)] = Operation(symbol, kind, "compare")
        found["neg", (kind.name,)] = Operation("-", kind, "unary")
    for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
        found[name, ("pred",)] = Operation(symbol, TYPES["pred"], "bits")
    return found


#: Opcode and modifiers -> the operation.
OPERATIONS = _operations()


def operation_of(instruction: Instruction) -> Operation | None:
    """Return the Python operator that emits ``instruction``, or None if its operands do not fit."""
    return OPERATIONS.get((instruction.opcode, instruction.modifiers))


def _range(kind: ScalarType, signed: bool) -> tuple[int, int]:
    if signed and kind.kind in "us":
        return kind.limits
    return -(1 << (kind.bits - 1)), (1 << kind.bits) - 1


def _meet(kinds: list[ScalarType]) -> ScalarType | None:
    """Return the common type that an operator uses for registers of these types; None if they do not mix."""
    first, last = kinds[0], kinds[-1]
    if first is last:
        return first
    if first.bits == last.bits:
        for bits, typed in ((first, last), (last, first)):
            if bits.kind == "b" and typed.kind in "us":
                return typed
    return None


def result_type(operation: Operation, operands: list[ScalarType | int | float]) -> ScalarType | None:
    """Return the type of the operator's result; ``operands`` has the types of registers, and constants.

    The result is None if Python's operator would record another instruction, or refuse the operands.
    """
    kinds = [o for o in operands if isinstance(o, ScalarType)]
    numbers = [o for o in operands if not isinstance(o, ScalarType)]
    if not kinds:
        return None
    if operation.what == "shift":
        return _shift(operation, operands)
    kind = _meet(kinds)
    if kind is None:
        return None
    wanted = operation.kind
    if operation.what == "unary":
        fits = kind is wanted if wanted.is_float else kind.bits == wanted.bits and kind.kind in "usb"
        return kind if fits else None
    if wanted.is_float or wanted.kind == "p":
        if kind is not wanted or (wanted.kind == "p" and numbers):
            return None
    elif operation.what == "bits":
        if kind.bits != wanted.bits or kind.kind not in "usb":
            return None
    elif operation.what == "compare":
        if kind is not wanted:
            return None
    elif kind is not wanted and not (
        # Registers of untyped bits compute as unsigned integers if the sign does not matter.
        wanted.kind == "u" and not operation.signed and kind is TYPES[f"b{wanted.bits}"]
    ):
        return None
    if operation.what == "compare" and not isinstance(operands[0], ScalarType):
        return None  # Python would call the second operand's method, which exchanges the operands
    for number in numbers:
        if wanted.is_float:
            continue
        low, high = _range(kind, operation.signed)
        if isinstance(number, float) or not low <= number <= high:
            return None
    return TYPES["pred"] if operation.what == "compare" else kind


def _shift(operation: Operation, operands: list[ScalarType | int | float]) -> ScalarType | None:
    value, amount = operands
    if isinstance(amount, ScalarType):
        if amount.bits != 32 or amount.kind not in "usb":
            return None
    elif isinstance(amount, float) or not 0 <= amount < 1 << 32:
        return None
    if not isinstance(value, ScalarType):
        return None
    if value.kind not in "usb" or value.bits != operation.kind.bits:
        return None
    if operation.symbol == ">>" and value is not operation.kind:
        return None
    return value
