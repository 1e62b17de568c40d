"""A stand-in for the memory through which a copy moves flags of undefined bytes instead of the bytes.

A copy that has read unwritten bytes runs its read and its write once more on :class:`UndefinedBytes`. So the
flags pass through boxes, swizzles and conversions as the bytes do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .access import AccessKind, StateSpace
from .address_space import Memory
from .segments import Actor, Bytes, ClusterMemory, Offsets, Segment

__all__ = ["UndefinedBytes"]


class UndefinedBytes(Memory):
    """Memory in which an unwritten byte of ``memory`` is 255, any other 0; with ``blank``, every byte is 0.

    Writes go to blank copies of the segments, and change nothing in ``memory`` until :meth:`keep`.
    """

    def __init__(self, memory: Memory, *, blank: bool = False) -> None:
        super().__init__(lambda finding: None)
        self._memory, self._blank = memory, blank
        self._copies: dict[tuple[int, bool], tuple[Segment, Segment]] = {}

    def access(
        self,
        kind: AccessKind,
        space: StateSpace,
        address: int | Offsets,
        size: int,
        actor: Actor,
        cluster: ClusterMemory,
        *order: Any,
        **how: Any,
    ) -> tuple[Segment, Any]:
        """Resolve an access as the memory does, and return a stand-in for the segment."""
        del order
        segment, offset = self._memory.access(
            AccessKind.PROBE,
            space,
            address,
            size,
            actor,
            cluster,
            align=how.get("align"),
            check_written=False,
            announce=False,
        )
        return self._copy(segment, reads=kind is AccessKind.READ), offset

    def announce(self, *what: Any, **how: Any) -> None:
        """Do nothing: the access has been announced."""

    def _copy(self, segment: Segment, *, reads: bool) -> Segment:
        found = self._copies.get((id(segment), reads))
        if found is None:
            if reads and segment.written is not None and not self._blank:
                flags: Bytes = (segment.written == 0) * np.uint8(255)
            else:
                flags = np.zeros(segment.size, np.uint8)
            copy = Segment(segment.name, segment.space, segment.base, flags, tracked=False)
            found = self._copies[id(segment), reads] = (segment, copy)
        return found[1]

    def keep(self, origin: int) -> None:
        """Record in the memory that the bytes which were written other than 0 are undefined."""
        for (_, reads), (segment, copy) in self._copies.items():
            places = np.flatnonzero(copy.data) if not reads else np.zeros(0, np.int64)
            if len(places):
                segment.store_undefined(places, np.ones(len(places), np.bool_), np.array([origin]))
