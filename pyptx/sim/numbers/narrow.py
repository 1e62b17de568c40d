"""Packed narrow formats: codes with what modifiers do to them, scale factors, random bits.

The formats are in :mod:`.formats`; what is here knows how instructions pack codes: six bits stand in a byte,
four in half of one. `PTX ISA, #data-movement-and-conversion-instructions-cvt`_.

.. _PTX ISA, #data-movement-and-conversion-instructions-cvt:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .bits import reversed_bits
from .formats import FORMATS, decoded, encode

__all__ = ["narrowed", "random_fields", "scale", "scaled", "stride", "widened"]

Array = NDArray[Any]

#: Formats with a cast from f32 that rounds to nearest: the common case, in few steps.
_CASTS: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def narrowed(
    a: Array, name: str, modifiers: Mapping[str, str], random: Array | None = None, random_bits: int = 16
) -> Array:
    """Codes of floats in the format ``name``: rounding ``rnd``, .satfinite, .relu, .pzo."""
    f = FORMATS[name]
    saturate = "satfinite" in modifiers
    if saturate and a.dtype == np.float32 and modifiers["rnd"] == "rn" and name in _CASTS:
        code: Array = _cast(a, name)
    else:
        code = encode(a, f, modifiers["rnd"], saturate=saturate, random=random, random_bits=random_bits)
    if "relu" in modifiers:
        code = np.where(code & f.sign != 0, 0, code)  # no NaN has a sign
    if "pzo" in modifiers:
        code = np.where(code == f.sign, 0, code)
    return code


def _cast(a: Array, name: str) -> NDArray[np.uint8]:
    """f32 to nearest, saturated."""
    f = FORMATS[name]
    largest = np.float32(decoded(name)[f.largest])
    nan = a != a
    code = np.minimum(np.maximum(a, -largest), largest).astype(_CASTS[name]).view(np.uint8)
    if np.count_nonzero(nan):
        code[nan] = f.largest if f.nan is None else f.nan
    return code


def stride(name: str) -> int:
    """Bits from one packed code to the next."""
    return 4 if FORMATS[name].width == 4 else 8


def scale(factors: Array, shift: int) -> NDArray[np.float64]:
    """The power of two (ue8m0) in eight bits of scale factors, or NaN."""
    powers: Array = decoded("ue8m0")[np.atleast_1d(factors).astype(np.int64) >> shift & 0xFF]
    return powers


def scaled(pair: Array, factors: Array, modifiers: Mapping[str, str]) -> NDArray[np.float64]:
    """Lower and upper floats ``(n, 2)`` divided by one scale factor (``n1``) or by one each (``n2``)."""
    if "scaled::n2::ue8m0" in modifiers:
        return np.asarray(pair / np.stack([scale(factors, 0), scale(factors, 8)], axis=-1))
    # A subnormal source counts as plus zero.
    subnormal = (np.abs(pair) < np.finfo(pair.dtype).tiny) & (pair != 0)
    return np.asarray(np.where(subnormal, 0.0, pair) / scale(factors, 0)[:, None])


def random_fields(rbits: Array, name: str) -> list[Array]:
    """The 16 random bits for each of four operands.

    Two operands share them: a half of ``rbits`` for codes of 8 bits, for those of 4 the upper or the lower
    bytes of both halves, as the manual says.  It does not say that the first operand takes them in reversed
    order; two measurements of others do, on sm_100a and sm_103a.
    """
    bits = np.atleast_1d(rbits).astype(np.uint32)
    first, second = bits >> np.uint32(16), bits & np.uint32(0xFFFF)
    if stride(name) == 4:
        high, low = np.uint32(0xFF00), np.uint32(0xFF)
        first, second = (
            first & high | second >> np.uint32(8),
            first << np.uint32(8) & high | second & low,
        )
    fields = []
    for field in (first, second):
        shared = field.astype(np.uint16)
        fields += [reversed_bits(shared).astype(np.int64), shared.astype(np.int64)]
    return fields


@cache
def widened(name: str, target: str, relu: bool, saturate: bool) -> NDArray[np.uint16]:
    """The f16 or bf16 of every code of a narrow format; of every byte, for higher bits do not count."""
    modifiers = {"rnd": "rn", **dict.fromkeys(("relu",) * relu + ("satfinite",) * saturate, "")}
    return np.resize(narrowed(decoded(name), target, modifiers).astype(np.uint16), 256)
