"""A schedule that preempts threads at every memory and synchronization instruction, and lets waits answer falsely."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from pyptx.sim.api import runs
from pyptx.sim.machine.schedule import Policy, Random, make_policy

__all__ = ["Preempting", "preempting"]


class Preempting(Random):
    """``random`` with turns of one block: a block ends wherever other threads or engines can act."""

    give_up_chance = 0.3

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.event_chance = self._pace.choice((0.05, 0.3, 0.6))

    def turn(self) -> int:
        return 1


@contextmanager
def preempting() -> Iterator[None]:
    """Let runs under ``random`` use :class:`Preempting` while this is open."""

    def make(schedule: str, seed: int) -> Policy:
        return Preempting(seed) if schedule == "random" else make_policy(schedule, seed)

    with patch.object(runs, "make_policy", make):
        yield
