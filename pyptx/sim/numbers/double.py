"""f64 arithmetic: sums, products, fused multiply-adds, quotients and roots, each rounded once in any mode.

numpy rounds to nearest. Error-free transformations (two-sum, Dekker's product) give the sign of the rounding
error, and with this sign the result moves to the other modes. These transformations fail only for extreme
exponents: such elements are computed with fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import wrong_side
from .rounding import odd_sum, signed_zero

__all__ = ["add", "canonical", "divide", "fma", "multiply", "sqrt", "subtract"]

Array = NDArray[Any]

#: Dekker's splitter for 53 bits.
_SPLIT = np.array((1 << 27) + 1, np.float64)
#: Bounds of moderate numbers: their products are exact as a sum of two doubles, and they can be split.
_LEAST, _LARGEST = np.array(2.0**-900), np.array(2.0**900)
#: Slightly more and less than one: the difference from one exceeds the relative error of a rounding.
_MORE, _LESS = np.array(1 + 2.0**-51), np.array(1 - 2.0**-51)


_QUIET = np.array(1 << 51, np.uint64)
#: The NaN of an operation on numbers.
_INVALID = np.array(0xFFF8 << 48, np.uint64).view(np.float64)


def canonical(result: Any, *operands: Any) -> Any:
    """Replace NaNs of the result by the first operand that is a NaN, made quiet.

    Measured on an H200: the NaN keeps sign and payload, and the order of the operands decides which one.
    """
    nan = np.isnan(result)
    if not np.count_nonzero(nan):
        return result
    value: Any = _INVALID
    for operand in reversed(operands):
        quiet = (operand.view(np.uint64) | _QUIET).view(np.float64)
        value = np.where(np.isnan(operand), quiet, value)
    return np.where(nan, value, result)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a * b and its rounding error, for operands and a product of moderate size."""
    total = a * b
    t = _SPLIT * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLIT * b
    b_high = t - (t - b)
    b_low = b - b_high
    error = ((a_high * b_high - total) + a_high * b_low + a_low * b_high) + a_low * b_low
    return total, error


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _moderate(*values: Array) -> Array:
    """Return a mask: true where all values are neither tiny nor huge."""
    sizes = [np.abs(value) for value in values]
    within = [(size >= _LEAST) & (size <= _LARGEST) for size in sizes]
    return np.asarray(np.logical_and.reduce(within))


def _arrays(*values: Any) -> list[Array]:
    return list(np.broadcast_arrays(*map(np.atleast_1d, values)))


def _settled(
    nearest: Array, error: Array, outside: Array, exact: Callable[[int], Fraction], rnd: str
) -> Array:
    """Round to a mode, from the nearest result and the sign of its error (exact value minus nearest).

    If the nearest result of a finite exact value is infinite, the error points back to it. Elements
    ``outside`` the range of the fast way are computed again with fractions.
    """
    if np.count_nonzero(outside):
        nearest, error = _exactly(nearest, error, outside, exact, rnd)
    return wrong_side(nearest, error < 0, error > 0, rnd)


def _exactly(
    result: Array, error: Array, where: Array, exact: Callable[[int], Fraction], rnd: str
) -> tuple[Array, Array]:
    result, error = result.copy(), error.copy()
    for i in np.nonzero(where)[0].tolist():
        truth = exact(i)
        try:
            value = float(truth)
        except OverflowError:
            value = np.inf if truth > 0 else -np.inf
        if np.isinf(value):
            error[i] = -np.sign(value)
        else:
            error[i] = (truth > Fraction(value)) - (truth < Fraction(value))
        # A nonzero exact value keeps its sign; a sum that cancels to zero gets the sign of the mode.
        minus = truth < 0 or (truth == 0 and rnd == "rm")
        result[i] = np.copysign(value, -1.0 if minus else 1.0)
    return result, error


def _fraction(value: Any) -> Fraction:
    return Fraction(float(value))


def add(rnd: str, a: Any, b: Any) -> Any:
    """Return a + b, rounded in mode ``rnd``."""
    return canonical(_add(rnd, a, b), b, a)


def subtract(rnd: str, a: Any, b: Any) -> Any:
    """Return a - b, rounded in mode ``rnd``."""
    return canonical(_add(rnd, a, -b), b, a)


def _add(rnd: str, a: Any, b: Any) -> Any:
    if rnd == "rn":
        return a + b
    a, b = _arrays(a, b)
    total, error = _two_sum(a, b)
    # An overflow of the sum or of an intermediate result: the operands are finite, the error is not.
    odd = ~np.isfinite(error) & np.isfinite(a) & np.isfinite(b)
    total = signed_zero(total, a, b, rnd)
    return _settled(total, error, odd, lambda i: _fraction(a[i]) + _fraction(b[i]), rnd)


def multiply(rnd: str, a: Any, b: Any) -> Any:
    """Return a * b, rounded in mode ``rnd``."""
    return canonical(_multiply(rnd, a, b), b, a)


def _multiply(rnd: str, a: Any, b: Any) -> Any:
    if rnd == "rn":
        return a * b
    a, b = _arrays(a, b)
    total, error = _product(a, b)
    odd = ~_moderate(a, b, total) & np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    return _settled(total, error, odd, lambda i: _fraction(a[i]) * _fraction(b[i]), rnd)


def fma(rnd: str, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once in mode ``rnd``."""
    a, b, c = _arrays(a, b, c)
    return canonical(_fma(rnd, a, b, c) if rnd != "rn" else _fma_nearest(a, b, c), b, c, a)


def _fma_nearest(a: Array, b: Array, c: Array) -> Array:
    product, low = _product(a, b)
    total, rest = _two_sum(product, c)
    tail = rest + low
    result: Array = total + tail
    # The true tail lies between these two: if both give the same result, it is right. A NaN equals nothing.
    sure = (total + tail * _MORE == result) & (total + tail * _LESS == result) & (np.abs(product) >= _LEAST)
    if np.count_nonzero(sure) != sure.size:
        unsure = ~sure
        result[unsure] = _fma("rn", a[unsure], b[unsure], c[unsure])
    return result


def _fma(rnd: str, a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once in mode ``rnd``, for operands of any size."""
    product, low = _product(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    # If a factor is zero or the addend is infinite, the plain sum is exact.
    nothing = finite & ((a == 0) | (b == 0))
    product = np.where(finite & np.isinf(c), 0.0, product)
    low = np.where(nothing, 0.0, low)
    # Boldo and Melquiond: reduce the three terms to two, round the smaller one to odd, then round once.
    high, rest = _two_sum(c, low)
    high, middle = _two_sum(product, high)
    tail = odd_sum(middle, rest, "rn")
    total, error = _two_sum(high, tail)
    plain = nothing | ~finite | ~np.isfinite(c)
    total = np.where(plain, product + c, total)
    odd = ~plain & ~(_moderate(a, b, product) & ((c == 0) | _moderate(c)))
    total = signed_zero(total, product, c, rnd)
    return _settled(total, error, odd, lambda i: _fraction(a[i]) * _fraction(b[i]) + _fraction(c[i]), rnd)


def divide(rnd: str, a: Any, b: Any) -> Any:
    """Return a / b, rounded in mode ``rnd``."""
    return canonical(_divide(rnd, a, b), a, b)


def _divide(rnd: str, a: Any, b: Any) -> Any:
    if rnd == "rn":
        return a / b
    a, b = _arrays(a, b)
    quotient = a / b
    high, low = _product(quotient, b)
    error = ((a - high) - low) * np.sign(b)
    odd = ~_moderate(a, b, quotient) & np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    error = np.where(np.isfinite(a) & np.isfinite(b) & (b != 0), error, 0.0)
    return _settled(quotient, error, odd, lambda i: _fraction(a[i]) / _fraction(b[i]), rnd)


def sqrt(rnd: str, a: Any) -> Any:
    """Return the square root of a, rounded in mode ``rnd``."""
    root = canonical(np.sqrt(a), a)
    if rnd == "rn":
        return root
    a, root = _arrays(a, root)
    # Scale by an even power of two to a moderate size; this does not change the digits of the root.
    _, exponent = np.frexp(a)
    half = exponent // 2
    scaled = np.ldexp(root, -half)
    high, low = _product(scaled, scaled)
    error = (np.ldexp(a, -2 * half) - high) - low
    error = np.where(np.isfinite(a) & (a > 0), error, 0.0)
    return wrong_side(root, error < 0, error > 0, rnd)
