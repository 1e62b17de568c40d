"""Loads and stores of tensor memory that one warp has in flight.

A load's step writes its registers. If an instruction accesses one of these registers before the step, all
loads of the warp complete first. Real code has the same order, because ptxas inserts waits. Loads into other
registers stay in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.events import Step
from ..engine.stream import SyncKind
from ..threads.events import announce_sync
from ..threads.units import RegisterOwner

if TYPE_CHECKING:
    from ...core.source import SourceLocation
    from ..threads.warp import Split

__all__ = ["TensorTransfers"]


class TensorTransfers(RegisterOwner):
    """The loads (``steps``, which write registers) and stores of tensor memory that a warp has in flight."""

    def __init__(self) -> None:
        super().__init__()
        self._stores: list[Step] = []
        #: The rows that each load in flight writes.
        self._rows: dict[Step, frozenset[int]] = {}
        #: For observers: loads whose registers no instruction has used yet, with the rows of these registers.
        self._unused: list[tuple[Step, frozenset[int]]] = []

    def load(self, s: Split, step: Step, rows: frozenset[int]) -> None:
        """Add a load in flight, which writes these rows of 32-bit registers."""
        self.own(step)
        self._rows = {each: rows for each, rows in self._rows.items() if not each.done}
        self._rows[step] = rows
        if s.warp.cta.machine.stream.active:
            self._unused.append((step, rows))

    def store(self, step: Step) -> None:
        """Add a store in flight."""
        self._stores = [earlier for earlier in self._stores if not earlier.done]
        self._stores.append(step)

    def in_flight(self, *, loads: bool) -> list[Step]:
        """Return the loads, or the stores, that have not happened."""
        return [step for step in (self.steps if loads else self._stores) if not step.done]

    def touch(self, s: Split, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        """Complete the loads in flight before an instruction accesses registers that they write."""
        if self._unused:
            self._tell(s, rows)
        if any(not step.done and not self._rows[step].isdisjoint(rows) for step in self.steps):
            self.complete(s.warp.cta.machine.engines)

    def _tell(self, s: Split, rows: tuple[int, ...]) -> None:
        """Tell observers that an instruction uses registers of some loads: it waits for these loads."""
        used = [step for step, theirs in self._unused if not theirs.isdisjoint(rows)]
        if used:
            self._unused = [(step, theirs) for step, theirs in self._unused if step not in used]
            serials = tuple(step.serial for step in used)
            # The warp of the loads: `s` may be a team of several warps.
            first = 32 * (used[0].operation.issuer.warp - s.warp.index)
            lanes = range(first, first + 32)
            announce_sync(s, SyncKind.REGISTERS_USED, None, lanes=lanes, steps=serials)
