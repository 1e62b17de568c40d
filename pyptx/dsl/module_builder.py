"""The module that is being recorded: its functions so far, its variables, and the names in use.

Each kernel recorded by ``@kernel`` has a builder of its own, and so has each
:class:`~pyptx.dsl.program.Program`.  The device functions (``@ptx.func``) that the bodies call go into the
same builder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.records import dataclass
from ..core.tuples import NamedTuple
from ..core.waivers import Waiver
from ..ir import Function, ModuleDirective, Variable

__all__ = ["Symbols", "ModuleBuilder"]


class _BuilderMark(NamedTuple):
    functions: int
    variables: int
    names: int
    known: int


class ModuleBuilder:
    """A module being recorded; a :class:`~pyptx.dsl.trace.State` of every recording in it.

    Attributes:
        functions: recorded functions and prototypes, in the order of the text.
        variables: variables of the module.
        directives: other directives of the module.
        waivers: findings of the simulator that the author accepts.
        known: signatures of the functions by name; and the device functions that :mod:`.functions` recorded,
            by the Python function and its constants.
    """

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.directives: list[ModuleDirective] = []
        self.waivers: list[Waiver] = []
        self.known: dict[Any, Any] = {}
        #: Names of the module's functions and variables, in order; they may repeat.
        self._names: list[str] = []

    def mark(self) -> _BuilderMark:
        return _BuilderMark(len(self.functions), len(self.variables), len(self._names), len(self.known))

    def restore(self, mark: _BuilderMark) -> None:
        del self.functions[mark.functions :]
        del self.variables[mark.variables :]
        del self._names[mark.names :]
        for key in list(self.known)[mark.known :]:
            del self.known[key]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    def take(self, *names: str) -> None:
        """Mark names as used.

        They may be in use already, since a module may declare and define a function.
        """
        self._names += names

    def free_name(self, stem: str, others: Iterable[str] = ()) -> str:
        """Return the first of ``stem``, ``stem_1`` ... that is neither in the module nor in ``others``."""
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
    """The variables of one function, and all names in use, which new variables and labels must not have."""

    variables: list[Variable]
    names: list[str]

    def mark(self) -> _SymbolsMark:
        return _SymbolsMark(len(self.variables), len(self.names))

    def restore(self, mark: _SymbolsMark) -> None:
        del self.variables[mark.variables :]
        del self.names[mark.names :]
