"""What the target has and no case covers, each with a reason; and what is wrong with kernel cases.

Coverage is counted by form and types: ``atom`` with ``.u32`` and with ``.f32`` are two. The types that a kernel case covers
are read from its text. ``reasons.txt`` says why some have no case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from pyptx.isa import Match, check_module, required_version
from pyptx.isa.table import all_forms
from pyptx.toolchain import check_text

from .case import KernelCase
from .collect import kernel_cases, kernel_chapters, value_cases, value_chapters
from .values import NEWEST, available, since

__all__ = ["Key", "check", "covered", "excused", "faults", "missing", "missing_report", "needed", "reasons"]

_REASONS = Path(__file__).with_name("reasons.txt")
_TYPE = re.compile(r"(?:pred|[busf]\d+|bf16|tf32|u?e\dm\d)(?:x\d+)?")
#: A line of the reasons that stands for every form of which each variant needs a later version than the driver takes.
_NEWER = "(newer)"

#: A form, and the types among its modifiers.
Key = tuple[str, tuple[str, ...]]


def key_of(match: Match) -> Key:
    return match.form.id, tuple(word for word in match.spelling if _TYPE.fullmatch(word))


@cache
def needed() -> dict[Key, bool]:
    """Every form and types that the target has; True where the driver of the recordings takes a text with it."""
    found: dict[Key, bool] = {}
    for form in all_forms():
        for match in available(form):
            key = key_of(match)
            found[key] = found.get(key, False) or since(match) <= NEWEST
    return found


@cache
def covered() -> frozenset[Key]:
    """What some case covers."""
    found = {key_of(case.match) for chapter in value_chapters() for case in value_cases(chapter)}
    for chapter in kernel_chapters():
        for case in kernel_cases(chapter):
            # What takes long has forms that others have too, and more of them.
            if case.long:
                continue
            found |= {key_of(b.match) for b in case.bindings() if b.match.form.id in case.covers}
    return frozenset(found)


def missing() -> list[Key]:
    """What no case covers, whatever the reason."""
    return [key for key in needed() if key not in covered()]


@cache
def reasons() -> dict[str, str]:
    """Lines of the file of reasons, each with the reason above it: ``form``, ``form: types``, with ``*`` in a form."""
    found: dict[str, str] = {}
    reason = ""
    for line in _REASONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            reason = line[2:]
        elif line and not line.startswith("#"):
            assert reason, f"{line!r} stands below no reason"
            assert line not in found, f"{line!r} has two reasons"
            found[line] = reason
    return found


def excused(key: Key) -> str | None:
    """The line of the reasons that explains why something has no case, or None."""
    form, types = key
    for line in reasons():
        name, colon, wanted = line.partition(":")
        if line == _NEWER:
            if not needed()[key]:
                return line
        elif fnmatchcase(form, name) and (not colon or tuple(wanted.replace(".", " ").split()) == types):
            return line
    return None


def missing_report() -> int:
    """Print what has no case, by reason; 1 if something has none."""
    by_reason: dict[str, list[Key]] = {}
    for key in missing():
        line = excused(key)
        by_reason.setdefault(reasons()[line] if line is not None else "", []).append(key)
    unexplained = by_reason.pop("", [])
    for reason, keys in by_reason.items():
        forms = dict.fromkeys(form for form, _ in keys)
        print(f"{len(keys)} of {len(forms)} forms: {reason}\n    {', '.join(forms)}")
    if unexplained:
        print("WITHOUT A REASON:")
        for form, types in unexplained:
            print(f"    {form}: {' '.join('.' + t for t in types)}")
    with_case = len(needed()) - sum(map(len, by_reason.values())) - len(unexplained)
    print(
        f"{with_case} of {len(needed())} forms and types have a case, {len(unexplained)} have neither case nor reason"
    )
    return 1 if unexplained else 0


def faults(case: KernelCase, assemble: bool = False) -> Iterator[str]:
    """What is wrong with a kernel case, without a GPU; ``assemble``: ptxas is asked as well."""
    yield from map(str, check_module(case.module))
    if required_version(case.module) > NEWEST:
        yield f"needs PTX {required_version(case.module)}; the driver of the recordings takes {NEWEST}"
    used = {binding.match.form.id for binding in case.bindings()}
    yield from (f"covers {form}, which does not occur" for form in case.covers if form not in used)
    if not case.covers:
        yield "covers nothing"
    if assemble:
        yield from map(str, check_text(case.text).errors)


def check(chapters: list[str]) -> int:
    """Print the faults of the kernel cases of these files (all if there are none); 1 if there are any."""
    count = wrong = 0
    for chapter in chapters or kernel_chapters():
        for case in kernel_cases(chapter):
            count += 1
            found = list(faults(case, assemble=True))
            wrong += bool(found)
            for fault in found:
                print(f"{chapter}: {case.name}: {fault}")
    print(f"{count - wrong} of {count} kernel cases are in order")
    return 1 if wrong else 0
