"""The machine: starts CTAs on multiprocessors, runs their splits and the engines, and ends the run.

Owns the run loop, parking and waking. :mod:`pyptx.sim.semantics` executes instructions, :mod:`.schedule`
decides what happens next, :mod:`pyptx.sim.threads.divergence` splits and merges lanes, and
:mod:`pyptx.sim.threads.machine_state` holds the state of a run. One machine holds the CTAs of all launches of
a stream. They share memory, multiprocessors and one schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from ...core.findings import RULES, Finding
from ...flow.graph import EXIT
from ...isa import Target
from ..code.function import CodeBlock
from ..code.image import ModuleImage
from ..engine.accounts import Issuer
from ..engine.events import AsyncOperation, Step
from ..engine.waits import Wait
from ..memory.segments import Fault
from ..numbers.serial import serial
from ..threads.calls import FunctionCalls
from ..threads.cta import CTA
from ..threads.grid import Grid
from ..threads.limits import Limits, Progress
from ..threads.machine_state import MachineState
from ..threads.operations import run_operations
from ..threads.warp import Split, mask_of, spins
from ..threads.warp_teams import WarpTeams, joins
from .deadlock import deadlock
from .lapped import let_lapped_pass
from .polled import Polled
from .retries import Retries
from .schedule import Policy

__all__ = ["CTA", "Machine"]

#: Number of the newest ready splits that _let_react searches for splits of one cluster.
_NEAR = 128
#: Number of turns between two checks of the wall clock.
_CLOCK_INTERVAL = 256


class Machine(MachineState):
    """One machine, which runs all launches of a stream."""

    def __init__(
        self,
        target: Target,
        policy: Policy,
        limits: Limits,
        *,
        progress: Callable[[Progress], None] | None = None,
        started: float | None = None,
    ) -> None:
        super().__init__(target, policy, limits, progress=progress, started=started)
        self.policy: Policy = policy
        #: Runs the operations of a block for a split.
        self.operations: Callable[[Split, CodeBlock], Any] = run_operations
        self.calls = FunctionCalls(self)
        self.teams = WarpTeams(self)
        #: Parked splits with their waits, oldest first. ``polled`` has those whose waits must be polled.
        self.parked: dict[Split, Wait] = {}
        self.polled = Polled()
        self.retries = Retries(self)
        #: True if the run ended because no thread could run any more.
        self.stuck = False
        #: The finding that ended the run, if one did; others let it go on.
        self.ended_by: Finding | None = None
        self._turns = 0

    def issued(self, steps: list[Step]) -> None:
        self.policy.issued(self, steps)

    def map_variables(self, image: ModuleImage) -> None:
        """Place the variables of a module in global memory, below all other allocations."""
        for stored in image.stored:
            self.memory.place_global(stored.name, stored.address, stored.data)

    def add(self, grid: Grid) -> None:
        """Append a launch to the stream that this machine runs."""
        self.grids.append(grid)
        self.residency.open.append(grid)
        self.account = self.grids[0].account

    # --- life of a launch ---------------------------------------------------------------------

    def run(self) -> None:
        """Run until the end, a fault, a deadlock or a limit. Findings are stored in the grids."""
        try:
            with np.errstate(all="ignore"), serial():
                self.residency.admit()
                while self.turn():
                    pass
        except Fault as fault:
            self.ended_by = fault.finding
            self.report(fault.finding)
        self.charge(self.account)
        self.origins.report_unused()
        ended = self.account
        for grid in self.grids:
            if not grid.complete and grid.account is not ended:
                self.charge(grid.account)
                self.report(
                    Finding(
                        RULES["stream-stopped"],
                        f"launch {grid.number} of the stream did not complete: "
                        f"the run ended in launch {ended.number}, {ended.entry}",
                    )
                )

    def turn(self) -> bool:
        self._turns += 1
        if self._turns % _CLOCK_INTERVAL == 0:
            self.check_time()
        if self.residency.undecided:
            self.residency.admit()
        if self.ready:
            self.policy.before_split(self)
            s = self.policy.split(self)
            if s.queued:
                s.queued = False
                if s.warp.issuer.account is not self.account:
                    self.charge(s.warp.issuer.account)
                self.completed.clear()
                self.polled.touch(s.warp.issuer.cluster)
                team = self.teams.of(s) if self.policy.warp_teams else None
                if team is None:
                    self.execute(s)
                else:
                    self.teams.execute(team)
                if self.completed:
                    self._let_react(dict.fromkeys(actor.issuer for actor in self.completed))
            return True
        progress = self._progress()
        if self.busy:
            # These threads may spin in a way that spins does not detect: run them again, since other things
            # may happen.
            for s in self.busy:
                s.queued = True
            self.ready.extendleft(self.busy)
            self.busy.clear()
        elif not progress and self.residency.live:
            self.charge(self.residency.open[0].account)
            self.stuck = True
            self.ended_by = deadlock(self)
            self.report(self.ended_by)
            return False
        return progress or bool(self.ready)

    def _let_react(self, issuers: dict[Issuer, None]) -> None:
        """Run other threads of the cluster to their next wait before warps that completed a phase continue.

        ``issuers`` are warps that completed a phase of an mbarrier, or whose asynchronous operations
        completed one. On hardware, a thread that already waits for the phase sees it complete before a fast
        engine completes the next one. So the other splits of the cluster run first. The newest ready split
        runs first in any case, so only splits near the end of the queue matter.
        """
        self.poll()
        cluster, ready = next(iter(issuers)).cluster, self.ready
        last = islice(reversed(ready), _NEAR)
        places = [place for place, s in enumerate(last) if s.warp.issuer.cluster is cluster]
        if not places:
            return
        moved = [ready.pop() for _ in range(places[-1] + 1)][::-1]
        inside = [s for s in moved if s.warp.issuer.cluster is cluster]
        if len(inside) < len(moved):
            ready.extend(s for s in moved if s.warp.issuer.cluster is not cluster)
        ready.extend(s for s in inside if s.warp.issuer in issuers)
        ready.extend(s for s in inside if s.warp.issuer not in issuers)

    def _progress(self) -> bool:
        """If no thread can run, let one event happen that may make a thread ready.

        Returns False if no event can happen.
        """
        if self.poll() or self._wake_spinners():
            return True
        if self.policy.idle(self):
            self.check_time()
            return True
        if self.residency.admit(idle=True):
            return True
        return bool(self.residency.live) and (
            self.retries.time_out()
            or self.divergence.release()
            or self.retries.time_out(again=True)
            or (self.policy.starves_threads and let_lapped_pass(self))
        )

    def _charge_operation(self, operation: AsyncOperation) -> None:
        issuer = operation.issuer
        self.polled.touch(issuer.cluster)
        if issuer.account is not self.account:
            self.charge(issuer.account)

    # --- running splits -----------------------------------------------------------------------

    def execute(self, s: Split) -> None:
        """Run the split ``s`` until it parks, ends, diverges or has used up its turn (the quantum)."""
        blocks = s.warp.cta.grid.program.blocks
        budget = quantum = self.policy.turn()
        divergence = self.divergence
        while True:
            if s.pc == s.rpc:
                merged = divergence.arrive(s)
                if merged is None:
                    return
                s = merged
                if self.regroups(s):
                    self.wake(s)
                    return
                continue
            if s.pc == EXIT:
                divergence.leave(s, s.mask)
                return
            block = blocks[s.pc]
            if block.collective and not divergence.gathered(s, block):
                return
            self.count_steps(block.steps)
            if block.call is not None:
                entered = self.calls.enter(s, block)
                if entered is None:
                    return
                s = entered
                if self.regroups(s):
                    self.wake(s)
                    return
                continue
            if block.returns:
                if s.stack:
                    divergence.abandon(s)
                    continue
                s = self.calls.leave(s)
                if self.regroups(s):
                    self.wake(s)
                    return
                continue
            following = self.run_block(s, block)
            if following is None:
                return
            if following <= s.pc and following != EXIT and self.spins(s, following):
                return
            s.pc = following
            if block.table and self.regroups(s):
                self.wake(s)
                return
            budget -= 1
            if budget <= 0:
                self.give_way(s, quantum)
                return
            if self.completed:
                self.wake(s)
                return

    def regroups(self, s: Split) -> bool:
        """True if ``s``, which has come from another path, becomes ready again first."""
        return self.policy.warp_teams and joins(s)

    def run_block(self, s: Split, block: CodeBlock) -> int | None:
        """Run one block for ``s``, and return the number of the next block.

        Returns None if ``s`` has parked or diverged.
        """
        outcome = self.operations(s, block)
        if block.yields:
            return self._yielded(s, block, outcome)
        if block.table:
            s.scatter()
            return self._select(s, block)
        if s.lane >= 0 and not block.deferred:
            return int(outcome)
        if block.guard is None:
            return block.taken if block.taken is not None else block.next
        place, negated = block.guard
        mask = mask_of(s.frame.p[place.row]) & s.mask
        if negated:
            mask ^= s.mask
        if mask == s.mask:
            return block.taken
        if mask == 0:
            return block.next
        assert block.taken is not None and block.next is not None
        self.divergence.part(s, block.rpc, [(s.mask & ~mask, block.next), (mask, block.taken)])
        return None

    def _select(self, s: Split, block: CodeBlock) -> int | None:
        """Return the number of the block to which an indexed branch (``brx``) of ``s`` goes.

        Returns None if its lanes diverge.
        """
        assert block.selector is not None
        instruction, place = block.selector
        lanes = s.lanes
        if block.guard is not None:
            flag, negated = block.guard
            lanes = lanes[s.frame.p[flag.row, lanes] != negated]
        ways: dict[int, int] = {}
        through = 0
        for lane, index in zip(lanes.tolist(), s.frame.u32[place.row, lanes].tolist(), strict=True):
            if index >= len(block.table):
                s.acting = (lane,)
                raise Fault(
                    Finding(
                        RULES["out-of-bounds"],
                        f"brx.idx has the index {index}, but its list has only {len(block.table)} labels",
                        instruction.source,
                        s.description(),
                    )
                )
            ways[block.table[index]] = ways.get(block.table[index], 0) | 1 << lane
            through |= 1 << lane
        if s.mask & ~through:
            assert block.next is not None
            ways[block.next] = ways.get(block.next, 0) | (s.mask & ~through)
        if len(ways) == 1:
            return next(iter(ways))
        self.divergence.part(s, block.rpc, [(mask, target) for target, mask in ways.items()])
        return None

    def _yielded(self, s: Split, block: CodeBlock, wait: Wait | None) -> int | None:
        assert block.next is not None
        if wait is None or wait.over():
            if wait is not None:
                wait.finish()
            if s.lane < 0 and self.policy.warp_teams:
                # Whole warps that this wait may have woken run together with it.
                s.pc = block.next
                self.wake(s)
                return None
            return block.next
        s.pc = block.next
        self.park(s, wait)
        return None

    def spins(self, s: Split, target: int) -> bool:
        """Queue ``s`` as spinning if it repeats a loop while its registers and memory do not change.

        Returns True if it does.
        """
        if not spins(s, s, target, self.memory.version):
            return False
        s.pc = target
        self.spinning.append(s)
        return True

    # --- waiting ------------------------------------------------------------------------------

    def park(self, s: Split, wait: Wait) -> None:
        s.blocks = 0
        self.parked[s] = wait
        self.tell_wait(s, wait)
        if not wait.subscribe(lambda: self.end_wait(s, wait)):
            self.polled.add(s, wait)

    def unpark(self, s: Split) -> None:
        """Remove ``s`` from the parked splits, so that the machine no longer polls its wait."""
        del self.parked[s]
        self.polled.remove(s)
        self.tell_resumed(s)

    def end_wait(self, s: Split, wait: Wait) -> None:
        """Finish the instruction that caused ``wait``, which is over; wake ``s`` if it still waits for it."""
        if self.parked.get(s) is wait:
            self.unpark(s)
            wait.finish()
            self.wake(s)

    def poll(self) -> bool:
        """Wake the polled splits whose waits are over. Return True if there were any."""
        woken = False
        # A split that wakes may take a resource for which the next split waits: check the waits one by one.
        for s, wait in self.polled.take():
            if wait.over():
                self.end_wait(s, wait)
                woken = True
        return woken

    def _wake_spinners(self) -> bool:
        woken = [s for s in self.spinning if s.spin is None or s.spin.version != self.memory.version]
        if woken:
            self.spinning = [
                s for s in self.spinning if s.spin is not None and s.spin.version == self.memory.version
            ]
            for s in woken:
                s.spin = None
                self.wake(s)
        return bool(woken)
