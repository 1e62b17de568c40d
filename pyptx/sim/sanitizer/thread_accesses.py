"""The accesses of threads: of lanes of one warp, and of warps that execute one instruction together."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.events import AsyncOperation
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy
from ..memory.access_findings import store_collision
from ..memory.collisions import colliding
from ..threads.loads import stored_values
from .access_records import current_of, element_size, new_record, whole
from .agents import FULL_MASK, CtaAgent, LaneGroup, WarpAgent
from .clocks import NOTHING, MapReleased, join_levels
from .examine import Check, Examiner
from .flags import Flags
from .late import Late, apart, may_be_late
from .mbarrier_accesses import MbarrierAccesses
from .order import Current, View
from .records import ALL_LANES, CODES, Record
from .release import acquires, releases
from .remote import RemoteAccesses
from .shadow import Shadow
from .shadows import Shadows
from .world import World, mask_of

__all__ = ["ThreadAccesses", "stores_alike"]

_LANES = 32
_ALL = slice(None)


class ThreadAccesses:
    """Brings the accesses of threads to the examiner."""

    def __init__(
        self,
        world: World,
        examiner: Examiner,
        shadows: Shadows,
        remote: RemoteAccesses,
        flags: Flags,
        mbarriers: MbarrierAccesses,
    ) -> None:
        self._world, self._examiner, self._shadows = world, examiner, shadows
        self._remote, self._flags, self._mbarriers = remote, flags, mbarriers

    def access(self, access: Access) -> None:
        """Check an access."""
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
        shadow = self._shadows.of(access.segment, access.actor)
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
        shadow = self._shadows.of(access.segment, access.actor)
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
        current = current_of(self._world, access, shadow)
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
            self._remote.reach(current, view, record, group.mask)
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
        shadow = self._shadows.of(access.segment, access.actor)
        current = current_of(self._world, access, shadow)
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
        current = current_of(self._world, access, shadow)
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
        shadow = self._shadows.of(access.segment, access.actor)
        checks = []
        for group in groups:
            record = self._thread_record(access, warp, group.mask)
            record.together = together
            view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered, together=together)
            self._remote.reach(current, view, record, group.mask)
            checks.append(whole(shadow, footprint, view, record, current, group.mask))
        self._examiner.access(*checks)
        if access.kind.writes:
            self._flags.written(shadow, footprint.starts, footprint.size)

    def _begin_lives(self, access: Access, shadow: Shadow, warp: WarpAgent, groups: list[LaneGroup]) -> None:
        """Do what an access does besides: it begins an mbarrier, or releases a tensor map."""
        if access.kind is AccessKind.INIT:
            self._mbarriers.begin(access, shadow)
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

    def _of_team(
        self, access: Access, cta: CtaAgent, agents: list[WarpAgent], rows: list[slice], lanes: NDArray[Any]
    ) -> bool:
        """Check an access of several warps at once; False if each warp needs a check of its own.

        ``rows`` has the pieces of each warp.
        """
        if acquires(access.semantics) or _asks_once(access) or any(len(w.groups) > 1 for w in agents):
            return False
        shadow = self._shadows.of(access.segment, access.actor)
        current = current_of(self._world, access, shadow)
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
            checks.append(whole(shadow, footprint, view, record, current, mask))
        self._examiner.access(*checks)

    def _of_whole_warp(self, access: Access, warp: WarpAgent) -> None:
        """An access of a whole warp together: it frees tensor memory."""
        shadow = self._shadows.of(access.segment, access.actor)
        current = current_of(self._world, access, shadow)
        levels = NOTHING
        for group in warp.groups_of(warp.full):
            levels = join_levels(levels, group.snapshot(group.mask))
        warp.advance()
        view = View(levels, warp.cta, -1, 0, set())
        record = new_record(self._world, access, warp.key, warp.time, warp.full, warp.name)
        self._examiner.access(whole(shadow, access.footprint, view, record, current))

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
            found = new_record(self._world, access, warp.key, warp.time, mask, warp.name)
            warp.records[key] = found
        return found

    # --- flags in memory ------------------------------------------------------------------------

    def _acquire(self, access: Access, warp: WarpAgent, lanes: NDArray[Any], footprint: Footprint) -> None:
        """Let lanes learn what was released into the bytes that they read, before the read is compared."""
        shadow = self._shadows.of(access.segment, access.actor)
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
