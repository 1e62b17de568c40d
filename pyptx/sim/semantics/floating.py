"""Floating point: f32 and f64 arithmetic, correctly rounded in the instruction's rounding mode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Bound, Op, executes
from ..numbers import double, single
from ..numbers.extremes import extreme, signed_by_both
from ..numbers.special import divide_fast, divide_full

Array = NDArray[Any]


@executes("add.f32")
def add_f32(op: Op, a: Any, b: Any) -> Any:
    return single.add(op.mode, a, b)


@executes("sub.f32")
def sub_f32(op: Op, a: Any, b: Any) -> Any:
    return single.add(op.mode, a, -b)


@executes("mul.f32")
def mul_f32(op: Op, a: Any, b: Any) -> Any:
    return single.multiply(op.mode, a, b)


@executes("fma.f32", "mad.f32")
def fma_f32(op: Op, a: Any, b: Any, c: Any) -> Any:
    return single.fma(op.mode, a, b, c)


@executes("div.f32")
def div_f32(op: Op, a: Any, b: Any) -> Any:
    return single.divide(op.mode, a, b)


_QUOTIENT = Bound(
    "the manual's bound, which covers .approx for divisors up to 2**126 (#floating-point-instructions-div)",
    ulps=2,
)


@executes("div.f32.fast", fidelity="bounded", bound=_QUOTIENT)
def div_f32_fast(op: Op, a: Any, b: Any) -> Any:
    return (divide_full if op.chosen["how"] == "full" else divide_fast)(op.mode, a, b)


# --- two f32 in a register --------------------------------------------------------------------


def _pair(a: Array) -> Array:
    """Return registers of two packed f32 as an array of twice as many f32."""
    return a.view(np.float32)


@executes("add.f32x2")
def add_f32x2(op: Op, a: Array, b: Array) -> Any:
    return single.add(op.mode, _pair(a), _pair(b)).view(np.uint64)


@executes("sub.f32x2")
def sub_f32x2(op: Op, a: Array, b: Array) -> Any:
    return single.add(op.mode, _pair(a), -_pair(b)).view(np.uint64)


@executes("mul.f32x2")
def mul_f32x2(op: Op, a: Array, b: Array) -> Any:
    return single.multiply(op.mode, _pair(a), _pair(b)).view(np.uint64)


@executes("fma.f32x2")
def fma_f32x2(op: Op, a: Array, b: Array, c: Array) -> Any:
    return single.fma(op.mode, _pair(a), _pair(b), _pair(c)).view(np.uint64)


# --- f64 --------------------------------------------------------------------------------------


@executes("add.f64")
def add_f64(op: Op, a: Any, b: Any) -> Any:
    return double.add(op.mode.rnd, a, b)


@executes("sub.f64")
def sub_f64(op: Op, a: Any, b: Any) -> Any:
    return double.subtract(op.mode.rnd, a, b)


@executes("mul.f64")
def mul_f64(op: Op, a: Any, b: Any) -> Any:
    return double.multiply(op.mode.rnd, a, b)


@executes("fma.f64", "mad.f64")
def fma_f64(op: Op, a: Any, b: Any, c: Any) -> Any:
    return double.fma(op.mode.rnd, a, b, c)


@executes("div.f64")
def div_f64(op: Op, a: Any, b: Any) -> Any:
    return double.divide(op.mode.rnd, a, b)


# --- signs and comparisons --------------------------------------------------------------------


def _taken(op: Op, *values: Any) -> tuple[Any, ...]:
    return tuple(map(single.flushed, values)) if op.mode.ftz else values


@executes("neg.float")
def neg_float(op: Op, a: Any) -> Any:
    if op.chosen["type"] == "f64":
        return double.canonical(-a, a)
    (a,) = _taken(op, -a)
    return single.canonical(a)


@executes("abs.float")
def abs_float(op: Op, a: Any) -> Any:
    if op.chosen["type"] == "f64":
        return double.canonical(np.abs(a), a)
    (a,) = _taken(op, np.abs(a))
    return single.canonical(a)


def _extreme_f32(op: Op, largest: bool, a: Any, b: Any) -> Any:
    a, b = _taken(op, a, b)
    chosen = op.chosen
    if "xorsign" in chosen:
        result = signed_by_both(extreme(largest, "NaN" in chosen, np.abs(a), np.abs(b)), a, b)
    else:
        result = extreme(largest, "NaN" in chosen, a, b)
    return single.canonical(result)


@executes("min.f32")
def min_f32(op: Op, a: Any, b: Any) -> Any:
    return _extreme_f32(op, False, a, b)


@executes("max.f32")
def max_f32(op: Op, a: Any, b: Any) -> Any:
    return _extreme_f32(op, True, a, b)


def _extreme3_f32(op: Op, largest: bool, *values: Any) -> Any:
    if "abs" in op.chosen:
        values = tuple(map(np.abs, values))
    a, b, c = _taken(op, *values)
    nan = "NaN" in op.chosen
    return single.canonical(extreme(largest, nan, extreme(largest, nan, a, b), c))


@executes("min3.f32")
def min3_f32(op: Op, a: Any, b: Any, c: Any) -> Any:
    return _extreme3_f32(op, False, a, b, c)


@executes("max3.f32")
def max3_f32(op: Op, a: Any, b: Any, c: Any) -> Any:
    return _extreme3_f32(op, True, a, b, c)


@executes("min.f64")
def min_f64(a: Any, b: Any) -> Any:
    return double.canonical(extreme(False, False, a, b), b)


@executes("max.f64")
def max_f64(a: Any, b: Any) -> Any:
    return double.canonical(extreme(True, False, a, b), b)


@executes("testp")
def testp(op: Op, a: Any) -> Any:
    test = op.chosen["op"]
    if test == "finite":
        return np.isfinite(a)
    if test == "infinite":
        return np.isinf(a)
    if test in ("number", "notanumber"):
        return np.isnan(a) if test == "notanumber" else ~np.isnan(a)
    subnormal = (np.abs(a) < np.finfo(a.dtype).tiny) & (a != 0)
    # Zeros count as normal (#floating-point-instructions-testp).
    return subnormal if test == "subnormal" else np.isfinite(a) & ~subnormal


@executes("copysign")
def copysign(a: Any, b: Any) -> Any:
    return np.copysign(b, a)
