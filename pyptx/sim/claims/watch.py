"""The observer that decides whether a run may claim to hold for every schedule.

The argument is in docs/every-schedule.md. In short: if each synchronization of the run is one that every
fair schedule makes, and each access is ordered by them, every schedule executes the same instructions with
the same values. This module watches one run for what could be otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...core.findings import Finding, Verdict
from ..engine.events import AsyncOperation, Step, StepKind
from ..engine.stream import Life, LifeKind, Observer, Sync
from ..memory.access import Access, AccessKind
from ..memory.segments import Segment
from ..sanitizer.sanitizer import Sanitizer
from ..threads.machine_state import MachineState
from .choices import Kind, check_choices
from .columns import Columns
from .competing import Claim, Ledger
from .launch_control import LaunchControl
from .phases import Phases
from .polling import Polling
from .resources import Resources
from .strong import StrongAccesses

__all__ = ["Watch"]

#: Rules for review that leave the claim, as assumptions: the order that they name is that of hardware.
_ASSUMED = frozenset(
    {
        "assumed-order",
        "proxy-fence-open",
        "tcgen05-fence-missing",
        "tcgen05-wait-missing",
        "relaxed-handover",
    }
)
#: Rules for review that no schedule changes.
_HARMLESS = frozenset(
    {"padding-read", "undefined-load", "buffer-crossing", "unused-wait", "unwritten-output"}
)


def _completed(segment: Segment, offset: int) -> int:
    """Return how many phases of the mbarrier at ``offset`` are over; none if it has been invalidated.

    None either if the schedule may starve threads: a wait that was lapped counts for a later phase than the
    one that its thread means.
    """
    barrier = segment.barriers.get(offset)
    return 0 if barrier is None or barrier.watches else barrier.phase


class Watch(Observer):
    """Watches one run. It must get each event before the sanitizer, whose clocks it reads."""

    def __init__(self, machine: MachineState, sanitizer: Sanitizer) -> None:
        self._machine = machine
        self._ledger = Ledger()
        self._phases = Phases(sanitizer, self._ledger)
        self._polling = Polling(sanitizer.world, sanitizer.accesses, self._ledger)
        self._strong = StrongAccesses(sanitizer.world, self._polling, self._ledger)
        self._columns = Columns(self._ledger)
        self._launch_control = LaunchControl(sanitizer.world, self._ledger)
        self._resources = Resources(sanitizer.world, self._columns, self._polling, self._ledger)
        self._step: Step | None = None

    # --- events ---------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        if self._launch_control.watching:
            self._launch_control.access(access)
        if access.kind is AccessKind.INIT:
            self._begin_barriers(access)
            return
        self._strong.access(access, self._step)
        if self._columns.watching:
            self._columns.access(access)

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        if steps[0].kind is StepKind.CANCEL:
            self._launch_control.request(operation)

    def happens(self, step: Step) -> None:
        self._step = step

    def sync(self, sync: Sync) -> None:
        self._phases.sync(sync, self._step)
        self._resources.sync(sync)

    def begin(self, life: Life) -> None:
        if life.kind is LifeKind.TENSOR_MEMORY:
            assert life.cta is not None
            self._columns.begin(life.cta)
        elif life.kind is LifeKind.GRID:
            assert isinstance(life.key, int)
            self._launch_control.begin(self._machine.grids[life.key])

    def end(self, life: Life) -> None:
        if life.kind is LifeKind.CTA:
            assert isinstance(life.key, tuple)
            self._phases.end_cta(life.key)
            self._strong.end_cta(life.key)
            self._resources.end_cta(life.key)
            self._columns.end_cta(life.key)
            self._launch_control.end_cta(life.key)

    def _begin_barriers(self, access: Access) -> None:
        actor: Any = access.actor
        cta, segment = actor.warp.cta, access.segment
        for offset in access.footprint.starts.tolist():
            key = (cta.grid.number, cta.cluster.number, segment.base + offset)
            name = segment.name if segment.parts is None else segment.parts.describe(offset)
            completed = partial(_completed, segment, offset)
            self._phases.begin(key, cta.key, f"mbarrier {name}", completed)

    # --- the claim ------------------------------------------------------------------------------

    def claim(self, findings: Sequence[Finding]) -> Claim:
        """Return the claim for the whole run. ``findings`` are those of all launches."""
        self._phases.close()
        self._polling.close()
        self._resources.across(sorted(self._polling.across))
        self._launch_control.close(self._polling.across)
        ledger = self._ledger
        for finding in findings:
            name = finding.rule.name
            if finding.severity is Verdict.REVIEW and name in _ASSUMED:
                ledger.assume(f"{name}: the order that hardware keeps", finding.location)
            elif name != "ordered-by-chance" and name not in _HARMLESS:
                ledger.competes(f"finding {name}", finding.location)
        seen: set[int] = set()
        for grid in self._machine.grids:
            if not grid.complete:
                ledger.competes(f"launch {grid.number} did not complete")
            if grid.printed:
                ledger.assume("the order of lines that different threads print is open")
            for code in grid.program.codes():
                if id(code) not in seen:
                    seen.add(id(code))
                    answers = self._launch_control.loads(code)
                    columns: dict[int, Kind] = dict.fromkeys(self._columns.loads.get(id(code), ()), "column")
                    # A load of both kinds of numbers may be used for neither.
                    both: dict[int, Kind] = dict.fromkeys(answers.keys() & columns.keys(), "any")
                    check_choices(code, {**columns, **answers, **both}, ledger)
                    self._launch_control.check(code, answers)
        return ledger.claim()
