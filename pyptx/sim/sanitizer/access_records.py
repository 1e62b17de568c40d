"""What is common to the checks of all accesses: the access that is checked now, and its record."""

from __future__ import annotations

from ...core.types import TYPES
from ..memory.access import Access, AccessKind, Footprint, MemoryOrder
from .examine import Check
from .order import Current, View
from .records import ALL_LANES, CODES, Record
from .shadow import Shadow
from .world import World

__all__ = ["current_of", "element_size", "new_record", "whole"]


def current_of(world: World, access: Access, shadow: Shadow) -> Current:
    """Return the access as the examiner sees it."""
    owner = None if shadow.owner is None else world.ctas.get(shadow.owner)
    strong = access.semantics is not MemoryOrder.WEAK or access.kind is AccessKind.RMW
    address = shadow.segment.base + int(access.footprint.starts[0])
    return Current(
        access,
        access.space,
        access.kind,
        access.proxy,
        element_size(access),
        strong,
        access.scope,
        False,
        owner,
        address,
    )


def new_record(world: World, access: Access, key: int, time: int, mask: int, name: str) -> Record:
    """Return a new record of an access by an agent with a key and a time; ``name`` is for messages."""
    return world.records.add(
        Record(
            0,
            key,
            time,
            mask,
            access.kind,
            access.proxy,
            access.semantics,
            access.scope,
            element_size(access),
            access.actor.cta_key,
            world.launches[access.actor.cta_key[0]],
            name,
            access.actor.location,
        )
    )


def whole(
    shadow: Shadow, footprint: Footprint, view: View, record: Record, current: Current, mask: int = 0
) -> Check:
    """Return the check of an access to all pieces by one agent, or by the lanes of ``mask`` together."""
    return Check(shadow, footprint, CODES * record.number + ALL_LANES, [view], [record], current, mask=mask)


def element_size(access: Access) -> int:
    """Return the bytes of one scalar: a vector or a packed type counts as accesses of its elements."""
    op = getattr(access.actor, "op", None)
    if op is None:
        return access.footprint.size
    vector, kind = op.chosen.get("vec"), op.chosen.get("type")
    count = 1 if vector is None else int(vector[1:])
    if access.kind is AccessKind.RMW and kind is not None:
        count *= TYPES[kind].lanes
    return max(1, access.footprint.size // count)
