"""The values of shadow memory: which earlier accesses a piece of memory still has to be compared with.

A value is 0 for none; positive for one access, ``CODES * number + lane`` with the number of its
:class:`~.records.Record`; negative for several, ``-(CODES * number + lane)`` with the number of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from .records import ALL_LANES, CODES, SAME_LANE

__all__ = ["ValueSets", "absolute", "relative"]


class ValueSets:
    """Sets of several accesses. A set is another set and one more member: adding is cheap.

    A member is ``CODES * number + lane`` of a record. Its lane may be :data:`~.records.SAME_LANE`: then the
    lane is that of the value that names the set. So pieces of memory that lane after lane has accessed in the
    same way share one set. ``kind_of`` says of what kind a record is; a set has the kind that all of its
    records share, or None.
    """

    def __init__(self, kind_of: Callable[[int], Hashable]) -> None:
        self._kind_of = kind_of
        #: For each set: the rest, the last member, the number of members, the kind.
        self._sets: list[tuple[int, int, int, Hashable]] = [(0, 0, 0, None)]
        self._numbers: dict[tuple[int, int], int] = {}

    def members(self, number: int) -> list[int]:
        """Return the members of a set, the last one first."""
        found = []
        while number:
            number, last, _, _ = self._sets[number]
            found.append(last)
        return found

    def accesses(self, value: int) -> list[int]:
        """Return the accesses for which a value stands, each with its lane, the last one first."""
        if value > 0:
            return [value]
        number, lane = divmod(-value, CODES)
        return absolute(self.members(number), lane)

    def latest(self, value: int) -> int:
        """Return the last of the accesses for which a value stands, with its lane."""
        if value > 0:
            return value
        number, lane = divmod(-value, CODES)
        last = self._sets[number][1]
        return last - SAME_LANE + lane if last % CODES == SAME_LANE else last

    def last(self, number: int) -> int:
        """Return the member that was added to a set last."""
        return self._sets[number][1]

    def count(self, number: int) -> int:
        """Return the number of members of a set."""
        return self._sets[number][2]

    def kind(self, number: int) -> Hashable:
        """Return the kind that all records of a set share, or None."""
        return self._sets[number][3]

    def extended(self, number: int, member: int) -> int:
        """Return the set of the members of set ``number`` and of one more."""
        _, last, count, kind = self._sets[number]
        if last == member:
            return number
        key = (number, member)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._sets)
            mine = self._kind_of(member // CODES)
            self._sets.append((number, member, count + 1, mine if not number or mine == kind else None))
        return found

    def of(self, members: Iterable[int]) -> int:
        """Return the set of all of ``members``."""
        number = 0
        for member in sorted(members):
            number = self.extended(number, member)
        return number

    def value(self, number: int, lane: int) -> int:
        """Return the value for a set whose members with ``SAME_LANE`` have ``lane``."""
        _, last, count, _ = self._sets[number]
        if count > 1:
            return -(CODES * number + lane)
        if last % CODES == SAME_LANE:
            return last - SAME_LANE + lane
        return last

    def values(self, number: int, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the values for a set whose members with ``SAME_LANE`` have these lanes."""
        _, last, count, _ = self._sets[number]
        if count > 1:
            return -(CODES * number + lanes)
        return last - SAME_LANE + lanes if last % CODES == SAME_LANE else np.full(len(lanes), last)


def absolute(members: Iterable[int], lane: int) -> list[int]:
    """Return members with ``lane`` in place of ``SAME_LANE``."""
    return [m - SAME_LANE + lane if m % CODES == SAME_LANE else m for m in members]


def relative(value: int) -> int:
    """Return a positive value as a member of a set that is named with the value's lane."""
    lane = value % CODES
    return value if lane == ALL_LANES else value - lane + SAME_LANE
