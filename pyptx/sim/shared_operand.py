"""An operand tile in shared memory, read through its descriptor as raw codes.

Which byte holds which element is :func:`~pyptx.layout.smem_descriptor.tile_offsets`; here that becomes index
arrays, made once for a kind of tile, and one access of the async proxy with its checks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..layout.smem_descriptor import Major, SmemDescriptor, tile_offsets
from .memory import Actor

if TYPE_CHECKING:
    from .cta import CTA

__all__ = ["Extents", "read_codes"]

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


class _Places(NamedTuple):
    #: Bytes from the lower multiple of the pattern on, and the same counted in elements: ``[k, row]``.
    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]
    low: int
    nbytes: int


@lru_cache(maxsize=1024)
def _places(descriptor: SmemDescriptor, extents: Extents) -> _Places:
    rows, k, size, major, first, end = extents
    offsets = np.ascontiguousarray(tile_offsets(descriptor, rows, k, size, major)[first:end].T)
    low = int(offsets.min())
    return _Places(offsets, offsets // size, low, int(offsets.max()) - low + size)


def read_codes(cta: CTA, descriptor: SmemDescriptor, extents: Extents, actor: Actor) -> NDArray[Any]:
    """The codes of an operand, ``[k, row]``.

    Raises:
        Fault: outside the CTA's shared memory.
        SpecError, UnsupportedError: a tile that the descriptor's layout cannot express.
    """
    kind = replace(descriptor, address=descriptor.address % _PATTERN)
    offsets, indices, low, nbytes = _places(kind, extents)
    # A descriptor has no room for the CTA's rank: it means the CTA's own shared memory.
    base = descriptor.address - kind.address + (cta.rank << 24)
    memory = cta.machine.memory
    segment, offset = memory.access(
        "read", "shared", base + low, nbytes, actor, cta.reach, "async", align=1, check_written=False
    )
    start = offset - low
    if segment.written is not None and not segment.written[offset : offset + nbytes].all():
        known = segment.written[start + offsets]
        if not known.all():
            position = start + int(offsets.reshape(-1)[np.argmin(known)])
            memory.uninitialised(segment, position, extents.element_bytes, 0, actor)
    words: NDArray[Any] = segment.words(extents.element_bytes)
    return words.take(start // extents.element_bytes + indices)
