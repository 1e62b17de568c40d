"""f16 and bf16 arithmetic on arrays of numpy's float16 and of ml_dtypes' bfloat16, rounded once, to nearest.

The libraries compute through f32, which loses nothing here: twice the precision and two bits more make the
second rounding harmless. What is left are products of bfloats too small for f32, and fused multiply-adds.
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
#: The NaN that arithmetic gives in both formats.
NAN = np.uint16(0x7FFF)
#: What rounding an f32 to a bfloat cuts off, and the half of its unit.
_CUT, _HALF = np.array(0xFFFF, np.uint32), np.array(0x8000, np.uint32)
#: The least normal f16, the least normal f32.
_TINY, _TINY32 = 2.0**-14, np.float32(2.0**-126)


def dtype_of(kind: str) -> np.dtype[Any]:
    """The numpy type of f16, bf16, f16x2 or bf16x2."""
    return BF16 if kind[0] == "b" else F16


def canonical(result: Array) -> Array:
    """A new result, its NaNs made canonical."""
    nan = result != result
    if np.count_nonzero(nan):
        np.putmask(result.view(np.uint16), nan, NAN)
    return result


def flushed(value: Array) -> Array:
    """f16 with subnormals as zeros of their sign."""
    return np.asarray(value * (np.abs(value) >= F16.type(_TINY)))


def narrowed(exact: Array, dtype: np.dtype[Any], *, rnd: str = "rn", ftz: bool = False) -> Array:
    """Doubles that determine the results, in f16 or bf16."""
    name = "f16" if dtype == F16 else "bf16"
    codes = encode(exact, FORMATS[name], rnd)
    if ftz:
        # As in f32: judged after rounding as if exponents had no end.
        small = np.abs(exact) < _TINY
        up = 2.0**13
        small &= encode(np.abs(exact) * up, FORMATS[name], rnd) < encode(
            np.array(_TINY * up), FORMATS[name], "rn"
        )
        codes = np.where(small, codes & 0x8000, codes)
    return codes.astype(np.uint16).view(dtype)


def _ties(single: Array) -> Array:
    """Where an f32 lies halfway between two bfloats, where a rounding before would show."""
    return np.asarray(single.view(np.uint32) & _CUT == _HALF)


def add(a: Array, b: Array, ftz: bool = False) -> Array:
    if ftz:
        exact = flushed(a).astype(np.float64) + flushed(b).astype(np.float64)
        return narrowed(exact, a.dtype, ftz=True)
    return canonical(a + b)


def multiply(a: Array, b: Array, ftz: bool = False) -> Array:
    if ftz:
        return narrowed(flushed(a).astype(np.float64) * flushed(b).astype(np.float64), a.dtype, ftz=True)
    if a.dtype == F16:
        return canonical(a * b)
    product = a.astype(np.float32) * b.astype(np.float32)
    # Only a product below the least normal f32 was rounded.
    if np.count_nonzero(_ties(product)) and np.count_nonzero(np.abs(product) < _TINY32):
        return narrowed(a.astype(np.float64) * b.astype(np.float64), BF16)
    return canonical(product.astype(BF16))


def fma(a: Array, b: Array, c: Array, ftz: bool = False) -> Array:
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
        # An exact tie is none; the f64 sum is exact if both terms come back from it.
        inexact = (single != total) | (total - product != addend) | (total - addend != product)
        if np.count_nonzero(ties & inexact):
            return narrowed(odd_sum(product, addend, "rn"), BF16)
    return canonical(single.astype(BF16))
