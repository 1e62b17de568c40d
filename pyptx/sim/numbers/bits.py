"""Integer arithmetic that numpy has no ufunc for: products twice as wide, counts and orders of bits, fields.

Operands are arrays or numpy scalars of one integer dtype.  Shifts rely on numpy's: an amount of the width or
more gives zero, or the sign of a signed value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "WIDE",
    "bit_length",
    "carryless_product",
    "clamped",
    "count_ones",
    "high_half",
    "ones",
    "ones_by_table",
    "reversed_bits",
    "spare",
    "truncating",
    "width_of",
]

Array = NDArray[Any]

#: The dtype of a product of two values of a dtype.
WIDE = {np.dtype(f"{k}{n}"): np.dtype(f"{k}{2 * n}") for k in "ui" for n in (2, 4)}

# Arrays without dimensions: numpy takes several times as long for its scalars.
_LOW = np.array(0xFFFFFFFF, np.uint64)
_HALF = np.array(32, np.uint64)
_ONES = np.array([value.bit_count() for value in range(256)], np.uint8)
_REVERSED = np.array([int(f"{value:08b}"[::-1], 2) for value in range(256)], np.uint8)


def width_of(values: Array) -> int:
    return values.dtype.itemsize * 8


def clamped(values: Array, low: int, high: int) -> Any:
    """As np.clip, which takes ten times as long for a warp."""
    return np.minimum(np.maximum(values, low), high)


def high_half(a: Array, b: Array) -> Any:
    """The high half of a product."""
    dtype = np.result_type(a, b)
    if dtype in WIDE:
        wide = WIDE[dtype]
        return (a.astype(wide) * b.astype(wide) >> dtype.itemsize * 8).astype(dtype)
    if dtype.kind == "u":
        return _high64(a, b)
    # As unsigned, a negative factor counts 2**64 too much: take the other one off for it.
    high = _high64(a.astype(np.uint64), b.astype(np.uint64)).astype(np.int64)
    return high - (a >> 63 & b) - (b >> 63 & a)


def _high64(a: Array, b: Array) -> Any:
    """Of unsigned 64-bit factors, from products of their 32-bit halves, none of which overflows."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


def carryless_product(a: Array, b: Array) -> tuple[Any, Any]:
    """Low and high 64 bits of a product of polynomials over GF(2)."""
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))
    place = np.arange(64, dtype=np.uint64)[:, None]
    one, zero = np.uint64(1), np.uint64(0)
    present = (b >> place & one).astype(bool)
    low = np.bitwise_xor.reduce(np.where(present, a << place, zero), axis=0)
    return low, np.bitwise_xor.reduce(np.where(present, a >> (np.uint64(64) - place), zero), axis=0)


def truncating(a: Array, b: Array) -> tuple[Any, Any]:
    """Quotient toward zero and remainder; a zero divisor gives all ones and the dividend."""
    quotient = a // b
    remainder = a - quotient * b
    if a.dtype.kind == "i":
        # numpy rounds down: where the remainder has the divisor's sign and not the dividend's, one less.
        down = (remainder != 0) & ((remainder ^ a) < 0)
        quotient = quotient + down.astype(a.dtype)
        remainder = remainder - np.where(down, b, a.dtype.type(0))
    zero = b == 0
    if zero.any():
        return np.where(zero, ~a.dtype.type(0), quotient), np.where(zero, a, remainder)
    return quotient, remainder


def _bytes(values: Array) -> Array:
    flat = np.ascontiguousarray(values)
    return flat.view(np.uint8).reshape(flat.shape[0], -1)


def ones_by_table(values: Array) -> Any:
    return _ONES[_bytes(values)].sum(axis=1, dtype=np.uint32)


#: The ufunc is numpy 2's.
count_ones: Callable[[Array], Any] = getattr(np, "bitwise_count", ones_by_table)


def reversed_bits(values: Array) -> Any:
    return np.ascontiguousarray(_REVERSED[_bytes(values)[:, ::-1]]).view(values.dtype).reshape(-1)


def bit_length(values: Array) -> Any:
    """How many bits unsigned values have, as int32: the exponent of a float that holds them exactly."""
    if values.dtype.itemsize <= 4:
        return np.frexp(values.astype(np.float64))[1]
    high = values >> _HALF
    length = np.frexp(high.astype(np.float64))[1] + np.int32(32)
    return np.where(high == 0, np.frexp((values & _LOW).astype(np.float64))[1], length)


def ones(count: Array, dtype: Any) -> Any:
    """So many ones from bit 0."""
    one = np.dtype(dtype).type(1)
    return np.left_shift(one, count.astype(dtype)) - one


def spare(count: Array, dtype: Any) -> Any:
    """How far to shift a value to the left and back to the right to keep its low ``count`` bits, extended."""
    width = np.dtype(dtype).itemsize * 8
    return (width - np.minimum(count, np.uint32(width))).astype(dtype)
