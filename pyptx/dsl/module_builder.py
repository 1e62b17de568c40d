"""The module that recordings go into: its functions so far, its variables, and the names that are taken.

A kernel recorded by ``@kernel`` has a builder of its own, a :class:`~pyptx.dsl.program.Program` too.  Both
take in the device functions (``@ptx.func``) that their bodies call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..ir import Function, ModuleDirective, Variable

__all__ = ["Symbols", "ModuleBuilder"]


class _BuilderMark(NamedTuple):
    functions: int
    names: int
    known: int


class ModuleBuilder:
    """A module being recorded; a :class:`~pyptx.dsl.trace.State` of every recording in it.

    Attributes:
        functions: recorded functions and prototypes, in the order of the text.
        variables: of the module.
        directives: what else stands in the module.
        known: signatures of the functions by their names; what :mod:`.functions` recorded, by its origin.
    """

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.directives: list[ModuleDirective] = []
        self.known: dict[Any, Any] = {}
        #: Names of the module's functions and variables, in order; they may repeat.
        self._names: list[str] = []

    def mark(self) -> _BuilderMark:
        return _BuilderMark(len(self.functions), len(self._names), len(self.known))

    def restore(self, mark: _BuilderMark) -> None:
        del self.functions[mark.functions :]
        del self._names[mark.names :]
        for key in list(self.known)[mark.known :]:
            del self.known[key]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    def take(self, *names: str) -> None:
        """Take names, whether they are free or not: a module may declare what it defines."""
        self._names += names

    def free_name(self, stem: str, others: Iterable[str] = ()) -> str:
        """``stem``, or the first of ``stem_1``, ``stem_2`` ... that the module and ``others`` do not have."""
        taken, name, count = {*self._names, *others}, stem, 0
        while name in taken:
            count += 1
            name = f"{stem}_{count}"
        return name


class _SymbolsMark(NamedTuple):
    variables: int
    names: int


@dataclass
class Symbols:
    """The variables of one function, and the names that no other variable or label of it may have."""

    variables: list[Variable]
    names: list[str]

    def mark(self) -> _SymbolsMark:
        return _SymbolsMark(len(self.variables), len(self.names))

    def restore(self, mark: _SymbolsMark) -> None:
        del self.variables[mark.variables :]
        del self.names[mark.names :]
