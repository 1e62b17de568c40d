"""Reads clauses of the instruction table: those of one entry, and those that a chapter or family shares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import field
from functools import cache
from typing import TypeVar

from ..core.records import dataclass
from .notation import Alternative, Case, Cases, NotationError, Relation
from .targets import TargetSet, Version, parse_version

__all__ = ["NUMBERS", "Clauses", "read_clauses", "read_head", "split_clauses"]

_Value = TypeVar("_Value")

_SET = re.compile(r"^(\.[\w]+(?:::[\w]+)*)\s*=\s*\{(.*)\}$", re.DOTALL)
_CASES = re.compile(r"^([\w\-]+)\s+by\s+((?:\.\w+)+)\s*=\s*\{(.*)\}$", re.DOTALL)
_CASE = re.compile(
    r"^(?P<key>\S+)\s+(?:(?P<lead>[.\w]+)\s+then\s+)?"
    r"(?P<types>[.\w()]+(?:\|[.\w()]+)*)(?:\s+x\s+(?P<count>[.\w*/\-]+))?$"
)
#: Numbers inside a member of a set: ``.m64n[8..256/8]k16``.
#: Modifiers that are counted up, as in ``.m64n[8..24/8]k16``.
NUMBERS = re.compile(r"\[(\d+)\.\.(\d+)(?:/(\d+))?\]")
#: The part of a case's key for one slot: ``.f16``, ``.f16|.bf16``, or ``-`` for an absent slot.
_KEY = re.compile(r"(?:\.\w+(?:::(?:\d+:\d+|\w+))*|-)(?:\|(?:\.\w+(?:::(?:\d+:\d+|\w+))*|-))*")
_RELATION = re.compile(r"^(\.?[\w:\-]+)\s+(requires|iff|excludes)\s+(\.?[\w:\-]+)$")
_OPERAND_LIMIT = re.compile(r"^(?!since )[\w\-]+(\.(_|pair|unified))? (since|on) ")
#: First words of the clauses that are notes.
_NOTES = ("note ", "MEASURED ", "STRICTER ", "NOT REGISTERED ")


@dataclass
class Clauses:
    """The clauses of one table entry, or those that all entries of a chapter or an instruction family share.

    Attributes:
        sets: modifier sets, by name.
        cases: types and lengths of operands as functions of modifiers, by operand.
        relations: the relations, in their order.
        limits: version and targets of a literal modifier or of a set's members, by name.
        sequence_limits: the same for modifiers that occur side by side.
        operand_limits: the same for operands.
        since: first PTX version, or None if there is no such clause.
        on: targets, or None.
        anchor: the section of the PTX ISA, or empty.
        check: name of the check of the modifiers, or empty.
        operand_check: name of the check of the operands, or empty.
        notes: the notes, with their first word.
    """

    sets: dict[str, tuple[Alternative, ...]] = field(default_factory=dict)
    cases: dict[str, Cases] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    limits: dict[str, Alternative] = field(default_factory=dict)
    sequence_limits: list[Alternative] = field(default_factory=list)
    operand_limits: list[Alternative] = field(default_factory=list)
    since: Version | None = None
    on: TargetSet | None = None
    anchor: str = ""
    check: str = ""
    operand_check: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def has_limit(self) -> bool:
        """True if there is a version or a set of targets for the whole form."""
        return self.since is not None or self.on is not None

    def read(self, clause: str) -> None:
        """Read one clause and add it to these. Raises :class:`NotationError` for a line that is no clause."""
        if match := _SET.match(clause):
            _add(self.sets, match[1][1:], _members(match[2]), clause)
        elif match := _CASES.match(clause):
            _add(self.cases, match[1], _cases(tuple(match[2][1:].split(".")), match[3]), clause)
        elif match := _RELATION.match(clause):
            self.relations.append(Relation(match[1], match[2], match[3]))
        elif clause.startswith("."):
            limit = _alternative(clause)
            if "." in limit.text:
                self.sequence_limits.append(limit)
            else:
                self.limits[limit.text] = limit
        elif _OPERAND_LIMIT.match(clause):
            self.operand_limits.append(_alternative("." + clause))
        elif clause.startswith(_NOTES):
            self.notes.append(clause)
        else:
            self._keyword(clause)

    def _keyword(self, clause: str) -> None:
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
        elif keyword == "check" and value.startswith("operands "):
            self.operand_check = value.removeprefix("operands ")
        elif keyword == "check":
            self.check = value
        else:
            raise NotationError(f"unknown clause {clause!r}; docs/notation.md lists the clauses")


def read_clauses(lines: str) -> Clauses:
    """Return the clauses in the text of one table entry, after its syntax line."""
    found = Clauses()
    for clause in split_clauses(lines):
        found.read(clause)
    return found


@cache
def read_head(lines: str) -> Clauses:
    """Return the clauses that a chapter or an instruction family shares with each of its entries.

    Raises:
        NotationError: a clause that cannot be shared: a limit of a modifier or an operand, or a note.
    """
    found = Clauses()
    for clause in split_clauses(lines):
        found.read(clause)
        if found.limits or found.sequence_limits or found.operand_limits or found.notes:
            raise NotationError(
                "a chapter or a family can share sets, cases, relations, since, on, see and check, "
                f"but not {clause!r}"
            )
    return found


def split_clauses(lines: str) -> list[str]:
    """Split lines into clauses, without comments. A clause that opens a brace ends where the brace closes."""
    clauses: list[str] = []
    pending = ""
    for line in lines.splitlines():
        if line.lstrip().startswith("#"):
            continue
        pending = f"{pending} {line.strip()}".strip()
        if pending.count("{") == pending.count("}") and pending:
            clauses.append(pending)
            pending = ""
    if pending:
        raise NotationError(f"a brace is not closed in {pending!r}")
    return clauses


def _add(found: dict[str, _Value], name: str, value: _Value, clause: str) -> None:
    if name in found:
        raise NotationError(f"there are two clauses for {name}; the second is {clause!r}")
    found[name] = value


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
    """Return the modifiers in the braces of a modifier set."""
    items = filter(None, map(str.strip, text.split(",")))
    return tuple(_alternative(member) for item in items for member in _each_number(item))


def _each_number(item: str) -> Iterator[str]:
    """Yield the members that ``.m64n[8..24/8]k16`` stands for; yield any other item unchanged."""
    match = NUMBERS.search(item)
    if match is None:
        yield item
        return
    for number in range(int(match[1]), int(match[2]) + 1, int(match[3] or 1)):
        yield f"{item[: match.start()]}{number}{item[match.end() :]}"


def _cases(slots: tuple[str, ...], text: str) -> Cases:
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
