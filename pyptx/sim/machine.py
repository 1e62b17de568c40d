"""The machine of one launch: CTAs admitted up to a residency, their splits, the engines.

Owns the run loop, divergence and reconvergence, parking and waking, and the end of a run.  *What* an
instruction does is in :mod:`.exec`, *which* thing happens next in :mod:`.schedule`.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.findings import RULES, Finding
from ..core.source import SourceLocation
from ..flow.graph import EXIT
from ..ir import Launch
from .events import Engines, Operation, Step
from .memory import Fault, Memory, Segment
from .program import SHARED_START, CodeBlock, Program
from .schedule import Policy
from .tensor_memory import TensorMemory
from .translate import translate
from .waits import Wait
from .warp import FULL_MASK, Group, Split, Warp, mask_of

__all__ = ["CTA", "Machine"]

#: Blocks that a split may run before the machine moves on as if it waited: it may be polling.
_PATIENCE = 4096
#: Runs check the wall clock this often, in turns.
_CLOCK_INTERVAL = 256


class CTA:
    """One cooperative thread array: shared memory, tensor memory, warps."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number
        gx, gy, _ = machine.launch.grid
        self.coordinates = (number % gx, number // gx % gy, number // (gx * gy))
        self.rank = 0
        data = np.zeros(machine.shared_bytes, np.uint8)
        self.shared = Segment(
            f"shared memory of CTA {self.coordinates}", "shared", SHARED_START, data, tracked=True
        )
        #: Shared memories of the cluster that this CTA can reach, by rank.
        self.reach: dict[int, Segment] = {self.rank: self.shared}
        self.tensor = TensorMemory(self)
        threads = int(np.prod(machine.launch.block))
        self.threads = threads
        #: Arrivals at the CTA's barriers: barrier -> threads that wait there, and generation.
        self.bars: dict[int, list[int]] = {}
        #: tcgen05 operations in flight that a commit of (warp, lane) covers.
        self.uncommitted: dict[tuple[int, int], list[Step]] = {}
        #: Last MMA into each accumulator: what a later one with the same key is ordered after.
        self.accumulators: dict[tuple[Any, ...], Step] = {}
        #: Bulk copies of (warp, lane): those not committed, and the committed groups, oldest first.
        self.bulk: dict[tuple[int, int], tuple[list[Any], list[list[Any]]]] = {}
        #: Steps of this CTA in flight.
        self.in_flight: list[Step] = []
        count = (threads + 31) // 32
        self.warps = [Warp(self, i, machine.program, threads - 32 * i) for i in range(count)]
        self.live_warps = count

    def special_registers(self, warp: int) -> dict[str, NDArray[Any]]:
        """Values of the special registers that do not change, per lane."""
        launch = self.machine.launch
        linear = np.arange(32, dtype=np.uint32) + np.uint32(32 * warp)
        bx, by, _ = launch.block
        lane = np.arange(32, dtype=np.uint64)

        def same(value: int) -> NDArray[np.uint32]:
            return np.full(32, value, np.uint32)

        values: dict[str, NDArray[Any]] = {
            "tid.x": linear % bx,
            "tid.y": linear // bx % by,
            "tid.z": linear // (bx * by),
            "laneid": np.arange(32, dtype=np.uint32),
            "warpid": same(warp),
            "nwarpid": same((self.threads + 31) // 32),
            "smid": same(self.number % self.machine.program.target.multiprocessors),
            "nsmid": same(self.machine.program.target.multiprocessors),
            "cluster_ctarank": same(self.rank),
            "cluster_nctarank": same(1),
            "gridid": np.zeros(32, np.uint64),
            "dynamic_smem_size": same(launch.dynamic_smem),
            "total_smem_size": same(self.shared.size),
            "is_explicit_cluster": np.zeros(32, np.bool_),
            "lanemask_eq": (np.uint64(1) << lane).astype(np.uint32),
            "lanemask_lt": ((np.uint64(1) << lane) - np.uint64(1)).astype(np.uint32),
            "lanemask_le": ((np.uint64(2) << lane) - np.uint64(1)).astype(np.uint32),
        }
        values["lanemask_gt"] = ~values["lanemask_le"]
        values["lanemask_ge"] = ~values["lanemask_lt"]
        for axis, position in zip("xyz", range(3), strict=True):
            values[f"ntid.{axis}"] = same(launch.block[position])
            values[f"ctaid.{axis}"] = values[f"clusterid.{axis}"] = same(self.coordinates[position])
            values[f"nctaid.{axis}"] = values[f"nclusterid.{axis}"] = same(launch.grid[position])
            values[f"cluster_ctaid.{axis}"] = same(0)
            values[f"cluster_nctaid.{axis}"] = same(1)
        for name in [name for name in values if name.endswith(".x")]:
            values[name.replace(".x", ".w")] = same(0)
        return values


class Machine:
    """See the module's docstring."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        policy: Policy,
        *,
        max_steps: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self.program, self.launch, self.policy = program, launch, policy
        self.max_steps, self.timeout = max_steps, timeout
        self.shared_bytes = program.shared_bytes(launch.dynamic_smem)
        self.residency = program.residency(int(np.prod(launch.block)), self.shared_bytes)
        self.findings: list[Finding] = []
        self._reported: set[tuple[Any, ...]] = set()
        self.memory = Memory(self.report)
        self.engines = Engines(self._changed)
        self.ready: deque[Split] = deque()
        #: Parked splits' waits, oldest first (a dict for its order).
        self.parked: dict[int, Wait] = {}
        self._polled: dict[int, Wait] = {}
        self.spinning: list[Split] = []
        #: Splits that ran for long without waiting for anything.
        self.busy: list[Split] = []
        self.steps = 0
        self._timed_out_at = -1
        self._started = time.monotonic()
        self._turns = 0
        #: Numbers of the CTAs that have not started.
        self._waiting = range(int(np.prod(launch.grid)))
        self._live: dict[int, CTA] = {}

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
                RULES["uninitialised-read"],
                f"register %{name} is read before anything wrote it",
                location,
                split.who(lane),
            )
        )

    # --- life of a launch ---------------------------------------------------------------------

    def _admit(self) -> None:
        """Fill free places with CTAs, so that the first admitted runs first."""
        new: list[CTA] = []
        while self._waiting and len(self._live) + len(new) < self.residency:
            new.append(CTA(self, self._waiting[0]))
            self._waiting = self._waiting[1:]
        for cta in new[::-1]:
            self._live[cta.number] = cta
            for warp in cta.warps[::-1]:
                self.ready.append(Split(warp, warp.live, 0, []))

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
            self._check_time()
        if self.ready:
            self.policy.before_split(self)
            self._execute(self.policy.split(self))
            return True
        progress = self._progress()
        if self.busy:
            # Perhaps they spin in a way that _spins does not see: each time, something else may happen.
            self.ready.extendleft(self.busy)
            self.busy.clear()
        elif not progress and self._live:
            self._deadlock()
            return False
        return progress or bool(self.ready)

    def _progress(self) -> bool:
        """No thread is ready: let one thing happen that may make one so. False if there is none."""
        if self._poll() or self._wake_spinners():
            return True
        if self.policy.idle(self):
            self._check_time()
            return True
        return bool(self._live) and (self._time_out_waits() or self._release_groups())

    def _check_time(self) -> None:
        if self.timeout is not None and time.monotonic() - self._started > self.timeout:
            self._stop(f"stopped after {self.timeout} s")

    def _stop(self, why: str) -> None:
        raise Fault(Finding(RULES["step-limit"], f"{why}, {self.steps} warp-instructions", None))

    def clock(self, name: str) -> Any:
        """Clock registers: monotonic, one tick a warp-instruction."""
        if name in ("clock64", "globaltimer"):
            return np.uint64(self.steps)
        high = name in ("clock_hi", "globaltimer_hi")
        return np.uint32((self.steps >> 32 if high else self.steps) & FULL_MASK)

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

    def _execute(self, s: Split) -> None:
        """Run ``s`` until it parks, ends, diverges or has used its quantum."""
        blocks = self.program.blocks
        budget = self.policy.quantum
        while True:
            if s.pc == s.rpc:
                merged = self._arrive(s)
                if merged is None:
                    return
                s = merged
                continue
            if s.pc == EXIT:
                self._exit(s, s.mask)
                return
            block = blocks[s.pc]
            if block.collective and not self._together(s, block):
                return
            self.steps += block.steps
            if self.max_steps is not None and self.steps > self.max_steps:
                self._stop(f"stopped at max_steps={self.max_steps}")
            if s.lane >= 0 and not block.deferred:
                following = self._run_lane(s, block)
            else:
                s.scatter()
                following = self._run_array(s, block)
            if following is None:
                return
            if following <= s.pc and following != EXIT and self._spins(s, following):
                return
            s.pc = following
            budget -= 1
            if budget <= 0:
                self._give_way(s)
                return

    def _give_way(self, s: Split) -> None:
        """``s`` has used its quantum: the others get a turn, and now and then the engines too."""
        self._check_time()
        s.blocks += self.policy.quantum
        if s.blocks < _PATIENCE:
            self.ready.appendleft(s)
        else:
            s.blocks = 0
            self.busy.append(s)

    def _run_lane(self, s: Split, block: CodeBlock) -> int | None:
        registers = s.regs if s.regs is not None else s.gather()
        function = block.lane
        if function is None:
            function = block.lane = translate(self.program, block, "lane")
        outcome = function(s, registers)
        if block.yields:
            return self._yielded(s, block, outcome)
        return int(outcome)

    def _run_array(self, s: Split, block: CodeBlock) -> int | None:
        if s.k is None:
            function = block.wide
            if function is None:
                function = block.wide = translate(self.program, block, "wide")
        else:
            function = block.masked
            if function is None:
                function = block.masked = translate(self.program, block, "masked")
        outcome = function(s, s.warp)
        if block.yields:
            return self._yielded(s, block, outcome)
        if block.guard is None:
            return block.taken if block.taken is not None else block.next
        place, negated = block.guard
        flags = s.warp.p[place.row]
        mask = mask_of(flags) & s.mask
        if negated:
            mask ^= s.mask
        if mask == s.mask:
            return block.taken
        if mask == 0:
            return block.next
        self._diverge(s, block, mask)
        return None

    def _yielded(self, s: Split, block: CodeBlock, wait: Wait | None) -> int | None:
        assert block.next is not None
        if wait is None or wait.over():
            if wait is not None:
                wait.finish()
            return block.next
        s.pc = block.next
        self._park(s, wait)
        return None

    def _spins(self, s: Split, target: int) -> bool:
        """Park ``s`` if it takes the same back edge with the same registers and nothing changed."""
        version = self.memory.version
        last = s.spin
        if last is None or last[0] != target or last[1] != version:
            s.spin = (target, version, None)
            return False
        registers = s.snapshot()
        if last[2] != registers:
            s.spin = (target, version, registers)
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
        self.ready.append(wait.split)

    def _poll(self) -> bool:
        woken = False
        # One that wakes may take what the next one waits for: ask each in its turn.
        for wait in list(self._polled.values()):
            if wait.over():
                self._wake(wait)
                woken = True
        return woken

    def _wake_spinners(self) -> bool:
        woken = [s for s in self.spinning if s.spin is None or s.spin[1] != self.memory.version]
        if woken:
            self.spinning = [
                s for s in self.spinning if s.spin is not None and s.spin[1] == self.memory.version
            ]
            for s in woken:
                s.spin = None
            self.ready.extend(woken)
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
            self.ready.append(wait.split)
        return bool(giving_up)

    # --- divergence ---------------------------------------------------------------------------

    def _diverge(self, s: Split, block: CodeBlock, taken: int) -> None:
        assert block.taken is not None and block.next is not None
        stack = s.stack
        if block.rpc != EXIT:
            group = Group(s.mask, block.rpc)
            s.warp.groups.append((group, stack))
            stack = [*stack, group]
        s.scatter()
        parts = [
            Split(s.warp, s.mask & ~taken, block.next, stack),
            Split(s.warp, taken, block.taken, stack),
        ]
        for part in parts:
            # Both may be there already: a branch to the next statement.
            ready = self._arrive(part) if part.pc == part.rpc else part
            if ready is not None:
                self.ready.append(ready)

    def _arrive(self, s: Split) -> Split | None:
        """``s`` has reached its reconvergence point: the merged split if it was the last."""
        s.scatter()
        group = s.stack[-1]
        group.arrived |= s.mask
        return self._merge(s.warp, group, s.stack[:-1]) if group.arrived == group.expected else None

    @staticmethod
    def _merge(warp: Warp, group: Group, stack: list[Group]) -> Split | None:
        warp.groups = [(g, outer) for g, outer in warp.groups if g is not group]
        return Split(warp, group.arrived, group.rpc, stack) if group.arrived else None

    def _exit(self, s: Split, mask: int) -> None:
        """Lanes of ``mask`` end."""
        warp = s.warp
        s.scatter()
        warp.live &= ~mask
        for group, stack in list(warp.groups):
            group.expected &= ~mask
            if group.arrived == group.expected:
                merged = self._merge(warp, group, stack)
                if merged is not None:
                    self.ready.append(merged)
        self.memory.version += 1
        self._regather(warp)
        if not warp.live:
            warp.cta.live_warps -= 1
            if not warp.cta.live_warps:
                self._retire(warp.cta)

    def _retire(self, cta: CTA) -> None:
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
        del self._live[cta.number]
        self._admit()

    def _release_groups(self) -> bool:
        """Independent progress: lanes parked at a reconvergence point go on without the others."""
        for cta in self._live.values():
            for warp in cta.warps:
                for group, stack in warp.groups[::-1]:
                    if group.arrived:
                        self.ready.append(Split(warp, group.arrived, group.rpc, stack))
                        group.expected &= ~group.arrived
                        group.arrived = 0
                        return True
        return False

    # --- collectives --------------------------------------------------------------------------

    def _together(self, s: Split, block: CodeBlock) -> bool:
        """Whether all lanes that must execute the block's collective are in ``s``; else ``s`` parks."""
        needed = self._needed(s, block)
        if s.mask & needed == needed:
            return True
        warp = s.warp
        s.scatter()
        waiting = warp.gathering.setdefault(s.pc, [])
        waiting.append(s)
        self._regather(warp)
        return False

    def _needed(self, s: Split, block: CodeBlock) -> int:
        if block.collective == "warp":
            return s.warp.live
        mask = block.ops[0][1].binding.operands["membermask"]
        value = getattr(mask, "value", None)
        if value is None:
            place = self.program.places[mask.name]  # type: ignore[union-attr]
            value = int(s.warp.u32[place.row, s.lanes[0]]) if s.regs is None else s.regs[place.index]
        return int(value) & s.warp.live

    def _regather(self, warp: Warp) -> None:
        """Merge lanes that wait at one collective once all that it needs are there."""
        for pc, waiting in list(warp.gathering.items()):
            union = 0
            for s in waiting:
                union |= s.mask
            needed = self._needed(waiting[0], self.program.blocks[pc])
            if union & needed != needed:
                continue
            del warp.gathering[pc]
            # Lanes keep the divergent branches that they are all inside of.
            common: list[Group] = []
            for level in zip(*(s.stack for s in waiting), strict=False):
                if any(group is not level[0] for group in level):
                    break
                common.append(level[0])
            for s in waiting:
                for group in s.stack[len(common) :]:
                    group.expected &= ~s.mask
            for group, stack in list(warp.groups):
                if group.arrived and group.arrived == group.expected:
                    merged = self._merge(warp, group, stack)
                    if merged is not None:
                        self.ready.append(merged)
            self.ready.append(Split(warp, union, pc, common))

    # --- deadlock -----------------------------------------------------------------------------

    def _deadlock(self) -> None:
        """Report every warp that waits, with the state of what it waits on."""
        lines: list[str] = []
        others: list[tuple[str, Any]] = []
        location = None
        for wait in self.parked.values():
            s = wait.split
            lines.append(f"{s.who()} {wait.describe()}")
            others.append((f"{s.who()} waits", s.location))
            barrier = getattr(wait, "barrier", None)
            if barrier is not None:
                others.append((f"mbarrier {barrier.name} was initialised", barrier.location))
            location = location or s.location
        for s in self.spinning:
            lines.append(f"{s.who()} spins: nothing that it reads changes any more")
            others.append((f"{s.who()} spins", s.location))
            location = location or s.location
        for cta in self._live.values():
            for warp in cta.warps:
                for pc, waiting in warp.gathering.items():
                    instruction = self.program.blocks[pc].ops[0][0]
                    for s in waiting:
                        missing = self._needed(s, self.program.blocks[pc])
                        lines.append(
                            f"{s.who()} waits at {instruction.name} for lanes "
                            f"{missing & ~s.mask:#010x} of its warp, which are elsewhere"
                        )
                        others.append((f"{s.who()} waits", instruction.source))
                        location = location or instruction.source
        shown = _summarise(lines)
        if self._waiting:
            shown.append(f"{len(self._waiting)} CTAs have not started: {self.residency} run at once")
        unique = [o for o in dict.fromkeys(others) if o[1] is not None][:_MAX_LISTED]
        rule = "deadlock"
        if lines and all("of its warp, which are elsewhere" in line for line in lines):
            rule = "divergent-collective"
        self.report(
            Finding(
                RULES[rule], "no thread can run:\n    " + "\n    ".join(shown), location, "", tuple(unique)
            )
        )


#: Lines of a deadlock report before the rest is counted.
_MAX_LISTED = 24


def _summarise(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LISTED:
        return lines
    return [*lines[:_MAX_LISTED], f"... and {len(lines) - _MAX_LISTED} more"]
