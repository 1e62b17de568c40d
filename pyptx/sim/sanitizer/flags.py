"""Flags in memory: what strong accesses release into the bytes that they write, and learn from what they
read.

A release pattern ends in a strong write, and an acquire pattern begins with a strong read that is morally
strong with it and reads its value, through a chain of atomics if need be. The write itself is ordered before
what the reader does next, even without a release (observation order).

Source: PTX ISA, `#release-acquire-patterns`, `#observation-order`, `#causality-order`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.tuples import NamedTuple
from ..memory.access import Access, AccessKind, MemoryOrder, Proxy, Scope
from .agents import CtaAgent, LaneGroup, Released, WarpAgent, bits_of, includes
from .clocks import LANES_KEY, ORDERS, Clock, Level, Levels, join_levels
from .order import known_lanes
from .records import ALL_LANES, CODES, Record
from .release import acquire, release, release_levels, releases, weaker
from .shadow import Shadow
from .value_sets import ValueSets
from .world import World, mask_of

__all__ = ["Flag", "Flags", "LastWrite", "places_of"]

#: Added to a record's number in ``LaneGroup.ordered``: the group has observed the record's write.
_OBSERVED = 7
Lanes = NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Flag:
    """One place that a strong write has written, and what was released there.

    Attributes:
        board: what the chain of atomics that ends in the last write has released.
        cta, scope, size: of the last write.
    """

    board: Released = field(default_factory=dict)
    cta: CtaAgent | None = None
    scope: Scope = Scope.NONE
    size: int = 0

    def fits(self, cta: CtaAgent, scope: Scope, size: int) -> bool:
        """True if an access by a thread of ``cta`` is morally strong with the last write."""
        there = self.cta
        assert there is not None
        return self.size == size and includes(self.scope, there, cta) and includes(scope, cta, there)


class LastWrite(NamedTuple):
    """What is known of the last write to a place: its flag, and its value in shadow memory."""

    flag: Flag | None
    value: int


class Flags:
    """The flags of one run. Those of a segment are in its shadow.

    Attributes:
        sources: the writes from which the current access reads, by the shadow's identity and the place; for
            other places it is the last write.
    """

    def __init__(self, world: World, sets: ValueSets) -> None:
        self._world, self._sets = world, sets
        self.sources: dict[tuple[int, int], LastWrite] = {}
        #: True if the current access learns nothing: an atomic operation whose place among others is open,
        #: and whose result no instruction reads.
        self.learns_nothing = False

    def last_write(self, shadow: Shadow, place: int) -> LastWrite:
        """Return the last write to a place."""
        (value,) = shadow.writes_at(np.array([place]), 1)
        return LastWrite(shadow.flags.get(place), value)

    def after(self, write: LastWrite, before: LastWrite | None) -> LastWrite:
        """Return a write, if it comes in coherence order after another one than in time.

        ``before`` is the write that it follows, or None.
        """
        mine = self._sets.accesses(write.value)
        mine = [one for one in mine if one // CODES == mine[0] // CODES]
        chain = self._sets.accesses(before.value) if before is not None and before.value else []
        number = 0
        for member in reversed([*mine, *chain]):
            number = self._sets.extended(number, member)
        return LastWrite(write.flag, self._sets.value(number, 0))

    def _flag_at(self, shadow: Shadow, place: int) -> Flag | None:
        """Return the flag of the write from which the current access reads."""
        found = self.sources.get((id(shadow), place)) if self.sources else None
        flag: Flag | None = shadow.flags.get(place) if found is None else found.flag
        return flag

    def _value_at(self, shadow: Shadow, place: int) -> int:
        """Return the value in shadow memory of the write from which the current access reads."""
        found = self.sources.get((id(shadow), place)) if self.sources else None
        return self.last_write(shadow, place).value if found is None else found.value

    # --- reads ----------------------------------------------------------------------------------

    def read(
        self, access: Access, shadow: Shadow, warp: WarpAgent, lanes: Lanes, starts: Lanes, size: int
    ) -> None:
        """Let lanes learn what was released into the bytes that a strong access of them reads.

        ``starts`` has the first byte of each lane, ``size`` is that of one element.
        """
        if self.learns_nothing or not (shadow.flags or self.sources):
            return
        agents = self._world.ctas
        for place, mask in places_of(lanes, starts, access.footprint.size, size):
            flag = self._flag_at(shadow, place)
            if flag is None or flag.size != size:
                continue
            key, order, scope = (id(shadow), place), access.semantics, access.scope
            strong = flag.fits(warp.cta, scope, size)
            for group in warp.groups_of(mask):
                acquire(group, key, flag.board, order, scope, agents, flag=True, strong=strong)
        warp.merge()

    def observe(
        self, access: Access, shadow: Shadow, warp: WarpAgent, lanes: Lanes, starts: Lanes, size: int
    ) -> None:
        """Order the writes that a strong access reads before what its lanes do next."""
        nbytes = access.footprint.size
        if self.learns_nothing or not self._strongly_written(shadow, starts, nbytes):
            return
        for place, mask in places_of(lanes, starts, nbytes, size):
            value = self._value_at(shadow, place)
            for group in warp.groups_of(mask) if value else ():
                self._observe(group, value, access.scope, size)
        warp.merge()

    def by_chance(
        self, access: Access, shadow: Shadow, warp: WarpAgent, lanes: Lanes, starts: Lanes, size: int
    ) -> Iterator[tuple[LaneGroup, Record, int]]:
        """Yield the writes whose values a strong access is about to read, and that nothing orders before.

        With each, the lanes that read it, and the lane that has written it.
        """
        nbytes = access.footprint.size
        if not self._strongly_written(shadow, starts, nbytes):
            return
        for place, mask in places_of(lanes, starts, nbytes, size):
            value = self._value_at(shadow, place)
            if not value:
                continue
            number, lane = divmod(self._sets.latest(value), CODES)
            record = self._world.records[number]
            # A count that atomics still change is read on purpose.
            if not _is_strong(record) or record.kind is not AccessKind.WRITE or not record.mask:
                continue
            written = record.mask if lane == ALL_LANES else 1 << lane
            for group in warp.groups_of(mask):
                known = group.levels.get(Level.SYNC, {})
                own = record.key == warp.key and written & group.mask
                if not own and record.launch not in known and written & ~known_lanes(record, known, written):
                    yield group, record, lane
        warp.merge()

    def uninitialized(
        self, shadow: Shadow, warp: WarpAgent, lanes: Lanes, starts: Lanes
    ) -> Iterator[tuple[LaneGroup, Record, int]]:
        """Yield the initializations of flags in shared memory that strong reads are not ordered after.

        With each, the lanes that access, and the lane that has written.
        """
        first = [shadow.first.get(start, 0) for start in starts.tolist()]
        for value in set(first) - {0}:
            number, lane = divmod(value, CODES)
            record = self._world.records[number]
            if not record.mask or record.proxy is not Proxy.GENERIC:
                continue
            written = record.mask if lane == ALL_LANES else 1 << lane
            if not any(self._misses(group, record, written) for group in warp.groups):
                continue
            mask = mask_of(lanes[np.equal(first, value)])
            for group in warp.groups_of(mask):
                own = record.key == warp.key and written & group.mask
                if not own and self._misses(group, record, written):
                    yield group, record, lane
            warp.merge()

    @staticmethod
    def _misses(group: LaneGroup, record: Record, written: int) -> bool:
        """True if nothing orders a write of the lanes ``written`` before what a group does now."""
        return bool(written & ~known_lanes(record, group.levels.get(Level.EXECUTION, {}), written))

    def new(self, shadow: Shadow, starts: Lanes) -> dict[int, int]:
        """Return the places that no strong access has written yet, and the last write of each or 0."""
        known = shadow.first
        places = [place for place in np.unique(starts).tolist() if place not in known]
        return {place: shadow.writes_at(np.array([place]), 1)[0] for place in places}

    def begin(self, shadow: Shadow, places: dict[int, int]) -> None:
        """Remember, for places that have become flags, the write that initialized them."""
        for place, earlier in places.items():
            value = earlier or shadow.writes_at(np.array([place]), 1)[0]
            shadow.first[place] = self._sets.latest(value) if value else 0

    def _strongly_written(self, shadow: Shadow, starts: Lanes, nbytes: int) -> bool:
        """True if strong writes of threads are the last ones to some of the bytes."""
        found = shadow.writes_at(starts, nbytes)
        return any(
            value < 0 or (value and _is_strong(self._world.records[value // CODES])) for value in found
        )

    def _observe(self, group: LaneGroup, value: int, scope: Scope, size: int) -> None:
        """Order the write that lanes read before what they do next, and the chain of atomics before it."""
        cta = group.warp.cta
        for member in self._sets.accesses(value):
            number, lane = divmod(member, CODES)
            record = self._world.records[number]
            if not record.mask or record.barrier or record.size != size or not _is_strong(record):
                return
            there = self._world.ctas[record.cta]
            strong = includes(record.scope, there, cta) and includes(scope, cta, there)
            key = 8 * number + _OBSERVED
            if key not in group.ordered:
                group.ordered.add(key)
                self._learn(group, record, lane, strong=strong)
            if not strong or record.kind is not AccessKind.RMW:
                return
            # The atomic has read the value of the write before it.
            cta, scope = there, record.scope

    def _learn(self, group: LaneGroup, record: Record, lane: int, *, strong: bool) -> None:
        """Learn of a write, and of what its thread has done before: of this only the order of execution.

        ``strong`` is False for a write that is not morally strong with the read.
        """
        lanes = record.mask if lane == ALL_LANES else 1 << lane
        known = known_lanes(record, group.levels.get(Level.SYNC, {}), lanes)
        if not lanes & ~known:
            return
        own = {record.key + 1 + one: record.time for one in bits_of(lanes)}
        own[record.key + LANES_KEY] = record.time
        before: Levels = {Level.EXECUTION: own}
        for mask, levels in record.before:
            if mask & lanes:
                before = join_levels(before, weaker(levels, wide=False))
        group.learn(before)
        if not strong:
            return
        if not record.observed:
            record.observed = self._world.chains.new_key()
        write: Clock = {}
        for one in bits_of(lanes):
            record.bound.setdefault(one, (record.observed, 1))
            write[record.observed + 1 + one] = 1
        write[record.observed + LANES_KEY] = 1
        group.learn(dict.fromkeys(ORDERS, write))

    # --- writes ---------------------------------------------------------------------------------

    def written(self, shadow: Shadow, starts: Lanes, nbytes: int) -> None:
        """Forget the flags whose bytes a weak access or an engine writes."""
        if not (shadow.flags or shadow.own_releases):
            return
        for flags in (shadow.flags, shadow.own_releases):
            places = np.fromiter(flags, np.int64, len(flags))
            after = np.searchsorted(np.sort(starts), places, side="right")
            first = np.sort(starts)[np.maximum(after - 1, 0)]
            for place in places[(after > 0) & (places < first + nbytes)].tolist():
                del flags[place]

    def write(
        self, access: Access, shadow: Shadow, warp: WarpAgent, lanes: Lanes, starts: Lanes, size: int
    ) -> None:
        """Let lanes release into the bytes that a strong access of them writes; atomics learn, too."""
        order = access.semantics
        self._keep(shadow, warp, lanes, starts)
        fences = any(group.fences for group in warp.groups)
        if not (shadow.flags or shadow.own_releases or fences or releases(order)):
            return
        for start, lane in zip(starts.tolist(), lanes.tolist(), strict=True):
            for place in range(start, start + access.footprint.size, size):
                self._write_place(access, shadow, warp, lane, place, size)
        warp.merge()

    def _keep(self, shadow: Shadow, warp: WarpAgent, lanes: Lanes, starts: Lanes) -> None:
        """Keep what lanes knew when they wrote, for those who read without acquiring."""
        mask = mask_of(lanes)
        known = tuple((group.mask & mask, group.levels) for group in warp.groups if group.mask & mask)
        for value in shadow.writes_at(starts, 1):
            self._world.records[self._sets.latest(value) // CODES].before = known

    def _write_place(
        self, access: Access, shadow: Shadow, warp: WarpAgent, lane: int, place: int, size: int
    ) -> None:
        order, scope = access.semantics, access.scope
        flag = self._flag_at(shadow, place)
        mine = warp.groups_of(1 << lane)[0]
        kept: Released = {}
        if flag is not None and access.kind is AccessKind.RMW:
            strong = flag.fits(warp.cta, scope, size)
            if _returns(access) and not self.learns_nothing:
                key = (id(shadow), place)
                acquire(mine, key, flag.board, order, scope, self._world.ctas, flag=True, strong=strong)
            if strong:
                kept = dict(flag.board)
        # The thread's own earlier release on the same location goes on (release pattern, form 2).
        threads = shadow.own_releases.get(place, {})
        own: Released = threads.get((warp.key, lane), {})
        if releases(order) or mine.fences:
            release(own, mine, 1 << lane, order, scope, flag=True)
            threads[warp.key, lane] = own
            shadow.own_releases[place] = threads
        for source, levels in own.items():
            release_levels(kept, source, levels)
        if kept:
            shadow.flags[place] = Flag(kept, warp.cta, scope, size)
        else:
            shadow.flags.pop(place, None)
        # The next lane of an atomic operation reads this write.
        self.sources.pop((id(shadow), place), None)


def _is_strong(record: Record) -> bool:
    """True for a strong access by threads."""
    return record.semantics is not MemoryOrder.WEAK and record.proxy is Proxy.GENERIC


def places_of(lanes: Lanes, starts: Lanes, nbytes: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the first byte of each element that lanes access, and the mask of these lanes."""
    for shift in range(0, nbytes, size):
        places = starts + shift
        if len(places) == 1:
            yield int(places[0]), mask_of(lanes)
            continue
        for place in np.unique(places).tolist():
            yield place, mask_of(lanes[places == place])


def _returns(access: Access) -> bool:
    """True if an atomic operation gives its old value to a register: ``red`` begins no acquire pattern."""
    actor: Any = access.actor
    return bool(actor.op.dests)
