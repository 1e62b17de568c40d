"""Loads and stores of tensor memory that one warp has in flight.

A load's registers are written when its step happens; an instruction that touches any of them before lets all
loads of the warp happen first, as waits that ptxas inserts would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.events import Step
from ..threads.units import RegisterOwner

if TYPE_CHECKING:
    from ...core.source import SourceLocation
    from ..threads.warp import Split

__all__ = ["TensorTransfers"]


class TensorTransfers(RegisterOwner):
    """See the module's docstring. The steps of its loads are those that write registers."""

    def __init__(self) -> None:
        super().__init__()
        self._stores: list[Step] = []

    def store(self, step: Step) -> None:
        """A store is in flight."""
        self._stores = [earlier for earlier in self._stores if not earlier.done]
        self._stores.append(step)

    def in_flight(self, *, loads: bool) -> list[Step]:
        """Loads, or stores, that have not happened."""
        return [step for step in (self.steps if loads else self._stores) if not step.done]

    def touch(self, s: Split, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        if self.steps:
            self.complete(s.warp.cta.machine.engines)
