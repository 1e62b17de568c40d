"""Compares the declarations of functions and modules: linkage, directives, parameters, variables."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

from ...ir import Directive, Function, Param, Variable
from .model import Difference, Locate, Place

__all__ = ["declaration", "declared", "pair_parameters", "variable_differences"]


def declared(a: Function, b: Function, first: Locate, second: Locate) -> Iterable[Difference]:
    """Yield the differences in linkage, directives and parameters of two functions."""
    name = a.name
    here, there = Place(f".{a.kind} {name}"), Place(f".{b.kind} {b.name}")
    for what, x, y in (
        ("kind", a.kind, b.kind),
        ("linkage", a.linkage or "none", b.linkage or "none"),
        ("attributes", " ".join(map(str, a.attributes)), " ".join(map(str, b.attributes))),
    ):
        if x != y:
            yield Difference("linkage", f"{what} {x or 'none'} -> {y or 'none'}", name, here, there)
    yield from _directives(a, b)
    for what, x_params, y_params in (("parameter", a.params, b.params), ("result", a.returns, b.returns)):
        yield from _parameters(what, x_params, y_params, name, first, second)


def _directives(a: Function, b: Function) -> Iterable[Difference]:
    one, other = ({d.name: d for d in f.directives} for f in (a, b))
    for name in dict.fromkeys([*one, *other]):
        x, y = one.get(name), other.get(name)
        if _values(x) != _values(y):
            told = f"directive {x or 'none'} -> {y or 'none'}"
            places = [Place(str(d)) if d is not None else None for d in (x, y)]
            yield Difference("directive", told, a.name, places[0], places[1])
    strings = [[s for pragma in f.pragmas for s in pragma.strings] for f in (a, b)]
    for own, others, tag in ((strings[0], strings[1], "deleted"), (strings[1], strings[0], "inserted")):
        for text in own:
            if text not in others:
                place = Place(f'.pragma "{text}"')
                sides = (place, None) if tag == "deleted" else (None, place)
                yield Difference("directive", f'{tag}: .pragma "{text}"', a.name, *sides)


#: Directives with up to three extents; an absent extent is 1.
_EXTENTS = ("reqntid", "maxntid", "reqnctapercluster")


def _values(directive: Directive | None) -> tuple[int, ...] | None:
    if directive is None:
        return None
    if directive.name in _EXTENTS:
        return (*directive.values, 1, 1)[:3]
    return directive.values


def _shape(param: Param) -> tuple[object, ...]:
    return (param.space, param.type, param.count, param.align, param.vector, param.shape, param.pointer)


def _parameters(
    what: str, a: Sequence[Param], b: Sequence[Param], name: str, first: Locate, second: Locate
) -> Iterable[Difference]:
    for x, y in pair_parameters(a, b):
        if x is None or y is None:
            kept = x or y
            told = f"{what} {'deleted' if y is None else 'inserted'}: {kept}"
            yield Difference(
                "parameter",
                told,
                name,
                first(x, None) if x is not None else None,
                second(y, None) if y is not None else None,
            )
        elif _shape(x) != _shape(y):
            yield Difference("parameter", f"{what} {x} -> {y}", name, first(x, None), second(y, None))


def pair_parameters(a: Sequence[Param], b: Sequence[Param]) -> list[tuple[Param | None, Param | None]]:
    """Pair corresponding parameters by position, or by name and type if their numbers differ."""
    if len(a) == len(b):
        return list(zip(a, b, strict=True))
    keys = [[(p.name, _shape(p)) for p in side] for side in (a, b)]
    if not set(keys[0]) & set(keys[1]):
        keys = [[("", _shape(p)) for p in side] for side in (a, b)]
    pairs: list[tuple[Param | None, Param | None]] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, keys[0], keys[1], False).get_opcodes():
        if tag == "equal" or j - i == m - k:
            pairs += zip(a[i:j], b[k:m], strict=True)
        else:
            pairs += [(x, None) for x in a[i:j]]
            pairs += [(None, y) for y in b[k:m]]
    return pairs


def declaration(variable: Variable) -> tuple[object, ...]:
    """Return the declaration of a variable without its name and initial value."""
    return (
        variable.space,
        variable.type,
        variable.count,
        variable.align,
        variable.external,
        variable.shape or (variable.count,),
        variable.vector,
        variable.linkage,
        variable.attributes,
    )


def variable_differences(
    same: dict[str, str],
    a: dict[str, Variable],
    b: dict[str, Variable],
    function: str,
    first: Locate,
    second: Locate,
    renamed: Callable[[str], str] = lambda name: name,
) -> Iterable[Difference]:
    """Yield the variables that only one side has, or whose declarations differ.

    ``renamed`` rewrites the text of an initial value of A with B's names.
    """
    for name, variable in a.items():
        if name not in same:
            told = f"variable deleted: {variable}"
            yield Difference("variable", told, function, first(variable, None))
            continue
        other = b[same[name]]
        initial = renamed(str(variable.initial)), str(other.initial)
        if declaration(variable) != declaration(other) or initial[0] != initial[1]:
            told = f"variable {variable} -> {other}"
            yield Difference("variable", told, function, first(variable, None), second(other, None))
    taken = set(same.values())
    for name in b:
        if name in taken:
            continue
        told = f"variable inserted: {b[name]}"
        yield Difference("variable", told, function, None, second(b[name], None))
