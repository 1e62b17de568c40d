"""Conversions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..rounding import directed, flush
from ..semantics import Op, executes

Array = NDArray[Any]


def _int_scalar(chosen: dict[str, str]) -> str:
    if "sat" not in chosen:
        return "{a}"
    low, high = TYPES[chosen["dtype"]].limits
    return f"min(max({{a}}, {low}), {high})"


@executes("cvt.int", scalar=_int_scalar)
def cvt_int(op: Op, a: Array) -> Any:
    dtype = TYPES[op.chosen["dtype"]].register_dtype
    if "sat" in op.chosen:
        low, high = TYPES[op.chosen["dtype"]].limits
        source_low, source_high = TYPES[op.chosen["atype"]].limits
        a = np.clip(a, max(low, source_low), min(high, source_high))
    return np.asarray(a).astype(dtype)


@executes("cvt.float_from_int")
def cvt_float_from_int(op: Op, a: Array) -> Any:
    a = np.atleast_1d(a)
    nearest = a.astype(TYPES[op.chosen["dtype"]].register_dtype)
    return directed(nearest, lambda i: Fraction(int(a[i])), op.chosen["rnd"])


_ROUNDERS: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@executes("cvt.int_from_float")
def cvt_int_from_float(op: Op, a: Array) -> Any:
    (a,) = flush(op, a)
    kind = TYPES[op.chosen["dtype"]]
    low, high = TYPES[op.chosen["dtype"]].limits
    rounded = _ROUNDERS[op.chosen["irnd"]](np.asarray(a, np.float64))
    # The limits of 64-bit types are not doubles: compare first, convert what is inside.
    inside = (rounded > float(low)) & (rounded < float(high))
    result = np.where(inside, rounded, 0).astype(kind.register_dtype)
    result = np.where(rounded >= float(high), kind.register_dtype.type(high), result)
    result = np.where(rounded <= float(low), kind.register_dtype.type(low), result)
    # Measured on an H200: NaN becomes 0, but the top bit alone where source or result has 64 bits.
    wide = kind.bits == 64 or op.chosen["atype"] == "f64"
    nan = 0 if not wide else (low if kind.kind == "s" else 1 << (kind.bits - 1))
    return np.where(np.isnan(rounded), kind.register_dtype.type(nan), result)


def _narrow(op: Op, a: Array, name: str) -> Any:
    """f32 to f16 or bf16 bits."""
    dtype: Any = np.float16 if name == "f16" else ml_dtypes.bfloat16
    a = np.asarray(a, np.float32)
    result = a.astype(dtype)
    if op.chosen["rnd"] == "rz":
        back = result.astype(np.float32)
        beyond = np.abs(back) > np.abs(a)
        # One step toward zero is one less in the bits, of either sign; infinity steps to the largest.
        bits = result.view(np.uint16)
        result = np.where(beyond, bits - np.uint16(1), bits).astype(np.uint16).view(dtype)
    bits = result.view(np.uint16)
    return np.where(np.isnan(a), np.uint16(0x7FFF), bits)


@executes("cvt.narrow16")
def cvt_narrow16(op: Op, a: Array) -> Any:
    bits = np.atleast_1d(_narrow(op, a, op.chosen["dtype"]))
    return bits.view(TYPES[op.chosen["dtype"]].register_dtype)


@executes("cvt.pack16")
def cvt_pack16(op: Op, a: Array, b: Array) -> Any:
    name = op.chosen["dtype"][:-2]
    upper = _narrow(op, a, name).astype(np.uint32)
    return upper << np.uint32(16) | _narrow(op, b, name).astype(np.uint32)


@executes("cvt.widen16")
def cvt_widen16(op: Op, a: Array) -> Any:
    if op.chosen["atype"] == "f16":
        (wide,) = flush(op, np.asarray(a).astype(np.float32))
        return np.asarray(wide)
    return (np.atleast_1d(a).astype(np.uint32) << np.uint32(16)).view(np.float32)
