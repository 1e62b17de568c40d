"""f32 arithmetic: sums, products, fused multiply-adds, quotients and roots, each rounded once in any mode.

The common modes (to nearest, with ``.ftz`` too) take a few array operations and a test that finds operands
for which these are not enough; the general way goes through a double that determines the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import rounded
from .rounding import ArithmeticMode, odd_sum

__all__ = [
    "NAN",
    "TINY",
    "add",
    "canonical",
    "divide",
    "flushed",
    "fma",
    "multiply",
    "round_f32",
    "saturated",
    "sqrt",
]

Array = NDArray[Any]

#: The NaN that f32 arithmetic gives, whatever it was given (#floating-point-instructions; seen on an H200).
NAN = np.uint32(0x7FFFFFFF).view(np.float32)
#: The least normal number.
TINY = np.finfo(np.float32).tiny

# Arrays without a dimension: numpy takes them faster than scalars.
_TINY, _TINY64 = np.array(TINY), np.array(TINY, np.float64)
_ZERO, _ONE = np.array(0, np.float32), np.array(1, np.float32)
_UNIT = np.array(1, np.uint32)
#: Bits of what :func:`_within` looks for, without the sign and doubled: the least normal number, 2**-100.
_DELICATE, _SMALL = np.array(0x01000000, np.uint32), np.array(0x1B000000, np.uint32)
#: What rounding a double to f32 cuts off, and the half of its unit.
_CUT, _HALF = np.array((1 << 29) - 1, np.int64), np.array(1 << 28, np.int64)


def canonical(result: Any) -> Any:
    """A result with its NaNs made the canonical one."""
    nan = np.isnan(result)
    return np.where(nan, NAN, result) if np.count_nonzero(nan) else result


def flushed(value: Any) -> Any:
    """Subnormals as zeros of their sign."""
    return value * (np.abs(value) >= _TINY)


def saturated(result: Any) -> Any:
    """Clamped to [0, 1]; NaN and -0 become +0."""
    return np.where(result > _ZERO, np.minimum(result, _ONE), _ZERO)


def _within(values: Any, doubled: Array) -> int:
    """How many f32 are not zero, but at most the one whose bits without the sign are half of ``doubled``."""
    bits = values.view(np.uint32)
    bits = bits + bits  # without the sign
    return int(np.count_nonzero(bits - _UNIT < doubled))  # zero becomes the largest


def _delicate(result: Any, *values: Any) -> int:
    """How many results and operands are not zero, but at most the least normal: ``.ftz`` looks at them."""
    rows = np.empty((1 + len(values), *result.shape), np.float32)
    rows[0] = result
    for row, value in enumerate(values, 1):
        rows[row] = value
    return _within(rows, _DELICATE)


def _finish(result: Any, mode: ArithmeticMode) -> Any:
    return saturated(result) if mode.sat else canonical(result)


def round_f32(exact: Array, mode: ArithmeticMode) -> Array:
    """Doubles that determine the results as f32 in a mode."""
    result = rounded(exact, np.float32, mode.rnd)
    if mode.ftz:
        # Measured on an H200: what counts is the value rounded to 24 bits as if exponents had no end,
        # so that a result rounded up to the least normal is flushed if 24 bits could tell them apart.
        small = np.abs(exact) < _TINY64
        if np.count_nonzero(small):
            up = 2.0**64
            small &= np.abs(rounded(exact * up, np.float32, mode.rnd)) < np.float32(TINY * up)
            result = np.where(small, np.copysign(_ZERO, exact), result).astype(np.float32)
    return np.asarray(_finish(result, mode))


def _wide(mode: ArithmeticMode, *values: Any) -> list[Any]:
    """Operands as doubles, flushed if the mode says so."""
    return [(flushed(v) if mode.ftz else v).astype(np.float64) for v in values]


def add(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    if mode.rnd == "rn":
        result = a + b
        # Flushed operands change no result that is zero, and none from 2**-100 on.
        if not mode.ftz or not _within(result, _SMALL):
            return _finish(result, mode)
    x, y = _wide(mode, a, b)
    return round_f32(odd_sum(x, y, mode.rnd), mode)


def multiply(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    if mode.rnd == "rn":
        result = a * b
        if not mode.ftz or not _delicate(result, a, b):
            return _finish(result, mode)
    x, y = _wide(mode, a, b)
    return round_f32(x * y, mode)  # the product is exact in double


def _rounds_once(a: Any, b: Any, total: Any) -> bool:
    """Whether rounding the double ``total`` = a + b to f32 rounds the exact sums: no first rounding made a
    tie.
    """
    ties = (total.view(np.int64) & _CUT) == _HALF
    if not np.count_nonzero(ties):
        return True
    # Sums of short numbers are often ties without having been rounded.
    part = total - a
    error = (a - (total - part)) + (b - part)
    return not np.count_nonzero(error[ties])


def fma(mode: ArithmeticMode, a: Any, b: Any, c: Any) -> Any:
    addend = c.astype(np.float64)
    product = a.astype(np.float64) * b.astype(np.float64)  # exact
    total = product + addend
    if mode.rnd == "rn" and _rounds_once(product, addend, total):
        if mode.ftz:
            result = total.astype(np.float32)
            if not _delicate(result, a, b, c):
                return _finish(result, mode)
        else:
            small = np.abs(total) < _TINY64
            if not np.count_nonzero(small) or not np.count_nonzero(total * small):
                return _finish(total.astype(np.float32), mode)
    x, y, addend = _wide(mode, a, b, c)
    return round_f32(odd_sum(x * y, addend, mode.rnd), mode)


def divide(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    if mode.rnd == "rn":
        result = a / b
        if not mode.ftz or not _delicate(result, a, b):
            return _finish(result, mode)
    x, y = _wide(mode, a, b)
    # A double quotient of two f32 is never so close to an f32 boundary that its rounding misleads.
    return round_f32(x / y, mode)


def sqrt(mode: ArithmeticMode, a: Any) -> Any:
    if mode.rnd == "rn":
        return _finish(np.sqrt(flushed(a) if mode.ftz else a), mode)
    (x,) = _wide(mode, a)
    # Nor is a double root.
    return round_f32(np.sqrt(x), mode)
