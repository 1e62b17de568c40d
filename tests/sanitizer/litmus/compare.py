"""The sanitizer against the axiomatic model: does it report a race where an execution has one, and nowhere else?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from .model import races
from .program import Litmus
from .running import simulate_many

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """What one run showed.

    Attributes:
        outcome: of the run.
        expected: whether the executions with this outcome have a data race; None: some have one, some have not.
        found: whether the sanitizer reported one.
    """

    outcome: tuple[int, ...]
    expected: bool | None
    found: bool

    @property
    def kind(self) -> str:
        """``agree``, ``open``, ``missed`` or ``false alarm``."""
        if self.expected is None:
            return "open"
        if self.expected == self.found:
            return "agree"
        return "missed" if self.expected else "false alarm"


def compare(test: Litmus, seeds: int, schedule: str = "random") -> list[Comparison]:
    """Runs of a test under ``eager`` and under ``schedule`` with ``seeds`` seeds.

    Raises if an outcome is not allowed at all.
    """
    known = races(test)
    found = []
    runs = simulate_many(test, "eager", [0]), simulate_many(test, schedule, range(1, seeds + 1))
    for outcome, rules in chain(*runs):
        if outcome not in known:
            raise AssertionError(f"{test.name}: the simulator gave {outcome}, which the model forbids")
        verdicts = known[outcome]
        expected = next(iter(verdicts)) if len(verdicts) == 1 else None
        found.append(Comparison(outcome, expected, "data-race" in rules))
    return found
