"""Finds stores whose lanes write the same bytes.

Which lane's value such a store leaves is undefined (PTX ISA `#memory-consistency-model`), unless the lanes
store the same value. The simulator keeps the value of the last lane.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from .access import Access, AccessKind, Proxy

__all__ = ["Collision", "colliding"]

#: Threads of a warp.
_LANES = 32
#: Bits of an offset in a segment, at most.
_FAR = 48


@dataclass(frozen=True, slots=True)
class Collision:
    """Lanes of one store that write the same bytes.

    Attributes:
        offset: the first byte in the segment that two lanes write.
        threads: numbers, in their CTA, of the threads of one warp that write this byte.
        same: True if all lanes of the store that write the same byte write the same value there, False if two
            of them do not, None if the values are not known.
    """

    offset: int
    threads: tuple[int, ...]
    same: bool | None


def colliding(access: Access, values: NDArray[np.uint8] | None = None) -> Collision | None:
    """Return a collision of an access, or None if no two lanes of one warp write the same byte.

    Only writes of threads through the generic proxy can collide. ``values`` has the bytes that each thread
    writes, one row for each thread of the access; without them, ``same`` of the collision is None.
    """
    starts, size, threads = access.footprint.starts, access.footprint.size, access.threads
    if threads is None or access.kind is not AccessKind.WRITE or access.proxy is not Proxy.GENERIC:
        return None
    if len(starts) < 2 or len(starts) != len(threads):
        return None
    # Most stores ascend. Sorting is the next cheapest test; the warps of a team are far apart in the keys.
    if not np.count_nonzero(starts[1:] - starts[:-1] < size):
        return None
    keys = starts + (threads // _LANES << _FAR)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    close = keys[1:] - keys[:-1] < size
    if not np.count_nonzero(close):
        return None
    places, warps = starts[order], threads[order] // _LANES
    first = int(np.argmax(close))
    offset = int(places[first + 1])
    there = (warps == warps[first]) & (places <= offset) & (places > offset - size)
    return Collision(
        offset,
        tuple(sorted(threads[order][there].tolist())),
        None if values is None else _same(places, warps, values[order]),
    )


def _same(places: NDArray[np.int64], warps: NDArray[np.int64], values: NDArray[np.uint8]) -> bool:
    """True if equal bytes of one warp get equal values. ``places`` ascend in each warp."""
    at = (places[:, None] + np.arange(values.shape[1])).ravel()
    keys = np.stack([np.repeat(warps, values.shape[1]), at, values.ravel().astype(np.int64)])
    different = np.unique(keys, axis=1)
    return len(np.unique(different[:2], axis=1)[0]) == len(different[0])
