"""f16 and bf16 arithmetic on arrays of numpy's float16 and ml_dtypes' bfloat16, rounded once, to nearest.

The libraries compute in f32 and round again. The second rounding is harmless, because f32 has more than twice
the precision plus two bits. Two cases need other code: products of bf16 that are too small for f32, and fused
multiply-adds.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .formats import FORMATS, encode
from .rounding import odd_sum

__all__ = ["BF16", "F16", "NAN", "add", "canonical", "dtype_of", "flushed", "fma", "multiply", "narrowed"]

Array = NDArray[Any]

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
#: The canonical NaN of arithmetic in both formats.
NAN = np.uint16(0x7FFF)
#: The bits that rounding an f32 to bf16 cuts off, and half of bf16's unit in the last place.
_CUT, _HALF = np.array(0xFFFF, np.uint32), np.array(0x8000, np.uint32)
#: The smallest normal numbers of f16 and f32.
_TINY, _TINY32 = 2.0**-14, np.float32(2.0**-126)


def dtype_of(kind: str) -> np.dtype[Any]:
    """Return the numpy dtype of f16, bf16, f16x2 or bf16x2."""
    return BF16 if kind[0] == "b" else F16


def canonical(result: Array) -> Array:
    """Make the NaNs of a result canonical, in place; return the result."""
    nan = result != result
    if np.count_nonzero(nan):
        np.putmask(result.view(np.uint16), nan, NAN)
    return result


def flushed(value: Array) -> Array:
    """Replace subnormal f16 by zeros of the same sign."""
    return np.asarray(value * (np.abs(value) >= F16.type(_TINY)))


def narrowed(exact: Array, dtype: np.dtype[Any], *, rnd: str = "rn", ftz: bool = False) -> Array:
    """Round doubles to f16 or bf16; each double must determine the rounding of the exact result."""
    name = "f16" if dtype == F16 else "bf16"
    codes = encode(exact, FORMATS[name], rnd)
    if ftz:
        # As for f32, the hardware tests the value after rounding with an unbounded exponent.
        small = np.abs(exact) < _TINY
        up = 2.0**13
        small &= encode(np.abs(exact) * up, FORMATS[name], rnd) < encode(
            np.array(_TINY * up), FORMATS[name], "rn"
        )
        codes = np.where(small, codes & 0x8000, codes)
    return codes.astype(np.uint16).view(dtype)


def _ties(single: Array) -> Array:
    """Return a mask: true where an f32 lies halfway between two bf16 numbers.

    There, an earlier rounding can change the result.
    """
    return np.asarray(single.view(np.uint32) & _CUT == _HALF)


def add(a: Array, b: Array, ftz: bool = False) -> Array:
    """Return a + b, rounded to nearest; ``ftz`` flushes subnormal operands and results."""
    if ftz:
        exact = flushed(a).astype(np.float64) + flushed(b).astype(np.float64)
        return narrowed(exact, a.dtype, ftz=True)
    return canonical(a + b)


def multiply(a: Array, b: Array, ftz: bool = False) -> Array:
    """Return a * b, rounded to nearest; ``ftz`` flushes subnormal operands and results."""
    if ftz:
        return narrowed(flushed(a).astype(np.float64) * flushed(b).astype(np.float64), a.dtype, ftz=True)
    if a.dtype == F16:
        return canonical(a * b)
    product = a.astype(np.float32) * b.astype(np.float32)
    # Only products below the smallest normal f32 were rounded.
    if np.count_nonzero(_ties(product)) and np.count_nonzero(np.abs(product) < _TINY32):
        return narrowed(a.astype(np.float64) * b.astype(np.float64), BF16)
    return canonical(product.astype(BF16))


def fma(a: Array, b: Array, c: Array, ftz: bool = False) -> Array:
    """Return a * b + c, rounded once to nearest; ``ftz`` flushes subnormal operands and results."""
    if ftz:
        a, b, c = flushed(a), flushed(b), flushed(c)
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    # For f16 the sum is exact, unless it is too large for f16.
    total = product + addend
    if ftz:
        return narrowed(total, F16, ftz=True)
    if a.dtype == F16:
        return canonical(total.astype(F16))
    single = total.astype(np.float32)
    ties = _ties(single)
    if np.count_nonzero(ties):
        # An exact tie rounds correctly. The f64 sum is exact if subtracting either term gives the other.
        inexact = (single != total) | (total - product != addend) | (total - addend != product)
        if np.count_nonzero(ties & inexact):
            return narrowed(odd_sum(product, addend, "rn"), BF16)
    return canonical(single.astype(BF16))
