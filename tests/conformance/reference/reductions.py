"""What reductions of bulk copies and of red.async make of two arrays of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .expected import Expected, decode

__all__ = ["combined", "is_float", "result"]

Words = NDArray[Any]

#: Fraction bits, and the exponent of the smallest normal number.
_FORMATS = {"f16": (10, -14), "bf16": (7, -126)}
_LARGEST = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127")}


def _added(kind: str, a: Words, b: Words) -> NDArray[np.float64]:
    """Sums of floats, each rounded once to the nearest, ties to even."""
    x, y = decode(a, kind), decode(b, kind)
    with np.errstate(all="ignore"):
        if kind == "f32":
            return (x.astype(np.float32) + y.astype(np.float32)).astype(np.float64)
        total = x + y
        if kind == "f64":
            return total
        fraction, least = _FORMATS[kind]
        _, exponent = np.frexp(np.where(np.isfinite(total), total, 0))
        step = np.ldexp(1.0, np.maximum(exponent - 1, least) - fraction)
        nearest = np.where(np.isfinite(total), np.rint(total / step) * step, total)
        return np.where(np.abs(nearest) > _LARGEST[kind], np.copysign(np.inf, nearest), nearest)


def combined(op: str, kind: str) -> Callable[[Words, Words], Words]:
    """``old, new -> result`` on unsigned words; floats come back as ``float64``."""
    bits = int(kind.lstrip("busf")) if kind != "bf16" else 16
    signed = kind[0] == "s"

    def numbers(words: Words) -> list[int]:
        top = 1 << bits - 1
        return [w - 2 * top if signed and w & top else w for w in map(int, words.reshape(-1))]

    integers: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "min": min,
        "max": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "inc": lambda a, b: 0 if a >= b else a + 1,
        "dec": lambda a, b: b if a == 0 or a > b else a - 1,
    }

    def of_integers(a: Words, b: Words) -> Words:
        mask = (1 << bits) - 1
        rows = [integers[op](x, y) & mask for x, y in zip(numbers(a), numbers(b), strict=True)]
        return np.array(rows, f"u{bits // 8}").reshape(a.shape)

    def of_floats(a: Words, b: Words) -> Words:
        if op == "add":
            return _added(kind, a, b)
        x, y = decode(a, kind), decode(b, kind)
        # Of a number and a NaN the number.
        return (np.fmin if op == "min" else np.fmax)(x, y)

    return of_floats if is_float(kind) else of_integers


def is_float(kind: str) -> bool:
    """Whether :func:`combined` gives numbers, not words."""
    return kind[0] == "f" or kind == "bf16"


def result(op: str, kind: str, old: Words, new: Words) -> Expected:
    """An output that held ``old`` and was combined with ``new``."""
    return Expected(combined(op, kind)(old, new), kind if is_float(kind) else "")
