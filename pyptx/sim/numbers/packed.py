"""Unpack registers to arrays of elements, and pack elements to registers.

Element 0 is the least significant. For comparisons of floats: convert the bits of bf16 to numbers that numpy
compares, and flush operands for ``.ftz``.
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
    """Split n packed registers into their elements: return an array of shape ``(n, k)``.

    A scalar is one register.
    """
    flat: Array = np.ascontiguousarray(packed)
    taken: Array = flat.view(dtype).reshape(flat.shape[0], -1)
    return taken


def joined(values: Array, nbytes: int = 4) -> Array:
    """Pack elements of shape ``(n, k)`` into n registers of ``nbytes`` bytes, one for each row."""
    registers: Array = np.ascontiguousarray(values).view(_BYTES[nbytes]).reshape(-1)
    return registers


def numbers(raw: Array, kind: str) -> Array:
    """Return registers of a type as numbers that numpy compares: ``(n, k)`` for a packed type."""
    name, _, lanes = kind.partition("x")
    if lanes:
        raw = elements(raw, TYPES[name].register_dtype)
    if name == "bf16":
        wide: Array = np.asarray(raw).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    return raw


def flushed(values: Array) -> Array:
    """Replace subnormal numbers by +0; only for comparisons, which ignore the sign of a zero."""
    return np.where(np.abs(values) < _LEAST_NORMAL[values.dtype], values.dtype.type(0), values)
