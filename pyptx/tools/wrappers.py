"""Finds the DSL functions that emit an instruction, and the instructions that a DSL function emits.

Instructions are identified by their form: an entry of the instruction table, such as ``ld.global``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from ..dsl import ptx, reg, smem
from ..dsl.records import recorded_forms

__all__ = ["functions", "functions_of", "recorded", "wrappers_of"]


def functions_of(owner: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield ``(name, function)`` for the public functions of ``owner``, also in its nested objects.

    ``owner`` is a module or an object of the DSL that a user calls ``name``. Each yielded name is what a user
    writes, such as ``ptx.mbarrier.arrive``.
    """
    for key in getattr(owner, "__all__", None) or [k for k in vars(type(owner)) if not k.startswith("_")]:
        value = getattr(owner, key)
        if inspect.isfunction(value) or (callable(value) and not inspect.isclass(value)):
            yield f"{name}.{key}", value
        if isinstance(value, ModuleType) or type(value).__module__ == getattr(owner, "__name__", ""):
            yield from functions_of(value, f"{name}.{key}")


@cache
def functions() -> dict[str, Any]:
    """Return a map from the name that a user calls, such as ``ptx.bar.sync``, to the DSL function."""
    roots = (("ptx", ptx), ("reg", reg), ("smem", smem))
    return {name: function for root, owner in roots for name, function in functions_of(owner, root)}


@cache
def recorded() -> dict[str, tuple[str, ...]]:
    """Return the name of each DSL function -> the instruction forms (table entries) that it emits."""
    return {name: forms for name, function in functions().items() if (forms := recorded_forms(function))}


@cache
def _by_form() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, forms in recorded().items():
        for form in forms:
            found.setdefault(form, []).append(name)
    return {form: tuple(names) for form, names in found.items()}


def wrappers_of(form_id: str) -> tuple[str, ...]:
    """Return the names of the DSL functions that emit an instruction of the form ``form_id``."""
    return _by_form().get(form_id, ())
