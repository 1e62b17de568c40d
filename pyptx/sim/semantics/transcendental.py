"""Roots, reciprocals and transcendental functions.

Forms with a rounding mode round correctly; results of ``.approx`` are within the manual's error bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Bound, Op, executes
from ..numbers import double, half, single, special

Array = NDArray[Any]

_ONE32, _ONE64 = np.float32(1), np.float64(1)


@executes("rcp.f32")
def rcp_f32(op: Op, a: Any) -> Any:
    return single.divide(op.mode, _ONE32, a)


@executes("rcp.f64")
def rcp_f64(op: Op, a: Any) -> Any:
    return double.divide(op.mode.rnd, _ONE64, a)


@executes("sqrt.f32")
def sqrt_f32(op: Op, a: Any) -> Any:
    return single.sqrt(op.mode, a)


@executes("sqrt.f64")
def sqrt_f64(op: Op, a: Any) -> Any:
    return double.sqrt(op.mode.rnd, a)


_RCP = Bound("the manual's bound (#floating-point-instructions-rcp)", ulps=1)
_SQRT = Bound("the manual allows a relative error of 2**-23 (#floating-point-instructions-sqrt)", ulps=2)
_RSQRT = Bound("the manual allows a relative error of 2**-22.9 (#floating-point-instructions-rsqrt)", ulps=3)
_SINE = Bound(
    "the manual allows an absolute error of 2**-20.5 for angles of at most two turns "
    "(#floating-point-instructions-sin, #floating-point-instructions-cos)",
    absolute=2**-20.5,
)
_LG2 = Bound(
    "the manual allows an error of 2**-22, which is absolute for some operands and relative for the others "
    "(#floating-point-instructions-lg2)",
    ulps=4,
    absolute=2**-22,
)
_EX2 = Bound("the manual's bound (#floating-point-instructions-ex2)", ulps=2)
_TANH = Bound("the manual allows a relative error of 2**-11 (#floating-point-instructions-tanh)", ulps=2**13)
_HIGH = Bound(
    "one unit in the last place of the result's upper 32 bits "
    "(#floating-point-instructions-rcp-approx-ftz-f64)",
    ulps=2**32,
)
_RSQRT64 = Bound(
    "for .ftz, one unit in the last place of the result's upper 32 bits (#floating-point-instructions-rsqrt)",
    ulps=2**32,
)
_EX2_HALF = Bound(
    "the manual allows a relative error of 2**-9.9 (#half-precision-floating-point-instructions-ex2)", ulps=2
)
_EX2_BFLOAT = Bound(
    "the manual allows a relative error of 2**-7 (#half-precision-floating-point-instructions-ex2)", ulps=1
)
_TANH_HALF = Bound(
    "the manual allows an absolute error of 2**-10.987 for f16 and of 2**-8 for bf16 "
    "(#half-precision-floating-point-instructions-tanh)",
    ulps=1,
    absolute=2**-8,
)


@executes("rcp.approx.f32", fidelity="bounded", bound=_RCP)
def rcp_approx_f32(op: Op, a: Any) -> Any:
    return special.reciprocal(op.mode, a)


@executes("sqrt.approx.f32", fidelity="bounded", bound=_SQRT)
def sqrt_approx_f32(op: Op, a: Any) -> Any:
    return special.root(op.mode, a)


@executes("rsqrt.f32", fidelity="bounded", bound=_RSQRT)
def rsqrt_f32(op: Op, a: Any) -> Any:
    return special.root_reciprocal(op.mode, a)


@executes("sin.f32", fidelity="bounded", bound=_SINE)
def sin_f32(a: Any) -> Any:
    return special.sine(a)


@executes("cos.f32", fidelity="bounded", bound=_SINE)
def cos_f32(a: Any) -> Any:
    return special.cosine(a)


@executes("lg2.f32", fidelity="bounded", bound=_LG2)
def lg2_f32(op: Op, a: Any) -> Any:
    return special.logarithm(op.mode, a)


@executes("ex2.f32", fidelity="bounded", bound=_EX2)
def ex2_f32(op: Op, a: Any) -> Any:
    return special.exponential(op.mode, a)


@executes("tanh.f32", fidelity="bounded", bound=_TANH)
def tanh_f32(a: Any) -> Any:
    return special.tangent(a)


@executes("rcp.approx.f64", fidelity="bounded", bound=_HIGH)
def rcp_approx_f64(a: Any) -> Any:
    return special.reciprocal_high(a)


@executes("rsqrt.f64", fidelity="bounded", bound=_RSQRT64)
def rsqrt_f64(op: Op, a: Any) -> Any:
    if op.mode.ftz:
        return special.root_reciprocal_high(a)
    return special.root_reciprocal_f64(a)


def _of_halves(op: Op, function: Any, a: Array) -> Any:
    values = a.view(half.dtype_of(op.chosen["type"]))
    return special.half_precision(function, values, ftz=op.mode.ftz).view(a.dtype)


@executes("ex2.half", fidelity="bounded", bound=_EX2_HALF)
def ex2_half(op: Op, a: Array) -> Any:
    return _of_halves(op, np.exp2, a)


@executes("ex2.bfloat", fidelity="bounded", bound=_EX2_BFLOAT)
def ex2_bfloat(op: Op, a: Array) -> Any:
    return _of_halves(op, np.exp2, a)


@executes("tanh.half", fidelity="bounded", bound=_TANH_HALF)
def tanh_half(op: Op, a: Array) -> Any:
    return _of_halves(op, special.unit_tangent, a)
