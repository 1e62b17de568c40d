"""An operand tile in shared memory, read through its descriptor as raw codes.

Which byte holds which element is :func:`~pyptx.layout.tile_offsets`; here that becomes index arrays, made
once for a kind of tile, and one access of the async proxy with its checks.  What a descriptor describes in
another way, :mod:`.tensor_core` places itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...layout.tcgen05_smem_descriptor import Major, Tcgen05SmemDescriptor, tile_offsets
from ..memory.access import AccessKind, Footprint
from ..memory.address_space import Actor

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["Extents", "TileOffsets", "read_codes", "read_words"]

#: A pattern of swizzles repeats after so many bytes; offsets count from a multiple of it.
_PATTERN = 1024


class Extents(NamedTuple):
    """What an instruction takes of an operand: rows ``first`` to ``end`` of a tile ``[rows, k]``."""

    rows: int
    k: int
    element_bytes: int
    major: Major
    first: int
    end: int


class TileOffsets(NamedTuple):
    """Where words lie: bytes from the lower multiple of the pattern on, and the same counted in words.

    ``low`` is the smallest of the offsets, ``nbytes`` the bytes from there to the last word's end.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]
    low: int
    nbytes: int

    @staticmethod
    def of(offsets: NDArray[np.int64], word_bytes: int) -> TileOffsets:
        low = int(offsets.min())
        return TileOffsets(offsets, offsets // word_bytes, low, int(offsets.max()) - low + word_bytes)


@lru_cache(maxsize=1024)
def _places(descriptor: Tcgen05SmemDescriptor, extents: Extents) -> TileOffsets:
    rows, k, size, major, first, end = extents
    offsets = tile_offsets(descriptor, rows, k, size, major)[first:end]
    return TileOffsets.of(np.ascontiguousarray(offsets.T), size)


def read_words(cta: CTA, address: int, places: TileOffsets, word_bytes: int, actor: Actor) -> NDArray[Any]:
    """The words at ``places`` behind ``address`` in the CTA's own shared memory, through the async proxy."""
    memory = cta.machine.memory
    segment, offset = memory.access(
        AccessKind.READ,
        "shared",
        cta.shared_base + address + places.low,
        places.nbytes,
        actor,
        cta.cluster_memory,
        "async",
        align=1,
        check_written=False,
        announce=False,
    )
    start = int(offset) - places.low
    if memory.observers:
        pieces = Footprint((start + places.offsets).reshape(-1), word_bytes)
        memory.announce(AccessKind.READ, segment, pieces, actor, "async")
    if segment.written is not None and not segment.written[offset : offset + places.nbytes].all():
        known = segment.written[start + places.offsets]
        if not known.all():
            position = start + int(places.offsets.reshape(-1)[np.argmin(known)])
            memory.uninitialized(segment, position, word_bytes, 0, actor)
    words: NDArray[Any] = segment.words(word_bytes)
    return words.take(start // word_bytes + places.indices)


def read_codes(cta: CTA, descriptor: Tcgen05SmemDescriptor, extents: Extents, actor: Actor) -> NDArray[Any]:
    """The codes of an operand, ``[k, row]``.

    Raises:
        Fault: outside the CTA's shared memory.
        SpecError, UnsupportedError: a tile that the descriptor's layout cannot express.
    """
    kind = replace(descriptor, address=descriptor.address % _PATTERN)
    # A descriptor has no room for the CTA's rank: it means the CTA's own shared memory.
    address = descriptor.address - kind.address
    return read_words(cta, address, _places(kind, extents), extents.element_bytes, actor)
