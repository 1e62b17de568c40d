"""What is known about a launch: the values of special registers, and how the findings say them."""

from __future__ import annotations

import math
from math import prod

from ...flow import Interval
from ...ir import Function
from .subject import Extent, Subject

__all__ = ["block_of", "special_ranges", "stated"]

#: Largest extents of a block in x, y, z, and its largest number of threads.
_MOST_THREADS = (1024, 1024, 64)
_CTA_THREADS = 1024
#: The largest number of CTAs of a cluster.
_CLUSTER_CTAS = 16


def block_of(function: Function, subject: Subject) -> Extent | None:
    """Return the extents of the block if they are known: from the launch, or from ``.reqntid``."""
    if subject.block is not None:
        return subject.block
    required = function.directive("reqntid")
    if required is None:
        return None
    x, y, z = (*required, 1, 1)[:3]
    return x, y, z


def special_ranges(function: Function, subject: Subject) -> dict[str, Interval]:
    """Return the intervals of the special registers whose values the launch or the hardware bounds.

    The number of CTAs is known only if the launch is: kernels rely on grids far below the largest.
    """
    found: dict[str, Interval] = {"laneid": (0, 31), "ctaid.w": (0, 0), "tid.w": (0, 0)}
    block, grid, cluster = block_of(function, subject), subject.grid, subject.cluster
    limit = function.directive("maxntid")
    most = min(prod(limit), _CTA_THREADS) if limit is not None else _CTA_THREADS
    for place, axis in enumerate("xyz"):
        extent = block[place] if block is not None else min(most, _MOST_THREADS[place])
        found[f"tid.{axis}"] = (0, extent - 1)
        # Each extent of an unknown block may be large, but not their product, so they count as unknown.
        found[f"ntid.{axis}"] = (extent, extent) if block is not None else (1, math.inf)
        if grid is not None:
            found[f"ctaid.{axis}"] = (0, grid[place] - 1)
            found[f"nctaid.{axis}"] = (grid[place], grid[place])
        else:
            found[f"ctaid.{axis}"] = (0, math.inf)
            found[f"nctaid.{axis}"] = (1, math.inf)
        size = cluster[place] if cluster is not None else _CLUSTER_CTAS
        found[f"cluster_ctaid.{axis}"] = (0, size - 1)
        found[f"cluster_nctaid.{axis}"] = (size if cluster is not None else 1, size)
        if grid is not None and cluster is not None:
            found[f"clusterid.{axis}"] = (0, grid[place] // cluster[place] - 1)
            found[f"nclusterid.{axis}"] = (grid[place] // cluster[place],) * 2
    ranks = prod(cluster) if cluster is not None else _CLUSTER_CTAS
    found["cluster_ctarank"] = (0, ranks - 1)
    found["cluster_nctarank"] = (ranks if cluster is not None else 1, ranks)
    return found


def stated(function: Function, subject: Subject) -> str:
    """Return what a finding about values assumes."""
    block = block_of(function, subject)
    grid = f"grid {subject.grid}" if subject.grid is not None else "any grid"
    threads = f"block {block}" if block is not None else "any block that the kernel allows"
    own = [
        (param.name, subject.params[param.name]) for param in function.params if param.name in subject.params
    ]
    params = [f"{name} from {least} to {most}" for name, (least, most) in own]
    return ", ".join([grid, threads, *params])
