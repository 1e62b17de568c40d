"""The arithmetic of tensor cores: sums of products as an H200 computes them.

Owns :class:`Terms` (numbers with the exponents by which the hardware aligns), :func:`fused_sum` and the
functions that round its result. A tensor core adds a block of products and the accumulator at once, in fixed
point: it adds the exponents of the factors (it does not normalize the product), aligns each addend to the
largest exponent, and cuts each addend toward zero to :data:`FRACTION` bits after the leading place. The sum
of these addends is exact. It is cut to f32, or rounded to nearest for f16. Zeros have no exponent, factors
and products are exact, subnormals are not flushed, a zero sum is +0, and every NaN result is the canonical
NaN.

The model is that of `MMA-Sim`_ and of Khattak and Mikaitis, `Accurate Models of NVIDIA Tensor Cores`_;
``tests/conformance`` checks it with results recorded on an H200.

The first axis of arrays of terms is the index of the sum (k): A is ``[k, m]``, B ``[k, n]``, or ``[k, m, n]``
if each row of A has its own elements of B (sparse products).

.. _MMA-Sim: https://arxiv.org/abs/2511.10909
.. _Accurate Models of NVIDIA Tensor Cores: https://arxiv.org/abs/2512.07004
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from .formats import FORMATS, decoded
from .single import NAN

__all__ = ["FRACTION", "NOTHING", "Terms", "aligned_sum", "cut_to_f32", "fused_sum", "round_to_f16", "terms"]

Array = NDArray[Any]

#: Bits that an addend keeps after the place of the largest addend's leading bit.
FRACTION = 25

#: The exponent of zero: lower than any sum of exponents; the sum of two such exponents fits 16 bits.
NOTHING = -4096
#: The least exponent that addends are aligned to: sums of lower addends are zero. A double holds its scale.
_LEAST = -600

_OVERFLOW = 2.0**128
_HALF_NAN = np.uint16(0x7FFF).view(np.float16)
#: The bits of tf32 in an f32 register: tf32 ignores the 13 low bits of the fraction.
_TF32 = np.uint32(0xFFFFE000)


@dataclass(frozen=True, slots=True)
class Terms:
    """Numbers as doubles, with their exponents.

    A subnormal has the exponent of the smallest normal number of its format, and a zero has NOTHING.
    """

    value: NDArray[np.float64]
    exponent: NDArray[np.int16]

    def __getitem__(self, key: Any) -> Terms:
        return Terms(self.value[key], self.exponent[key])


@cache
def _exponents(name: str) -> NDArray[np.int16]:
    """Return the exponent of every bit pattern of a format."""
    f = FORMATS[name]
    codes = np.arange(1 << f.width)
    field = (codes & ~f.sign) >> f.mantissa
    exponent = np.where(f.powers, field, np.maximum(field, 1)) - f.bias
    return np.where(decoded(name) == 0, NOTHING, exponent).astype(np.int16)


def terms(kind: str, codes: Array) -> Terms:
    """Decode raw bit patterns of a format; return their values and exponents."""
    if kind in ("f32", "tf32"):
        bits = codes & _TF32 if kind == "tf32" else codes
        value = bits.view(np.float32).astype(np.float64)
        field = (bits >> np.uint32(23) & np.uint32(0xFF)).astype(np.int16)
        exponent = np.maximum(field, np.int16(1)) - np.int16(127)
        return Terms(value, np.where(value == 0, np.int16(NOTHING), exponent))
    return Terms(decoded(kind).take(codes), _exponents(kind).take(codes))


def fused_sum(a: Terms, b: Terms, c: Terms, fraction: int = FRACTION) -> NDArray[np.float64]:
    """Return the sum over k of a * b, plus c, ``[m, n]``, added in fixed point and not yet rounded."""
    if b.value.ndim == 2:
        b = b[:, None, :]
    return aligned_sum(a.value[:, :, None] * b.value, a.exponent[:, :, None] + b.exponent, c, fraction)


def aligned_sum(
    products: NDArray[np.float64], exponents: NDArray[np.int16], c: Terms, fraction: int
) -> NDArray[np.float64]:
    """Return the sum of the addends ``[k, m, n]`` and c; the addends' array is overwritten."""
    top = np.maximum(exponents.max(0), np.maximum(c.exponent, np.int16(_LEAST)))
    # 2**(fraction - top), made from the exponent bits of a double.
    scale = ((1023 + fraction - top.astype(np.int64)) << 52).view(np.float64)
    products *= scale
    np.trunc(products, out=products)
    total = products.sum(0)
    total += np.trunc(c.value * scale)
    total /= scale
    return np.asarray(total)


def cut_to_f32(exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Cut doubles toward zero to f32; values from 2**128 on become infinite, and a zero becomes +0."""
    result = exact.astype(np.float32)
    size = np.abs(exact)
    bits = result.view(np.uint32)
    bits -= (np.abs(result) > size) & (size < _OVERFLOW)
    result += np.float32(0)
    nan = np.isnan(exact)
    if np.count_nonzero(nan):
        result[nan] = NAN
    return result


def round_to_f16(exact: Array) -> NDArray[np.float16]:
    """Round to f16, to nearest with ties to even."""
    result = exact.astype(np.float16)
    nan = np.isnan(exact)
    if np.count_nonzero(nan):
        result[nan] = _HALF_NAN
    return result
