"""What the sanitizer knows about barriers, mbarriers and fences: who releases, and who learns."""

from __future__ import annotations

from collections.abc import Hashable

from ..engine.events import Engine, Step
from ..engine.stream import Fence, FenceKind, Sync, SyncKind
from ..memory.access import MemoryOrder, Scope
from .agents import CtaAgent, FencePoint, LaneGroup, Released, Source, WarpAgent, includes
from .clocks import (
    NOTHING,
    ORDERS,
    Clock,
    Fenced,
    Level,
    Levels,
    MapFenced,
    MapReleased,
    join,
    join_levels,
    shared_only,
)
from .issuing import Issuing, sent
from .release import acquire, acquires, narrower, release, release_levels, releases, weaker
from .world import World

__all__ = ["ARRIVALS", "WAITS", "Synchronization"]

#: What arrives, and what waits, at objects of one family.
ARRIVALS = {
    SyncKind.MBARRIER_ARRIVE: "mbarrier",
    SyncKind.BAR_ARRIVE: "bar",
    SyncKind.WARP_ARRIVE: "bar.warp",
    SyncKind.CLUSTER_ARRIVE: "barrier.cluster",
}
WAITS = {
    SyncKind.MBARRIER_WAIT: "mbarrier",
    SyncKind.BAR_WAIT: "bar",
    SyncKind.WARP_WAIT: "bar.warp",
    SyncKind.CLUSTER_WAIT: "barrier.cluster",
}
#: Phases and rounds of an object that are kept.
_KEPT = 8


class Synchronization:
    """Objects into which threads and engines release, and fences."""

    def __init__(self, world: World, issuing: Issuing) -> None:
        self._world, self._issuing = world, issuing
        #: What was released, by the object with its kind, and by its phase.
        self._boards: dict[Hashable, dict[int, Released]] = {}
        #: What fences of kind ``sc`` have released; None if their order is not followed.
        self._fences: Released | None = None

    def follow_fences(self) -> None:
        """Follow the order of fences of kind ``sc`` of this run, as :attr:`Level.FENCES`.

        Another run may have another order, so the comparison of accesses does not use this level.
        """
        self._fences = {}

    # --- objects --------------------------------------------------------------------------------

    def _phases(self, family: str, key: Hashable) -> dict[int, Released]:
        """Return what was released into an object, by phase."""
        life = self._world.barrier_key(key) if family == "mbarrier" else 0
        return self._boards.setdefault((family, key, life), {})

    def arrive(self, family: str, sync: Sync, step: Step | None) -> None:
        """Release into the phase of an object: what threads know, or what a step's signal says."""
        phases = self._phases(family, sync.object)
        board = phases.get(sync.phase)
        if board is None:
            board = phases[sync.phase] = {}
            for old in [phase for phase in phases if phase < sync.phase - _KEPT]:
                del phases[old]
        if sync.steps:
            assert step is not None and step.serial == sync.steps[0]
            engine = step.operation.engine is not Engine.ST
            source = Source(True, Scope.CLUSTER, sync.cta, engine)
            release_levels(board, source, step.observed.knowledge())
            return
        cta = self._world.ctas[sync.cta]
        for warp, mask in self._world.warps_of(cta, sync.threads):
            for group in warp.groups_of(mask):
                release(board, group, group.mask, sync.semantics, sync.scope)
            warp.merge()

    def wait(self, family: str, sync: Sync) -> None:
        """Let threads learn what was released into the phase that they have waited for."""
        board = self._phases(family, sync.object).get(sync.phase)
        if not board:
            return
        cta = self._world.ctas[sync.cta]
        key = (family, sync.object)
        arrivals = self._observed(sync, board, cta) if family == "mbarrier" else NOTHING
        for warp, mask in self._world.warps_of(cta, sync.threads):
            for group in warp.groups_of(mask):
                acquire(group, key, board, sync.semantics, sync.scope, self._world.ctas)
                if arrivals:
                    group.learn(arrivals)
            warp.merge()

    def match(self, sync: Sync) -> None:
        """Let the lanes of a ``match.sync`` know that each of them has come so far: no memory order."""
        cta = self._world.ctas[sync.cta]
        for warp, mask in self._world.warps_of(cta, sync.threads):
            groups = warp.groups_of(mask)
            known: Clock = {}
            for group in groups:
                mine = group.snapshot(group.mask)
                known = join(known, join(mine.get(Level.SYNC, {}), mine.get(Level.MATCHED, {})))
            for group in groups:
                group.learn({Level.MATCHED: known})
            warp.merge()

    def mark(self, family: str, key: Hashable, phase: int, own: Clock) -> None:
        """Let all who wait for a phase of an object also learn ``own``."""
        board = self._phases(family, key).get(phase)
        if board:
            source = next(iter(board))
            # In all three levels, which often share one clock.
            board[source] = join_levels(board[source], dict.fromkeys(ORDERS, own))

    def _observed(self, sync: Sync, board: Released, cta: CtaAgent) -> Levels:
        """Return how a wait knows the arrivals that it has observed, if it does not acquire all of them."""
        agents, scope = self._world.ctas, sync.scope

        def fits(source: Source) -> bool:
            there = agents[source.cta]
            return source.engine or (
                source.released and includes(source.scope, there, cta) and includes(scope, cta, there)
            )

        synchronizes = acquires(sync.semantics) and all(map(fits, board))
        if synchronizes:
            return NOTHING
        clock = {self._world.barrier_key(sync.object): sync.phase + 1}
        return dict.fromkeys(ORDERS, clock)

    # --- fences ---------------------------------------------------------------------------------

    def fence(self, fence: Fence) -> None:
        """Let threads execute a fence."""
        cta = self._world.ctas[fence.cta]
        for warp, mask in self._world.warps_of(cta, fence.threads):
            for group in warp.groups_of(mask):
                self._fence(fence, warp, group)
            warp.merge()

    def _fence(self, fence: Fence, warp: WarpAgent, group: LaneGroup) -> None:
        kind = fence.kind
        if kind is FenceKind.MEMORY:
            self._memory_fence(fence, group)
        elif kind is FenceKind.MBARRIER_INIT:
            group.pass_fence(Level.INITIALIZED)
        elif kind is FenceKind.ASYNC_PROXY:
            for space in fence.spaces:
                group.pass_fence(Fenced(space, warp.cta.key, fence.own_memory))
        elif kind is FenceKind.TENSORMAP_RELEASE:
            group.pass_fence(MapReleased(fence.scope, warp.cta.key))
        elif kind is FenceKind.TENSORMAP_ACQUIRE:
            self._acquire_map(fence, warp, group)
        elif kind is FenceKind.TCGEN05_BEFORE:
            self._before_synchronization(warp, group)
        elif kind is FenceKind.TCGEN05_AFTER:
            tensor = join(group.levels.get(Level.SENT, {}), group.levels.get(Level.TENSOR, {}))
            group.levels = {**group.levels, Level.TENSOR: tensor}

    def _acquire_map(self, fence: Fence, warp: WarpAgent, group: LaneGroup) -> None:
        """Let the threads use a tensor map that release fences of the tensor-map proxy have handed over."""
        assert fence.footprint is not None
        levels = group.snapshot(group.mask)
        level = MapFenced(*fence.footprint)
        known = levels.get(level, {})
        for released, clock in levels.items():
            if isinstance(released, MapReleased):
                there = self._world.ctas[released.cta]
                if includes(released.scope, there, warp.cta) and includes(fence.scope, warp.cta, there):
                    known = join(known, clock)
        group.levels = {**group.levels, level: known}

    def _before_synchronization(self, warp: WarpAgent, group: LaneGroup) -> None:
        """Send the tcgen05 operations that the threads issued, and those that fences ordered before."""
        levels = sent(group.levels)
        clock = levels.get(Level.SENT, {})
        for lane in range(32):
            if group.mask >> lane & 1:
                clock = join(clock, self._issuing.pending(warp.cta, 32 * warp.index + lane))
        group.levels = {**levels, Level.SENT: clock}

    def _memory_fence(self, fence: Fence, group: LaneGroup) -> None:
        if acquires(fence.semantics) and group.seen:
            self._acquire_seen(fence, group)
        if fence.semantics is MemoryOrder.SC and self._fences is not None:
            self._order_fence(self._fences, fence, group)
        if releases(fence.semantics):
            shared = bool(fence.spaces)
            earlier = [
                one
                for one in group.fences
                if narrower(one.scope, fence.scope) is not one.scope or (shared and not one.shared)
            ]
            made = FencePoint(fence.scope, group.levels, group.warp.time, dict(group.own), shared)
            group.fences = (*earlier, made)
            group.warp.released = True

    def _order_fence(self, fences: Released, fence: Fence, group: LaneGroup) -> None:
        """Order a fence of kind ``sc`` after the earlier ones that are morally strong with it."""
        cta = group.warp.cta
        known = group.levels.get(Level.FENCES, {})
        for source, levels in fences.items():
            there = self._world.ctas[source.cta]
            if includes(source.scope, there, cta) and includes(fence.scope, cta, there):
                known = join(known, levels[Level.FENCES])
        group.levels = {**group.levels, Level.FENCES: known}
        own = join(group.snapshot(group.mask)[Level.SYNC], known)
        release_levels(fences, Source(True, fence.scope, cta.key), {Level.FENCES: own})

    def _acquire_seen(self, fence: Fence, group: LaneGroup) -> None:
        """Make known what relaxed operations have observed, as far as the scopes include each other."""
        cta = group.warp.cta
        learned = NOTHING
        left: dict[Hashable, Released] = {}
        for key, board in group.seen.items():
            for source, levels in board.items():
                scope = narrower(source.scope, fence.scope)
                there = self._world.ctas[source.cta]
                if source.released and (source.engine or includes(scope, there, cta)):
                    learned = join_levels(learned, levels)
                    continue
                left.setdefault(key, {})[source] = levels
                if source.released:
                    learned = join_levels(learned, weaker(levels, wide=True))
        if fence.spaces:
            learned = shared_only(learned, None)
        else:
            group.seen = left
        group.learn(learned)
