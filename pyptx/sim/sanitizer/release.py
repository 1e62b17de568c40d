"""What threads release into synchronization objects, and what a thread that observes it learns.

A :class:`Board` is one phase of an mbarrier, one round of a barrier, or the value of a flag in memory.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..memory.access import MemoryOrder, Scope
from .agents import CtaAgent, LaneGroup, Released, Source, includes
from .clocks import NOTHING, Clock, Level, Levels, join_levels

__all__ = ["acquire", "acquires", "narrower", "observed", "release", "release_levels", "releases", "sendable"]

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
) -> None:
    """Release what the lanes of ``mask`` know, their own accesses included.

    A relaxed operation behind a release fence releases what the lanes knew at the fence.
    """
    cta = group.warp.cta.key
    release_levels(board, Source(releases(order), scope, cta), sendable(group.snapshot(mask)))
    if not releases(order) and group.fence is not None:
        fence = group.fence
        levels = sendable(group.with_own(fence.levels, mask, fence.time, fence.own))
        release_levels(board, Source(True, narrower(fence.scope, scope), cta), levels)


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
) -> Levels:
    """Return what a thread of ``cta`` learns from a board.

    ``synchronizes`` is False for a relaxed operation: then only the order of execution is learned.
    """
    learned = NOTHING
    for source, levels in board.items():
        there = agents[source.cta]
        if source.engine:
            fits = True
        else:
            fits = includes(source.scope, there, cta) and includes(scope, cta, there)
        if source.released and synchronizes and fits:
            learned = join_levels(learned, levels)
        else:
            learned = join_levels(learned, _weaker(levels, wide=source.released and synchronizes))
    return learned


def _weaker(levels: Levels, *, wide: bool) -> Levels:
    """Return what an operation learns that does not synchronize: no causality order."""
    kept: dict[Hashable, Clock] = {}
    for level in (Level.EXECUTION, Level.SENT, Level.INITIALIZED, *((Level.WIDE,) if wide else ())):
        clock = levels.get(level)
        if clock is not None:
            kept[level] = clock
    return kept


def acquire(
    group: LaneGroup,
    board: Released,
    order: MemoryOrder,
    scope: Scope,
    agents: dict[tuple[int, int], CtaAgent],
) -> None:
    """Let the lanes of a group learn from a board; what a relaxed operation saw waits for a fence."""
    if not board:
        return
    strong = acquires(order)
    group.learn(observed(board, scope, group.warp.cta, agents, synchronizes=strong))
    if not strong:
        for source, levels in board.items():
            release_levels(
                group.seen,
                Source(source.released, narrower(source.scope, scope), source.cta, source.engine),
                levels,
            )
