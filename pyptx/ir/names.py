"""Names while a function is read: scopes, ranges of registers, and one flat set of names at the end.

A name means one thing in a function of the IR.  What a nested scope declares keeps its name, or becomes
``name_1`` where that name is taken; its registers are declared by the function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..core.types import ScalarType
from .nodes import Register, Special, Symbol

__all__ = ["Names", "NameScope"]

_DIGITS = re.compile(r"\d+\Z", re.ASCII)


@dataclass
class NameScope:
    """One ``{ }``: what its declarations mean. ``known`` also caches what was found further out."""

    parent: NameScope | None = None
    known: dict[str, Register | Symbol] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    ranges: dict[str, _Range] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class _Range:
    """``%r<10>``: only the registers that are used become declarations."""

    count: int
    type: ScalarType
    vector: int
    used: dict[int, Register] = field(default_factory=dict)


class Names:
    """All names of one function.

    ``words`` are all names of the text, those of special registers without what follows a dot: a new name is
    none of them.
    """

    def __init__(self, words: set[str], module_names: set[str]) -> None:
        self.scope = NameScope()
        self._words = words
        self._module = module_names
        #: Variables and labels of this function.
        self._own: set[str] = set()
        self._registers: set[str] = set()
        #: Special registers that were used, without what follows a dot.
        self._specials: set[str] = set()
        self._declarations: list[Register | _Range] = []
        #: The next number to try for a name that is taken.
        self._counters: dict[str, int] = {}

    @property
    def nested(self) -> bool:
        """Whether the scope is not the function's own."""
        return self.scope.parent is not None

    def open(self) -> None:
        self.scope = NameScope(self.scope)

    def close(self) -> bool:
        """Leave a nested scope; False at the function's own."""
        if self.scope.parent is None:
            return False
        self.scope = self.scope.parent
        return True

    # --- declaring: each returns what it declared, or None for a name that this scope has already ----

    def register(self, text: str, type: ScalarType, vector: int, *, listed: bool = True) -> Register | None:
        """A register; one in a function's header is not ``listed`` among those of its body."""
        if text in self.scope.declared or self._in_ranges(self.scope, text) is not None:
            return None
        register = self._new_register(text, type, vector)
        self.scope.declared.add(text)
        self.scope.known[text] = register
        if listed:
            self._declarations.append(register)
        return register

    def registers(self, prefix: str, count: int, type: ScalarType, vector: int) -> None:
        found = _Range(count, type, vector)
        self.scope.ranges[prefix] = found
        self._declarations.append(found)
        for text in [t for t in self.scope.known if t not in self.scope.declared and t.startswith(prefix)]:
            del self.scope.known[text]

    def variable(self, text: str) -> str | None:
        if text in self.scope.declared:
            return None
        # The function's own variable may hide one of the module; one that was moved here may not.
        hides = self._own if self.scope.parent is None else self._own | self._module
        name = self._unique(text, hides)
        self._own.add(name)
        self.scope.declared.add(text)
        self.scope.known[text] = Symbol(name)
        return name

    def label(self, text: str) -> str | None:
        if text in self.scope.labels:
            return None
        name = self._unique(text, self._own)
        self._own.add(name)
        self.scope.labels[text] = name
        return name

    # --- finding ------------------------------------------------------------------------------

    def find(self, text: str) -> Register | Symbol | None:
        """What ``text`` means here: a register or a variable of this function."""
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
        """A name behind ``%`` that is no register's here."""
        self._specials.add(text[1:].partition(".")[0])
        return Special(text[1:])

    def apart(self) -> dict[Register, Register]:
        """New names for registers that are called as a special register that was used elsewhere."""
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
        while scope is not None:
            if text in scope.labels:
                return scope.labels[text]
            scope = scope.parent
        return None

    def all_registers(self) -> tuple[Register, ...]:
        """Declared registers, and those of ranges that were used, in the order of the declarations."""
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
        # Without its own %, the name may be that of another register, or of a special one.
        if bare in self._registers or (text[0] != "%" and "%" + bare in self._words):
            bare = self._unique(bare, self._registers, "%")
        self._registers.add(bare)
        return Register(bare, type, vector)

    def _unique(self, text: str, taken: set[str], mark: str = "") -> str:
        if text not in taken and not mark:
            return text
        number = self._counters.get(mark + text, 1)
        while f"{text}_{number}" in taken or f"{mark}{text}_{number}" in self._words:
            number += 1
        self._counters[mark + text] = number + 1
        return f"{text}_{number}"
