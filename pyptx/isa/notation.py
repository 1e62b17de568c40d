"""The notation of the instruction table, and its reader.

docs/notation.md describes the notation.  This module reads the text of one entry into a frozen
:class:`Form`.  It contains the grammar of the notation, and no facts about single instructions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..core.types import TYPES, ScalarType
from .targets import TargetSet, Version, parse_version

__all__ = [
    "Alternative",
    "Cases",
    "PARTS",
    "Chosen",
    "Form",
    "ModifierGroup",
    "NotationError",
    "OperandGroup",
    "OperandSpec",
    "Relation",
    "ModifierSlot",
    "read_form",
    "read_sets",
    "split_entries",
]

#: The modifier that was chosen for each slot: slot name -> modifier, both without the dot.
Chosen = Mapping[str, str]


class NotationError(ValueError):
    """An entry of the table does not follow the notation: a fault of pyptx, not of the user's code."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One modifier of a set; ``since`` and ``on`` are its own limits, in addition to the form's."""

    text: str
    since: Version | None = None
    on: TargetSet | None = None


@dataclass(frozen=True, slots=True)
class ModifierSlot:
    """A place for one modifier. The slot of a literal modifier has its name and one alternative."""

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
    """``{.a.b}``: slots that are all present or all absent."""

    slots: tuple[ModifierSlot, ...]
    optional: bool

    def written(self) -> tuple[str, ...]:
        """Return how a syntax line names the slots: ``.type``, or the modifier itself where it is fixed.

        A modifier is fixed if the group is always present and the slot has one alternative.
        """
        return tuple(
            f".{slot.alternatives[0].text if self.fixes(slot) else slot.name}" for slot in self.slots
        )

    def fixes(self, slot: ModifierSlot) -> bool:
        """True if every instruction of the form has the same modifier in this slot of the group."""
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
        """Return the case for the chosen modifiers, or None if there is none."""
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
        """Return types and length for the chosen modifiers, as expressions."""
        if self.cases is None:
            return Case(self.types, self.count)
        found = self.cases.find(chosen)
        if found is None:
            raise NotationError(f"operand {self.name}: {self.cases.reason(chosen)}")
        return found

    def scalar_types(self, chosen: Chosen) -> tuple[ScalarType, ...]:
        """Return the PTX types that the type expressions mean with the chosen modifiers."""
        return tuple(_type_of(t, chosen) for t in self.case(chosen).types)

    def lead_type(self, chosen: Chosen) -> ScalarType | None:
        """Return the type of a vector's first element if it differs from the other elements', else None."""
        lead = self.case(chosen).lead
        return _type_of(lead, chosen) if lead else None

    def length(self, chosen: Chosen) -> int | None:
        """Return the length of the vector; None if the operand is a scalar, or if the slot is absent."""
        count = self.case(chosen).count
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
        """Return an operand of the group that has no case for these modifiers, or None.

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
    """One entry of the table: one syntax shape of an instruction."""

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
        """Yield the modifier slots in their order."""
        for group in self.modifiers:
            yield from group.slots

    def specs(self) -> Iterator[OperandSpec]:
        """Yield the operands in their order, optional ones included."""
        for group in self.operands:
            yield from group.specs


# --- expressions --------------------------------------------------------------------------------

_SHAPE_PART = re.compile(r"([mnk])(\d+)")
_TRAILING = re.compile(r"(\d+)\D*$")


def _slot_value(slot: str, part: str, chosen: Chosen) -> int | None:
    text = chosen.get(slot)
    if text is None:
        return None
    if part:
        for name, digits in _SHAPE_PART.findall(text):
            if name == part:
                return int(digits)
        raise NotationError(f".{slot} = .{text} has no part {part!r}")
    match = _TRAILING.search(text)
    if match is None:
        raise NotationError(f".{slot} = .{text} has no number")
    return int(match.group(1))


def evaluate(expression: str, chosen: Chosen) -> int | None:
    """Return the value of a length such as ``4``, ``.vec``, ``.num*2`` or ``.shape.n/2``.

    The result is None if the slot in the expression is absent.
    """
    value: int | None = None
    operator = ""
    for token in re.findall(r"\.\w+(?:\.[mnk]\b)?|\d+|[*/-]", expression):
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


def _type_of(expression: str, chosen: Chosen) -> ScalarType:
    if expression.startswith("wide("):
        narrow = _type_of(expression[5:-1], chosen)
        return TYPES[f"{narrow.kind}{narrow.bits * 2}"]
    if expression.startswith("."):
        return TYPES[chosen[expression[1:]]]
    return TYPES[expression]


# --- reader -------------------------------------------------------------------------------------

_HEADER = re.compile(r'^\[(?P<id>[\w.:\-]+)\]\s+"(?P<summary>[^"]+)"$')
_MODIFIER = re.compile(r"\.\w+(?:::(?:\d+:\d+|\w+))*")
_SET = re.compile(r"^(\.[\w]+(?:::[\w]+)*)\s*=\s*\{(.*)\}$", re.DOTALL)
_CASES = re.compile(r"^([\w\-]+)\s+by\s+((?:\.\w+)+)\s*=\s*\{(.*)\}$", re.DOTALL)
_CASE = re.compile(
    r"^(?P<key>\S+)\s+(?:(?P<lead>[.\w]+)\s+then\s+)?(?P<types>[.\w()]+(?:\|[.\w()]+)*)(?:\s+x\s+(?P<count>[.\w*/\-]+))?$"
)
#: Numbers inside a member of a set: ``.m64n[8..256/8]k16``.
_NUMBERS = re.compile(r"\[(\d+)\.\.(\d+)(?:/(\d+))?\]")
#: The part of a case's key for one slot: ``.f16``, ``.f16|.bf16``, or ``-`` for an absent slot.
_KEY = re.compile(r"(?:\.\w+(?:::(?:\d+:\d+|\w+))*|-)(?:\|(?:\.\w+(?:::(?:\d+:\d+|\w+))*|-))*")
_RELATION = re.compile(r"^(\.?[\w:\-]+)\s+(requires|iff|excludes)\s+(\.?[\w:\-]+)$")
_OPERAND = re.compile(
    r"^(?P<access>[=+]?)(?P<bang>!?)(?P<name>[\w\-]+)(?P<pair>\|[\w\-]+|\{\|[\w\-]+\})?"
    r"(?:\s*:\s*(?P<types>(?:[.\w]+|wide\(\.\w+\))(?:\|(?:[.\w]+|wide\(\.\w+\)))*)(?P<wider>\+?))?"
    r"(?:\s+x\s+(?P<count>[.\w*/\-]+))?(?P<flags>(?:\s+[\w.:/|\-]+)*)$"
)
#: Kinds of video operands that are a part of a register, and the selectors that each kind allows (``%r.h1``).
PARTS = {
    "part": re.compile(r"b[0-3]|h[01]"),
    "halves": re.compile(r"h[0-3][0-3]"),
    "bytes": re.compile(r"b[0-7]{4}"),
    "mask2": re.compile(r"h(?:0|10?)"),
    "mask4": re.compile(r"b(?!$)3?2?1?0?"),
}
_KIND_FLAGS = frozenset(
    {"reg", "imm", "special", "symbol", "label", "sink", "minus", "arguments", "unified", "braces", *PARTS}
)
#: Kinds that are allowed in addition to a register (and to an immediate, if the operand is read).
_BESIDE = frozenset({"sink", "special", "symbol", "minus", "unified", "braces"})


def split_entries(text: str) -> dict[str, str]:
    """Split a chapter at the ``[id]`` headers. Return the text of each entry by id; it is not read here."""
    entries: dict[str, str] = {}
    for block in re.split(r"^(?=\[)", text, flags=re.MULTILINE)[1:]:
        name = block[1 : block.index("]")]
        if name in entries:
            raise NotationError(f"there are two entries [{name}]")
        entries[name] = block
    return entries


def read_sets(text: str) -> dict[str, tuple[Alternative, ...]]:
    """Read the sets before a chapter's first entry. An entry's own set of the same name takes precedence."""
    head = re.split(r"^(?=\[)", text, maxsplit=1, flags=re.MULTILINE)[0]
    sets: dict[str, tuple[Alternative, ...]] = {}
    for clause in _clauses("\n".join(line for line in head.splitlines() if not line.startswith("#"))):
        match = _SET.match(clause)
        if match is None or match[1][1:] in sets:
            raise NotationError(
                f"before a chapter's first entry: expected sets with different names, got {clause!r}"
            )
        sets[match[1][1:]] = _members(match[2])
    return sets


def read_form(text: str, sets: Mapping[str, tuple[Alternative, ...]] | None = None) -> Form:
    """Read the text of one entry; ``sets`` are the sets of its chapter.

    Raises:
        NotationError: the entry does not follow the notation; the message names the entry and the clause.
    """
    lines = [line.rstrip() for line in text.strip().splitlines() if not line.lstrip().startswith("#")]
    header = _HEADER.match(lines[0])
    if header is None:
        raise NotationError(f'expected [id] "summary", got {lines[0]!r}')
    identifier = header["id"]
    body = "\n".join(lines[1:])
    syntax, semicolon, rest = body.partition(";")
    if not semicolon:
        raise NotationError(f"[{identifier}]: the syntax does not end with ';'")
    try:
        return _Reader(
            identifier, header["summary"], " ".join(syntax.split()), _clauses(rest), sets or {}
        ).form()
    except NotationError as error:
        raise NotationError(f"[{identifier}]: {error}") from None


def _clauses(rest: str) -> list[str]:
    """Split the lines of an entry into clauses. A clause that opens a brace ends where the brace closes."""
    clauses: list[str] = []
    pending = ""
    for line in rest.splitlines():
        pending = f"{pending} {line.strip()}".strip()
        if pending.count("{") == pending.count("}") and pending:
            clauses.append(pending)
            pending = ""
    if pending:
        raise NotationError(f"a brace is not closed in {pending!r}")
    return clauses


class _Reader:
    """Reads one entry: its clauses first, then with them the modifiers and operands of the syntax."""

    def __init__(
        self,
        identifier: str,
        summary: str,
        syntax: str,
        clauses: list[str],
        shared: Mapping[str, tuple[Alternative, ...]],
    ) -> None:
        self.shared = shared
        self.identifier, self.summary, self.syntax = identifier, summary, syntax
        self.sets: dict[str, tuple[Alternative, ...]] = {}
        self.cases: dict[str, Cases] = {}
        self.limits: dict[str, Alternative] = {}
        self.operand_limits: list[Alternative] = []
        self.sequence_limits: list[Alternative] = []
        self.relations: list[Relation] = []
        self.notes: list[str] = []
        self.since: Version = (1, 0)
        self.on = TargetSet(("sm_75+",))
        self.anchor = self.check = self.operand_check = ""
        for clause in clauses:
            self._clause(clause)

    def _clause(self, clause: str) -> None:
        if match := _SET.match(clause):
            self.sets[match[1][1:]] = _members(match[2])
        elif match := _CASES.match(clause):
            self.cases[match[1]] = _read_cases(tuple(match[2][1:].split(".")), match[3])
        elif match := _RELATION.match(clause):
            self.relations.append(Relation(match[1], match[2], match[3]))
        elif clause.startswith("."):
            limit = _alternative(clause)
            if "." in limit.text:
                self.sequence_limits.append(limit)
            else:
                self.limits[limit.text] = limit
        elif re.match(r"^[\w\-]+(\.(_|pair|unified))? (since|on) ", clause) and not clause.startswith(
            "since "
        ):
            self.operand_limits.append(_alternative("." + clause))
        else:
            keyword, _, value = clause.partition(" ")
            value = value.strip()
            if keyword == "since":
                version, _, on = value.partition(" on ")
                self.since = parse_version(version.strip())
                if on:
                    self.on = TargetSet.parse(on)
            elif keyword == "on":
                self.on = TargetSet.parse(value)
            elif keyword == "see":
                self.anchor = value
            elif keyword == "check":
                if value.startswith("operands "):
                    self.operand_check = value.removeprefix("operands ")
                else:
                    self.check = value
            elif keyword in ("note", "MEASURED", "STRICTER") or clause.startswith("NOT REGISTERED"):
                self.notes.append(clause)
            else:
                raise NotationError(f"unknown clause {clause!r}; docs/notation.md lists the clauses")

    def form(self) -> Form:
        head, _, operands = self.syntax.partition(" ")
        opcode = re.match(r"^\w+", head)
        if opcode is None:
            raise NotationError(f"expected an opcode at the beginning of the syntax, got {head!r}")
        modifiers = self._modifiers(head[opcode.end() :])
        form = Form(
            id=self.identifier,
            summary=self.summary,
            opcode=opcode.group(),
            modifiers=modifiers,
            operands=self._operands(operands.strip()),
            relations=tuple(self.relations),
            since=self.since,
            on=self.on,
            anchor=self.anchor,
            check=self.check,
            operand_check=self.operand_check,
            notes=tuple(self.notes),
            operand_limits=tuple(self.operand_limits),
            sequence_limits=tuple(self.sequence_limits),
            syntax=f"{opcode.group()}{''.join(map(str, modifiers))} {operands}".rstrip(),
        )
        self._verify(form)
        return form

    def _slot(self, name: str) -> ModifierSlot:
        limit = self.limits.get(name, Alternative(name))
        members = self.sets.get(name, self.shared.get(name))
        if members is None:
            return ModifierSlot(name, (limit,))
        return ModifierSlot(
            name, tuple(Alternative(m.text, m.since or limit.since, m.on or limit.on) for m in members)
        )

    def _modifiers(self, text: str) -> tuple[ModifierGroup, ...]:
        groups: list[ModifierGroup] = []
        position = 0
        while position < len(text):
            if text[position] == "{":
                end = text.index("}", position)
                names = _MODIFIER.findall(text[position + 1 : end])
                groups.append(ModifierGroup(tuple(self._slot(n[1:]) for n in names), True))
                position = end + 1
            else:
                match = _MODIFIER.match(text, position)
                if match is None:
                    raise NotationError(f"expected a modifier, got {text[position:]!r}")
                groups.append(ModifierGroup((self._slot(match.group()[1:]),), False))
                position = match.end()
        return tuple(groups)

    def _operands(self, text: str) -> tuple[OperandGroup, ...]:
        groups: list[OperandGroup] = []
        # "{, x}" is an optional operand; a comma outside all brackets separates operands.
        for piece in re.split(r"(\{\s*,[^{}]*\})", text):
            piece = piece.strip()
            optional = re.match(r"^\{\s*,(.*)\}$", piece) is not None
            inner = piece[piece.index(",") + 1 : -1] if optional else piece
            specs = tuple(self._operand(p) for p in _split_commas(inner))
            if optional:
                groups.append(OperandGroup(specs, True))
            else:
                groups += [OperandGroup((spec,), False) for spec in specs]
        return tuple(groups)

    def _operand(self, text: str) -> OperandSpec:
        if text.startswith("["):
            base, *inner = map(self._plain, _split_commas(text[1:-1]))
            # A vector at the end is the coordinates; a scalar at the end is an offset, a part of the address.
            coordinates = inner.pop() if inner and (inner[-1].count or inner[-1].cases) else None
            return OperandSpec(
                base.name,
                "a",
                base.types,
                space=base.space,
                kinds=base.kinds,
                coordinates=coordinates,
                extra=tuple(inner),
            )
        return self._plain(text)

    def _plain(self, text: str) -> OperandSpec:
        match = _OPERAND.match(text.strip())
        if match is None:
            raise NotationError(f"expected an operand such as '=d: .type', got {text!r}")
        access = {"": "r", "=": "w", "+": "rw"}[match["access"]]
        kinds: set[str] = set()
        space = ""
        values: range | tuple[int, ...] | None = None
        for flag in match["flags"].split():
            if flag in _KIND_FLAGS:
                kinds.add(flag)
            elif bounds := re.match(r"^(-?\d+)\.\.(-?\d+)(?:/(\d+))?$", flag):
                values = range(int(bounds[1]), int(bounds[2]) + 1, int(bounds[3] or 1))
            elif re.match(r"^-?\d+(\|-?\d+)+$", flag):
                values = tuple(map(int, flag.split("|")))
            else:
                space = flag
        if not kinds or (match["types"] and not kinds - _BESIDE):
            kinds |= {"reg"} if access != "r" else {"reg", "imm"}
        if match["bang"]:
            kinds.add("neg")
        if match["pair"]:
            # "d|p" is always a pair, "d{|p}" may be one.
            kinds = {"pair"} if match["pair"][0] == "|" else kinds | {"pair"}
        types = tuple((match["types"] or "").split("|")) if match["types"] else ()
        cases = None
        if types == ("by",):
            cases, types = self.cases.get(match["name"]), ()
            if cases is None:
                raise NotationError(
                    f"operand {match['name']} is given as 'by', but there is no clause '{match['name']} by'"
                )
        return OperandSpec(
            match["name"],
            access,
            types,
            bool(match["wider"]),
            match["count"],
            frozenset(kinds),
            values,
            space,
            cases=cases,
        )

    def _verify(self, form: Form) -> None:
        names = [slot.name for slot in form.slots()]
        for name in self.sets:
            if name not in names:
                raise NotationError(f"set .{name} is defined, but the syntax does not use it")
        texts = {a.text for slot in form.slots() for a in slot.alternatives}
        parts = [part for spec in form.specs() for part in spec.parts()]
        operands = {part.name for part in parts}
        for name, cases in self.cases.items():
            if not any(part.cases is cases for part in parts):
                raise NotationError(f"'{name} by' is defined, but no operand {name} is given as 'by'")
            for place, slot in enumerate(cases.slots):
                known_texts = {a.text for s in form.slots() if s.name == slot for a in s.alternatives}
                for key in cases.rows:
                    if key[place] is not None and key[place] not in known_texts:
                        raise NotationError(f"'{name} by': .{key[place]} is not a member of .{slot}")
        for relation in form.relations:
            for side in (relation.left, relation.right):
                known = side[1:] in names or side[1:] in texts if side[0] == "." else side in operands
                if not known:
                    raise NotationError(f"relation: {side!r} is not a modifier or operand of the form")
        for limit in form.sequence_limits:
            if unknown := set(limit.text.split(".")) - texts:
                raise NotationError(
                    f"clause for .{limit.text}: .{min(unknown)} is not a modifier of the form"
                )
        for limit in form.operand_limits:
            if limit.text.partition(".")[0] not in operands:
                raise NotationError(f"clause for {limit.text!r}: not an operand of the form")
        for spec in parts:
            if spec.space.startswith(".") and spec.space[1:] not in names:
                raise NotationError(f"operand {spec.name}: space {spec.space} is not a slot of the form")
            rows = spec.cases.rows.values() if spec.cases is not None else ()
            leads = [case.lead for case in rows if case.lead]
            for expression in (*spec.types, *leads, *(t for case in rows for t in case.types)):
                slot_name = re.search(r"\.(\w+)", expression)
                if slot_name is None and expression not in (*TYPES, "addr"):
                    raise NotationError(f"operand {spec.name}: unknown type {expression!r}")
                if slot_name is not None and slot_name[1] not in names:
                    raise NotationError(f"operand {spec.name}: type {expression} is not a slot of the form")


def _alternative(text: str) -> Alternative:
    match = re.match(r"^\.([\w:.\-]+)(?:\s+since\s+(\d+\.\d+))?(?:\s+on\s+(.+))?$", text)
    if match is None:
        raise NotationError(f"expected '.modifier since VERSION on TARGETS', got {text!r}")
    return Alternative(
        match[1],
        parse_version(match[2]) if match[2] else None,
        TargetSet.parse(match[3]) if match[3] else None,
    )


def _members(text: str) -> tuple[Alternative, ...]:
    """Read the members of a set."""
    items = filter(None, map(str.strip, text.split(",")))
    return tuple(_alternative(member) for item in items for member in _each_number(item))


def _each_number(item: str) -> Iterator[str]:
    """Yield the members that ``.m64n[8..24/8]k16`` stands for; yield any other item unchanged."""
    match = _NUMBERS.search(item)
    if match is None:
        yield item
        return
    for number in range(int(match[1]), int(match[2]) + 1, int(match[3] or 1)):
        yield f"{item[: match.start()]}{number}{item[match.end() :]}"


def _read_cases(slots: tuple[str, ...], text: str) -> Cases:
    rows: dict[tuple[str | None, ...], Case] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        match = _CASE.match(item)
        parts = _KEY.findall(match["key"]) if match else []
        if match is None or "".join(parts) != match["key"] or len(parts) != len(slots):
            raise NotationError(f"expected a case for .{'.'.join(slots)}, got {item!r}")
        case = Case(tuple(match["types"].split("|")), match["count"], match["lead"] or "")
        for key in itertools.product(*(part.split("|") for part in parts)):
            modifiers = tuple(None if part == "-" else part[1:] for part in key)
            if modifiers in rows:
                raise NotationError(f"{item!r}: there is already a case for these modifiers")
            rows[modifiers] = case
    return Cases(slots, rows)


def _split_commas(text: str) -> list[str]:
    pieces: list[str] = []
    depth = 0
    current = ""
    for character in text:
        if character == "," and depth == 0:
            pieces.append(current)
            current = ""
            continue
        depth += character in "[{("
        depth -= character in "]})"
        current += character
    pieces.append(current)
    return [p.strip() for p in pieces if p.strip()]
