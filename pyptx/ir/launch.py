"""The configuration of a launch, and the limits of the hardware.

Source: CUDA C++ Programming Guide, technical specifications per compute capability (the same from 5.0 on).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..core.errors import SpecError
from ..core.records import dataclass

__all__ = ["Launch"]

#: Largest extents in x, y, z.
_MOST_CTAS = (2**31 - 1, 65_535, 65_535)
_MOST_THREADS = (1024, 1024, 64)
#: Largest number of threads in a CTA.
_CTA_THREADS = 1024
#: Largest number of CTAs in a cluster; a size above 8 needs a function attribute.
_CLUSTER_CTAS = 16


@dataclass(frozen=True, slots=True)
class Launch:
    """The configuration of a launch.

    Attributes:
        grid, block, cluster: extents in x, y, z order.
        dynamic_smem: dynamic shared memory in bytes.
        cooperative: True if all CTAs must be resident at the same time.
        dependent: True if the launch may begin before the previous one in its stream has ended (programmatic
            dependent launch).
        priority: priority of the launch, lower numbers first; None for that of its stream.
        carveout: percentage of an SM's memory that should be shared memory, the rest being L1 cache; None for
            the driver's choice.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    cooperative: bool = False
    dependent: bool = False
    priority: int | None = None
    carveout: int | None = None

    @staticmethod
    def extent(value: int | Sequence[Any]) -> tuple[int, int, int]:
        """Return ``3`` or ``(3, 2)`` as three positive ints. Raises ValueError for anything else."""
        given: Any = value if isinstance(value, (Sequence, np.ndarray)) else (value,)
        try:
            items = tuple(map(operator.index, given))
        except TypeError:
            items = ()
        if not 1 <= len(items) <= 3 or any(v < 1 for v in items):
            raise ValueError(f"expected one to three positive integers, in x, y, z order, got {value!r}")
        x, y, z = (*items, 1, 1)[:3]
        return (x, y, z)

    @staticmethod
    def of(grid: Any, block: Any, cluster: Any = 1, dynamic_smem: Any = 0) -> Launch:
        """Make a launch from a caller's arguments and :meth:`check` it. Raises :class:`SpecError`."""
        try:
            smem = operator.index(dynamic_smem)
        except TypeError:
            raise SpecError(f"dynamic_smem is {dynamic_smem!r}: expected a number of bytes") from None
        launch = Launch(_extent("grid", grid), _extent("block", block), _extent("cluster", cluster), smem)
        launch.check()
        return launch

    @staticmethod
    def fits(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> bool:
        """True if :meth:`check` finds nothing wrong with a grid, given a cluster that it accepts."""
        x, y, z = grid
        most_x, most_y, most_z = _MOST_CTAS
        if not (x <= most_x and y <= most_y and z <= most_z):
            return False
        return cluster == (1, 1, 1) or not (x % cluster[0] or y % cluster[1] or z % cluster[2])

    def check(self) -> None:
        """Raise :class:`SpecError` if no GPU could run this launch. The simulator has the same limits."""
        for name, extents, limits in (
            ("grid", self.grid, _MOST_CTAS),
            ("block", self.block, _MOST_THREADS),
        ):
            if any(not 1 <= extent <= most for extent, most in zip(extents, limits, strict=True)):
                raise SpecError(f"{name} {extents} is outside 1..{limits} in x, y, z")
        threads, size = prod(self.block), prod(self.cluster)
        if threads > _CTA_THREADS:
            raise SpecError(f"block {self.block} has {threads} threads; a CTA has at most {_CTA_THREADS}")
        if size > _CLUSTER_CTAS:
            raise SpecError(f"cluster {self.cluster} has {size} CTAs; at most {_CLUSTER_CTAS} are allowed")
        if any(grid % extent for grid, extent in zip(self.grid, self.cluster, strict=True)):
            raise SpecError(f"grid {self.grid} cannot be divided into whole clusters of {self.cluster}")
        if self.dynamic_smem < 0:
            raise SpecError(f"dynamic_smem is {self.dynamic_smem}: expected a number of bytes, at least 0")


def _extent(name: str, value: Any) -> tuple[int, int, int]:
    try:
        return Launch.extent(value)
    except ValueError as error:
        raise SpecError(f"{name}: {error}") from None
