"""Accesses of threads that are not checked when they happen, because they conflict with nothing so far.

Most kernels only read their inputs, and write each byte of their outputs once. What such an access leaves in
the shadow is made when another access needs it, if ever (:meth:`~.shadow.Shadow.waits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.source import SourceLocation
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from .agents import FULL_MASK, WarpAgent
from .clocks import Levels
from .examine import Check
from .order import Current, View
from .records import CODES, Record
from .shadow import Shadow
from .world import World

__all__ = ["Late", "apart", "may_be_late"]


def apart(footprint: Footprint) -> bool:
    """True if the pieces ascend and do not overlap, as those of most accesses."""
    starts = footprint.starts
    return len(starts) < 2 or not np.count_nonzero(starts[1:] - starts[:-1] < footprint.size)


def may_be_late(access: Access, agents: Sequence[WarpAgent]) -> bool:
    """True if the access of these warps may wait, if it conflicts with nothing: it does nothing besides."""
    return (
        access.space is StateSpace.GLOBAL
        and access.semantics is MemoryOrder.WEAK
        and (access.kind is AccessKind.READ or access.kind is AccessKind.WRITE)
        and access.threads is not None
        and len(access.threads) == len(access.footprint.starts)
        and all(len(warp.groups) == 1 for warp in agents)
        and apart(access.footprint)
    )


@dataclass(eq=False, slots=True)
class Late:
    """An access of warps of one lane group each that waits, with what the warps know at this time.

    Attributes:
        size: bytes of one scalar of a piece.
        rows: the pieces of each warp.
        lanes: for each piece, the lane that accesses.
        warps: the warps.
        first: the number of the first warp's record; those of the other warps follow.
        times, levels: what the warps know.
    """

    shadow: Shadow
    footprint: Footprint
    kind: AccessKind
    proxy: Proxy
    size: int
    rows: list[slice]
    lanes: NDArray[Any]
    warps: list[WarpAgent]
    location: SourceLocation | None
    world: World
    first: int
    times: list[int] = field(init=False)
    levels: list[Levels] = field(init=False)

    def __post_init__(self) -> None:
        self.times = [warp.time for warp in self.warps]
        self.levels = [warp.groups[0].levels for warp in self.warps]

    def made(self) -> Check:
        """Return the check, with the records."""
        values, units = self.lanes.astype(np.int64), np.empty(len(self.lanes), np.int32)
        records = [self._record(unit) for unit in range(len(self.warps))]
        for unit, row in enumerate(self.rows):
            values[row] += CODES * (self.first + unit)
            units[row] = unit
            self.world.records.put(records[unit])
        views = [
            View(levels, warp.cta, warp.key, time, set())
            for warp, time, levels in zip(self.warps, self.times, self.levels, strict=True)
        ]
        several = units if len(views) > 1 else None
        return Check(
            self.shadow, self.footprint, values, views, records, self._current(), several, self.lanes
        )

    def _current(self) -> Current:
        address = self.shadow.segment.base + int(self.footprint.starts[0])
        return Current(
            None,
            StateSpace.GLOBAL,
            self.kind,
            self.proxy,
            self.size,
            False,
            Scope.NONE,
            False,
            None,
            address,
        )

    def _record(self, unit: int) -> Record:
        warp = self.warps[unit]
        return Record(
            self.first + unit,
            warp.key,
            self.times[unit],
            FULL_MASK,
            self.kind,
            self.proxy,
            MemoryOrder.WEAK,
            Scope.NONE,
            self.size,
            warp.cta.key,
            self.world.launches[warp.cta.launch],
            warp.name,
            self.location,
        )
