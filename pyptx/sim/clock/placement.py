"""Which clusters of a launch run where, and which of them stand for all.

A chip has as many positions as clusters of the launch's size fit side by side, one CTA on each
multiprocessor; several clusters may be resident at one position. Clusters start in the order of their
numbers, each at the next position, and when one has ended the next one that has not started takes its place.
So position 0 runs the clusters 0, P, 2P and so on with P positions, as many as any other. Where clusters
are not equally long (:mod:`.lengths`), the position that ends last stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.records import dataclass
from ..threads.grid import Grid
from ..threads.machine_state import MachineState
from .lengths import Share

__all__ = ["Placement", "confine", "place"]


@dataclass(frozen=True, slots=True)
class Placement:
    """How a launch lies on a chip.

    Attributes:
        clusters: clusters of the launch.
        positions: clusters that run side by side.
        together: clusters that are resident at one position at the same time.
        size: CTAs of a cluster.
        share: what the position runs that ends last, where clusters are not equally long.
    """

    clusters: int
    positions: int
    together: int
    size: int
    share: Share | None = None

    @property
    def waves(self) -> float:
        """Clusters of the launch for each place at which one can be resident."""
        return self.clusters / (self.positions * self.together)

    @property
    def own(self) -> Sequence[int]:
        """The clusters that run at the position that stands for all."""
        return range(0, self.clusters, self.positions) if self.share is None else self.share.clusters

    @property
    def times(self) -> float:
        """How many times the work of this position the launch has."""
        if self.share is not None:
            return self.share.mean * self.positions
        return self.clusters / len(self.own)


def place(machine: MachineState, grid: Grid, groups: Sequence[float]) -> Placement:
    """Return how ``grid`` lies on a chip whose groups (GPCs) have so many multiprocessors each."""
    clusters = grid.ctas // grid.cluster_size
    positions = min(clusters, sum(int(group) // grid.cluster_size for group in groups))
    together = machine.residency.multiprocessors.at_once(grid.demand)
    return Placement(clusters, positions, together, grid.cluster_size)


def confine(machine: MachineState, count: int) -> None:
    """Leave a machine only its first ``count`` multiprocessors, before the first launch is added."""
    multiprocessors = machine.residency.multiprocessors
    del multiprocessors.all[count if count == 1 else count + count % 2 :]
