"""Compares an access with the shadow of its bytes, and then records it there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import AccessKind, MemoryOrder, Scope
from .agents import CtaAgent
from .order import Current, View, broken_rule, known_lanes, level_of, may_conflict
from .records import ALL_LANES, CODES, Record, Records
from .release import narrower
from .shadow import Shadow, ValueSets

__all__ = ["Conflict", "Examiner"]

_FULL = 0xFFFFFFFF
#: Sets of at most so many values are searched at each access.
_FEW = 4
#: Scopes that include the threads of all CTAs of the device.
_WIDE = (Scope.GPU, Scope.SYS)
Grains = NDArray[np.int64]
Values = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses that break a rule: the earlier record and its lane, the later lane, and the place.

    ``view`` is what the agent of the later access knows.
    """

    rule: str
    record: Record
    lane: int
    my_lane: int
    offset: int
    view: View


def _distinct(values: Any) -> list[int]:
    """Return the distinct elements, in any order."""
    first = values.flat[0]
    if (values == first).all():
        return [int(first)]
    found: list[int] = np.unique(values).tolist()
    return found


def _replaces(earlier: Record, current: Current) -> bool:
    """True if what may race with the earlier access may race with the current one too.

    A weak access, or one of a narrow scope, stays beside a later one that is strong in more cases.
    """
    if earlier.proxy is not current.proxy or earlier.barrier is not current.barrier:
        return False
    if not current.strong:
        return True
    return (
        earlier.semantics is not MemoryOrder.WEAK
        and earlier.size == current.size
        and narrower(earlier.scope, current.scope) is current.scope
    )


class Examiner:
    """Compares accesses with shadow memory.

    ``report`` is called with each conflict and the access's own record.
    """

    def __init__(
        self,
        records: Records,
        agents: dict[tuple[int, int], CtaAgent],
        report: Callable[[Conflict, Record, Current, Shadow], None],
    ) -> None:
        self._records, self._agents, self._report = records, agents, report
        self.sets = ValueSets(self._kind_of)

    def access(
        self,
        shadow: Shadow,
        grains: Grains,
        values: Values,
        units: Values | None,
        lanes: NDArray[np.int64] | None,
        views: list[View],
        record: Record,
        current: Current,
    ) -> None:
        """Check one access, and store it.

        Args:
            grains: the grains of each piece, (pieces, grains of a piece).
            values: the value that the shadow gets for each piece.
            units: for each piece, the number of its agent in ``views``; None if there is one.
            lanes: the lane of each piece; None for an engine.
            views: what the agents know.
            record: a record of the access, for messages.
            current: the access.
        """
        written = shadow.writes[grains]
        reading = current.kind is AccessKind.READ
        raced = False
        if written.any():
            raced = self._compare(shadow, written, grains, units, lanes, views, record, current)
        if not reading:
            read = shadow.reads[grains]
            if read.any():
                raced |= self._compare(shadow, read, grains, units, lanes, views, record, current)
        wide = np.broadcast_to(values[:, None], grains.shape)
        if reading:
            read = shadow.reads[grains]
            if read.any():
                wide = self._merged(read, wide, units, lanes, views, current)
            shadow.reads[grains] = wide
            return
        if written.any() and (raced or current.strong or current.barrier or current.kind is AccessKind.RMW):
            wide = self._merged(written, wide, units, lanes, views, current)
        shadow.writes[grains] = wide
        read = shadow.reads[grains]
        if (raced or current.strong) and read.any():
            # Later accesses are still compared with reads that are not ordered before the write.
            nothing = np.zeros(grains.shape, np.int32)
            shadow.reads[grains] = self._merged(read, nothing, units, lanes, views, current)
        else:
            shadow.reads[grains] = 0

    def compare(self, shadow: Shadow, grains: Grains, view: View, record: Record, current: Current) -> None:
        """Check an access of an engine, and do not store it."""
        for values in (shadow.writes[grains], shadow.reads[grains]):
            if values.any():
                self._compare(shadow, values, grains, None, None, [view], record, current)

    # --- comparing ------------------------------------------------------------------------------

    def _compare(
        self,
        shadow: Shadow,
        old: Values,
        grains: Grains,
        units: Values | None,
        lanes: NDArray[np.int64] | None,
        views: list[View],
        record: Record,
        current: Current,
    ) -> bool:
        """Compare with older accesses; return True if one of them breaks a rule."""
        raced = False
        if old.min() < 0:
            for value in np.unique(old[old < 0]).tolist():
                chosen = old == value
                if self._harmless(value, views, current):
                    continue
                for member in sorted(self.sets.members(value), reverse=True):
                    earlier = self._records[member // CODES]
                    if len(views) == 1 and not may_conflict(earlier, current, views[0], self._agents):
                        continue
                    raced |= self._compare_pairs(
                        shadow, np.where(chosen, member, 0), grains, units, lanes, views, record, current
                    )
            old = np.where(old < 0, 0, old)
        return raced | self._compare_pairs(shadow, old, grains, units, lanes, views, record, current)

    def _kind_of(self, value: int) -> Hashable:
        """Return what decides whether an access may be simultaneous with others; None if more decides."""
        record = self._records[value // CODES]
        if record.semantics is MemoryOrder.WEAK or not (record.barrier or record.scope in _WIDE):
            return None
        return record.kind is AccessKind.READ, record.proxy, record.size, record.barrier

    def _harmless(self, value: int, views: list[View], current: Current) -> bool:
        """True if no member of a set conflicts with the current access: all are strong alike."""
        if self.sets.kind(value) is None:
            return False
        last = self._records[self.sets.last(value) // CODES]
        return not any(may_conflict(last, current, view, self._agents) for view in views)

    def _compare_pairs(
        self,
        shadow: Shadow,
        old: Values,
        grains: Grains,
        units: Values | None,
        lanes: NDArray[np.int64] | None,
        views: list[View],
        record: Record,
        current: Current,
    ) -> bool:
        raced = False
        numbers = old // CODES
        pairs: Any = numbers if units is None else numbers * len(views) + units[:, None]
        found = _distinct(pairs)
        several = 1 if units is None else len(views)
        kind = current.number
        for pair in found:
            number, unit = divmod(pair, several)
            if not number:
                continue
            view = views[unit]
            key = number * 8 + kind
            if key in view.ordered:
                continue
            earlier = self._records[number]
            if not may_conflict(earlier, current, view, self._agents):
                continue
            clock = level_of(earlier, current, view)
            if known_lanes(earlier, clock, 0) == _FULL and self._simple(earlier, current, view):
                view.ordered.add(key)
                continue
            here = pairs == pair
            raced |= self._compare_lanes(shadow, earlier, old, here, grains, lanes, view, record, current)
        return raced

    @staticmethod
    def _simple(earlier: Record, current: Current, view: View) -> bool:
        """True if being in the clock of :func:`level_of` is enough."""
        return not current.needs_more(earlier)

    def _compare_lanes(
        self,
        shadow: Shadow,
        earlier: Record,
        old: Values,
        here: NDArray[np.bool_],
        grains: Grains,
        lanes: NDArray[np.int64] | None,
        view: View,
        record: Record,
        current: Current,
    ) -> bool:
        """Compare the lanes of one pair of record and agent; report the first conflict of each rule.

        Return True if there is one.
        """
        theirs = old[here] - CODES * earlier.number
        mine = (
            np.full(theirs.shape, -1) if lanes is None else np.broadcast_to(lanes[:, None], old.shape)[here]
        )
        codes = theirs * 64 + (mine + 1)
        reported: set[str] = set()
        for code in np.unique(codes).tolist():
            lane, my_lane = code // 64, code % 64 - 1
            rule = broken_rule(earlier, lane, current, my_lane, view)
            if rule and rule not in reported:
                reported.add(rule)
                at = int(np.argmax(codes == code))
                offset = int(grains[here][at]) * shadow.grain
                self._report(Conflict(rule, earlier, lane, my_lane, offset, view), record, current, shadow)
        if not reported and not earlier.mask and lanes is None:
            view.ordered.add(earlier.number * 8 + current.number)
        return bool(reported)

    # --- storing --------------------------------------------------------------------------------

    def _merged(
        self,
        old: Values,
        new: Values,
        units: Values | None,
        lanes: NDArray[np.int64] | None,
        views: list[View],
        current: Current,
    ) -> Values:
        """Return values for the new accesses and for those old ones that are not ordered before them."""
        result = np.array(new)
        left = self._uncovered(old, units, lanes, views, current)
        if not left.any():
            return result
        if lanes is None:
            for before in _distinct(old[left]):
                result[left & (old == before)] = self._together(
                    before, int(new.flat[0]), -1, views[0], current
                )
            return result
        rows, columns = np.nonzero(left)
        done: dict[tuple[int, int], int] = {}
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            before = int(old[row, column])
            value = done.get((before, row))
            if value is None:
                view = views[0 if units is None else int(units[row])]
                value = self._together(before, int(new[row, column]), int(lanes[row]), view, current)
                done[before, row] = value
            result[row, column] = value
        return result

    def _uncovered(
        self,
        old: Values,
        units: Values | None,
        lanes: NDArray[np.int64] | None,
        views: list[View],
        current: Current,
    ) -> NDArray[np.bool_]:
        """Return where the old value may have to be kept: most records are ordered before as a whole."""
        left: NDArray[np.bool_] = old != 0
        numbers = np.where(old > 0, old // CODES, 0)
        pairs: Any = numbers if units is None else numbers * len(views) + units[:, None] * (numbers > 0)
        for pair in _distinct(pairs):
            number, unit = divmod(pair, 1 if units is None else len(views))
            if not number:
                continue
            view, earlier = views[unit], self._records[number]
            if not _replaces(earlier, current) or current.needs_more(earlier):
                continue
            if number * 8 + current.number in view.ordered or (
                known_lanes(earlier, level_of(earlier, current, view), 0) == _FULL
            ):
                left &= pairs != pair
            elif lanes is not None and earlier.key == view.warp_key and earlier.time <= view.limit:
                left &= (pairs != pair) | (old - CODES * number != lanes[:, None])
        return left

    def _together(self, before: int, value: int, my_lane: int, view: View, current: Current) -> int:
        """Return the value for the members of ``before`` that must be kept, and for ``value``."""
        count = self.sets.count(before)
        if count > _FEW and count & (count - 1):
            # Large sets are searched only when they have doubled.
            return self.sets.extended(before, value) if value else before
        kept = {
            member
            for member in self.sets.members(before)
            if not self._covered(member, my_lane, view, current)
        }
        if value:
            kept.add(value)
        return self.sets.number(kept)

    def _covered(self, value: int, my_lane: int, view: View, current: Current) -> bool:
        """True if an older access may be forgotten: what is ordered after the new one is also after it."""
        number, lane = divmod(value, CODES)
        earlier = self._records[number]
        if not _replaces(earlier, current):
            return False
        return not broken_rule(earlier, lane, current, my_lane, view)


assert ALL_LANES < CODES
