"""The machine: the grids of a stream, CTAs admitted to multiprocessors, their splits, the engines, and when a
run ends.

Owns the run loop, parking and waking, and limits.  *What* an instruction does is in :mod:`.exec`, *which*
thing happens next in :mod:`.schedule`, how lanes part and meet in :mod:`.threads.divergence`.  One machine
holds the CTAs of all launches of a stream, which share memory, multiprocessors and one schedule.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from ...flow.graph import EXIT
from ...isa import Target
from ..code.function import CodeBlock, FunctionCode
from ..code.image import ModuleImage
from ..code.translate import array_function, lane_function
from ..engine.accounts import Issuer, LaunchAccount
from ..engine.events import AsyncOperation, Engine, Engines, Step
from ..engine.waits import Wait
from ..memory.address_space import Fault, Memory
from ..numbers.serial import serial
from ..threads.calls import FunctionCalls
from ..threads.cta import CTA
from ..threads.divergence import Divergence
from ..threads.frames import Registers
from ..threads.grid import Grid
from ..threads.residency import Residency
from ..threads.warp import FULL_MASK, Split, mask_of, spins
from ..threads.warp_teams import WarpTeams, joins
from .deadlock import deadlock
from .limits import Limits, Progress
from .retries import Retries
from .schedule import Policy

__all__ = ["CTA", "Machine"]

#: Blocks that a split may run before the machine moves on as if it waited: it may be polling.
_PATIENCE = 4096
#: Splits that became ready last, among which those of one cluster are looked for.
_NEAR = 128
#: Runs check the wall clock this often, in turns.
_CLOCK_INTERVAL = 256


class Machine:
    """See the module's docstring. ``progress`` is called now and then with the state of a long run."""

    def __init__(
        self,
        target: Target,
        policy: Policy,
        limits: Limits,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.target, self.policy, self.limits = target, policy, limits
        self.progress = progress
        #: The launches of the stream in order.
        self.grids: list[Grid] = []
        #: Of the launch that a thread or an engine acts for: steps, events and findings are its own.
        self.account: LaunchAccount
        self._counted = self._happened = 0
        self.residency = Residency(self)
        self._reported: set[tuple[Any, ...]] = set()
        self.memory = Memory(self.report)
        #: Who completed a phase of an mbarrier in this turn: threads, and operations of engines.
        self.completed: list[Split | AsyncOperation] = []
        self.engines = Engines(self._charge_operation, self._changed)
        self.divergence = Divergence(self)
        self.calls = FunctionCalls(self)
        self.teams = WarpTeams(self)
        self.printed_characters = 0
        #: Live allocations of the device's heap: bytes of it that each takes, by address.
        self.heap: dict[int, int] = {}
        self.heap_bytes = 0
        self.ready: deque[Split] = deque()
        #: Parked splits and their waits, oldest first; those of them that are asked whether they are over.
        self.parked: dict[Split, Wait] = {}
        self.polled: dict[Split, Wait] = {}
        self.spinning: list[Split] = []
        #: Splits that ran for long without waiting for anything.
        self.busy: list[Split] = []
        self.steps = 0
        #: Bytes of the host's memory for registers and local memory.
        self.held = 0
        self._ticks = self._slept = 0
        self.retries = Retries(self)
        self._started = self._shown = time.monotonic()
        self._turns = 0
        self._free: dict[tuple[FunctionCode, int], list[Registers]] = {}

    def map_variables(self, image: ModuleImage) -> None:
        """Place the variables of a module, before everything else in global memory."""
        for stored in image.stored:
            self.memory.place_global(stored.name, stored.address, stored.data)

    def add(self, grid: Grid) -> None:
        """One more launch, behind those that are here."""
        self.grids.append(grid)
        self.residency.open.append(grid)
        self.account = self.grids[0].account

    # --- storage of threads -------------------------------------------------------------------

    def registers(self, code: FunctionCode, warps: int) -> Registers:
        """Registers for ``warps`` warps in one activation of a function."""
        free = self._free.get((code, warps))
        if free:
            found = free.pop()
            found.clear()
            return found
        self.take(32 * warps * code.register_bytes)
        return Registers(code, warps)

    def take(self, nbytes: int) -> None:
        """Threads need ``nbytes`` more of the host's memory, or fewer; ends the run at the limit."""
        self.held += nbytes
        if self.held > 2 * self.limits.memory:
            self.stop(f"stopped: the threads take more than twice memory={self.limits.memory} bytes")

    def release(self, registers: Registers) -> None:
        """Nobody uses these registers any more."""
        self._free.setdefault((registers.code, registers.warps), []).append(registers)

    # --- findings -----------------------------------------------------------------------------

    def report(self, finding: Finding) -> None:
        """Keep a finding; the same rule at the same line is kept once."""
        what = finding.message if finding.location is None else ""
        key = (self.account.number, finding.rule.name, finding.location, what)
        if key not in self._reported:
            self._reported.add(key)
            self.account.findings.append(finding)

    def fault(self, rule: str, message: str, actor: Any, lane: int | None = None) -> Fault:
        """A finding that ends the run, to raise. Of a trap it says which wait the warp gave up before."""
        others: tuple[tuple[str, SourceLocation | None], ...] = ()
        if rule == "trap":
            given_up = getattr(actor, "split", actor).warp.given_up
            if given_up is not None and not given_up[0].over():
                message += f"; its warp had given up: it {given_up[0].describe()}"
                others = (("gave up waiting", given_up[1]),)
        return Fault(Finding(RULES[rule], message, actor.location, actor.description(lane), others))

    def uninitialized_register(
        self, split: Split, name: str, lane: int, location: SourceLocation | None
    ) -> None:
        self.report(
            Finding(
                RULES["undefined-register"],
                f"register %{name} is read before anything wrote it",
                location,
                split.description(lane),
            )
        )

    # --- life of a launch ---------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end, a fault, a deadlock or a limit. Findings are in the grids."""
        try:
            with np.errstate(all="ignore"), serial():
                self.residency.admit()
                while self._turn():
                    pass
        except Fault as fault:
            self.report(fault.finding)
        self._charge(self.account)
        ended = self.account
        for grid in self.grids:
            if not grid.complete and grid.account is not ended:
                self._charge(grid.account)
                self.report(
                    Finding(
                        RULES["stream-stopped"],
                        f"launch {grid.number} of the stream did not complete: "
                        f"the run ended in launch {ended.number}, {ended.entry}",
                    )
                )

    def _turn(self) -> bool:
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
                    self._charge(s.warp.issuer.account)
                self.completed.clear()
                team = self.teams.of(s) if self.policy.warp_teams else None
                if team is None:
                    self._execute(s)
                else:
                    self.teams.execute(team)
                if self.completed:
                    self._let_react(dict.fromkeys(actor.issuer for actor in self.completed))
            return True
        progress = self._progress()
        if self.busy:
            # Perhaps they spin in a way that _spins does not see: each time, something else may happen.
            for s in self.busy:
                s.queued = True
            self.ready.extendleft(self.busy)
            self.busy.clear()
        elif not progress and self.residency.live:
            self._charge(self.residency.open[0].account)
            self.report(deadlock(self))
            return False
        return progress or bool(self.ready)

    def _let_react(self, issuers: dict[Issuer, None]) -> None:
        """These warps, or operations that they issued, have completed a phase of an mbarrier: others run to
        their next wait before these warps go on.

        No engine is so fast that a thread which could wait for a phase by now does not see it.  Others are
        those of the same cluster; the splits that became ready last run first, so that all are near the end.
        """
        self.poll()
        cluster = next(iter(issuers)).cluster
        last = [self.ready.pop() for _ in range(min(len(self.ready), _NEAR))][::-1]
        inside = [s for s in last if s.warp.issuer.cluster is cluster]
        self.ready.extend(s for s in last if s.warp.issuer.cluster is not cluster)
        self.ready.extend(s for s in inside if s.warp.issuer in issuers)
        self.ready.extend(s for s in inside if s.warp.issuer not in issuers)

    def _progress(self) -> bool:
        """No thread is ready: let one thing happen that may make one so. False if there is none."""
        if self.poll() or self._wake_spinners():
            return True
        if self.policy.idle(self):
            self.check_time()
            return True
        if self.residency.admit(idle=True):
            return True
        return bool(self.residency.live) and (
            self.retries.time_out() or self.divergence.release() or self.retries.time_out(again=True)
        )

    def check_time(self) -> None:
        """End the run if its time is over; show how far it is now and then."""
        now = time.monotonic()
        timeout = self.limits.timeout
        if timeout is not None and now - self._started > timeout:
            self.stop(f"stopped after timeout={timeout} s")
        if self.progress is not None and now - self._shown >= self.limits.progress_interval:
            self._shown = now
            ctas = sum(grid.ctas for grid in self.grids)
            left = sum(len(grid.waiting) * grid.cluster_size + grid.live for grid in self.grids)
            self.progress(Progress(now - self._started, self.steps, ctas - left, ctas))

    def count_steps(self, steps: int) -> None:
        """``steps`` more warp-instructions; ends the run at the limit."""
        self.steps += steps
        if self.steps > self.limits.max_steps:
            self.stop(f"stopped at max_steps={self.limits.max_steps}")

    def stop(self, why: str) -> None:
        raise Fault(Finding(RULES["step-limit"], f"{why}, {self.steps} warp-instructions", None))

    def clock(self, name: str) -> Any:
        """Clock registers: no two reads give the same; a tick a warp-instruction, and what threads slept."""
        self._ticks = max(self._ticks + 1, self.steps + self._slept)
        if name in ("clock64", "globaltimer"):
            return np.uint64(self._ticks)
        high = name in ("clock_hi", "globaltimer_hi")
        return np.uint32((self._ticks >> 32 if high else self._ticks) & FULL_MASK)

    def sleep(self, nanoseconds: int) -> None:
        """A thread has slept: clocks show it."""
        self._slept += nanoseconds

    # --- engines ------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.memory.version += 1

    def _charge(self, account: LaunchAccount) -> None:
        """What was executed since the last call was for one launch; what comes is for that of ``account``."""
        self.account.steps += self.steps - self._counted
        self.account.events += self.engines.executed - self._happened
        self._counted, self._happened = self.steps, self.engines.executed
        self.account = account

    def _charge_operation(self, operation: AsyncOperation) -> None:
        """A step of ``operation`` happens."""
        if operation.issuer.account is not self.account:
            self._charge(operation.issuer.account)

    def issue(self, cta: CTA, steps: list[Step]) -> None:
        """Put the steps of an operation in flight."""
        self.engines.issue(steps)
        self.policy.issued(self, steps)
        if cta.grid.account is not self.account:
            # Operations of other launches may have gone on.
            self._charge(cta.grid.account)
        flying = [step for step in steps if not step.done]
        if flying:
            cta.in_flight = [step for step in cta.in_flight if not step.done] + flying

    def operation(self, split: Split, engine: Engine) -> AsyncOperation:
        """A new operation of ``engine`` on behalf of the split's current instruction."""
        assert split.op is not None
        return AsyncOperation(split.op.name, engine, split.warp.issuer, split.actors, split.location)

    # --- running splits -----------------------------------------------------------------------

    def wake(self, s: Split) -> None:
        """``s`` can run."""
        s.queued = True
        self.ready.append(s)
        self._note_whole(s)

    @staticmethod
    def _note_whole(s: Split) -> None:
        """A split of all live lanes of its warp may join a team."""
        if s.mask == s.warp.live:
            s.warp.whole = s

    def _execute(self, s: Split) -> None:
        """Run ``s`` until it parks, ends, diverges or has used its quantum."""
        blocks = s.warp.cta.grid.program.blocks
        budget = self.policy.quantum
        divergence = self.divergence
        while True:
            if s.pc == s.rpc:
                merged = divergence.arrive(s)
                if merged is None:
                    return
                s = merged
                if self.policy.warp_teams and joins(s):
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
                continue
            if block.returns:
                if s.stack:
                    divergence.abandon(s)
                    continue
                s = self.calls.leave(s)
                if self.policy.warp_teams and joins(s):
                    self.wake(s)
                    return
                continue
            following = self.run_block(s, block)
            if following is None:
                return
            if following <= s.pc and following != EXIT and self._spins(s, following):
                return
            s.pc = following
            if block.table and self.policy.warp_teams and joins(s):
                self.wake(s)
                return
            budget -= 1
            if budget <= 0:
                self.give_way(s)
                return
            if self.completed:
                self.wake(s)
                return

    def give_way(self, s: Split) -> None:
        """``s`` has used its quantum: the others get a turn, and now and then the engines too."""
        self.check_time()
        s.blocks += self.policy.quantum
        self._note_whole(s)
        if s.blocks < _PATIENCE:
            s.queued = True
            self.ready.appendleft(s)
        else:
            s.blocks = 0
            self.busy.append(s)

    def run_block(self, s: Split, block: CodeBlock) -> int | None:
        """Run one block: the next one, or None if the split has parked or parted."""
        if s.lane >= 0 and not block.deferred:
            registers = s.regs if s.regs is not None else s.gather()
            outcome = lane_function(block)(s, registers)
            if block.yields:
                return self._yielded(s, block, outcome)
            if block.table:
                s.scatter()
                return self._select(s, block)
            return int(outcome)
        s.scatter()
        outcome = array_function(block, masked=s.k is not None)(s, s.frame)
        if block.yields:
            return self._yielded(s, block, outcome)
        if block.table:
            return self._select(s, block)
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
        """Where an indexed branch goes: the next block, or None if its lanes part."""
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
                        f"brx.idx with index {index}; its list has {len(block.table)} labels",
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
                # Whole warps that this may have woken run together with it.
                s.pc = block.next
                self.wake(s)
                return None
            return block.next
        s.pc = block.next
        self._park(s, wait)
        return None

    def _spins(self, s: Split, target: int) -> bool:
        """Park ``s`` if it takes the same back edge with the same registers and nothing changed."""
        if not spins(s, s, target, self.memory.version):
            return False
        s.pc = target
        self.spinning.append(s)
        return True

    # --- waiting ------------------------------------------------------------------------------

    def _park(self, s: Split, wait: Wait) -> None:
        s.blocks = 0
        self.parked[s] = wait
        if not wait.subscribe(lambda: self._end_wait(s, wait)):
            self.polled[s] = wait

    def unpark(self, s: Split) -> None:
        """``s`` waits no more."""
        del self.parked[s]
        self.polled.pop(s, None)

    def _end_wait(self, s: Split, wait: Wait) -> None:
        """``wait`` is over: if ``s`` still waits for it, it goes on."""
        if self.parked.get(s) is wait:
            self.unpark(s)
            wait.finish()
            self.wake(s)

    def poll(self) -> bool:
        """Wake whose waits are over, of those that nothing wakes by itself. Whether there were any."""
        woken = False
        # One that wakes may take what the next one waits for: ask each in its turn.
        for s, wait in list(self.polled.items()):
            if wait.over():
                self._end_wait(s, wait)
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
