"""Strong accesses to memory: flags, counters, locks.

The sanitizer lets strong accesses of the same bytes happen at the same time. Which one comes first is open
then, and so is what a read gets. Operations that commute and whose results no instruction reads do not
compete: sums, minima and the like of integers. Sums of floating-point numbers depend a little on their order:
they are an exception of the claim, as long as the launch does not read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...core.source import SourceLocation
from ...core.types import TYPES
from ..code.semantic import Op
from ..engine.events import AsyncOperation, Step
from ..memory.access import Access, AccessKind, MemoryOrder, Proxy, StateSpace
from ..memory.segments import Segment
from ..sanitizer.accesses import element_size
from ..sanitizer.agents import LaneGroup
from ..sanitizer.clocks import Clock, Level
from ..sanitizer.operations import Token
from ..sanitizer.world import World
from ..semantics.atomics import operation_of
from .competing import Ledger
from .moments import Moment, execution, groups_of, known_lanes, moment

__all__ = ["StrongAccesses"]

#: Operations of integers whose order does not matter.
_COMMUTING = frozenset({"add", "min", "max", "and", "or", "xor"})
_INTEGERS = "usb"
#: Spaces that only one thread accesses, or that nothing writes; tensor memory has no strong accesses.
_SKIPPED = (StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST, StateSpace.TENSOR)
_NOTHING: Clock = {}


@dataclass(eq=False, slots=True)
class _Entry:
    """Strong accesses of lanes of one warp by one instruction to one place."""

    moment: Moment
    op: Op
    writes: bool


@dataclass(eq=False, slots=True)
class _Sums:
    """Commuting operations of one warp by one instruction, on bytes from ``low`` to ``high``."""

    moment: Moment
    operation: tuple[str, str]
    low: int
    high: int


@dataclass(eq=False, slots=True)
class _Engine:
    """A strong access of an engine, on bytes from ``low`` to ``high``."""

    own: Clock
    low: int
    high: int
    location: SourceLocation | None


@dataclass(eq=False, slots=True)
class _Memory:
    """The strong accesses to one segment. ``floats`` has the line of a sum of floating-point numbers."""

    segment: Segment
    owner: tuple[int, int] | None
    places: dict[int, list[_Entry]] = field(default_factory=dict)
    sums: dict[tuple[int, Op], _Sums] = field(default_factory=dict)
    engines: list[_Engine] = field(default_factory=list)
    floats: list[tuple[int, int, SourceLocation | None]] = field(default_factory=list)


class StrongAccesses:
    """All strong accesses of a run."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world, self._ledger = world, ledger
        self._memories: dict[int, _Memory] = {}
        #: Segments with sums of floating-point numbers, by identity.
        self._floats: set[int] = set()
        #: Pairs of instructions that are known to compete: no need to find them again.
        self._competing: set[tuple[int, int]] = set()

    def end_cta(self, cta: tuple[int, int]) -> None:
        """Forget the shared memory of a CTA."""
        for number in [n for n, memory in self._memories.items() if memory.owner == cta]:
            del self._memories[number]
            self._floats.discard(number)

    def access(self, access: Access, step: Step | None) -> None:
        """Check an access, before the sanitizer sees it."""
        if access.semantics is MemoryOrder.WEAK and access.kind is not AccessKind.RMW:
            if self._floats:
                self._reads_floats(access)
            return
        if access.space in _SKIPPED or access.proxy is Proxy.TENSORMAP or not access.footprint.nbytes:
            return
        if self._floats:
            self._reads_floats(access)
        memory = self._memory(access)
        if isinstance(access.actor, AsyncOperation):
            self._of_engine(access, memory, step)
        else:
            self._of_threads(access, memory)

    def _memory(self, access: Access) -> _Memory:
        segment = access.segment
        found = self._memories.get(id(segment))
        if found is None:
            owner = self._world.owner_of(segment, access.actor.cta_key)
            found = self._memories[id(segment)] = _Memory(segment, owner)
        return found

    # --- threads --------------------------------------------------------------------------------

    def _of_threads(self, access: Access, memory: _Memory) -> None:
        actor: Any = access.actor
        op: Op = actor.op
        if access.threads is None or len(access.threads) != len(access.footprint.starts):
            self._ledger.competes(f"{op.name}: a strong access of a whole warp", op.location)
            return
        if access.kind is AccessKind.RMW and not actor.frame.code.reads_results(op):
            operation, kind = operation_of(op)
            integers = TYPES[kind].kind in _INTEGERS
            if operation in _COMMUTING and (integers or operation == "add"):
                self._sum(access, memory, op, (operation, kind), integers)
                return
        starts, threads = access.footprint.starts, access.threads
        # A vector access is one access for each element.
        size = element_size(access)
        parts = range(0, access.footprint.size, size)
        writes = access.kind is not AccessKind.READ
        for group, mask in groups_of(self._world, actor.cta_key, threads):
            # The moment is of all these lanes: each place gets it with its own lanes.
            now = moment(self._world, group.warp, mask, op.location)
            first = 32 * group.warp.index
            for start, thread in zip(starts.tolist(), threads.tolist(), strict=True):
                lane = thread - first
                if 0 <= lane < 32 and mask >> lane & 1:
                    for part in parts:
                        self._place(memory, start + part, size, op, writes, group, lane, now)

    def _place(
        self,
        memory: _Memory,
        start: int,
        size: int,
        op: Op,
        writes: bool,
        group: LaneGroup,
        lane: int,
        now: Moment,
    ) -> None:
        clock, key, mask = execution(group), group.warp.key, 1 << lane
        entries = memory.places.setdefault(start, [])
        covered = True
        for entry in entries:
            left = entry.moment.mask & ~known_lanes(clock, entry.moment, key, mask)
            if left:
                covered = False
                if writes or entry.writes:
                    self._pair(op, entry.op)
        for sums in self._overlapping(memory, start, start + size):
            if sums.moment.mask & ~known_lanes(clock, sums.moment, key, mask):
                self._competes(op, sums.moment.location)
        for engine in memory.engines:
            if engine.low < start + size and start < engine.high and not _knows(clock, engine.own):
                self._competes(op, engine.location)
        mine = Moment(now.key, now.time, mask, now.launch, now.location)
        if covered and writes:
            entries.clear()
        elif entries and _repeats(entries[-1], op, mine, writes):
            entries[-1].moment = mine
            return
        entries.append(_Entry(mine, op, writes))

    @staticmethod
    def _overlapping(memory: _Memory, low: int, high: int) -> list[_Sums]:
        return [each for each in memory.sums.values() if each.low < high and low < each.high]

    def _sum(
        self, access: Access, memory: _Memory, op: Op, operation: tuple[str, str], integers: bool
    ) -> None:
        actor: Any = access.actor
        assert access.threads is not None
        starts = access.footprint.starts
        low, high = int(starts.min()), int(starts.max()) + access.footprint.size
        if not integers:
            self._ledger.assume(
                "the order in which floating-point numbers are summed does not matter", op.location
            )
            memory.floats.append((low, high, op.location))
            self._floats.add(id(memory.segment))
        for group, mask in groups_of(self._world, actor.cta_key, access.threads):
            clock, key = execution(group), group.warp.key
            for other in self._overlapping(memory, low, high):
                if other.operation == operation or (id(op), id(other.moment.location)) in self._competing:
                    continue
                if other.moment.mask & ~known_lanes(clock, other.moment, key, mask):
                    self._competes(op, other.moment.location)
            self._sum_beside(memory, op, low, high, clock, key, mask)
            now = moment(self._world, group.warp, mask, op.location)
            found = memory.sums.get((key, op))
            if found is None:
                memory.sums[key, op] = _Sums(now, operation, low, high)
            else:
                now.mask |= found.moment.mask
                found.moment = now
                found.low, found.high = min(found.low, low), max(found.high, high)

    def _sum_beside(
        self, memory: _Memory, op: Op, low: int, high: int, clock: Clock, key: int, mask: int
    ) -> None:
        """Compare a commuting operation with strong accesses of other kinds."""
        for start, entries in memory.places.items():
            if low <= start < high:
                for entry in entries:
                    if entry.moment.mask & ~known_lanes(clock, entry.moment, key, mask):
                        self._pair(op, entry.op)
        for engine in memory.engines:
            if engine.low < high and low < engine.high and not _knows(clock, engine.own):
                self._competes(op, engine.location)

    # --- engines --------------------------------------------------------------------------------

    def _of_engine(self, access: Access, memory: _Memory, step: Step | None) -> None:
        operation: Any = access.actor
        token = None if step is None else step.observed
        starts = access.footprint.starts
        low, high = int(starts.min()), int(starts.max()) + access.footprint.size
        if not isinstance(token, Token):
            self._ledger.competes(f"{operation.name}: a strong access", operation.location)
            return
        clock = token.levels.get(Level.EXECUTION, _NOTHING)
        for engine in memory.engines:
            if engine.low < high and low < engine.high and not _knows(clock, engine.own):
                self._ledger.competes(
                    f"{operation.name}: the order of operations on the same bytes",
                    operation.location,
                    engine.location,
                )
        for start, entries in memory.places.items():
            if low <= start < high and any(known_lanes(clock, e.moment) != e.moment.mask for e in entries):
                self._ledger.competes(
                    f"{operation.name}: the order of operations on the same bytes",
                    operation.location,
                    entries[-1].op.location,
                )
        for sums in self._overlapping(memory, low, high):
            if known_lanes(clock, sums.moment) != sums.moment.mask:
                self._ledger.competes(
                    f"{operation.name}: the order of operations on the same bytes",
                    operation.location,
                    sums.moment.location,
                )
        memory.engines.append(_Engine(token.own(), low, high, operation.location))

    # --- what competes --------------------------------------------------------------------------

    def _reads_floats(self, access: Access) -> None:
        """Refuse the claim if something reads sums of floating-point numbers."""
        if id(access.segment) not in self._floats or access.kind in (AccessKind.WRITE, AccessKind.PROBE):
            return
        actor: Any = access.actor
        op = getattr(actor, "op", None)
        if access.kind is AccessKind.RMW and op is not None and not actor.frame.code.reads_results(op):
            return
        starts = access.footprint.starts
        first, last = int(starts.min()), int(starts.max()) + access.footprint.size
        for low, high, location in self._memories[id(access.segment)].floats:
            if first < high and low < last:
                self._ledger.competes(
                    "read of a sum of floating-point numbers in open order", actor.location, location
                )
                return

    def _pair(self, op: Op, other: Op) -> None:
        self._competes(op, other.location)

    def _competes(self, op: Op, other: SourceLocation | None) -> None:
        key = (id(op), id(other))
        if key not in self._competing:
            self._competing.add(key)
            self._ledger.competes(f"{op.name}: the order of accesses to the same bytes", op.location, other)


def _knows(clock: Clock, own: Clock) -> bool:
    return all(clock.get(key, 0) >= time for key, time in own.items())


def _repeats(entry: _Entry, op: Op, now: Moment, writes: bool) -> bool:
    """True if a thread repeats its last access: the entry may stand for both."""
    then = entry.moment
    return entry.op is op and entry.writes is writes and then.key == now.key and then.mask == now.mask
