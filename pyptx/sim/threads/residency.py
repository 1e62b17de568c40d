"""Starts and ends CTAs: decides which launches and clusters start, places them, and frees their resources.

A cluster starts as a whole. The multiprocessors and the host's memory limit how many clusters run at once. If
a program can observe the order in which clusters start, the schedule chooses the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.events import Step, StepKind
from .cluster import Cluster
from .multiprocessor import Multiprocessors
from .warp import Split

if TYPE_CHECKING:
    from .cta import CTA
    from .grid import Grid
    from .machine_state import MachineState

__all__ = ["Residency"]


class Residency:
    """The part of a machine that starts and ends CTAs."""

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine
        self.multiprocessors = Multiprocessors(machine.target)
        #: The launches that are not complete, in order.
        self.open: list[Grid] = []
        #: The live CTAs, by launch and number.
        self.live: dict[tuple[int, int], CTA] = {}
        #: True if a launch or cluster could start that the schedule still holds back.
        self.undecided = False
        #: Bytes of the host's memory that the live CTAs took when they began.
        self._occupied = 0

    def admit(self, *, idle: bool = False) -> bool:
        """Start CTAs while there is room for them. Return True if any started; the first of them runs first.

        The schedule may hold some CTAs back. If no thread can run (``idle``), at least one cluster starts.
        """
        new: list[CTA] = []
        self.undecided = False
        while self.open and self.open[0].complete:
            del self.open[0]
        for grid in self.open:
            if not grid.started and not self._starts(grid):
                break
            while grid.waiting:
                if grid.gives_away and not self.machine.policy.starts() and (new or not idle):
                    self.undecided = True
                    break
                cluster = self._place(grid)
                if cluster is None:
                    break
                new += cluster.ctas
            if grid.waiting:
                break
        for cta in new[::-1]:
            first = cta.grid.program.entry.first
            for warp in cta.warps[::-1]:
                self.machine.wake(Split(warp, warp.live, first, [], warp.frame))
        return bool(new)

    def _starts(self, grid: Grid) -> bool:
        """Return True if a launch may start its CTAs now, considering the earlier launches of the stream."""
        if grid is not self.open[0]:
            if not (grid.dependent and grid.before is not None and grid.before.lets_go):
                return False
            if not self.machine.policy.starts():
                self.undecided = True
                return False
        if not grid.started and self.machine.stream.active:
            self.machine.stream.begin(grid.life())
        grid.started = True
        return True

    def _place(self, grid: Grid) -> Cluster | None:
        """Place the next cluster of a launch on multiprocessors, and return it; None if there is no room."""
        size = grid.cluster_size
        # If no cluster runs, one may start, whatever memory it needs.
        if self.live and self._occupied + size * grid.held > self.machine.limits.memory:
            return None
        places = self.multiprocessors.place(grid.demand, size)
        if places is None:
            return None
        cluster = Cluster(grid, grid.waiting[0], places)
        grid.waiting = grid.waiting[1:]
        self._occupied += size * grid.held
        for cta in cluster.ctas:
            self.live[cta.key] = cta
            cta.multiprocessor.ctas.append(cta)
            grid.entered()
            if self.machine.stream.active:
                self.machine.stream.begin(cta.life())
        return cluster

    def retire(self, cta: CTA) -> None:
        """End a CTA whose last thread has ended: complete its operations in flight, then free its place."""
        units = cta.units()
        for unit in units:
            unit.leave()
        self._report_unseen(cta)
        unread = [step for step in cta.in_flight if _reads_shared(step)]
        for step in (*cta.cluster.deliveries(cta.rank), *unread):
            if not step.done:
                self.machine.engines.force(step)
        # Copies that the CTA has sent to other CTAs stay in flight.
        sent = cta.cluster.sent(cta)
        for step in cta.in_flight[::-1]:
            if not step.done and step not in sent:
                self.machine.engines.force(step)
        for unit in units:
            unit.at_exit()
        grid = cta.grid
        del self.live[cta.key]
        del cta.cluster_memory[cta.rank]
        cta.cluster_memory.ended.add(cta.rank)
        self.machine.release(cta.registers)
        cta.local_memory.release()
        self._occupied -= grid.held
        cta.multiprocessor.ctas.remove(cta)
        self.multiprocessors.free(cta.multiprocessor, grid.demand)
        grid.left(cta)
        if self.machine.stream.active:
            self.machine.stream.end(cta.life())
            if grid.complete:
                self.machine.stream.end(grid.life())
        self.admit()

    def _report_unseen(self, cta: CTA) -> None:
        """Report copies that no wait of a thread has ensured to be done with the CTA's shared memory.

        What has happened by now counts only if a thread has seen it: under another schedule it happens later.
        """
        reads = {step.operation: "read" for groups in cta.bulk.values() for step in groups.never_waited()}
        for other in cta.cluster.ctas:
            signals = other.unseen_signals() if other.rank in cta.cluster_memory else []
            for operation, signal in signals:
                if signal.origin.reads_shared and operation.cta_key == cta.key:
                    reads[operation] = "read"
        writes = {operation: "written" for operation, signal in cta.unseen_signals() if signal.nbytes}
        for operation, done in (writes | reads).items():
            self.machine.report_operation(
                "exit-in-flight",
                f"CTA {cta.coordinates} ended, and no wait ensured that {operation.name} "
                f"had {done} its shared memory",
                operation,
            )


def _reads_shared(step: Step) -> bool:
    """True if the step is a bulk copy's read of the shared memory of the CTA that issued it."""
    return step.kind is StepKind.READ_SHARED
