"""Accesses of threads that are not checked when they happen, because they conflict with nothing so far.

Most kernels only read their inputs, and write each byte of their outputs once. What such an access leaves in
the shadow is made when another access needs it, if ever (:meth:`~.shadow.Shadow.waits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder, Scope, StateSpace
from .agents import FULL_MASK, WarpAgent
from .examine import Check
from .order import Current, View
from .records import CODES, Record, Records
from .shadow import Shadow

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
    """An access of whole warps that waits, with what its warps knew.

    Attributes:
        rows: the pieces of each warp.
        lanes: for each piece, the lane that accesses.
        warps, views: the warps, and what each knew.
        first: the number of the first warp's record; those of the other warps follow.
        launch: the key in clocks that stands for the completion of the access's launch.
    """

    shadow: Shadow
    footprint: Footprint
    rows: list[slice]
    lanes: NDArray[Any]
    warps: list[WarpAgent]
    views: list[View]
    current: Current
    location: SourceLocation | None
    records: Records
    first: int
    launch: int

    def made(self) -> Check:
        """Return the check, with the records."""
        values, units = self.lanes.astype(np.int64), np.empty(len(self.lanes), np.int32)
        for unit, row in enumerate(self.rows):
            values[row] += CODES * (self.first + unit)
            units[row] = unit
            self.records.put(self._record(unit))
        several = units if len(self.views) > 1 else None
        record = self.records[self.first]
        return Check(
            self.shadow,
            self.footprint,
            values,
            self.views,
            record,
            self.current,
            several,
            self.lanes,
        )

    def _record(self, unit: int) -> Record:
        current, view, warp = self.current, self.views[unit], self.warps[unit]
        return Record(
            self.first + unit,
            warp.key,
            view.limit,
            FULL_MASK,
            current.kind,
            current.proxy,
            MemoryOrder.WEAK,
            Scope.NONE,
            current.size,
            warp.cta.key,
            self.launch,
            warp.name,
            self.location,
        )
