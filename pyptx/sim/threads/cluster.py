"""A cluster of CTAs: which ones, each other's shared memory, and the barrier that they share.

Source: PTX ISA, `#cluster-of-cooperative-thread-arrays`_ and
`#parallel-synchronization-and-communication-instructions-barrier-cluster`_.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..memory import Reach
from .cta import CTA

if TYPE_CHECKING:
    from ..machine import Machine

__all__ = ["Cluster", "ClusterBarrier"]


class Cluster:
    """The CTAs of one cluster by rank. ``number`` counts clusters of the grid, x fastest."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number
        launch = machine.launch
        extent = launch.cluster
        clusters = [grid // size for grid, size in zip(launch.grid, extent, strict=True)]
        self.coordinates = (
            number % clusters[0],
            number // clusters[0] % clusters[1],
            number // (clusters[0] * clusters[1]),
        )
        #: Shared memories by rank, of the CTAs that have not ended.
        self.reach = Reach()
        self.ctas: list[CTA] = []
        for rank in range(extent[0] * extent[1] * extent[2]):
            within = (rank % extent[0], rank // extent[0] % extent[1], rank // (extent[0] * extent[1]))
            self.ctas.append(CTA(machine, self, rank, within))
        self.barrier = ClusterBarrier(self)


class ClusterBarrier:
    """The barrier of a cluster: which of its threads have arrived, and how often all have.

    ``owed`` holds the phase that each thread has arrived for and not waited for, or -1; threads count
    from the first of the CTA of rank 0 on.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.phase = 0
        threads = 32 * sum(len(cta.warps) for cta in cluster.ctas)
        self.arrived = np.zeros(threads, np.bool_)
        self.owed = np.full(threads, -1, np.int64)

    def missing(self) -> int:
        """Threads that live and have not arrived in this phase."""
        live = np.array([warp.live for cta in self.cluster.ctas for warp in cta.warps], np.uint32)
        threads: NDArray[np.bool_] = np.unpackbits(live.view(np.uint8), bitorder="little").view(np.bool_)
        return int(np.count_nonzero(threads & ~self.arrived))

    def advance(self) -> None:
        """Begin the next phase if nobody is missing: a thread that has ended counts as arrived."""
        if self.arrived.any() and not self.missing():
            self.arrived[:] = False
            self.phase += 1
            self.cluster.machine.memory.version += 1
