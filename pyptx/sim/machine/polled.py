"""Waits that nothing wakes by itself: which of them to ask again.

Most of them can end only through what a thread or an engine does for the same cluster: these are asked after
something was done there.  Thousands of warps that wait elsewhere then cost nothing.
"""

from __future__ import annotations

from ..engine.waits import Wait
from ..threads.warp import Split

__all__ = ["Polled"]

#: How many were parked before it, the split, its wait.
_Entry = tuple[int, Split, Wait]


class Polled:
    """See the module's docstring."""

    def __init__(self) -> None:
        #: Waits that something outside of their cluster may end.
        self._anywhere: dict[Split, _Entry] = {}
        #: The others, by the cluster's mark (``Issuer.cluster``).
        self._inside: dict[object, dict[Split, _Entry]] = {}
        #: Clusters for which something was done since their waits were asked.
        self._touched: set[object] = set()
        self._count = 0

    def add(self, s: Split, wait: Wait) -> None:
        """``s`` has parked with ``wait``."""
        entry = (self._count, s, wait)
        self._count += 1
        if wait.ends_elsewhere:
            self._anywhere[s] = entry
        else:
            self._inside.setdefault(s.warp.issuer.cluster, {})[s] = entry

    def remove(self, s: Split) -> None:
        """``s`` goes on. (A split whose wait is not polled is not here.)"""
        if self._anywhere.pop(s, None) is None:
            inside = self._inside.get(s.warp.issuer.cluster)
            if inside is not None:
                inside.pop(s, None)
                if not inside:
                    del self._inside[s.warp.issuer.cluster]

    def touch(self, cluster: object) -> None:
        """A thread of ``cluster`` has run, or an engine has done something for one."""
        self._touched.add(cluster)

    def take(self) -> list[tuple[Split, Wait]]:
        """The waits that may be over, in the order in which they parked; they count as asked."""
        found = list(self._anywhere.values())
        for cluster in self._touched:
            found += self._inside.get(cluster, {}).values()
        self._touched.clear()
        found.sort(key=lambda entry: entry[0])
        return [(s, wait) for _, s, wait in found]
