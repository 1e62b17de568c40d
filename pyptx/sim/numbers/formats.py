"""Number formats: what a code stands for, and the code that a value is rounded to.

Owns :class:`Format` and the formats of PTX that numpy lacks, one encoder and one decoder for all of them
(exact in every rounding mode), and correct rounding of f32 and f64 to the formats that numpy has (`PTX ISA,
#data-movement-and-conversion-instructions-cvt`_ and `#alternate-floating-point-data-formats`_).

.. _PTX ISA, #data-movement-and-conversion-instructions-cvt:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
.. _#alternate-floating-point-data-formats:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#alternate-floating-point-data-formats
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        bias: what is subtracted from the exponent.
        largest: code of the largest finite magnitude.
        infinity: code of infinity, None if there is none.
        nan: code of the NaN that conversions give, None if there is none: NaN becomes ``largest``.
        signed: False: there is no sign bit, and the magnitude of a value is converted.
        powers: the codes are powers of two alone: exponent 0 is one as well, and there is no zero.
        complement: a negative code is the two's complement of its magnitude, not sign and magnitude.
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
        return self.exponent + self.mantissa + self.signed

    @property
    def sign(self) -> int:
        """The bit that makes a code negative, 0 if none does."""
        return 1 << (self.width - 1) if self.signed else 0

    @property
    def least(self) -> int:
        """Exponent of the smallest number with a leading one."""
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
    # Fixed point, 2 bits before and 6 behind the point: all numbers are multiples of 2**-6.
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
    """Codes of doubles, each rounded once.

    ``rnd`` is rn, rz, rm, rp, or rs: then ``random`` (``random_bits`` wide) is added to as many of the bits
    that are cut off, and the carry rounds away from zero. ``saturate``: what exceeds the largest number
    becomes it; else it becomes infinity, or NaN if the format has none, where the mode does not lead back.
    """
    bits = np.asarray(values, np.float64).view(np.int64)
    magnitude = bits & np.int64((1 << 63) - 1)
    negative = (bits < 0) if f.signed else np.zeros(bits.shape, np.bool_)
    field = magnitude >> _FRACTION
    infinite, nan = magnitude == (0x7FF << _FRACTION), magnitude > (0x7FF << _FRACTION)
    significand = (magnitude & np.int64(_IMPLICIT - 1)) | (field != 0).astype(np.int64) << _FRACTION
    # The unit of the last place is 2**(at - mantissa); far beyond the format nothing changes any more.
    top = f.least + (1 << f.exponent)
    exponent = np.minimum(np.maximum(field, 1) - 1023, top)
    at = np.maximum(exponent, f.least) if f.exponent else np.full(exponent.shape, f.least)
    cut = at - exponent + (_FRACTION - f.mantissa)
    # A significand has 53 bits: cut at 62, all of it is below half a unit.
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
    # A carry out of the mantissa runs into the exponent, as it should.
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
    """The value of every code of a format."""
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
    """Floats rounded to nearest, moved to ``rnd`` where they lie ``above`` or ``below`` the exact value."""
    if rnd == "rn":
        return nearest
    bits = nearest.view(f"u{nearest.itemsize}")
    negative = np.signbit(nearest)
    if rnd == "rz":
        return np.asarray(bits - np.where(negative, below, above)).view(nearest.dtype)
    wrong = above if rnd == "rm" else below
    one = bits.dtype.type(1)
    # Bits are sign and magnitude: one more is one step away from zero, and so is one step out of a zero.
    step = np.where(negative == (rnd == "rm"), one, -one)
    return np.asarray(bits + step * wrong).view(nearest.dtype)


def rounded(a: Array, dtype: Any, rnd: str) -> Array:
    """Floats as f16 or f32, rounded once; of a NaN the sign and the upper bits remain."""
    nearest: Array = a.astype(dtype)
    if rnd == "rn":
        return nearest
    back = nearest.astype(a.dtype)
    return wrong_side(nearest, back > a, back < a, rnd)


def odd_f32(nearest: Array, above: Array, below: Array) -> Array:
    """f32 with its last bit set where it is inexact: it determines every rounding to 22 bits and fewer."""
    toward_zero = wrong_side(nearest, above, below, "rz").view(np.uint32)
    return (toward_zero | (above | below)).view(np.float32)


def cut_f32(a: Array, bits: int, rnd: str) -> NDArray[np.uint32]:
    """Words of f32 rounded to ``bits`` fewer: 16 gives bf16, 13 tf32, in upper bits; of a NaN anything."""
    word = a.view(np.uint32)
    rest = np.uint32((1 << bits) - 1)
    if rnd == "rn":
        word = word + (np.uint32(rest >> 1) + (word >> np.uint32(bits) & np.uint32(1)))
    elif rnd != "rz":
        word = word + rest * (np.signbit(a) == (rnd == "rm"))
    return word & ~rest
