"""f32 arithmetic: sums, products, fused multiply-adds, quotients and roots, each rounded once in any mode.

The common modes (to nearest, also with ``.ftz``) take a few array operations, and a test that finds operands
for which these are not enough. The general way computes a double that determines the result.
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

#: The only NaN that f32 arithmetic returns (#floating-point-instructions; measured on an H200).
NAN = np.uint32(0x7FFFFFFF).view(np.float32)
#: The smallest normal number.
TINY = np.finfo(np.float32).tiny

# Arrays of no dimensions: numpy is faster with them than with scalars.
_TINY, _TINY64 = np.array(TINY), np.array(TINY, np.float64)
_ZERO, _ONE = np.array(0, np.float32), np.array(1, np.float32)
_UNIT = np.array(1, np.uint32)
#: Limits for :func:`_within`: the bits of the smallest normal number and of 2**-100, doubled.
_DELICATE, _SMALL = np.array(0x01000000, np.uint32), np.array(0x1B000000, np.uint32)
#: The bits that rounding a double to f32 cuts off, and half of f32's unit in the last place.
_CUT, _HALF = np.array((1 << 29) - 1, np.int64), np.array(1 << 28, np.int64)


def canonical(result: Any) -> Any:
    """Replace NaNs of a result by the canonical NaN."""
    nan = np.isnan(result)
    return np.where(nan, NAN, result) if np.count_nonzero(nan) else result


def flushed(value: Any) -> Any:
    """Replace subnormal numbers by zeros of the same sign."""
    return value * (np.abs(value) >= _TINY)


def saturated(result: Any) -> Any:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    return np.where(result > _ZERO, np.minimum(result, _ONE), _ZERO)


def _within(values: Any, doubled: Array) -> int:
    """Return how many f32 are nonzero with a magnitude up to a limit, given as its bits, ``doubled``."""
    bits = values.view(np.uint32)
    bits = bits + bits  # removes the sign
    return int(np.count_nonzero(bits - _UNIT < doubled))  # a zero wraps to the largest number


def _delicate(result: Any, *values: Any) -> int:
    """Return how many results and operands ``.ftz`` may change: nonzero, up to the smallest normal."""
    rows = np.empty((1 + len(values), *result.shape), np.float32)
    rows[0] = result
    for row, value in enumerate(values, 1):
        rows[row] = value
    return _within(rows, _DELICATE)


def _finish(result: Any, mode: ArithmeticMode) -> Any:
    return saturated(result) if mode.sat else canonical(result)


def round_f32(exact: Array, mode: ArithmeticMode) -> Array:
    """Round doubles to f32 as ``mode`` says; each double must determine the rounding of the exact result."""
    result = rounded(exact, np.float32, mode.rnd)
    if mode.ftz:
        # Measured on an H200: the hardware tests the value rounded to 24 bits with an unbounded exponent. A
        # result that rounds up to the smallest normal number is flushed if those 24 bits are below it.
        small = np.abs(exact) < _TINY64
        if np.count_nonzero(small):
            up = 2.0**64
            small &= np.abs(rounded(exact * up, np.float32, mode.rnd)) < np.float32(TINY * up)
            result = np.where(small, np.copysign(_ZERO, exact), result).astype(np.float32)
    return np.asarray(_finish(result, mode))


def _wide(mode: ArithmeticMode, *values: Any) -> list[Any]:
    """Return the operands as doubles; with ``.ftz``, subnormal operands become zeros."""
    return [(flushed(v) if mode.ftz else v).astype(np.float64) for v in values]


def add(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    """Return a + b, rounded once, with the modifiers of ``mode``."""
    if mode.rnd == "rn":
        result = a + b
        # Flushing operands changes no result that is zero or at least 2**-100.
        if not mode.ftz or not _within(result, _SMALL):
            return _finish(result, mode)
    x, y = _wide(mode, a, b)
    return round_f32(odd_sum(x, y, mode.rnd), mode)


def multiply(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    """Return a * b, rounded once, with the modifiers of ``mode``."""
    if mode.rnd == "rn":
        result = a * b
        if not mode.ftz or not _delicate(result, a, b):
            return _finish(result, mode)
    x, y = _wide(mode, a, b)
    return round_f32(x * y, mode)  # the product is exact in double


def _rounds_once(a: Any, b: Any, total: Any) -> bool:
    """True if rounding the double ``total`` = a + b to f32 gives the same as rounding the exact sums.

    It gives the same unless the rounding to double turned another value into a tie.
    """
    ties = (total.view(np.int64) & _CUT) == _HALF
    if not np.count_nonzero(ties):
        return True
    # Sums of numbers with few digits are often exact ties.
    part = total - a
    error = (a - (total - part)) + (b - part)
    return not np.count_nonzero(error[ties])


def fma(mode: ArithmeticMode, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once, with the modifiers of ``mode``."""
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
    """Return a / b, rounded once, with the modifiers of ``mode``."""
    if mode.rnd == "rn":
        result = a / b
        if not mode.ftz or not _delicate(result, a, b):
            return _finish(result, mode)
    x, y = _wide(mode, a, b)
    # The double quotient of two f32 is never so close to an f32 boundary that the second rounding is wrong.
    return round_f32(x / y, mode)


def sqrt(mode: ArithmeticMode, a: Any) -> Any:
    """Return the square root of a, rounded once, with the modifiers of ``mode``."""
    if mode.rnd == "rn":
        return _finish(np.sqrt(flushed(a) if mode.ftz else a), mode)
    (x,) = _wide(mode, a)
    # The same holds for a double root.
    return round_f32(np.sqrt(x), mode)
