"""A cluster: its CTAs, their shared memories, and the cluster's barrier.

Source: PTX ISA, `#cluster-of-cooperative-thread-arrays`_ and
`#parallel-synchronization-and-communication-instructions-barrier-cluster`_.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..engine.events import Step
from ..memory.segments import ClusterMemory
from .cta import CTA

if TYPE_CHECKING:
    from .grid import Grid
    from .multiprocessor import Multiprocessor

__all__ = ["Cluster", "ClusterBarrier"]


class Cluster:
    """The CTAs of one cluster by rank, each on one of ``places``.

    ``number`` counts the clusters of the grid, x fastest.
    """

    def __init__(self, grid: Grid, number: int, places: Sequence[Multiprocessor]) -> None:
        self.grid, self.number = grid, number
        self.coordinates = grid.place_of(number)
        extent = grid.launch.cluster
        #: Shared memories of the CTAs that have not ended, by rank.
        self.memory = ClusterMemory(grid.params, grid.const)
        self.ctas: list[CTA] = []
        for rank, place in enumerate(places):
            within = (rank % extent[0], rank // extent[0] % extent[1], rank // (extent[0] * extent[1]))
            self.ctas.append(CTA(self, rank, within, place))
        self.barrier = ClusterBarrier(self)

    # --- copies between its CTAs ----------------------------------------------------------------

    def deliveries(self, rank: int) -> list[Step]:
        """Return the signals in flight of copies into the shared memory of one CTA, newest first.

        Any CTA of the cluster may have issued these copies. They include st.async and red.async.
        """
        return [step for cta in self.ctas for step in reversed(cta.in_flight) if _goes_to(step) == rank]

    @staticmethod
    def sent(cta: CTA) -> list[Step]:
        """Return the writes and signals in flight of copies that ``cta`` has issued to another CTA."""
        signals = [step for step in cta.in_flight if _goes_to(step) not in (None, cta.rank)]
        return [each for step in signals for each in (step, *step.after)]


def _goes_to(step: Step) -> int | None:
    """Return the rank of the CTA whose mbarrier a step of a copy will signal, or None."""
    if step.done or step.signal is None or not step.signal.nbytes:
        return None
    return step.signal.barrier.address >> 24


class ClusterBarrier:
    """The barrier of a cluster: the threads that have arrived, and the number of completed phases.

    ``owed`` holds, for each thread, the phase in which it has arrived and for which it has not waited, or -1.
    Threads are numbered from the first thread of the CTA of rank 0.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: For observers: a key that no barrier of another cluster has.
        self.key = (cluster.grid.number, cluster.number)
        self.phase = 0
        self._warps = [warp for cta in cluster.ctas for warp in cta.warps]
        threads = 32 * len(self._warps)
        self.arrived = np.zeros(threads, np.bool_)
        self.owed = np.full(threads, -1, np.int64)

    def missing(self) -> int:
        """Return the number of live threads that have not arrived in this phase."""
        live = np.array([warp.live for warp in self._warps], np.uint32)
        threads: NDArray[np.bool_] = np.unpackbits(live.view(np.uint8), bitorder="little").view(np.bool_)
        return int(np.count_nonzero(threads & ~self.arrived))

    def _live(self) -> int:
        """Return the number of live threads."""
        # A list: a generator would be entered once for each warp.
        return sum([warp.live.bit_count() for warp in self._warps])

    def advance(self) -> None:
        """Begin the next phase if no thread is missing. A thread that has ended counts as arrived."""
        arrived = np.count_nonzero(self.arrived)
        # Threads that have ended may be among the arrived ones.
        if arrived and arrived >= self._live() and not self.missing():
            self.arrived[:] = False
            self.phase += 1
            self.cluster.grid.machine.memory.version += 1
