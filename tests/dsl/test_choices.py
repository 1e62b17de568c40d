"""String arguments of wrappers take what the instruction table has, and nothing else."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from pyptx.dsl import choices, ptx, reg, smem
from pyptx.dsl.records import recorded_forms
from pyptx.isa import form
from pyptx.tools.choices import CHOICES, members
from pyptx.tools.wrappers import functions_of

#: Arguments that stay strings: what is legal depends on the others, and is checked with them.
DEPENDING = {
    "acc", "bit_op", "cache", "collector", "collector_a", "collector_b", "combine", "evict", "half", "kind",
    "layout", "level", "major", "mode", "multicast", "phase_type", "rounding", "scale_vec", "shape", "source",
    "space", "swizzle", "sync_restrict", "atom", "fill", "interleave", "op",
}  # fmt: skip
#: Names, text, and types that may be written as a string.
FREE = {"function", "prototype", "target", "dtype", "atype", "btype", "ctype", "stype", "name"}


def parameters(*, every: bool = False) -> Iterator[tuple[str, str, Any]]:
    """Function, parameter and annotation, of the wrappers that record one instruction, or of every function."""
    for root, owner in (("ptx", ptx), ("reg", reg), ("smem", smem)):
        for name, function in functions_of(owner, root):
            if every or recorded_forms(function):
                plain = function if inspect.isfunction(function) else type(function).__call__
                hints = typing.get_type_hints(inspect.unwrap(plain))
                yield from ((name, parameter, hint) for parameter, hint in hints.items())


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_is_the_tables(name: str) -> None:
    assert get_args(getattr(choices, name)) == members(CHOICES[name])


def test_members_are_modifiers_of_their_forms() -> None:
    for choice in CHOICES.values():
        for identifier, name in choice.sources:
            (slot,) = (slot for slot in form(identifier).slots() if slot.name == name)
            assert {a.text for a in slot.alternatives} <= {
                choice.prefix + member for member in members(choice)
            }


def test_what_is_left_a_string_is_known() -> None:
    plain = {parameter for _, parameter, hint in parameters() if str in (hint, *get_args(hint))}
    assert plain - DEPENDING == FREE & plain


def test_every_choice_is_some_wrappers() -> None:
    used = {literal for _, _, hint in parameters(every=True) for literal in (hint, *get_args(hint))}
    flat = {frozenset(get_args(literal)) for literal in used if typing.get_origin(literal) is typing.Literal}
    # A union of literals is flat: ``Literal[...] | None``.
    flat |= {
        frozenset(a for a in get_args(hint) if a is not type(None)) for _, _, hint in parameters(every=True)
    }
    for name in CHOICES:
        assert frozenset(get_args(getattr(choices, name))) in flat, name
