"""Checks the operands of an instruction against a form, and says why an operand does not fit.

Owns the rules for operand kinds, types, widths, counts and immediates, and :func:`fit`, which assigns the
operands of one instruction to the operands of a form.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..core.types import TYPES, ScalarType
from ..ir import (
    Address,
    Arguments,
    BranchTarget,
    Element,
    Immediate,
    Indexed,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from .notation import PARTS, Chosen, OperandGroup, OperandSpec
from .special import SPECIAL_REGISTERS
from .table import Match, operand_check_of

__all__ = ["Mismatch", "address_space", "describe", "fit", "fits", "operand_choices"]


class Mismatch(Exception):
    """The reason why the given operands do not fit one form of the instruction.

    ``position`` says how far the operands fit: the number of leading operands that fit, plus 0.5 if the next
    operand is an address, as the form expects, with a wrong part inside the brackets. If no form of the
    instruction fits, the user sees the reason of the form with the highest position.
    """

    def __init__(self, position: float, message: str) -> None:
        super().__init__(message)
        self.position = position


_KIND_NAMES: dict[type, str] = {
    Register: "register",
    Special: "special register",
    Immediate: "immediate",
    Symbol: "symbol",
    BranchTarget: "label",
    Sink: "sink",
    Negated: "negated predicate",
    Element: "part of a register",
    Minus: "negated register",
    Sum: "sum of a register and a constant",
    Pair: "pair",
    Indexed: "array element",
    Vector: "vector",
    Address: "address",
    Arguments: "list of call arguments",
}


def describe(operand: Operand) -> str:
    """Return a description of an operand for messages: ``register %n (u32)``."""
    if isinstance(operand, Register):
        return f"register {operand} ({operand.type})"
    if isinstance(operand, Vector):
        return f"vector of {len(operand.elements)}"
    return f"{_KIND_NAMES[type(operand)]} {operand}"


def fits(given: ScalarType, wanted: ScalarType, wider: bool = False) -> bool:
    """True if a register of type ``given`` is allowed where type ``wanted`` is expected.

    Both need the same width, unless ``wider`` allows more bits. Signed and unsigned integers fit each other;
    untyped bits (``.b32``) fit every type, packed types and predicates have rules of their own.
    """
    if wanted.kind == "p" or given.kind == "p":
        return given.kind == wanted.kind
    if given.bits < wanted.bits or (given.bits > wanted.bits and (not wider or given.bits == 128)):
        return False
    if wanted.lanes > 1:
        # ptxas takes untyped bits for packed operands: add.u16x2 refuses a .u32 register.
        return given.kind == "b" or given.name == wanted.name
    if "b" in (given.kind, wanted.kind):
        return True
    if wanted.kind == "f" and wanted.name not in ("f16", "f32", "f64", "f16x2"):
        return given.kind == "b" or given.name == wanted.name
    if wanted.kind == "f" or given.kind == "f":
        return given.kind == wanted.kind and (given.bits, given.lanes) == (wanted.bits, wanted.lanes)
    return True


def _alike(first: ScalarType, second: ScalarType) -> bool:
    """True if registers of both types may be elements of one vector: same width, no float with an integer."""
    kinds = {first.kind, second.kind}
    return first.bits == second.bits and ("b" in kinds or "f" not in kinds or kinds == {"f"})


def _wanted(spec: OperandSpec, types: tuple[ScalarType, ...], length: int | None) -> str:
    """Describe for a message which operands the form allows at this position."""
    what = " or ".join(f".{t}" for t in types) or "value"
    names = {"reg": "register", "pair": "pair d|p", "imm": "immediate", "special": "special register"}
    names["arguments"] = "list in parentheses"
    kinds = [
        k
        for k in ("reg", "pair", "imm", "special", "symbol", "label", "sink", "arguments")
        if k in spec.kinds
    ]
    text = f"{'/'.join(names.get(k, k) for k in kinds)} of type {what}" if types else "/".join(kinds)
    return text if length is None else f"vector of {length} x ({text})"


def _values(values: range | tuple[int, ...]) -> str:
    if isinstance(values, tuple):
        return ", ".join(map(str, values))
    step = f" in steps of {values.step}" if values.step != 1 else ""
    return f"{values[0]}..{values[-1]}{step}"


def _immediate(operand: Immediate, spec: OperandSpec, types: tuple[ScalarType, ...]) -> Immediate | str:
    """Return the immediate, converted to the type that the form requires, or why it does not fit."""
    value = operand.value
    if "imm" not in spec.kinds:
        return "an immediate is not allowed here"
    if spec.values is not None:
        # A float is never one of the values; `in` would compare it with every number of a range.
        if isinstance(value, float) or value not in spec.values:
            return f"immediate {value} is not one of {_values(spec.values)}"
        return operand
    kinds = types or (TYPES["s64"],)
    for wanted in kinds:
        if wanted.kind == "f" and wanted.name in ("f32", "f64"):
            if operand.pattern is not None and operand.bits == wanted.bits:
                return operand  # a NaN keeps its payload
            try:
                struct.pack(">f" if wanted.bits == 32 else ">d", value)
            except OverflowError:
                continue
            return Immediate(float(value), wanted.bits)
        if isinstance(value, float):
            # A float constant for an operand of untyped bits is the bit pattern of the float of that width.
            if wanted.kind != "b" or wanted.bits not in (32, 64):
                continue
            return operand if operand.bits == wanted.bits else Immediate(value, wanted.bits)
        if wanted.kind == "p":
            # Every number except 0 is true; compilers write -1.
            return Immediate(int(value != 0))
        if -(1 << (wanted.bits - 1)) <= value < (1 << wanted.bits):
            return operand
    if isinstance(value, float) and not any(t.kind in "fb" for t in kinds):
        return f"{value} is a float constant"
    return f"immediate {value} does not fit {' or '.join('.' + t.name for t in kinds)}"


#: Index of each named component of a vector register.
_COMPONENTS = {name: place for names in ("xyzw", "rgba") for place, name in enumerate(names)}


def _as_register(operand: Operand) -> Register | None:
    """Return the register whose type decides if the operand fits, or None if the operand is of another kind.

    This is a register itself, one component for ``%v.x``, and ``%r`` for ``%r+4``.
    """
    if isinstance(operand, Register):
        return operand if operand.vector == 1 else None
    if isinstance(operand, Element) and operand.register.vector > 1:
        place = _COMPONENTS.get(operand.selector)
        has = place is not None and place < operand.register.vector
        return replace(operand.register, vector=1) if has else None
    return operand.register if isinstance(operand, Sum) else None


def _scalar(operand: Operand, spec: OperandSpec, types: tuple[ScalarType, ...]) -> Operand | str:
    """Return a scalar operand, with constants converted to the form's type, or why it does not fit."""
    register = _as_register(operand)
    if register is not None:
        if "reg" not in spec.kinds:
            return "a register is not allowed here"
        if isinstance(operand, Sum) and (spec.access != "r" or register.type.kind in "fp"):
            return f"a {_KIND_NAMES[Sum]} is only allowed for an integer that is read"
        if not types or any(fits(register.type, t, spec.wider) for t in types):
            return operand
        return "its type does not fit"
    if isinstance(operand, Immediate):
        return _immediate(operand, spec, types)
    if isinstance(operand, Negated):
        return operand if "neg" in spec.kinds else "a negated predicate is not allowed here"
    if isinstance(operand, Minus):
        if "minus" not in spec.kinds:
            return "a negated register is not allowed here"
        inner = _scalar(operand.operand, spec, types)
        return inner if isinstance(inner, str) else operand
    if isinstance(operand, Element):
        families = [PARTS[kind] for kind in spec.kinds if kind in PARTS]
        if not families:
            return "a part of a register is not allowed here"
        if not any(re.fullmatch(family, operand.selector) for family in families):
            return f".{operand.selector} is not a part that this operand takes"
        return (
            operand if any(fits(operand.register.type, t, False) for t in types) else "its type does not fit"
        )
    kinds: dict[type, str] = {
        Special: "special",
        Symbol: "symbol",
        Indexed: "symbol",
        BranchTarget: "label",
        Sink: "sink",
        Pair: "pair",
        Arguments: "arguments",
    }
    needed = kinds.get(type(operand))
    if needed is None or needed not in spec.kinds:
        return f"a {_KIND_NAMES[type(operand)]} is not allowed here"
    known = SPECIAL_REGISTERS.get(operand.name) if isinstance(operand, Special) else None
    if isinstance(operand, Special) and known is None:
        return "no register of this name is declared, and there is no such special register"
    if known is not None and known.type.kind == "p":
        return operand if any(t.kind == "p" for t in types) else "this special register is a predicate"
    if isinstance(operand, Special | Symbol) and types and all(t.kind in "fp" for t in types):
        return f"a {_KIND_NAMES[type(operand)]} has an integer value"
    if known is not None:
        bits = known.type.bits
        if not any(t.bits == bits or (t.bits, bits) == (16, 32) for t in types):
            return f"this special register has {bits} bits"
    if isinstance(operand, Pair):
        if isinstance(operand.first, Sink) and isinstance(operand.second, Sink):
            return "at least one of the two must be a register"
        if isinstance(operand.first, Register) and not any(
            fits(operand.first.type, t, spec.wider) for t in types
        ):
            return f"{operand.first} is .{operand.first.type}"
        if isinstance(operand.second, Register) and operand.second.type.kind != "p":
            return f"{operand.second} is .{operand.second.type}, not a predicate"
    return operand


def address_space(spec: OperandSpec, chosen: Chosen) -> str:
    """Return the state space of an address operand: ``global``, ``shared::cta``, ``generic``, ..."""
    if spec.space.startswith("."):
        return chosen.get(spec.space[1:], "generic")
    return spec.space or "generic"


#: Spaces of opaque objects, which an instruction names as a whole, without an offset.
_OPAQUE = frozenset({"texture", "sampler", "surface"})


def _address(operand: Operand, spec: OperandSpec, chosen: dict[str, str]) -> Operand | str:
    """Return an address, with constants converted to the form's types, or why it does not fit."""
    if isinstance(operand, Indexed):
        return operand  # a[3] is the address of the element
    if not isinstance(operand, Address):
        return "expected an address: [register+offset] in PTX text, ptx.addr(register, offset) in Python"
    base = operand.base
    if "symbol" in spec.kinds and "reg" not in spec.kinds and not isinstance(base, Symbol):
        return f"expected the name of a variable, got {describe(base)}"
    if isinstance(base, Register) and (base.type.bits not in (32, 64) or base.type.kind not in "usb"):
        return f"the address register {base} is .{base.type}; expected a 32- or 64-bit integer"
    space = address_space(spec, chosen)
    if isinstance(base, Immediate) and space != "local":
        return f"a constant address is only allowed in local space, not in {space} space"
    if space == "fabric" and (not isinstance(base, Register) or base.type.bits != 32 or operand.offset):
        return "expected a 32-bit register that has the number of a logical endpoint, without an offset"
    # Some instructions take generic addresses of shared memory only; those may have 32 bits.
    narrow = space not in {"generic", "global", *_OPAQUE} or "u32" in spec.types
    if isinstance(base, Register) and base.type.bits == 32 and not narrow:
        return f"an address of {space} space has 64 bits, but {base} is .{base.type}"
    if spec.space == "tensor" and isinstance(base, Register) and base.type.name not in spec.types:
        wanted = " or ".join(f".{name}" for name in spec.types)
        return f"the address in tensor memory must be a register of type {wanted}, but {base} is .{base.type}"
    if operand.suffix and operand.suffix not in spec.kinds:
        return f".{operand.suffix} after the address is not allowed here"
    extra, coordinates = operand.extra, operand.coordinates
    if spec.space in _OPAQUE and isinstance(base, Symbol) and "symbol" not in spec.kinds:
        return "expected a register, got the name of a variable"
    whole = spec.coordinates is not None or spec.space in _OPAQUE
    if whole and (operand.offset or operand.zero or isinstance(base, Immediate)):
        return "expected a register or a name, without an offset"
    if coordinates is None and len(extra) == len(spec.extra) + 1 and isinstance(extra[-1], Register):
        # [texture, x]: a single coordinate may be written without braces.
        extra, coordinates = extra[:-1], Vector(extra[-1:])
    if (spec.coordinates is None) != (coordinates is None):
        missing = "the address has no coordinates; expected [address, {x, ...}]"
        return missing if spec.coordinates is not None else "coordinates in this address are not allowed"
    if len(extra) != len(spec.extra):
        names = ", ".join(part.name for part in spec.extra) or "no operand"
        return f"expected {names} between the address and its coordinates, got {len(extra)} operands"
    for given, part in zip(extra, spec.extra, strict=True):
        fitted = _fit_one(given, part, chosen)
        if isinstance(fitted, str):
            return f"{part.name}: {fitted}"
    if spec.coordinates is not None and coordinates is not None:
        fitted = _fit_one(coordinates, spec.coordinates, chosen)
        if isinstance(fitted, str):
            return f"coordinates: {fitted}"
        if isinstance(fitted, Vector) and fitted != coordinates:
            return replace(operand, coordinates=fitted)
    return operand


def _fit_one(operand: Operand, spec: OperandSpec, chosen: dict[str, str]) -> Operand | str:
    """Return an operand of any kind, with constants converted to the form's types, or why it does not fit."""
    if spec.access == "a":
        return _address(operand, spec, chosen)
    types = spec.scalar_types(chosen)
    length = spec.length(chosen)

    def wanted() -> str:
        return _wanted(spec, types, length)

    if isinstance(operand, Address):
        return f"an address is not allowed here; expected {wanted()}"
    if length is None:
        if isinstance(operand, Vector):
            if "braces" not in spec.kinds or len(operand.elements) != 1:
                return f"a vector is not allowed here; expected {wanted()}"
            operand = operand.elements[0]
        scalar = _scalar(operand, spec, types)
        return f"{scalar}; expected {wanted()}" if isinstance(scalar, str) else scalar
    if isinstance(operand, Register) and operand.vector == length > 1:
        fitting = "reg" in spec.kinds and any(fits(operand.type, t, spec.wider) for t in types)
        return operand if fitting else f"its type does not fit; expected {wanted()}"
    whole = isinstance(operand, Pair) and isinstance(operand.first, Register) and operand.first.vector > 1
    if isinstance(operand, Pair) and (whole or isinstance(operand.first, Vector)) and "pair" in spec.kinds:
        if not isinstance(operand.second, Register) or operand.second.type.kind != "p":
            return f"expected a predicate after '|', got {describe(operand.second)}"
        first = _fit_one(operand.first, spec, chosen)
        return first if isinstance(first, str) else operand
    if not isinstance(operand, Vector):
        return f"expected {wanted()}"
    if len(operand.elements) != length:
        return f"expected a vector of {length} elements, got {len(operand.elements)}"
    lead = spec.lead_type(chosen)
    elements = []
    for index, element in enumerate(operand.elements):
        fitted = _scalar(element, spec, (lead,) if lead is not None and index == 0 else types)
        if isinstance(fitted, str):
            return f"element {index}, {describe(element)}: {fitted}; expected {_wanted(spec, types, None)}"
        elements.append(fitted)
    registers = [e for e in operand.elements[0 if lead is None else 1 :] if isinstance(e, Register)]
    for other in registers[1:]:
        if not _alike(registers[0].type, other.type):
            return f"{describe(registers[0])} and {describe(other)} cannot be elements of one vector"
    return Vector(tuple(elements))  # type: ignore[arg-type]


def _assign(
    groups: tuple[OperandGroup, ...],
    operands: tuple[Operand, ...],
    at: int,
    chosen: dict[str, str],
) -> list[tuple[OperandSpec, Operand]]:
    """Assign the given operands, from index ``at`` on, to the operands that the form's ``groups`` list.

    Raises :class:`Mismatch`. If no assignment fits, the error is that of the assignment that fits furthest.
    """
    if not groups:
        if at < len(operands):
            raise Mismatch(at, f"{len(operands)} operands given, expected {at}")
        return []
    head, rest = groups[0], groups[1:]
    failure: Mismatch | None = None
    if len(operands) - at >= len(head.specs):
        try:
            fitted: list[tuple[OperandSpec, Operand]] = []
            for offset, spec in enumerate(head.specs):
                operand = operands[at + offset]
                result = _fit_one(operand, spec, chosen)
                if isinstance(result, str):
                    near = (
                        spec.access == "a"
                        and isinstance(operand, Address)
                        and (operand.coordinates is None or len(operand.extra) == len(spec.extra))
                    )
                    raise Mismatch(
                        at + offset + near / 2,
                        f"operand {at + offset + 1} ({spec.name}) is {describe(operand)}: {result}",
                    )
                fitted.append((spec, result))
            return fitted + _assign(rest, operands, at + len(head.specs), chosen)
        except Mismatch as mismatch:
            failure = mismatch
    if not head.optional:
        if failure is not None:
            raise failure
        least = at + sum(len(g.specs) for g in groups if not g.optional)
        names = ", ".join(spec.name for g in groups for spec in g.specs if not g.optional)
        raise Mismatch(
            len(operands), f"{len(operands)} operands given, expected at least {least} (missing: {names})"
        )
    try:
        return _assign(rest, operands, at, chosen)
    except Mismatch as mismatch:
        if failure is not None and failure.position >= mismatch.position:
            raise failure from None
        raise


def _operand_relations(match: Match, names: Iterable[str]) -> str | None:
    """Return a message if the modifiers and the operands called ``names`` break a relation, or None."""
    present = set(names)

    def holds(side: str) -> bool:
        if side[0] == ".":
            return side[1:] in match.chosen or side[1:] in match.spelling
        return side in present

    for relation in match.form.relations:
        if relation.left[0] == "." and relation.right[0] == ".":
            continue
        left, right = holds(relation.left), holds(relation.right)
        if relation.kind == "excludes":
            if left and right:
                return f"{relation.left} and {relation.right} exclude each other"
        elif left and not right:
            return f"{relation.left} requires {relation.right}"
        elif relation.kind == "iff" and right and not left:
            return f"{relation.right} is only allowed with {relation.left}"
    return None


def _groups(match: Match) -> tuple[OperandGroup, ...]:
    """Return the operand groups; optional ones become required, or are dropped, if the modifiers say so."""
    decided = {
        r.right: r.left[1:] in match.chosen or r.left[1:] in match.spelling
        for r in match.form.relations
        if r.kind == "iff" and r.left[0] == "." and r.right[0] != "."
    }
    groups = []
    for group in match.form.operands:
        if group.optional and group.without_case(match.chosen) is not None:
            continue
        present = decided.get(group.specs[0].name) if group.optional else None
        if present is None:
            groups.append(group)
        elif present:
            groups.append(OperandGroup(group.specs, False))
    return tuple(groups)


def operand_choices(match: Match) -> Iterator[tuple[OperandSpec, ...]]:
    """Yield every legal list of operand specs for these modifiers, with and without each optional operand."""
    choices = [(group.specs, ()) if group.optional else (group.specs,) for group in _groups(match)]
    for picks in itertools.product(*choices):
        specs = tuple(itertools.chain.from_iterable(picks))
        if _operand_relations(match, (spec.name for spec in specs)) is None:
            yield specs


def fit(match: Match, operands: tuple[Operand, ...]) -> list[tuple[OperandSpec, Operand]]:
    """Return each operand with the form's spec for it; constants are converted to the form's types.

    Raises :class:`Mismatch` if an operand does not fit.
    """
    fitted = _assign(_groups(match), operands, 0, match.chosen)
    broken = _operand_relations(match, (spec.name for spec, _ in fitted))
    check = operand_check_of(match.form.id)
    if broken is None and check is not None:
        broken = check({spec.name: operand for spec, operand in fitted})
    if broken is not None:
        raise Mismatch(len(operands), broken)
    return fitted
