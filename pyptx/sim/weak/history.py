"""The writes to one word in coherence order, and which of them an access of threads may choose.

A read may take the value of each write that the axioms allow: no write that follows in coherence order
happens before the read, and the thread itself has seen none. A write may come in coherence order before
writes of other threads that it does not follow. An atomic operation reads the write before its position.
Writes that are not morally strong with the access are not passed: such accesses are races, which the
sanitizer reports.

Source: PTX ISA, `#axioms`: coherence, atomicity, SC per location and causality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...core.records import dataclass
from ..memory.access import MemoryOrder, Proxy, Scope
from ..memory.segments import Segment
from ..sanitizer.agents import CtaAgent, WarpAgent, bits_of, includes
from ..sanitizer.clocks import NO_CLOCK, Level
from ..sanitizer.flags import LastWrite
from ..sanitizer.order import known_lanes
from ..sanitizer.records import Record

__all__ = ["Accessing", "Choices", "History", "Write"]

Ctas = dict[tuple[int, int], CtaAgent]


@dataclass(eq=False, slots=True)
class Write:
    """One write to a word.

    Attributes:
        data: the bytes of the word after the write.
        last: what the sanitizer knew of the write when it was the last one.
        record: the sanitizer's record of it; None for what was there before the launch.
        lanes: the lanes that wrote, as a mask.
        update: True for an atomic operation, which follows the write that it reads.
        origin: what the exploration calls the transition that wrote; None before the first strong write.
    """

    data: bytes
    last: LastWrite
    record: Record | None
    lanes: int
    update: bool = False
    origin: object = None


@dataclass(frozen=True, slots=True)
class Accessing:
    """The lanes of a warp, as a mask, that access a word by one instruction."""

    warp: WarpAgent
    mask: int
    scope: Scope
    size: int

    def owns(self, write: Write) -> bool:
        """True if one of the lanes made the write."""
        record = write.record
        return record is not None and record.key == self.warp.key and bool(write.lanes & self.mask)

    def strong_with(self, write: Write, ctas: Ctas) -> bool:
        """True if the access is morally strong with the write."""
        record = write.record
        if record is None or record.size != self.size or not _is_strong(record):
            return False
        there, here = ctas[record.cta], self.warp.cta
        return includes(record.scope, there, here) and includes(self.scope, here, there)

    def follows(self, write: Write, *, fences: bool = True) -> bool:
        """True if the write happens before the access of one of the lanes.

        ``fences`` is False to leave out what only the order of fences of kind ``sc`` says.
        """
        record = write.record
        if record is None:
            return True
        for group in self.warp.groups:
            if not group.mask & self.mask:
                continue
            for level in (Level.SYNC, Level.FENCES) if fences else (Level.SYNC,):
                clock = group.levels.get(level, NO_CLOCK)
                if record.launch in clock or write.lanes & known_lanes(record, clock, write.lanes):
                    return True
        return False


@dataclass(frozen=True, slots=True)
class Choices:
    """The positions in a history that an access may choose, the last one first.

    Attributes:
        positions: of the write whose value a read takes; or those that a write may get.
        others: for each position but the first: the write that is read or comes before, and the later ones.
        fenced: True if there would be more without the order of fences of kind ``sc``.
    """

    positions: tuple[int, ...]
    others: tuple[tuple[Write, tuple[Write, ...]], ...]
    fenced: bool


@dataclass(eq=False, slots=True)
class History:
    """The writes to ``size`` bytes at offset ``place`` of a segment, in coherence order.

    Attributes:
        writes: the first is what was there before the first strong write.
        seen: for each thread, by warp and lane: the last one in this order that it has read or written.
        reordered: True if this is not the order in which the writes have happened.
    """

    segment: Segment
    place: int
    size: int
    writes: list[Write]
    seen: dict[tuple[int, int], Write] = field(default_factory=dict)
    reordered: bool = False

    def see(self, by: Accessing, write: Write) -> None:
        """Record that lanes have read or written ``write``."""
        for lane in bits_of(by.mask):
            self.seen[by.warp.key, lane] = write

    def readable(self, by: Accessing, ctas: Ctas) -> Choices:
        """Return the writes whose values the lanes may read."""
        first = self._first(by, ctas)
        fenced = self._first(by, ctas, fences=False) < first
        begin = self.writes[first]
        ordered = begin.record is None or _is_strong(begin.record) or by.owns(begin) or by.follows(begin)
        if not ordered:
            # A race with the weak write, which the sanitizer reports: there is no second one to choose.
            first = min(first + 1, len(self.writes) - 1)
        positions = range(len(self.writes) - 1, first - 1, -1)
        return Choices(tuple(positions), self._others(positions[1:]), fenced)

    def insertable(self, by: Accessing, ctas: Ctas) -> Choices:
        """Return the positions that a write by the lanes may get; the writes from there on come after it."""
        places = self._places(self._first(by, ctas))
        fenced = len(places) < len(self._places(self._first(by, ctas, fences=False)))
        return Choices(tuple(places), self._others([n - 1 for n in places[1:]]), fenced)

    def _places(self, first: int) -> list[int]:
        """Return the positions that a write may get that comes after the one at ``first``."""
        count = len(self.writes)
        # Between an atomic operation and the write that it has read there is no other write.
        return [n for n in range(count, first, -1) if n == count or not self.writes[n].update]

    def _others(self, positions: Sequence[int]) -> tuple[tuple[Write, tuple[Write, ...]], ...]:
        return tuple((self.writes[n], tuple(self.writes[n + 1 :])) for n in positions)

    def _first(self, by: Accessing, ctas: Ctas, *, fences: bool = True) -> int:
        """Return the position of the earliest write that no later one hides from the lanes."""
        seen = [self.seen.get((by.warp.key, lane)) for lane in bits_of(by.mask)]
        floor = max((self.writes.index(one) for one in seen if one in self.writes), default=0)
        first = len(self.writes) - 1
        while first > floor and self._passes(self.writes[first], by, ctas, fences):
            first -= 1
        return first

    @staticmethod
    def _passes(write: Write, by: Accessing, ctas: Ctas, fences: bool) -> bool:
        return not by.owns(write) and by.strong_with(write, ctas) and not by.follows(write, fences=fences)


def _is_strong(record: Record) -> bool:
    return record.semantics is not MemoryOrder.WEAK and record.proxy is Proxy.GENERIC
