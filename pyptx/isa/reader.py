"""Reads the text of one entry into a :class:`.Form`.

Owns the grammar of headers, modifiers and operands, and checks that the parts of an entry fit together.  It
has no facts about single instructions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from ..core.types import TYPES
from .chapters import OPCODE
from .clauses import Clauses, read_clauses, read_head
from .notation import (
    PARTS,
    Alternative,
    Cases,
    Form,
    ModifierGroup,
    ModifierSlot,
    NotationError,
    OperandGroup,
    OperandSpec,
    Relation,
)
from .targets import TargetSet

__all__ = ["MODIFIER", "read_form"]

_HEADER = re.compile(r'^\[(?P<id>[\w.:\-]+)\]\s+"(?P<summary>[^"]+)"$')
#: A modifier in the syntax line of an entry.
MODIFIER = re.compile(r"\.\w+(?:::(?:\d+:\d+|\w+))*")
_OPERAND = re.compile(
    r"^(?P<access>[=+]?)(?P<bang>!?)(?P<name>[\w\-]+)(?P<pair>\|[\w\-]+|\{\|[\w\-]+\})?"
    r"(?:\s*:\s*(?P<types>(?:[.\w]+|wide\(\.\w+\))(?:\|(?:[.\w]+|wide\(\.\w+\)))*)(?P<wider>\+?))?"
    r"(?:\s+x\s+(?P<count>[.\w*/\-]+))?(?P<flags>(?:\s+[\w.:/|\-]+)*)$"
)
_KIND_FLAGS = frozenset(
    {"reg", "imm", "special", "symbol", "label", "sink", "minus", "arguments", "unified", "braces", *PARTS}
)
#: Kinds that are allowed in addition to a register (and to an immediate, if the operand is read).
_BESIDE = frozenset({"sink", "special", "symbol", "minus", "unified", "braces"})


def read_form(text: str, heads: Sequence[str] = ()) -> Form:
    """Read the text of one table entry into a form; ``heads``: the clauses of its family, then its chapter.

    Raises:
        NotationError: the entry does not follow the notation; the message names the entry and the clause.
    """
    lines = [line.rstrip() for line in text.strip().splitlines() if not line.lstrip().startswith("#")]
    header = _HEADER.match(lines[0])
    if header is None:
        raise NotationError(f'expected [id] "summary", got {lines[0]!r}')
    identifier = header["id"]
    syntax, semicolon, rest = "\n".join(lines[1:]).partition(";")
    if not semicolon:
        raise NotationError(f"[{identifier}]: the entry's syntax line does not end with ';'")
    try:
        shared = [read_head(head) for head in heads]
        return _Reader(
            identifier, header["summary"], " ".join(syntax.split()), read_clauses(rest), shared
        ).form()
    except NotationError as error:
        raise NotationError(f"[{identifier}]: {error}") from None


class _Reader:
    """Reads one table entry: the modifiers and operands of its syntax, its own and the shared clauses.

    A shared clause applies if the entry has no clause of its own for the same purpose, and if it has the
    modifiers and operands that the clause names.
    """

    def __init__(
        self, identifier: str, summary: str, syntax: str, own: Clauses, shared: Sequence[Clauses]
    ) -> None:
        self.identifier, self.summary, self.syntax = identifier, summary, syntax
        self.own = own
        #: Innermost first: the entry's own clauses, its family's, its chapter's.
        self.clauses = (own, *shared)

    @cached_property
    def opcode(self) -> str:
        """The opcode of the instruction, the first part of the entry's syntax line."""
        found = re.match(r"\w+", self.syntax)
        if found is None:
            raise NotationError(f"expected an opcode at the beginning of the syntax, got {self.syntax!r}")
        return found.group()

    @cached_property
    def modifiers(self) -> tuple[ModifierGroup, ...]:
        """The groups of modifiers in the entry's syntax line, in order."""
        return self._modifiers(self.syntax.partition(" ")[0][len(self.opcode) :])

    @cached_property
    def slots(self) -> dict[str, frozenset[str]]:
        """The modifiers that may stand at each modifier position, by the position's name."""
        found: dict[str, frozenset[str]] = {}
        for group in self.modifiers:
            for slot in group.slots:
                texts = frozenset(alternative.text for alternative in slot.alternatives)
                found[slot.name] = found.get(slot.name, frozenset()) | texts
        return found

    def form(self) -> Form:
        """Return the entry as a form. Raises :class:`NotationError` if its parts do not fit together."""
        operand_text = self.syntax.partition(" ")[2].strip()
        operands = self._operands(operand_text)
        limit = next((clauses for clauses in self.clauses if clauses.has_limit), Clauses())
        form = Form(
            id=self.identifier,
            summary=self.summary,
            opcode=self.opcode,
            modifiers=self.modifiers,
            operands=operands,
            relations=self._relations(operands),
            since=limit.since or (1, 0),
            on=limit.on or TargetSet(("sm_75+",)),
            anchor=self._first("anchor").replace(OPCODE, self.opcode),
            check=self._first("check"),
            operand_check=self._first("operand_check"),
            notes=tuple(self.own.notes),
            operand_limits=tuple(self.own.operand_limits),
            sequence_limits=tuple(self.own.sequence_limits),
            syntax=f"{self.opcode}{''.join(map(str, self.modifiers))} {operand_text}".rstrip(),
        )
        self._verify(form)
        return form

    def _first(self, name: str) -> str:
        """Return the text of clause ``name``: the entry's, else the family's, else the chapter's, else ""."""
        return next(filter(None, (getattr(clauses, name) for clauses in self.clauses)), "")

    def _relations(self, operands: tuple[OperandGroup, ...]) -> tuple[Relation, ...]:
        """Return the entry's own relations, and those shared relations of which the entry has both sides."""
        names = {part.name for group in operands for spec in group.specs for part in spec.parts()}

        def has(side: str) -> bool:
            if side[0] != ".":
                return side in names
            return side[1:] in self.slots or any(side[1:] in texts for texts in self.slots.values())

        for relation in self.own.relations:
            for side in (relation.left, relation.right):
                if not has(side):
                    raise NotationError(f"relation: {side!r} is not a modifier or operand of the form")
        shared = [
            r for clauses in self.clauses[1:] for r in clauses.relations if has(r.left) and has(r.right)
        ]
        return tuple(dict.fromkeys((*self.own.relations, *shared)))

    def _cases_of(self, name: str) -> Cases:
        """Return the operand's own cases, else those shared cases whose modifiers the entry has."""
        if name in self.own.cases:
            return self.own.cases[name]
        shared = next((clauses.cases[name] for clauses in self.clauses if name in clauses.cases), None)
        if shared is None:
            raise NotationError(f"operand {name} is given as 'by', but there is no clause '{name} by'")
        rows = {
            key: case
            for key, case in shared.rows.items()
            if all(
                text is None or text in self.slots.get(slot, ())
                for slot, text in zip(shared.slots, key, strict=True)
            )
        }
        return Cases(shared.slots, rows)

    def _slot(self, name: str) -> ModifierSlot:
        limit = self.own.limits.get(name, Alternative(name))
        members = next((clauses.sets[name] for clauses in self.clauses if name in clauses.sets), None)
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
                names = MODIFIER.findall(text[position + 1 : end])
                groups.append(ModifierGroup(tuple(self._slot(n[1:]) for n in names), True))
                position = end + 1
            else:
                match = MODIFIER.match(text, position)
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
            cases, types = self._cases_of(match["name"]), ()
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
        """Raise :class:`NotationError` if a clause of the entry names what the entry does not have."""
        for name in self.own.sets:
            if name not in self.slots:
                raise NotationError(f"set .{name} is defined, but the syntax does not use it")
        texts = frozenset().union(*self.slots.values())
        parts = [part for spec in form.specs() for part in spec.parts()]
        operands = {part.name for part in parts}
        for name, cases in self.own.cases.items():
            if not any(part.cases is cases for part in parts):
                raise NotationError(f"'{name} by' is defined, but no operand {name} is given as 'by'")
            for place, slot in enumerate(cases.slots):
                for key in cases.rows:
                    if key[place] is not None and key[place] not in self.slots.get(slot, ()):
                        raise NotationError(f"'{name} by': .{key[place]} is not a member of .{slot}")
        for limit in form.sequence_limits:
            if unknown := set(limit.text.split(".")) - texts:
                raise NotationError(
                    f"clause for .{limit.text}: .{min(unknown)} is not a modifier of the form"
                )
        for limit in form.operand_limits:
            if limit.text.partition(".")[0] not in operands:
                raise NotationError(f"clause for {limit.text!r}: not an operand of the form")
        for spec in parts:
            self._verify_types(spec)

    def _verify_types(self, spec: OperandSpec) -> None:
        if spec.space.startswith(".") and spec.space[1:] not in self.slots:
            raise NotationError(f"operand {spec.name}: space {spec.space} is not a slot of the form")
        rows = spec.cases.rows.values() if spec.cases is not None else ()
        leads = [case.lead for case in rows if case.lead]
        for expression in (*spec.types, *leads, *(t for case in rows for t in case.types)):
            slot = re.search(r"\.(\w+)", expression)
            if slot is None and expression not in (*TYPES, "addr"):
                raise NotationError(f"operand {spec.name}: unknown type {expression!r}")
            if slot is not None and slot[1] not in self.slots:
                raise NotationError(f"operand {spec.name}: type {expression} is not a slot of the form")


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
