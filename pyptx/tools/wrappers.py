"""Which functions of the DSL record a form: read from their docstrings, which say what they record.

A docstring says "Records one ``mbarrier.arrive.expect_tx``."; the forms meant are those of that opcode that
have these modifiers and the fewest further ones that must be written.  "Records one ``mma.sync...``." means
every form that has these modifiers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from ..dsl import ptx, reg, smem
from ..isa import Form, forms_of

__all__ = ["functions_of", "recorded", "wrappers_of"]

_RECORDS = re.compile(r"\bRecords one ``([\w.:]+)")
_EVERY = "..."


def functions_of(owner: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Public functions below ``owner``, by the name that an author calls them by."""
    for key in getattr(owner, "__all__", None) or [k for k in vars(type(owner)) if not k.startswith("_")]:
        value = getattr(owner, key)
        if inspect.isfunction(value) or (callable(value) and not inspect.isclass(value)):
            yield f"{name}.{key}", value
        if isinstance(value, ModuleType) or type(value).__module__ == getattr(owner, "__name__", ""):
            yield from functions_of(value, f"{name}.{key}")


@cache
def recorded() -> dict[str, str]:
    """Name of each wrapper -> the instruction that its docstring says it records."""
    found: dict[str, str] = {}
    for root, owner in (("ptx", ptx), ("reg", reg), ("smem", smem)):
        for name, function in functions_of(owner, root):
            if match := _RECORDS.search(inspect.getdoc(function) or ""):
                every = match[1].endswith(_EVERY)
                found[name] = match[1].rstrip(".") + (_EVERY if every else "")
    return found


def _further(form: Form, words: list[str]) -> int | None:
    """How many modifiers ``form`` demands beyond ``words``; None if it lacks one of them."""
    remaining = list(words)
    further = 0
    for group in form.modifiers:
        for slot in group.slots:
            if remaining and slot.find(remaining[0]) is not None:
                remaining.pop(0)
            elif not group.optional:
                further += 1
    return None if remaining else further


@cache
def _by_form() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, spelling in recorded().items():
        opcode, *words = spelling.removesuffix(_EVERY).split(".")
        fitting = {f.id: n for f in forms_of(opcode) if (n := _further(f, words)) is not None}
        for form_id, further in fitting.items():
            if spelling.endswith(_EVERY) or further == min(fitting.values()):
                found.setdefault(form_id, []).append(name)
    return {form_id: tuple(names) for form_id, names in found.items()}


def wrappers_of(form_id: str) -> tuple[str, ...]:
    """Functions of the DSL that record the form ``form_id``."""
    return _by_form().get(form_id, ())
