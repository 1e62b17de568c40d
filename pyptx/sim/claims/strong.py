"""Strong accesses to memory: flags, counters, locks.

The sanitizer lets strong accesses of the same bytes happen at the same time. Which one comes first is open
then, and so is what a read gets. Operations that commute and whose results no instruction reads do not
compete: sums, minima and the like of integers. Sums of floating-point numbers depend a little on their order:
they are an exception of the claim, as long as the launch does not read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...core.types import TYPES
from ..code.function import FunctionCode
from ..code.semantic import Op
from ..engine.events import AsyncOperation, Step
from ..memory.access import Access, AccessKind, MemoryOrder, Proxy, StateSpace
from ..memory.segments import Segment
from ..sanitizer.access_records import element_size
from ..sanitizer.agents import LaneGroup
from ..sanitizer.clocks import NO_CLOCK, Clock, Level
from ..sanitizer.operations import Token
from ..sanitizer.world import World
from ..semantics.atomics import operation_of
from .competing import Ledger
from .moments import Moment, causality, execution, groups_of, known_lanes, moment
from .polling import Polling
from .polls import Poll
from .words import Lane

__all__ = ["StrongAccesses"]

#: Operations of integers whose order does not matter.
_COMMUTING = frozenset({"add", "min", "max", "and", "or", "xor"})
_INTEGERS = "usb"
#: Spaces that only one thread accesses, or that nothing writes; tensor memory has no strong accesses.
_SKIPPED = (StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST, StateSpace.TENSOR)
#: Accesses to a place that a new one is compared with, where the claim is refused anyway.
_SEARCHED = 8
#: Comparisons of accesses with earlier ones; beyond, the claim is refused.
_COMPARISONS = 100_000


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
    """The strong accesses to one segment.

    Attributes:
        places: accesses of threads, by place.
        sums: commuting operations of threads, by warp and instruction.
        engines: operations of engines, by reduction (None for what does not commute) and bytes.
        floats: lines of sums of floating-point numbers, each with its bytes.
        competing: places where accesses of threads compete.
    """

    segment: Segment
    owner: tuple[int, int] | None
    places: dict[int, list[_Entry]] = field(default_factory=dict)
    sums: dict[tuple[int, Op], _Sums] = field(default_factory=dict)
    engines: dict[tuple[str, str] | None, dict[tuple[int, int], list[_Engine]]] = field(default_factory=dict)
    floats: dict[SourceLocation | None, tuple[int, int]] = field(default_factory=dict)
    competing: set[int] = field(default_factory=set)


class StrongAccesses:
    """All strong accesses of a run."""

    def __init__(self, world: World, polling: Polling, ledger: Ledger) -> None:
        self._world, self._polling, self._ledger = world, polling, ledger
        self._memories: dict[int, _Memory] = {}
        #: Segments with sums of floating-point numbers, by identity.
        self._floats: set[int] = set()
        #: Pairs of instructions that are known to compete: no need to find them again.
        self._competing: set[tuple[int, int]] = set()
        #: Comparisons so far.
        self._compared = 0

    def end_cta(self, cta: tuple[int, int]) -> None:
        """Forget the shared memory of a CTA."""
        ended = {number for number, memory in self._memories.items() if memory.owner == cta}
        self._polling.end_segments(ended)
        for number in ended:
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
        self._polling.begin(access)
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
        if self._compared > _COMPARISONS:
            self._ledger.competes("strong accesses: there are more than are compared with each other")
            return
        if access.threads is None or len(access.threads) != len(access.footprint.starts):
            self._ledger.competes(f"{op.name}: a strong access of a whole warp", op.location)
            return
        code: FunctionCode = actor.frame.code
        unread = not code.reads_results(op) or self._polling.quiet(code, op)
        if access.kind is AccessKind.RMW and unread:
            operation = operation_of(op)
            if self._commutes(operation):
                self._note(access, op, operation if _of_integers(operation) else None)
                self._sum(access, memory, op, operation)
                return
        poll = self._polling.loop(access, op)
        if poll is not None:
            self._poll(access, op, poll)
            return
        if access.kind is not AccessKind.READ:
            self._note(access, op, None)
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

    def _poll(self, access: Access, op: Op, poll: Poll) -> None:
        """Add one pass of a polling loop."""
        for actor, start in self._actors(access, op):
            self._polling.read(access, start, access.footprint.size, actor, poll)

    def _note(self, access: Access, op: Op, operation: tuple[str, str] | None) -> None:
        """Tell the polling loops of a strong write; ``operation`` is that of a commuting one."""
        actor: Any = access.actor
        code: FunctionCode = actor.frame.code
        if not self._polling.watches(code):
            return
        size = element_size(access)
        for actor, start in self._actors(access, op):
            for part in range(0, access.footprint.size, size):
                self._polling.write(access, start + part, size, actor, operation)

    def _actors(self, access: Access, op: Op) -> Iterator[tuple[Lane, int]]:
        """Yield each lane of an access, with the place that it accesses."""
        actor: Any = access.actor
        assert access.threads is not None
        starts, threads = access.footprint.starts.tolist(), access.threads.tolist()
        for group, mask in groups_of(self._world, actor.cta_key, access.threads):
            now = moment(self._world, group.warp, mask, op.location)
            for start, thread in zip(starts, threads, strict=True):
                lane = thread - 32 * group.warp.index
                if 0 <= lane < 32 and mask >> lane & 1:
                    yield self._polling.lane(group, lane, actor, thread, op, now), start

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
        clock, key, mask = causality(group), group.warp.key, 1 << lane
        entries = memory.places.setdefault(start, [])
        covered = True
        self._compared += 1 + len(entries)
        if len(entries) > _SEARCHED and start in memory.competing:
            # The claim is refused for this place: the last accesses show with what else they compete.
            del entries[: -_SEARCHED // 2]
        for entry in entries:
            left = entry.moment.mask & ~known_lanes(clock, entry.moment, key, mask)
            if left:
                covered = False
                if writes or entry.writes:
                    memory.competing.add(start)
                    self._pair(op, entry.op)
        for sums in self._overlapping(memory, start, start + size):
            if sums.moment.mask & ~known_lanes(clock, sums.moment, key, mask):
                self._competes(op, sums.moment.location)
        for places in memory.engines.values():
            for engine in _on(places, start, start + size):
                if not _knows(clock, engine.own):
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

    def _sum(self, access: Access, memory: _Memory, op: Op, operation: tuple[str, str]) -> None:
        actor: Any = access.actor
        assert access.threads is not None
        starts = access.footprint.starts
        low, high = int(starts.min()), int(starts.max()) + access.footprint.size
        if not _of_integers(operation):
            self._sums_floats(memory, low, high, op.location)
        learns = self._learns(access, op)
        for group, mask in groups_of(self._world, actor.cta_key, access.threads):
            clock, key = causality(group), group.warp.key
            for other in self._overlapping(memory, low, high):
                if other.operation == operation or (id(op), id(other.moment.location)) in self._competing:
                    continue
                if other.moment.mask & ~known_lanes(clock, other.moment, key, mask):
                    self._competes(op, other.moment.location)
            self._sum_beside(memory, op, operation, low, high, clock, key, mask)
            if learns and self._only_executed(memory, low, high, group, mask):
                # The operation may be there to acquire: what it learns besides, it learns by chance.
                self._competes(op, op.location)
                learns = False
            now = moment(self._world, group.warp, mask, op.location)
            found = memory.sums.get((key, op))
            if found is None:
                memory.sums[key, op] = _Sums(now, operation, low, high)
            else:
                now.mask |= found.moment.mask
                found.moment = now
                found.low, found.high = min(found.low, low), max(found.high, high)
        if learns:
            # Another schedule may put the operation before all others.
            self._polling.deafen()

    def _only_executed(self, memory: _Memory, low: int, high: int, group: LaneGroup, mask: int) -> bool:
        """True if lanes know of an access to the bytes in execution order, but not in causality order."""
        then = [each.moment for each in self._overlapping(memory, low, high)]
        then += [e.moment for start, entries in memory.places.items() if low <= start < high for e in entries]
        weak, strong, key = execution(group), causality(group), group.warp.key
        return any(known_lanes(weak, one, key, mask) & ~known_lanes(strong, one, key, mask) for one in then)

    def _learns(self, access: Access, op: Op) -> bool:
        """True if an operation may learn of others by chance, and no polling loop takes care of it."""
        actor: Any = access.actor
        if not op.dests or self._polling.watches(actor.frame.code):
            return False
        return any(self._polling.learns(access, op, start) for start in access.footprint.starts.tolist())

    def _sum_beside(
        self,
        memory: _Memory,
        op: Op,
        operation: tuple[str, str],
        low: int,
        high: int,
        clock: Clock,
        key: int,
        mask: int,
    ) -> None:
        """Compare a commuting operation with strong accesses of other kinds."""
        for start, entries in memory.places.items():
            if low <= start < high:
                for entry in entries:
                    if entry.moment.mask & ~known_lanes(clock, entry.moment, key, mask):
                        self._pair(op, entry.op)
        for reduction, places in memory.engines.items():
            if reduction != operation:
                for engine in _on(places, low, high):
                    if not _knows(clock, engine.own):
                        self._competes(op, engine.location)

    # --- engines --------------------------------------------------------------------------------

    def _of_engine(self, access: Access, memory: _Memory, step: Step | None) -> None:
        actor: Any = access.actor
        operation: AsyncOperation = actor
        token = None if step is None else step.observed
        if not isinstance(token, Token):
            self._ledger.competes(f"{operation.name}: a strong access", operation.location)
            return
        starts = access.footprint.starts
        low, high = int(starts.min()), int(starts.max()) + access.footprint.size
        self._polling.engine(memory.segment, low, high)
        reduction = operation.reduction
        if reduction is not None and not self._commutes(reduction):
            reduction = None
        if reduction is not None and not _of_integers(reduction):
            self._sums_floats(memory, low, high, operation.location)
        clock = token.levels.get(Level.SYNC, NO_CLOCK)
        for other in self._unordered(memory, reduction, low, high, clock):
            self._ledger.competes(
                f"{operation.name}: the order of operations on the same bytes", operation.location, other
            )
        own = token.own()
        mine = memory.engines.setdefault(reduction, {}).setdefault((low, high), [])
        # The operation stands for those on the same bytes that are ordered before it.
        mine[:] = [one for one in mine if not _knows(clock, one.own)]
        mine.append(_Engine(own, low, high, operation.location))

    def _unordered(
        self, memory: _Memory, reduction: tuple[str, str] | None, low: int, high: int, clock: Clock
    ) -> Iterator[SourceLocation | None]:
        """Yield the lines of strong accesses that an engine's operation neither follows nor commutes with."""
        for other, places in memory.engines.items():
            if reduction is None or other != reduction:
                for engine in _on(places, low, high):
                    if not _knows(clock, engine.own):
                        yield engine.location
        for start, entries in memory.places.items():
            if low <= start < high:
                for entry in entries:
                    if known_lanes(clock, entry.moment) != entry.moment.mask:
                        yield entry.op.location
        for sums in self._overlapping(memory, low, high):
            if sums.operation != reduction and known_lanes(clock, sums.moment) != sums.moment.mask:
                yield sums.moment.location

    @staticmethod
    def _commutes(operation: tuple[str, str]) -> bool:
        return operation[0] in _COMMUTING and (_of_integers(operation) or operation[0] == "add")

    def _sums_floats(self, memory: _Memory, low: int, high: int, location: SourceLocation | None) -> None:
        self._ledger.assume("the order in which floating-point numbers are summed does not matter", location)
        before = memory.floats.get(location, (low, high))
        memory.floats[location] = min(before[0], low), max(before[1], high)
        self._floats.add(id(memory.segment))

    # --- what competes --------------------------------------------------------------------------

    def _reads_floats(self, access: Access) -> None:
        """Refuse the claim if something reads sums of floating-point numbers."""
        if id(access.segment) not in self._floats or access.kind in (AccessKind.WRITE, AccessKind.PROBE):
            return
        actor: Any = access.actor
        op = getattr(actor, "op", None)
        if access.kind is AccessKind.RMW and (op is None or not actor.frame.code.reads_results(op)):
            return
        starts = access.footprint.starts
        first, last = int(starts.min()), int(starts.max()) + access.footprint.size
        for location, (low, high) in self._memories[id(access.segment)].floats.items():
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


def _of_integers(operation: tuple[str, str]) -> bool:
    return TYPES[operation[1]].kind in _INTEGERS


def _on(places: dict[tuple[int, int], list[_Engine]], low: int, high: int) -> Iterator[_Engine]:
    """Yield the operations on bytes that overlap with these."""
    for (first, last), engines in places.items():
        if first < high and low < last:
            yield from engines


def _knows(clock: Clock, own: Clock) -> bool:
    return all(clock.get(key, 0) >= time for key, time in own.items())


def _repeats(entry: _Entry, op: Op, now: Moment, writes: bool) -> bool:
    """True if a thread repeats its last access: the entry may stand for both."""
    then = entry.moment
    return entry.op is op and entry.writes is writes and then.key == now.key and then.mask == now.mask
