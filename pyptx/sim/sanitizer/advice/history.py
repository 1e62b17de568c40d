"""The last synchronizations and operations of each CTA: what findings say about arrivals, waits and commits.

The order of accesses does not come from here but from clocks. Only the texts of findings read the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....core.records import dataclass
from ....core.source import SourceLocation
from ...engine.events import AsyncOperation, Step
from ...engine.stream import Fence, FenceKind, Sync, SyncKind
from ...memory.access import Access, AccessKind
from ..issue import Issue

__all__ = ["Event", "Flag", "History", "Moment", "Passed"]

#: Events of each CTA that are kept.
_KEPT = 192
#: CTAs that have ended whose events are kept.
_ENDED = 16
_LEFT_OUT = (SyncKind.REGISTERS_USED, SyncKind.MBARRIER_EXPECT_TX, SyncKind.LAUNCH_DEPENDENTS)


@dataclass(eq=False, slots=True)
class Moment:
    """A synchronization by threads; ``mark`` is as in :class:`Issue`."""

    mark: int
    sync: Sync

    @property
    def threads(self) -> NDArray[np.int64]:
        return self.sync.threads


@dataclass(eq=False, slots=True)
class Flag:
    """A strong access of threads, which may hand accesses over: ``mark`` is as in :class:`Issue`."""

    mark: int
    access: Access
    threads: NDArray[np.int64]
    location: SourceLocation | None

    @property
    def places(self) -> frozenset[int]:
        """The addresses."""
        base = self.access.segment.base
        return frozenset(base + start for start in self.access.footprint.starts.tolist())


@dataclass(eq=False, slots=True)
class Passed:
    """A memory fence that threads executed; ``mark`` is as in :class:`Issue`."""

    mark: int
    fence: Fence

    @property
    def threads(self) -> NDArray[np.int64]:
        return self.fence.threads


Event: TypeAlias = Issue | Moment | Flag | Passed


class History:
    """The last events of each CTA, oldest first."""

    def __init__(self) -> None:
        self._events: dict[tuple[int, int], deque[Event]] = {}
        self._ended: deque[tuple[int, int]] = deque()

    def sync(self, mark: int, sync: Sync) -> None:
        """Keep a synchronization by threads."""
        if len(sync.threads) and sync.kind not in _LEFT_OUT:
            self._of(sync.cta).append(Moment(mark, sync))

    def fence(self, mark: int, fence: Fence) -> None:
        """Keep a memory fence."""
        if fence.kind is FenceKind.MEMORY:
            self._of(fence.cta).append(Passed(mark, fence))

    def flag(self, mark: int, access: Access) -> None:
        """Keep a strong access of threads. Of a loop that polls, only the last access is kept."""
        if access.threads is None:
            return
        events = self._of(access.actor.cta_key)
        last = events[-1] if events else None
        location = access.actor.location
        if isinstance(last, Flag) and last.location is location and last.access.kind is AccessKind.READ:
            events.pop()
        events.append(Flag(mark, access, access.threads, location))

    def issue(self, mark: int, operation: AsyncOperation, steps: Sequence[Step]) -> Issue:
        """Keep the issue of an operation, and return it."""
        signals = tuple(
            (step.signal.barrier.key, step.signal.barrier.phase) for step in steps if step.signal is not None
        )
        made = Issue(
            mark,
            operation.name,
            operation.group,
            operation.cta_key,
            operation.issuing_threads(),
            signals,
            operation.location,
        )
        self._of(made.cta).append(made)
        return made

    def end_cta(self, key: tuple[int, int]) -> None:
        """A CTA has ended: keep the events of the last CTAs that have."""
        self._ended.append(key)
        if len(self._ended) > _ENDED:
            self._events.pop(self._ended.popleft(), None)

    def _of(self, cta: tuple[int, int]) -> deque[Event]:
        found = self._events.get(cta)
        if found is None:
            found = self._events[cta] = deque(maxlen=_KEPT)
        return found

    def holds(self, issue: Issue) -> bool:
        """True if the issue, and so all that came behind it, is still kept."""
        return any(event is issue for event in self._events.get(issue.cta, ()))

    def before(self, cta: tuple[int, int], end: Issue | int | None) -> Iterator[Event]:
        """Yield the events of a CTA before an issue, or before a record; without an end, all."""
        for event in self._events.get(cta, ()):
            if event is end or (isinstance(end, int) and event.mark >= end):
                return
            yield event

    def after(self, cta: tuple[int, int], start: Issue | int | None) -> Iterator[Event]:
        """Yield the events of a CTA behind an issue, or behind a record."""
        events = self._events.get(cta, ())
        begun = not any(event is start for event in events)
        for event in events:
            if event is start:
                begun = True
            elif begun and _behind(event, start):
                yield event


def _behind(event: Event, start: Issue | int | None) -> bool:
    """True if an event comes after an issue whose position is known, or whose mark is smaller."""
    return start is not None and event.mark >= (start if isinstance(start, int) else start.mark)
