"""Inputs of the launches, by formulas over words of a generator of our own: nothing is stored, nothing ever changes.

Every stream has a name, so that no launch changes another's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.words import uniform

I32, U32, I64, U64, F32, F64 = np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64


def _unsigned(dtype: Any) -> np.dtype[Any]:
    """Unsigned integers of the same width."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def ints(name: str, count: int, low: int = 0, high: int = 100, dtype: Any = I32) -> NDArray[Any]:
    """Integers from ``low`` up to, not including, ``high``."""
    return ((uniform(name, count, 32) % np.uint64(high - low)).astype(I64) + low).astype(dtype)


def bits(name: str, count: int, dtype: Any = U32) -> NDArray[Any]:
    """Random words, as whatever type they are taken for."""
    kind = _unsigned(dtype)
    return uniform(name, count, 8 * kind.itemsize).astype(kind).view(dtype)


def mixed_bits(name: str, count: int, dtype: Any = U32) -> NDArray[Any]:
    """Words of every length: each is random up to a random bit."""
    kind = _unsigned(dtype)
    shift = (uniform(name + "#", count) % np.uint64(8 * kind.itemsize)).astype(kind)
    return (bits(name, count, kind) >> shift).view(dtype)


def floats(name: str, count: int, low: float = -1.0, high: float = 1.0, dtype: Any = F32) -> NDArray[Any]:
    """Uniform from ``low`` to ``high``; every step is exact or rounded once, so that they are the same everywhere."""
    return (uniform(name, count, 24) * 2.0**-24 * (high - low) + low).astype(dtype)


def specials(dtype: Any, count: int, name: str) -> NDArray[Any]:
    """Zeros, denormals, infinities, NaNs and neighbours of powers of two, then random bits."""
    kind = np.dtype(dtype)
    info = np.finfo(kind)
    first = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max]
    first += [info.tiny, -info.tiny, info.smallest_subnormal]
    for exponent in (-30, -24, -14, -7, -1, 0, 3, 8, 15, 16, 30, 31, 32, 52, 62, 63, 64):
        for sign in (1.0, -1.0):
            at = np.ldexp(kind.type(sign), exponent)
            first += [at, np.nextafter(at, kind.type(0)), np.nextafter(at, kind.type(np.inf))]
            first.append(at * kind.type(1.5))
    drawn = bits(name, count, dtype)
    drawn[: min(count, len(first))] = np.array(first, dtype)[:count]
    return drawn


def quarters(name: str, count: int) -> NDArray[Any]:
    """Multiples of a quarter up to 2: products and their sums are exact in f32, in every order."""
    return (ints(name, count, -8, 9) * 0.25).astype(np.float16)


def divisors(name: str, count: int, dtype: Any) -> NDArray[Any]:
    """Words of every length, none of them zero, nor -1, by which the least number cannot be divided."""
    return (mixed_bits(name, count, dtype) & ~np.array(1 << 4, dtype)) | np.array(2, dtype)
