"""Floating point: f32 and f64 arithmetic, correctly rounded in the mode that the form names."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rounding import directed, double, flush, odd_sum, round_f32, signed_zero
from ..semantics import Op, executes

Array = NDArray[Any]


def _mode(op: Op) -> str:
    return op.chosen.get("rnd", "rn")


@executes("add.f32")
def add_f32(op: Op, a: Any, b: Any) -> Any:
    a, b = flush(op, a, b)
    x, y = np.broadcast_arrays(double(a), double(b))
    return round_f32(op, odd_sum(x, y, _mode(op)), _mode(op))


@executes("sub.f32")
def sub_f32(op: Op, a: Any, b: Any) -> Any:
    return add_f32(op, a, -b)


@executes("mul.f32")
def mul_f32(op: Op, a: Any, b: Any) -> Any:
    a, b = flush(op, a, b)
    # The product of two f32 is exact in double.
    return round_f32(op, double(a) * double(b), _mode(op))


@executes("fma.f32")
def fma_f32(op: Op, a: Any, b: Any, c: Any) -> Any:
    a, b, c = flush(op, a, b, c)
    product, addend = np.broadcast_arrays(double(a) * double(b), double(c))
    return round_f32(op, odd_sum(product, addend, _mode(op)), _mode(op))


@executes("div.f32")
def div_f32(op: Op, a: Any, b: Any) -> Any:
    a, b = flush(op, a, b)
    # A double quotient of two f32 is never so close to an f32 boundary that its rounding misleads.
    return round_f32(op, double(a) / double(b), _mode(op))


def _exactly(
    operation: Callable[[Fraction, Fraction], Fraction], a: Array, b: Array
) -> Callable[[int], Fraction | None]:
    def exact(i: int) -> Fraction | None:
        x, y = float(a[i]), float(b[i])
        return operation(Fraction(x), Fraction(y)) if np.isfinite(x) and np.isfinite(y) else None

    return exact


def _sum_f64(op: Op, a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(double(a), double(b))
    nearest = signed_zero(a + b, a, b, _mode(op))
    return directed(nearest, _exactly(lambda x, y: x + y, a, b), _mode(op))


@executes("add.f64")
def add_f64(op: Op, a: Any, b: Any) -> Any:
    return _sum_f64(op, a, b)


@executes("sub.f64")
def sub_f64(op: Op, a: Any, b: Any) -> Any:
    return _sum_f64(op, a, -b)


@executes("mul.f64")
def mul_f64(op: Op, a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(double(a), double(b))
    return directed(a * b, _exactly(lambda x, y: x * y, a, b), _mode(op))


@executes("div.f64")
def div_f64(op: Op, a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(double(a), double(b))
    exact = _exactly(lambda x, y: x / y, a, b)
    return directed(a / b, lambda i: exact(i) if b[i] else None, _mode(op))


@executes("neg.float")
def neg_float(op: Op, a: Array) -> Any:
    (a,) = flush(op, a)
    return -a
