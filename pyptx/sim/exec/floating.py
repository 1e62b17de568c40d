"""Floating point: f32 and f64 arithmetic, correctly rounded in the mode that the form names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..semantics import Op, executes

Array = NDArray[Any]


def flush(op: Op, *values: Any) -> tuple[Any, ...]:
    """Operands with subnormals flushed to zero of their sign, if the form says .ftz."""
    if "ftz" not in op.chosen:
        return values
    tiny = np.finfo(np.float32).tiny
    return tuple(np.where(np.abs(v) < tiny, np.copysign(np.float32(0), v), v) for v in values)


def round_f32(op: Op, exact: Array, rnd: str) -> Any:
    """A double result as f32 in mode ``rnd`` (``exact`` must determine it), then .ftz and .sat."""
    result = exact.astype(np.float32)
    if rnd != "rn":
        back = result.astype(np.float64)
        if rnd == "rz":
            wrong = np.abs(back) > np.abs(exact)
            result = np.where(wrong, np.nextafter(result, np.float32(0)), result)
        elif rnd == "rm":
            result = np.where(back > exact, np.nextafter(result, np.float32(-np.inf)), result)
        else:
            result = np.where(back < exact, np.nextafter(result, np.float32(np.inf)), result)
    (result,) = flush(op, result)
    if "sat" in op.chosen:
        result = np.where(np.isnan(result), np.float32(0), np.clip(result, np.float32(0), np.float32(1)))
    return result.astype(np.float32)


def _odd_sum(a: Array, b: Array) -> Any:
    """a + b in double, rounded to odd: enough for any later rounding to f32."""
    total = a + b
    # Two-sum: the exact error of the addition.
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    toward = np.where((error > 0) == (total > 0), bits + 1, bits - 1)
    return np.where(inexact, toward, bits).view(np.float64)


def _double(value: Any) -> Any:
    return np.atleast_1d(np.asarray(value, np.float64))


@executes("add.f32")
def add_f32(op: Op, a: Any, b: Any) -> Any:
    a, b = flush(op, a, b)
    return round_f32(op, _odd_sum(*np.broadcast_arrays(_double(a), _double(b))), op.chosen.get("rnd", "rn"))


@executes("sub.f32")
def sub_f32(op: Op, a: Any, b: Any) -> Any:
    return add_f32(op, a, -b)


@executes("mul.f32")
def mul_f32(op: Op, a: Any, b: Any) -> Any:
    a, b = flush(op, a, b)
    # The product of two f32 is exact in double.
    return round_f32(op, _double(a) * _double(b), op.chosen.get("rnd", "rn"))


@executes("fma.f32")
def fma_f32(op: Op, a: Any, b: Any, c: Any) -> Any:
    a, b, c = flush(op, a, b, c)
    product, addend = np.broadcast_arrays(_double(a) * _double(b), _double(c))
    return round_f32(op, _odd_sum(product, addend), op.chosen["rnd"])


@executes("div.f32")
def div_f32(op: Op, a: Any, b: Any) -> Any:
    a, b = flush(op, a, b)
    # A double quotient of two f32 is never so close to an f32 boundary that its rounding misleads.
    return round_f32(op, _double(a) / _double(b), op.chosen["rnd"])


def _nearest_only(op: Op) -> None:
    rnd = op.chosen.get("rnd", "rn")
    if rnd != "rn":
        raise op_not_modelled(op, f".{rnd} of .f64")


def op_not_modelled(op: Op, what: str) -> Exception:
    """A fault that ends the run as incomplete."""
    from ...core.findings import RULES, Finding
    from ..memory import Fault

    return Fault(Finding(RULES["not-modelled"], f"{op.name}: {what} is not modelled yet", op.location))


@executes("add.f64")
def add_f64(op: Op, a: Array, b: Array) -> Any:
    _nearest_only(op)
    return a + b


@executes("sub.f64")
def sub_f64(op: Op, a: Array, b: Array) -> Any:
    _nearest_only(op)
    return a - b


@executes("mul.f64")
def mul_f64(op: Op, a: Array, b: Array) -> Any:
    _nearest_only(op)
    return a * b


@executes("neg.float")
def neg_float(op: Op, a: Array) -> Any:
    (a,) = flush(op, a)
    return -a
