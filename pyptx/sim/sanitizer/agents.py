"""The agents of a run: warps with their lanes, and the CTAs that they belong to.

Lanes are threads: each has its own knowledge. Lanes that know the same share one :class:`LaneGroup`, so a
warp that runs and synchronizes as a whole costs as much as one thread.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import field

from ...core.records import dataclass
from ...core.tuples import NamedTuple
from ..memory.access import Scope
from .clocks import LANES_KEY, ORDERS, Clock, Level, Levels, join, join_levels
from .records import Record

__all__ = [
    "FULL_MASK",
    "CtaAgent",
    "FencePoint",
    "LaneGroup",
    "Released",
    "Source",
    "WarpAgent",
    "bits_of",
    "includes",
]

#: The mask of all lanes of a warp.
FULL_MASK = 0xFFFFFFFF
#: Sets of record numbers above this size are not copied.
_FEW = 100


def bits_of(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Source(NamedTuple):
    """Who released something, and how.

    Attributes:
        released: True for a release, False for a relaxed operation.
        scope: the scope of the operation.
        cta: the CTA of the thread or of the operation's issuer.
        engine: True for a signal that an asynchronous operation brings.
    """

    released: bool
    scope: Scope
    cta: tuple[int, int]
    engine: bool = False


#: What several agents have released into one object, by source.
Released = dict[Source, Levels]


@dataclass(frozen=True, eq=False, slots=True)
class FencePoint:
    """A release fence: its scope, what the lanes knew of others, and the times of their own accesses.

    ``own`` has the times in the levels of earlier fences, as in :class:`LaneGroup`. ``shared`` is True if the
    fence releases only accesses to shared memory of its CTA.
    """

    scope: Scope
    levels: Levels
    time: int
    own: dict[Hashable, int]
    shared: bool = False


class LaneGroup:
    """Lanes of one warp that know the same of others.

    Attributes:
        mask: the lanes.
        levels: what they know of other agents.
        own: for each level of a fence: the time until which each lane's own accesses are in it.
        ordered: numbers of records, with the class of the access, that were found to be ordered before.
        fences: the last release fences: of each scope, unless a later one has a wider scope.
        seen: what relaxed operations have observed, by object; an acquire fence makes it known, or an
            operation on the object that acquires.
    """

    __slots__ = ("_snapshot", "fences", "levels", "mask", "ordered", "own", "seen", "warp")

    def __init__(self, warp: WarpAgent, mask: int, levels: Levels) -> None:
        self.warp, self.mask, self.levels = warp, mask, levels
        self.own: dict[Hashable, int] = {}
        self.ordered: set[int] = set()
        self.fences: tuple[FencePoint, ...] = ()
        self.seen: dict[Hashable, Released] = {}
        self._snapshot: tuple[int, int, Levels, Levels] | None = None

    def part(self, mask: int) -> LaneGroup:
        """Split off the lanes of ``mask``."""
        other = LaneGroup(self.warp, mask, self.levels)
        other.ordered = set(self.ordered) if len(self.ordered) < _FEW else set()
        other.fences, other.own = self.fences, dict(self.own)
        other.seen = {key: dict(board) for key, board in self.seen.items()}
        self.mask &= ~mask
        self._snapshot = None
        return other

    def learn(self, levels: Levels) -> None:
        """Add what another agent has released."""
        self.levels = join_levels(self.levels, levels)

    def pass_fence(self, level: Hashable) -> None:
        """Add to a level what the lanes know in causality order, their own accesses included."""
        known = join(self.levels.get(level, {}), self.levels.get(Level.SYNC, {}))
        self.levels = {**self.levels, level: known}
        self.own[level] = self.warp.time
        self.warp.released = True
        self._snapshot = None

    def snapshot(self, mask: int) -> Levels:
        """Return what the lanes of ``mask`` know, their own accesses included."""
        warp = self.warp
        known = self._snapshot
        if known is not None and known[:2] == (warp.time, mask) and known[2] is self.levels:
            warp.released = True
            return known[3]
        made = self.with_own(self.levels, mask, warp.time, self.own)
        warp.released = True
        self._snapshot = warp.time, mask, self.levels, made
        return made

    def with_own(
        self, levels: Levels, mask: int, time: int, fenced: dict[Hashable, int]
    ) -> dict[Hashable, Clock]:
        """Return ``levels`` with the accesses of the lanes of ``mask`` until ``time``.

        ``fenced`` has the times for the levels of fences.
        """
        warp = self.warp
        keys = warp.keys(mask, time)
        whole = warp.key in keys and len(warp.groups) > 1
        done: dict[int, Clock] = {}
        made = dict(levels)
        for level in ORDERS:
            clock = levels.get(level, {})
            found = done.get(id(clock))
            if found is None:
                left = clock
                if whole:
                    left = {k: t for k, t in clock.items() if not warp.key < k <= warp.key + LANES_KEY}
                found = done[id(clock)] = join(left, keys)
            made[level] = found
        for fence, until in fenced.items():
            made[fence] = join(made.get(fence, {}), warp.keys(mask, until))
        return made


class WarpAgent:
    """One warp: its key in clocks, its time, and its lanes in groups that know the same."""

    __slots__ = ("cta", "full", "groups", "index", "key", "name", "records", "released", "time")

    def __init__(self, cta: CtaAgent, index: int, key: int, full: int, levels: Levels) -> None:
        self.cta, self.index, self.key, self.full = cta, index, key, full
        #: For messages.
        self.name = f"CTA {cta.coordinates} warp {index}"
        self.time = 1
        #: True if the current time was released: the next access gets a later one.
        self.released = False
        self.groups = [LaneGroup(self, full, levels)]
        #: Records of the current time, by the instruction and the kind of access.
        self.records: dict[tuple[object, ...], Record] = {}

    def keys(self, mask: int, time: int) -> Clock:
        """Return the keys by which others know the accesses of these lanes until ``time``."""
        if mask & self.full == self.full:
            return {self.key: time}
        own = {self.key + 1 + lane: time for lane in bits_of(mask)}
        own[self.key + LANES_KEY] = time
        return own

    def advance(self) -> None:
        """Begin a new time if the current one was released."""
        if self.released:
            self.time += 1
            self.released = False
            self.records.clear()

    def groups_of(self, mask: int) -> list[LaneGroup]:
        """Return groups that consist of exactly the lanes of ``mask``; split groups if necessary."""
        if len(self.groups) == 1 and not self.groups[0].mask & ~mask:
            return [self.groups[0]]
        found = []
        for group in self.groups:
            both = group.mask & mask
            if both == group.mask:
                found.append(group)
            elif both:
                found.append(group.part(both))
        self.groups.extend(group for group in found if group not in self.groups)
        return found

    def merge(self) -> None:
        """Merge groups that know the same."""
        if len(self.groups) == 1:
            return
        kept: list[LaneGroup] = []
        for group in self.groups:
            for other in kept:
                if (
                    other.levels is group.levels
                    and other.fences == group.fences
                    and other.own == group.own
                    and not other.seen
                    and not group.seen
                ):
                    other.mask |= group.mask
                    other.ordered &= group.ordered
                    break
            else:
                kept.append(group)
        self.groups = kept


@dataclass(eq=False, slots=True)
class CtaAgent:
    """One CTA: its warps, its cluster, and its key in clocks, which stands for its start."""

    key: tuple[int, int]
    start: int
    cluster: tuple[int, int]
    coordinates: tuple[int, int, int]
    warps: list[WarpAgent] = field(default_factory=list)

    @property
    def launch(self) -> int:
        return self.key[0]


def includes(scope: Scope, one: CtaAgent, other: CtaAgent) -> bool:
    """True if ``scope`` of a thread of CTA ``one`` includes the threads of CTA ``other``."""
    if one is other:
        return True
    if scope is Scope.CLUSTER:
        return one.cluster == other.cluster
    return scope in (Scope.GPU, Scope.SYS)
