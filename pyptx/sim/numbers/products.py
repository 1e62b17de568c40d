"""The arithmetic of tensor cores: sums of products as an H200 computes them.

Owns :class:`Terms` (numbers with the exponents that the hardware aligns by), :func:`fused_sum` and what
rounds its result.  A tensor core adds a block of products and the accumulator at once, in fixed point: the
exponents of the factors are added (the product is not normalized); every addend is aligned to the largest
exponent and cut, toward zero, to :data:`FRACTION` bits behind its leading place; the sum of those is exact.
It is cut to f32, or rounded to nearest for f16.  Zeros have no exponent, factors and products are exact,
subnormals count, a zero sum is +0, and every NaN that comes out is the canonical one.

The model is the one of `MMA-Sim`_ and of Khattak and Mikaitis, `Accurate Models of NVIDIA Tensor Cores`_; the
recorded words of ``tests/conformance`` hold it against an H200.

Arrays of terms have the index of the sum (k) first: A is ``[k, m]``, B ``[k, n]``, or ``[k, m, n]`` where
each row of A has elements of B of its own (sparse products).

.. _MMA-Sim: https://arxiv.org/abs/2511.10909
.. _Accurate Models of NVIDIA Tensor Cores: https://arxiv.org/abs/2512.07004
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import FORMATS, decoded
from .single import NAN

__all__ = ["FRACTION", "NOTHING", "Terms", "aligned_sum", "cut_to_f32", "fused_sum", "round_to_f16", "terms"]

Array = NDArray[Any]

#: Bits that an addend keeps behind the place of the largest one's leading bit.
FRACTION = 25

#: The exponent of zero: lower than any sum of exponents, and two of them fit 16 bits.
NOTHING = -4096
#: Sums of which every addend is lower are zero, and a double must hold the scale.
_LEAST = -600

_OVERFLOW = 2.0**128
_HALF_NAN = np.uint16(0x7FFF).view(np.float16)
#: Fields of f32 and tf32: sign and 8 bits of exponent; tf32 ignores the 13 low bits of the fraction.
_TF32 = np.uint32(0xFFFFE000)


@dataclass(frozen=True, slots=True)
class Terms:
    """Numbers: doubles, and their exponents; of subnormals the format's least, of zeros one far below."""

    value: NDArray[np.float64]
    exponent: NDArray[np.int16]

    def __getitem__(self, key: Any) -> Terms:
        return Terms(self.value[key], self.exponent[key])


@cache
def _exponents(name: str) -> NDArray[np.int16]:
    """The exponent of every code of a format."""
    f = FORMATS[name]
    codes = np.arange(1 << f.width)
    field = (codes & ~f.sign) >> f.mantissa
    exponent = np.where(f.powers, field, np.maximum(field, 1)) - f.bias
    return np.where(decoded(name) == 0, NOTHING, exponent).astype(np.int16)


def terms(kind: str, codes: Array) -> Terms:
    """The numbers that raw codes of a format stand for."""
    if kind in ("f32", "tf32"):
        bits = codes & _TF32 if kind == "tf32" else codes
        value = bits.view(np.float32).astype(np.float64)
        field = (bits >> np.uint32(23) & np.uint32(0xFF)).astype(np.int16)
        exponent = np.maximum(field, np.int16(1)) - np.int16(127)
        return Terms(value, np.where(value == 0, np.int16(NOTHING), exponent))
    return Terms(decoded(kind).take(codes), _exponents(kind).take(codes))


def fused_sum(a: Terms, b: Terms, c: Terms, fraction: int = FRACTION) -> NDArray[np.float64]:
    """``sum over k of a * b, plus c``, ``[m, n]``, added in fixed point and not yet rounded."""
    if b.value.ndim == 2:
        b = b[:, None, :]
    return aligned_sum(a.value[:, :, None] * b.value, a.exponent[:, :, None] + b.exponent, c, fraction)


def aligned_sum(
    products: NDArray[np.float64], exponents: NDArray[np.int16], c: Terms, fraction: int
) -> NDArray[np.float64]:
    """The sum of addends ``[k, m, n]`` (which are overwritten) and c."""
    top = np.maximum(exponents.max(0), np.maximum(c.exponent, np.int16(_LEAST)))
    # 2**(fraction - top), by the bits of a double.
    scale = ((1023 + fraction - top.astype(np.int64)) << 52).view(np.float64)
    products *= scale
    np.trunc(products, out=products)
    total = products.sum(0)
    total += np.trunc(c.value * scale)
    total /= scale
    return np.asarray(total)


def cut_to_f32(exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Doubles cut toward zero to 24 bits; from 2**128 on infinite; a zero is +0."""
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
    """Rounded to nearest, ties to even."""
    result = exact.astype(np.float16)
    nan = np.isnan(exact)
    if np.count_nonzero(nan):
        result[nan] = _HALF_NAN
    return result
