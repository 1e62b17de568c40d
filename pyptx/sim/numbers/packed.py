"""Splits registers into the elements that they pack (f16x2, bf16x2 ...), and packs elements again.

Element 0 is in the least significant bits. :func:`numbers` and :func:`flushed` prepare floats for
comparisons: they convert bf16 bits to numbers that numpy compares, and replace subnormal operands for
``.ftz``.
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
    """Return the elements of ``n`` packed registers as an array of shape ``(n, k)``.

    A scalar counts as one register.
    """
    flat: Array = np.ascontiguousarray(packed)
    taken: Array = flat.view(dtype).reshape(flat.shape[0], -1)
    return taken


def joined(values: Array, nbytes: int = 4) -> Array:
    """Return registers of ``nbytes`` bytes, each packed from one row of ``values``, ``(n, k)``."""
    registers: Array = np.ascontiguousarray(values).view(_BYTES[nbytes]).reshape(-1)
    return registers


def numbers(raw: Array, kind: str) -> Array:
    """Convert the raw bits of registers to numbers that numpy compares.

    ``kind`` is the PTX type. The result has the shape ``(n, k)`` for a packed type, else the shape of
    ``raw``.
    """
    name, _, lanes = kind.partition("x")
    if lanes:
        raw = elements(raw, TYPES[name].register_dtype)
    if name == "bf16":
        wide: Array = np.asarray(raw).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    return raw


def flushed(values: Array) -> Array:
    """Return ``values`` with subnormal numbers replaced by +0.

    For comparisons only, which ignore the sign of a zero.
    """
    return np.where(np.abs(values) < _LEAST_NORMAL[values.dtype], values.dtype.type(0), values)
