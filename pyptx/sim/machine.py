"""The machine of one launch: CTAs admitted up to a residency, their splits, the engines, and when a run ends.

Owns the run loop, parking and waking, and limits.  *What* an instruction does is in :mod:`.exec`, *which*
thing happens next in :mod:`.schedule`, how lanes part and meet in :mod:`.threads.divergence`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.findings import RULES, Finding
from ..core.source import SourceLocation
from ..flow.graph import EXIT
from ..ir import Launch
from .code.function import Code, CodeBlock
from .code.program import Program
from .code.translate import array_function, lane_function
from .deadlock import deadlock
from .events import Engines, Operation, Step
from .limits import Limits, Progress
from .memory import Fault, Memory, Segment
from .schedule import Policy
from .threads.calls import Calls
from .threads.cluster import Cluster
from .threads.cta import CTA
from .threads.divergence import Divergence
from .threads.frames import Registers
from .threads.teams import Teams, joins
from .threads.warp import FULL_MASK, Split, mask_of, spins
from .waits import Wait

__all__ = ["CTA", "Machine"]

#: Blocks that a split may run before the machine moves on as if it waited: it may be polling.
_PATIENCE = 4096
#: Bytes that a cooperative launch has for the barrier of its grid.
_WORKSPACE = 4096
#: Runs check the wall clock this often, in turns.
_CLOCK_INTERVAL = 256


class Machine:
    """See the module's docstring. ``progress`` is called now and then with the state of a long run."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        policy: Policy,
        limits: Limits,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.program, self.launch, self.policy, self.limits = program, launch, policy, limits
        self.progress = progress
        self.shared_bytes = program.shared_bytes(launch.dynamic_smem)
        x, y, z = launch.block
        self.threads = x * y * z
        x, y, z = launch.grid
        self.ctas = x * y * z
        x, y, z = launch.cluster
        self.cluster_size = x * y * z
        self.explicit_cluster = (
            launch.cluster != (1, 1, 1) or program.function.directive("explicitcluster") is not None
        )
        self.residency = program.residency(self.threads, self.shared_bytes, limits.memory)
        self.findings: list[Finding] = []
        self._reported: set[tuple[Any, ...]] = set()
        self.memory = Memory(self.report)
        self._map_variables()
        self.engines = Engines(self._changed)
        self.divergence = Divergence(self)
        self.calls = Calls(self)
        self.teams = Teams(self)
        #: What the kernel printed, in order.
        self.printed: list[str] = []
        self.printed_characters = 0
        #: Live allocations of the device's heap: bytes of it that each takes, by address.
        self.heap: dict[int, int] = {}
        self.heap_bytes = 0
        self.ready: deque[Split] = deque()
        #: Parked splits' waits, oldest first (a dict for its order).
        self.parked: dict[int, Wait] = {}
        self._polled: dict[int, Wait] = {}
        self.spinning: list[Split] = []
        #: Splits that ran for long without waiting for anything.
        self.busy: list[Split] = []
        self.steps = 0
        #: Bytes of the host's memory for registers and local memory.
        self.held = 0
        self._ticks = self._slept = 0
        self._workspace: int | None = None
        self._timed_out_at = -1
        self._started = self._shown = time.monotonic()
        self._turns = 0
        #: Numbers of the clusters that have not started.
        self.waiting = range(self.ctas // self.cluster_size)
        self.live: dict[int, CTA] = {}
        self._free: dict[tuple[Code, int], list[Registers]] = {}
        self._lane_numbers: dict[int, NDArray[np.intp]] = {}

    def _map_variables(self) -> None:
        image = self.program.image
        for stored in image.stored:
            self.memory.place_global(stored.name, stored.address, stored.data)
        self.memory.const = Segment("constant memory", "const", 0, image.const, tracked=False)

    def grid_workspace(self) -> int:
        """Address of the bytes with which all CTAs of a launch synchronise; 0 if they do not run at once."""
        if self._workspace is None:
            together = self.ctas <= self.residency
            data = np.zeros(_WORKSPACE, np.uint8)
            self._workspace = self.memory.map_global("the grid's workspace", data).base if together else 0
        return self._workspace

    # --- storage of threads -------------------------------------------------------------------

    def registers(self, code: Code, warps: int) -> Registers:
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

    def lane_numbers(self, count: int) -> NDArray[np.intp]:
        """0, 1 ... count - 1; not to be written."""
        found = self._lane_numbers.get(count)
        if found is None:
            found = self._lane_numbers[count] = np.arange(count)
        return found

    # --- findings -----------------------------------------------------------------------------

    def report(self, finding: Finding) -> None:
        """Keep a finding; the same rule at the same line is kept once."""
        key = (finding.rule.name, finding.location, finding.message if finding.location is None else "")
        if key not in self._reported:
            self._reported.add(key)
            self.findings.append(finding)

    def fault(self, rule: str, message: str, actor: Any, lane: int | None = None) -> Fault:
        """A finding that ends the run, to raise."""
        return Fault(Finding(RULES[rule], message, actor.location, actor.who(lane)))

    def uninitialised_register(
        self, split: Split, name: str, lane: int, location: SourceLocation | None
    ) -> None:
        self.report(
            Finding(
                RULES["undefined-register"],
                f"register %{name} is read before anything wrote it",
                location,
                split.who(lane),
            )
        )

    # --- life of a launch ---------------------------------------------------------------------

    def _admit(self) -> None:
        """Fill free places with CTAs, so that the first admitted runs first."""
        new: list[CTA] = []
        # A cluster runs as a whole, or not at all; one always does.
        while self.waiting and (
            len(self.live) + len(new) + self.cluster_size <= self.residency or not (self.live or new)
        ):
            new += Cluster(self, self.waiting[0]).ctas
            self.waiting = self.waiting[1:]
        first = self.program.entry.first
        for cta in new[::-1]:
            self.live[cta.number] = cta
            for warp in cta.warps[::-1]:
                self.wake(Split(warp, warp.live, first, [], warp.frame))

    def run(self) -> None:
        """Run to the end, a fault, a deadlock or a limit. Findings are in :attr:`findings`."""
        try:
            with np.errstate(all="ignore"):
                self._admit()
                while self._turn():
                    pass
        except Fault as fault:
            self.report(fault.finding)

    def _turn(self) -> bool:
        self._turns += 1
        if self._turns % _CLOCK_INTERVAL == 0:
            self.check_time()
        if self.ready:
            self.policy.before_split(self)
            s = self.policy.split(self)
            if s.queued:
                s.queued = False
                team = self.teams.of(s) if self.policy.together else None
                if team is None:
                    self._execute(s)
                else:
                    self.teams.execute(team)
            return True
        progress = self._progress()
        if self.busy:
            # Perhaps they spin in a way that _spins does not see: each time, something else may happen.
            for s in self.busy:
                s.queued = True
            self.ready.extendleft(self.busy)
            self.busy.clear()
        elif not progress and self.live:
            self.report(deadlock(self))
            return False
        return progress or bool(self.ready)

    def _progress(self) -> bool:
        """No thread is ready: let one thing happen that may make one so. False if there is none."""
        if self._poll() or self._wake_spinners():
            return True
        if self.policy.idle(self):
            self.check_time()
            return True
        return bool(self.live) and (self._time_out_waits() or self.divergence.release())

    def check_time(self) -> None:
        """End the run if its time is over; show how far it is now and then."""
        now = time.monotonic()
        timeout = self.limits.timeout
        if timeout is not None and now - self._started > timeout:
            self.stop(f"stopped after timeout={timeout} s")
        if self.progress is not None and now - self._shown >= self.limits.progress_interval:
            self._shown = now
            done = self.ctas - len(self.waiting) * self.cluster_size - len(self.live)
            self.progress(Progress(now - self._started, self.steps, done, self.ctas))

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

    def retire(self, cta: CTA) -> None:
        """The last thread of a CTA ended: what it left in flight happens, then its place is free."""
        for step in cta.in_flight[::-1]:
            if not step.done and step.operation.engine == "tma" and step.signal is not None:
                operation = step.operation
                self.report(
                    Finding(
                        RULES["exit-in-flight"],
                        f"CTA {cta.coordinates} ended while {operation.name} was writing its shared memory",
                        operation.location,
                        operation.who(),
                    )
                )
            if not step.done:
                self.engines.force(step)
        cta.tensor.at_exit()
        for number, group in cta.warpgroups.items():
            for finding in group.at_exit(number):
                self.report(finding)
        del self.live[cta.number]
        del cta.reach[cta.rank]
        cta.reach.ended.add(cta.rank)
        self.release(cta.registers)
        cta.local_memory.release()
        self._admit()

    # --- engines ------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.memory.version += 1

    def issue(self, cta: CTA, steps: list[Step]) -> None:
        """Put the steps of an operation in flight."""
        self.engines.issue(steps)
        self.policy.issued(self, steps)
        flying = [step for step in steps if not step.done]
        if flying:
            cta.in_flight = [step for step in cta.in_flight if not step.done] + flying

    def operation(self, split: Split, engine: str) -> Operation:
        """A new operation of ``engine`` on behalf of the split's current instruction."""
        assert split.op is not None
        return Operation(split.op.name, engine, split.who(), split.location)

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
        blocks = self.program.blocks
        budget = self.policy.quantum
        divergence = self.divergence
        while True:
            if s.pc == s.rpc:
                merged = divergence.arrive(s)
                if merged is None:
                    return
                s = merged
                if self.policy.together and joins(s):
                    self.wake(s)
                    return
                continue
            if s.pc == EXIT:
                divergence.leave(s, s.mask)
                return
            block = blocks[s.pc]
            if block.collective and not divergence.together(s, block):
                return
            self.count_steps(block.steps)
            if block.call is not None:
                entered = self.calls.enter(s, block)
                if entered is None:
                    return
                s = entered
                continue
            if block.returns:
                s = self.calls.leave(s)
                if self.policy.together and joins(s):
                    self.wake(s)
                    return
                continue
            following = self.run_block(s, block)
            if following is None:
                return
            if following <= s.pc and following != EXIT and self._spins(s, following):
                return
            s.pc = following
            if block.table and self.policy.together and joins(s):
                self.wake(s)
                return
            budget -= 1
            if budget <= 0:
                self.give_way(s)
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
                        s.who(),
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
            if s.lane < 0 and self.policy.together:
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
        wait.split = s
        s.wait = wait
        s.blocks = 0
        key = id(wait)
        self.parked[key] = wait
        if not wait.subscribe(lambda: self._wake(wait)):
            self._polled[key] = wait

    def _wake(self, wait: Wait) -> None:
        if self.parked.pop(id(wait), None) is None:
            return
        self._polled.pop(id(wait), None)
        wait.split.wait = None
        wait.finish()
        self.wake(wait.split)

    def _poll(self) -> bool:
        woken = False
        # One that wakes may take what the next one waits for: ask each in its turn.
        for wait in list(self._polled.values()):
            if wait.over():
                self._wake(wait)
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

    def _time_out_waits(self) -> bool:
        """Nothing else can happen: waits that may give up answer "not yet", once per state of the world."""
        if self._timed_out_at == self.memory.version:
            return False
        self._timed_out_at = self.memory.version
        giving_up = [wait for wait in self.parked.values() if wait.can_time_out]
        for wait in giving_up:
            del self.parked[id(wait)]
            self._polled.pop(id(wait), None)
            wait.split.wait = None
            wait.time_out()
            self.wake(wait.split)
        return bool(giving_up)
