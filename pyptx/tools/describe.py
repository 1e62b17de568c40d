"""Describes an instruction form (one entry of the instruction table) as text, for ``pyptx isa`` and docs.

Owns :class:`FormText` and the code that turns versions, targets, modifier sets, operands and rules into text.
The printing modules decide the layout; only this module reads a :class:`~pyptx.isa.Form` to describe it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module

from ..core.records import dataclass
from ..dsl.inst import attribute_name
from ..isa import Form, Match, TargetSet, Version, variants
from ..isa.notation import PARTS, Alternative, Case, OperandGroup, OperandSpec
from ..isa.operands import operand_choices
from ..isa.table import chapter_of, check_of, operand_check_of
from .fidelity import fidelity_of
from .wrappers import wrappers_of

__all__ = [
    "FormText",
    "Member",
    "ModifierText",
    "OperandText",
    "Survey",
    "call_text",
    "chapter_title",
    "describe_form",
    "manual_link",
    "needs",
    "operand_name",
    "survey",
]

#: Address of the PTX ISA; the table's ``see`` clauses are anchors in it.
_MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"
_ANY_VERSION: Version = (1, 0)
_ANY_TARGET = TargetSet(("sm_75+",))

_ACCESS = {"r": "read", "w": "written", "rw": "read and written", "a": "address"}
_KINDS = {
    "reg": "register",
    "pair": "pair",
    "imm": "immediate",
    "special": "special register",
    "symbol": "variable",
    "label": "label",
    "arguments": "list in parentheses",
    "sink": "_",
    "neg": "negated predicate",
    "minus": "negated register",
    "unified": ".unified",
    **dict.fromkeys(PARTS, "part of a register"),
}
_RELATIONS = {"requires": "needs", "iff": "if and only if", "excludes": "excludes"}
_NOTES = {
    "note": "",
    "MEASURED": "Measured: ",
    "STRICTER": "Stricter than ptxas: ",
    "NOT REGISTERED": "Not registered: ",
}


@dataclass(frozen=True)
class Member:
    """One modifier that may stand at a modifier position, such as ``.rn``.

    ``needs`` names the PTX version and targets that this modifier needs beyond those of its instruction form;
    empty if there are none.
    """

    text: str
    python: str
    needs: str

    def __str__(self) -> str:
        return f".{self.text} ({self.needs})" if self.needs else f".{self.text}"


@dataclass(frozen=True)
class ModifierText:
    """One modifier position of an instruction, and the modifiers that may stand there.

    ``together`` names the modifiers that are present if and only if this one is.
    """

    name: str
    optional: bool
    together: tuple[str, ...]
    literal: bool
    members: tuple[Member, ...]

    @property
    def presence(self) -> str:
        return _presence(self.optional, self.together)


@dataclass(frozen=True)
class OperandText:
    """The description of one operand of an instruction form.

    ``what`` names the allowed kinds of operands, ``type`` the type and vector length, and ``inside`` the
    parts of an address in brackets. ``cases`` lists types that depend on modifiers, each with the modifiers
    that choose the type.
    """

    name: str
    access: str
    optional: bool
    together: tuple[str, ...]
    what: str
    type: str
    values: str
    needs: tuple[str, ...]
    inside: tuple[OperandText, ...]
    cases: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def presence(self) -> str:
        return _presence(self.optional, self.together)

    @property
    def depending(self) -> tuple[OperandText, ...]:
        """This operand and the parts in its brackets, but only those whose type depends on modifiers."""
        return tuple(part for part in (self, *self.inside) if part.cases)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks beyond :attr:`access`, :attr:`what` and :attr:`type`: presence, values, parts, needs."""
        inside = tuple(f"{part.name}: {part.what}, {part.type}" for part in self.inside)
        return tuple(filter(None, (self.presence, self.values, *inside, *self.needs)))


@dataclass(frozen=True)
class FormText:
    """All facts of the instruction table about one instruction form, as text.

    ``on`` describes the targets that have the instruction, and ``targets`` names each of them.
    """

    id: str
    chapter: str
    opcode: str
    summary: str
    syntax: str
    since: str
    on: str
    targets: tuple[str, ...]
    modifiers: tuple[ModifierText, ...]
    operands: tuple[OperandText, ...]
    rules: tuple[str, ...]
    notes: tuple[str, ...]
    fidelity: str
    wrappers: tuple[str, ...]
    anchor: str

    @property
    def needs(self) -> str:
        return f"{f'PTX {self.since}' if self.since else 'any PTX version'}; {self.on}"

    @property
    def manual(self) -> str:
        """The URL of the section of the PTX ISA that describes the instruction."""
        return manual_link(self.anchor)


@dataclass(frozen=True)
class Survey:
    """Summary of the spellings of one instruction form that have certain modifiers.

    Attributes:
        count: number of these spellings.
        shortest: the first of the shortest spellings, or None.
        beginning: the first of the shortest spellings that begin with these modifiers, or None.
    """

    count: int
    shortest: Match | None
    beginning: Match | None


def manual_link(anchor: str) -> str:
    """Return the URL of a section of the PTX ISA, or "" for an empty anchor."""
    return _MANUAL + anchor if anchor else ""


@cache
def survey(form: Form, words: tuple[str, ...] = ()) -> Survey:
    """Count the spellings of ``form`` whose modifiers contain ``words`` in this order; find the shortest."""
    count, shortest, beginning = 0, None, None
    if not {a.text for slot in form.slots() for a in slot.alternatives}.issuperset(words):
        return Survey(0, None, None)
    for match in variants(form):
        rest = iter(match.spelling)
        if all(word in rest for word in words):
            count += 1
            if shortest is None or len(match.spelling) < len(shortest.spelling):
                shortest = match
            begins = match.spelling[: len(words)] == words
            if begins and (beginning is None or len(match.spelling) < len(beginning.spelling)):
                beginning = match
    return Survey(count, shortest, beginning)


def needs(since: Version | None, on: Iterable[TargetSet | None]) -> str:
    """Return the given PTX version and targets as text, such as ``PTX 8.6; sm_90+``; "" if all are allowed.

    A target must be in every set of ``on``.
    """
    sets = {terms for terms in on if terms is not None and terms != _ANY_TARGET}
    words = []
    if since is not None and since != _ANY_VERSION:
        words.append(f"PTX {_version(since)}")
    if len(sets) == 1:
        words.append(_targets(next(iter(sets))))
    elif sets:
        first, *others = sets
        words.append(", ".join(t.name for t in first.members() if all(t in other for other in others)))
    return "; ".join(words)


def _version(version: Version) -> str:
    return "{}.{}".format(*version)


def _targets(on: TargetSet) -> str:
    return "all targets" if on == _ANY_TARGET else ", ".join(on.terms)


def _presence(optional: bool, together: tuple[str, ...]) -> str:
    return f"optional{f', with {_list(together)}' if together else ''}" if optional else ""


def _list(words: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


# --- modifiers ----------------------------------------------------------------------------------


def _modifiers(form: Form) -> Iterable[ModifierText]:
    for group in form.modifiers:
        for slot, name in zip(group.slots, group.written(), strict=True):
            members = tuple(
                Member(a.text, attribute_name(a.text), needs(a.since, [a.on])) for a in slot.alternatives
            )
            others = tuple(f".{other.name}" for other in group.slots if other is not slot)
            literal = len(members) == 1 and f".{members[0].text}" == name
            yield ModifierText(name, group.optional, others, literal, members)


# --- operands -----------------------------------------------------------------------------------


def operand_name(form: Form, spec: OperandSpec) -> str:
    """Return an operand's name as the syntax line shows it: ``d``, ``d|p`` or ``d{|p}``."""
    if "pair" in spec.kinds:
        second = re.search(rf"(?<![\w\-]){re.escape(spec.name)}(\|[\w\-]+|\{{\|[\w\-]+\}})", form.syntax)
        if second is not None:
            return spec.name + second[1]
    return spec.name


def _operands(form: Form) -> Iterable[OperandText]:
    for group in form.operands:
        for spec in group.specs:
            yield _operand(form, spec, group)


def _operand(form: Form, spec: OperandSpec, group: OperandGroup | None) -> OperandText:
    others = tuple(other.name for other in group.specs if other is not spec) if group is not None else ()
    _, *parts = spec.parts()
    return OperandText(
        name=operand_name(form, spec),
        access=_ACCESS[spec.access],
        optional=group is not None and group.optional,
        together=others,
        what=_place(form, spec) if spec.access == "a" else _list(_kinds(spec), "or"),
        type=_type(spec),
        values=_values(spec.values),
        needs=tuple(_operand_limits(form, spec.name)),
        inside=tuple(_operand(form, part, None) for part in parts),
        cases=_cases(spec),
    )


def _kinds(spec: OperandSpec) -> list[str]:
    # For a label or a variable, the space says what it names: a function, or the targets of a branch.
    named = dict.fromkeys(("symbol", "label"), spec.space.replace("_", " ")) if spec.space else {}
    return list(dict.fromkeys((_KINDS | named)[kind] for kind in _KINDS if kind in spec.kinds))


def _place(form: Form, spec: OperandSpec) -> str:
    suffix = ", .unified may follow" if "unified" in spec.kinds else ""
    if not spec.space.startswith("."):
        return f"{spec.space or 'generic'} memory{suffix}"
    for group in form.modifiers:
        for slot, name in zip(group.slots, group.written(), strict=True):
            if spec.space[1:] == slot.name:
                return f"memory of {name}{', generic without it' if group.optional else ''}{suffix}"
    raise AssertionError(
        f"{form.id}: operand {spec.name} names the modifier {spec.space}, which the form does not have"
    )


def _type(spec: OperandSpec) -> str:
    if spec.cases is not None:
        return f"by {''.join(f'.{slot}' for slot in spec.cases.slots)}"
    if spec.access == "a":
        return ""
    return _case(spec.case({}), spec.wider)


def _case(case: Case, wider: bool = False) -> str:
    words = [re.sub(r"wide\((.*)\)", r"twice \1", expression) for expression in case.types]
    text = _list(words, "or") + (" (or wider)" if wider else "")
    if case.lead:
        text = f"{case.lead} then {text}"
    return f"{text} x {case.count}" if case.count else text


def _cases(spec: OperandSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if spec.cases is None:
        return ()
    grouped: dict[str, list[str]] = {}
    for key, case in spec.cases.rows.items():
        grouped.setdefault(_case(case, spec.wider), []).append(
            "".join(f".{w}" for w in key if w) or "without"
        )
    return tuple((text, tuple(keys)) for text, keys in grouped.items())


def _values(values: range | tuple[int, ...] | None) -> str:
    if values is None:
        return ""
    if isinstance(values, tuple):
        return f"immediate: {', '.join(map(str, values))}"
    if len(values) == 1:
        return f"immediate: {values[0]}"
    return f"immediate: {values[0]} to {values[-1]}" + (f" by {values.step}" if values.step != 1 else "")


def _operand_limits(form: Form, name: str) -> Iterable[str]:
    for limit in form.operand_limits:
        operand, _, what = limit.text.partition(".")
        if operand == name:
            yield f"{what}: {_limit(limit)}" if what else _limit(limit)


def _limit(limit: Alternative) -> str:
    return needs(limit.since, [limit.on])


# --- the form -----------------------------------------------------------------------------------


def _syntax(form: Form) -> str:
    """Return the syntax line of an instruction form in the manual's notation, with operand names only."""
    words = form.opcode + "".join(map(str, form.modifiers))
    operands = ""
    for operand_group in form.operands:
        names = ", ".join(_written(form, spec) for spec in operand_group.specs)
        if operand_group.optional:
            operands += f"{{, {names}}}" if operands else f"{{{names}}}"
        else:
            operands += f", {names}" if operands else names
    return f"{words} {operands}".rstrip() + ";"


def _written(form: Form, spec: OperandSpec) -> str:
    if spec.access == "a":
        return f"[{', '.join(part.name for part in spec.parts())}]"
    return ("{!}" if "neg" in spec.kinds else "") + operand_name(form, spec)


def _rules(form: Form) -> Iterable[str]:
    for relation in form.relations:
        yield f"{relation.left} {_RELATIONS[relation.kind]} {relation.right}"
    for check, name in ((check_of(form.id), form.check), (operand_check_of(form.id), form.operand_check)):
        if check is not None:
            yield " ".join((check.__doc__ or f"{name.replace('_', ' ')}.").split())


def _note(note: str) -> str:
    for word, lead in _NOTES.items():
        if note.startswith(word):
            return lead + note[len(word) :].strip()
    return note


@cache
def chapter_title(chapter: str) -> str:
    """Return the subject of one chapter of the instruction table, as one line of text."""
    doc = import_module(f"..isa.forms.{chapter}", __package__).__doc__ or chapter
    return doc.strip().splitlines()[0]


@cache
def describe_form(form: Form) -> FormText:
    """Return the description of the instruction form ``form`` as text."""
    return FormText(
        id=form.id,
        chapter=chapter_of(form.id),
        opcode=form.opcode,
        summary=form.summary,
        syntax=_syntax(form),
        since="" if form.since == _ANY_VERSION else _version(form.since),
        on=_targets(form.on),
        targets=tuple(target.name for target in form.on.members()),
        modifiers=tuple(_modifiers(form)),
        operands=tuple(_operands(form)),
        rules=tuple(_rules(form)),
        notes=tuple(map(_note, form.notes)),
        fidelity=fidelity_of(form.id),
        wrappers=wrappers_of(form.id),
        anchor=form.anchor,
    )


# --- the call in Python -------------------------------------------------------------------------


#: Kinds of operands that have a value in Python.
_IN_PYTHON = frozenset({"reg", "imm", "sink", "special", "label", "pair", "neg"})


def call_text(match: Match) -> str:
    """Return the Python call that emits the instruction ``match`` with its required operands.

    An example is ``ptx.inst.ld.global_.u32(d, ptx.addr(a))``. The text is empty if Python cannot write one of
    the operands yet.
    """
    specs = min(operand_choices(match), key=len)
    if any(spec.extra if spec.access == "a" else not spec.kinds & _IN_PYTHON for spec in specs):
        return ""
    words = "".join(map(_python_word, (match.form.opcode, *match.spelling)))
    return f"ptx.inst{words}({', '.join(_argument(match, spec) for spec in specs)})"


def _python_word(word: str) -> str:
    """Spell a modifier in Python: as an attribute, or in brackets if it is no identifier (``.sp::2:4``)."""
    name = attribute_name(word)
    return f".{name}" if name.isidentifier() else f'["{word}"]'


def _argument(match: Match, spec: OperandSpec) -> str:
    name = spec.name.replace("-", "_")
    if spec.access == "a":
        coordinates = f", coord={_argument(match, spec.coordinates)}" if spec.coordinates is not None else ""
        return f"ptx.addr({name}{coordinates})"
    length = spec.length(match.chosen)
    if length is not None:
        few = length <= 4
        name = (
            f"[{', '.join(f'{name}{i}' for i in (range(length) if few else (0, 1)))}{'' if few else ', ...'}]"
        )
    if "pair" in spec.kinds and "reg" not in spec.kinds:
        return f"ptx.pair({name}, {operand_name(match.form, spec).partition('|')[2]})"
    return f'"{name}"' if "label" in spec.kinds else name
