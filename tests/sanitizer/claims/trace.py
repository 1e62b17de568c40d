"""What each thread and each engine of a run did and read: equal for all schedules of a kernel that claims them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyptx.sim import Observer
from pyptx.sim.claims.loops import polls_of
from pyptx.sim.claims.polls import Poll
from pyptx.sim.engine.events import AsyncOperation
from pyptx.sim.engine.stream import Sync, SyncKind
from pyptx.sim.memory.access import Access, AccessKind, StateSpace

__all__ = ["Trace"]

#: Events of threads whose phase another schedule must not change.
_PHASED = frozenset(
    {
        SyncKind.MBARRIER_ARRIVE,
        SyncKind.MBARRIER_EXPECT_TX,
        SyncKind.MBARRIER_COMPLETE_TX,
        SyncKind.MBARRIER_WAIT,
        SyncKind.BAR_ARRIVE,
        SyncKind.BAR_WAIT,
        SyncKind.CLUSTER_ARRIVE,
        SyncKind.CLUSTER_WAIT,
    }
)


class Trace(Observer):
    """Records a run.

    Attributes:
        threads: for each thread, by (CTA, number): its accesses and its synchronization, in order.
        engines: the accesses and signals of engines, in any order.
    """

    def __init__(self) -> None:
        self.threads: dict[tuple[Any, int], list[tuple[Any, ...]]] = {}
        self.engines: Counter[tuple[Any, ...]] = Counter()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.threads == other.threads and self.engines == other.engines

    __hash__ = None  # type: ignore[assignment]

    def difference(self, other: Trace) -> str:
        """Say where two traces differ, or "" if they are equal."""
        for who in sorted(self.threads.keys() | other.threads.keys()):
            mine, theirs = self.threads.get(who, []), other.threads.get(who, [])
            for number, (one, another) in enumerate(zip(mine, theirs, strict=False)):
                if one != another:
                    return f"thread {who}, event {number}: {one} and {another}"
            if len(mine) != len(theirs):
                return f"thread {who} has {len(mine)} and {len(theirs)} events"
        left = (self.engines - other.engines) + (other.engines - self.engines)
        return f"engines: {next(iter(left))}" if left else ""

    # --- events ---------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        if access.space in (StateSpace.TENSOR, StateSpace.LOCAL, StateSpace.PARAM):
            return
        actor: Any = access.actor
        starts, size = access.footprint.starts.tolist(), access.footprint.size
        data = access.segment.data
        kind, name = access.kind, access.segment.name
        poll = self._polls(actor)
        # What a sum finds depends on the order of sums; the claim needs only that nothing reads it.
        reads = kind is AccessKind.READ or (kind is AccessKind.RMW and self._used(actor))
        if poll is not None and not poll.used:
            reads = False
        line = None if actor.location is None else actor.location.line
        pieces = [
            (line, kind.value, name, start, data[start : start + size].tobytes() if reads else b"")
            for start in starts
        ]
        if isinstance(actor, AsyncOperation) or access.threads is None:
            self.engines.update((actor.cta_key, *piece) for piece in pieces)
            return
        for thread, piece in zip(access.threads.tolist(), pieces, strict=False):
            events = self.threads.setdefault((actor.cta_key, thread), [])
            # Only the last pass of a loop that polls counts: another schedule has another number of passes.
            if poll is not None and events and events[-1][:4] == piece[:4]:
                events.pop()
            events.append(piece)

    @staticmethod
    def _polls(actor: Any) -> Poll | None:
        """Return the loop that polls a word by a load."""
        op = getattr(actor, "op", None)
        return None if op is None else polls_of(actor.frame.code).loops.get(op.statement)

    @staticmethod
    def _used(actor: Any) -> bool:
        op = getattr(actor, "op", None)
        if op is None:
            return False
        code = actor.frame.code
        return bool(code.reads_results(op)) and op.statement not in polls_of(code).quiet

    def sync(self, sync: Sync) -> None:
        if sync.kind not in _PHASED:
            return
        # A wait may end with the question before the loop, or in the loop.
        peeked = sync.kind is SyncKind.MBARRIER_WAIT
        line = None if sync.location is None or peeked else sync.location.line
        event = (line, sync.kind.value, sync.object, sync.phase, sync.amount)
        if sync.steps:
            self.engines[(sync.cta, *event)] += 1
            return
        for thread in sync.threads.tolist():
            self.threads.setdefault((sync.cta, thread), []).append(event)
