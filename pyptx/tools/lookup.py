"""Finds the instruction forms (entries of the instruction table) that a name on the command line means.

The name may be an opcode, a spelling (complete or its beginning, as the manual or as Python writes it), a
form's id, a chapter, a function of the DSL, a name of CUDA C++, or a misspelling. Owns :func:`look_up`, and
:func:`narrowed`, which leaves out the modifiers that a target lacks.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..core.errors import InstructionError
from ..core.records import dataclass
from ..dsl.inst import modifier_of
from ..isa import Form, Match, Target, all_forms, forms_of, match_modifiers, opcodes
from ..isa.notation import ModifierGroup
from ..isa.table import CHAPTERS, chapter_of
from .cuda_names import CudaName, cuda_name, cuda_names_with
from .describe import needs, survey
from .wrappers import functions, recorded

__all__ = ["About", "Found", "Legality", "has_modifiers", "look_up", "narrowed", "search_forms"]


@dataclass(frozen=True)
class Legality:
    """The verdict on a spelling with modifiers. ``legal`` is None for the beginning of a legal spelling.

    For a legal spelling, ``needs`` is the version and targets that it needs. Otherwise ``why`` says what is
    wrong or missing, and ``hint`` what to do.
    """

    spelling: str
    legal: bool | None
    needs: str = ""
    why: str = ""
    hint: str = ""


@dataclass(frozen=True)
class About:
    """A name that is not an instruction but leads to instructions.

    Attributes:
        name: the full name.
        kind: what the name stands for, such as ``CUDA C++``.
        summary: a description; may be empty.
    """

    name: str
    kind: str
    summary: str


@dataclass(frozen=True)
class Found:
    """The meaning of a name.

    Attributes:
        forms: the forms that the name means.
        words: the modifiers in the name.
        verdict: whether the name is legal, if it is a spelling.
        near: similar names, if there are no forms.
        about: a description of the name, if it is not an instruction.
    """

    forms: tuple[Form, ...]
    words: tuple[str, ...] = ()
    verdict: Legality | None = None
    near: tuple[str, ...] = ()
    about: About | None = None


def look_up(name: str, target: Target | None = None) -> Found:
    """Return the meaning of ``name`` on ``target`` (None: on any target).

    A name can mean an instruction, a DSL function, or a name of CUDA C++.
    """
    name = name.strip().removeprefix("ptx.inst.").rstrip(";")
    called = _function(name, target)
    if called is not None and name in functions():
        return called
    found = _instruction(name.removeprefix("ptx."), target)
    if found.forms:
        return found
    if called is not None:
        return called
    cuda = cuda_name(name)
    return found if cuda is None else _of_cuda(cuda, target)


def _function(name: str, target: Target | None) -> Found | None:
    """Find a function of the DSL by its name, with or without ``ptx.``."""
    full = next((word for word in (name, f"ptx.{name}") if word in functions()), None)
    if full is None:
        return None
    ids = recorded().get(full, ())
    forms = tuple(form for form in _on(all_forms(), target) if form.id in ids)
    text, _, _ = (inspect.getdoc(functions()[full]) or "").partition("\n\n")
    summary = " ".join(text.replace("``", "`").split())
    return Found(forms, about=About(full, "function of the DSL", summary))


def _of_cuda(cuda: CudaName, target: Target | None) -> Found:
    forms = _forms_of_cuda(cuda, target)
    words = tuple(cuda.spellings[0].split(".")[1:]) if len(cuda.spellings) == 1 else ()
    what = f"becomes {', '.join(cuda.spellings)}" if cuda.spellings else ""
    return Found(forms, words, about=About(cuda.name, "CUDA C++", "; ".join(filter(None, (what, cuda.note)))))


def _forms_of_cuda(cuda: CudaName, target: Target | None) -> tuple[Form, ...]:
    """Return the instruction forms that compilers use for the CUDA C++ name ``cuda``."""
    found: dict[str, Form] = {}
    for spelling in cuda.spellings:
        opcode, *words = spelling.split(".")
        for form in _on(forms_of(opcode), target):
            if has_modifiers(form, words):
                found.setdefault(form.id, form)
    return tuple(found.values())


def has_modifiers(form: Form, words: Sequence[str]) -> bool:
    """True if the instruction form ``form`` has all ``words`` as modifiers, in this order.

    The function does not check whether these modifiers may be combined.
    """
    remaining = list(words)
    for slot in form.slots():
        if remaining and slot.find(remaining[0]) is not None:
            remaining.pop(0)
    return not remaining


def _instruction(name: str, target: Target | None) -> Found:
    forms = tuple(_on(all_forms(), target))
    chapter = name.lower().replace(" ", "_").replace("-", "_")
    opcode, *words = (modifier_of(word) if word else word for word in name.split("."))
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
        fitting = [form for form in forms if survey(form, words).count]
        if fitting:
            # Forms whose spelling begins with these words come before forms with other modifiers between
            # them.
            fitting.sort(key=lambda form: survey(form, words).beginning is None)
            return Found(tuple(fitting), words, _beginning(spelling, words, fitting))
        verdict = Legality(spelling, False, "", error.reason, error.hint)
        return Found((), words, verdict, tuple(word for word in _near(spelling) if word != opcode))
    kept = {form.id: form for form in forms}
    here = [match for match in matches if target is None or _has(match, target)]
    if not here:
        missing = Legality(
            spelling, False, "", f"it does not exist on {target}", f"it needs {_wanted(matches)}"
        )
        return Found(tuple(match.form for match in matches), words, missing)
    found = tuple(kept[match.form.id] for match in here)
    return Found(found, words, Legality(spelling, True, _wanted(here)))


def _beginning(spelling: str, words: tuple[str, ...], fitting: Sequence[Form]) -> Legality:
    """Return the :class:`Legality` of an incomplete spelling: which modifiers are missing, and an example.

    ``fitting`` are the instruction forms that can complete the spelling.
    """
    plain = [form for form in fitting if form.id == spelling]
    surveys = [survey(form, words) for form in plain or fitting]
    ways = [s.beginning for s in surveys if s.beginning] or [s.shortest for s in surveys if s.shortest]
    example = min(ways, key=lambda match: len(match.name))
    rest = list(words)
    missing = []
    for word in example.spelling:
        if rest and word == rest[0]:
            rest.pop(0)
        else:
            missing.append(f".{word}")
    return Legality(spelling, None, "", f"missing {' '.join(missing)}, for example", example.name)


def _has(match: Match, target: Target) -> bool:
    return target in match.form.on and all(a.on is None or target in a.on for a in match.alternatives)


def _wanted(matches: Iterable[Match]) -> str:
    """Return text that names the PTX versions and targets that ``matches`` need, each once."""
    texts = [
        needs(
            max([match.form.since, *(a.since for a in match.alternatives if a.since is not None)]),
            [match.form.on, *(a.on for a in match.alternatives)],
        )
        for match in matches
    ]
    return "; or ".join(dict.fromkeys(text or "any PTX version and target" for text in texts))


def _near(name: str) -> tuple[str, ...]:
    """Return opcodes, form identifiers and chapters whose names are similar to ``name``."""
    known = dict.fromkeys([*opcodes(), *(form.id for form in all_forms()), *CHAPTERS])
    longer = [word for word in known if word.startswith(name)]
    return tuple(dict.fromkeys([*longer[:3], *difflib.get_close_matches(name, known, 5, 0.6)]))


def search_forms(text: str, target: Target | None = None) -> tuple[Form, ...]:
    """Return the instruction forms that match ``text``.

    First come the forms whose id, summary, syntax or chapter contains every word, then the forms of CUDA C++
    names that contain the text.
    """
    words = text.lower().split()
    found = []
    for form in _on(all_forms(), target):
        content = f"{form.id} {form.summary} {form.syntax} {chapter_of(form.id)}".lower()
        if all(word in content for word in words):
            found.append(form)
    exact = cuda_name(text)
    named = cuda_names_with(text) if exact is None else [exact]
    found += [form for cuda in named for form in _forms_of_cuda(cuda, target)]
    return tuple({form.id: form for form in found}.values())


# --- one target ---------------------------------------------------------------------------------


def _on(forms: Iterable[Form], target: Target | None) -> Iterator[Form]:
    for form in forms:
        kept = form if target is None else narrowed(form, target)
        if kept is not None:
            yield kept


def narrowed(form: Form, target: Target) -> Form | None:
    """Return ``form`` with only the modifiers that ``target`` has.

    Returns None if the target does not have the instruction at all.
    """
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
