"""Counters from which CTAs take their work, and what the positions add that are not simulated.

A launch finds its zeroed workspaces as zeros. If such a workspace is one word to which threads only add, all
CTAs count with it: when a cluster of the simulated position takes a number, the clusters of the other
positions take one, too, each its own. So numbers go on by as many as there are positions, and the position
gets its share of the work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..code.semantic import Op
from ..memory.access import Access, AccessKind
from ..memory.segments import Segment

__all__ = ["WORDS", "Counters"]

#: The unsigned type of a counter, by its bytes.
WORDS: Mapping[int, type[np.unsignedinteger]] = {4: np.uint32, 8: np.uint64}
#: Operations that add a number that does not depend on the counter.
_ADDS = frozenset({"add", "inc"})


class Counters:
    """The counters of a launch.

    Args:
        bases: addresses of the workspaces of one word.
        positions: number of positions for which the simulated one stands.
    """

    def __init__(self, bases: frozenset[int], positions: int) -> None:
        self._bases, self._others = bases, positions - 1
        #: The counters to which the running block adds, with what they were.
        self._before: dict[int, tuple[Segment, int]] = {}

    def counts(self, access: Access, op: Op | None) -> bool:
        """Return whether an access adds to a counter, and note it."""
        segment = access.segment
        if segment.base not in self._bases or access.kind is not AccessKind.RMW or op is None:
            return False
        if op.chosen.get("op") not in _ADDS or access.footprint.size != segment.size:
            return False
        self._before.setdefault(segment.base, (segment, int(_word(segment)[0])))
        return True

    def advance(self) -> None:
        """Add for the other positions what the block that has run has added. A counter that wraps stays."""
        for segment, before in self._before.values():
            word = _word(segment)
            added = int(word[0]) - before
            if added > 0:
                word[0] += added * self._others
        self._before.clear()

    @property
    def pending(self) -> bool:
        """True if the running block adds to a counter."""
        return bool(self._before)


def _word(segment: Segment) -> np.ndarray:
    return segment.words(segment.size).view(WORDS[segment.size])
