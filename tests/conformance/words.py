"""Words from a generator of our own, and the number formats that they are patterns of.

The generator is counter-based (splitmix64's finalizer over a name and an index), so that inputs need not be stored and
never change with a library.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMATS", "Format", "Words", "floats", "splitmix64", "uniform"]

Words = NDArray[np.uint64]


def splitmix64(state: Words) -> Words:
    """The finalizer of splitmix64 over each element, after one step of its Weyl sequence."""
    z = state * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(name: str, count: int, bits: int = 64) -> Words:
    """``count`` uniform words of ``bits`` bits; ``name`` chooses the stream."""
    seed = np.uint64(zlib.crc32(name.encode()) << 32)
    return splitmix64(seed + np.arange(count, dtype=np.uint64)) >> np.uint64(64 - bits)


@dataclass(frozen=True)
class Format:
    """A binary floating-point format. ``shift``: bits below the fraction that are zero (tf32)."""

    fraction: int
    exponent: int
    shift: int = 0
    infinities: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction + self.shift

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def least(self) -> int:
        """Exponent of the least normal number."""
        return 1 - self.bias

    @property
    def largest(self) -> int:
        """Exponent of the largest number."""
        return self.bias if self.infinities else self.bias + 1


FORMATS = {
    "f16": Format(10, 5),
    "bf16": Format(7, 8),
    "f32": Format(23, 8),
    "f64": Format(52, 11),
    "tf32": Format(10, 8, shift=13),
    "e4m3": Format(3, 4, infinities=False),
    "e5m2": Format(2, 5),
}


def floats(name: str, count: int, kind: str, spread: int = 4) -> Words:
    """``count`` finite numbers as raw bits: any sign and fraction, exponents within ``spread`` of one's."""
    form = FORMATS[kind]
    words = uniform(name, count)
    scale = (words >> np.uint64(53)) % np.uint64(2 * spread + 1) + np.uint64(form.bias - spread)
    low = words & np.uint64((1 << form.fraction) - 1)
    sign = (words >> np.uint64(52)) & np.uint64(1)
    return ((sign << np.uint64(form.exponent) | scale) << np.uint64(form.fraction) | low) << np.uint64(
        form.shift
    )
