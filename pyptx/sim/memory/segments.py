"""Segments of memory, and the actors that access them.

Owns :class:`Segment` (its bytes, flags of the written bytes, and its mbarriers) and :class:`ClusterMemory`;
:class:`Actor`, the interface of the splits and engine operations that access memory; and :class:`Fault`, the
exception with which a wrong access ends a run.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.findings import Finding
from ...core.source import SourceLocation
from .access import AccessKind, StateSpace
from .named_parts import NamedParts

if TYPE_CHECKING:
    from .mbarrier import MBarrier

__all__ = ["BARRIER_BYTES", "Actor", "Bytes", "ClusterMemory", "Fault", "Offsets", "Segment", "word_dtype"]

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

#: Bytes of an mbarrier object.
BARRIER_BYTES = 8


@cache
def word_dtype(nbytes: int) -> np.dtype[Any]:
    """Return the numpy dtype that moves ``nbytes`` bytes fastest: an unsigned integer or opaque bytes."""
    return np.dtype(f"u{nbytes}" if nbytes <= 8 else f"V{nbytes}")


#: Most bytes of one word.
_WIDEST = 32
#: For each size of a word, the flags of a word that was written.
_INITIALIZED = {
    nbytes: np.ones(nbytes, np.uint8).view(word_dtype(nbytes)).reshape(())
    for nbytes in (1, 2, 4, 8, 16, _WIDEST)
}


class Fault(Exception):
    """A finding that ends the run."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


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

    def follows_unwritten(self, segment: Segment, position: int, size: int, known: Bytes) -> bool:
        """Return True if the actor follows the unwritten bytes of a read of ``size`` bytes to their use.

        Otherwise the read is an error. The first unwritten byte is at offset ``position``; ``known`` flags
        the bytes that were written. May raise an exception, to read again in a way that follows them.
        """

    def local(self, address: int | Offsets, size: int, kind: AccessKind) -> tuple[Segment, int | Offsets]:
        """Return the segment of the CTA's local memory, and the offset in it of each thread's ``address``."""


class Segment:
    """``size`` bytes at ``base``. ``written`` is None if all bytes count as initialized."""

    __slots__ = (
        "_barriers_end",
        "_barriers_start",
        "_words",
        "_written_words",
        "barriers",
        "base",
        "data",
        "derived",
        "name",
        "origins",
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
        self.read_only = space is StateSpace.PARAM or space is StateSpace.CONST
        self.written: Bytes | None = np.zeros(self.size, np.uint8) if tracked else None
        #: For unwritten bytes that instructions wrote with undefined values: where these values come from.
        self.origins: NDArray[np.int64] | None = None
        #: Live mbarrier objects by offset. :meth:`place_barrier` and :meth:`remove_barrier` change them.
        self.barriers: dict[int, MBarrier] = {}
        #: Where the first of them starts, and where the last one ends.
        self._barriers_start = self._barriers_end = 0
        #: The segment's buffers by name, if they are known.
        self.parts: NamedParts | None = None
        #: Number of accesses that wrote here. Values in :attr:`derived` are valid while this number is
        #: unchanged.
        self.writes = 0
        self.derived: dict[Any, tuple[int, Any]] = {}
        self._words: dict[int, NDArray[Any]] = {}
        self._written_words: dict[int, NDArray[Any]] = {}

    def words(self, size: int) -> NDArray[Any]:
        """Return the data from the first aligned address on as unsigned integers of ``size`` bytes.

        For a ``size`` of 16 and 32 the elements are opaque bytes (void).
        The word at an aligned offset has the index ``offset // size``, wherever the segment starts.
        """
        found = self._words.get(size)
        if found is None:
            found = self._words[size] = self._aligned(self.data, size)
        return found

    def _aligned(self, data: Bytes, size: int) -> NDArray[Any]:
        skip = -self.base % size
        return data[skip : skip + (self.size - skip) // size * size].view(word_dtype(size))

    def _written_as(self, size: int) -> NDArray[Any]:
        """Return the flags of the written bytes, arranged as :meth:`words` arranges the data."""
        found = self._written_words.get(size)
        if found is None:
            assert self.written is not None
            found = self._written_words[size] = self._aligned(self.written, size)
        return found

    def place(self, offset: int) -> str:
        """Return text that names the buffer of a byte, for the end of a message; "" if it is not known."""
        return "" if self.parts is None else f": {self.parts.describe(offset)}"

    def place_barrier(self, offset: int, barrier: MBarrier) -> None:
        """Begin the life of an mbarrier. It replaces one that lives at the same offset."""
        self.barriers[offset] = barrier
        self._bound_barriers()

    def remove_barrier(self, offset: int) -> None:
        """End the life of the mbarrier at ``offset``."""
        del self.barriers[offset]
        self._bound_barriers()

    def _bound_barriers(self) -> None:
        self._barriers_start = min(self.barriers, default=0)
        self._barriers_end = max(self.barriers, default=-BARRIER_BYTES) + BARRIER_BYTES

    def near_barriers(self, offset: int | Offsets, size: int) -> bool:
        """True if an access may touch a live mbarrier: it lies between the first and the last of them."""
        first, end = self._barriers_start, self._barriers_end
        if isinstance(offset, int):
            return offset < end and first < offset + size
        return bool(np.count_nonzero(offset < end) and np.count_nonzero(offset > first - size))

    def mark(self, offset: int | Offsets, size: int, align: int = 8) -> None:
        """Record that ``size`` bytes at each offset were written.

        The addresses of the bytes are multiples of ``align``, or of ``size`` if that is less.
        """
        if self.written is None:
            return
        if isinstance(offset, int):
            self.written[offset : offset + size] = 1
            return
        word = min(size, align, _WIDEST)
        view, first, complete = self._written_as(word), offset // word, _INITIALIZED[word]
        for part in range(size // word):
            view[first + part if part else first] = complete

    def whole(self, first: int, end: int) -> bool:
        """True if every byte from ``first`` to ``end``, multiples of 16, was written."""
        if self.written is None:
            return True
        words = self._written_as(8)[first // 8 : end // 8]
        return bool(np.bitwise_and.reduce(words) == _INITIALIZED[8])

    def unwritten(self, offset: int | Offsets, size: int, align: int = 1) -> int | None:
        """Return the position of the first lane that reads an unwritten byte (0 for a single range).

        The addresses of the bytes are multiples of ``align``.
        """
        if self.written is None:
            return None
        if isinstance(offset, int):
            return None if self.written[offset : offset + size].all() else 0
        word = min(align, 8)
        if not size % word and self._all_written(offset, size, word):
            return None
        for byte in range(size):
            known = self.written[offset + byte]
            if not known.all():
                return int(np.argmin(known))
        return None

    def missing(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which bytes at these offsets were never written, or written with undefined values."""
        if self.written is None:
            return np.zeros(places.shape, np.bool_)
        missing: NDArray[np.bool_] = self.written[places] == 0
        return missing

    def store_undefined(
        self, places: NDArray[np.int64], undefined: NDArray[np.bool_], origins: NDArray[np.int64]
    ) -> None:
        """Record that bytes were written, some of them with undefined values, which count as unwritten.

        ``places`` and ``undefined`` have a row for each lane; ``origins`` has one element for each row, or
        only one.
        """
        if self.written is None:
            return
        if self.origins is None:
            self.origins = np.zeros(self.size, np.int64)
        self.written[places] = ~undefined
        self.origins[places] = np.where(undefined, origins[..., None], 0)

    def _all_written(self, offset: Offsets, size: int, word: int) -> bool:
        """True if ``size`` bytes at each offset were written. All are multiples of ``word``."""
        view, first, complete = self._written_as(word), offset // word, _INITIALIZED[word]
        for part in range(size // word):
            if np.bitwise_and.reduce(view[first + part if part else first]) != complete:
                return False
        return True


class ClusterMemory(dict[int, Segment]):
    """The memory that only one cluster can access: shared memories by rank, parameters and constants.

    The parameters are those of the launch, the constants those of the module. ``ended`` has the ranks of the
    CTAs that have exited.
    """

    def __init__(self, params: Segment | None = None, const: Segment | None = None) -> None:
        super().__init__()
        self.params, self.const = params, const
        self.ended: set[int] = set()
