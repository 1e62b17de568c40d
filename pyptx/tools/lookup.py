"""What a name on the command line means in the instruction table.

An opcode, a spelling (complete or its beginning, as the manual or as Python writes it), a form's id, a
chapter, or a misspelling.  Owns :func:`look_up` and the narrowing of a form to what one target has.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..core.errors import InstructionError
from ..dsl.inst import modifier_word
from ..isa import Form, Match, Target, all_forms, forms_of, match_modifiers, opcodes
from ..isa.notation import ModifierGroup
from ..isa.table import CHAPTERS, chapter_of
from .describe import needs, survey

__all__ = ["Found", "Verdict", "look_up", "narrowed", "search_forms"]


@dataclass(frozen=True)
class Verdict:
    """Is a spelling with modifiers legal? ``legal`` is None for the beginning of a legal one.

    ``needs`` is what the legal one asks for, else ``why`` says what is wrong or missing, ``hint`` what to do.
    """

    spelling: str
    legal: bool | None
    needs: str = ""
    why: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Found:
    """The forms that a name means; ``words`` are the modifiers in it; without forms, what is ``near``."""

    forms: tuple[Form, ...]
    words: tuple[str, ...] = ()
    verdict: Verdict | None = None
    near: tuple[str, ...] = ()


def look_up(name: str, target: Target | None = None) -> Found:
    """What ``name`` means, on ``target`` or on any."""
    name = name.strip().removeprefix("ptx.inst.").rstrip(";")
    forms = tuple(_on(all_forms(), target))
    chapter = name.lower().replace(" ", "_").replace("-", "_")
    opcode, *words = (modifier_word(word) if word else word for word in name.split("."))
    if opcode in opcodes():
        by_id = tuple(form for form in forms if form.id == name)
        spelled = _spelled(opcode, tuple(words), tuple(_on(forms_of(opcode), target)), target)
        if by_id and not spelled.forms:
            return Found(by_id)
        if not by_id or not words:
            return spelled
        others = tuple(form for form in spelled.forms if form.id != name)
        return Found(by_id + others, spelled.words, spelled.verdict)
    if chapter in CHAPTERS:
        return Found(tuple(form for form in forms if chapter_of(form.id) == chapter))
    return Found((), near=_near(name))


def _spelled(opcode: str, words: tuple[str, ...], forms: tuple[Form, ...], target: Target | None) -> Found:
    spelling = ".".join((opcode, *words))
    try:
        matches = match_modifiers(opcode, words)
    except InstructionError as error:
        if not words:
            return Found(forms)
        why = error.message.removeprefix(f"{spelling}: ").removeprefix(f"{spelling} is not legal: ")
        fitting = tuple(form for form in forms if survey(form, words).count)
        if fitting:
            shortest = [match.name for form in fitting if (match := survey(form, words).shortest)]
            return Found(fitting, words, Verdict(spelling, None, "", why, min(shortest, key=len)))
        verdict = Verdict(spelling, False, "", why, error.hint)
        return Found((), words, verdict, tuple(word for word in _near(spelling) if word != opcode))
    kept = {form.id: form for form in forms}
    here = [match for match in matches if target is None or _has(match, target)]
    if not here:
        missing = Verdict(
            spelling, False, "", f"it does not exist on {target}", f"it needs {_wanted(matches)}"
        )
        return Found(tuple(match.form for match in matches), words, missing)
    found = tuple(kept[match.form.id] for match in here)
    return Found(found, words, Verdict(spelling, True, _wanted(here)))


def _has(match: Match, target: Target) -> bool:
    return target in match.form.on and all(a.on is None or target in a.on for a in match.alternatives)


def _wanted(matches: Iterable[Match]) -> str:
    """What each of ``matches`` needs, one text for those that need the same."""
    texts = [
        needs(
            max([match.form.since, *(a.since for a in match.alternatives if a.since is not None)]),
            [match.form.on, *(a.on for a in match.alternatives)],
        )
        for match in matches
    ]
    return "; or ".join(dict.fromkeys(text or "any PTX version and target" for text in texts))


def _near(name: str) -> tuple[str, ...]:
    """Opcodes, forms and chapters whose names are like ``name``."""
    known = dict.fromkeys([*opcodes(), *(form.id for form in all_forms()), *CHAPTERS])
    longer = [word for word in known if word.startswith(name)]
    return tuple(dict.fromkeys([*longer[:3], *difflib.get_close_matches(name, known, 5, 0.6)]))


def search_forms(text: str, target: Target | None = None) -> tuple[Form, ...]:
    """Forms in whose id, summary and syntax every word of ``text`` stands."""
    words = text.lower().split()
    found = []
    for form in _on(all_forms(), target):
        content = f"{form.id} {form.summary} {form.syntax} {chapter_of(form.id)}".lower()
        if all(word in content for word in words):
            found.append(form)
    return tuple(found)


# --- one target ---------------------------------------------------------------------------------


def _on(forms: Iterable[Form], target: Target | None) -> Iterator[Form]:
    for form in forms:
        kept = form if target is None else narrowed(form, target)
        if kept is not None:
            yield kept


def narrowed(form: Form, target: Target) -> Form | None:
    """``form`` with the modifiers that ``target`` has, or None if the target lacks the form."""
    if target not in form.on:
        return None
    groups: list[ModifierGroup] = []
    for group in form.modifiers:
        slots = tuple(
            replace(slot, alternatives=tuple(a for a in slot.alternatives if a.on is None or target in a.on))
            for slot in group.slots
        )
        if all(slot.alternatives for slot in slots):
            groups.append(replace(group, slots=slots))
        elif not group.optional:
            return None
    return replace(form, modifiers=tuple(groups))
