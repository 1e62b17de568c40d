"""The instruction table: every form, found by opcode and modifiers.

Owns the index of chapters, the matching of a modifier sequence against forms, the relations and
``check`` functions, and the messages that name the nearest legal spelling.  Entries are read on first
use, so that importing pyptx does not read the whole instruction set.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType

from ..core.errors import InstructionError
from ..ir import Operand
from .notation import (
    Alternative,
    Chosen,
    Form,
    ModifierGroup,
    ModifierSlot,
    NotationError,
    read_form,
    read_sets,
    split_entries,
)

__all__ = [
    "Match",
    "all_forms",
    "chapter_of",
    "form",
    "forms_of",
    "match_modifiers",
    "opcodes",
    "operand_check_of",
    "orders",
    "spelled",
    "variants",
]

#: Chapters of the manual, one module each under isa/forms.
CHAPTERS = (
    "integer",
    "extended",
    "floating",
    "transcendental",
    "half",
    "logic",
    "comparison",
    "data_movement",
    "conversion",
    "video",
    "control",
    "synchronization",
    "warp",
    "mbarrier",
    "bulk_copy",
    "tensor_copy",
    "multimem",
    "matrix",
    "mma",
    "wmma",
    "wgmma",
    "tcgen05",
    "tcgen05_mma",
    "atomics",
    "cache",
    "cluster",
    "async_copy",
    "tensormap",
    "fabric",
    "sparse",
    "texture",
    "surface",
    "misc",
)

#: How many variants of one form a suggestion looks at.
_SUGGESTION_LIMIT = 5000

Check = Callable[[Chosen], "str | None"]
OperandCheck = Callable[[Mapping[str, Operand]], "str | None"]


@dataclass(frozen=True, eq=False)
class Match:
    """A form with one choice of modifiers. ``spelling`` is the canonical modifier sequence."""

    form: Form
    chosen: dict[str, str]
    spelling: tuple[str, ...]
    alternatives: tuple[Alternative, ...]

    @property
    def name(self) -> str:
        return ".".join((self.form.opcode, *self.spelling))


def _chapter(name: str) -> ModuleType:
    return import_module(f"{__package__}.forms.{name}")


@cache
def _sets(chapter: str) -> dict[str, tuple[Alternative, ...]]:
    """The sets that a chapter defines for all of its entries."""
    return read_sets(_chapter(chapter).TEXT)


@cache
def _entries() -> dict[str, tuple[str, str]]:
    """id -> (chapter, text) of every entry, unread."""
    found: dict[str, tuple[str, str]] = {}
    for chapter in CHAPTERS:
        for identifier, text in split_entries(_chapter(chapter).TEXT).items():
            if identifier in found:
                raise NotationError(f"[{identifier}] stands in {found[identifier][0]} and in {chapter}")
            found[identifier] = (chapter, text)
    return found


@cache
def _by_opcode() -> dict[str, list[str]]:
    index: dict[str, list[str]] = {}
    for identifier, (_, text) in _entries().items():
        head = text.split("\n", 2)[1].strip()
        word = head
        for stop in ".{ ;":
            word = word.partition(stop)[0]
        index.setdefault(word, []).append(identifier)
    return index


@cache
def form(identifier: str) -> Form:
    """The form called ``identifier``. Raises KeyError."""
    chapter, text = _entries()[identifier]
    return read_form(text, _sets(chapter))


def chapter_of(identifier: str) -> str:
    """The chapter that holds a form. Raises KeyError."""
    return _entries()[identifier][0]


@cache
def check_of(identifier: str) -> Check | None:
    """The pure check of a form, or None."""
    entry = form(identifier)
    if not entry.check:
        return None
    function: Check = getattr(_chapter(_entries()[identifier][0]), entry.check)
    return function


@cache
def operand_check_of(identifier: str) -> OperandCheck | None:
    """The pure check of a form's operands, by their names, or None."""
    entry = form(identifier)
    if not entry.operand_check:
        return None
    function: OperandCheck = getattr(_chapter(_entries()[identifier][0]), entry.operand_check)
    return function


def opcodes() -> list[str]:
    """Every first word."""
    return sorted(_by_opcode())


@cache
def forms_of(opcode: str) -> tuple[Form, ...]:
    """Forms that begin with ``opcode``, in table order; empty if there are none."""
    return tuple(form(i) for i in _by_opcode().get(opcode, ()))


def all_forms() -> Iterator[Form]:
    for identifier in _entries():
        yield form(identifier)


# --- matching -----------------------------------------------------------------------------------


def _walk(
    groups: tuple[ModifierGroup, ...], words: tuple[str, ...], at: int = 0
) -> Iterator[tuple[list[tuple[ModifierSlot, Alternative]], int]]:
    """Every way to match a prefix of ``words``; yields the picks and how many words were taken."""
    if not groups:
        yield [], at
        return
    head, rest = groups[0], groups[1:]
    picks: list[tuple[ModifierSlot, Alternative]] = []
    position = at
    for slot in head.slots:
        alternative = slot.find(words[position]) if position < len(words) else None
        if alternative is None:
            break
        picks.append((slot, alternative))
        position += 1
    else:
        for tail, end in _walk(rest, words, position):
            yield picks + tail, end
    if head.optional:
        yield from _walk(rest, words, at)


def _relation_error(entry: Form, chosen: Chosen, spelling: tuple[str, ...]) -> str | None:
    """A relation among modifiers that ``chosen`` breaks (those with operands wait for the operands)."""

    def present(side: str) -> bool | None:
        if side[0] != ".":
            return None
        return side[1:] in chosen or side[1:] in spelling

    for relation in entry.relations:
        left, right = present(relation.left), present(relation.right)
        if left is None or right is None:
            continue
        wrong = (
            (relation.kind == "requires" and left and not right)
            or (relation.kind == "iff" and left != right)
            or (relation.kind == "excludes" and left and right)
        )
        if wrong:
            return f"{relation.left} {relation.kind} {relation.right}"
    return None


def _case_error(entry: Form, chosen: Chosen) -> str | None:
    """Why an operand that must be there has no case for ``chosen``."""
    for group in entry.operands:
        part = None if group.optional else group.without_case(chosen)
        if part is not None and part.cases is not None:
            return part.cases.reason(chosen)
    return None


def _verdict(
    entry: Form, picks: list[tuple[ModifierSlot, Alternative]], words: tuple[str, ...]
) -> Match | str:
    """The match of these picks, or the text of the rule that they break."""
    chosen = {slot.name: alternative.text for slot, alternative in picks}
    error = _relation_error(entry, chosen, words) or _case_error(entry, chosen)
    check = check_of(entry.id)
    if error is None and check is not None:
        error = check(chosen)
    if error is not None:
        return error
    spelled_out = f".{'.'.join(words)}."
    together = (limit for limit in entry.sequence_limits if f".{limit.text}." in spelled_out)
    return Match(entry, chosen, words, (*(a for _, a in picks), *together))


def _try(entry: Form, words: tuple[str, ...]) -> Match | str | None:
    """A match, the text of the rule that it breaks, or None if the words do not fit."""
    for picks, end in _walk(entry.modifiers, words):
        if end == len(words):
            return _verdict(entry, picks, words)
    return None


def variants(entry: Form) -> Iterator[Match]:
    """Every legal choice of modifiers of a form: each alternative, each optional group in and out."""

    def choices(group: ModifierGroup) -> Iterator[list[tuple[ModifierSlot, Alternative]]]:
        if group.optional:
            yield []
        for picks in itertools.product(*(slot.alternatives for slot in group.slots)):
            yield list(zip(group.slots, picks, strict=True))

    for combination in itertools.product(*(list(choices(group)) for group in entry.modifiers)):
        picks = [pick for group in combination for pick in group]
        outcome = _verdict(entry, picks, tuple(alternative.text for _, alternative in picks))
        if isinstance(outcome, Match):
            yield outcome


@lru_cache(maxsize=65536)
def spelled(opcode: str, modifiers: tuple[str, ...]) -> tuple[Match, ...]:
    """Forms that these words spell; empty if there are none."""
    return tuple(m for entry in forms_of(opcode) if isinstance(m := _try(entry, modifiers), Match))


@lru_cache(maxsize=65536)
def orders(opcode: str, words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The legal spellings that have exactly these modifiers, in whatever order they are given.

    Compilers write ``atom.global.sys.add``, and ptxas takes most orders.
    """
    found: dict[tuple[str, ...], None] = {}
    fixed = _positional(words)
    for entry in forms_of(opcode):
        if _vocabulary(entry).issuperset(words):
            for spelling in _arrangements(entry.modifiers, words):
                if _positional(spelling) != fixed:
                    continue
                if spelling not in found and isinstance(_try(entry, spelling), Match):
                    found[spelling] = None
                    break
    return tuple(found)


#: Words that mean something by their turn among their kind: types, layouts, state spaces of several operands.
_IN_TURN = tuple(
    re.compile(pattern).fullmatch
    for pattern in (
        r"(?:[busf]|bf|tf|u?e\dm)\d+(?:x\d+)?",
        "row|col",
        r"(?:global|shared|local|const|param)(?:::\w+)?",
    )
)


def _positional(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The modifiers, kind by kind, whose order among themselves is the operands'."""
    return tuple(tuple(filter(kind, words)) for kind in _IN_TURN)


@cache
def _vocabulary(entry: Form) -> frozenset[str]:
    return frozenset(a.text for slot in entry.slots() for a in slot.alternatives)


def _arrangements(groups: tuple[ModifierGroup, ...], words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Ways to use each of ``words`` once; between equals, the first given comes first."""
    if not groups:
        if not words:
            yield ()
        return
    head, rest = groups[0], groups[1:]
    for picks, left in _picks(head, words):
        for tail in _arrangements(rest, left):
            yield picks + tail
    if head.optional:
        yield from _arrangements(rest, words)


def _picks(group: ModifierGroup, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Ways to fill a group: the words taken, and those left."""
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), words)]
    for slot in group.slots:
        found = [
            ((*taken, word), left[:i] + left[i + 1 :])
            for taken, left in found
            for i, word in enumerate(left)
            if slot.find(word) is not None and word not in left[:i]
        ]
    return found


@lru_cache(maxsize=65536)
def match_modifiers(opcode: str, modifiers: tuple[str, ...]) -> tuple[Match, ...]:
    """Forms that these words spell (several where only operands tell them apart).

    Raises :class:`InstructionError` naming the nearest legal spelling.
    """
    entries = forms_of(opcode)
    if not entries:
        longer = [known for known in opcodes() if known.startswith(opcode)]
        near = list(dict.fromkeys(longer[:2] + difflib.get_close_matches(opcode, opcodes(), 3, 0.5)))[:3]
        raise InstructionError(
            f"unknown instruction {opcode!r}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else "see docs/notation.md for what the table has",
        )
    found = spelled(opcode, modifiers)
    if found:
        return found
    outcomes = [(entry, _try(entry, modifiers)) for entry in entries]
    given = ".".join((opcode, *modifiers))
    for entry, outcome in outcomes:
        if isinstance(outcome, str):
            raise InstructionError(f"{given} is not legal: {outcome}", hint=entry.syntax, see=entry.anchor)
    entry, near_words, reason = _nearest(entries, modifiers)
    raise InstructionError(
        f"{given}: {reason}",
        hint=f"nearest legal spelling: {'.'.join((opcode, *near_words))}   (form: {entry.syntax})",
        see=entry.anchor,
    )


def _nearest(entries: tuple[Form, ...], words: tuple[str, ...]) -> tuple[Form, tuple[str, ...], str]:
    """The form nearest to ``words``, a legal spelling of it close to them, and what is wrong."""
    best: tuple[float, Form, tuple[str, ...]] | None = None
    for entry in entries:
        spelling = _closest_spelling(entry, words)
        score = difflib.SequenceMatcher(a=words, b=spelling, autojunk=False).ratio()
        # Between equals, words that are merely misspelled decide (".paritty").
        score += (
            0.5 * difflib.SequenceMatcher(a=".".join(words), b=".".join(spelling), autojunk=False).ratio()
        )
        if best is None or score > best[0]:
            best = (score, entry, spelling)
    assert best is not None
    _, entry, spelling = best
    legal = {a.text for slot in entry.slots() for a in slot.alternatives}
    unknown = [w for w in words if w not in legal]
    missing = [w for w in spelling if w not in words]
    if unknown:
        close = [difflib.get_close_matches(w, sorted(legal), 1, 0.4) for w in unknown]
        tips = [
            f".{w}" + (f" (did you mean .{c[0]}?)" if c else "") for w, c in zip(unknown, close, strict=True)
        ]
        return entry, spelling, f"unknown modifier {', '.join(tips)}"
    if missing:
        return entry, spelling, f"missing modifier {', '.join('.' + w for w in missing)}"
    if sorted(words) == sorted(spelling):
        return entry, spelling, "modifiers are in the wrong order"
    return entry, spelling, "no form has this combination of modifiers"


def _closest_spelling(entry: Form, words: tuple[str, ...]) -> tuple[str, ...]:
    remaining = list(words)
    spelling: list[str] = []
    for group in entry.modifiers:
        picks = [_closest_alternative(slot, remaining) for slot in group.slots]
        if group.optional and any(p is None for p in picks):
            continue
        for slot, pick in zip(group.slots, picks, strict=True):
            text = pick if pick is not None else slot.alternatives[0].text
            if text in remaining:
                remaining.remove(text)
            spelling.append(text)
    if isinstance(_try(entry, tuple(spelling)), Match):
        return tuple(spelling)
    # The closest word by word breaks a rule of the form: take the legal one that shares most words.
    legal = itertools.islice(variants(entry), _SUGGESTION_LIMIT)
    return max((m.spelling for m in legal), key=lambda m: len(set(m) & set(words)) - 0.1 * len(m))


def _closest_alternative(slot: ModifierSlot, words: list[str]) -> str | None:
    texts = [a.text for a in slot.alternatives]
    for word in words:
        if word in texts:
            return word
    for word in words:
        if close := difflib.get_close_matches(word, texts, 1, 0.6):
            return close[0]
    return None
