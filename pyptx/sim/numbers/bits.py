"""Integer arithmetic that numpy lacks: products of twice the width, bit counts, bit reversal, bit fields.

Operands are arrays or numpy scalars of one integer dtype. The functions rely on numpy's shifts: an amount of
the width or more gives zero, or copies of the sign for a signed value.
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

#: Dtype of two factors -> dtype of their full product.
WIDE = {np.dtype(f"{k}{n}"): np.dtype(f"{k}{2 * n}") for k in "ui" for n in (2, 4)}

# Arrays of no dimensions: operations with numpy scalars take several times as long.
_LOW = np.array(0xFFFFFFFF, np.uint64)
_HALF = np.array(32, np.uint64)
_ONES = np.array([value.bit_count() for value in range(256)], np.uint8)
_REVERSED = np.array([int(f"{value:08b}"[::-1], 2) for value in range(256)], np.uint8)


def width_of(values: Array) -> int:
    """Return the number of bits of a value."""
    return values.dtype.itemsize * 8


def clamped(values: Array, low: int, high: int) -> Any:
    """Clamp values to [low, high]; np.clip takes ten times as long for a warp."""
    return np.minimum(np.maximum(values, low), high)


def high_half(a: Array, b: Array) -> Any:
    """Return the high half of the full product."""
    dtype = np.result_type(a, b)
    if dtype in WIDE:
        wide = WIDE[dtype]
        return (a.astype(wide) * b.astype(wide) >> dtype.itemsize * 8).astype(dtype)
    if dtype.kind == "u":
        return _high64(a, b)
    # As unsigned, a negative factor is 2**64 too large: subtract the other factor from the high half.
    high = _high64(a.astype(np.uint64), b.astype(np.uint64)).astype(np.int64)
    return high - (a >> 63 & b) - (b >> 63 & a)


def _high64(a: Array, b: Array) -> Any:
    """Return the high half of the product of unsigned 64-bit factors, computed from their 32-bit halves."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


def carryless_product(a: Array, b: Array) -> tuple[Any, Any]:
    """Return the low and high 64 bits of a product of polynomials over GF(2)."""
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))
    place = np.arange(64, dtype=np.uint64)[:, None]
    one, zero = np.uint64(1), np.uint64(0)
    present = (b >> place & one).astype(bool)
    low = np.bitwise_xor.reduce(np.where(present, a << place, zero), axis=0)
    return low, np.bitwise_xor.reduce(np.where(present, a >> (np.uint64(64) - place), zero), axis=0)


def truncating(a: Array, b: Array) -> tuple[Any, Any]:
    """Return the quotient rounded toward zero, and the remainder; a zero divisor gives all ones and ``a``."""
    quotient = a // b
    remainder = a - quotient * b
    if a.dtype.kind == "i":
        # numpy rounds down: the quotient is one too low if the remainder's sign differs from the dividend's.
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
    """Count the set bits of each value, with a table of bytes."""
    return _ONES[_bytes(values)].sum(axis=1, dtype=np.uint32)


#: Count the set bits of each value; ``bitwise_count`` exists since numpy 2.
count_ones: Callable[[Array], Any] = getattr(np, "bitwise_count", ones_by_table)


def reversed_bits(values: Array) -> Any:
    """Reverse the order of each value's bits."""
    return np.ascontiguousarray(_REVERSED[_bytes(values)[:, ::-1]]).view(values.dtype).reshape(-1)


def bit_length(values: Array) -> Any:
    """Return the number of significant bits of unsigned values, as int32 (the exponent of an exact float)."""
    if values.dtype.itemsize <= 4:
        return np.frexp(values.astype(np.float64))[1]
    high = values >> _HALF
    length = np.frexp(high.astype(np.float64))[1] + np.int32(32)
    return np.where(high == 0, np.frexp((values & _LOW).astype(np.float64))[1], length)


def ones(count: Array, dtype: Any) -> Any:
    """Return a value with ``count`` ones from bit 0."""
    one = np.dtype(dtype).type(1)
    return np.left_shift(one, count.astype(dtype)) - one


def spare(count: Array, dtype: Any) -> Any:
    """Return the shift amount that keeps the low ``count`` bits: shift left by it, then right.

    The right shift fills the upper bits with zeros or with copies of the sign.
    """
    width = np.dtype(dtype).itemsize * 8
    return (width - np.minimum(count, np.uint32(width))).astype(dtype)
