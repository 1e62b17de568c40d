"""Memory of the machine: one 64-bit address space of segments, and one function for every access.

Owns :class:`Segment` (bytes, which of them were written, red zones around) and :class:`Memory` with
:meth:`Memory.access`. *Every* read and write of global, shared, parameter and local memory goes through that
method, for threads and engines. It checks bounds, alignment and initialization, and calls the observers (the
sanitizer, a timeline).

The address model is the hardware's: a shared address carries the CTA's rank in its cluster in bits 24 and up;
its generic address is a 4-GiB-aligned base plus that value.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from .access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from .named_parts import NamedParts

if TYPE_CHECKING:
    from .mbarrier import MBarrier

__all__ = [
    "CONST_WINDOW",
    "FUNCTION_WINDOW",
    "GLOBAL_BASE",
    "LOCAL_LIMIT",
    "LOCAL_WINDOW",
    "PARAM_WINDOW",
    "RED_ZONE",
    "SHARED_WINDOW",
    "Actor",
    "Fault",
    "Memory",
    "ClusterMemory",
    "Scattered",
    "Segment",
    "word_dtype",
]

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

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
#: Bytes of an mbarrier object.
BARRIER_BYTES = 8

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

_INITIALIZED = {
    1: np.uint8(1),
    2: np.uint16(0x0101),
    4: np.uint32(0x01010101),
    8: np.uint64(0x0101010101010101),
}


@cache
def word_dtype(nbytes: int) -> np.dtype[Any]:
    """Return the dtype that moves ``nbytes`` bytes at once, fastest: an unsigned integer, or opaque bytes."""
    return np.dtype(f"u{nbytes}" if nbytes <= 8 else f"V{nbytes}")


class Fault(Exception):
    """A finding that ends the run."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Scattered(Exception):
    """Raised if the lanes of one access lie in different allocations or spaces: access them one by one."""


class Actor(Protocol):
    """An actor that accesses memory: a split of a warp, or an operation of an engine."""

    @property
    def location(self) -> SourceLocation | None:
        """The line of the instruction that made the access."""

    @property
    def cta_key(self) -> tuple[int, int]:
        """The CTA that acts, as (launch number, number in the grid)."""

    def thread_numbers(self) -> Offsets | None:
        """Return the numbers of the accessing threads in their CTA, or None for an engine."""

    def description(self, lane: int | None = None) -> str:
        """Return the name of the thread for a message. ``lane`` is the position among the accessing lanes."""

    def unwritten_rule(self, known: Bytes) -> str:
        """Return the rule that a read of unwritten bytes breaks.

        ``known`` flags the bytes that were written.
        """

    def local(self, address: int | Offsets, size: int, kind: AccessKind) -> tuple[Segment, int | Offsets]:
        """Return the segment of the CTA's local memory and where in it the threads' own ``address`` lies."""


class Segment:
    """``size`` bytes at ``base``. ``written`` is None if all bytes count as initialized."""

    __slots__ = (
        "_words",
        "barriers",
        "base",
        "data",
        "derived",
        "name",
        "parts",
        "read_only",
        "size",
        "space",
        "writes",
        "written",
    )

    def __init__(self, name: str, space: StateSpace, base: int, data: Bytes, *, tracked: bool) -> None:
        self.name, self.space, self.base, self.data = name, space, base, data
        self.size = int(data.size)
        self.read_only = space is PARAM or space is CONST
        self.written: Bytes | None = np.zeros(self.size, np.uint8) if tracked else None
        #: Live mbarrier objects by offset.
        self.barriers: dict[int, MBarrier] = {}
        #: The segment's buffers by name, if they are known.
        self.parts: NamedParts | None = None
        #: Number of accesses that wrote here. Values in :attr:`derived` are valid while this number is
        #: unchanged.
        self.writes = 0
        self.derived: dict[Any, tuple[int, Any]] = {}
        self._words: dict[int, NDArray[Any]] = {}

    def words(self, size: int) -> NDArray[Any]:
        """Return the data as unsigned words of ``size`` bytes (void for 16 and 32) from the first aligned
        address.

        The word at an aligned offset has the index ``offset // size``, wherever the segment starts.
        """
        found = self._words.get(size)
        if found is None:
            found = self._words[size] = self._aligned(self.data, size)
        return found

    def _aligned(self, data: Bytes, size: int) -> NDArray[Any]:
        skip = -self.base % size
        return data[skip : skip + (self.size - skip) // size * size].view(word_dtype(size))

    def place(self, offset: int) -> str:
        """Return the buffer that holds a byte, as a suffix for a message.

        Return "" if buffers are not known.
        """
        return "" if self.parts is None else f": {self.parts.describe(offset)}"

    def near_barriers(self, offset: int | Offsets, size: int) -> bool:
        """True if an access may touch a live mbarrier: it lies between the first and the last of them."""
        first, last = min(self.barriers), max(self.barriers) + BARRIER_BYTES
        if isinstance(offset, int):
            return offset < last and first < offset + size
        return bool((offset < last).any() and (offset > first - size).any())

    def mark(self, offset: int | Offsets, size: int) -> None:
        """Record that ``size`` bytes at each offset were written."""
        if self.written is None:
            return
        if isinstance(offset, int):
            self.written[offset : offset + size] = 1
            return
        word = min(size, 8)
        view = self._aligned(self.written, word)
        first = offset // word
        for part in range(size // word):
            view[first + part] = _INITIALIZED[word]

    def whole(self, first: int, end: int) -> bool:
        """True if every byte from ``first`` to ``end``, multiples of 16, was written."""
        if self.written is None:
            return True
        words = self._aligned(self.written, 8)[first // 8 : end // 8]
        return bool(np.bitwise_and.reduce(words) == _INITIALIZED[8])

    def unwritten(self, offset: int | Offsets, size: int) -> int | None:
        """Return the position of the first lane that reads an unwritten byte (0 for a single range)."""
        if self.written is None:
            return None
        if isinstance(offset, int):
            return None if self.written[offset : offset + size].all() else 0
        for byte in range(size):
            known = self.written[offset + byte]
            if not known.all():
                return int(np.argmin(known))
        return None


class ClusterMemory(dict[int, Segment]):
    """The memory that only one cluster can access: shared memories by rank, parameters and constants.

    The parameters are those of the launch, the constants those of the module. ``ended`` has the ranks of the
    CTAs that have exited.
    """

    def __init__(self, params: Segment | None = None, const: Segment | None = None) -> None:
        super().__init__()
        self.params, self.const = params, const
        self.ended: set[int] = set()


class Memory:
    """Global memory, and the access function for all memory."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self._next = GLOBAL_BASE
        self._report = report
        #: For observers: called with a global segment, and True if it begins, False if it ends.
        self.on_life: Callable[[Segment, bool], None] | None = None
        #: Called with every access, before the bytes change.
        self.observers: list[Callable[[Access], None]] = []
        #: Number of changes so far that a spinning thread could see.
        self.version = 0

    # --- allocation ---------------------------------------------------------------------------

    def map_global(self, name: str, data: Bytes, *, misalignment: int = 0, tracked: bool = False) -> Segment:
        """Place ``data`` in global memory, 256-byte aligned plus ``misalignment``, behind a red zone."""
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
                segment.mark(offset, size)
            elif kind is READ or kind is RMW:
                lane = segment.unwritten(offset, size)
                if lane is not None:
                    self.uninitialized(segment, offset, size, lane, actor)
        if segment.parts is not None and check_written and kind is not PROBE:
            self._check_parts(segment, segment.parts, kind, offset, size, actor)
        if kind is WRITE:
            self._count_write(segment, offset, size, actor)
        elif kind is READ and check_written and segment.barriers and segment.near_barriers(offset, size):
            self._read_barriers(segment, offset, size, actor)
        elif kind is RMW and segment.read_only:
            self._read_only(segment, offset, size, actor)
        if self.observers and announce and kind is not PROBE:
            starts = np.atleast_1d(np.asarray(offset, np.int64))
            self.announce(kind, segment, Footprint(starts, size), actor, proxy, semantics, scope)
        return segment, offset

    def changed(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        """Record that an ``RMW`` changes these bytes, which are among those that it accessed."""
        segment.mark(offset, size)
        self._count_write(segment, offset, size, actor)

    def _count_write(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        if segment.read_only:
            self._read_only(segment, offset, size, actor)
        self.version += 1
        segment.writes += 1
        if segment.barriers and segment.near_barriers(offset, size):
            self._check_live_barriers(segment, offset, size, actor)

    def announce(
        self,
        kind: AccessKind,
        segment: Segment,
        footprint: Footprint,
        actor: Actor,
        proxy: Proxy,
        semantics: MemoryOrder = MemoryOrder.WEAK,
        scope: Scope = Scope.NONE,
    ) -> None:
        """Send one access to the observers. Callers check that :attr:`observers` is not empty first."""
        access = Access(
            kind, segment.space, segment, footprint, actor, actor.thread_numbers(), proxy, semantics, scope
        )
        for observer in self.observers:
            observer(access)

    def _in_one_segment(
        self, space: StateSpace, address: Offsets, size: int, align: int, cluster: ClusterMemory
    ) -> tuple[Segment, Offsets] | None:
        """Return segment and offsets if a quick test finds all lanes in one segment, aligned, else None."""
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
        # The union is at least the largest offset, and exceeds any size if an offset is negative.
        union = int(np.bitwise_or.reduce(offset.view(np.uint64)))
        return None if union + size > segment.size or union % align else (segment, offset)

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
        """Return segment, offsets and state space. Raise the fault that fits the mistake."""
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
            self._out_of_bounds(kind, space, address, size, actor, cluster)
        assert segment is not None
        if align > 1:
            union = address if isinstance(address, int) else int(np.bitwise_or.reduce(address))
            if union % align:
                self._misaligned(kind, space, address, size, align, actor)
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
        """Do :meth:`access` at addresses that may lie in several allocations.

        Returns ``(which, segment, offsets)`` for each allocation. ``which`` indexes the addresses; in the
        usual case of one allocation it is a slice of all of them.
        """
        try:
            return [(_ALL, *self.access(kind, space, address, size, actor, cluster, **how))]
        except Scattered:
            pass
        found: dict[int, tuple[Segment, list[int], list[int]]] = {}
        acting = getattr(actor, "acting", None)
        for position, one in enumerate(address.tolist()):
            if acting is not None:
                actor.acting = acting[position : position + 1]  # type: ignore[attr-defined]
            segment, offset = self.access(kind, space, one, size, actor, cluster, **how)
            _, positions, offsets = found.setdefault(id(segment), (segment, [], []))
            positions.append(position)
            offsets.append(offset)
        if acting is not None:
            actor.acting = acting  # type: ignore[attr-defined]
        return [(np.array(p), segment, np.array(o, np.int64)) for segment, p, o in found.values()]

    def _check_parts(
        self,
        segment: Segment,
        parts: NamedParts,
        kind: AccessKind,
        offset: int | Offsets,
        size: int,
        actor: Actor,
    ) -> None:
        """Check that one access of contiguous bytes lies in one buffer.

        For many lanes, only the first and the last lane are checked. If they lie in different buffers and the
        lanes' bytes leave no gap, the finding is for review.
        """
        first, last = (offset, offset) if isinstance(offset, int) else (int(offset[0]), int(offset[-1]))
        here, there = parts.at(first), parts.at(last)
        for lane, start, part in ((0, first, here), (-1, last, there)):
            if part is not None and start + size <= part.end:
                continue
            where = "lies" if part is None else "runs past the end of its buffer: it begins"
            self._report(
                Finding(
                    RULES["buffer-overrun"],
                    f"{kind.value} of {size} bytes {where} at {parts.describe(start)}",
                    actor.location,
                    actor.description(lane if lane == 0 or isinstance(offset, int) else len(offset) - 1),
                )
            )
            return
        if here is there or here is None or there is None or isinstance(offset, int):
            return
        steps = np.diff(np.sort(offset))
        if (steps <= size).all():
            self._report(
                Finding(
                    RULES["buffer-crossing"],
                    f"{kind.value} by {len(offset)} lanes reaches without a gap from {parts.describe(first)} "
                    f"to {parts.describe(last)}",
                    actor.location,
                    actor.description(),
                )
            )

    def _read_barriers(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        """Report a read of a live mbarrier's bytes: an ordinary read of the opaque object is undefined."""
        for at, barrier in segment.barriers.items():
            if np.any((offset < at + BARRIER_BYTES) & (at < offset + size)):
                self._report(
                    Finding(
                        RULES["mbarrier-read"],
                        f"read of {size} bytes in the live {barrier.describe()}",
                        actor.location,
                        actor.description(),
                        (("initialized", barrier.location),),
                    )
                )

    def _check_live_barriers(self, segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        """Check a write over a live mbarrier: the object is opaque, only mbarrier operations may change its
        bytes.

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
                finding = Finding(
                    RULES["mbarrier-overwritten" if barrier.at_rest else "mbarrier-misuse"],
                    f"write of {size} bytes over the live {barrier.describe()}",
                    actor.location,
                    actor.description(),
                    (("initialized", barrier.location),),
                )
                if not barrier.at_rest:
                    raise Fault(finding)
                self._report(finding)
                del segment.barriers[at]

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
        """Return the state space of a generic address, and its window's base to subtract from it."""
        if address < GLOBAL_BASE:
            for space, window in _WINDOWS:
                if window <= address < window + _WINDOW:
                    return space, window
        return GLOBAL, 0

    # --- findings -----------------------------------------------------------------------------

    def _out_of_bounds(
        self,
        kind: AccessKind,
        space: StateSpace,
        address: int | Offsets,
        size: int,
        actor: Actor,
        cluster: ClusterMemory,
    ) -> None:
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
        where = self._nearest(space, first, cluster)
        raise Fault(
            Finding(
                RULES["out-of-bounds"],
                f"{kind.value} of {size} bytes at {space.value} address {first:#x}: {where}",
                actor.location,
                actor.description(lane),
            )
        )

    def _nearest(self, space: StateSpace, address: int, cluster: ClusterMemory) -> str:
        if space is SHARED:
            rank = address >> 24
            if rank in cluster.ended:
                return f"the CTA of rank {rank} has exited, and its shared memory with it"
            if rank not in cluster and 0 < rank < 256:
                return f"the cluster has no CTA of rank {rank}"
            candidates = list(cluster.values())
        elif space is PARAM:
            candidates = [cluster.params] if cluster.params is not None else []
        elif space is CONST:
            candidates = [cluster.const] if cluster.const is not None else []
        else:
            candidates = self._segments
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

    @staticmethod
    def _read_only(segment: Segment, offset: int | Offsets, size: int, actor: Actor) -> None:
        address = segment.base + int(np.min(offset))
        raise Fault(
            Finding(
                RULES["out-of-bounds"],
                f"write of {size} bytes at {segment.space.value} address {address:#x}: "
                f"{segment.space.value} memory is read-only",
                actor.location,
                actor.description(),
            )
        )

    def _misaligned(
        self, kind: AccessKind, space: StateSpace, address: int | Offsets, size: int, align: int, actor: Actor
    ) -> None:
        lane, first = None, address
        if not isinstance(address, int):
            lane = int(np.argmax(address % align != 0))
            first = int(address[lane])
        raise Fault(
            Finding(
                RULES["misaligned"],
                f"{kind.value} of {size} bytes at {space.value} address {first:#x}, "
                f"which is not a multiple of {align}",
                actor.location,
                actor.description(lane),
            )
        )

    def uninitialized(
        self, segment: Segment, offset: int | Offsets, size: int, lane: int, actor: Actor
    ) -> None:
        """Report a read of ``size`` bytes at ``offset`` (lane number ``lane``) that were not all written."""
        position = offset if isinstance(offset, int) else int(offset[lane])
        known = (
            np.zeros(size, np.uint8)
            if segment.written is None
            else segment.written[position : position + size]
        )
        first = position + int(np.argmin(known))
        self.report_unwritten(segment, first, size, known, actor, None if isinstance(offset, int) else lane)

    def report_unwritten(
        self, segment: Segment, position: int, size: int, known: Bytes, actor: Actor, lane: int | None = None
    ) -> None:
        """Report a read of ``size`` bytes. The byte at offset ``position`` is the first that was never
        written.

        ``known`` flags the written ones among the bytes that count.
        """
        self._report(
            Finding(
                RULES[actor.unwritten_rule(known)],
                f"read of {size} bytes in {segment.name}: byte {segment.base + position:#x} "
                f"(offset {position}) was never written{segment.place(position)}",
                actor.location,
                actor.description(lane),
            )
        )
