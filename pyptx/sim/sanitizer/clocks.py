"""Vector clocks: what an agent knows to have happened, on several levels of order.

A :data:`Clock` maps a key to a time: all events of this key up to the time have happened before. Clocks are
never changed once they are shared; :func:`join` makes new ones.

A warp has 64 keys: the first one stands for all of its lanes, the next 32 for single lanes. So the arrival of
one elected lane releases only this lane's accesses. A chain of asynchronous operations has 64 keys as well:
the first one for whole operations, :data:`READ_KEY` for their reads alone.

:data:`Levels` are the clocks of one agent. ``SYNC`` is causality order: release and acquire with scopes that
include each other. ``WIDE`` ignores scopes, ``EXECUTION`` also takes what relaxed operations order.
``FENCES`` has the order of fences of kind ``sc``, in runs with weak reads. A level ``Fenced`` holds what a
proxy fence has made visible to the async proxy. ``TENSOR`` and ``SENT`` follow ``tcgen05.fence``,
``INITIALIZED`` follows ``fence.mbarrier_init``, ``MATCHED`` follows ``match.sync``, and a level
``SharedOnly`` has causality order for shared memory alone.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping

from ...core.tuples import NamedTuple
from ..memory.access import Scope, StateSpace

__all__ = [
    "KEYS",
    "LANES_KEY",
    "NOTHING",
    "NO_CLOCK",
    "ORDERS",
    "READ_KEY",
    "Clock",
    "Fenced",
    "Level",
    "Levels",
    "MapFenced",
    "MapReleased",
    "SharedOnly",
    "extended",
    "join",
    "join_levels",
    "shared_only",
]

#: Number of keys of one warp or of one chain.
KEYS = 64
#: Within a warp: the key of the latest time of any single lane.
LANES_KEY = 33
#: Within a chain: the key of the reads alone.
READ_KEY = 40

Clock = dict[int, int]


class Level(enum.Enum):
    """Orders from the strongest to the weakest, and the two of tensor memory."""

    SYNC = "release and acquire"
    WIDE = "release and acquire of any scope"
    EXECUTION = "execution"
    FENCES = "the order of fences of kind sc in this run"
    TENSOR = "tcgen05 operations that a fence::after_thread_sync orders before"
    SENT = "tcgen05 operations that a fence::before_thread_sync has sent"
    INITIALIZED = "mbarriers whose initialization a fence.mbarrier_init has released"
    MATCHED = "release and acquire, with match.sync in the place of bar.warp.sync"

    __hash__ = object.__hash__


class Fenced(NamedTuple):
    """The level of what a proxy fence for ``space``, executed by a thread of ``cta``, has ordered.

    ``own`` is True if the fence orders only accesses to shared memory of ``cta``.
    """

    space: StateSpace
    cta: tuple[int, int]
    own: bool = False

    def serves(self, space: StateSpace, owner: tuple[int, int] | None) -> bool:
        """True if the fence orders accesses to bytes of ``space``, in shared memory of CTA ``owner``."""
        return self.space is space and (not self.own or self.cta == owner)


class SharedOnly(NamedTuple):
    """The level of what fences with ``.sync_restrict`` have ordered: accesses to shared memory alone.

    ``cta`` is the CTA whose shared memory it is, or None for that of the whole cluster.
    """

    cta: tuple[int, int] | None

    def serves(self, space: StateSpace, owner: tuple[int, int] | None) -> bool:
        """True if the fence orders accesses to bytes of ``space``, in shared memory of CTA ``owner``."""
        return space is StateSpace.SHARED and self.cta in (None, owner)


class MapReleased(NamedTuple):
    """The level of what a release fence of the tensor-map proxy, executed in ``cta``, has ordered."""

    scope: Scope
    cta: tuple[int, int]


class MapFenced(NamedTuple):
    """The level of what an acquire fence of the tensor-map proxy has ordered, for the bytes it names."""

    address: int
    size: int

    def holds(self, address: int, size: int) -> bool:
        """True if these bytes are among those that the fence names."""
        return self.address <= address and address + size <= self.address + self.size


#: The orders of events, from the strongest to the weakest.
ORDERS = (Level.SYNC, Level.WIDE, Level.EXECUTION)
#: The clock of an agent that knows of nothing.
NO_CLOCK: Clock = {}
#: The clocks of an agent by level. Absent levels know nothing.
Levels = Mapping[Hashable, Clock]
NOTHING: Levels = {}


def join(a: Clock, b: Clock) -> Clock:
    """Return the later time of each key: one of the two clocks itself, if it contains the other."""
    if a is b or not b:
        return a
    if not a:
        return b
    if len(a) < len(b):
        a, b = b, a
    get = a.get
    news = [item for item in b.items() if get(item[0], 0) < item[1]]
    if not news:
        return a
    merged = a.copy()
    merged.update(news)
    return b if len(merged) == len(b) and merged == b else merged


def extended(clock: Clock, own: Clock) -> Clock:
    """Return ``clock`` with the times of ``own``, which are the latest of their keys."""
    merged = clock.copy()
    merged.update(own)
    return merged


def join_levels(a: Levels, b: Levels) -> Levels:
    """Return the join of each level."""
    if a is b or not b:
        return a
    if not a:
        return b
    done: dict[tuple[int, int], Clock] = {}
    merged: dict[Hashable, Clock] = {}
    same = True
    for level, clock in a.items():
        other = b.get(level)
        if other is None or other is clock:
            merged[level] = clock
            continue
        key = (id(clock), id(other))
        found = done.get(key)
        if found is None:
            found = done[key] = join(clock, other)
        same = same and found is clock
        merged[level] = found
    for level, other in b.items():
        if level not in merged:
            merged[level] = other
            same = False
    if same:
        return a
    if len(merged) == len(b) and all(merged[level] is clock for level, clock in b.items()):
        return b
    return merged


def shared_only(levels: Levels, cta: tuple[int, int] | None) -> Levels:
    """Return what ``levels`` order of accesses to shared memory alone: of ``cta``, or of the cluster."""
    made: dict[Hashable, Clock] = {}
    known = levels.get(Level.SYNC, {})
    for level, clock in levels.items():
        if isinstance(level, SharedOnly) and cta is not None and level.cta in (None, cta):
            known = join(known, clock)
        elif level not in (Level.SYNC, Level.WIDE):
            made[level] = clock
    made[SharedOnly(cta)] = join(made.get(SharedOnly(cta), {}), known)
    return made
