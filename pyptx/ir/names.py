"""Resolves names while the parser reads a function: nested scopes become one set of unique names.

In a function of the IR, a name means one thing only.  A declaration in a nested scope keeps its name, or
becomes ``name_1`` if the name is taken; the registers of nested scopes become registers of the function.
"""

from __future__ import annotations

import re
from dataclasses import field

from ..core.records import dataclass
from ..core.types import ScalarType
from .nodes import Register, Special, Symbol

__all__ = ["Names", "NameScope"]

_DIGITS = re.compile(r"\d+\Z", re.ASCII)


@dataclass
class NameScope:
    """The declarations inside one ``{ }``. ``known`` also caches names that were found in outer scopes."""

    parent: NameScope | None = None
    known: dict[str, Register | Symbol] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    ranges: dict[str, _Range] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class _Range:
    """A range such as ``%r<10>``, of which only the used registers become declarations."""

    count: int
    type: ScalarType
    vector: int
    used: dict[int, Register] = field(default_factory=dict)


class Names:
    """All names of one function.

    ``texts`` are all names in the text (of special registers, only the part before the dot); a new name must
    differ from all of them.
    """

    def __init__(self, texts: set[str], module_names: set[str]) -> None:
        self.scope = NameScope()
        self._texts = texts
        self._module = module_names
        #: Variables and labels of this function.
        self._own: set[str] = set()
        self._registers: set[str] = set()
        #: Names of the special registers in use, up to the dot.
        self._specials: set[str] = set()
        self._declarations: list[Register | _Range] = []
        #: The next suffix to try for each name that is taken.
        self._counters: dict[str, int] = {}

    @property
    def nested(self) -> bool:
        """True if the current scope lies inside the function's outermost scope."""
        return self.scope.parent is not None

    def open(self) -> None:
        """Enter a nested scope."""
        self.scope = NameScope(self.scope)

    def close(self) -> bool:
        """Leave a nested scope; return False if the current scope is the function's outermost one."""
        if self.scope.parent is None:
            return False
        self.scope = self.scope.parent
        return True

    # --- declaring: each returns what it declared, or None if this scope already has the name ---------

    def register(self, text: str, type: ScalarType, vector: int, *, listed: bool = True) -> Register | None:
        """Declare a register. One in the function's header is not ``listed`` among the body's registers."""
        if text in self.scope.declared or self._in_ranges(self.scope, text) is not None:
            return None
        register = self._new_register(text, type, vector)
        self.scope.declared.add(text)
        self.scope.known[text] = register
        if listed:
            self._declarations.append(register)
        return register

    def registers(self, prefix: str, count: int, type: ScalarType, vector: int) -> None:
        """Declare the range ``prefix<count>``."""
        found = _Range(count, type, vector)
        self.scope.ranges[prefix] = found
        self._declarations.append(found)
        for text in [t for t in self.scope.known if t not in self.scope.declared and t.startswith(prefix)]:
            del self.scope.known[text]

    def variable(self, text: str) -> str | None:
        """Declare a variable and return its name in the IR."""
        if text in self.scope.declared:
            return None
        # A variable of the outermost scope may hide a module's variable; one of a nested scope is renamed.
        hides = self._own if self.scope.parent is None else self._own | self._module
        name = self._unique(text, hides)
        self._own.add(name)
        self.scope.declared.add(text)
        self.scope.known[text] = Symbol(name)
        return name

    def label(self, text: str) -> str | None:
        """Declare a label and return its name in the IR."""
        if text in self.scope.labels:
            return None
        name = self._unique(text, self._own)
        self._own.add(name)
        self.scope.labels[text] = name
        return name

    # --- finding ------------------------------------------------------------------------------

    def find(self, text: str) -> Register | Symbol | None:
        """Return the function's register or variable that ``text`` names in the current scope, or None."""
        found = self.scope.known.get(text)
        if found is not None:
            return found
        scope: NameScope | None = self.scope
        while scope is not None:
            found = scope.known.get(text) or self._in_ranges(scope, text)
            if found is not None:
                self.scope.known[text] = found
                return found
            scope = scope.parent
        return None

    def special(self, text: str) -> Special:
        """Return the special register with the name ``text``, which begins with ``%`` and is not declared."""
        self._specials.add(text[1:].partition(".")[0])
        return Special(text[1:])

    def apart(self) -> dict[Register, Register]:
        """Rename declared registers that have the name of a special register in use; return old -> new."""
        changed: dict[Register, Register] = {}

        def new(register: Register) -> Register:
            if register.name not in self._specials:
                return register
            name = self._unique(register.name, self._registers, "%")
            self._registers.add(name)
            changed[register] = Register(name, register.type, register.vector)
            return changed[register]

        if self._specials & self._registers:
            for index, declaration in enumerate(self._declarations):
                if isinstance(declaration, Register):
                    self._declarations[index] = new(declaration)
                else:
                    declaration.used = {n: new(register) for n, register in declaration.used.items()}
        return changed

    @staticmethod
    def find_label(scope: NameScope | None, text: str) -> str | None:
        """Return the IR name of the label ``text`` in ``scope`` or an outer scope, or None."""
        while scope is not None:
            if text in scope.labels:
                return scope.labels[text]
            scope = scope.parent
        return None

    def all_registers(self) -> tuple[Register, ...]:
        """Return declared registers, and the used ones of ranges, in the order of the declarations."""
        found: list[Register] = []
        for declaration in self._declarations:
            if isinstance(declaration, Register):
                found.append(declaration)
            else:
                found += [declaration.used[index] for index in sorted(declaration.used)]
        return tuple(found)

    def _in_ranges(self, scope: NameScope, text: str) -> Register | None:
        if not scope.ranges:
            return None
        digits = _DIGITS.search(text)
        if digits is None:
            return None
        # The prefix may end in digits itself: %r1<5> declares %r10 to %r14.
        for start in range(max(digits.start(), len(text) - 9), len(text)):
            found = scope.ranges.get(text[:start])
            if found is None or (text[start] == "0" and len(text) - start > 1):
                continue
            index = int(text[start:])
            if index < found.count:
                register = found.used.get(index)
                if register is None:
                    register = self._new_register(text, found.type, found.vector)
                    found.used[index] = register
                return register
        return None

    def _new_register(self, text: str, type: ScalarType, vector: int) -> Register:
        bare = text[1:] if text[0] == "%" else text
        # Without the %, the name may equal that of another register or a special register.
        if bare in self._registers or (text[0] != "%" and "%" + bare in self._texts):
            bare = self._unique(bare, self._registers, "%")
        self._registers.add(bare)
        return Register(bare, type, vector)

    def _unique(self, text: str, taken: set[str], mark: str = "") -> str:
        if text not in taken and not mark:
            return text
        number = self._counters.get(mark + text, 1)
        while f"{text}_{number}" in taken or f"{mark}{text}_{number}" in self._texts:
            number += 1
        self._counters[mark + text] = number + 1
        return f"{text}_{number}"
