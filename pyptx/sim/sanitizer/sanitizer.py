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
from .examine import Conflict, Examiner
from .issuing import Issuing, learn_own
from .order import known_lanes
from .records import Record
from .report import conflict_finding, lifetime_finding
from .shadow import Shadow
from .speculation import Speculation, is_speculative
from .synchronization import ARRIVALS, WAITS, Synchronization
from .thread_accesses import stores_alike
from .world import World

if TYPE_CHECKING:
    from ..threads.machine_state import MachineState

__all__ = ["Sanitizer"]


class Sanitizer(Observer):
    """Checks the order of all accesses of one run; reports to the machine."""

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine
        self.world = World(machine)
        self._history = History()
        self._issuing = Issuing(self.world)
        self.synchronization = Synchronization(self.world, self._issuing)
        self._examiner = Examiner(self.world.records, self.world.ctas, self._conflict)
        self.accesses = Accesses(self.world, self._examiner, self._beyond)
        machine.adviser = self
        self._reported: set[tuple[str, ...]] = set()
        self._speculation: dict[int, Speculation] = {}
        #: Two stores to the same bytes, and the bytes before the second store.
        self._stored: list[tuple[Conflict, NDArray[np.int64], NDArray[np.uint8]]] = []
        #: Number of the last record before the access that is checked.
        self._before = 0

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
            self.accesses.allocate(storage, life.key[1], life.size)

    def end(self, life: Life) -> None:
        self._judge_stores()
        if life.kind is LifeKind.CTA:
            assert isinstance(life.key, tuple)
            self.accesses.end_cta(life.key)
            self._history.end_cta(life.key)
        elif life.kind is LifeKind.SEGMENT:
            assert isinstance(life.key, int)
            self.accesses.end_segment(life.key)

    def access(self, access: Access) -> None:
        self._judge_stores()
        if access.semantics is not MemoryOrder.WEAK:
            self._history.flag(self.world.records.last, access)
        self._before = self.world.records.last
        self.accesses.access(access)

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        self._judge_stores()
        self._issuing.issue(operation, steps)
        issue = self._history.issue(self.world.records.last, operation, steps)
        for step in steps:
            step.observed.issue = issue
        self.accesses.issued(operation)

    def happens(self, step: Step) -> None:
        self.accesses.happens(step)

    def fence(self, fence: Fence) -> None:
        self._judge_stores()
        self._history.fence(self.world.records.last, fence)
        self.synchronization.fence(fence)

    def sync(self, sync: Sync) -> None:
        self._judge_stores()
        self._history.sync(self.world.records.last, sync)
        kind = sync.kind
        if kind is SyncKind.MBARRIER_WAIT:
            # The wait itself must be ordered after the initialization: what it acquires comes later.
            self.accesses.use_barrier(sync, AccessKind.READ)
            self.synchronization.wait("mbarrier", sync)
        elif kind in (SyncKind.MBARRIER_ARRIVE, SyncKind.MBARRIER_COMPLETE_TX):
            self.accesses.use_barrier(sync, AccessKind.RMW)
            self.synchronization.arrive("mbarrier", sync, self.accesses.step)
        elif kind is SyncKind.MBARRIER_EXPECT_TX:
            self.accesses.use_barrier(sync, AccessKind.RMW)
        elif kind in ARRIVALS:
            self.synchronization.arrive(ARRIVALS[kind], sync, None)
        elif kind in WAITS:
            self.synchronization.wait(WAITS[kind], sync)
        elif kind is SyncKind.GROUP_COMMIT:
            self._issuing.commit(sync)
        elif kind is SyncKind.GROUP_WAIT:
            self._issuing.wait(sync)
        elif kind is SyncKind.REGISTERS_USED:
            self._issuing.registers_used(sync)
        elif kind is SyncKind.GRID_WAIT:
            self._grid_wait(sync)
        elif kind is SyncKind.LANES_MATCH:
            self.synchronization.match(sync)

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

    def _conflict(self, conflict: Conflict) -> None:
        check, earlier = conflict.check, conflict.record
        record, current = conflict.later, check.current
        stores = current.kind is AccessKind.WRITE and earlier.kind is AccessKind.WRITE
        threads = record.proxy is Proxy.GENERIC and earlier.mask and current.space is not StateSpace.TENSOR
        again = threads and record.location == earlier.location
        copies = record.proxy is earlier.proxy is Proxy.ASYNC and current.space is StateSpace.GLOBAL
        # Warps that execute one store together: the last one may leave what was there before.
        access = current.access
        alike = stores_alike(access) if again and access is not None else None
        if alike and earlier.number > self._before:
            # Warps of a team that store one value: memory holds none of their stores yet.
            return
        differs = alike is False
        if conflict.rule == "data-race" and stores and (again or copies) and not differs:
            offsets = conflict.offsets
            self._stored.append((conflict, offsets, _bytes_at(offsets, check.shadow)))
            return
        self._tell(conflict)

    def _judge_stores(self) -> None:
        """Report pairs of stores that nothing orders, by one instruction or by copies.

        Compilers let all threads store one value where one thread would be enough, and let two warpgroups
        copy one tile: stores by one instruction are reported only if the second one changed a byte, and
        copies that changed none are for review.
        """
        if not self._stored:
            return
        stored, self._stored = self._stored, []
        for conflict, offsets, before in stored:
            check = conflict.check
            if (_bytes_at(offsets, check.shadow) != before).any():
                self._tell(conflict)
            elif conflict.later.issue is not None:
                self._tell(replace(conflict, rule="store-collision"))

    def _speculative(self, conflict: Conflict) -> bool:
        """True if a race is that of a load whose value does not matter."""
        launch = conflict.later.cta[0]
        if launch not in self._speculation:
            self._speculation[launch] = Speculation(self._machine.grids[launch].program.reachable)
        same = conflict.record.cta[0] == launch
        return same and is_speculative(conflict, self.world, self._speculation[launch])

    def _tell(self, conflict: Conflict) -> None:
        settled = conflict.rule == "data-race"
        if settled and self._speculative(conflict):
            conflict = replace(conflict, rule="speculative-load")
            read = conflict.record if conflict.record.kind is AccessKind.READ else conflict.later
            settled = self._speculation[read.cta[0]].always(read.location)
        lines = sorted((str(conflict.later.location), str(conflict.record.location)))
        if self._is_new((conflict.rule, *lines)):
            self._machine.report(conflict_finding(conflict, self._pair(conflict)))
        if settled:
            self._examiner.told(conflict.record, conflict.later)

    def _pair(self, conflict: Conflict) -> Pair:
        """Return the two accesses with what their threads did around them."""
        check, record = conflict.check, conflict.later
        near = conflict.record.cta == record.cta
        ctas, history = self.world.ctas, self._history
        lane, my_lane = conflict.lanes
        first = Side(conflict.record, lane, ctas[conflict.record.cta], history, True, False, near)
        second = Side(record, my_lane, ctas[record.cta], history, False, True, near)
        sent = conflict.view.levels.get(Level.SENT, {})
        code = self._code(record.cta)
        return Pair(
            first,
            second,
            check.current.space,
            bool(known_lanes(conflict.record, sent, conflict.record.mask)),
            code,
            self.accesses.mbarriers.name,
        )

    def _code(self, cta: tuple[int, int]) -> Code:
        return Code(self._machine.grids[cta[0]].program.reachable)

    def stuck(self, cta: tuple[int, int], *wait: Any) -> Advice:
        """Advise threads of a CTA that wait for a phase which never completes."""
        return deadlock_advice(self._history, self.accesses.mbarriers.name, self._code(cta), cta, *wait)

    def outlives(self, operation: AsyncOperation) -> Advice:
        """Advise on an operation that may need the memory of a CTA that has ended."""
        return exit_advice(self._history, self.accesses.mbarriers.name, operation)

    def _beyond(self, record: Record, owner: CtaAgent, ends: bool) -> None:
        if self._is_new(("cluster-lifetime", str(record.location), str(ends))):
            self._machine.report(lifetime_finding(record, owner, ends))

    def _is_new(self, key: tuple[str, ...]) -> bool:
        """Return True at the first call with this rule and these lines."""
        if key in self._reported:
            return False
        self._reported.add(key)
        return True


def _bytes_at(offsets: NDArray[np.int64], shadow: Shadow) -> NDArray[np.uint8]:
    """Return the bytes that are in some grains now."""
    at = offsets[:, None] + np.arange(shadow.grain)
    found: NDArray[np.uint8] = shadow.segment.data[np.minimum(at, shadow.segment.size - 1)]
    return found
