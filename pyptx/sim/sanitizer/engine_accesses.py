"""The accesses of asynchronous operations: of each step, and of ``cp.async``, whose lanes copy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.events import AsyncOperation
from ..engine.stream import GroupKind
from ..memory.access import Access, Footprint
from .access_records import current_of, new_record, whole
from .agents import LaneGroup
from .examine import Check, Examiner
from .flags import Flags
from .issuing import Copies, CopyPart
from .operations import Token
from .order import Current, View
from .records import CODES, Record
from .remote import RemoteAccesses
from .shadow import Shadow
from .shadows import Shadows
from .world import World

__all__ = ["EngineAccesses"]


class EngineAccesses:
    """Brings the accesses of asynchronous operations to the examiner."""

    def __init__(
        self, world: World, examiner: Examiner, shadows: Shadows, remote: RemoteAccesses, flags: Flags
    ) -> None:
        self._world, self._examiner, self._shadows = world, examiner, shadows
        self._remote, self._flags = remote, flags

    def of_step(self, access: Access, operation: AsyncOperation, token: Token) -> None:
        """Check an access of one part of an operation."""
        cta = token.cta
        shadow = self._shadows.of(access.segment, operation)
        current = current_of(self._world, access, shadow)
        current.pipelined = operation.group is GroupKind.TCGEN05_COMMIT
        view = View(token.levels, cta, -1, 0, token.ordered, token)
        key = (access.kind, id(access.segment), access.footprint.size, access.proxy)
        record = token.records.get(key)
        if record is None:
            name = f"{operation.name} by {operation.threads}"
            record = new_record(self._world, access, token.key, token.time, 0, name)
            record.reads_only, record.stream, record.issuer = token.reads, token.stream, token.issuer
            record.issue = token.issue
            record.waited = operation.group is not GroupKind.TCGEN05_LD
            token.records[key] = record
        self._remote.reach(current, view, record, 0)
        self._examiner.access(whole(shadow, access.footprint, view, record, current))
        if access.kind.writes:
            self._flags.written(shadow, access.footprint.starts, access.footprint.size)

    def of_copies(self, access: Access, copies: Copies) -> None:
        """An access of a ``cp.async``, in which each lane's copy is an operation of its own."""
        assert access.threads is not None
        shadow = self._shadows.of(access.segment, access.actor)
        current = current_of(self._world, access, shadow)
        if access.kind.writes:
            self._flags.written(shadow, access.footprint.starts, access.footprint.size)
        lanes, warps = access.threads & 31, access.threads >> 5
        for number in np.unique(warps).tolist():
            part = copies.parts[number]
            record = self._copy_record(access, part)
            record.issue = copies.issue
            for group in part.groups:
                chosen = np.flatnonzero((warps == number) & (group.mask >> lanes & 1).astype(np.bool_))
                if len(chosen):
                    footprint = Footprint(access.footprint.starts[chosen], access.footprint.size)
                    self._of_copying(shadow, footprint, part, group, lanes[chosen], record, current)

    def _of_copying(
        self,
        shadow: Shadow,
        footprint: Footprint,
        part: CopyPart,
        group: LaneGroup,
        lanes: NDArray[Any],
        record: Record,
        current: Current,
    ) -> None:
        """Check the copies of those lanes of a ``cp.async`` that know the same."""
        warp = part.warp
        view = View(group.levels, warp.cta, warp.key, part.issued, group.ordered)
        values = CODES * record.number + lanes.astype(np.int64)
        self._examiner.access(Check(shadow, footprint, values, [view], [record], current, None, lanes))

    def _copy_record(self, access: Access, part: CopyPart) -> Record:
        key = (access.kind, id(access.segment), access.footprint.size)
        record = part.records.get(key)
        if record is None:
            actor: Any = access.actor
            record = new_record(
                self._world, access, part.key, 1, part.mask, f"{actor.name} by {actor.threads}"
            )
            record.bound = part.bound
            part.records[key] = record
        return record
