"""Number formats: the value of each bit pattern (code), and the code to which a value is rounded.

Owns :class:`Format` and the formats of PTX that numpy lacks, one encoder and one decoder for all of them
(exact in every rounding mode), and correct rounding of f32 and f64 to the formats that numpy has (`PTX ISA,
#data-movement-and-conversion-instructions-cvt`_ and `#alternate-floating-point-data-formats`_).

.. _PTX ISA, #data-movement-and-conversion-instructions-cvt:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
.. _#alternate-floating-point-data-formats:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#alternate-floating-point-data-formats
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass

__all__ = [
    "FORMATS",
    "Format",
    "cut_f32",
    "decoded",
    "encode",
    "odd_f32",
    "rounded",
    "wrong_side",
]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of at most 16 bits.

    A code is sign, ``exponent`` bits and ``mantissa`` bits; exponent 0 holds subnormal numbers.

    Attributes:
        bias: number that is subtracted from the exponent field.
        largest: code of the largest finite magnitude.
        infinity: code of infinity, None if there is none.
        nan: code of the NaN that conversions give, None if the format has none: then NaN becomes ``largest``.
        signed: whether the format has a sign bit; without one, the magnitude of a value is converted.
        powers: whether all codes are powers of two: exponent field 0 is a power too, and there is no zero.
        complement: whether a negative code is the two's complement of its magnitude.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None
    signed: bool = True
    powers: bool = False
    complement: bool = False

    @property
    def width(self) -> int:
        """Number of bits of a code."""
        return self.exponent + self.mantissa + self.signed

    @property
    def sign(self) -> int:
        """The sign bit of a code, 0 if the format has none."""
        return 1 << (self.width - 1) if self.signed else 0

    @property
    def least(self) -> int:
        """Exponent of the smallest normal number."""
        return (0 if self.powers else 1) - self.bias


FORMATS = {
    "f16": Format(5, 10, 15, 0x7BFF, infinity=0x7C00, nan=0x7FFF),
    "bf16": Format(8, 7, 127, 0x7F7F, infinity=0x7F80, nan=0x7FFF),
    "e4m3": Format(4, 3, 7, 0x7E, nan=0x7F),
    "e5m2": Format(5, 2, 15, 0x7B, infinity=0x7C, nan=0x7F),
    "e2m3": Format(2, 3, 1, 0x1F),
    "e3m2": Format(3, 2, 3, 0x1F),
    "e2m1": Format(2, 1, 1, 0x7),
    "ue8m0": Format(8, 0, 127, 0xFE, nan=0xFF, signed=False, powers=True),
    "ue5m3": Format(5, 3, 15, 0xFE, nan=0xFF, signed=False),
    # Fixed point, 2 bits before and 6 bits after the point: all numbers are multiples of 2**-6.
    "s2f6": Format(0, 7, 0, 0x7F, complement=True),
}

_FRACTION = 52
_IMPLICIT = 1 << _FRACTION


def encode(
    values: Array,
    f: Format,
    rnd: str,
    *,
    saturate: bool = False,
    random: Array | None = None,
    random_bits: int = 16,
) -> NDArray[np.int64]:
    """Round doubles to codes of a format, each once.

    ``rnd`` is rn, rz, rm, rp or rs. With rs, ``random`` (``random_bits`` wide) is added to the same number of
    upper bits of the part that is cut off, and a carry rounds away from zero. A value above the largest
    number becomes the largest number with ``saturate``, or if the mode rounds toward it; else it becomes
    infinity, or NaN if the format has no infinity.
    """
    bits = np.asarray(values, np.float64).view(np.int64)
    magnitude = bits & np.int64((1 << 63) - 1)
    negative = (bits < 0) if f.signed else np.zeros(bits.shape, np.bool_)
    field = magnitude >> _FRACTION
    infinite, nan = magnitude == (0x7FF << _FRACTION), magnitude > (0x7FF << _FRACTION)
    significand = (magnitude & np.int64(_IMPLICIT - 1)) | (field != 0).astype(np.int64) << _FRACTION
    # The unit in the last place is 2**(at - mantissa). Exponents far above the format's are limited to `top`.
    top = f.least + (1 << f.exponent)
    exponent = np.minimum(np.maximum(field, 1) - 1023, top)
    at = np.maximum(exponent, f.least) if f.exponent else np.full(exponent.shape, f.least)
    cut = at - exponent + (_FRACTION - f.mantissa)
    # A significand has 53 bits: with a shift of 62 all of it is below half a unit.
    shift = np.minimum(cut, 62)
    whole = significand >> shift
    rest = significand - (whole << shift)
    code = ((at - f.least) << f.mantissa) + whole - f.powers
    if rnd == "rs":
        assert random is not None
        aligned = rest >> np.minimum(cut - random_bits, 62)
        up: Array = aligned + random >= 1 << random_bits
    elif rnd == "rn":
        half = np.int64(1) << (shift - 1)
        up = (rest > half) | ((rest == half) & (code & 1 == 1))
    elif rnd == "rz":
        up = np.zeros(rest.shape, np.bool_)
    else:
        up = (rest != 0) & (negative == (rnd == "rm"))
    # A carry out of the mantissa rightly increments the exponent.
    code += up
    if f.powers:
        code = np.maximum(code, 0)
    largest = f.largest + (negative if f.complement else 0)
    beyond = f.infinity if f.infinity is not None else f.nan
    if saturate or beyond is None:
        code = np.where(infinite, largest, np.minimum(code, largest))
    else:
        away: Array | bool = rnd in ("rn", "rs") or (rnd != "rz" and negative == (rnd == "rm"))
        code = np.where(infinite | ((code > largest) & away), beyond, np.minimum(code, largest))
        code = np.where(infinite, beyond, code)
    signed = -code & ((1 << f.width) - 1) if f.complement else code | f.sign
    code = np.where(negative, signed, code)
    return np.where(nan, f.largest if f.nan is None else f.nan, code)


@cache
def decoded(name: str) -> NDArray[np.float64]:
    """Return the value of every bit pattern of a format, as an array indexed by the bit pattern."""
    f = FORMATS[name]
    codes = np.arange(1 << f.width)
    magnitude = codes & ~f.sign
    if f.complement:
        signed = np.where(codes & f.sign, codes - (1 << f.width), codes)
        return np.asarray(np.ldexp(signed.astype(np.float64), f.least - f.mantissa))
    field, fraction = magnitude >> f.mantissa, magnitude & ((1 << f.mantissa) - 1)
    normal = (field > 0) | f.powers
    fraction = fraction + (normal.astype(np.int64) << f.mantissa)
    exponent = np.where(normal, field - f.bias, f.least)
    values: Array = np.ldexp(fraction.astype(np.float64), exponent - f.mantissa)
    values[magnitude > f.largest] = np.nan
    if f.infinity is not None:
        values[magnitude == f.infinity] = np.inf
    values *= np.where(codes & f.sign, -1.0, 1.0)
    values.flags.writeable = False
    return values


# --- rounding to the formats of numpy ---------------------------------------------------------


def wrong_side(nearest: Array, above: Array, below: Array, rnd: str) -> Array:
    """Return floats rounded in mode ``rnd``, from floats that were rounded to nearest.

    The masks ``above`` and ``below`` say where the float is above or below the exact value.
    """
    if rnd == "rn":
        return nearest
    bits = nearest.view(f"u{nearest.itemsize}")
    negative = np.signbit(nearest)
    if rnd == "rz":
        return np.asarray(bits - np.where(negative, below, above)).view(nearest.dtype)
    wrong = above if rnd == "rm" else below
    one = bits.dtype.type(1)
    # Floats are sign and magnitude: adding one to the bits is one step away from zero, also from a zero.
    step = np.where(negative == (rnd == "rm"), one, -one)
    return np.asarray(bits + step * wrong).view(nearest.dtype)


def rounded(a: Array, dtype: Any, rnd: str) -> Array:
    """Round floats once to f16 or f32; a NaN keeps its sign and upper bits."""
    nearest: Array = a.astype(dtype)
    if rnd == "rn":
        return nearest
    back = nearest.astype(a.dtype)
    return wrong_side(nearest, back > a, back < a, rnd)


def odd_f32(nearest: Array, above: Array, below: Array) -> Array:
    """Round to odd in f32: set the last bit of inexact results, for a later rounding to at most 22 bits."""
    toward_zero = wrong_side(nearest, above, below, "rz").view(np.uint32)
    return (toward_zero | (above | below)).view(np.float32)


def cut_f32(a: Array, bits: int, rnd: str) -> NDArray[np.uint32]:
    """Round f32 to ``bits`` fewer bits: 16 gives bf16, 13 tf32, in the upper bits. NaNs are not preserved."""
    word = a.view(np.uint32)
    rest = np.uint32((1 << bits) - 1)
    if rnd == "rn":
        word = word + (np.uint32(rest >> 1) + (word >> np.uint32(bits) & np.uint32(1)))
    elif rnd != "rz":
        word = word + rest * (np.signbit(a) == (rnd == "rm"))
    return word & ~rest
