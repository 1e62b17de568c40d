"""Selects the waits that the machine must poll, because no event wakes their splits directly.

Most of these waits can end only through an action of a thread or an engine of the same cluster. The machine
polls them only after such an action. So thousands of warps that wait in other clusters cost no time.
"""

from __future__ import annotations

from ..engine.waits import Wait
from ..threads.warp import Split

__all__ = ["Polled"]

#: The number of earlier entries, the split and its wait.
_Entry = tuple[int, Split, Wait]


class Polled:
    """The parked splits whose waits the machine polls, by cluster."""

    def __init__(self) -> None:
        #: Waits that an action outside of their cluster may end.
        self._anywhere: dict[Split, _Entry] = {}
        #: The other waits, by the cluster's mark (``Issuer.cluster``).
        self._inside: dict[object, dict[Split, _Entry]] = {}
        #: Clusters in which a thread or an engine acted since their waits were polled.
        self._touched: set[object] = set()
        self._count = 0

    def add(self, s: Split, wait: Wait) -> None:
        """Add ``s``, which has parked with ``wait``."""
        entry = (self._count, s, wait)
        self._count += 1
        if wait.ends_elsewhere:
            self._anywhere[s] = entry
        else:
            self._inside.setdefault(s.warp.issuer.cluster, {})[s] = entry

    def remove(self, s: Split) -> None:
        """Remove ``s`` if its wait is polled."""
        if self._anywhere.pop(s, None) is None:
            inside = self._inside.get(s.warp.issuer.cluster)
            if inside is not None:
                inside.pop(s, None)
                if not inside:
                    del self._inside[s.warp.issuer.cluster]

    def touch(self, cluster: object) -> None:
        """Record that a thread of ``cluster``, or an engine for it, has acted, so its waits are polled."""
        self._touched.add(cluster)

    def take(self) -> list[tuple[Split, Wait]]:
        """Return the waits that the machine must test now, in the order in which their splits parked.

        Forgets which clusters :meth:`touch` recorded.
        """
        found = list(self._anywhere.values())
        for cluster in self._touched:
            found += self._inside.get(cluster, {}).values()
        self._touched.clear()
        found.sort(key=lambda entry: entry[0])
        return [(s, wait) for _, s, wait in found]
