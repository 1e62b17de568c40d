"""A machine that keeps time: every block of code and every step happens when its resources allow.

Owns the queue of events in order of time, and the times of warps and steps. A warp runs one block at a time;
its next block begins when the block's instructions have been issued and its waits are over. A step happens
when the units of its multiprocessor have done it. The order of all events is the order of their times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from heapq import heappop, heappush
from itertools import count

from ...isa import Target
from ...isa.table import chapter_of
from ...timeline import Cause
from ..code.function import CodeBlock
from ..code.program import EntryProgram
from ..engine.events import AsyncOperation, Engine, Step, StepKind, nothing
from ..engine.stream import GroupKind, Observer
from ..engine.waits import Awaited, BarrierPhase, Condition, Wait
from ..engine.work import Copy, Product, ThreadCopy
from ..machine.machine import CTA, Machine
from ..machine.schedule import Policy
from ..memory.access import Access, AccessKind, StateSpace
from ..threads.limits import Limits
from ..threads.multiprocessor import Multiprocessor
from ..threads.warp import Split
from .accesses import ThreadAccesses
from .costs import Costs
from .counters import Counters
from .figures import WARP_ROWS, WARPGROUP, Figures
from .flags import Flags
from .products import Products
from .stalls import Passage, StallLog
from .starts import Start, Starts
from .units import Contention, Units
from .unknown import Unknown

__all__ = ["Timed", "TimedMachine"]

#: Chapters of the instruction table of which only the forms of ``_LOUD`` end waits that must be polled.
_QUIET = frozenset({"bulk_copy", "data_movement", "mbarrier", "tcgen05_mma", "tensor_copy", "wgmma"})
_LOUD = frozenset({"wgmma.commit_group"})
_CLUSTER_WAIT = "barrier.cluster.wait"
_PRODUCT_FENCE = "wgmma.fence"
#: For how long CTAs count as in step, in ns.
_IN_STEP = 5000.0
#: From how many CTAs on that ask for the same bytes one of them is taken for the first.
_SHARED = 4.0
#: Events between two questions whether the run may end.
_ASKED = 2048
#: Kinds of groups of operations that write registers.
_IN_REGISTERS = frozenset({GroupKind.WGMMA, GroupKind.TCGEN05_LD})
#: What the forms of products, and of loads of the copy engine, begin with.
_WORK = ("mma.", "wgmma.mma", "cp.async.bulk.load", "cp.async.bulk.tensor.load")
#: What the forms of products begin with whose shape is in a descriptor.
_BY_VALUES = "tcgen05.mma"
#: Kinds of groups whose waits must be polled.
_POLLED = frozenset({GroupKind.CP_ASYNC})


@cache
def _works(block: CodeBlock) -> bool:
    """True if the block has a product of the tensor core, or loads bytes or a box with the copy engine."""
    return any(op.binding.form_id.startswith(_WORK) for _, op in block.ops)


@cache
def _shaped_by_values(program: EntryProgram) -> bool:
    """True if values in registers, not instructions, say which shape products have."""
    return any(op.binding.form_id.startswith(_BY_VALUES) for block in program.blocks for _, op in block.ops)


@cache
def _disturbs(block: CodeBlock) -> bool:
    """True if the block may end a wait of another warp that must be polled."""
    forms = [op.binding.form_id for _, op in block.ops if op.semantic.per != "value"]
    return any(form in _LOUD or chapter_of(form) not in _QUIET for form in forms)


@cache
def _fences_products(block: CodeBlock) -> bool:
    """True if the block has a ``wgmma.fence``."""
    return any(op.binding.form_id == _PRODUCT_FENCE for _, op in block.ops)


@cache
def _waits_for_cluster(block: CodeBlock) -> bool:
    """True if the block ends with a wait at the barrier of the cluster."""
    return bool(block.ops) and block.ops[-1][1].binding.form_id == _CLUSTER_WAIT


class Timed(Policy):
    """The schedule of a timed machine: times decide everything."""

    name = "timed"
    warp_teams = False
    interleaves = True
    keeps_permits = True

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        assert isinstance(machine, TimedMachine)
        machine.put_in_flight(steps)

    def turn(self) -> int:
        return 1


class TimedMachine(Machine):
    """A machine whose events happen in the order of their times, in cycles of the multiprocessor.

    Args:
        figures: the figures of the GPU.
        costs: the cost of each block of code.
        contention: what the other multiprocessors of the chip leave.
        probe: loads of a CTA after which its threads stop; None for a whole run.
        enough: asked now and then; True ends the run.
        together: CTAs of a wave that run here.
    """

    def __init__(
        self,
        target: Target,
        limits: Limits,
        figures: Figures,
        costs: Costs,
        contention: Contention,
        *,
        probe: int | None = None,
        enough: Callable[[TimedMachine], bool] | None = None,
        started: float | None = None,
        together: int = 1,
    ) -> None:
        super().__init__(target, Timed(), limits, started=started)
        self._together = together
        self.figures, self._costs = figures, costs
        self._contention, self._probe, self._enough = contention, probe, enough
        #: Stores to global memory: when, and into what.
        self.store_times: list[float] = []
        self.store_places: set[int] = set()
        #: What was stored, in the order of ``store_times``.
        self.stores: list[Copy] = []
        #: At each store: when it was issued, and the operations and the number of loads until then.
        self.work_done: list[tuple[float, int, int]] = []
        #: True if something was added to global memory: bytes of outputs may be stored again and again.
        self.adds = False
        self._loaded: dict[tuple[int, int], int] = {}
        #: When a CTA of a wave has issued its nth load first, by the number of the wave and n.
        self._first_asked: dict[tuple[int, int], float] = {}
        #: When each CTA starts.
        self._starts: dict[tuple[int, int], Start] = {}
        self._starter = Starts(figures, contention.sharers)
        #: The time of the event that happens now.
        self.now = figures.start
        #: When the running warp is through its block; ``now`` outside of blocks.
        self._through = self.now
        #: When the running warp began its block; while a wait ends, when the waiting warp goes on.
        self.block_began = self.now
        self._numbers = count()
        self._events: list[tuple[float, int, Split | Step | Callable[[], None]]] = []
        self._due: dict[Step, float] = {}
        self._after: dict[Step, list[Step]] = {}
        self._products = Products(figures, self)
        #: The ranks that a multicast has not reached yet.
        self._targets: dict[AsyncOperation, list[int]] = {}
        self._units: dict[int, Units] = {}
        self._places: dict[tuple[int, int], list[Multiprocessor]] = {}
        self._parked_since: dict[Split, float] = {}
        self._running: Split | None = None
        #: The blocks that have run, and when one that works ran for the first time last.
        self._ran: set[CodeBlock] = set()
        self._newest = self.now
        #: For each statement of the running block, how long before its end it is issued.
        self._behind: Mapping[int, float] = {}
        self._serialized = False
        #: Extra time after which a split that is woken goes on.
        self._latency = 0.0
        #: True if the last event may have ended a wait that must be polled.
        self._disturbed = False
        #: For each barrier of a cluster, how many phases it has completed, and when the last.
        self._cluster_phases: dict[tuple[int, int], tuple[int, float]] = {}
        #: The splits that wait for products of which some warps of the warpgroup have not committed theirs.
        self._late: dict[Split, Wait] = {}
        #: The splits that wait for steps, by step.
        self._awaiting: dict[Step, list[tuple[Split, Wait]]] = {}
        #: Where warps wait, and the operation whose step has just ended waits.
        self.stalls = StallLog()
        self._ender: AsyncOperation | None = None
        #: For each load of a probe, the multiprocessor.
        self.loaders: list[int] = []
        #: Loads from global memory, and the CTA of each.
        self.loads: list[Copy] = []
        #: Bytes that threads have loaded again while L2 had them still.
        self.again = 0.0
        self.loading: list[tuple[int, int]] = []
        self._adds_nothing = False
        self._accesses = ThreadAccesses(self._note_access, self._starts, figures.shared_use)
        self._unknown, self._counters = Unknown(frozenset()), Counters(frozenset(), 1)
        self._flags = Flags(frozenset())
        self.memory.observers = [self._note]
        #: Floating-point operations of the tensor core.
        self.flops = 0
        #: Bytes that tensor cores read from shared memory, and bytes that are stored to global memory.
        self.operand_bytes = self.stored = 0.0
        self.end = self.now
        force = self.engines.force

        def wait_and_force(step: Step) -> None:
            s, due = self._running, self._due.get(step, 0.0)
            if s is not None:
                if due > self._through:
                    name = s.op.name if s.op is not None else ""
                    mma = step.operation.engine is Engine.MMA
                    cause = Cause.MMA if mma else Cause.TENSOR_MEMORY
                    self.stalls.held(s, name, s.location, cause, self._through, due)
                self._through = max(self._through, due)
            force(step)

        self.engines.force = wait_and_force  # type: ignore[method-assign]

    def hide(self, bases: frozenset[int], written: frozenset[int], alike: frozenset[int]) -> None:
        """Take the contents of arrays as unknown: given ones, and those that others may have written.

        Those at ``alike`` hold one number everywhere.
        """
        self._unknown = Unknown(bases, written, alike)

    def assume_zeros(self) -> None:
        """Take the sums of all products as those of zeros: what a product adds to D is not computed."""
        self._adds_nothing = True

    def count(self, bases: frozenset[int], positions: int) -> None:
        """Take the words at these addresses as counters of a launch for which so many positions stand."""
        self._counters = Counters(bases, positions)

    def wait_by_flags(self, bases: frozenset[int]) -> None:
        """Take words of the arrays at these addresses as flags that CTAs elsewhere set."""
        self._flags = Flags(bases)

    def observe(self, observer: Observer) -> None:
        super().observe(observer)
        self.memory.observers = [self._note, self.stream.access]

    @property
    def moment(self) -> float:
        """When the event happens that the machine sends to observers now."""
        return (self._through if self._running is not None else self.now) + self._latency

    def ticks(self, name: str) -> int:
        """Return the time at which the running warp is through its block."""
        time = self.now if self._running is None else self._through
        return int(time / self.figures.ghz if name.startswith("globaltimer") else time)

    def sleep(self, nanoseconds: int) -> None:
        """Let the running warp go on later; without one, let the time pass."""
        cycles = nanoseconds * self.figures.ghz
        if self._running is None:
            self.now += cycles
        else:
            self._through += cycles

    def fetch_map(self, cta: CTA, address: int) -> None:
        """Bring a tensor map to a multiprocessor from the issue of the running instruction on."""
        self.units(cta.multiprocessor).fetch_map(self._issue_time(), address)

    # --- the units --------------------------------------------------------------------------------

    def units(self, where: Multiprocessor) -> Units:
        """Return the units of a multiprocessor."""
        found = self._units.get(where.number)
        if found is None:
            found = self._units[where.number] = Units(self.figures, self._contention)
        return found

    @property
    def backlog(self) -> float:
        """Cycles that memory goes on after the last event, for stores that it has not taken yet.

        L2 takes stores that memory has no time for, and then has no place for what is read next: a launch
        that leaves them behind makes the next one wait as long.
        """
        return max(0.0, *(units.memory.free - self.end for units in self._units.values()))

    @property
    def filled(self) -> float:
        """When L2 has begun to write back what is stored; infinite before."""
        return max((units.filled for units in self._units.values()), default=0.0)

    @property
    def first_loads(self) -> list[Copy]:
        """The loads of the CTA that loaded first."""
        return [load for load, cta in zip(self.loads, self.loading, strict=True) if cta == self.loading[0]]

    @property
    def steered(self) -> bool:
        """True if contents of arrays, such as sizes of groups, have decided where a thread goes."""
        return self._unknown.steered

    @property
    def known(self) -> float:
        """When every product and every load of the copy engine in the code had run once; infinite before.

        It is infinite, too, where descriptors say which shape products have: code then does not tell.
        """
        program = self.grids[0].program
        left = set(program.blocks) - self._ran
        return math.inf if _shaped_by_values(program) or any(map(_works, left)) else self._newest

    def shares(self, cycles: float) -> dict[str, float]:
        """Return the share of ``cycles`` for which each unit of the busiest multiprocessor worked."""
        found: dict[str, float] = {}
        for units in self._units.values():
            for name, time in units.busy().items():
                found[name] = max(found.get(name, 0.0), time / cycles)
        return found

    # --- the queue --------------------------------------------------------------------------------

    def wake(self, s: Split) -> None:
        s.queued = True
        base = self._through if self._running is not None else self.now
        cta = s.warp.cta
        if cta.key not in self._starts:
            wave = len(self._starts) // self._together
            self._starts[cta.key] = Start(self._starter.start(cta, base), wave)
            self.stalls.begins(cta.key, self._starts[cta.key].time)
        base = max(base, self._starts[cta.key].time)
        heappush(self._events, (base + self._latency, next(self._numbers), s))
        self._note_whole(s)

    def give_way(self, s: Split, blocks: int) -> None:
        self.check_time()
        s.queued = True
        heappush(self._events, (self._through, next(self._numbers), s))

    def turn(self) -> bool:
        self._turns += 1
        if self._turns % 256 == 0:
            self.check_time()
        if self._turns % _ASKED == 0 and self._enough is not None and self._enough(self):
            return False
        if self.residency.undecided:
            self.residency.admit()
        if not self._events:
            return self._probe is None and self._progress()
        self.now, _, item = heappop(self._events)
        self.end = max(self.end, self.now)
        if isinstance(item, Step):
            self._happen(item)
        elif not isinstance(item, Split):
            item()
        elif not item.queued or self._products.hold(item, self.units(item.warp.cta.multiprocessor)):
            pass
        elif not self._stopped(item):
            item.queued = False
            if item.warp.issuer.account is not self.account:
                self.charge(item.warp.issuer.account)
            self.polled.touch(item.warp.issuer.cluster)
            self._running, self._through = item, self.now
            self.execute(item)
            if not item.queued:
                self.stalls.lived(item, self._through)
            self._running = None
            self._disturbed |= not item.queued and item not in self.parked
            self.end = max(self.end, self._through)
        self.completed.clear()
        if self._disturbed:
            self._disturbed = False
            self.poll()
        if self.spinning:
            self._latency = self.figures.wake
            self._wake_spinners()
            self._latency = 0.0
        return True

    def call_at(self, time: float, call: Callable[[], None]) -> None:
        """Call back when all that happens before ``time`` has happened."""
        heappush(self._events, (time, next(self._numbers), call))

    def goes_on(self, s: Split, since: float, cause: Cause) -> None:
        """Let a warp go on that has waited ``since`` a time to issue a product."""
        if s.op is not None and self.now > since:
            self.stalls.held(s, s.op.name, s.location, cause, since, self.now)
        heappush(self._events, (self.now, next(self._numbers), s))

    def _note(self, access: Access) -> None:
        s = self._running
        known = s is not None and (self._counters.counts(access, s.op) or self._flags.polls(s, access))
        if not known:
            self._unknown.check(s, access)
            self.adds |= access.kind is AccessKind.RMW and access.space is StateSpace.GLOBAL
        self._accesses.note(access)

    def _note_access(self, cta: tuple[int, int], copy: Copy, fresh: bool) -> None:
        if not copy.loads:
            self._note_store(self._through, copy)
        elif fresh:
            self._note_load(cta, copy)
        else:
            self.again += copy.nbytes
            self._count_load(cta)

    def _note_store(self, time: float, copy: Copy) -> None:
        if copy.source is not None:
            self.stored += copy.nbytes
            self.store_times.append(time)
            self.work_done.append((time, self.flops, len(self.loads)))
            self.store_places.add(copy.source[0])
            self.stores.append(copy)

    def _note_load(self, cta: tuple[int, int], copy: Copy) -> None:
        self.loads.append(copy)
        self.loading.append(cta)
        if self._probe is not None:
            self.loaders.append(self._place(cta)[0].number)
        self._count_load(cta)

    def _count_load(self, cta: tuple[int, int]) -> None:
        self._loaded[cta] = self._loaded.get(cta, 0) + 1

    def _stopped(self, s: Split) -> bool:
        """True if a probe has seen enough of the split's CTA."""
        return self._probe is not None and self._loaded.get(s.warp.cta.key, 0) >= self._probe

    def run_block(self, s: Split, block: CodeBlock) -> int | None:
        cost = self._costs(block)
        if block not in self._ran:
            self._ran.add(block)
            if _works(block):
                self._newest = self.now
        self._disturbed |= _disturbs(block)
        units = self.units(s.warp.cta.multiprocessor)
        fetched = units.code.fetch(self._through, cost.lines) if units.code else self._through
        ready = self._accesses.ready(s, block, self._through, cost)
        begun = max(fetched, ready)
        issued = units.issue(
            s.warp,
            (s.warp.cta.key, s.warp.index // WARPGROUP),
            s.warp.index % self.figures.schedulers,
            self._through,
            begun,
            cost.cycles,
            cost.issues,
            cost.pipes,
            cost.dense,
            cost.runs,
        )
        if begun > self._through:
            cause = Cause.CODE if fetched == begun else Cause.MEMORY
            self._hold(s, block, cause, self._through, begun)
        # Slots that others take lie anywhere among the block's: for the eye, before them.
        self.block_began = max(begun, issued - cost.cycles)
        if self.block_began > begun:
            self._hold(s, block, Cause.ISSUE, begun, self.block_began)
        self._through = issued
        self._behind, self._serialized = cost.behind, cost.serialized
        following = super().run_block(s, block)
        if _fences_products(block):
            self._products.fence(s.warp, self.block_began)
        self._note_cluster_phase(s)
        if self._counters.pending:
            self._counters.advance()
        self._flags.check(s)
        left = self._accesses.charge(s, block, units, begun, self._through, cost)
        if left > issued and s not in self.parked:  # a wait covers it
            self._hold(s, block, Cause.SHARED, issued, left)
        self._through = max(self._through, left)
        refilled = self._accesses.spill(s, block, units, begun, self._through, cost)
        if refilled > self._through and s not in self.parked:
            self._hold(s, block, Cause.SPILLS, self._through, refilled)
            self._through = refilled
        late, place = self._accesses.through(s, block, begun, cost)
        if late > self._through and s not in self.parked:
            self._hold(s, block, Cause.MEMORY, self._through, late, place)
            self._through = late
        self._accesses.issued(s, block, self._through, cost)
        self.completed.clear()
        return following

    def _note_cluster_phase(self, s: Split) -> None:
        """Note when the barrier of a cluster has completed a phase."""
        cluster = s.warp.cta.cluster
        if len(cluster.ctas) > 1:
            barrier = cluster.barrier
            if barrier.phase != self._cluster_phases.get(barrier.key, (0, 0.0))[0]:
                self._cluster_phases[barrier.key] = barrier.phase, self._through

    def _hold(
        self, s: Split, block: CodeBlock, cause: Cause, begin: float, end: float, place: int = 0
    ) -> None:
        if block.ops:
            _, op = block.ops[place]
            self.stalls.held(s, op.name, op.location, cause, begin, end)

    # --- waits ------------------------------------------------------------------------------------

    def spins(self, s: Split, target: int) -> bool:
        behind = self._flags.behind(s, target)
        if behind is None:
            return super().spins(s, target)
        s.pc = behind
        self.wake(s)
        return True

    def park(self, s: Split, wait: Wait) -> None:
        self._parked_since[s] = self._through
        steps = wait.steps_left()
        if steps is None:
            super().park(s, wait)
            if wait.awaited is Awaited.PRODUCTS:
                self._late[s] = wait
            return
        self.parked[s] = wait
        self.tell_wait(s, wait)
        self._await(s, wait, steps)

    def _await(self, s: Split, wait: Wait, steps: list[Step]) -> None:
        for step in steps:
            self._awaiting.setdefault(step, []).append((s, wait))

    def poll(self) -> bool:
        woken = super().poll()
        for s, wait in list(self._late.items()):
            steps = wait.steps_left()
            if self.parked.get(s) is not wait:
                del self._late[s]
            elif steps is not None:
                # All warps of the warpgroup have committed their products: what is left is known.
                del self._late[s]
                self.polled.remove(s)
                self._await(s, wait, steps)
        return woken

    def _yielded(self, s: Split, block: CodeBlock, wait: Wait | None) -> int | None:
        following = super()._yielded(s, block, wait)
        if following is not None and isinstance(wait, Condition) and wait.warps is not None:
            # The last warp that comes to a barrier leaves it with the others.
            self._through = max(self._through, self.now + self.figures.barrier(wait.warps()))
        elif following is not None and _waits_for_cluster(block):
            barrier = s.warp.cta.cluster.barrier
            completed = self._cluster_phases.get(barrier.key, (0, -math.inf))[1]
            self._through = max(self._through, completed + self.figures.cluster_barrier)
        return following

    def end_wait(self, s: Split, wait: Wait) -> None:
        if self.parked.get(s) is not wait:
            return
        since = self._parked_since.pop(s, self.now)
        figures = self.figures
        latency = 0.0
        if isinstance(wait, BarrierPhase):
            latency = figures.wake
            if self._running is not None:
                latency += figures.arrive
                if not self._running.warp.cta.owns(wait.barrier.address):
                    latency += figures.peer_way
        elif isinstance(wait, Condition) and wait.warps is not None:
            latency = figures.barrier(wait.warps())
        elif wait.awaited is Awaited.CLUSTER_BARRIER:
            latency = figures.cluster_barrier
        self._latency = latency
        base = self._through if self._running is not None else self.now
        # A warp that comes to a barrier when the wait is nearly over waits only for the rest.
        self._latency = max(latency, since - base)
        resumed = base + self._latency
        phase = isinstance(wait, BarrierPhase) and self.completed
        self.stalls.waited(s, wait, self.completed[-1] if phase else self._ender, since, resumed)
        self.stalls.lived(s, resumed)
        began, self.block_began = self.block_began, resumed
        super().end_wait(s, wait)
        self.block_began = began
        self._latency = 0.0

    def leave_waits(self) -> None:
        """Note the waits that have not ended, when the run has ended."""
        for s, wait in self.parked.items():
            since = self._parked_since.get(s, self.end)
            if self.end > since:
                self.stalls.still_waits(s, wait, since, self.end)

    # --- steps ------------------------------------------------------------------------------------

    def put_in_flight(self, steps: list[Step]) -> None:
        """Give each step that can happen its time. The others get one when the steps before them happen."""
        if steps and self._running is not None and steps[0].operation.group in _IN_REGISTERS:
            self._unknown.require(self._running)
        time = self._issue_time()
        for step in steps:
            if step.done:
                continue
            if step.ready:
                self._set_due(step, time)
            else:
                for earlier in step.after:
                    self._after.setdefault(earlier, []).append(step)

    def _issue_time(self) -> float:
        """Return when the instruction that runs has been issued, or the time of the event that happens."""
        s = self._running
        if s is None:
            return self.now
        behind = self._behind.get(s.op.statement, 0.0) if s.op is not None else 0.0
        return max(self.now, self._through - behind)

    def _set_due(self, step: Step, time: float) -> None:
        work = step.operation.work
        if isinstance(work, Product) and work.rows == WARP_ROWS and step.kind is StepKind.READ:
            units = self.units(self._place(step.operation.cta_key)[0])
            self._due[step] = time  # until its turn is known
            behind = self._through - time if self._running is not None else 0.0
            self._products.issue(step, time, behind, work, units, serialized=self._serialized)
        else:
            self.happens_at(step, self._duration(step, time))

    def happens_at(self, step: Step, due: float) -> None:
        """Let a step happen at a time."""
        self._due[step] = due
        heappush(self._events, (due, next(self._numbers), step))

    def _happen(self, step: Step) -> None:
        if not step.done:
            work = step.operation.work
            skips = self._adds_nothing or self._unknown.active
            if skips and isinstance(work, Product) and work.accumulates:
                # A product of what is unknown is added to D, which stays unknown.
                step.action = nothing
            self.engines.execute(step)
            if isinstance(work, ThreadCopy):
                place = self._place(step.operation.cta_key)[0]
                self._accesses.copied(step.operation, work, place, self.units(place), self.now)
        del self._due[step]
        self._disturbed |= step.operation.group in _POLLED
        self._ender = step.operation
        for s, wait in self._awaiting.pop(step, ()):
            if wait.over():
                self.end_wait(s, wait)
        self._ender = None
        for later in self._after.pop(step, ()):
            if later.ready and not later.done and later not in self._due:
                if later.operation.observed is None:
                    # A commit passes on what held up the products before it.
                    later.operation.observed = step.operation.observed
                self._set_due(later, self.now)

    def _duration(self, step: Step, time: float) -> float:
        """Return when a step happens that may happen from ``time`` on."""
        operation, figures = step.operation, self.figures
        where = self._place(operation.cta_key)
        units = self.units(where[0])
        work, kind = operation.work, step.kind
        if isinstance(work, Product):
            if kind is StepKind.WRITE:
                self.flops += 2 * work.rows * work.ctas * work.columns * work.elements
                self.operand_bytes += work.operand_bytes
            if kind not in (StepKind.READ, StepKind.READ_A):
                return self._products.result(operation, time)
            both = [self.units(each) for each in where[: work.ctas]]
            return self._products.read(operation, time, work, both)
        if isinstance(work, Copy):
            if kind is StepKind.SIGNAL:
                return time
            if not work.loads:
                if kind is StepKind.READ_SHARED:
                    served = done = units.read_source(time, work, adds=operation.reduction is not None)
                    unit = "copy engine"
                else:
                    self._note_store(time, work)
                    self.adds |= operation.reduction is not None
                    done = units.store(time, work)
                    served, unit = done - figures.store_latency, "HBM"
                operation.observed = Passage(time, served, unit)
                return done
            if kind is StepKind.READ:
                self._note_load(operation.cta_key, work)
                arrives = units.load(time, work, self._asked(operation.cta_key, time))
                operation.observed = Passage(time, *units.served)
                return arrives
            if kind is StepKind.WRITE and len(work.targets) > 1:
                return self._receive(time, work, operation)
            return time
        partition = operation.issuer.warp % figures.schedulers
        if operation.engine is Engine.LD:
            arrives = units.load_tensor(time, partition, step.nbytes or 0)
            operation.observed = Passage(time, arrives - figures.tensor_latency, "tensor memory")
            return arrives
        if isinstance(work, ThreadCopy):
            # What is read is looked for when the instruction is issued, and written when it has arrived.
            if self._running is not None:
                self._accesses.prepare(self._running.warp.cta)
            return self._accesses.arrived(operation, time) if kind is StepKind.WRITE else time
        if operation.engine is Engine.CP:
            return time + figures.tensor_copy if kind is StepKind.READ else time
        if operation.engine is Engine.ST:
            return units.store_tensor(time, partition, step.nbytes or 0)
        if kind is StepKind.CANCEL:
            return time + figures.cancel
        return time

    def _asked(self, cta: tuple[int, int], time: float) -> float:
        """Return when the first CTA has asked for the bytes of the load that a CTA issues.

        Where CTAs all over the chip share what they load, each of those that are resident together has some
        like it elsewhere. So what the first of them asks for with its nth load, the others find on its way.
        Of those that come much later nothing is known.
        """
        if self._contention.equal < _SHARED:
            return time
        number = self._starts[cta].wave, self._loaded[cta]
        first = self._first_asked.get(number, -math.inf)
        if time - first > _IN_STEP * self.figures.ghz:
            first = self._first_asked[number] = time
        return first

    def _receive(self, time: float, copy: Copy, operation: AsyncOperation) -> float:
        """Return when the next target of a multicast has its bytes."""
        left = self._targets.setdefault(operation, list(copy.targets))
        rank = left.pop(0)
        if not left:
            del self._targets[operation]
        cta = self.residency.live[operation.cta_key]
        if rank == cta.rank:
            return time
        received = self.units(cta.cluster.ctas[rank].multiprocessor).receive(time, copy)
        if received > time and isinstance(operation.observed, Passage):
            operation.observed = Passage(operation.observed.begun, received, "link")
        return received

    def _place(self, key: tuple[int, int]) -> list[Multiprocessor]:
        """Return the multiprocessor of a CTA, then that of the other CTA of its pair."""
        found = self._places.get(key)
        if found is None:
            cta = self.residency.live[key]
            found = self._places[key] = [cta.multiprocessor]
            peer = cta.rank ^ 1
            if peer < len(cta.cluster.ctas):
                found.append(cta.cluster.ctas[peer].multiprocessor)
        return found
