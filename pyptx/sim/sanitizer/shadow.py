"""Shadow memory: for each piece of a segment, the last writes and the reads since then.

The grain of a segment's shadow is the largest power of two, at most 16 bytes, that divides the starts and the
sizes of all accesses so far. Each grain has a value for its writes and one for its reads: 0, the value of a
:class:`~.records.Record`, or a negative number: several values, kept once in :class:`ValueSets`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Footprint, StateSpace
from ..memory.segments import Segment

__all__ = ["Shadow", "ValueSets"]

Values = NDArray[np.int32]
_COARSE = 16
#: Bytes that one cell of tensor memory has as an offset.
CELL_BYTES = 4
_TENSOR_LANES = 128


class ValueSets:
    """Sets of several values. A set is another set, or one value, and one more value: adding is cheap.

    Each set has a negative number. ``kind_of`` says of what kind a value is; a set has the kind that all of
    its values share, or None.
    """

    def __init__(self, kind_of: Callable[[int], Hashable]) -> None:
        self._kind_of = kind_of
        #: For each set: the rest, the last value, the number of values, the kind.
        self._sets: list[tuple[int, int, int, Hashable]] = [(0, 0, 0, None)]
        self._numbers: dict[tuple[int, int], int] = {}

    def members(self, value: int) -> list[int]:
        """Return the values for which a value of the shadow stands, the last one first."""
        found = []
        while value < 0:
            value, last, _, _ = self._sets[-value]
            found.append(last)
        if value:
            found.append(value)
        return found

    def last(self, value: int) -> int:
        """Return the value that was added to a set last."""
        return self._sets[-value][1]

    def count(self, value: int) -> int:
        """Return how many values a value of the shadow stands for."""
        return self._sets[-value][2] if value < 0 else int(value > 0)

    def kind(self, value: int) -> Hashable:
        """Return the kind that all values of a set share, or None."""
        return self._sets[-value][3]

    def extended(self, value: int, more: int) -> int:
        """Return the value that stands for those of ``value`` and for ``more``."""
        if not value or value == more:
            return more
        key = (value, more)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = -len(self._sets)
            before = self.kind(value) if value < 0 else self._kind_of(value)
            kind = before if before == self._kind_of(more) else None
            self._sets.append((value, more, self.count(value) + 1, kind))
        return found

    def number(self, members: Iterable[int]) -> int:
        """Return the value that stands for all of ``members``."""
        value = 0
        for member in sorted(members):
            value = self.extended(value, member)
        return value


class Shadow:
    """The shadow of one segment.

    Attributes:
        segment: the segment; kept, so that no other one gets its identity.
        owner: the CTA whose shared memory it is, or None.
        grain: bytes for one value.
        writes, reads: values by grain.
        flags: places that strong writes have written (:mod:`.flags`), by offset.
        own_releases: what each thread that wrote a flag has released there, by offset and thread.
    """

    def __init__(self, segment: Segment, owner: tuple[int, int] | None) -> None:
        self.segment, self.owner = segment, owner
        self.space: StateSpace = segment.space
        self.grain = _COARSE
        count = -(-segment.size // self.grain)
        self.writes: Values = np.zeros(count, np.int32)
        self.reads: Values = np.zeros(count, np.int32)
        self.flags: dict[int, Any] = {}
        self.own_releases: dict[int, dict[tuple[int, int], Any]] = {}

    def places(self, footprint: Footprint) -> NDArray[np.int64]:
        """Return the numbers of the grains of each piece, (pieces, grains of a piece)."""
        starts, size = footprint.starts, footprint.size
        union = size | int(np.bitwise_or.reduce(starts))
        grain = union & -union
        if grain < self.grain:
            self._refine(grain)
        grain = self.grain
        first = starts // grain
        count = size // grain
        if count == 1:
            return first[:, None]
        return first[:, None] + np.arange(count)

    def _refine(self, grain: int) -> None:
        times = self.grain // grain
        self.writes, self.reads = np.repeat(self.writes, times), np.repeat(self.reads, times)
        self.grain = grain

    def clear_columns(self, first: int, columns: int) -> None:
        """Forget the accesses to columns of tensor memory."""
        for values in (self.writes, self.reads):
            cells = values.reshape(_TENSOR_LANES, -1)
            cells[:, CELL_BYTES * first // self.grain : -(-CELL_BYTES * (first + columns) // self.grain)] = 0
