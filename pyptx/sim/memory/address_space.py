"""Memory of the simulated machine: one 64-bit address space, and one function for every access.

Owns :class:`Memory` with :meth:`Memory.access`. *Every* read and write of global, shared, parameter and local
memory goes through that method, for threads and engines. It checks bounds, alignment and initialization
(:mod:`.access_findings` has the texts), and calls the observers (the sanitizer, a timeline).

The address model is the hardware's: a shared address carries the CTA's rank in its cluster in bits 24 and up;
its generic address is a 4-GiB-aligned base plus that value.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.findings import Finding
from ...core.source import SourceLocation
from .access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from .access_findings import (
    barrier_overwritten,
    barrier_read,
    misaligned,
    nearest_segment,
    out_of_bounds,
    outside_buffer,
    read_only,
    unwritten_read,
)
from .segments import BARRIER_BYTES, Actor, Bytes, ClusterMemory, Fault, Offsets, Segment

__all__ = [
    "CONST_WINDOW",
    "FUNCTION_WINDOW",
    "GLOBAL_BASE",
    "LOCAL_LIMIT",
    "LOCAL_WINDOW",
    "PARAM_WINDOW",
    "RED_ZONE",
    "SHARED_WINDOW",
    "Memory",
    "Scattered",
]

#: Generic base of the shared window: 4-GiB aligned.
SHARED_WINDOW = 0x7E_0000_0000
#: Generic base of the parameter window.
PARAM_WINDOW = 0x7D_0000_0000
#: Generic base of constant memory.
CONST_WINDOW = 0x7C_0000_0000
#: Generic base of every thread's own local memory.
LOCAL_WINDOW = 0x7B_0000_0000
#: Bytes of local memory that a thread can have.
LOCAL_LIMIT = 512 << 10
#: Addresses of functions, for indirect calls. No access may use them.
FUNCTION_WINDOW = 0x7A_0000_0000
#: Address of the first global allocation.
GLOBAL_BASE = 0x7F_0000_0000
#: Unmapped bytes between global allocations.
RED_ZONE = 1 << 20
_WINDOW = 1 << 32

_ALL = slice(None)
# A name of the module is found faster than a member of an enumeration.
READ, WRITE, RMW, PROBE = AccessKind.READ, AccessKind.WRITE, AccessKind.RMW, AccessKind.PROBE
GENERIC, GLOBAL, SHARED = StateSpace.GENERIC, StateSpace.GLOBAL, StateSpace.SHARED
LOCAL, PARAM, CONST = StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST
_WINDOWS = (
    (SHARED, SHARED_WINDOW),
    (PARAM, PARAM_WINDOW),
    (CONST, CONST_WINDOW),
    (LOCAL, LOCAL_WINDOW),
)


class Scattered(Exception):
    """Raised if the addresses of one access are in several allocations: the caller then splits it."""


class Memory:
    """Global memory, and the access function for all memory."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self._next = GLOBAL_BASE
        self._report = report
        #: Called with the origin of undefined values, and how and at which line they are used.
        self.on_use: Callable[[int, str, SourceLocation | None], None] = lambda number, how, where: None
        #: For observers: called with a global segment, and True if it begins, False if it ends.
        self.on_life: Callable[[Segment, bool], None] | None = None
        #: Called with every access, before the bytes change.
        self.observers: list[Callable[[Access], None]] = []
        #: Number of changes so far that a spinning thread could see.
        self.version = 0
        #: The bytes at some offsets that the current strong read returns instead of those in memory.
        self.older: dict[int, bytes] = {}

    # --- allocation ---------------------------------------------------------------------------

    def map_global(self, name: str, data: Bytes, *, misalignment: int = 0, tracked: bool = False) -> Segment:
        """Place ``data`` in global memory, ``misalignment`` bytes after a multiple of 256, after a red zone.

        A red zone is a gap that no allocation uses.
        """
        return self.place_global(name, self._next + misalignment, data, tracked=tracked)

    def place_global(self, name: str, base: int, data: Bytes, *, tracked: bool = False) -> Segment:
        """Place ``data`` at ``base``, which must lie above every earlier allocation."""
        segment = Segment(name, GLOBAL, base, data, tracked=tracked)
        self._next = (base + segment.size + RED_ZONE + 255) // 256 * 256
        self._bases.append(base)
        self._segments.append(segment)
        if self.on_life is not None:
            self.on_life(segment, True)
        return segment

    def unmap_global(self, base: int) -> None:
        """End the life of the allocation at ``base``."""
        position = bisect.bisect_left(self._bases, base)
        if self.on_life is not None:
            self.on_life(self._segments[position], False)
        del self._bases[position], self._segments[position]

    # --- the seam -----------------------------------------------------------------------------

    def access(
        self,
        kind: AccessKind,
        space: StateSpace,
        address: int | Offsets,
        size: int,
        actor: Actor,
        cluster: ClusterMemory,
        proxy: Proxy = Proxy.GENERIC,
        semantics: MemoryOrder = MemoryOrder.WEAK,
        scope: Scope = Scope.NONE,
        align: int | None = None,
        check_written: bool = True,
        announce: bool = True,
    ) -> tuple[Segment, Any]:
        """Resolve, check and announce one access of ``size`` bytes at each address.

        Args:
            kind: what the access does. After an ``RMW`` the caller passes the bytes that it changed to
                :meth:`changed`. A ``PROBE`` is not announced.
            space: the space that the instruction names.
            address: one address, or one per accessing lane.
            cluster: the memory that the actor's cluster alone can access.
            align: required alignment, ``size`` if None.
            check_written: False if the caller itself checks, or marks, only some of the bytes.
            announce: False if the caller itself announces (:meth:`announce`) only some of the bytes.

        Returns the segment and the byte offset(s) in it. Raises :class:`Fault` for an access outside every
        allocation or misaligned; reports a read of bytes that were never written.
        """
        align = size if align is None else align
        located = (
            None if isinstance(address, int) else self._in_one_segment(space, address, size, align, cluster)
        )
        if located is not None:
            segment, offset = located
        else:
            segment, offset, space = self._locate(kind, space, address, size, actor, cluster, align)
        if segment.written is not None and check_written:
            if kind is WRITE:
                segment.mark(offset, size, align)
            elif kind is READ or kind is RMW:
                lane = segment.unwritten(offset, size, align)
                if lane is not None:
                    self.uninitialized(segment, offset, size, lane, actor)
        parts = segment.parts
        if parts is not None and check_written and kind is not PROBE and not parts.hold(offset, size):
            finding = outside_buffer(parts, kind, offset, size, actor)
            if finding is not None:
                self._report(finding)
        if kind is WRITE:
            self._count_write(segment, offset, size, actor)
        elif kind is READ and check_written and segment.barriers and segment.near_barriers(offset, size):
            self._read_barriers(segment, offset, size, actor)
        elif kind is RMW and segment.read_only:
            raise read_only(segment, offset, size, actor)
        if self.observers and announce and kind is not PROBE:
            starts = np.atleast_1d(np.asarray(offset, np.int64))
            self._send(kind, segment, Footprint(starts, size), actor, proxy, semantics, scope)
        return segment, offset

    def changed(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        """Record that an ``RMW`` changes these bytes, which are among those that it accessed."""
        segment.mark(offset, size)
        self._count_write(segment, offset, size, actor)

    def _count_write(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        if segment.read_only:
            raise read_only(segment, offset, size, actor)
        self.version += 1
        segment.writes += 1
        if segment.barriers and segment.near_barriers(offset, size):
            self._check_live_barriers(segment, offset, size, actor)

    def announce(
        self,
        kind: AccessKind,
        segment: Segment,
        footprint: Callable[[], Footprint],
        actor: Actor,
        proxy: Proxy,
        semantics: MemoryOrder = MemoryOrder.WEAK,
        scope: Scope = Scope.NONE,
    ) -> None:
        """Send one access to the observers; ``footprint`` is called only if there are any.

        For callers of :meth:`access` with ``announce=False``, which know the exact bytes.
        """
        if self.observers:
            self._send(kind, segment, footprint(), actor, proxy, semantics, scope)

    def _send(
        self,
        kind: AccessKind,
        segment: Segment,
        footprint: Footprint,
        actor: Actor,
        proxy: Proxy,
        semantics: MemoryOrder,
        scope: Scope,
    ) -> None:
        access = Access(
            kind, segment.space, segment, footprint, actor, actor.thread_numbers(), proxy, semantics, scope
        )
        for observer in self.observers:
            observer(access)

    def _in_one_segment(
        self, space: StateSpace, address: Offsets, size: int, align: int, cluster: ClusterMemory
    ) -> tuple[Segment, Offsets] | None:
        """Return segment and offsets if all addresses are aligned and in one segment, else None.

        This quick test may also return None for a correct access.
        """
        if space is LOCAL:
            return None
        first = int(address[0])
        window = 0
        if space is GENERIC:
            space, window = self._window(first)
            if space is LOCAL:
                return None
        segment = self._find(space, first - window, cluster)
        if segment is None or segment.base % align:
            return None
        offset = address - (segment.base + window)
        # The union is at least the largest offset, and negative if an offset is.
        union = int(np.bitwise_or.reduce(offset))
        return None if union < 0 or union + size > segment.size or union % align else (segment, offset)

    def _locate(
        self,
        kind: AccessKind,
        space: StateSpace,
        address: int | Offsets,
        size: int,
        actor: Actor,
        cluster: ClusterMemory,
        align: int,
    ) -> tuple[Segment, Any, StateSpace]:
        """Return segment, offsets and state space of an access; raise the fault if the access is wrong."""
        if isinstance(address, int):
            low = high = address
        else:
            low, high = int(address.min()), int(address.max())
        if space is GENERIC:
            space, window = self._window(low)
            if low != high and self._window(high)[0] is not space:
                raise Scattered
            address, low, high = address - window, low - window, high - window
        segment: Segment | None
        if space is LOCAL:
            segment, address = actor.local(address, size, kind)
            low, high = (
                (address, address) if isinstance(address, int) else (int(address.min()), int(address.max()))
            )
        else:
            segment = self._find(space, low, cluster)
        if segment is None or high + size > segment.base + segment.size:
            raise self._outside(kind, space, address, size, actor, cluster)
        if align > 1:
            union = address if isinstance(address, int) else int(np.bitwise_or.reduce(address))
            if union % align:
                raise misaligned(kind, space, address, size, align, actor)
        return segment, address - segment.base, space

    def access_each(
        self,
        kind: AccessKind,
        space: StateSpace,
        address: Offsets,
        size: int,
        actor: Actor,
        cluster: ClusterMemory,
        **how: Any,
    ) -> list[tuple[Any, Segment, Offsets]]:
        """Do the same as :meth:`access` for addresses that may be in several allocations.

        Returns ``(which, segment, offsets)`` for each allocation. ``which`` indexes the addresses; in the
        usual case of one allocation it is a slice of all of them.
        """
        try:
            return [(_ALL, *self.access(kind, space, address, size, actor, cluster, **how))]
        except Scattered:
            pass
        found: dict[int, tuple[Segment, list[int], list[int]]] = {}
        acting = getattr(actor, "acting", None)
        moves_for = getattr(actor, "moves_for", None)
        for position, one in enumerate(address.tolist()):
            if acting is not None:
                actor.acting = acting[position : position + 1]  # type: ignore[attr-defined]
            if moves_for is not None:
                actor.moves_for = moves_for[position : position + 1]  # type: ignore[attr-defined]
            segment, offset = self.access(kind, space, one, size, actor, cluster, **how)
            _, positions, offsets = found.setdefault(id(segment), (segment, [], []))
            positions.append(position)
            offsets.append(offset)
        if acting is not None:
            actor.acting = acting  # type: ignore[attr-defined]
        if moves_for is not None:
            actor.moves_for = moves_for  # type: ignore[attr-defined]
        return [(np.array(p), segment, np.array(o, np.int64)) for segment, p, o in found.values()]

    def _read_barriers(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        for at, barrier in segment.barriers.items():
            if np.any((offset < at + BARRIER_BYTES) & (at < offset + size)):
                self._report(barrier_read(barrier, size, actor))

    def _check_live_barriers(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        """Check a write over a live mbarrier.

        If the barrier is at rest, the write ends its life: compilers reuse the bytes without
        ``mbarrier.inval``.
        """
        low = high = offset
        if not isinstance(offset, int):
            low, high = int(offset.min()), int(offset.max())
        for at, barrier in list(segment.barriers.items()):
            if (
                low < at + BARRIER_BYTES
                and at < high + size
                and np.any((offset < at + BARRIER_BYTES) & (at < offset + size))
            ):
                finding = barrier_overwritten(barrier, size, actor)
                if not barrier.at_rest:
                    raise Fault(finding)
                self._report(finding)
                segment.remove_barrier(at)

    def _find(self, space: StateSpace, address: int, cluster: ClusterMemory) -> Segment | None:
        if space is SHARED:
            segment = cluster.get(address >> 24)
        elif space is PARAM:
            segment = cluster.params
        elif space is CONST:
            segment = cluster.const
        else:
            position = bisect.bisect_right(self._bases, address) - 1
            segment = self._segments[position] if position >= 0 else None
        if segment is None or not segment.base <= address < segment.base + segment.size:
            return None
        return segment

    @staticmethod
    def _window(address: int) -> tuple[StateSpace, int]:
        """Return the state space that a generic address lies in, and the first address of its window."""
        if address < GLOBAL_BASE:
            for space, window in _WINDOWS:
                if window <= address < window + _WINDOW:
                    return space, window
        return GLOBAL, 0

    def _outside(
        self,
        kind: AccessKind,
        space: StateSpace,
        address: int | Offsets,
        size: int,
        actor: Actor,
        cluster: ClusterMemory,
    ) -> Fault:
        """Return the fault of an access whose lowest or highest address is in no segment.

        Raises :class:`Scattered` if every address is in a segment.
        """
        lane: int | None = None
        first = address if isinstance(address, int) else 0
        if not isinstance(address, int):
            for position, value in enumerate(address.tolist()):
                segment = self._find(space, value, cluster)
                if segment is None or value + size > segment.base + segment.size:
                    lane, first = position, value
                    break
            else:
                raise Scattered
        where = nearest_segment(space, first, cluster, self._segments)
        ended = space is SHARED and first >> 24 in cluster.ended
        return out_of_bounds(kind, space, first, size, actor, lane, where, ended=ended)

    def uninitialized(
        self,
        segment: Segment,
        offset: int | Offsets,
        size: int,
        lane: int,
        actor: Actor,
        *,
        copied: bool = True,
    ) -> None:
        """Report a read of ``size`` bytes at ``offset`` (lane number ``lane``) that were not all written.

        ``copied`` is False if the actor is a copy, but uses these bytes itself.
        """
        position = offset if isinstance(offset, int) else int(offset[lane])
        known = (
            np.zeros(size, np.uint8)
            if segment.written is None
            else segment.written[position : position + size]
        )
        first = position + int(np.argmin(known))
        one = None if isinstance(offset, int) else lane
        self.report_unwritten(segment, first, size, known, actor, one, copied=copied)

    def report_unwritten(
        self,
        segment: Segment,
        position: int,
        size: int,
        known: Bytes,
        actor: Actor,
        lane: int | None = None,
        *,
        copied: bool = True,
    ) -> None:
        """Report a read of ``size`` bytes whose first never written byte is at offset ``position``.

        ``known`` flags, for the bytes that matter, which ones were written. An actor that follows the bytes
        to their use makes the report itself. Of bytes that were written with undefined values, the report is
        about the origin of these values.
        """
        if copied and actor.follows_unwritten(segment, position, size, known):
            return
        origin = 0 if segment.origins is None else int(segment.origins[position])
        if origin:
            self.on_use(origin, f"used by {actor.description(lane)}", actor.location)
        else:
            self._report(unwritten_read(segment, position, size, actor, lane))
