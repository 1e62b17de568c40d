"""Converts elements between their form in global memory and their form in shared memory.

Packed elements are spread or gathered in groups of 16, some floats are rounded, and elements outside the
tensor are filled. Source: PTX ISA, `#tensor-dimension-size-format`_.

.. _#tensor-dimension-size-format:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-dimension-size-format
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...layout.tensor_map_rules import MapElement

__all__ = ["fill", "kept_in_shared", "loaded", "to_global", "to_shared"]

Bytes = NDArray[np.uint8]

#: The special NaN of ``#tensor-tiled-mode-out-of-boundary-access``: these 16 bits, repeated to the width of
#: the element (measured on an H200 for every float type).
_OOB_NAN = np.uint16(0x7FF7)
_TF32_NAN = np.uint32(0x7FFFE000)
#: Packed type -> bytes that 16 elements take in global memory. In shared memory they take 16 bytes.
_GROUPS = {"b4x16_p64": 8, "b6x16_p32": 12}


def fill(kind: MapElement, mode: str, nbytes: int) -> Bytes:
    """Return ``nbytes`` of the fill value that elements outside a tensor have, as in global memory."""
    outside = np.zeros(nbytes, np.uint8)
    if mode == "nan":
        outside.view(np.uint16)[...] = _OOB_NAN
    return outside


def loaded(kind: MapElement, data: Bytes) -> Bytes:
    """Convert elements inside the tensor as a load does. The bytes may have any shape.

    f32 becomes the nearest tf32, ties to even, and a NaN the largest NaN (measured on an H200; no type loses
    subnormal numbers).
    """
    if kind.type.name != "tf32":
        return data
    words = np.ascontiguousarray(data).view(np.uint32)
    rounded = (words + (np.uint32(0xFFF) + (words >> 13 & 1))) & np.uint32(0xFFFFE000)
    is_nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, _TF32_NAN, rounded).view(np.uint8)


def to_shared(kind: MapElement, data: Bytes) -> Bytes:
    """Convert elements of global memory to their form in shared memory. Padding is zero."""
    group = _GROUPS.get(kind.name)
    if group is None:
        return data
    padded = np.zeros((data.size // group, 16), np.uint8)
    padded[:, :group] = data.reshape(-1, group)
    return padded.reshape(-1)


def to_global(kind: MapElement, data: Bytes) -> Bytes:
    """Convert elements of shared memory to the form in which a store writes them to global memory.

    For ``b6x16_p32`` (which stores call ``b6p2x16``) each byte gives its lower six bits.
    """
    if kind.bits != 6:
        return data
    fours = data.reshape(-1, 4).astype(np.uint32) & np.uint32(63)
    words = fours[:, 0] | fours[:, 1] << 6 | fours[:, 2] << 12 | fours[:, 3] << 18
    return words.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].reshape(-1)


def kept_in_shared(kind: MapElement, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return flags of the bytes of shared memory that a store needs, from flags of the bytes that it writes.

    See :func:`to_global`.
    """
    if kind.bits != 6:
        return kept
    return np.repeat(kept.reshape(-1, 3).any(axis=1), 4)
