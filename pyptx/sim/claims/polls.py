"""Loops that poll a word of memory: for which values they end.

A pass of such a loop loads the word, computes a predicate from its value and from registers that no pass
changes, and goes back to the load if the predicate says so. Nothing else happens in a pass. So all that
matters of the loop is for which values it ends. :mod:`.loops` finds such loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from ...core.records import dataclass
from ...ir import Instruction
from ..code.function import FunctionCode
from ..code.semantic import CLASSES, Op, RegisterPlace
from ..code.translate import value_function

__all__ = ["Origin", "Poll", "Polls", "register_value"]

_Values = tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """An atomic addition whose old value the predicate of a loop needs.

    Attributes:
        statement: the addition.
        result: the place of its old value.
        steps: what computes the predicate's registers from it, before the loop.
        inputs: the registers that these steps and the predicate need besides.
    """

    statement: int
    result: RegisterPlace
    steps: tuple[Op, ...]
    inputs: tuple[RegisterPlace, ...]


@dataclass(eq=False, slots=True)
class Poll:
    """A loop that polls one word.

    Attributes:
        statement: the load.
        branch: the statement that leaves the loop.
        value: the place of the loaded value.
        steps: what computes the predicate.
        predicate: its place; the loop ends if it equals ``ends_if``.
        inputs: the registers that the predicate needs besides the value.
        used: True if an instruction behind the loop may read what a pass has loaded or computed.
        origin: the atomic addition on whose old value the predicate depends, if there is one.
    """

    code: FunctionCode
    statement: int
    branch: int
    value: RegisterPlace
    steps: tuple[Op, ...]
    predicate: RegisterPlace
    ends_if: bool
    inputs: tuple[RegisterPlace, ...]
    used: bool
    origin: Origin | None = None
    _pass: Callable[[Any, list[Any]], None] | None = None
    _before: Callable[[Any, list[Any]], None] | None = None
    _known: dict[tuple[Any, ...], bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the load."""
        load = self.code.function.body[self.statement]
        assert isinstance(load, Instruction)
        return load.name

    def ends(self, inputs: _Values, value: int) -> bool:
        """True if the loop ends when it loads ``value``; ``inputs`` has the values of the other registers."""
        key = (inputs, value)
        found = self._known.get(key)
        if found is None:
            registers = self._registers(self.inputs, inputs)
            found = self._known[key] = self._ends(registers, value)
        return found

    def ends_after(self, inputs: _Values, old: int, value: int) -> bool:
        """As :meth:`ends`, if the addition had returned ``old``; ``inputs`` are those of the origin."""
        key = (inputs, value, old)
        found = self._known.get(key)
        if found is None:
            assert self.origin is not None
            registers = self._registers(self.origin.inputs, inputs)
            registers[self.origin.result.index] = old
            if self._before is None:
                self._before = value_function(self.code, self.origin.steps)
            self._before(None, registers)
            found = self._known[key] = self._ends(registers, value)
        return found

    def _registers(self, places: tuple[RegisterPlace, ...], values: _Values) -> list[Any]:
        registers: list[Any] = [0] * len(self.code.places)
        for place, one in zip(places, values, strict=True):
            registers[place.index] = one
        return registers

    def _ends(self, registers: list[Any], value: int) -> bool:
        registers[self.value.index] = value
        if self._pass is None:
            self._pass = value_function(self.code, self.steps)
        self._pass(None, registers)
        return bool(registers[self.predicate.index]) is self.ends_if


@dataclass(eq=False, slots=True)
class Polls:
    """The loops of one function that poll.

    Attributes:
        loops: by their loads.
        quiet: additions whose old values only the predicates of such loops need.
        before: atomic operations between which and such a loop only fences stand.
    """

    loops: dict[int, Poll] = field(default_factory=dict)
    quiet: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)


def register_value(split: Any, place: RegisterPlace, column: int) -> Any:
    """Return the raw bits of a register of one lane as a Python number; a predicate as a bool."""
    if split.regs is not None:
        return split.regs[place.index]
    return getattr(split.frame, CLASSES[place.cls])[place.row, column].item()
