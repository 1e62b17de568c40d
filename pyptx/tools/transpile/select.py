"""Selects one kernel of a module, with the functions and variables that it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ...core.errors import SpecError
from ...ir import Alias, Indexed, MaskedSymbol, Module, Symbol, SymbolAddress, TargetList

__all__ = ["reached_from"]


def reached_from(module: Module, entry: str) -> Module:
    """Return ``module`` with only the kernel ``entry`` and the symbols that it reaches, in the same order.

    ``entry`` is the kernel's name, or a part of its C++ name that no other kernel has.

    Raises :class:`SpecError`, which lists the kernels, if there is no such kernel.
    """
    try:
        entry = module.entry(entry).name
    except KeyError as error:
        raise SpecError(str(error.args[0])) from None
    mentioned: dict[str, set[str]] = {}
    for variable in module.variables:
        mentioned.setdefault(variable.name, set()).update(_symbols(variable))
    for function in module.functions:
        mentioned.setdefault(function.name, set()).update(_symbols(function))
    for directive in module.directives:
        if isinstance(directive, Alias):
            mentioned.setdefault(directive.name, set()).add(directive.target)
    reached = {entry}
    pending = [entry]
    while pending:
        for name in mentioned.get(pending.pop(), ()):
            if name in mentioned and name not in reached:
                reached.add(name)
                pending.append(name)
    return replace(
        module,
        functions=tuple(f for f in module.functions if f.name in reached),
        variables=tuple(v for v in module.variables if v.name in reached),
        directives=tuple(d for d in module.directives if not isinstance(d, Alias) or d.name in reached),
    )


def _symbols(node: Any) -> Iterator[str]:
    """Yield the names of the variables and functions that a statement or operand refers to."""
    if isinstance(node, Symbol | SymbolAddress | Indexed):
        yield node.name
    elif isinstance(node, TargetList):
        yield from node.targets
    elif isinstance(node, MaskedSymbol):
        yield node.symbol.name
    elif isinstance(node, tuple):
        for part in node:
            yield from _symbols(part)
    elif is_dataclass(node):
        for part in fields(node):
            if part.compare:
                yield from _symbols(getattr(node, part.name))
