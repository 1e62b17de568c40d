"""What threads release into synchronization objects, and what a thread that observes it learns.

A board (:data:`~.agents.Released`) is one phase of an mbarrier, one round of a barrier, or the value of a
flag in memory.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..memory.access import MemoryOrder, Scope
from .agents import CtaAgent, LaneGroup, Released, Source, includes
from .clocks import NOTHING, Clock, Level, Levels, join_levels, shared_only

__all__ = [
    "acquire",
    "acquires",
    "narrower",
    "observed",
    "release",
    "release_levels",
    "releases",
    "sendable",
    "weaker",
]

_RANK = [Scope.NONE, Scope.CTA, Scope.CLUSTER, Scope.GPU, Scope.SYS]


def releases(order: MemoryOrder) -> bool:
    """True if an operation of this order releases."""
    return order in (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SC)


def acquires(order: MemoryOrder) -> bool:
    """True if an operation of this order acquires."""
    return order in (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SC)


def narrower(one: Scope, other: Scope) -> Scope:
    """Return the scope that includes fewer threads."""
    return min(one, other, key=_RANK.index)


def release_levels(board: Released, source: Source, levels: Levels) -> None:
    """Add what an agent releases to a board."""
    known = board.get(source)
    board[source] = levels if known is None else join_levels(known, levels)


def release(
    board: Released,
    group: LaneGroup,
    mask: int,
    order: MemoryOrder,
    scope: Scope,
    *,
    flag: bool = False,
) -> None:
    """Release what the lanes of ``mask`` know, their own accesses included.

    A relaxed operation behind a release fence releases what the lanes knew at the fence, to the scope of
    both. For a flag in memory, only the fence's scope counts: the one of the write is compared with that of
    each read.
    """
    cta = group.warp.cta.key
    release_levels(board, Source(releases(order), scope, cta), sendable(group.snapshot(mask)))
    for fence in () if releases(order) else group.fences:
        levels = sendable(group.with_own(fence.levels, mask, fence.time, fence.own))
        if fence.shared:
            levels = shared_only(levels, cta)
        reach = fence.scope if flag else narrower(fence.scope, scope)
        release_levels(board, Source(True, reach, cta), levels)


def sendable(levels: Levels) -> Levels:
    """Return what a release sends: the order of tcgen05 operations goes along only behind a fence."""
    if Level.TENSOR not in levels:
        return levels
    return {level: clock for level, clock in levels.items() if level is not Level.TENSOR}


def observed(
    board: Released,
    scope: Scope,
    cta: CtaAgent,
    agents: dict[tuple[int, int], CtaAgent],
    *,
    synchronizes: bool,
    strong: bool = True,
) -> Levels:
    """Return what a thread of ``cta`` learns from a board.

    ``synchronizes`` is False for a relaxed operation: then only the order of execution is learned. ``strong``
    is False for a read that is not morally strong with the write that it reads: then scopes do not fit.
    """
    learned = NOTHING
    for source, levels in board.items():
        there = agents[source.cta]
        if source.engine or not strong:
            fits = strong
        else:
            fits = includes(source.scope, there, cta) and includes(scope, cta, there)
        if source.released and synchronizes and fits:
            learned = join_levels(learned, levels)
        else:
            learned = join_levels(
                learned, weaker(levels, wide=source.released and synchronizes, initialized=synchronizes)
            )
    return learned


def weaker(levels: Levels, *, wide: bool, initialized: bool = False) -> Levels:
    """Return what an operation learns that does not synchronize: no causality order.

    Args:
        wide: True if it would synchronize, if the scopes included each other.
        initialized: True if it acquires what ``fence.mbarrier_init`` has released.
    """
    kept: dict[Hashable, Clock] = {}
    asked = (
        (Level.EXECUTION, True),
        (Level.SENT, True),
        (Level.INITIALIZED, initialized),
        (Level.WIDE, wide),
    )
    for level, wanted in asked:
        clock = levels.get(level) if wanted else None
        if clock is not None:
            kept[level] = clock
    return kept


def acquire(
    group: LaneGroup,
    key: Hashable,
    board: Released,
    order: MemoryOrder,
    scope: Scope,
    agents: dict[tuple[int, int], CtaAgent],
    *,
    flag: bool = False,
    strong: bool = True,
) -> None:
    """Let the lanes of a group learn from a board.

    What a relaxed operation saw waits for a fence, or for an operation on the same object that acquires.

    Args:
        key: the object.
        flag: True for a read of a flag in memory, whose scope is compared with that of the write.
        strong: False if these two are not morally strong.
    """
    synchronizes = acquires(order)
    cta = group.warp.cta
    if synchronizes and group.seen:
        group.learn(observed(group.seen.pop(key, {}), scope, cta, agents, synchronizes=True))
    if not board:
        return
    group.learn(observed(board, scope, cta, agents, synchronizes=synchronizes, strong=strong))
    if synchronizes:
        return
    seen = group.seen.setdefault(key, {})
    for source, levels in board.items():
        reach = Scope.NONE if not strong else source.scope if flag else narrower(source.scope, scope)
        release_levels(seen, Source(source.released, reach, source.cta, source.engine), levels)
