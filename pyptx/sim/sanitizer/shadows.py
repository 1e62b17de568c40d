"""The shadows of all segments of a run, and the partitions that they share."""

from __future__ import annotations

from typing import Any

from ..memory.access import StateSpace
from ..memory.segments import Segment
from .partition import Partition
from .shadow import Shadow
from .world import World

__all__ = ["Shadows"]


class Shadows:
    """The shadow of each segment, by the segment's identity: a shadow keeps its segment."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shadows: dict[int, Shadow] = {}
        #: Partitions of shared memory, by the launch and the size; and of tensor memory.
        self._partitions: dict[tuple[int | None, int], Partition] = {}

    def of(self, segment: Segment, actor: Any) -> Shadow:
        """Return the shadow of a segment that ``actor`` accesses."""
        found = self._shadows.get(id(segment))
        if found is None:
            owner = self._world.owner_of(segment, actor.cta_key)
            found = self._shadows[id(segment)] = Shadow(segment, owner, self._partition(segment, owner))
        return found

    def find(self, segment: Segment) -> Shadow | None:
        """Return the shadow of a segment; None if nothing has accessed the segment."""
        return self._shadows.get(id(segment))

    def _partition(self, segment: Segment, owner: tuple[int, int] | None) -> Partition:
        """Return the partition of a segment: equal memories of CTAs and of multiprocessors share one."""
        if segment.space is StateSpace.GLOBAL:
            return Partition(segment.size)
        key = owner and owner[0], segment.size
        if key not in self._partitions:
            self._partitions[key] = Partition(segment.size, shared=True)
        return self._partitions[key]

    def end_cta(self, key: tuple[int, int]) -> None:
        """Forget the shared memory of a CTA."""
        self._shadows = {number: shadow for number, shadow in self._shadows.items() if shadow.owner != key}

    def end_segment(self, base: int) -> None:
        """Forget a segment of global memory."""
        self._shadows = {
            number: shadow
            for number, shadow in self._shadows.items()
            if shadow.owner is not None or shadow.segment.base != base
        }
