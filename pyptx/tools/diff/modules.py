"""Compares two modules: pairs their functions, then compares header, variables and functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from ...core.records import dataclass
from ...ir import (
    Alias,
    Function,
    InitialList,
    MaskedSymbol,
    Module,
    Param,
    Pragma,
    Symbol,
    SymbolAddress,
    Variable,
)
from ...isa.targets import version_text
from .canonical import Interner, canonical
from .compare import compare_functions
from .declarations import pair_parameters, variable_differences
from .inputs import Side
from .model import Difference, FunctionDiff, Place

__all__ = ["compare_modules"]

#: Two functions of different names correspond if they share at least this part of their instructions.
_SIMILAR = 0.5


def compare_modules(
    a: Side, b: Side, *, header: bool, types: bool
) -> tuple[list[Difference], list[FunctionDiff]]:
    """Return all differences, and the pairs of functions that correspond."""
    found = list(_header(a.module, b.module)) if header else []
    pairs, lonely_a, lonely_b = _functions(a.module, b.module)
    same_variables = _variables(a.module, b.module)
    names = {x.name: y.name for x, y in pairs} | same_variables
    found += _module_directives(a.module, b.module, names)
    found += variable_differences(
        same_variables,
        {v.name: v for v in a.module.variables},
        {v.name: v for v in b.module.variables},
        "",
        a.place,
        b.place,
        _renamer(names),
    )
    for x_name, y_name in same_variables.items():
        variable = next(v for v in a.module.variables if v.name == x_name)
        if x_name != y_name and variable.linkage:
            told = f"variable {x_name} is named {y_name}"
            found.append(Difference("renamed", told, "", Place(x_name), Place(y_name)))
    for function in lonely_a:
        told = f"{_kind(function)} deleted: {function.name}"
        found.append(Difference("function", told, function.name, a.place(function), None))
    for function in lonely_b:
        told = f"{_kind(function)} inserted: {function.name}"
        found.append(Difference("function", told, function.name, None, b.place(function)))
    intern = Interner()
    functions = []
    for x, y in pairs:
        if x.name != y.name:
            told = f"{_kind(x)} {x.name} is named {y.name}"
            found.append(Difference("renamed", told, x.name, a.place(x), b.place(y)))
        first, second = _symbols(a.module, b.module, names, x, y)
        one, other = canonical(x, first, intern, types=types), canonical(y, second, intern, types=types)
        functions.append(compare_functions(one, other, intern, a.place, b.place))
    for pair in functions:
        found += pair.differences
    return found, functions


def _kind(function: Function) -> str:
    if function.prototype:
        return "prototype"
    return "kernel" if function.kind == "entry" else "device function"


def _header(a: Module, b: Module) -> Iterable[Difference]:
    rows = (
        (".version", version_text(a.version), version_text(b.version)),
        (
            ".target",
            ", ".join((a.target, *sorted(a.target_options))),
            ", ".join((b.target, *sorted(b.target_options))),
        ),
        (".address_size", str(a.address_size), str(b.address_size)),
    )
    for name, x, y in rows:
        if x != y:
            yield Difference("header", f"{name} {x} -> {y}", "", Place(f"{name} {x}"), Place(f"{name} {y}"))


def _module_directives(a: Module, b: Module, names: Mapping[str, str]) -> Iterable[Difference]:
    """Yield the differences in pragmas and aliases. `.file` and sections are debug data: not compared."""

    def kept(module: Module, renamed: Callable[[str], str]) -> dict[str, str]:
        return {
            renamed(str(directive)): str(directive)
            for directive in module.directives
            if isinstance(directive, Pragma | Alias)
        }

    one, other = kept(a, _renamer(names)), kept(b, lambda text: text)
    for text, own in one.items():
        if text not in other:
            yield Difference("module", f"deleted: {own}", "", Place(own), None)
    for text in other:
        if text not in one:
            yield Difference("module", f"inserted: {text}", "", None, Place(text))


def _renamer(names: Mapping[str, str]) -> Callable[[str], str]:
    changed = {x: y for x, y in names.items() if x != y}
    if not changed:
        return lambda text: text
    pattern = re.compile(r"(?<![\w$])(?:" + "|".join(map(re.escape, changed)) + r")(?![\w$])")
    return lambda text: pattern.sub(lambda match: changed[match[0]], text)


# --- functions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Content:
    """The content of a function, used to pair functions that have different names."""

    words: Counter[str]

    @staticmethod
    def of(function: Function) -> _Content:
        return _Content(Counter(i.name for i in function.instructions()))

    def similarity(self, other: _Content) -> float:
        total = self.words.total() + other.words.total()
        return 2 * (self.words & other.words).total() / total if total else 1.0


def _functions(
    a: Module, b: Module
) -> tuple[list[tuple[Function, Function]], list[Function], list[Function]]:
    """Pair the functions of two modules by name, then by content.

    Returns the pairs in A's order, and the functions of each side that have no partner. A prototype of a
    function that the same module defines is left out.
    """
    one, other = dict(a.by_name), dict(b.by_name)
    partner = {name: name for name in one if name in other and one[name].prototype == other[name].prototype}
    left = [f for name, f in one.items() if name not in partner]
    right = [f for name, f in other.items() if name not in partner]
    contents = {id(f): _Content.of(f) for f in (*left, *right)}
    choices = sorted(
        (
            (contents[id(x)].similarity(contents[id(y)]), -i, -j)
            for i, x in enumerate(left)
            for j, y in enumerate(right)
            if _may_be(x, y)
        ),
        reverse=True,
    )
    single = all(sum(f.kind == "entry" for f in side.values()) == 1 for side in (one, other))
    gone_a: set[str] = set()
    gone_b: set[str] = set()
    for similarity, i, j in choices:
        x, y = left[-i], right[-j]
        if x.name in gone_a or y.name in gone_b:
            continue
        if similarity >= _SIMILAR or (single and x.kind == "entry"):
            partner[x.name] = y.name
            gone_a.add(x.name)
            gone_b.add(y.name)
    return (
        [(one[x], other[partner[x]]) for x in one if x in partner],
        [f for f in left if f.name not in gone_a],
        [f for f in right if f.name not in gone_b],
    )


def _may_be(a: Function, b: Function) -> bool:
    """True if function ``b`` of B may be function ``a`` of A under another name.

    Prototypes are paired only by name.
    """
    return a.kind == b.kind and not a.prototype and not b.prototype


# --- variables and symbols --------------------------------------------------------------------


def _variables(a: Module, b: Module) -> dict[str, str]:
    """Pair the variables of both modules: those with equal names, then the others by equal declarations."""
    one, other = {v.name: v for v in a.variables}, {v.name: v for v in b.variables}
    same = {name: name for name in one if name in other}
    for key in (_exactly, _roughly):
        left: dict[Hashable, list[str]] = {}
        for name in other:
            if name not in same.values():
                left.setdefault(key(other[name]), []).append(name)
        for name in one:
            if name not in same and left.get(key(one[name])):
                same[name] = left[key(one[name])].pop(0)
    return same


def _exactly(variable: Variable) -> Hashable:
    return (*_roughly(variable), variable.count, variable.align, _without_names(variable.initial))


def _roughly(variable: Variable) -> tuple[Hashable, ...]:
    return (variable.space, variable.type, variable.external, variable.linkage)


def _without_names(initial: object) -> str:
    if isinstance(initial, InitialList):
        return ",".join(map(_without_names, initial.elements))
    if isinstance(initial, Symbol | SymbolAddress | MaskedSymbol):
        return "symbol"
    return str(initial)


def _symbols(
    a: Module, b: Module, names: Mapping[str, str], x: Function, y: Function
) -> tuple[dict[str, Hashable], dict[str, Hashable]]:
    """Return, for each module, a map from its symbols and the functions' parameters to values.

    Two symbols have equal values if and only if they correspond.
    """
    first: dict[str, Hashable] = {}
    second: dict[str, Hashable] = {}
    for module, side, table in ((a, "A", first), (b, "B", second)):
        names_of = [f.name for f in module.functions] + [v.name for v in module.variables]
        table.update((name, (side, name)) for name in names_of)
    for name, other in names.items():
        first[name] = second[other] = ("both", name)
    for number, (one, other_one) in enumerate(_parameters(x, y)):
        for param, table, side in ((one, first, "A"), (other_one, second, "B")):
            if param is not None and param.space != "reg":
                both = one is not None and other_one is not None
                table[param.name] = ("parameter", "both" if both else side, number)
    return first, second


def _parameters(x: Function, y: Function) -> Sequence[tuple[Param | None, Param | None]]:
    return [*pair_parameters(x.params, y.params), *pair_parameters(x.returns, y.returns)]
