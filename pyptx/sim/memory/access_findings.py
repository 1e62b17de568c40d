"""Builds the findings of wrong accesses to memory: their rules and the texts of their messages.

:class:`~.address_space.Memory` decides whether an access is wrong, and calls a function of this module. For
an access that ends the run, the function returns a :class:`Fault`; for any other, it returns a
:class:`~pyptx.core.findings.Finding` that the caller reports.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...core.findings import RULES, Finding
from .access import Access, AccessKind, StateSpace
from .collisions import Collision
from .mbarrier import MBarrier
from .named_parts import NamedParts
from .segments import Actor, ClusterMemory, Fault, Offsets, Segment

__all__ = [
    "barrier_overwritten",
    "barrier_read",
    "misaligned",
    "nearest_segment",
    "out_of_bounds",
    "outside_buffer",
    "read_only",
    "store_collision",
    "unwritten_read",
]


def out_of_bounds(
    kind: AccessKind,
    space: StateSpace,
    address: int,
    size: int,
    actor: Actor,
    lane: int | None,
    where: str,
    *,
    ended: bool = False,
) -> Fault:
    """Return the fault of an access outside every segment.

    ``where`` describes the nearest segment. ``ended`` is True for shared memory of a CTA that has exited.
    """
    return Fault(
        Finding(
            RULES["cluster-lifetime" if ended else "out-of-bounds"],
            f"{kind.value} of {size} bytes at {space.value} address {address:#x}: {where}",
            actor.location,
            actor.description(lane),
        )
    )


def nearest_segment(
    space: StateSpace, address: int, cluster: ClusterMemory, allocations: Iterable[Segment]
) -> str:
    """Return text that describes an address outside every segment by its distance from the nearest one.

    ``allocations`` are the segments of global memory.
    """
    if space is StateSpace.SHARED:
        rank = address >> 24
        if rank in cluster.ended:
            return f"the CTA of rank {rank} has exited, and its shared memory with it"
        if rank not in cluster and 0 < rank < 256:
            return f"the cluster has no CTA of rank {rank}"
        candidates = list(cluster.values())
    elif space is StateSpace.PARAM:
        candidates = [cluster.params] if cluster.params is not None else []
    elif space is StateSpace.CONST:
        candidates = [cluster.const] if cluster.const is not None else []
    else:
        candidates = list(allocations)
    if not candidates:
        return f"there is no {space.value} memory"

    def distance(segment: Segment) -> int:
        if address < segment.base:
            return segment.base - address
        return max(0, address - segment.base - segment.size + 1)

    near = min(candidates, key=distance)
    end = near.base + near.size
    span = f"{near.name} ({near.size} bytes, {near.base:#x} to {end:#x})"
    if address < near.base:
        return f"{near.base - address} bytes before {span}"
    if address >= end:
        return f"{address - end} bytes past the end of {span}"
    return f"it runs past the end of {span}"


def read_only(segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> Fault:
    """Return the fault of a write to parameters or constants."""
    address = segment.base + int(np.min(offset))
    space = segment.space.value
    return Fault(
        Finding(
            RULES["out-of-bounds"],
            f"write of {size} bytes at {space} address {address:#x}: {space} memory is read-only",
            actor.location,
            actor.description(),
        )
    )


def misaligned(
    kind: AccessKind, space: StateSpace, address: int | Offsets, size: int, align: int, actor: Actor
) -> Fault:
    """Return the fault of an access with an address that is not a multiple of ``align``."""
    lane, first = None, address
    if not isinstance(address, int):
        lane = int(np.argmax(address % align != 0))
        first = int(address[lane])
    return Fault(
        Finding(
            RULES["misaligned"],
            f"{kind.value} of {size} bytes at {space.value} address {first:#x}, "
            f"which is not a multiple of {align}",
            actor.location,
            actor.description(lane),
        )
    )


def unwritten_read(segment: Segment, position: int, size: int, actor: Actor, lane: int | None) -> Finding:
    """Return the finding of a read of ``size`` bytes; the byte at offset ``position`` was never written."""
    return Finding(
        RULES["uninitialized-read"],
        f"read of {size} bytes in {segment.name}: byte {segment.base + position:#x} "
        f"(offset {position}) was never written{segment.place(position)}",
        actor.location,
        actor.description(lane),
    )


def outside_buffer(
    parts: NamedParts, kind: AccessKind, offset: int | Offsets, size: int, actor: Actor
) -> Finding | None:
    """Return the finding if an access of contiguous bytes is not inside one named buffer, else None.

    For many lanes, only the first and the last lane are checked. If they lie in different buffers and the
    lanes' bytes leave no gap, the finding is for review.
    """
    first, last = (offset, offset) if isinstance(offset, int) else (int(offset[0]), int(offset[-1]))
    here, there = parts.at(first), parts.at(last)
    for lane, start, part in ((0, first, here), (-1, last, there)):
        if part is not None and start + size <= part.end:
            continue
        where = "lies" if part is None else "runs past the end of its buffer: it begins"
        return Finding(
            RULES["buffer-overrun"],
            f"{kind.value} of {size} bytes {where} at {parts.describe(start)}",
            actor.location,
            actor.description(lane if lane == 0 or isinstance(offset, int) else len(offset) - 1),
        )
    if here is there or here is None or there is None or isinstance(offset, int):
        return None
    steps = np.diff(np.sort(offset))
    if not (steps <= size).all():
        return None
    return Finding(
        RULES["buffer-crossing"],
        f"{kind.value} by {len(offset)} lanes reaches without a gap from {parts.describe(first)} "
        f"to {parts.describe(last)}",
        actor.location,
        actor.description(),
    )


def barrier_read(barrier: MBarrier, size: int, actor: Actor) -> Finding:
    """Return the finding of a read of a live mbarrier: an ordinary read of the opaque object is undefined."""
    return Finding(
        RULES["mbarrier-read"],
        f"read of {size} bytes in the live {barrier.describe()}",
        actor.location,
        actor.description(),
        (("initialized", barrier.location),),
    )


def barrier_overwritten(barrier: MBarrier, size: int, actor: Actor) -> Finding:
    """Return the finding of a write over a live mbarrier, which only mbarrier operations may change."""
    return Finding(
        RULES["mbarrier-overwritten" if barrier.at_rest else "mbarrier-misuse"],
        f"write of {size} bytes over the live {barrier.describe()}",
        actor.location,
        actor.description(),
        (("initialized", barrier.location),),
    )


def store_collision(access: Access, collision: Collision) -> Finding:
    """Return the finding of a store whose lanes write the same bytes."""
    segment: Segment = access.segment
    values = {None: "", True: ", all the same value", False: ", different values"}[collision.same]
    lanes = [thread % 32 for thread in collision.threads]
    warp = collision.threads[0] // 32
    return Finding(
        RULES["store-collision"],
        f"{len(lanes)} lanes of warp {warp}, {lanes[0]} and {lanes[1]} first, store to the same address in "
        f"{segment.name}, offset {collision.offset:#x}{segment.place(collision.offset)}{values}",
        access.actor.location,
        access.actor.description(),
    )
