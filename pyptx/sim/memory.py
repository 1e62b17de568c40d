"""Memory of the machine: one 64-bit address space of segments, and the one seam for every access.

Owns :class:`Segment` (bytes, which of them were written, red zones around), :class:`Memory` with
:meth:`Memory.access`, through which *every* read and write of global, shared, parameter and local memory
goes, whoever the actor is.  Bounds, alignment and initialisation are checked there; observers (the
sanitizer, a timeline) hook in there.

The address model is the hardware's: a shared address carries the CTA's rank in its cluster in bits 24
and up; its generic address is a 4-GiB-aligned base plus that value.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.findings import RULES, Finding
from ..core.source import SourceLocation

if TYPE_CHECKING:
    from .mbarrier import MBarrier

__all__ = [
    "GLOBAL_BASE",
    "PARAM_WINDOW",
    "SHARED_WINDOW",
    "Actor",
    "Fault",
    "Memory",
    "Observer",
    "Scattered",
    "Segment",
]

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

#: Generic base of the shared window: 4-GiB aligned.
SHARED_WINDOW = 0x7E_0000_0000
#: Generic base of the parameter window.
PARAM_WINDOW = 0x7D_0000_0000
#: Where the first global allocation lies.
GLOBAL_BASE = 0x7F_0000_0000
#: Unmapped bytes between global allocations.
_RED_ZONE = 1 << 20
_WINDOW = 1 << 32

_INITIALISED = {
    1: np.uint8(1),
    2: np.uint16(0x0101),
    4: np.uint32(0x01010101),
    8: np.uint64(0x0101010101010101),
}
_UNSIGNED: dict[int, np.dtype[Any]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


class Fault(Exception):
    """A finding that ends the run."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Scattered(Exception):
    """The lanes of one access lie in different allocations or spaces: access them one by one."""


class Actor(Protocol):
    """Whoever accesses memory: a split of a warp, or an operation of an engine."""

    @property
    def location(self) -> SourceLocation | None:
        """The line of the instruction that made the access."""

    def who(self, lane: int | None = None) -> str:
        """The thread, in words; ``lane`` is the position among the accessing lanes."""


#: Called with (kind, space, segment, offset, size, actor, proxy, semantics, scope) for every access.
Observer = Callable[..., None]


class Segment:
    """``size`` bytes at ``base``. ``written`` is None where everything counts as initialised."""

    __slots__ = ("barriers", "base", "data", "name", "size", "space", "written")

    def __init__(self, name: str, space: str, base: int, data: Bytes, *, tracked: bool) -> None:
        self.name, self.space, self.base, self.data = name, space, base, data
        self.size = int(data.size)
        self.written: Bytes | None = np.zeros(self.size, np.uint8) if tracked else None
        #: Live mbarrier objects by offset.
        self.barriers: dict[int, MBarrier] = {}

    def words(self, size: int) -> NDArray[Any]:
        """The data as unsigned words of ``size`` bytes (1, 2, 4 or 8), from the first aligned address on.

        The word at an aligned offset has the index ``offset // size``, wherever the segment starts.
        """
        return self._aligned(self.data, size)

    def _aligned(self, data: Bytes, size: int) -> NDArray[Any]:
        skip = -self.base % size
        return data[skip : skip + (self.size - skip) // size * size].view(_UNSIGNED[size])

    def mark(self, offset: int | Offsets, size: int) -> None:
        """Note that ``size`` bytes at each offset were written."""
        if self.written is None:
            return
        if isinstance(offset, int):
            self.written[offset : offset + size] = 1
            return
        word = min(size, 8)
        view = self._aligned(self.written, word)
        first = offset // word
        for part in range(size // word):
            view[first + part] = _INITIALISED[word]

    def unwritten(self, offset: int | Offsets, size: int) -> int | None:
        """Position of the first accessing lane that reads an unwritten byte (0 for a single range)."""
        if self.written is None:
            return None
        if isinstance(offset, int):
            return None if self.written[offset : offset + size].all() else 0
        for byte in range(size):
            known = self.written[offset + byte]
            if not known.all():
                return int(np.argmin(known))
        return None


class Memory:
    """Every segment of a launch."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self._next = GLOBAL_BASE
        self._report = report
        self.observers: list[Observer] = []
        self.params: Segment | None = None
        #: Counts changes that a spinning thread could see.
        self.version = 0

    # --- allocation ---------------------------------------------------------------------------

    def map_global(self, name: str, data: Bytes, *, misalignment: int = 0, tracked: bool = False) -> Segment:
        """Place ``data`` in global memory, 256-byte aligned plus ``misalignment``, behind a red zone."""
        base = self._next + misalignment
        segment = Segment(name, "global", base, data, tracked=tracked)
        self._next = (base + segment.size + _RED_ZONE + 255) // 256 * 256
        self._bases.append(base)
        self._segments.append(segment)
        return segment

    # --- the seam -----------------------------------------------------------------------------

    def access(
        self,
        kind: str,
        space: str,
        address: int | Offsets,
        size: int,
        actor: Actor,
        shared: dict[int, Segment],
        proxy: str = "generic",
        semantics: str = "weak",
        scope: str = "",
        align: int | None = None,
        check_written: bool = True,
    ) -> tuple[Segment, Any]:
        """Resolve, check and announce one access of ``size`` bytes at each address.

        Args:
            kind: ``"read"``, ``"write"`` or ``"barrier"``.
            space: ``shared``, ``global``, ``param``, ``local`` or ``generic``.
            address: one address, or one per accessing lane.
            shared: the shared memories that the actor's cluster can reach, by rank.
            align: required alignment, ``size`` if None.
            check_written: False where the caller itself checks, or marks, a sparser set of bytes.

        Returns the segment and the byte offset(s) in it. Raises :class:`Fault` for an access outside every
        allocation or misaligned; reports a read of bytes that nothing wrote.
        """
        if isinstance(address, int):
            low = high = address
        else:
            low, high = int(address.min()), int(address.max())
        if space == "generic":
            space, window = self._window(low)
            if low != high and self._window(high)[0] != space:
                raise Scattered
            address, low, high = address - window, low - window, high - window
        segment = self._find(space, low, shared)
        if segment is None or high + size > segment.base + segment.size:
            self._out_of_bounds(kind, space, address, size, actor, shared)
        assert segment is not None
        offset = address - segment.base
        align = size if align is None else align
        if align > 1:
            wrong = (
                (low | high) % align
                if isinstance(address, int)
                else int(np.bitwise_or.reduce(address)) % align
            )
            if wrong:
                self._misaligned(kind, space, address, size, align, actor)
        if segment.written is not None and check_written:
            if kind == "write":
                segment.mark(offset, size)
            elif kind == "read":
                lane = segment.unwritten(offset, size)
                if lane is not None:
                    self.uninitialised(segment, offset, size, lane, actor)
        if kind == "write":
            self.version += 1
            if segment.barriers:
                self._spare_barriers(segment, offset, low - segment.base, high - segment.base, size, actor)
        for observer in self.observers:
            observer(kind, space, segment, offset, size, actor, proxy, semantics, scope)
        return segment, offset

    @staticmethod
    def _spare_barriers(
        segment: Segment, offset: int | Offsets, low: int, high: int, size: int, actor: Actor
    ) -> None:
        """A live mbarrier is opaque: only mbarrier operations may change its bytes."""
        for at, barrier in segment.barriers.items():
            if low < at + 8 and at < high + size and np.any((offset < at + 8) & (at < offset + size)):
                raise Fault(
                    Finding(
                        RULES["mbarrier-misuse"],
                        f"write of {size} bytes over the live {barrier.describe()}",
                        actor.location,
                        actor.who(),
                        (("initialised", barrier.location),),
                    )
                )

    def _find(self, space: str, address: int, shared: dict[int, Segment]) -> Segment | None:
        if space.startswith("shared"):
            segment = shared.get(address >> 24)
        elif space == "param":
            segment = self.params
        else:
            position = bisect.bisect_right(self._bases, address) - 1
            segment = self._segments[position] if position >= 0 else None
        if segment is None or not segment.base <= address < segment.base + segment.size:
            return None
        return segment

    @staticmethod
    def _window(address: int) -> tuple[str, int]:
        """State space of a generic address, and what to subtract to get the address in it."""
        for space, window in (("shared", SHARED_WINDOW), ("param", PARAM_WINDOW)):
            if window <= address < window + _WINDOW:
                return space, window
        return "global", 0

    # --- findings -----------------------------------------------------------------------------

    def _out_of_bounds(
        self,
        kind: str,
        space: str,
        address: int | Offsets,
        size: int,
        actor: Actor,
        shared: dict[int, Segment],
    ) -> None:
        lane: int | None = None
        first = address if isinstance(address, int) else 0
        if not isinstance(address, int):
            for position, value in enumerate(address.tolist()):
                segment = self._find(space, value, shared)
                if segment is None or value + size > segment.base + segment.size:
                    lane, first = position, value
                    break
            else:
                raise Scattered
        where = self._nearest(space, first, shared)
        raise Fault(
            Finding(
                RULES["out-of-bounds"],
                f"{kind} of {size} bytes at {space} address {first:#x}: {where}",
                actor.location,
                actor.who(lane),
            )
        )

    def _nearest(self, space: str, address: int, shared: dict[int, Segment]) -> str:
        if space.startswith("shared"):
            candidates = list(shared.values())
        elif space == "param":
            candidates = [self.params] if self.params is not None else []
        else:
            candidates = self._segments
        if not candidates:
            return f"there is no {space} memory"

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

    def _misaligned(
        self, kind: str, space: str, address: int | Offsets, size: int, align: int, actor: Actor
    ) -> None:
        lane, first = None, address
        if not isinstance(address, int):
            lane = int(np.argmax(address % align != 0))
            first = int(address[lane])
        raise Fault(
            Finding(
                RULES["misaligned"],
                f"{kind} of {size} bytes at {space} address {first:#x}, which is not a multiple of {align}",
                actor.location,
                actor.who(lane),
            )
        )

    def uninitialised(
        self, segment: Segment, offset: int | Offsets, size: int, lane: int, actor: Actor
    ) -> None:
        """Report a read of ``size`` bytes at ``offset`` (of lane number ``lane``) that nothing wrote."""
        position = offset if isinstance(offset, int) else int(offset[lane])
        if segment.written is not None:
            position += int(np.argmin(segment.written[position : position + size]))
        self._report(
            Finding(
                RULES["uninitialised-read"],
                f"read of {size} bytes in {segment.name}: byte {segment.base + position:#x} "
                f"(offset {position}) was never written",
                actor.location,
                actor.who(None if isinstance(offset, int) else lane),
            )
        )
