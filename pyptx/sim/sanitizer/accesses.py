"""Brings each access of a run to the examiner: of threads, of warp teams, of engines, and to mbarriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ...core.types import TYPES
from ..engine.events import AsyncOperation, Step
from ..engine.stream import GroupKind, Sync, SyncKind
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from ..memory.access_findings import store_collision
from ..memory.collisions import colliding
from ..memory.segments import Segment
from ..threads.loads import stored_values
from .agents import FULL_MASK, CtaAgent, LaneGroup, WarpAgent
from .clocks import NOTHING, Level, MapReleased, join_levels
from .examine import Check, Examiner
from .flags import Flags, LastWrite
from .issuing import Copies, CopyPart
from .late import Late, apart, may_be_late
from .operations import Token
from .order import Current, View, known_lanes
from .partition import Partition
from .records import ALL_LANES, CODES, Record
from .release import acquires, releases
from .shadow import Shadow
from .world import World, mask_of

__all__ = ["Accesses", "element_size", "stores_alike"]

#: Spaces that only one thread accesses, or that nothing writes.
_SKIPPED = (StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST)
_BARRIER_BYTES = 8
_LANES = 32
_ALL = slice(None)
#: Tensor memory as a segment: lanes, bytes of one cell, bytes of one lane.
_TENSOR_LANES, _CELL_BYTES, _TENSOR_ROW = 128, 4, 2048


class Accesses:
    """The accesses of one run, and the shadow of the segments.

    ``beyond`` is called with an access to another CTA's shared memory that is not ordered after the start, or
    before the end, of that CTA.
    """

    def __init__(
        self, world: World, examiner: Examiner, beyond: Callable[[Record, CtaAgent, bool], None]
    ) -> None:
        self._world, self._examiner, self._beyond = world, examiner, beyond
        self._flags = Flags(world, examiner.sets)
        self._shadows: dict[int, Shadow] = {}
        #: Partitions of shared memory, by the launch and the size; and of tensor memory.
        self._partitions: dict[tuple[int | None, int], Partition] = {}
        #: For live mbarriers, by the key of their events: where they are.
        self._barriers: dict[Any, tuple[Shadow, Footprint]] = {}
        #: Accesses of operations before their issue, such as the read of a tensor map.
        self._early: dict[int, list[Access]] = {}
        self._step: Step | None = None
        #: For each CTA: accesses of other CTAs to its shared memory, the last of each instruction and warp.
        self._remote: dict[tuple[int, int], dict[tuple[int, int, int], Record]] = {}

    # --- life -----------------------------------------------------------------------------------

    def _shadow(self, segment: Segment, actor: Any) -> Shadow:
        found = self._shadows.get(id(segment))
        if found is None:
            owner = self._world.owner_of(segment, actor.cta_key)
            found = self._shadows[id(segment)] = Shadow(segment, owner, self._partition(segment, owner))
        return found

    def _partition(self, segment: Segment, owner: tuple[int, int] | None) -> Partition:
        """Return the partition of a segment: equal memories of CTAs and of multiprocessors share one."""
        if segment.space is StateSpace.GLOBAL:
            return Partition(segment.size)
        key = owner and owner[0], segment.size
        if key not in self._partitions:
            self._partitions[key] = Partition(segment.size, shared=True)
        return self._partitions[key]

    def end_cta(self, key: tuple[int, int]) -> None:
        """Check the other CTAs' accesses to the shared memory of a CTA against its end; forget the memory."""
        remote = self._remote.pop(key, {}).values()
        levels = NOTHING
        for warp in self._world.ctas[key].warps if remote else ():
            for group in warp.groups:
                levels = join_levels(levels, group.snapshot(group.mask))
        for record in remote:
            # Relaxed operations order the operations on mbarriers. A load is complete when its thread goes
            # on, so kernels leave together behind a relaxed barrier; a store may still be on its way.
            relaxed = record.barrier or record.kind is AccessKind.READ
            known = levels.get(Level.EXECUTION if relaxed else Level.SYNC, {})
            if record.key not in known or known[record.key] < record.time:
                lanes = known_lanes(record, known, record.mask)
                if record.mask & ~lanes:
                    self._beyond(record, self._world.ctas[key], True)
        self._shadows = {number: shadow for number, shadow in self._shadows.items() if shadow.owner != key}

    def end_segment(self, base: int) -> None:
        """Forget a segment of global memory."""
        self._shadows = {
            number: shadow
            for number, shadow in self._shadows.items()
            if shadow.owner is not None or shadow.segment.base != base
        }

    def allocate(self, storage: Segment, first: int, columns: int) -> None:
        """Forget what happened to columns of tensor memory before their allocation."""
        shadow = self._shadows.get(id(storage))
        if shadow is not None:
            self._examiner.settle(shadow)
            starts = _TENSOR_ROW * np.arange(_TENSOR_LANES) + _CELL_BYTES * first
            shadow.forget(Footprint(starts, _CELL_BYTES * columns))

    def last_write(self, segment: Segment, actor: Any, place: int) -> LastWrite:
        """Return what is known of the last write to an offset of a segment; ``actor`` can access it."""
        return self._flags.last_write(self._shadow(segment, actor), place)

    def has_flags(self, segment: Segment) -> bool:
        """True if something was released into bytes of a segment."""
        shadow = self._shadows.get(id(segment))
        return shadow is not None and bool(shadow.flags)

    def record_of(self, write: LastWrite) -> tuple[Record | None, int]:
        """Return the record of a write and the mask of the lanes that wrote; None if nothing was written."""
        if not write.value:
            return None, 0
        number, lane = divmod(self._examiner.sets.accesses(write.value)[0], CODES)
        record = self._world.records[number]
        return record, record.mask if lane == ALL_LANES else 1 << lane

    def follows(self, write: LastWrite, before: LastWrite | None) -> LastWrite:
        """Return what is known of a write that comes in coherence order after ``before``."""
        return self._flags.after(write, before)

    def read_from(self, segment: Segment, actor: Any, sources: dict[int, LastWrite]) -> None:
        """Let the next access take the values at some offsets from these writes, not from the last ones."""
        number = id(self._shadow(segment, actor))
        self._flags.sources = {(number, place): write for place, write in sources.items()}

    def learn_nothing(self, learns_nothing: bool) -> None:
        """Let the next access learn nothing of what others have released; or let it learn again."""
        self._flags.learns_nothing = learns_nothing

    def barrier_name(self, key: Any) -> tuple[str, str]:
        """Return the name of an mbarrier in texts and in addresses, given the key of its events."""
        found = self._barriers.get(key)
        if found is None:
            return "an mbarrier", "mbar"
        shadow, offset = found[0], int(found[1].starts[0])
        parts = shadow.segment.parts
        part = None if parts is None else parts.at(offset)
        if part is None:
            address = f"{shadow.segment.base + offset:#x}"
            return f"the mbarrier at {address}", address
        within = offset - part.start
        if part.end - part.start <= _BARRIER_BYTES:
            return part.name, part.name
        return f"{part.name}[{within // _BARRIER_BYTES}]", f"{part.name}+{within}"

    # --- any access -----------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        if access.space in _SKIPPED or not access.footprint.nbytes:
            return
        actor = access.actor
        if not isinstance(actor, AsyncOperation):
            self._of_threads(access)
        elif actor.observed is None:
            self._early.setdefault(id(actor), []).append(access)
        elif isinstance(actor.observed, Copies):
            self._of_copies(access, actor.observed)
        else:
            step = self._step
            assert step is not None and step.operation is actor, actor.name
            self._of_engine(access, actor, step.observed)

    def issued(self, operation: AsyncOperation) -> None:
        """Check the accesses that an operation made before its issue: its first step makes them."""
        for access in self._early.pop(id(operation), ()):
            self._of_engine(access, operation, operation.observed)

    def happens(self, step: Step) -> None:
        """The next accesses are those of this step."""
        self._step = step

    @property
    def step(self) -> Step | None:
        """The step that happens now."""
        return self._step

    def _current(self, access: Access, shadow: Shadow) -> Current:
        owner = None if shadow.owner is None else self._world.ctas.get(shadow.owner)
        strong = access.semantics is not MemoryOrder.WEAK or access.kind is AccessKind.RMW
        address = shadow.segment.base + int(access.footprint.starts[0])
        return Current(
            access,
            access.space,
            access.kind,
            access.proxy,
            element_size(access),
            strong,
            access.scope,
            False,
            owner,
            address,
        )

    def _record(self, access: Access, key: int, time: int, mask: int, name: str) -> Record:
        return self._world.records.add(
            Record(
                0,
                key,
                time,
                mask,
                access.kind,
                access.proxy,
                access.semantics,
                access.scope,
                element_size(access),
                access.actor.cta_key,
                self._world.launches[access.actor.cta_key[0]],
                name,
                access.actor.location,
            )
        )

    def _reach(self, current: Current, view: View, record: Record, mask: int) -> None:
        """Check an access to another CTA's shared memory against that CTA's start, and keep it for its end.

        ``mask`` has the lanes that access; 0 for an engine, whose operations are judged elsewhere at the end.
        """
        owner = current.owner
        if owner is None or owner is view.cta:
            return
        clock = view.levels.get(Level.EXECUTION, {})
        if clock.get(owner.start, 0) < 1:
            self._beyond(record, owner, False)
        if mask:
            kept = replace(record, mask=mask) if record.mask != mask else record
            self._remote.setdefault(owner.key, {})[id(record.location), record.key, mask] = kept

    # --- threads --------------------------------------------------------------------------------

    def _of_threads(self, access: Access) -> None:
        actor: Any = access.actor
        cta = self._world.ctas[actor.cta_key]
        threads = access.threads
        if threads is None:
            self._of_whole_warp(access, cta.warps[actor.warp.index])
            return
        low, high = int(threads[0]) >> 5, int(threads[-1]) >> 5
        lanes = threads & 31
        rows = [_ALL] if low == high else _rows(threads, low, high)
        agents = [cta.warps[low]] if low == high else [cta.warps[int(threads[r.start]) >> 5] for r in rows]
        if may_be_late(access, agents) and self._waits(access, agents, rows, lanes):
            return
        if len(agents) == 1:
            self._of_warp(access, agents[0], lanes, access.footprint)
        elif not self._of_team(access, cta, agents, rows, lanes):
            starts, size = access.footprint.starts, access.footprint.size
            self._collisions(access)
            for warp, row in zip(agents, rows, strict=True):
                self._of_warp(access, warp, lanes[row], Footprint(starts[row], size))

    def _waits(self, access: Access, agents: list[WarpAgent], rows: list[slice], lanes: NDArray[Any]) -> bool:
        """Let an access of whole groups wait if it conflicts with nothing; False if it must be checked."""
        shadow = self._shadow(access.segment, access.actor)
        if not shadow.waits(access.footprint, reading=access.kind is AccessKind.READ):
            return False
        for warp in agents:
            warp.advance()
        shadow.early.append(
            Late(
                shadow,
                access.footprint,
                access.kind,
                access.proxy,
                element_size(access),
                rows,
                lanes,
                agents,
                access.actor.location,
                self._world,
                self._world.records.reserve(len(agents)),
            )
        )
        return True

    def _of_warp(self, access: Access, warp: WarpAgent, lanes: NDArray[Any], footprint: Footprint) -> None:
        """Check an access of some lanes of a warp, to those pieces of the access that are theirs."""
        shadow = self._shadow(access.segment, access.actor)
        if shadow.first and _strong_read(access):
            self._of_uninitialized(access, shadow, warp, lanes, footprint)
        if _asks_once(access):
            self._of_chance(access, warp, lanes, footprint)
        if acquires(access.semantics) and access.kind is not AccessKind.WRITE:
            self._acquire(access, warp, lanes, footprint)
        groups = warp.groups_of(mask_of(lanes))
        ascends = apart(footprint)
        if access.kind is AccessKind.WRITE and footprint is access.footprint and not ascends:
            self._collisions(access)
        current = self._current(access, shadow)
        warp.advance()
        if len(footprint.starts) < len(lanes):
            self._of_one_place(access, warp, groups, footprint, current, together=True)
            self._begin_lives(access, shadow, warp, groups)
            return
        one_place = not ascends and not current.strong and (footprint.starts == footprint.starts[0]).all()
        # Lanes that know different things store at once: they are not compared with each other.
        if one_place and (len(groups) == 1 or current.kind is AccessKind.READ):
            place = Footprint(footprint.starts[:1], footprint.size)
            self._of_one_place(access, warp, groups, place, current)
            return
        values, record = self._values(access, warp, lanes, footprint.starts, ascends)
        views = [View(group.levels, warp.cta, warp.key, warp.time, group.ordered) for group in groups]
        units = None
        if len(groups) > 1:
            units = np.zeros(len(lanes), np.int32)
            for number, group in enumerate(groups):
                units[(group.mask >> lanes & 1).astype(np.bool_)] = number
        for view, group in zip(views, groups, strict=True):
            self._reach(current, view, record, group.mask)
        flags = self._new_flags(shadow, current, footprint.starts)
        self._examiner.access(
            Check(shadow, footprint, values, views, [record] * len(views), current, units, lanes)
        )
        self._flags.begin(shadow, flags)
        if current.strong or shadow.flags:
            self._use_flags(access, shadow, warp, lanes, footprint, current)
        self._begin_lives(access, shadow, warp, groups)

    def _of_chance(self, access: Access, warp: WarpAgent, lanes: NDArray[Any], footprint: Footprint) -> None:
        """Report strong reads, by which no thread waits, of values that nothing orders before them."""
        shadow = self._shadow(access.segment, access.actor)
        current = self._current(access, shadow)
        found = self._flags.by_chance(access, shadow, warp, lanes, footprint.starts, current.size)
        for group, earlier, lane in list(found):
            record = self._thread_record(access, warp, group.mask)
            view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered)
            check = Check(shadow, footprint, 0, [view], [record], current)
            self._examiner.by_chance("ordered-by-chance", check, earlier, lane)

    def _of_uninitialized(
        self, access: Access, shadow: Shadow, warp: WarpAgent, lanes: NDArray[Any], footprint: Footprint
    ) -> None:
        """Report strong reads of flags in shared memory that nothing orders after their initialization."""
        current = self._current(access, shadow)
        for group, earlier, lane in list(self._flags.uninitialized(shadow, warp, lanes, footprint.starts)):
            record = self._thread_record(access, warp, group.mask)
            view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered)
            check = Check(shadow, footprint, 0, [view], [record], current)
            self._examiner.by_chance("uninitialized-read", check, earlier, lane)

    def _new_flags(self, shadow: Shadow, current: Current, starts: NDArray[np.int64]) -> dict[int, int]:
        """Return the places of shared memory that a strong write makes flags, with their last writes."""
        if not current.strong or current.kind is AccessKind.READ or shadow.owner is None:
            return {}
        self._examiner.settle(shadow)
        return self._flags.new(shadow, starts)

    def _of_one_place(
        self,
        access: Access,
        warp: WarpAgent,
        groups: list[LaneGroup],
        footprint: Footprint,
        current: Current,
        *,
        together: bool = False,
    ) -> None:
        """Check weak accesses of several lanes to one place.

        ``together`` is True for one access that all of them make, as ``tcgen05.alloc`` stores its result.
        """
        shadow = self._shadow(access.segment, access.actor)
        checks = []
        for group in groups:
            record = self._thread_record(access, warp, group.mask)
            record.together = together
            view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered, together=together)
            self._reach(current, view, record, group.mask)
            checks.append(_whole(shadow, footprint, view, record, current, group.mask))
        self._examiner.access(*checks)
        if access.kind.writes:
            self._flags.written(shadow, footprint.starts, footprint.size)

    def _begin_lives(self, access: Access, shadow: Shadow, warp: WarpAgent, groups: list[LaneGroup]) -> None:
        """Do what an access does besides: it begins an mbarrier, or releases a tensor map."""
        if access.kind is AccessKind.INIT:
            self._begin_barrier(access, shadow)
        if access.proxy is Proxy.TENSORMAP and releases(access.semantics):
            # tensormap.cp_fenceproxy executes a release fence of the tensor-map proxy.
            for group in groups:
                group.pass_fence(MapReleased(access.scope, warp.cta.key))

    def _collisions(self, access: Access) -> None:
        """Report a store whose lanes write different values to one address."""
        actor: Any = access.actor
        if colliding(access) is not None:
            collision = colliding(access, stored_values(actor))
            if collision is not None and collision.same is not True:
                self._world.machine.report(store_collision(access, collision))

    def _begin_barrier(self, access: Access, shadow: Shadow) -> None:
        """Remember where an mbarrier is, by the key of its events."""
        actor: Any = access.actor
        cta = actor.warp.cta
        for offset in access.footprint.starts.tolist():
            key = (cta.grid.number, cta.cluster.number, shadow.segment.base + offset)
            self._barriers[key] = shadow, Footprint(np.array([offset], np.int64), _BARRIER_BYTES)
            self._world.begin_barrier(key)

    def _of_team(
        self, access: Access, cta: CtaAgent, agents: list[WarpAgent], rows: list[slice], lanes: NDArray[Any]
    ) -> bool:
        """Check an access of several warps at once; False if each warp needs a check of its own.

        ``rows`` has the pieces of each warp.
        """
        if acquires(access.semantics) or _asks_once(access) or any(len(w.groups) > 1 for w in agents):
            return False
        shadow = self._shadow(access.segment, access.actor)
        current = self._current(access, shadow)
        if current.owner is not None and current.owner is not cta:
            return False
        if shadow.first and _strong_read(access):
            return False
        starts = access.footprint.starts
        ascends = apart(access.footprint)
        weak_read = access.kind is AccessKind.READ and not current.strong
        if weak_read and not ascends and (starts == starts[0]).all():
            self._of_team_at_one_place(access, agents, rows, lanes, current, shadow)
            return True
        repeats = not ascends and len(np.unique(starts)) < len(starts)
        if repeats and not stores_alike(access):
            # Warps of the team may access the same bytes, one after the other.
            return False
        values = lanes.astype(np.int64)
        units = np.empty(len(lanes), np.int32)
        views: list[View] = []
        records: list[Record] = []
        for unit, (warp, row) in enumerate(zip(agents, rows, strict=True)):
            warp.advance()
            units[row] = unit
            if repeats:
                values[row], record = self._values(access, warp, lanes[row], starts[row], False)
            else:
                record = self._thread_record(access, warp, FULL_MASK)
                values[row] += CODES * record.number
            group = warp.groups[0]
            views.append(View(group.levels, cta, warp.key, warp.time, group.ordered))
            records.append(record)
        check = Check(shadow, access.footprint, values, views, records, current, units, lanes)
        flags = self._new_flags(shadow, current, starts)
        self._examiner.access(check)
        self._flags.begin(shadow, flags)
        if current.strong or shadow.flags:
            for warp, row in zip(agents, rows, strict=True):
                footprint = Footprint(starts[row], access.footprint.size)
                self._use_flags(access, shadow, warp, lanes[row], footprint, current)
        return True

    def _of_team_at_one_place(
        self,
        access: Access,
        agents: list[WarpAgent],
        rows: list[slice],
        lanes: NDArray[Any],
        current: Current,
        shadow: Shadow,
    ) -> None:
        """Check the weak reads of several warps, each of one group, of one place."""
        footprint = Footprint(access.footprint.starts[:1], access.footprint.size)
        checks = []
        for warp, row in zip(agents, rows, strict=True):
            warp.advance()
            group, mask = warp.groups[0], mask_of(lanes[row])
            record = self._thread_record(access, warp, mask)
            view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered)
            checks.append(_whole(shadow, footprint, view, record, current, mask))
        self._examiner.access(*checks)

    def _of_whole_warp(self, access: Access, warp: WarpAgent) -> None:
        """An access of a whole warp together: it frees tensor memory."""
        shadow = self._shadow(access.segment, access.actor)
        current = self._current(access, shadow)
        levels = NOTHING
        for group in warp.groups_of(warp.full):
            levels = join_levels(levels, group.snapshot(group.mask))
        warp.advance()
        view = View(levels, warp.cta, -1, 0, set())
        record = self._record(access, warp.key, warp.time, warp.full, warp.name)
        self._examiner.access(_whole(shadow, access.footprint, view, record, current))

    def _values(
        self,
        access: Access,
        warp: WarpAgent,
        lanes: NDArray[Any],
        starts: NDArray[np.int64],
        ascends: bool,
    ) -> tuple[NDArray[np.int64], Record]:
        """Return the shadow's value for each piece, and a record of the access.

        ``ascends`` is True if it is known that no two pieces begin at one place.
        """
        if not ascends and len(set(starts.tolist())) < len(starts):
            places = np.unique(starts, return_inverse=True)[1]
            return self._shared_values(access, warp, lanes, places.reshape(-1))
        record = self._thread_record(access, warp, FULL_MASK)
        return CODES * record.number + lanes.astype(np.int64), record

    def _shared_values(
        self, access: Access, warp: WarpAgent, lanes: NDArray[Any], places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Record]:
        """Return the values of an access in which several lanes touch the same bytes."""
        masks = np.zeros(int(places.max()) + 1, np.int64)
        np.bitwise_or.at(masks, places, np.left_shift(np.int64(1), lanes.astype(np.int64)))
        values = np.empty(len(lanes), np.int64)
        record: Record | None = None
        for mask in np.unique(masks).tolist():
            record = self._thread_record(access, warp, mask)
            values[masks[places] == mask] = CODES * record.number + ALL_LANES
        assert record is not None
        return values, record

    def _thread_record(self, access: Access, warp: WarpAgent, mask: int) -> Record:
        """Return the record of this instruction in the warp's current time."""
        key = (
            id(access.actor.location),
            access.kind,
            access.footprint.size,
            access.semantics,
            access.proxy,
            mask,
        )
        found = warp.records.get(key)
        if found is None:
            found = self._record(access, warp.key, warp.time, mask, warp.name)
            warp.records[key] = found
        return found

    # --- flags in memory ------------------------------------------------------------------------

    def _acquire(self, access: Access, warp: WarpAgent, lanes: NDArray[Any], footprint: Footprint) -> None:
        """Let lanes learn what was released into the bytes that they read, before the read is compared."""
        shadow = self._shadow(access.segment, access.actor)
        starts, size = footprint.starts, element_size(access)
        self._flags.read(access, shadow, warp, lanes, starts, size)
        if access.kind is AccessKind.RMW:
            self._flags.observe(access, shadow, warp, lanes, starts, size)

    def _use_flags(
        self,
        access: Access,
        shadow: Shadow,
        warp: WarpAgent,
        lanes: NDArray[Any],
        footprint: Footprint,
        current: Current,
    ) -> None:
        """Let strong accesses release and acquire through the bytes that they access."""
        if not current.strong:
            if current.kind is not AccessKind.READ:
                self._flags.written(shadow, footprint.starts, footprint.size)
        elif current.kind is not AccessKind.READ:
            self._flags.write(access, shadow, warp, lanes, footprint.starts, current.size)
        else:
            if not acquires(access.semantics):
                self._flags.read(access, shadow, warp, lanes, footprint.starts, current.size)
            self._flags.observe(access, shadow, warp, lanes, footprint.starts, current.size)

    # --- engines --------------------------------------------------------------------------------

    def _of_engine(self, access: Access, operation: AsyncOperation, token: Token) -> None:
        cta = token.cta
        shadow = self._shadow(access.segment, operation)
        current = self._current(access, shadow)
        current.pipelined = operation.group is GroupKind.TCGEN05_COMMIT
        view = View(token.levels, cta, -1, 0, token.ordered, token)
        key = (access.kind, id(access.segment), access.footprint.size, access.proxy)
        record = token.records.get(key)
        if record is None:
            name = f"{operation.name} by {operation.threads}"
            record = self._record(access, token.key, token.time, 0, name)
            record.reads_only, record.stream, record.issuer = token.reads, token.stream, token.issuer
            record.issue = token.issue
            record.waited = operation.group is not GroupKind.TCGEN05_LD
            token.records[key] = record
        self._reach(current, view, record, 0)
        self._examiner.access(_whole(shadow, access.footprint, view, record, current))
        if access.kind.writes:
            self._flags.written(shadow, access.footprint.starts, access.footprint.size)

    def _of_copies(self, access: Access, copies: Copies) -> None:
        """An access of a ``cp.async``, in which each lane's copy is an operation of its own."""
        assert access.threads is not None
        shadow = self._shadow(access.segment, access.actor)
        current = self._current(access, shadow)
        if access.kind.writes:
            self._flags.written(shadow, access.footprint.starts, access.footprint.size)
        lanes, warps = access.threads & 31, access.threads >> 5
        for number in np.unique(warps).tolist():
            part = copies.parts[number]
            record = self._copy_record(access, part)
            record.issue = copies.issue
            for group in part.groups:
                chosen = np.flatnonzero((warps == number) & (group.mask >> lanes & 1).astype(np.bool_))
                if len(chosen):
                    footprint = Footprint(access.footprint.starts[chosen], access.footprint.size)
                    self._of_copying(shadow, footprint, part, group, lanes[chosen], record, current)

    def _of_copying(
        self,
        shadow: Shadow,
        footprint: Footprint,
        part: CopyPart,
        group: LaneGroup,
        lanes: NDArray[Any],
        record: Record,
        current: Current,
    ) -> None:
        """Check the copies of those lanes of a ``cp.async`` that know the same."""
        warp = part.warp
        view = View(group.levels, warp.cta, warp.key, part.issued, group.ordered)
        values = CODES * record.number + lanes.astype(np.int64)
        self._examiner.access(Check(shadow, footprint, values, [view], [record], current, None, lanes))

    def _copy_record(self, access: Access, part: CopyPart) -> Record:
        key = (access.kind, id(access.segment), access.footprint.size)
        record = part.records.get(key)
        if record is None:
            actor: Any = access.actor
            record = self._record(access, part.key, 1, part.mask, f"{actor.name} by {actor.threads}")
            record.bound = part.bound
            part.records[key] = record
        return record

    # --- mbarriers ------------------------------------------------------------------------------

    def use_barrier(self, sync: Sync, kind: AccessKind) -> None:
        """Check an operation of threads on an mbarrier as an atomic access to its 8 bytes."""
        where = self._barriers.get(sync.object)
        if where is None:
            return
        shadow, footprint = where
        if sync.steps:
            self._signal_barrier(sync, shadow, footprint)
            return
        cta = self._world.ctas[sync.cta]
        for warp, mask in self._world.warps_of(cta, sync.threads):
            for group in warp.groups_of(mask):
                self._use_barrier(sync, kind, shadow, footprint, group)
            warp.merge()

    def _signal_barrier(self, sync: Sync, shadow: Shadow, footprint: Footprint) -> None:
        """Check the signal of an operation against the initialization of the mbarrier."""
        step = self._step
        assert step is not None and step.serial == sync.steps[0]
        cta = self._world.ctas[sync.cta]
        operation = step.operation
        name = f"{operation.name} by {operation.threads}"
        record = _barrier_record(AccessKind.RMW, cta, self._world, name, sync.location)
        record.issue = step.observed.issue
        current = self._barrier_current(AccessKind.RMW, shadow, footprint)
        view = View(step.observed.issued, cta, -1, 0, set())
        self._examiner.compare(Check(shadow, footprint, 0, [view], [record], current))

    def _barrier_current(self, kind: AccessKind, shadow: Shadow, footprint: Footprint) -> Current:
        owner = None if shadow.owner is None else self._world.ctas.get(shadow.owner)
        address = shadow.segment.base + int(footprint.starts[0])
        return Current(
            None,
            StateSpace.SHARED,
            kind,
            Proxy.GENERIC,
            _BARRIER_BYTES,
            True,
            Scope.SYS,
            True,
            owner,
            address,
        )

    def _use_barrier(
        self, sync: Sync, kind: AccessKind, shadow: Shadow, footprint: Footprint, group: LaneGroup
    ) -> None:
        warp = group.warp
        warp.advance()
        key = id(sync.location), kind, sync.object, sync.phase, group.mask
        record = warp.records.get(key)
        if record is None:
            record = _barrier_record(kind, warp.cta, self._world, warp.name, sync.location)
            record.key, record.time, record.mask = warp.key, warp.time, group.mask
            if sync.kind is SyncKind.MBARRIER_ARRIVE:
                phase = self._world.barrier_key(sync.object), sync.phase + 1
                record.bound = dict.fromkeys(range(32), phase)
            warp.records[key] = self._world.records.add(record)
        current = self._barrier_current(kind, shadow, footprint)
        view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered)
        self._reach(current, view, record, group.mask)
        self._examiner.access(_whole(shadow, footprint, view, record, current, group.mask))


def _whole(
    shadow: Shadow, footprint: Footprint, view: View, record: Record, current: Current, mask: int = 0
) -> Check:
    """Return the check of an access to all pieces by one agent, or by the lanes of ``mask`` together."""
    return Check(shadow, footprint, CODES * record.number + ALL_LANES, [view], [record], current, mask=mask)


def _barrier_record(
    kind: AccessKind, cta: CtaAgent, world: World, name: str, location: SourceLocation | None
) -> Record:
    """Return a record of an operation on an mbarrier, with no agent and no time yet."""
    return Record(
        0,
        -1,
        0,
        0,
        kind,
        Proxy.GENERIC,
        MemoryOrder.RELAXED,
        Scope.SYS,
        _BARRIER_BYTES,
        cta.key,
        world.launches[cta.launch],
        name,
        location,
        barrier=True,
    )


def _strong_read(access: Access) -> bool:
    """True if threads read by a strong load or an atomic operation."""
    strong = access.kind is AccessKind.READ and access.semantics is not MemoryOrder.WEAK
    return strong or access.kind is AccessKind.RMW


def _asks_once(access: Access) -> bool:
    """True for a strong load of threads whose value decides nothing: no thread waits by it."""
    if access.kind is not AccessKind.READ or access.semantics is MemoryOrder.WEAK:
        return False
    actor: Any = access.actor
    cache = actor.op.cache
    if "decides" not in cache:
        cache["decides"] = actor.frame.code.decides(actor.op)
    return not cache["decides"]


@lru_cache(maxsize=64)
def _rows_of_whole_warps(warps: int) -> list[slice]:
    return [slice(first, first + _LANES) for first in range(0, _LANES * warps, _LANES)]


def _rows(threads: NDArray[np.int64], low: int, high: int) -> list[slice]:
    """Return the positions of the threads of each warp. ``low`` and ``high`` are the first and last warp."""
    if len(threads) == _LANES * (high - low + 1):
        return _rows_of_whole_warps(high - low + 1)
    warps = threads >> 5
    ends = [*(np.flatnonzero(warps[1:] != warps[:-1]) + 1).tolist(), len(warps)]
    return [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]


def stores_alike(access: Access) -> bool | None:
    """True if the threads of a store that write to one address write one value; None if it is not known."""
    actor: Any = access.actor
    by_threads = access.kind is AccessKind.WRITE and not isinstance(actor, AsyncOperation)
    values = stored_values(actor) if by_threads else None
    if values is None or len(values) != len(access.footprint.starts):
        return None
    order = np.argsort(access.footprint.starts, kind="stable")
    starts, rows = access.footprint.starts[order], values[order]
    close = starts[1:] - starts[:-1] < access.footprint.size
    if not (starts[1:][close] == starts[:-1][close]).all():
        return None
    return bool((rows[1:][close] == rows[:-1][close]).all())


def element_size(access: Access) -> int:
    """Return the bytes of one scalar: a vector or a packed type counts as accesses of its elements."""
    op = getattr(access.actor, "op", None)
    if op is None:
        return access.footprint.size
    vector, kind = op.chosen.get("vec"), op.chosen.get("type")
    count = 1 if vector is None else int(vector[1:])
    if access.kind is AccessKind.RMW and kind is not None:
        count *= TYPES[kind].lanes
    return max(1, access.footprint.size // count)
