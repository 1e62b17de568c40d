"""The data of one instruction-table entry: a frozen :class:`Form`, its modifiers and its operands.

docs/notation.md describes the notation.  :mod:`.reader` reads an entry into a form, :mod:`.clauses` reads
clauses, :mod:`.chapters` divides a chapter into entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache, partial

from ..core.records import dataclass
from ..core.types import TYPES, ScalarType
from .targets import TargetSet, Version

__all__ = [
    "PARTS",
    "Alternative",
    "Case",
    "Cases",
    "Chosen",
    "Form",
    "ModifierGroup",
    "ModifierSlot",
    "NotationError",
    "OperandGroup",
    "OperandSpec",
    "Relation",
    "evaluate",
]

#: Kinds of video operands that are a part of a register, and a regular expression of the selectors that each
#: kind allows (``%r.h1``).
PARTS = {
    "part": r"b[0-3]|h[01]",
    "halves": r"h[0-3][0-3]",
    "bytes": r"b[0-7]{4}",
    "mask2": r"h(?:0|10?)",
    "mask4": r"b(?!$)3?2?1?0?",
}

#: The modifier that was chosen for each slot: slot name -> modifier, both without the dot.
Chosen = Mapping[str, str]


class NotationError(ValueError):
    """An entry of the table does not follow the notation: a fault of pyptx, not of the user's code."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One modifier of a set; it requires PTX version ``since`` and targets ``on``, besides the form's own."""

    text: str
    since: Version | None = None
    on: TargetSet | None = None


@dataclass(frozen=True, slots=True)
class ModifierSlot:
    """A position for one modifier. A literal modifier's position has its name and one alternative."""

    name: str
    alternatives: tuple[Alternative, ...]

    def find(self, text: str) -> Alternative | None:
        """Return the alternative that is spelled ``text`` (without the dot), or None."""
        for alternative in self.alternatives:
            if alternative.text == text:
                return alternative
        return None


@dataclass(frozen=True, slots=True)
class ModifierGroup:
    """``{.a.b}``: positions of modifiers that are all present or all absent."""

    slots: tuple[ModifierSlot, ...]
    optional: bool

    def written(self) -> tuple[str, ...]:
        """Return the group's text in a syntax line: ``.type``, or the modifier itself where it is fixed.

        A modifier is fixed if the group is always present and the slot has one alternative.
        """
        return tuple(
            f".{slot.alternatives[0].text if self.fixes(slot) else slot.name}" for slot in self.slots
        )

    def fixes(self, slot: ModifierSlot) -> bool:
        """True if every instruction of the form has the same modifier at this position of the group."""
        return not self.optional and len(slot.alternatives) == 1

    def __str__(self) -> str:
        text = "".join(self.written())
        return f"{{{text}}}" if self.optional else text


@dataclass(frozen=True, slots=True)
class Case:
    """Types and length of an operand for one choice of modifiers.

    ``lead`` is the type of the first element, where it differs from the type of the other elements.
    """

    types: tuple[str, ...]
    count: str | None = None
    lead: str = ""


@dataclass(frozen=True)
class Cases:
    """``d by .shape.dtype = { ... }``: the operand's types and length for each choice in some slots.

    A choice without a case is illegal. The keys of ``rows`` have one item for each slot: the modifier, or
    None if the slot is absent.
    """

    slots: tuple[str, ...]
    rows: Mapping[tuple[str | None, ...], Case]

    def find(self, chosen: Chosen) -> Case | None:
        """Return the operand's types and length for the chosen modifiers, or None if they have no case."""
        return self.rows.get(tuple(chosen.get(slot) for slot in self.slots))

    def reason(self, chosen: Chosen) -> str:
        """Return a message that says why ``chosen`` is illegal and which modifiers are legal."""
        given = "".join(f".{chosen[s]}" for s in self.slots if s in chosen)
        kept = [key for key in self.rows if key[0] == chosen.get(self.slots[0])] or list(self.rows)
        legal = ["".join(f".{modifier}" for modifier in key if modifier) for key in kept[:8]]
        more = ", ..." if len(kept) > 8 else ""
        return f"{given or 'no modifier'} is given; expected one of {', '.join(legal)}{more}"


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """The operands that are allowed at one position.

    Attributes:
        name: the manual's name of the operand.
        access: ``"r"`` read, ``"w"`` write, ``"rw"`` both, ``"a"`` an address in brackets.
        types: type expressions; ``.type`` is the chosen modifier, ``wide(.type)`` a type of twice its width.
        wider: True if registers wider than the type are allowed too (loads, stores, conversions).
        count: length expression of a vector (``.num*2``); None for a scalar.
        kinds: the kinds of operand that are allowed: ``reg imm special symbol label sink neg pair minus
            arguments braces``, or one of PARTS; for an address also ``unified``: ``.unified`` may follow it.
        values: the values that an immediate may have; None if every value that fits the type is allowed.
        space: state-space expression of an address, or empty.
        coordinates: the vector inside the brackets of a tensor or texture address.
        extra: the other operands inside the brackets, before the coordinates: a sampler, an offset, a vector.
        cases: types and length for each choice of modifiers, instead of ``types`` and ``count``.
    """

    name: str
    access: str
    types: tuple[str, ...]
    wider: bool = False
    count: str | None = None
    kinds: frozenset[str] = frozenset()
    values: range | tuple[int, ...] | None = None
    space: str = ""
    coordinates: OperandSpec | None = None
    extra: tuple[OperandSpec, ...] = ()
    cases: Cases | None = None

    def case(self, chosen: Chosen) -> Case:
        """Return the operand's types and length for the chosen modifiers, as expressions."""
        if self.cases is None:
            return Case(self.types, self.count)
        found = self.cases.find(chosen)
        if found is None:
            raise NotationError(f"operand {self.name}: {self.cases.reason(chosen)}")
        return found

    def scalar_types(self, chosen: Chosen) -> tuple[ScalarType, ...]:
        """Return the PTX types that the type expressions mean with the chosen modifiers."""
        types = self.types if self.cases is None else self.case(chosen).types
        return tuple([_type_of(expression, chosen) for expression in types])

    def lead_type(self, chosen: Chosen) -> ScalarType | None:
        """Return the type of a vector's first element if it differs from the other elements', else None."""
        lead = "" if self.cases is None else self.case(chosen).lead
        return _type_of(lead, chosen) if lead else None

    def length(self, chosen: Chosen) -> int | None:
        """Return the length of the vector; None if the operand is a scalar, or if the slot is absent."""
        count = self.count if self.cases is None else self.case(chosen).count
        return None if count is None else evaluate(count, chosen)

    def parts(self) -> Iterator[OperandSpec]:
        """Yield the operand itself, and the operands inside its brackets."""
        yield self
        yield from self.extra
        if self.coordinates is not None:
            yield self.coordinates


@dataclass(frozen=True, slots=True)
class OperandGroup:
    """Operands that are all present or all absent."""

    specs: tuple[OperandSpec, ...]
    optional: bool

    def without_case(self, chosen: Chosen) -> OperandSpec | None:
        """Return an operand of the group that these modifiers leave without legal types, or None.

        An optional group with such an operand is absent.
        """
        for spec in self.specs:
            for part in spec.parts():
                if part.cases is not None and part.cases.find(chosen) is None:
                    return part
        return None


@dataclass(frozen=True, slots=True)
class Relation:
    """``left KIND right``: a relation ``requires``, ``iff`` or ``excludes`` between modifiers and operands.

    Each side is a modifier ``.text``, a slot ``.name`` (any of its alternatives) or the name of an operand.
    """

    left: str
    kind: str
    right: str


@dataclass(frozen=True, eq=False)
class Form:
    """One form of an instruction: an entry of the instruction table, with one syntax line."""

    id: str
    summary: str
    opcode: str
    modifiers: tuple[ModifierGroup, ...]
    operands: tuple[OperandGroup, ...]
    relations: tuple[Relation, ...] = ()
    since: Version = (1, 0)
    on: TargetSet = field(default_factory=lambda: TargetSet(("sm_75+",)))
    anchor: str = ""
    check: str = ""
    operand_check: str = ""
    notes: tuple[str, ...] = ()
    #: Version and targets that an operand needs if it is present. ``name._`` is the limit for a sink in its
    #: place, ``name.pair`` for a pair, ``name.unified`` for ``.unified`` after the address.
    operand_limits: tuple[Alternative, ...] = ()
    #: The same for modifiers that occur side by side, such as ``s8.u8``.
    sequence_limits: tuple[Alternative, ...] = ()
    syntax: str = ""

    def __repr__(self) -> str:
        return f"<form {self.id}>"

    def slots(self) -> Iterator[ModifierSlot]:
        """Yield the positions of the form's modifiers, in order."""
        for group in self.modifiers:
            yield from group.slots

    def specs(self) -> Iterator[OperandSpec]:
        """Yield the descriptions of the form's operands in order, including optional ones."""
        for group in self.operands:
            yield from group.specs


# --- expressions --------------------------------------------------------------------------------

_SHAPE_PART = partial(re.compile, r"([mnk])(\d+)")
_TRAILING = partial(re.compile, r"(\d+)\D*$")


def _slot_value(slot: str, part: str, chosen: Chosen) -> int | None:
    text = chosen.get(slot)
    if text is None:
        return None
    if part:
        for name, digits in _SHAPE_PART().findall(text):
            if name == part:
                return int(digits)
        raise NotationError(f".{slot} = .{text} has no part {part!r}")
    match = _TRAILING().search(text)
    if match is None:
        raise NotationError(f".{slot} = .{text} has no number")
    return int(match.group(1))


def evaluate(expression: str, chosen: Chosen) -> int | None:
    """Return the value of a length such as ``4``, ``.vec``, ``.num*2`` or ``.shape.n/2``.

    The result is None if the slot in the expression is absent.
    """
    value: int | None = None
    operator = ""
    for token in _tokens(expression):
        if token in "*/-":
            operator = token
            continue
        if token[0] == ".":
            slot, _, part = token[1:].partition(".")
            term = _slot_value(slot, part, chosen)
        else:
            term = int(token)
        if term is None:
            return None
        if operator == "*":
            value = (value or 0) * term
        elif operator == "/":
            value = (value or 0) // term
        elif operator == "-":
            value = (value or 0) - term
        else:
            value = term
    return value


@cache
def _tokens(expression: str) -> list[str]:
    return re.findall(r"\.\w+(?:\.[mnk]\b)?|\d+|[*/-]", expression)


def _type_of(expression: str, chosen: Chosen) -> ScalarType:
    if expression.startswith("wide("):
        narrow = _type_of(expression[5:-1], chosen)
        return TYPES[f"{narrow.kind}{narrow.bits * 2}"]
    if expression.startswith("."):
        return TYPES[chosen[expression[1:]]]
    return TYPES[expression]
