"""How long the clusters of a launch are, and which of them the busiest position of the chip gets.

Under a causal mask, or with tiles that a matrix does not fill, some clusters have more to do than others. A
few of them, run alone, show how long a cluster takes that lies so far along each axis of the grid. Clusters
start in the order of their numbers, each where one has ended. So it follows which of them run at the
position that ends last, and how much more that one has to do than the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass

__all__ = ["Share", "busiest", "differ", "lengths_of", "samples"]

#: Lengths that are closer than this, as a share of the longest, count as equal.
_ALIKE = 0.1
#: The most clusters that are placed one by one.
_MOST = 1 << 20

#: Coordinates of a cluster in the grid of clusters.
_Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What the position that ends last runs.

    Attributes:
        clusters: their numbers, in the order in which they start.
        mean: work of the mean position, over that of this one.
        evenness: mean time for which the places of clusters work, over that of the one that ends last.
    """

    clusters: tuple[int, ...]
    mean: float
    evenness: float


def samples(extents: Sequence[int]) -> list[_Place]:
    """Return the clusters that are looked at: the first, and along each axis one in the middle and the last.

    Args:
        extents: clusters along each axis of the grid.
    """
    first = (0,) * len(extents)
    found = [first]
    for axis, extent in enumerate(extents):
        for place in dict.fromkeys((extent // 2, extent - 1)):
            if place:
                found.append((*first[:axis], place, *first[axis + 1 :]))
    return found


def differ(lengths: Sequence[float]) -> bool:
    """True if some of these lengths are more than 10% shorter than the longest."""
    return min(lengths) < (1 - _ALIKE) * max(lengths)


def lengths_of(extents: Sequence[int], measured: Mapping[_Place, float]) -> NDArray[np.float64] | None:
    """Return the length of each cluster, by its number; None for a grid that is too large.

    Along an axis lengths are on lines between those of :func:`samples`; what the axes add is added.

    Args:
        extents: clusters along each axis of the grid.
        measured: the length of each of the samples.
    """
    if int(np.prod(extents, dtype=float)) > _MOST:
        return None
    first = measured[(0,) * len(extents)]
    found = np.full(tuple(reversed(extents)), first)
    for axis, extent in enumerate(extents):
        along = sorted((place[axis], each) for place, each in measured.items() if not _off(place, axis))
        known, lengths = (np.array(each, float) for each in zip(*along, strict=True))
        more = np.interp(np.arange(extent, dtype=float), known, lengths) - first
        shape = [1] * len(extents)
        shape[-1 - axis] = extent
        found = found + more.reshape(shape)
    every: NDArray[np.float64] = np.maximum(found.reshape(-1), min(measured.values()))
    return every


def _off(place: _Place, axis: int) -> bool:
    """True if a cluster does not lie on an axis through the first one."""
    return any(place[:axis]) or any(place[axis + 1 :])


def busiest(lengths: Sequence[float] | NDArray[np.float64], positions: int, together: int) -> Share:
    """Return what the position runs that ends last.

    Args:
        lengths: the length of each cluster, in the order in which they start.
        positions: clusters that run side by side.
        together: clusters that are resident at one position at the same time.
    """
    free: list[tuple[float, int]] = [(0.0, number) for number in range(positions * together)]
    runs: list[list[int]] = [[] for _ in range(positions)]
    ends, work = [0.0] * positions, [0.0] * positions
    for cluster, length in enumerate(lengths):
        time, place = heappop(free)
        time += float(length)
        heappush(free, (time, place))
        position = place % positions
        runs[position].append(cluster)
        ends[position] = max(ends[position], time)
        work[position] += float(length)
    last = max(range(positions), key=lambda position: (ends[position], work[position]))
    total = sum(work)
    return Share(
        tuple(runs[last]),
        min(1.0, total / positions / work[last]),
        min(1.0, total / positions / together / ends[last]),
    )
