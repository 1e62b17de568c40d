"""Which clusters of a launch run where, and which of them stand for all.

A chip has as many positions as clusters of the launch's size fit side by side, one CTA on each
multiprocessor; several clusters may be resident at one position. Clusters start in the order of their
numbers, each at the next position, and when one has ended the next one that has not started takes its place.
So position 0 runs the clusters 0, P, 2P and so on with P positions, as many as any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.records import dataclass
from ..threads.grid import Grid
from ..threads.machine_state import MachineState

__all__ = ["Placement", "confine", "place"]


@dataclass(frozen=True, slots=True)
class Placement:
    """How a launch lies on a chip.

    Attributes:
        clusters: clusters of the launch.
        positions: clusters that run side by side.
        together: clusters that are resident at one position at the same time.
        size: CTAs of a cluster.
    """

    clusters: int
    positions: int
    together: int
    size: int

    @property
    def waves(self) -> float:
        """Clusters of the launch for each place at which one can be resident."""
        return self.clusters / (self.positions * self.together)

    @property
    def own(self) -> range:
        """The clusters that position 0 runs."""
        return range(0, self.clusters, self.positions)


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
