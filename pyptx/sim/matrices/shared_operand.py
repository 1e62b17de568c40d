"""Reads an operand tile in shared memory through its descriptor, as raw codes.

:func:`~pyptx.layout.tile_offsets` gives the byte offset of each element. This module converts the offsets to
index arrays, once for each kind of tile, and reads the tile with one checked access of the async proxy. For
descriptors that :func:`~pyptx.layout.tile_offsets` cannot express, :mod:`pyptx.sim.tcgen05.operands` computes
the offsets.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.tuples import NamedTuple
from ...layout.tcgen05_smem_descriptor import Major, Tcgen05SmemDescriptor, tile_offsets
from ..memory.access import AccessKind, Footprint, Proxy, StateSpace
from ..memory.segments import Actor

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["Extents", "TileOffsets", "read_codes", "read_words"]

#: Number of bytes after which a swizzle's pattern repeats; offsets count from a multiple of it.
_PATTERN = 1024


class Extents(NamedTuple):
    """The part of an operand that an instruction reads: rows ``first`` to ``end`` of a tile ``[rows, k]``."""

    rows: int
    k: int
    element_bytes: int
    major: Major
    first: int
    end: int


class TileOffsets(NamedTuple):
    """Offsets of a tile's elements from the last multiple of the pattern, in bytes and in elements.

    ``low`` is the smallest offset in bytes, ``nbytes`` the number of bytes from it to the last element's end.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]
    low: int
    nbytes: int

    def footprint(self, start: int, word_bytes: int) -> Footprint:
        """Return the bytes of the elements, ``word_bytes`` each; ``start`` is added to the tile's offsets."""
        return Footprint((start + self.offsets).reshape(-1), word_bytes)

    @staticmethod
    def of(offsets: NDArray[np.int64], word_bytes: int) -> TileOffsets:
        low = int(offsets.min())
        return TileOffsets(offsets, offsets // word_bytes, low, int(offsets.max()) - low + word_bytes)


@lru_cache(maxsize=1024)
def _places(descriptor: Tcgen05SmemDescriptor, extents: Extents) -> TileOffsets:
    rows, k, size, major, first, end = extents
    offsets = tile_offsets(descriptor, rows, k, size, major)[first:end]
    return TileOffsets.of(np.ascontiguousarray(offsets.T), size)


@lru_cache(maxsize=4096)
def _located(descriptor: Tcgen05SmemDescriptor, extents: Extents) -> tuple[int, TileOffsets]:
    """Return where an operand tile lies: the address of its swizzle pattern, and the offsets from there."""
    kind = replace(descriptor, address=descriptor.address % _PATTERN)
    return descriptor.address - kind.address, _places(kind, extents)


def read_words(cta: CTA, address: int, places: TileOffsets, word_bytes: int, actor: Actor) -> NDArray[Any]:
    """Read the elements at ``address`` plus ``places`` in the CTA's shared memory by the async proxy."""
    memory = cta.machine.memory
    segment, offset = memory.access(
        AccessKind.READ,
        StateSpace.SHARED,
        cta.shared_base + address + places.low,
        places.nbytes,
        actor,
        cta.cluster_memory,
        Proxy.ASYNC,
        align=1,
        check_written=False,
        announce=False,
    )
    start = int(offset) - places.low
    memory.announce(AccessKind.READ, segment, lambda: places.footprint(start, word_bytes), actor, Proxy.ASYNC)
    if segment.written is not None and not segment.written[offset : offset + places.nbytes].all():
        known = segment.written[start + places.offsets]
        if not known.all():
            position = start + int(places.offsets.reshape(-1)[np.argmin(known)])
            memory.uninitialized(segment, position, word_bytes, 0, actor)
    words: NDArray[Any] = segment.words(word_bytes)
    return words.take(start // word_bytes + places.indices)


def read_codes(cta: CTA, descriptor: Tcgen05SmemDescriptor, extents: Extents, actor: Actor) -> NDArray[Any]:
    """Read the raw bits of an operand's elements, ``[k, row]``.

    Raises:
        Fault: the tile is not inside the CTA's shared memory.
        SpecError, UnsupportedError: the descriptor's layout cannot express the tile.
    """
    # A descriptor has no bits for a CTA's rank: it names the CTA's own shared memory.
    address, places = _located(descriptor, extents)
    return read_words(cta, address, places, extents.element_bytes, actor)
