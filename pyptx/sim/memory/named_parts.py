"""Names the buffers in a CTA's shared memory, and finds the buffer that an access uses.

A shared address is a plain number, so the simulator does not know which buffer an instruction means. It can
check one rule: if one thread or engine accesses contiguous bytes, all of them are in one buffer.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...ir import RingBarriers

__all__ = ["NamedParts", "Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes ``start`` to ``end`` of a segment under one name; ``ring`` is set for mbarriers of a ring."""

    start: int
    end: int
    name: str
    ring: RingBarriers | None = None


class NamedParts:
    """The named parts of one segment, none of which overlap.

    Of parts that overlap, the first stays and the others are dropped. ``nbytes`` is the size of the segment.
    """

    def __init__(self, parts: Sequence[Part], nbytes: int) -> None:
        self._parts: list[Part] = []
        for part in sorted(parts, key=lambda part: (part.start, part.end)):
            if part.end > part.start and (not self._parts or part.start >= self._parts[-1].end):
                self._parts.append(part)
        self._starts = [part.start for part in self._parts]
        #: True if one part is the whole segment.
        self._undivided = len(self._parts) == 1 and self._parts[0].end - self._parts[0].start == nbytes

    def at(self, offset: int) -> Part | None:
        """Return the part that holds a byte, or None between parts."""
        position = bisect.bisect_right(self._starts, offset) - 1
        if position < 0 or offset >= self._parts[position].end:
            return None
        return self._parts[position]

    def hold(self, offset: int | NDArray[np.int64], size: int) -> bool:
        """Return True if the bytes of the access are inside one part.

        For many lanes, only the bytes of the first and of the last lane are checked.
        """
        if self._undivided:
            return True
        first, last = (offset, offset) if isinstance(offset, int) else (int(offset[0]), int(offset[-1]))
        position = bisect.bisect_right(self._starts, first) - 1
        if position < 0:
            return False
        part = self._parts[position]
        return part.start <= last and max(first, last) + size <= part.end

    def describe(self, offset: int) -> str:
        """Describe the position of a byte for a message: ``full, byte 8 of 16``."""
        part = self.at(offset)
        if part is not None:
            return f"{part.name}, byte {offset - part.start} of {part.end - part.start}"
        position = bisect.bisect_right(self._starts, offset) - 1
        if position < 0:
            return "before every buffer"
        return f"{offset - self._parts[position].end} bytes past the end of {self._parts[position].name}"
