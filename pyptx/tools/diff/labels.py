"""Pairs the labels of two functions by the lines that follow the labels, not by the labels' names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from .canonical import Code, Line

__all__ = ["Places"]

#: Number of lines after a label that are searched for a line with a partner.
_REACH = 12


class Places:
    """Decides which labels of function A correspond to which labels of B, for one pairing of their lines.

    A label of A corresponds to a label of B if the lines after them are paired, or if both labels are between
    the same two pairs of lines.
    """

    def __init__(
        self, a: Code, b: Code, pairs: list[tuple[int, int]], moved: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.a, self.b = a, b
        self._pairs = pairs
        self._partner = dict([*pairs, *moved])
        self._known: dict[tuple[str, str], bool] = {}

    def same(self, x: str, y: str) -> bool:
        """Return True if label ``x`` of A corresponds to label ``y`` of B."""
        found = self._known.get((x, y))
        if found is None:
            found = self._known[x, y] = self._same(x, y)
        return found

    def _same(self, x: str, y: str) -> bool:
        i, j = self.a.labels.get(x), self.b.labels.get(y)
        if i is None or j is None:
            # A label that neither function defines is an error in both, and not a difference.
            return i is j and x == y
        if self._lead_to_partners(i, j):
            return True
        place = bisect_left(self._pairs, (i, -1))
        before = self._pairs[place - 1][1] if place else -1
        behind = self._pairs[place][1] if place < len(self._pairs) else len(self.b.lines)
        return before < j <= behind

    def _lead_to_partners(self, i: int, j: int) -> bool:
        """True if the code from line ``i`` of A and from line ``j`` of B soon reaches two paired lines.

        The lines before this pair, from ``i`` in A and from ``j`` in B, must be equal and unpaired.
        """
        a, b = self.a.lines, self.b.lines
        for k in range(min(_REACH, len(a) - i, len(b) - j)):
            if self._partner.get(i + k) == j + k:
                return True
            if i + k in self._partner or a[i + k].key != b[j + k].key:
                return False
        return False

    def agree(self, a: Line, b: Line) -> bool:
        """Return True if the labels in line ``a`` of A correspond one by one to those in line ``b`` of B.

        The caller has already found that the lines agree in everything except names and labels (equal
        ``key``).
        """
        return all(map(self.same, a.targets, b.targets))
