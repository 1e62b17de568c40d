"""D = A*B + C of whole matrices, given as the raw bits of their elements; one function per kind of product.

The functions follow an H200: its tensor cores add certain groups of terms at once (:mod:`.products`), and
ptxas expands the products that the tensor cores lack. A is ``[k, m]``, B ``[k, n]`` or ``[k, m, n]``, C and D
``[m, n]``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.tuples import NamedTuple
from . import double, single
from .formats import decoded
from .products import FRACTION, NOTHING, Terms, aligned_sum, cut_to_f32, fused_sum, round_to_f16, terms
from .rounding import ArithmeticMode
from .single import canonical

__all__ = [
    "WHOLE",
    "Groups",
    "Kinds",
    "multiply_bits",
    "multiply_bytes",
    "multiply_doubles",
    "multiply_floats",
    "multiply_integers",
    "multiply_quarters",
    "multiply_scaled",
    "multiply_short",
]

Array = NDArray[Any]

_NEAREST = ArithmeticMode("rn", False, False)


class Kinds(NamedTuple):
    """The formats of A, B, C and D."""

    a: str
    b: str
    c: str
    d: str


#: The indices along K that one instruction of the tensor core adds at once, for each instruction in order.
Groups = tuple[Any, ...]
WHOLE: Groups = (slice(None),)


def _rounded(exact: NDArray[np.float64], kind: str) -> Array:
    """Round exact sums to the codes of ``kind``, which is f16 or f32."""
    if kind == "f16":
        return (round_to_f16(exact) + np.float16(0)).view(np.uint16)  # a zero is +0
    return cut_to_f32(exact).view(np.uint32)


def _word(value: Array) -> Array:
    return np.asarray(canonical(value)).view(np.uint32)


def _converted(codes: Array, source: str, target: str) -> Array:
    """Convert accumulators from f16 to f32, or round them from f32 to f16."""
    if source == target:
        return codes
    if target == "f32":
        return _word(codes.view(np.float16).astype(np.float32))
    return round_to_f16(codes.view(np.float32)).view(np.uint16)


def multiply_floats(kinds: Kinds, a: Array, b: Array, c: Array, groups: Groups = WHOLE) -> Array:
    """Multiply floats; each group's sum, rounded, is the accumulator of the next group."""
    left, right = terms(kinds.a, a), terms(kinds.b, b)
    # The tensor core uses the wider type of C and D as the accumulator.
    kind = "f16" if kinds.c == kinds.d == "f16" else "f32"
    total = _converted(c, kinds.c, kind)
    for group in groups:
        total = _rounded(fused_sum(left[group], right[group], terms(kind, total)), kind)
    return _converted(total, kind, kinds.d)


#: Bits after the leading one that addends of 8-bit floats, and their sums in f32, keep on an H200.
_SHORT = 13


def multiply_short(kinds: Kinds, a: Array, b: Array, c: Array) -> Array:
    """Multiply 8-bit floats with the tensor core's own instruction for them, which wgmma uses."""
    exact = fused_sum(terms(kinds.a, a), terms(kinds.b, b), terms(kinds.c, c), _SHORT)
    total = _rounded(exact, kinds.d)
    if kinds.d == "f32":
        np.bitwise_and(total, np.uint32(-1 << 23 - _SHORT & 0xFFFFFFFF), out=total, where=~np.isnan(exact))
    return total


@cache
def _halves(kind: str) -> Array:
    """Return a table from the codes of an 8-bit format to f16 codes of the same value."""
    return decoded(kind).astype(np.float16).view(np.uint16)


def multiply_bytes(kinds: Kinds, a: Array, b: Array, c: Array, groups: Groups) -> Array:
    """Multiply 8-bit floats as f16, starting from zero, and add C in a separate addition."""
    halves = Kinds("f16", "f16", kinds.c, kinds.d)
    left, right = _halves(kinds.a).take(a), _halves(kinds.b).take(b)
    total = multiply_floats(halves, left, right, np.zeros_like(c), groups)
    if kinds.d == "f16":
        return round_to_f16(total.view(np.float16) + c.view(np.float16)).view(np.uint16)
    return _word(total.view(np.float32) + c.view(np.float32))


#: If both factors have 4 bits, the exact sum of 16 products is one addend, and the addend keeps 35 bits
#: (measured on other targets; see the papers).
_EXACT, _EXACT_FRACTION = 16, 35


def _scale(codes: Array, kind: str, k: int) -> Terms:
    """Decode scales ``[count, rows]``, and repeat them so that each of the k elements of a row has one.

    ue4m3 is e4m3 without a sign.
    """
    scales = terms("e4m3", codes & np.uint8(0x7F)) if kind == "ue4m3" else terms(kind, codes)
    each = k // len(codes)
    return Terms(scales.value.repeat(each, 0), scales.exponent.repeat(each, 0))


def multiply_scaled(kinds: Kinds, scale: str, a: Array, b: Array, c: Array, x: Array, y: Array) -> Array:
    """Multiply block-scaled matrices; x ``[count, m]`` and y ``[count, n]`` encode the scales of A and B."""
    left, right, total = terms(kinds.a, a), terms(kinds.b, b), terms(kinds.c, c)
    k = len(a)
    of_a, of_b = _scale(x, scale, k), _scale(y, scale, k)
    if right.value.ndim == 2:
        right = right[:, None, :]
    factor = of_a.value[:, :, None] * of_b.value[:, None, :]
    exponents = of_a.exponent[:, :, None] + of_b.exponent[:, None, :]
    products = left.value[:, :, None] * right.value
    if kinds.a == kinds.b == "e2m1" and k >= 2 * _EXACT and len(x) > 1:
        sums = products.reshape(-1, _EXACT, *products.shape[1:]).sum(1)
        exponents = np.where(sums == 0, np.int16(NOTHING), exponents[::_EXACT])
        exact = aligned_sum(sums * factor[::_EXACT], exponents, total, _EXACT_FRACTION)
    else:
        exponents = exponents + (left.exponent[:, :, None] + right.exponent)
        exact = aligned_sum(products * factor, exponents, total, FRACTION)
    return cut_to_f32(exact).view(np.uint32)


def multiply_quarters(kinds: Kinds, a: Array, b: Array, c: Array) -> Array:
    """Multiply f16 as ``m8n8k4``, in f32 arithmetic as ptxas expands it; A is ``[quarter, k, m]``, B alike.

    D in f32 is a chain of fused multiply-adds, plus C.  D in f16 is C plus the products of k = 0 and 1, plus
    the products of k = 2 and 3, rounded once after the sums.
    """
    left, right = (decoded("f16").take(codes).astype(np.float32) for codes in (a, b))
    addend = _converted(c, kinds.c, "f32").view(np.float32)
    factors = [(left[:, k, :, None], right[:, k, None, :]) for k in range(4)]
    if kinds.d == "f32":
        total = factors[0][0] * factors[0][1] + np.float32(0)
        for x, y in factors[1:]:
            total = _fma(x, y, total)
        return _word(total + addend)
    for k in (0, 2):
        addend = addend + _fma(*factors[k + 1], factors[k][0] * factors[k][1])
    return round_to_f16(addend.astype(np.float64)).view(np.uint16)


def _fma(x: Array, y: Array, z: Array) -> Array:
    return np.asarray(single.fma(_NEAREST, *np.broadcast_arrays(x, y, z)))


def multiply_doubles(rnd: str, a: Array, b: Array, c: Array) -> Array:
    """Multiply f64 with fused multiply-adds, in ascending order of k. Each of them rounds its result."""
    left, right = a.view(np.float64).repeat(b.shape[1], 1), np.tile(b.view(np.float64), a.shape[1])
    total = c.view(np.float64).ravel()
    for x, y in zip(left, right, strict=True):
        total = double.fma(rnd, x, y, total)
    return np.ascontiguousarray(total).view(np.uint64).reshape(c.shape)


def _integers(kind: str, codes: Array) -> NDArray[np.float64]:
    """Return integer elements as doubles, which hold the sums of their products exactly."""
    if kind[0] == "s":
        codes = codes.view(np.int8) if kind == "s8" else ((codes ^ 8) - 8).view(np.int8)
    return codes.astype(np.float64)


def multiply_integers(kinds: Kinds, saturate: bool, a: Array, b: Array, c: Array) -> Array:
    """Multiply integers; the 32-bit sums wrap around, or are clamped once with ``saturate``."""
    left, right = _integers(kinds.a, a), _integers(kinds.b, b)
    sums = left.T @ right if right.ndim == 2 else np.einsum("km,kmn->mn", left, right)
    total = sums.astype(np.int64) + c.view(np.int32)
    if saturate:
        total = total.clip(-(1 << 31), (1 << 31) - 1)
    return total.astype(np.uint32)


def multiply_bits(operation: str, a: Array, b: Array, c: Array) -> Array:
    """Return the number of set bits of A xor B, or of A and B, plus C."""
    # Counts are exact in f32.
    left, right = a.astype(np.float32), b.astype(np.float32)
    both = left.T @ right
    sums = both if operation == "and" else left.sum(0)[:, None] + right.sum(0) - 2 * both
    return (sums.astype(np.int64) + c.view(np.int32)).astype(np.uint32)
