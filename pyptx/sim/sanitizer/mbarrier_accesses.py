"""Operations on mbarriers, as accesses to their 8 bytes that are atomic among themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.source import SourceLocation
from ..engine.events import Step
from ..engine.stream import Sync, SyncKind
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from .access_records import whole
from .agents import CtaAgent, LaneGroup
from .examine import Check, Examiner
from .order import Current, View
from .records import Record
from .remote import RemoteAccesses
from .shadow import Shadow
from .world import World

__all__ = ["MbarrierAccesses"]

_BARRIER_BYTES = 8


class MbarrierAccesses:
    """The live mbarriers of a run, and the operations on them."""

    def __init__(self, world: World, examiner: Examiner, remote: RemoteAccesses) -> None:
        self._world, self._examiner, self._remote = world, examiner, remote
        #: By the key of their events: where they are.
        self._barriers: dict[Any, tuple[Shadow, Footprint]] = {}

    def begin(self, access: Access, shadow: Shadow) -> None:
        """Remember where an mbarrier is, by the key of its events."""
        actor: Any = access.actor
        cta = actor.warp.cta
        for offset in access.footprint.starts.tolist():
            key = (cta.grid.number, cta.cluster.number, shadow.segment.base + offset)
            self._barriers[key] = shadow, Footprint(np.array([offset], np.int64), _BARRIER_BYTES)
            self._world.begin_barrier(key)

    def name(self, key: Any) -> tuple[str, str]:
        """Return the name of an mbarrier in texts and in addresses, given the key of its events."""
        found = self._barriers.get(key)
        if found is None:
            return "an mbarrier", "mbar"
        shadow, offset = found[0], int(found[1].starts[0])
        parts = shadow.segment.parts
        part = None if parts is None else parts.at(offset)
        if part is None:
            address = f"{shadow.segment.base + offset:#x}"
            return f"the mbarrier at {address}", address
        within = offset - part.start
        if part.end - part.start <= _BARRIER_BYTES:
            return part.name, part.name
        return f"{part.name}[{within // _BARRIER_BYTES}]", f"{part.name}+{within}"

    def use(self, sync: Sync, kind: AccessKind, step: Step | None) -> None:
        """Check an operation of threads on an mbarrier as an atomic access to its 8 bytes.

        ``step`` is the one that happens now: a signal is one of its operation.
        """
        where = self._barriers.get(sync.object)
        if where is None:
            return
        shadow, footprint = where
        if sync.steps:
            self._signal(sync, step, shadow, footprint)
            return
        cta = self._world.ctas[sync.cta]
        for warp, mask in self._world.warps_of(cta, sync.threads):
            for group in warp.groups_of(mask):
                self._use(sync, kind, shadow, footprint, group)
            warp.merge()

    def _signal(self, sync: Sync, step: Step | None, shadow: Shadow, footprint: Footprint) -> None:
        """Check the signal of an operation against the initialization of the mbarrier."""
        assert step is not None and step.serial == sync.steps[0]
        cta = self._world.ctas[sync.cta]
        operation = step.operation
        name = f"{operation.name} by {operation.threads}"
        record = _record(AccessKind.RMW, cta, self._world, name, sync.location)
        record.issue = step.observed.issue
        current = self._current(AccessKind.RMW, shadow, footprint)
        view = View(step.observed.issued, cta, -1, 0, set())
        self._examiner.compare(Check(shadow, footprint, 0, [view], [record], current))

    def _current(self, kind: AccessKind, shadow: Shadow, footprint: Footprint) -> Current:
        owner = None if shadow.owner is None else self._world.ctas.get(shadow.owner)
        address = shadow.segment.base + int(footprint.starts[0])
        return Current(
            None,
            StateSpace.SHARED,
            kind,
            Proxy.GENERIC,
            _BARRIER_BYTES,
            True,
            Scope.SYS,
            True,
            owner,
            address,
        )

    def _use(
        self, sync: Sync, kind: AccessKind, shadow: Shadow, footprint: Footprint, group: LaneGroup
    ) -> None:
        warp = group.warp
        warp.advance()
        key = id(sync.location), kind, sync.object, sync.phase, group.mask
        record = warp.records.get(key)
        if record is None:
            record = _record(kind, warp.cta, self._world, warp.name, sync.location)
            record.key, record.time, record.mask = warp.key, warp.time, group.mask
            if sync.kind is SyncKind.MBARRIER_ARRIVE:
                phase = self._world.barrier_key(sync.object), sync.phase + 1
                record.bound = dict.fromkeys(range(32), phase)
            warp.records[key] = self._world.records.add(record)
        current = self._current(kind, shadow, footprint)
        view = View(group.levels, warp.cta, warp.key, warp.time, group.ordered)
        self._remote.reach(current, view, record, group.mask)
        self._examiner.access(whole(shadow, footprint, view, record, current, group.mask))


def _record(
    kind: AccessKind, cta: CtaAgent, world: World, name: str, location: SourceLocation | None
) -> Record:
    """Return a record of an operation on an mbarrier, with no agent and no time yet."""
    return Record(
        0,
        -1,
        0,
        0,
        kind,
        Proxy.GENERIC,
        MemoryOrder.RELAXED,
        Scope.SYS,
        _BARRIER_BYTES,
        cta.key,
        world.launches[cta.launch],
        name,
        location,
        barrier=True,
    )
