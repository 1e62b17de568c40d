"""Conversions to and from packed narrow formats: modifiers, scale factors, random bits.

:mod:`.formats` defines the formats; this module defines how instructions pack codes: a code of six bits takes
a byte, a code of four bits half a byte. `PTX ISA, #data-movement-and-conversion-instructions-cvt`_.

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

#: Formats for which ml_dtypes has a fast cast from f32 that rounds to nearest.
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
    """Convert floats to codes of the format ``name``; apply ``rnd``, .satfinite, .relu and .pzo."""
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
    """Convert f32 to codes, rounded to nearest and saturated."""
    f = FORMATS[name]
    largest = np.float32(decoded(name)[f.largest])
    nan = a != a
    code = np.minimum(np.maximum(a, -largest), largest).astype(_CASTS[name]).view(np.uint8)
    if np.count_nonzero(nan):
        code[nan] = f.largest if f.nan is None else f.nan
    return code


def stride(name: str) -> int:
    """Return the distance of two packed codes, in bits."""
    return 4 if FORMATS[name].width == 4 else 8


def scale(factors: Array, shift: int) -> NDArray[np.float64]:
    """Return the power of two (ue8m0), or NaN, in the eight bits from ``shift`` of scale factors."""
    powers: Array = decoded("ue8m0")[np.atleast_1d(factors).astype(np.int64) >> shift & 0xFF]
    return powers


def scaled(pair: Array, factors: Array, modifiers: Mapping[str, str]) -> NDArray[np.float64]:
    """Divide floats ``(n, 2)``, lower first, by one common scale factor (``n1``) or by one each (``n2``)."""
    if "scaled::n2::ue8m0" in modifiers:
        return np.asarray(pair / np.stack([scale(factors, 0), scale(factors, 8)], axis=-1))
    # The hardware treats a subnormal source as +0.
    subnormal = (np.abs(pair) < np.finfo(pair.dtype).tiny) & (pair != 0)
    return np.asarray(np.where(subnormal, 0.0, pair) / scale(factors, 0)[:, None])


def random_fields(rbits: Array, name: str) -> list[Array]:
    """Return the 16 random bits of each of four operands.

    Two operands share 16 bits, as the manual says: a half of ``rbits`` for codes of 8 bits; the upper or the
    lower bytes of both halves for codes of 4 bits. The first operand of a pair takes the bits in reversed
    order: the manual does not say so, but two published measurements do, on sm_100a and sm_103a.
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
    """Return the f16 or bf16 of each byte, as a code of a narrow format; bits above the code do not count."""
    modifiers = {"rnd": "rn", **dict.fromkeys(("relu",) * relu + ("satfinite",) * saturate, "")}
    return np.resize(narrowed(decoded(name), target, modifiers).astype(np.uint16), 256)
