"""The sanitizer: an observer of a run that reports accesses which nothing orders.

It follows the happens-before order of threads and engines with vector clocks (:mod:`.clocks`), keeps the last
accesses to each byte in shadow memory (:mod:`.shadow`), and compares each access with them (:mod:`.examine`).
The order comes from what was issued, never from what has happened: so a run under one schedule shows the
races of all schedules in which the same instructions execute and the same waits end.

Source: PTX ISA, `#memory-consistency-model`, `#async-proxy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import Finding
from ..engine.events import AsyncOperation, Step
from ..engine.stream import Fence, Life, LifeKind, Observer, Sync, SyncKind
from ..memory.access import Access, AccessKind, MemoryOrder, Proxy, StateSpace
from ..tcgen05.tensor_memory import TensorMemory
from .accesses import Accesses
from .advice.code import Code
from .advice.deadlocks import deadlock_advice
from .advice.exits import exit_advice
from .advice.history import History
from .advice.pair import Advice, Pair
from .advice.sides import Side
from .agents import CtaAgent
from .clocks import Level
from .examine import Check, Conflict, Examiner
from .issuing import Issuing, learn_own
from .order import known_lanes
from .records import Record
from .report import conflict_finding, lifetime_finding
from .synchronization import Synchronization
from .world import World

if TYPE_CHECKING:
    from ..threads.machine_state import MachineState

__all__ = ["Sanitizer"]

_ARRIVALS = {
    SyncKind.BAR_ARRIVE: "bar",
    SyncKind.WARP_ARRIVE: "bar.warp",
    SyncKind.CLUSTER_ARRIVE: "barrier.cluster",
}
_WAITS = {
    SyncKind.BAR_WAIT: "bar",
    SyncKind.WARP_WAIT: "bar.warp",
    SyncKind.CLUSTER_WAIT: "barrier.cluster",
}


class Sanitizer(Observer):
    """Checks the order of all accesses of one run; reports to the machine."""

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine
        self.world = World(machine)
        self._history = History()
        self._issuing = Issuing(self.world)
        self.synchronization = Synchronization(self.world, self._issuing)
        examiner = Examiner(self.world.records, self.world.ctas, self._conflict)
        self._accesses = Accesses(self.world, examiner, self._beyond)
        machine.adviser = self
        self._reported: set[tuple[object, ...]] = set()
        #: Two stores to the same bytes, and the bytes before the second store.
        self._stored: list[tuple[Conflict, Check, NDArray[np.uint8]]] = []

    # --- events ---------------------------------------------------------------------------------

    def begin(self, life: Life) -> None:
        if life.kind is LifeKind.GRID:
            assert isinstance(life.key, int)
            self.world.begin_grid(life.key)
        elif life.kind is LifeKind.CTA:
            assert isinstance(life.key, tuple)
            self.world.begin_cta(life.key, life.size)
        elif life.kind is LifeKind.TENSOR_MEMORY:
            assert isinstance(life.key, tuple) and life.cta is not None
            storage: Any = self._machine.residency.live[life.cta].unit(TensorMemory).storage
            self._accesses.allocate(storage, life.key[1], life.size)

    def end(self, life: Life) -> None:
        if self._stored:
            self._judge_stores()
        if life.kind is LifeKind.CTA:
            assert isinstance(life.key, tuple)
            self._accesses.end_cta(life.key)
            self._history.end_cta(life.key)
        elif life.kind is LifeKind.SEGMENT:
            assert isinstance(life.key, int)
            self._accesses.end_segment(life.key)

    def access(self, access: Access) -> None:
        if self._stored:
            self._judge_stores()
        if access.semantics is not MemoryOrder.WEAK:
            self._history.flag(self.world.records.last, access)
        self._accesses.access(access)

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        if self._stored:
            self._judge_stores()
        self._issuing.issue(operation, steps)
        issue = self._history.issue(self.world.records.last, operation, steps)
        for step in steps:
            step.observed.issue = issue
        self._accesses.issued(operation)

    def happens(self, step: Step) -> None:
        self._accesses.happens(step)

    def fence(self, fence: Fence) -> None:
        if self._stored:
            self._judge_stores()
        self._history.fence(self.world.records.last, fence)
        self.synchronization.fence(fence)

    def sync(self, sync: Sync) -> None:
        if self._stored:
            self._judge_stores()
        self._history.sync(self.world.records.last, sync)
        kind = sync.kind
        if kind is SyncKind.MBARRIER_WAIT:
            # The wait itself must be ordered after the initialization: what it acquires comes later.
            self._accesses.use_barrier(sync, AccessKind.READ)
            self.synchronization.wait("mbarrier", sync)
        elif kind in (SyncKind.MBARRIER_ARRIVE, SyncKind.MBARRIER_COMPLETE_TX):
            self._accesses.use_barrier(sync, AccessKind.RMW)
            self.synchronization.arrive("mbarrier", sync, self._accesses.step)
        elif kind is SyncKind.MBARRIER_EXPECT_TX:
            self._accesses.use_barrier(sync, AccessKind.RMW)
        elif kind in _ARRIVALS:
            self.synchronization.arrive(_ARRIVALS[kind], sync, None)
        elif kind in _WAITS:
            self.synchronization.wait(_WAITS[kind], sync)
        elif kind is SyncKind.GROUP_COMMIT:
            self._issuing.commit(sync)
        elif kind is SyncKind.GROUP_WAIT:
            self._issuing.wait(sync)
        elif kind is SyncKind.REGISTERS_USED:
            self._issuing.registers_used(sync)
        elif kind is SyncKind.GRID_WAIT:
            self._grid_wait(sync)

    def _grid_wait(self, sync: Sync) -> None:
        """Let threads know that the previous launch is complete."""
        assert isinstance(sync.object, int)
        complete = {sync.object, *self.world.completes[sync.object]}
        self.world.completes[sync.cta[0]] |= complete
        own = {self.world.launches[number]: 1 for number in complete}
        cta = self.world.ctas[sync.cta]
        for warp, mask in self.world.warps_of(cta, sync.threads):
            for group in warp.groups_of(mask):
                learn_own(group, own)
            warp.merge()

    # --- findings -------------------------------------------------------------------------------

    def _conflict(self, conflict: Conflict, check: Check) -> None:
        record, current, earlier = check.record, check.current, conflict.record
        stores = current.kind is AccessKind.WRITE and earlier.kind is AccessKind.WRITE
        threads = record.proxy is Proxy.GENERIC and earlier.mask and current.space is not StateSpace.TENSOR
        again = threads and record.location == earlier.location
        copies = record.proxy is earlier.proxy is Proxy.ASYNC and current.space is StateSpace.GLOBAL
        if conflict.rule == "data-race" and stores and (again or copies):
            self._stored.append((conflict, check, _bytes_at(conflict, check)))
            return
        self._tell(conflict, check)

    def _judge_stores(self) -> None:
        """Report pairs of stores that nothing orders, by one instruction or by copies.

        Compilers let all threads store one value where one thread would be enough, and let two warpgroups
        copy one tile: stores by one instruction are reported only if the second one changed a byte, and
        copies that changed none are for review.
        """
        stored, self._stored = self._stored, []
        for conflict, check, before in stored:
            if (_bytes_at(conflict, check) != before).any():
                self._tell(conflict, check)
            elif check.record.proxy is Proxy.ASYNC:
                self._tell(replace(conflict, rule="store-collision"), check)

    def _tell(self, conflict: Conflict, check: Check) -> None:
        finding = conflict_finding(conflict, check, self._pair(conflict, check))
        places = [finding.location, *(location for _, location in finding.other)]
        self._report((conflict.rule, *map(str, places)), finding)

    def _pair(self, conflict: Conflict, check: Check) -> Pair:
        """Return the two accesses with what their threads did around them."""
        record = check.record
        near = conflict.record.cta == record.cta
        ctas, history = self.world.ctas, self._history
        first = Side(conflict.record, conflict.lane, ctas[conflict.record.cta], history, True, False, near)
        second = Side(record, conflict.my_lane, ctas[record.cta], history, False, True, near)
        sent = conflict.view.levels.get(Level.SENT, {})
        code = self._code(record.cta)
        return Pair(
            first,
            second,
            check.current.space,
            bool(known_lanes(conflict.record, sent, conflict.record.mask)),
            code,
            self._accesses.barrier_name,
        )

    def _code(self, cta: tuple[int, int]) -> Code:
        return Code(self._machine.grids[cta[0]].program.reachable)

    def stuck(self, cta: tuple[int, int], *wait: Any) -> Advice:
        """Advise threads of a CTA that wait for a phase which never completes."""
        return deadlock_advice(self._history, self._accesses.barrier_name, self._code(cta), cta, *wait)

    def outlives(self, operation: AsyncOperation) -> Advice:
        """Advise on an operation that may need the memory of a CTA that has ended."""
        return exit_advice(self._history, self._accesses.barrier_name, operation)

    def _beyond(self, record: Record, owner: CtaAgent, ends: bool) -> None:
        finding = lifetime_finding(record, owner, ends)
        self._report(("cluster-lifetime", str(finding.location), ends), finding)

    def _report(self, key: tuple[object, ...], finding: Finding) -> None:
        if key not in self._reported:
            self._reported.add(key)
            self._machine.report(finding)


def _bytes_at(conflict: Conflict, check: Check) -> NDArray[np.uint8]:
    """Return the bytes that are in the place of a conflict now."""
    shadow = check.shadow
    at = conflict.offsets[:, None] + np.arange(shadow.grain)
    found: NDArray[np.uint8] = shadow.segment.data[np.minimum(at, shadow.segment.size - 1)]
    return found
