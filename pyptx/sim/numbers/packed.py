"""Packed registers taken apart and put together: halves and bytes of 32-bit words as rows of their own.

Element 0 is the least significant.  Floats: how raw bits of bfloats become numbers that numpy compares, and
what ``.ftz`` does to an operand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES

__all__ = ["elements", "flushed", "joined", "numbers"]

Array = NDArray[Any]

_BYTES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_LEAST_NORMAL = {
    np.dtype(np.float16): np.float16(2.0**-14),
    np.dtype(np.float32): np.float32(2.0**-126),
}


def elements(packed: Array, dtype: Any) -> Array:
    """Registers ``(n,)`` as ``(n, k)`` elements of a dtype; a lone number is one register."""
    flat: Array = np.ascontiguousarray(packed)
    taken: Array = flat.view(dtype).reshape(flat.shape[0], -1)
    return taken


def joined(values: Array, nbytes: int = 4) -> Array:
    """``(n, k)`` elements as ``(n,)`` registers of ``nbytes`` raw bytes."""
    registers: Array = np.ascontiguousarray(values).view(_BYTES[nbytes]).reshape(-1)
    return registers


def numbers(raw: Array, kind: str) -> Array:
    """What registers of a type hold, as something numpy compares: ``(n, k)`` of a packed type."""
    name, _, lanes = kind.partition("x")
    if lanes:
        raw = elements(raw, TYPES[name].register_dtype)
    if name == "bf16":
        wide: Array = np.asarray(raw).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    return raw


def flushed(values: Array) -> Array:
    """Subnormal numbers as zero (positive ones: for comparisons alone)."""
    return np.where(np.abs(values) < _LEAST_NORMAL[values.dtype], values.dtype.type(0), values)
