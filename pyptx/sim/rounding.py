"""Correct rounding of floating-point results in the four modes of PTX.

f32 results come from a double that determines them; f64 results in a directed mode from exact rational
arithmetic, element by element (rare in kernels, and exact beats fast here).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .semantics import Op

__all__ = ["directed", "double", "flush", "odd_sum", "round_f32", "signed_zero"]

Array = NDArray[Any]


def flush(op: Op, *values: Any) -> tuple[Any, ...]:
    """Operands with subnormals flushed to zero of their sign, if the form says .ftz."""
    if "ftz" not in op.chosen:
        return values
    tiny = np.finfo(np.float32).tiny
    return tuple(np.where(np.abs(v) < tiny, np.copysign(np.float32(0), v), v) for v in values)


def double(value: Any) -> Array:
    """At least one-dimensional double."""
    return np.atleast_1d(np.asarray(value, np.float64))


def odd_sum(a: Array, b: Array, rnd: str) -> Array:
    """a + b in double, rounded to odd, which determines every rounding to f32.

    Where the exact sum of nonzero or opposite zeros is zero, its sign is the mode's: minus for ``rm``.
    """
    total = a + b
    # Two-sum: the exact error of the addition.
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (total > 0), bits + 1, bits - 1)
    result = np.where(inexact, toward, bits).view(np.float64)
    return signed_zero(result, a, b, rnd)


def signed_zero(total: Array, a: Array, b: Array, rnd: str) -> Array:
    """The sum ``total`` of a and b with the sign that mode ``rnd`` gives an exact zero: minus for ``rm``."""
    if rnd != "rm":
        return total
    both_positive = (a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)
    return np.where((total == 0) & ~both_positive, -0.0, total)


def _to_f32(exact: Array, rnd: str) -> Array:
    """A double that determines the result, as f32 in mode ``rnd``."""
    result = exact.astype(np.float32)
    if rnd == "rn":
        return result
    back = result.astype(np.float64)
    if rnd == "rz":
        wrong = np.abs(back) > np.abs(exact)
        stepped = np.nextafter(result, np.float32(0))
    elif rnd == "rm":
        wrong, stepped = back > exact, np.nextafter(result, np.float32(-np.inf))
    else:
        wrong, stepped = back < exact, np.nextafter(result, np.float32(np.inf))
    return np.where(wrong, stepped, result)


def round_f32(op: Op, exact: Array, rnd: str) -> Array:
    """A double that determines the result as f32 in mode ``rnd``, then .ftz and .sat."""
    result = _to_f32(exact, rnd)
    if "ftz" in op.chosen:
        # Measured on an H200: what counts is the value rounded to 24 bits as if exponents had no end,
        # so that a result rounded up to the least normal is flushed if 24 bits could tell them apart.
        tiny, up = float(np.finfo(np.float32).tiny), 2.0**64
        flushed = (np.abs(exact) < tiny) & (np.abs(_to_f32(exact * up, rnd)) < np.float32(tiny * up))
        result = np.where(flushed, np.copysign(np.float32(0), exact), result).astype(np.float32)
    if "sat" in op.chosen:
        # NaN and -0 become +0.
        result = np.where(result > 0, np.minimum(result, np.float32(1)), np.float32(0))
    return np.asarray(result, np.float32)


def directed(nearest: Array, exact: Callable[[int], Fraction | None], rnd: str) -> Array:
    """Results rounded to nearest, moved to mode ``rnd``.

    ``exact(i)`` is the true value of element i, None where it is not a number or infinite.  A true zero takes
    its sign from ``nearest``.
    """
    result = np.atleast_1d(nearest).copy()
    if rnd == "rn":
        return result
    largest = np.finfo(result.dtype).max
    for i in range(result.size):
        truth = exact(i)
        if truth is None:
            continue
        value = result.dtype.type(result[i])
        # Overflow to infinity counts as beyond the truth.
        above = bool(value > 0) if np.isinf(value) else Fraction(float(value)) > truth
        below = bool(value < 0) if np.isinf(value) else Fraction(float(value)) < truth
        down = above and (rnd == "rm" or (rnd == "rz" and truth > 0))
        up = below and (rnd == "rp" or (rnd == "rz" and truth < 0))
        if down:
            result[i] = largest if np.isinf(value) else np.nextafter(value, result.dtype.type(-np.inf))
        elif up:
            result[i] = -largest if np.isinf(value) else np.nextafter(value, result.dtype.type(np.inf))
        if result[i] == 0 and truth != 0:
            # A nonzero truth that rounds to zero keeps its sign.
            result[i] = np.copysign(result[i], -1.0 if truth < 0 else 1.0)
    return result
