"""The two accesses of a finding: their threads, and which arrivals, waits and commits stand around them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TypeGuard

from ....core.records import dataclass
from ....core.source import SourceLocation
from ...engine.stream import GroupKind, Sync, SyncKind
from ...memory.access import MemoryOrder
from ..agents import CtaAgent, bits_of
from ..issue import Issue
from ..records import ALL_LANES, Record
from ..synchronization import ARRIVALS, WAITS
from .history import Event, Flag, History, Moment, Passed

__all__ = ["Side", "Signal", "place"]

#: A family, an object and its phase.
Signal = tuple[str, Hashable, int]


def place(location: SourceLocation | None) -> str:
    """Return ``kernel.py:12`` for a text."""
    return "a line without a location" if location is None else location.short


def signal_of(sync: Sync) -> Signal:
    """Return the phase at which a synchronization arrives, or for which it waits."""
    return (ARRIVALS.get(sync.kind) or WAITS[sync.kind], sync.object, sync.phase)


def _is_one(event: Event, kinds: tuple[SyncKind, ...]) -> TypeGuard[Moment]:
    return isinstance(event, Moment) and event.sync.kind in kinds


@dataclass(eq=False)
class Side:
    """One of the two accesses.

    Attributes:
        lane: the lane; :data:`~.records.ALL_LANES` or -1 for all lanes of the record, or an engine.
        cta: the CTA of the threads that accessed the bytes or issued the operation.
        earlier: True for the access that ought to come first.
        last: True for the access that is executed now: all events of the history come before it.
        near: True if both accesses are of threads of one CTA: texts need not name it.
    """

    record: Record
    lane: int
    cta: CtaAgent
    history: History
    earlier: bool
    last: bool
    near: bool = False

    @property
    def issue(self) -> Issue | None:
        """The operation that accessed the bytes; None for an access of threads."""
        return self.record.issue

    @property
    def location(self) -> SourceLocation | None:
        return self.record.location

    @property
    def at(self) -> str:
        """The line, for a text."""
        return place(self.location)

    @cached_property
    def threads(self) -> frozenset[int]:
        """The threads that accessed the bytes, or issued the operation, by their numbers in the CTA."""
        if self.issue is not None and self.lane in (ALL_LANES, -1):
            return frozenset(self.issue.threads.tolist())
        warp = self.warp
        if warp < 0:
            return frozenset()
        if self.lane in (ALL_LANES, -1):
            full = self.cta.warps[warp].full
            return frozenset(32 * warp + lane for lane in bits_of(self.record.mask & full))
        return frozenset({32 * warp + self.lane})

    @cached_property
    def warp(self) -> int:
        """The number of the warp in the CTA, or -1 if it is unknown."""
        if self.issue is not None:
            return int(self.issue.threads[0]) >> 5
        return next((warp.index for warp in self.cta.warps if warp.key == self.record.key), -1)

    @property
    def who(self) -> str:
        """The threads, for a text: ``CTA (0, 0, 0) warp 1 lane 0``, without the CTA if both are of one."""
        lanes = sorted(number & 31 for number in self.threads)
        text = f"warp {self.warp}" if self.near else f"CTA {self.cta.coordinates} warp {self.warp}"
        return f"{text} lane {lanes[0]}" if len(lanes) == 1 else text

    def before(self, *kinds: SyncKind, warp: bool = False) -> list[Sync]:
        """Return what the threads, or any lanes of their ``warp``, did before the access or the issue."""
        events = self.history.before(self.cta.key, self._from)
        return [event.sync for event in self._own(events, warp) if _is_one(event, kinds)]

    def after(self, *kinds: SyncKind, warp: bool = False) -> list[Sync]:
        """Return what the threads, or any lanes of their ``warp``, did after the access or the issue."""
        events = self.history.after(self.cta.key, self._from)
        return [event.sync for event in self._own(events, warp) if _is_one(event, kinds)]

    def _own(self, events: Iterator[Event], warp: bool) -> Iterator[Event]:
        for event in events:
            if (warp and self.warp in event.threads >> 5) or self.threads & set(event.threads.tolist()):
                yield event

    @property
    def _from(self) -> Issue | int | None:
        """Where the access stands in the history; None for the end."""
        if self.issue is not None:
            return self.issue
        return None if self.last else self.record.number

    def waited(self) -> dict[Signal, Sync]:
        """Return the phases for which the threads had waited before the access or the issue."""
        return {signal_of(sync): sync for sync in self.before(*WAITS)}

    def flags(self) -> list[Flag]:
        """Return strong accesses of the threads: behind an earlier access, or before a later one."""
        within = self.history.after if self.earlier else self.history.before
        return [e for e in self._own(within(self.cta.key, self._from), False) if isinstance(e, Flag)]

    def fenced(self, wanted: MemoryOrder) -> bool:
        """True if the threads executed a fence of this order: behind an earlier access, or before a later."""
        within = self.history.after if self.earlier else self.history.before
        found = self._own(within(self.cta.key, self._from), False)
        orders = (wanted, MemoryOrder.ACQ_REL, MemoryOrder.SC)
        return any(isinstance(e, Passed) and e.fence.semantics in orders for e in found)

    def issued_after(self, name: str) -> list[Issue]:
        """Return operations of a name that the threads issued after the access or the issue."""
        events = self._own(self.history.after(self.cta.key, self._from), False)
        return [e for e in events if isinstance(e, Issue) and e.name.startswith(name)]

    def groups_after(self, kind: GroupKind) -> tuple[list[Sync], list[Sync]]:
        """Return the commits of groups of a kind after the issue, and the waits for them, by the issuers."""
        warp = kind is GroupKind.WGMMA
        commits = [s for s in self.after(SyncKind.GROUP_COMMIT, warp=warp) if s.object is kind]
        wanted = (kind, GroupKind.BULK_READ) if kind is GroupKind.BULK else (kind,)
        waits = [s for s in self.after(SyncKind.GROUP_WAIT, warp=warp) if s.object in wanted]
        return commits, waits
