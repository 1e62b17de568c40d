"""The words of one segment to which threads have made strong accesses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Footprint
from ..memory.segments import Segment
from .history import History

__all__ = ["Words"]


class Words:
    """The histories of the words of a segment.

    ``owner`` is the CTA whose shared memory the segment is, or None.
    """

    def __init__(self, segment: Segment, owner: tuple[int, int] | None) -> None:
        # The segment is kept, so that no other one gets its identity.
        self.segment, self.owner = segment, owner
        self._histories: dict[int, History] = {}
        self._sizes: set[int] = set()
        #: Offsets and sizes of all words; None if the words have changed.
        self._extents: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def at(self, place: int, size: int) -> History | None:
        """Return the word of this size at an offset, or None."""
        found = self._histories.get(place)
        return found if found is not None and found.size == size else None

    def add(self, word: History) -> None:
        """Add a word that overlaps with no other one."""
        self._histories[word.place] = word
        self._sizes.add(word.size)
        self._extents = None

    def forget(self, footprint: Footprint, unless: int = 0) -> None:
        """Forget the words with a byte of a footprint; those of the size ``unless`` stay."""
        if self._sizes <= {unless}:
            return
        if self._extents is None:
            words = self._histories.values()
            places = np.array([word.place for word in words], np.int64)
            self._extents = places, np.array([word.size for word in words], np.int64)
        places, sizes = self._extents
        starts = np.sort(footprint.starts)
        before = np.searchsorted(starts, places + sizes) - 1
        hit = (before >= 0) & (starts[np.maximum(before, 0)] + footprint.size > places) & (sizes != unless)
        for place in places[hit].tolist():
            del self._histories[place]
            self._extents = None
