"""Accesses to the shared memory of other CTAs: whether they come after the CTA's start and before its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..memory.access import AccessKind
from .agents import CtaAgent
from .clocks import NOTHING, Level, join_levels
from .order import Current, View, known_lanes
from .records import Record
from .world import World

__all__ = ["RemoteAccesses"]


class RemoteAccesses:
    """The accesses of a run to the shared memory of other CTAs.

    ``beyond`` is called with an access that is not ordered after the start, or before the end, of that CTA.
    """

    def __init__(self, world: World, beyond: Callable[[Record, CtaAgent, bool], None]) -> None:
        self._world, self._beyond = world, beyond
        #: For each CTA: accesses of other CTAs to its shared memory, the last of each instruction and warp.
        self._remote: dict[tuple[int, int], dict[tuple[int, int, int], Record]] = {}

    def reach(self, current: Current, view: View, record: Record, mask: int) -> None:
        """Check an access to another CTA's shared memory against that CTA's start, and keep it for its end.

        ``mask`` has the lanes that access; 0 for an engine, whose operations are judged elsewhere at the end.
        """
        owner = current.owner
        if owner is None or owner is view.cta:
            return
        clock = view.levels.get(Level.EXECUTION, {})
        if clock.get(owner.start, 0) < 1:
            self._beyond(record, owner, False)
        if mask:
            kept = replace(record, mask=mask) if record.mask != mask else record
            self._remote.setdefault(owner.key, {})[id(record.location), record.key, mask] = kept

    def end_cta(self, key: tuple[int, int]) -> None:
        """Check the other CTAs' accesses to the shared memory of a CTA against its end."""
        remote = self._remote.pop(key, {}).values()
        levels = NOTHING
        for warp in self._world.ctas[key].warps if remote else ():
            for group in warp.groups:
                levels = join_levels(levels, group.snapshot(group.mask))
        for record in remote:
            # Relaxed operations order the operations on mbarriers. A load is complete when its thread goes
            # on, so kernels leave together behind a relaxed barrier; a store may still be on its way.
            relaxed = record.barrier or record.kind is AccessKind.READ
            known = levels.get(Level.EXECUTION if relaxed else Level.SYNC, {})
            if record.key not in known or known[record.key] < record.time:
                lanes = known_lanes(record, known, record.mask)
                if record.mask & ~lanes:
                    self._beyond(record, self._world.ctas[key], True)
