"""Functions of the special function unit: reciprocals, roots, logarithms, powers of two, sines.

Includes the few instructions around the unit to which ptxas expands a PTX instruction.

The unit flushes subnormal operands and results. For forms without ``.ftz`` the assembler scales operands and
results, so that the unit meets no subnormals. This module returns the exact results rounded to f32; the
hardware unit interpolates in tables and differs by one or two units in the last place (measured on an H200).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import double, half, single
from .rounding import ArithmeticMode

__all__ = [
    "cosine",
    "divide_fast",
    "divide_full",
    "exponential",
    "half_precision",
    "logarithm",
    "reciprocal",
    "reciprocal_high",
    "root",
    "root_reciprocal",
    "root_reciprocal_f64",
    "root_reciprocal_high",
    "sine",
    "tangent",
    "unit_tangent",
]

Array = NDArray[Any]

_F32 = np.float32
_TINY, _HUGE = np.array(single.TINY), np.array(2.0**126, _F32)
#: Powers of two with an exponent below this are subnormal.
_LOW = np.array(-126, _F32)
#: Sine and cosine multiply their operand by this, 1 / (2 pi), rounding toward zero.
_TURN = _F32(0.15915493667125702)
_TOWARD_ZERO = ArithmeticMode("rz", False, False)
_TINY64 = np.finfo(np.float64).tiny
_UPPER = np.uint64(0xFFFFFFFF00000000)
#: The NaN that functions of the upper half of f64 return.
_NAN64 = np.uint64(0x7FFFFFFF00000000).view(np.float64)


def _unit(function: Callable[[Array], Array], a: Any) -> Any:
    """Return the result of one instruction of the unit, with canonical NaNs."""
    exact = function(single.flushed(np.atleast_1d(a)).astype(np.float64))
    return single.canonical(single.flushed(exact.astype(_F32)))


def _scaled(mode: ArithmeticMode, a: Any, up: float, function: Callable[[Array], Array], down: float) -> Any:
    """Return the unit's result of ``function``.

    Without .ftz, a subnormal operand is multiplied by ``up`` first, and its result by ``down``.
    """
    small = np.abs(a) < _TINY
    if mode.ftz or not np.count_nonzero(small):
        return _unit(function, a)
    result = _unit(function, np.where(small, a * _F32(up), a))
    return single.canonical(np.where(small, result * _F32(down), result))


def reciprocal(mode: ArithmeticMode, a: Any) -> Any:
    """Compute ``rcp.approx.f32``."""
    size = np.abs(a)
    if mode.ftz or not np.count_nonzero((size > _HUGE) | (size < _TINY)):
        return _unit(np.reciprocal, a)
    scale = np.where(size < _TINY, _F32(2.0**24), np.where(size > _HUGE, _F32(0.25), _F32(1)))
    return single.canonical(scale * _unit(np.reciprocal, a * scale))


def root(mode: ArithmeticMode, a: Any) -> Any:
    """Compute ``sqrt.approx.f32``."""
    return _scaled(mode, a, 2.0**24, np.sqrt, 2.0**-12)


def root_reciprocal(mode: ArithmeticMode, a: Any) -> Any:
    """Compute ``rsqrt.approx.f32``."""
    return _scaled(mode, a, 2.0**24, _root_reciprocal, 2.0**12)


def _root_reciprocal(a: Array) -> Array:
    return 1 / np.sqrt(a)


def logarithm(mode: ArithmeticMode, a: Any) -> Any:
    """Compute ``lg2.approx.f32``."""
    small = np.abs(a) < _TINY
    if mode.ftz or not np.count_nonzero(small):
        return _unit(np.log2, a)
    result = _unit(np.log2, np.where(small, a * _F32(2.0**24), a))
    return single.canonical(np.where(small, result - _F32(24), result))


def exponential(mode: ArithmeticMode, a: Any) -> Any:
    """Compute ``ex2.approx.f32``."""
    small = a < _LOW
    if mode.ftz or not np.count_nonzero(small):
        return _unit(np.exp2, a)
    result = _unit(np.exp2, np.where(small, a * _F32(0.5), a))
    return np.where(small, result * result, result)


def _turns(a: Any) -> Any:
    """Return an angle in turns instead of radians, with the rounding of the instruction that computes it."""
    return single.multiply(_TOWARD_ZERO, np.atleast_1d(a), _TURN)


def _of_turns(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def result(turns: Array) -> Array:
        # The unit uses 25 bits after the binary point, so only a zero of the function is very small.
        parts = np.trunc(np.fmod(turns, 1) * 2.0**25)
        value = function(parts * (2 * np.pi / 2**25))
        return np.where((np.abs(value) < 2.0**-40) & (parts != 0), 0.0, value)

    return result


def sine(a: Any) -> Any:
    """Compute ``sin.approx.f32`` of an angle in radians."""
    return _unit(_of_turns(np.sin), _turns(a))


def cosine(a: Any) -> Any:
    """Compute ``cos.approx.f32`` of an angle in radians."""
    return _unit(_of_turns(np.cos), _turns(a))


def tangent(a: Any) -> Any:
    """Return the hyperbolic tangent; subnormals are not flushed."""
    return single.canonical(unit_tangent(np.atleast_1d(a).astype(np.float64)).astype(_F32))


def unit_tangent(a: Array) -> Array:
    """Return the hyperbolic tangent of doubles; the unit returns small operands unchanged."""
    return np.where(np.abs(a) <= 2.0**-8, a, np.tanh(a))


def divide_fast(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    """Divide as ``.approx``: the dividend times the reciprocal, which is zero for the largest divisors."""
    if not mode.ftz:
        small = np.abs(b) < _TINY
        a, b = (np.where(small, v * _F32(2.0**24), v) for v in (a, b))
    return single.multiply(mode, a, _unit(np.reciprocal, b))


def divide_full(mode: ArithmeticMode, a: Any, b: Any) -> Any:
    """Divide as ``.full``: scale both operands first if the reciprocal would be subnormal or infinite."""
    size = np.abs(b)
    if not np.count_nonzero((size > _HUGE) | (size < _TINY)):
        return single.multiply(mode, a, _unit(np.reciprocal, b))
    if mode.ftz:
        a, b = single.flushed(a), single.flushed(b)
    scale = np.where(size > _HUGE, _F32(0.25), _F32(1))
    if not mode.ftz:
        scale = np.where(size < _TINY, _F32(2.0**24), scale)
    return single.multiply(mode, a * scale, _unit(np.reciprocal, b * scale))


def half_precision(function: Callable[[Array], Array], a: Array, *, ftz: bool = False) -> Array:
    """Compute a function of f16 or bf16, rounded to f32 and then toward zero to the type, as on an H200."""
    operand = a.astype(_F32)
    if ftz:
        operand = single.flushed(operand)
    result = function(operand.astype(np.float64)).astype(_F32)
    if ftz:
        result = single.flushed(result)
    overflow = 2.0**16 if a.dtype == half.F16 else 2.0**128
    exact = np.where(result >= overflow, np.inf, result.astype(np.float64))
    return half.narrowed(exact, a.dtype, rnd="rz")


def reciprocal_high(a: Any) -> Any:
    """Compute ``rcp.approx.ftz.f64``."""
    return _high_half(np.reciprocal, a)


def root_reciprocal_high(a: Any) -> Any:
    """Compute ``rsqrt.approx.ftz.f64``."""
    return _high_half(_root_reciprocal, a)


def _high_half(function: Callable[[Array], Array], a: Any) -> Any:
    """Compute a function of f64, of which the unit reads and writes only the upper 32 bits.

    Subnormal operands and results are flushed.
    """
    operand = _cut(np.atleast_1d(a))
    result = function(operand * (np.abs(operand) >= _TINY64))
    result = _cut(result * (np.abs(result) >= _TINY64))
    return np.where(np.isnan(result), _NAN64, result)


def _cut(a: Array) -> Array:
    """Clear the lower 32 bits of f64; a NaN with its payload only there becomes infinity."""
    return (a.view(np.uint64) & _UPPER).view(np.float64)


def root_reciprocal_f64(a: Any) -> Any:
    """Compute ``rsqrt.approx.f64`` as ptxas expands it: one Newton step from the unit's upper 32 bits."""
    a = np.atleast_1d(a)
    small = a < _TINY64
    x = np.where(small, a * 2.0**54, a)
    start = root_reciprocal_high(x)
    error = double.fma("rn", x, -(start * start), np.array(1.0))
    result = double.fma("rn", double.fma("rn", error, np.array(0.375), np.array(0.5)), start * error, start)
    result = np.where(small, result * 2.0**27, result)
    ordinary = (a > 0) & np.isfinite(a)
    return double.canonical(np.where(ordinary, result, _root_reciprocal(a)), a)
