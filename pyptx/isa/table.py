"""The instruction table: finds forms by opcode and modifiers.

Owns the index of chapters, the matching of a modifier sequence with forms, the relations and
``check`` functions, and the messages that name the nearest legal spelling.  Entries are read on first
use, so that importing pyptx does not read the whole instruction set.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache, partial
from importlib import import_module
from types import ModuleType

from ..core.errors import InstructionError
from ..core.records import dataclass
from ..ir import Operand
from .index import rows_of
from .index.encoding import Encoded, Row, Texts, decoded, entry_of, modifiers_of
from .notation import (
    Alternative,
    Chosen,
    Form,
    ModifierGroup,
    ModifierSlot,
    NotationError,
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

#: Chapters of the table, one module each under isa/forms, and the opcodes of each: the forms of an opcode are
#: found without the other chapters.
CHAPTERS: dict[str, tuple[str, ...]] = {
    "integer": (
        "add",
        "sub",
        "mul",
        "mad",
        "div",
        "rem",
        "min",
        "max",
        "neg",
        "abs",
        "clmad",
        "mul24",
        "mad24",
        "sad",
        "popc",
        "clz",
        "bfind",
        "fns",
        "brev",
        "bfe",
        "bfi",
        "szext",
        "bmsk",
        "dp4a",
        "dp2a",
    ),
    "extended": ("add", "addc", "sub", "subc", "mad", "madc"),
    "floating": ("add", "sub", "mul", "fma", "div", "neg", "abs", "mad", "min", "max", "testp", "copysign"),
    "transcendental": ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"),
    "half": ("add", "sub", "mul", "fma", "neg", "abs", "min", "max"),
    "logic": ("and", "or", "xor", "not", "shl", "shr", "cnot", "lop3", "shf", "prmt"),
    "comparison": ("setp", "selp", "set", "slct"),
    "data_movement": ("mov", "ld", "ldu", "st", "cvta"),
    "conversion": ("cvt",),
    "video": (
        "vadd",
        "vsub",
        "vabsdiff",
        "vmin",
        "vmax",
        "vshl",
        "vshr",
        "vmad",
        "vset",
        "vadd2",
        "vsub2",
        "vavrg2",
        "vabsdiff2",
        "vmin2",
        "vmax2",
        "vset2",
        "vadd4",
        "vsub4",
        "vavrg4",
        "vabsdiff4",
        "vmin4",
        "vmax4",
        "vset4",
    ),
    "control": ("bra", "brx", "call", "ret", "exit", "trap"),
    "synchronization": ("bar", "barrier", "fence", "membar"),
    "warp": ("elect", "shfl", "vote", "match", "activemask", "redux"),
    "mbarrier": ("mbarrier",),
    "bulk_copy": ("cp",),
    "tensor_copy": ("cp", "applypriority"),
    "multimem": ("multimem",),
    "matrix": ("ldmatrix", "stmatrix", "movmatrix"),
    "mma": ("mma",),
    "wmma": ("wmma",),
    "wgmma": ("wgmma",),
    "tcgen05": ("tcgen05",),
    "tcgen05_mma": ("tcgen05",),
    "atomics": ("atom", "red"),
    "cache": ("prefetch", "prefetchu", "applypriority", "discard", "createpolicy"),
    "cluster": ("barrier", "mapa", "getctarank", "isspacep"),
    "async_copy": ("cp",),
    "tensormap": ("tensormap",),
    "fabric": ("fabric",),
    "sparse": ("spcompress", "spdecompress"),
    "texture": ("tex", "tld4", "txq", "istypep"),
    "surface": ("suld", "sust", "sured", "suq"),
    "misc": (
        "nanosleep",
        "pmevent",
        "brkpt",
        "griddepcontrol",
        "clusterlaunchcontrol",
        "setmaxnreg",
        "stacksave",
        "stackrestore",
        "alloca",
    ),
}

#: Largest number of variants of one form that the search for a suggestion reads.
_SUGGESTION_LIMIT = 5000

Check = Callable[[Chosen], "str | None"]
OperandCheck = Callable[[Mapping[str, Operand]], "str | None"]


@dataclass(frozen=True, eq=False)
class Match:
    """A form of the table, with the modifiers chosen for one instruction.

    Attributes:
        form: the form.
        chosen: the modifier in each slot that is present.
        spelling: the modifiers in canonical order.
        alternatives: the chosen modifiers with their own version and target limits.
    """

    form: Form
    chosen: dict[str, str]
    spelling: tuple[str, ...]
    alternatives: tuple[Alternative, ...]

    @cached_property
    def name(self) -> str:
        """Opcode and modifiers with dots, as in PTX text."""
        return ".".join((self.form.opcode, *self.spelling))


def _chapter(name: str) -> ModuleType:
    return import_module(f"{__package__}.forms.{name}")


@cache
def _rows(chapter: str) -> dict[str, Row]:
    """Return the rows of a chapter by id, in table order."""
    rows = rows_of(chapter)
    if (has := tuple(dict.fromkeys([opcode for _, opcode, _, _ in rows.values()]))) != CHAPTERS[chapter]:
        raise NotationError(f"chapter {chapter} has the opcodes {has}, and CHAPTERS says {CHAPTERS[chapter]}")
    return rows


@cache
def _chapters_of(opcode: str) -> tuple[str, ...]:
    return tuple(chapter for chapter, opcodes in CHAPTERS.items() if opcode in opcodes)


@cache
def chapter_of(identifier: str) -> str:
    """Return the name of the chapter that has the form with this id. Raises KeyError if there is none."""
    for chapter in (*_chapters_of(identifier.partition(".")[0]), *CHAPTERS):
        if identifier in _rows(chapter):
            return chapter
    raise KeyError(identifier)


@cache
def _fixed(opcode: str) -> dict[str, frozenset[str]]:
    """Return the modifiers that each instruction of a form has, by the ids of an opcode's forms, in order."""
    return {
        identifier: frozenset(fixed.split())
        for chapter in _chapters_of(opcode)
        for identifier, named, fixed, _ in _rows(chapter).values()
        if named == opcode
    }


@cache
def _encoded(identifier: str) -> Encoded:
    return entry_of(_rows(chapter_of(identifier))[identifier])


@cache
def _slots(identifier: str) -> tuple[Texts, Texts]:
    """Return the modifiers that may stand in each slot that is always there, and in each other slot."""
    return modifiers_of(_encoded(identifier))


@cache
def form(identifier: str) -> Form:
    """Return the form with this id. Raises KeyError if there is none."""
    return decoded(_encoded(identifier))


@cache
def check_of(identifier: str) -> Check | None:
    """Return the function that checks the form's modifiers, or None if the form has none."""
    entry = form(identifier)
    if not entry.check:
        return None
    function: Check = getattr(_chapter(chapter_of(identifier)), entry.check)
    return function


@cache
def operand_check_of(identifier: str) -> OperandCheck | None:
    """Return the function that checks the form's operands, given by name, or None if the form has none."""
    entry = form(identifier)
    if not entry.operand_check:
        return None
    function: OperandCheck = getattr(_chapter(chapter_of(identifier)), entry.operand_check)
    return function


def opcodes() -> list[str]:
    """Return every opcode of the table, sorted."""
    return sorted({opcode for opcodes in CHAPTERS.values() for opcode in opcodes})


@cache
def forms_of(opcode: str) -> tuple[Form, ...]:
    """Return the forms of ``opcode``, in table order; empty if there are none."""
    return tuple(map(form, _fixed(opcode)))


def all_forms() -> Iterator[Form]:
    """Yield every form of the table, in table order. Raises NotationError if two have the same id."""
    known: dict[str, str] = {}
    for chapter in CHAPTERS:
        for identifier in _rows(chapter):
            if identifier in known:
                raise NotationError(
                    f"there are two entries [{identifier}], in {known[identifier]} and in {chapter}"
                )
            known[identifier] = chapter
            yield form(identifier)


# --- matching -----------------------------------------------------------------------------------


def _walk(
    groups: tuple[ModifierGroup, ...], modifiers: tuple[str, ...], at: int = 0
) -> Iterator[tuple[list[tuple[ModifierSlot, Alternative]], int]]:
    """Yield each way to match the modifiers from index ``at`` on: slots with their modifiers, and the end."""
    if not groups:
        yield [], at
        return
    head, rest = groups[0], groups[1:]
    picks: list[tuple[ModifierSlot, Alternative]] = []
    position = at
    for slot in head.slots:
        alternative = slot.find(modifiers[position]) if position < len(modifiers) else None
        if alternative is None:
            break
        picks.append((slot, alternative))
        position += 1
    else:
        for tail, end in _walk(rest, modifiers, position):
            yield picks + tail, end
    if head.optional:
        yield from _walk(rest, modifiers, at)


def _relation_error(entry: Form, chosen: Chosen, spelling: tuple[str, ...]) -> str | None:
    """Return a message if the modifiers ``chosen`` break a relation between modifiers, or None.

    Relations with operands are checked when the operands are known.
    """

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
            return _RELATION_TEXTS[relation.kind].format(relation.left, relation.right)
    return None


#: What a broken relation between two modifiers or slots says.
_RELATION_TEXTS = {
    "requires": "{0} requires {1}",
    "iff": "{0} and {1} must be given together",
    "excludes": "{0} and {1} exclude each other",
}


def _case_error(entry: Form, chosen: Chosen) -> str | None:
    """Return a message if the modifiers ``chosen`` leave a required operand without legal types, or None."""
    for group in entry.operands:
        part = None if group.optional else group.without_case(chosen)
        if part is not None and part.cases is not None:
            return part.cases.reason(chosen)
    return None


def _verdict(
    entry: Form, picks: list[tuple[ModifierSlot, Alternative]], modifiers: tuple[str, ...]
) -> Match | str:
    """Return the match of the form with these modifiers, or a message that says which rule they break."""
    chosen = {slot.name: alternative.text for slot, alternative in picks}
    error = _relation_error(entry, chosen, modifiers) or _case_error(entry, chosen)
    check = check_of(entry.id)
    if error is None and check is not None:
        error = check(chosen)
    if error is not None:
        return error
    spelled_out = f".{'.'.join(modifiers)}."
    together = (limit for limit in entry.sequence_limits if f".{limit.text}." in spelled_out)
    return Match(entry, chosen, modifiers, (*(a for _, a in picks), *together))


def _try(entry: Form, modifiers: tuple[str, ...]) -> Match | str | None:
    """Return the form's match, a message that says which rule the modifiers break, or None if none match."""
    for picks, end in _walk(entry.modifiers, modifiers):
        if end == len(modifiers):
            return _verdict(entry, picks, modifiers)
    return None


def variants(entry: Form) -> Iterator[Match]:
    """Yield every legal choice of a form's modifiers: each alternative, with and without optional groups."""

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


def _possible(opcode: str, modifiers: tuple[str, ...]) -> Iterator[Form]:
    """Yield the forms of an opcode that may have these modifiers, in any order; others are not even decoded.

    To decode a form costs ten times more than a look at its modifiers.
    """
    for identifier, fixed in _fixed(opcode).items():
        if fixed.issubset(modifiers):
            always, others = _slots(identifier)
            legal: frozenset[str] = frozenset().union(*always, *others)
            if legal.issuperset(modifiers) and not any(slot.isdisjoint(modifiers) for slot in always):
                yield form(identifier)


@lru_cache(maxsize=65536)
def spelled(opcode: str, modifiers: tuple[str, ...]) -> tuple[Match, ...]:
    """Return the forms that have these modifiers in this order; empty if there are none."""
    return tuple(
        m for entry in _possible(opcode, modifiers) if isinstance(m := _try(entry, modifiers), Match)
    )


@lru_cache(maxsize=65536)
def orders(opcode: str, modifiers: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the legal orders of these modifiers, which may be given in any order.

    Compilers write ``atom.global.sys.add``, and ptxas takes most orders.
    """
    found: dict[tuple[str, ...], None] = {}
    fixed = _positional(modifiers)
    for entry in _possible(opcode, modifiers):
        if _vocabulary(entry).issuperset(modifiers):
            for spelling in _arrangements(entry.modifiers, modifiers):
                if _positional(spelling) != fixed:
                    continue
                if spelling not in found and isinstance(_try(entry, spelling), Match):
                    found[spelling] = None
                    break
    return tuple(found)


#: Kinds of modifiers whose order has a meaning, as each belongs to another operand: types, layouts, spaces.
_IN_TURN = tuple(
    partial(re.compile, pattern)
    for pattern in (
        r"(?:[busf]|bf|tf|u?e\dm)\d+(?:x\d+)?",
        "row|col",
        r"(?:global|shared|local|const|param)(?:::\w+)?",
    )
)


def _positional(modifiers: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return, for each kind in :data:`_IN_TURN`, the modifiers of the kind in the given order."""
    return tuple(tuple(filter(kind().fullmatch, modifiers)) for kind in _IN_TURN)


@cache
def _vocabulary(entry: Form) -> frozenset[str]:
    """Return every modifier that the form can have."""
    return frozenset(a.text for slot in entry.slots() for a in slot.alternatives)


def _arrangements(groups: tuple[ModifierGroup, ...], modifiers: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield each order of ``modifiers`` that ``groups``, an instruction form's modifiers, allow."""
    if not groups:
        if not modifiers:
            yield ()
        return
    head, rest = groups[0], groups[1:]
    for picks, left in _picks(head, modifiers):
        for tail in _arrangements(rest, left):
            yield picks + tail
    if head.optional:
        yield from _arrangements(rest, modifiers)


def _picks(group: ModifierGroup, modifiers: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return each way to fill the group from ``modifiers``: the modifiers used, and those left over."""
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), modifiers)]
    for slot in group.slots:
        found = [
            ((*taken, modifier), left[:i] + left[i + 1 :])
            for taken, left in found
            for i, modifier in enumerate(left)
            if slot.find(modifier) is not None and modifier not in left[:i]
        ]
    return found


@lru_cache(maxsize=65536)
def match_modifiers(opcode: str, modifiers: tuple[str, ...]) -> tuple[Match, ...]:
    """Return the forms that have these modifiers in this order; several if only operands distinguish them.

    Raises :class:`InstructionError`, which names the nearest legal spelling, if there is none.
    """
    if not _chapters_of(opcode):
        longer = [known for known in opcodes() if known.startswith(opcode)]
        near = list(dict.fromkeys(longer[:2] + difflib.get_close_matches(opcode, opcodes(), 3, 0.5)))[:3]
        raise InstructionError(
            f"unknown instruction {opcode!r}",
            hint=f"did you mean {' or '.join(near)}?" if near else "`pyptx isa` lists the instructions",
        )
    found = spelled(opcode, modifiers)
    if found:
        return found
    entries = forms_of(opcode)
    outcomes = [(entry, _try(entry, modifiers)) for entry in entries]
    given = ".".join((opcode, *modifiers))
    for entry, outcome in outcomes:
        if isinstance(outcome, str):
            raise InstructionError(
                f"{given} is not legal: {outcome}", reason=outcome, hint=entry.syntax, see=entry.anchor
            )
    entry, near_spelling, reason = _nearest(entries, modifiers)
    raise InstructionError(
        f"{given}: {reason}",
        reason=reason,
        hint=f"nearest legal spelling: {'.'.join((opcode, *near_spelling))}   (form: {entry.syntax})",
        see=entry.anchor,
    )


def _nearest(entries: tuple[Form, ...], modifiers: tuple[str, ...]) -> tuple[Form, tuple[str, ...], str]:
    """Return the form nearest to ``modifiers``, its nearest legal spelling, and a message about the fault."""
    best: tuple[float, Form, tuple[str, ...]] | None = None
    for entry in entries:
        spelling = _closest_spelling(entry, modifiers)
        score = difflib.SequenceMatcher(a=modifiers, b=spelling, autojunk=False).ratio()
        # Forms that match equally many modifiers are ranked by the text, for misspellings such as ".paritty".
        score += (
            0.5 * difflib.SequenceMatcher(a=".".join(modifiers), b=".".join(spelling), autojunk=False).ratio()
        )
        if best is None or score > best[0]:
            best = (score, entry, spelling)
    assert best is not None
    _, entry, spelling = best
    legal = {a.text for slot in entry.slots() for a in slot.alternatives}
    unknown = [w for w in modifiers if w not in legal]
    missing = [w for w in spelling if w not in modifiers]
    if unknown:
        close = [difflib.get_close_matches(w, sorted(legal), 1, 0.4) for w in unknown]
        tips = [
            f".{w}" + (f" (did you mean .{c[0]}?)" if c else "") for w, c in zip(unknown, close, strict=True)
        ]
        return entry, spelling, f"unknown modifier {', '.join(tips)}"
    if missing:
        return entry, spelling, f"missing modifier {', '.join('.' + w for w in missing)}"
    if sorted(modifiers) == sorted(spelling):
        return entry, spelling, "modifiers are in the wrong order"
    return entry, spelling, "no form has this combination of modifiers"


def _closest_spelling(entry: Form, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the legal spelling of the form that is nearest to ``modifiers``."""
    remaining = list(modifiers)
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
    # The modifiers chosen one by one break a rule: take the legal spelling that shares the most modifiers.
    legal = itertools.islice(variants(entry), _SUGGESTION_LIMIT)
    return max((m.spelling for m in legal), key=lambda m: len(set(m) & set(modifiers)) - 0.1 * len(m))


def _closest_alternative(slot: ModifierSlot, modifiers: list[str]) -> str | None:
    """Return the modifier of this slot that equals or resembles one of ``modifiers``, or None."""
    texts = [a.text for a in slot.alternatives]
    for modifier in modifiers:
        if modifier in texts:
            return modifier
    for modifier in modifiers:
        if close := difflib.get_close_matches(modifier, texts, 1, 0.6):
            return close[0]
    return None
