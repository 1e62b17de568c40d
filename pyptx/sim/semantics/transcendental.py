"""Roots, reciprocals and transcendental functions.

With a rounding mode the results are correctly rounded; ``.approx`` results lie within the manual's bounds.
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


_RCP = Bound("#floating-point-instructions-rcp: 1 ulp", ulps=1)
_SQRT = Bound("#floating-point-instructions-sqrt: relative 2**-23", ulps=2)
_RSQRT = Bound("#floating-point-instructions-rsqrt: relative 2**-22.9", ulps=3)
_SINE = Bound("#floating-point-instructions-sin, -cos: absolute 2**-20.5 within two turns", absolute=2**-20.5)
_LG2 = Bound("#floating-point-instructions-lg2: absolute or relative 2**-22", ulps=4, absolute=2**-22)
_EX2 = Bound("#floating-point-instructions-ex2: 2 ulp", ulps=2)
_TANH = Bound("#floating-point-instructions-tanh: relative 2**-11", ulps=2**13)
_HIGH = Bound("a unit of the upper half: #floating-point-instructions-rcp-approx-ftz-f64", ulps=2**32)
_RSQRT64 = Bound("#floating-point-instructions-rsqrt; .ftz: a unit of the upper half", ulps=2**32)
_EX2_HALF = Bound("#half-precision-floating-point-instructions-ex2: relative 2**-9.9", ulps=2)
_EX2_BFLOAT = Bound("#half-precision-floating-point-instructions-ex2: relative 2**-7", ulps=1)
_TANH_HALF = Bound(
    "#half-precision-floating-point-instructions-tanh: absolute 2**-10.987, for bfloats 2**-8",
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
