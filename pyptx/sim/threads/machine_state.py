"""The state of one simulated run, and the functions that threads, engines and instructions call on it.

Owns memory, the engines, the launches' accounts, limits, clocks, findings, storage of threads, and the splits
that can run. The run loop, which derives from it, is :class:`pyptx.sim.machine.machine.Machine`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...core.findings import RULES, Finding
from ...core.remedies import Remedy
from ...core.source import SourceLocation
from ...isa import Target
from ..code.function import FunctionCode
from ..engine.accounts import LaunchAccount
from ..engine.events import AsyncOperation, Engine, Engines, Step
from ..engine.stream import EventStream, GroupKind, Life, LifeKind, Observer, ThreadWait
from ..engine.waits import Wait
from ..memory.address_space import Memory
from ..memory.mbarrier import MBarrier
from ..memory.segments import Fault, Segment
from .choices import ScheduleChoices
from .divergence import Divergence
from .frames import Registers
from .limits import Limits, Progress
from .origins import Origins
from .residency import Residency
from .warp import FULL_MASK, Split

if TYPE_CHECKING:
    from .cta import CTA
    from .grid import Grid

__all__ = ["Adviser", "MachineState"]

#: Blocks that a split may run before the machine proceeds as if the split waited, since it may be polling.
_PATIENCE = 4096


class Adviser(Protocol):
    """Knows what the threads did before a finding: why the rule is broken, and what mends the kernel."""

    def stuck(
        self,
        cta: tuple[int, int],
        threads: Sequence[int],
        barrier: MBarrier,
        location: SourceLocation | None,
    ) -> tuple[str, Remedy]:
        """Advise threads of a CTA that wait for a phase of an mbarrier which never completes."""

    def outlives(self, operation: AsyncOperation) -> tuple[str, Remedy]:
        """Advise on an operation that may need the memory of a CTA that has ended."""


class MachineState:
    """The state of one run. ``progress`` is called repeatedly with the progress of a long run."""

    def __init__(
        self,
        target: Target,
        policy: ScheduleChoices,
        limits: Limits,
        *,
        progress: Callable[[Progress], None] | None = None,
        started: float | None = None,
    ) -> None:
        self.target, self.policy, self.limits = target, policy, limits
        self.progress = progress
        #: The launches of the stream in order.
        self.grids: list[Grid] = []
        #: Account of the launch whose thread or engine acts now. Steps, events and findings count for it.
        self.account: LaunchAccount
        self._counted = self._happened = 0
        self.residency = Residency(self)
        self._reported: set[tuple[Any, ...]] = set()
        self.memory = Memory(self.report)
        #: The loads that read unwritten memory.
        self.origins = Origins(self.report)
        self.memory.on_use = self.origins.used
        #: The threads and operations that completed a phase of an mbarrier in this turn.
        self.completed: list[Split | AsyncOperation] = []
        #: The stream of all events for the machine's observers.
        self.stream = EventStream()
        self.engines = Engines(self._charge_operation, self._changed, self.stream)
        self.divergence = Divergence(self)
        self.printed_characters = 0
        #: Live allocations of the device's heap: address to the bytes that the allocation takes.
        self.heap: dict[int, int] = {}
        self.heap_bytes = 0
        #: Splits that can run, the newest last.
        self.ready: deque[Split] = deque()
        #: Splits that take the same back edge repeatedly while memory does not change.
        self.spinning: list[Split] = []
        #: Splits that have run many blocks without a wait.
        self.busy: list[Split] = []
        #: Warp-instructions executed.
        self.steps = 0
        #: Bytes of the host's memory that registers and local memory take.
        self.held = 0
        #: Says what mends a kernel whose threads wait in vain, or whose operations outlive their CTA.
        self.adviser: Adviser | None = None
        self._ticks = self._slept = 0
        #: Time when the run began. Preparing the code is part of the run.
        self._started = time.monotonic() if started is None else started
        self._shown = self._started
        self._free: dict[tuple[FunctionCode, int], list[Registers]] = {}
        #: The waits of which the observers know.
        self._told: dict[Split, ThreadWait] = {}

    def observe(self, observer: Observer) -> None:
        """Send all further events to ``observer``."""
        self.stream.add(observer)
        self.memory.observers = [self.stream.access]
        self.memory.on_life = self._tell_life

    def _tell_life(self, segment: Segment, begins: bool) -> None:
        life = Life(LifeKind.SEGMENT, segment.base, segment.size, segment.name)
        (self.stream.begin if begins else self.stream.end)(life)

    # --- storage of threads ---------------------------------------------------------------------

    def registers(self, code: FunctionCode, warps: int) -> Registers:
        """Return registers for ``warps`` warps in one activation of a function."""
        free = self._free.get((code, warps))
        if free:
            found = free.pop()
            found.clear()
            return found
        self.take(32 * warps * code.register_bytes)
        return Registers(code, warps)

    def take(self, nbytes: int) -> None:
        """Add ``nbytes`` to the host memory that the threads use; a negative number frees memory.

        Ends the run at the limit.
        """
        self.held += nbytes
        if self.held > 2 * self.limits.memory:
            self.stop(
                f"stopped: the state of the threads takes more than twice memory={self.limits.memory} bytes"
            )

    def release(self, registers: Registers) -> None:
        """Store registers that no activation uses any more, so that later activations can reuse them."""
        self._free.setdefault((registers.code, registers.warps), []).append(registers)

    # --- findings -------------------------------------------------------------------------------

    def report(self, finding: Finding, account: LaunchAccount | None = None) -> None:
        """Store a finding about the current launch, or about the launch of ``account``.

        Further findings of the same rule at the same line are dropped.
        """
        account = self.account if account is None else account
        what = finding.message if finding.location is None else ""
        key = (account.number, finding.rule.name, finding.location, what)
        if key not in self._reported:
            self._reported.add(key)
            account.findings.append(finding)

    def report_operation(self, rule: str, message: str, operation: AsyncOperation) -> None:
        """Store a finding about an operation that no wait covers."""
        why, remedy = "", None
        if self.adviser is not None:
            why, remedy = self.adviser.outlives(operation)
        self.report(
            Finding(
                RULES[rule],
                message,
                operation.location,
                operation.description(),
                why=why,
                remedy=remedy,
            )
        )

    def fault(
        self,
        rule: str,
        message: str,
        actor: Any,
        lane: int | None = None,
        *,
        remedy: Remedy | None = None,
    ) -> Fault:
        """Return a fault with a finding that ends the run; ``remedy`` is what mends this kernel, if known.

        For a trap the message names the wait that timed out before.
        """
        others: tuple[tuple[str, SourceLocation | None], ...] = ()
        if rule == "trap":
            given_up = getattr(actor, "split", actor).warp.given_up
            if given_up is not None and not given_up[0].over():
                message += f"; an earlier wait of its warp had timed out: it {given_up[0].describe()}"
                others = (("the wait that timed out", given_up[1]),)
        # For a collective, the section of the instruction is more specific than the rule's.
        op = actor.op if rule in ("divergent-collective", "member-mask") else None
        anchor = op.binding.match.form.anchor if op is not None else ""
        return Fault(
            Finding(
                RULES[rule],
                message,
                actor.location,
                actor.description(lane),
                others,
                anchor=anchor,
                remedy=remedy,
            )
        )

    def uninitialized_register(
        self, split: Split, name: str, lane: int, location: SourceLocation | None
    ) -> None:
        self.report(
            Finding(
                RULES["undefined-register"],
                f"register %{name} is read before any instruction wrote it",
                location,
                split.description(lane),
            )
        )

    # --- limits and clocks ----------------------------------------------------------------------

    def check_time(self) -> None:
        """End the run if its time is over. Report the progress at intervals."""
        now = time.monotonic()
        timeout = self.limits.timeout
        if timeout is not None and now - self._started > timeout:
            self.stop(f"stopped after timeout={timeout} s")
        if self.progress is not None and now - self._shown >= self.limits.progress_interval:
            self._shown = now
            ctas = sum(grid.ctas for grid in self.grids)
            left = sum(grid.outside * grid.cluster_size + grid.live for grid in self.grids)
            self.progress(Progress(now - self._started, self.steps, ctas - left, ctas))

    def count_steps(self, steps: int) -> None:
        """Count ``steps`` more warp-instructions. End the run at the limit."""
        self.steps += steps
        if self.steps > self.limits.max_steps:
            self.stop(f"stopped at max_steps={self.limits.max_steps}")

    def stop(self, why: str) -> None:
        raise Fault(Finding(RULES["step-limit"], f"{why}, after {self.steps} warp-instructions", None))

    def clock(self, name: str) -> Any:
        """Return the value of a clock register."""
        ticks = self.ticks(name)
        if name in ("clock64", "globaltimer"):
            return np.uint64(ticks)
        high = name in ("clock_hi", "globaltimer_hi")
        return np.uint32((ticks >> 32 if high else ticks) & FULL_MASK)

    def ticks(self, name: str) -> int:
        """Return the time of a clock register, in cycles, or in ns for ``globaltimer``.

        Here the clocks advance by one for each warp-instruction and for each ns of sleep, and no two reads
        return the same value. A machine that keeps time returns its time.
        """
        self._ticks = max(self._ticks + 1, self.steps + self._slept)
        return self._ticks

    def sleep(self, nanoseconds: int) -> None:
        """Advance the clocks by the time that a thread slept."""
        self._slept += nanoseconds

    def fetch_map(self, cta: CTA, address: int) -> None:
        """Bring the tensor map at a generic address into the cache of a CTA's multiprocessor.

        No thread can observe it. A machine that keeps time notes when the map comes.
        """

    # --- engines --------------------------------------------------------------------------------

    def issue(self, cta: CTA, steps: list[Step]) -> None:
        """Put the steps of an asynchronous operation of ``cta`` in flight."""
        self.engines.issue(steps)
        self.issued(steps)
        if cta.grid.account is not self.account:
            # The schedule may have executed operations of other launches.
            self.charge(cta.grid.account)
        flying = [step for step in steps if not step.done]
        if flying:
            cta.in_flight = [step for step in cta.in_flight if not step.done] + flying

    def issued(self, steps: list[Step]) -> None:
        """Called after ``steps`` were put in flight. The schedule may execute steps that are ready."""
        raise NotImplementedError

    def operation(
        self,
        split: Split,
        engine: Engine,
        *,
        takes_padding: bool = False,
        group: GroupKind | None = None,
    ) -> AsyncOperation:
        """Return a new operation of ``engine`` on behalf of the split's current instruction.

        ``group`` is the kind of groups by which threads wait for it, if there is one.
        """
        assert split.op is not None
        issuer, actors, location = split.warp.issuer, split.actors, split.location
        return AsyncOperation(
            split.op.name, engine, issuer, actors, location, takes_padding=takes_padding, group=group
        )

    def _changed(self) -> None:
        self.memory.version += 1

    def charge(self, account: LaunchAccount) -> None:
        """Count the instructions since the last call for the current launch, then switch to ``account``."""
        self.account.steps += self.steps - self._counted
        self.account.events += self.engines.executed - self._happened
        self._counted, self._happened = self.steps, self.engines.executed
        self.account = account

    def _charge_operation(self, operation: AsyncOperation) -> None:
        """Switch to the account of the operation's launch. Called when a step of ``operation`` happens."""
        if operation.issuer.account is not self.account:
            self.charge(operation.issuer.account)

    # --- waits, for observers -------------------------------------------------------------------

    def tell_wait(self, s: Split, wait: Wait) -> None:
        """Send the observers of waits the event that ``s`` begins to wait."""
        if self.stream.waiting:
            name = s.op.name if s.op is not None else ""
            told = ThreadWait(s.warp.cta.key, s.warp.index, s.mask, name, wait, s.location)
            self._told[s] = told
            self.stream.waits(told)

    def tell_resumed(self, s: Split) -> None:
        """Send the observers of waits the event that ``s`` no longer waits."""
        told = self._told.pop(s, None)
        if told is not None:
            self.stream.resumes(told)

    def phase_completed(self, barrier: MBarrier, actor: Any) -> None:
        """Record that ``actor``, a thread or an operation, has completed a phase of ``barrier``."""
        self.completed.append(actor)
        if self.stream.waiting:
            self.stream.completes(barrier)

    # --- splits that can run --------------------------------------------------------------------

    def wake(self, s: Split) -> None:
        """Make ``s`` ready to run."""
        s.queued = True
        self.ready.append(s)
        self._note_whole(s)

    def give_way(self, s: Split, blocks: int) -> None:
        """Give other splits, and sometimes the engines, a turn after ``s`` has run ``blocks`` blocks."""
        self.check_time()
        s.blocks += blocks
        self._note_whole(s)
        if s.blocks < _PATIENCE:
            s.queued = True
            self.ready.appendleft(s)
        else:
            s.blocks = 0
            self.busy.append(s)

    @staticmethod
    def _note_whole(s: Split) -> None:
        """Remember a split that has all live lanes of its warp, since it may join a team."""
        if s.mask == s.warp.live:
            s.warp.whole = s
