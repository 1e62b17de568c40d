"""Arithmetic on f16 and bf16, single and in pairs, in mixed precision, and on floats of 8 bits and fewer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op, executes
from ..numbers import half, single
from ..numbers.extremes import extreme, signed_by_both
from ..numbers.formats import FORMATS, decoded, encode
from ..numbers.rounding import odd_sum

Array = NDArray[Any]

#: The NaN, of either sign, that marks an element out of bounds: with .oob, a factor of this value makes the
#: result zero (#half-precision-floating-point-instructions-fma; measured on an H200).
_OUT_OF_BOUNDS, _MAGNITUDE = np.uint16(0x7FF7), np.uint16(0x7FFF)


def _halves(op: Op, *values: Array) -> list[Any]:
    """Return the operands, single or packed, as arrays of f16 or bf16."""
    dtype = half.dtype_of(op.chosen["type"])
    return [v.view(dtype) for v in values]


def _saturated(result: Array) -> Array:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    return np.asarray(np.where(result > 0, np.minimum(result, result.dtype.type(1)), result.dtype.type(0)))


@executes("add.half", "add.bfloat")
def add_half(op: Op, a: Array, b: Array) -> Any:
    mode = op.mode
    x, y = _halves(op, a, b)
    result = half.add(x, y, mode.ftz)
    return (_saturated(result) if mode.sat else result).view(a.dtype)


@executes("sub.half", "sub.bfloat")
def sub_half(op: Op, a: Array, b: Array) -> Any:
    (y,) = _halves(op, b)
    return add_half(op, a, (-y).view(b.dtype))


@executes("mul.half", "mul.bfloat")
def mul_half(op: Op, a: Array, b: Array) -> Any:
    mode = op.mode
    x, y = _halves(op, a, b)
    result = half.multiply(x, y, mode.ftz)
    return (_saturated(result) if mode.sat else result).view(a.dtype)


@executes("fma.half", "fma.bfloat")
def fma_half(op: Op, a: Array, b: Array, c: Array) -> Any:
    mode = op.mode
    x, y, addend = _halves(op, a, b, c)
    result = half.fma(x, y, addend, mode.ftz)
    if mode.sat:
        result = _saturated(result)
    if "relu" in op.chosen:
        result = np.where(result <= 0, result.dtype.type(0), result)
    if "oob" in op.chosen:
        outside = [v.view(np.uint16) & _MAGNITUDE == _OUT_OF_BOUNDS for v in (x, y)]
        result = np.where(outside[0] | outside[1], result.dtype.type(0), result)
    return result.view(a.dtype)


def _flushed(op: Op, *values: Array) -> tuple[Array, ...]:
    return tuple(map(half.flushed, values)) if op.mode.ftz else values


@executes("neg.half", "neg.bfloat")
def neg_half(op: Op, a: Array) -> Any:
    (x,) = _flushed(op, *_halves(op, a))
    return half.canonical(-x).view(a.dtype)


@executes("abs.half", "abs.bfloat")
def abs_half(op: Op, a: Array) -> Any:
    (x,) = _flushed(op, *_halves(op, a))
    return half.canonical(np.abs(x)).view(a.dtype)


def _extreme(op: Op, largest: bool, a: Array, b: Array) -> Any:
    x, y = _flushed(op, *_halves(op, a, b))
    if "xorsign" in op.chosen:
        result = signed_by_both(extreme(largest, "NaN" in op.chosen, np.abs(x), np.abs(y)), x, y)
    else:
        result = extreme(largest, "NaN" in op.chosen, x, y)
    return half.canonical(result).view(a.dtype)


@executes("min.half", "min.bfloat")
def min_half(op: Op, a: Array, b: Array) -> Any:
    return _extreme(op, False, a, b)


@executes("max.half", "max.bfloat")
def max_half(op: Op, a: Array, b: Array) -> Any:
    return _extreme(op, True, a, b)


# --- mixed precision --------------------------------------------------------------------------


def _widened(a: Array, kind: str) -> Array:
    """Convert f16 or bf16, single or packed, to f32."""
    return a.view(half.dtype_of(kind)).astype(np.float32)


@executes("add.mixed")
def add_mixed(op: Op, a: Array, c: Any) -> Any:
    return single.add(op.mode, _widened(a, op.chosen["atype"]), c)


@executes("sub.mixed")
def sub_mixed(op: Op, a: Array, c: Any) -> Any:
    return single.add(op.mode, _widened(a, op.chosen["atype"]), -c)


@executes("fma.mixed")
def fma_mixed(op: Op, a: Array, b: Array, c: Any) -> Any:
    kind = op.chosen["abtype"]
    return single.fma(op.mode, _widened(a, kind), _widened(b, kind), c)


def _pair(a: Array) -> Array:
    """Return registers that pack two f32 each as an array of twice as many f32."""
    return a.view(np.float32)


@executes("add.mixed.packed")
def add_mixed_packed(op: Op, a: Array, c: Array) -> Any:
    return single.add(op.mode, _widened(a, op.chosen["atype"]), _pair(c)).view(np.uint64)


@executes("sub.mixed.packed")
def sub_mixed_packed(op: Op, a: Array, c: Array) -> Any:
    return single.add(op.mode, _widened(a, op.chosen["atype"]), -_pair(c)).view(np.uint64)


@executes("fma.mixed.packed")
def fma_mixed_packed(op: Op, a: Array, b: Array, c: Array) -> Any:
    return single.fma(op.mode, _widened(a, op.chosen["atype"]), _pair(b), _pair(c)).view(np.uint64)


def _wide(op: Op, *packs: Array) -> tuple[Array, ...]:
    """Return registers of two packed f32 as doubles; with .ftz, subnormal operands become zeros first."""
    values = tuple(map(_pair, packs))
    if op.mode.ftz:
        values = tuple(map(single.flushed, values))
    return tuple(v.astype(np.float64) for v in values)


def _narrowed(op: Op, exact: Array) -> Array:
    """Round doubles toward zero and pack two f16 or bf16 into each register."""
    dtype = half.dtype_of(op.chosen["dtype"])
    return half.narrowed(exact, dtype, rnd="rz", ftz=op.mode.ftz).view(np.uint32)


@executes("add.narrow")
def add_narrow(op: Op, a: Array, c: Array) -> Any:
    x, y = _wide(op, a, c)
    return _narrowed(op, odd_sum(x, y, "rz"))


@executes("sub.narrow")
def sub_narrow(op: Op, a: Array, c: Array) -> Any:
    x, y = _wide(op, a, c)
    return _narrowed(op, odd_sum(x, -y, "rz"))


@executes("mul.narrow")
def mul_narrow(op: Op, a: Array, c: Array) -> Any:
    x, y = _wide(op, a, c)
    return _narrowed(op, x * y)


# --- 8-bit and narrower floats ----------------------------------------------------------------


def _fours(a: Array, kind: str) -> Array:
    """Return registers of four narrow floats as doubles ``(n, 4)``.

    Each float lies in the low bits of its byte (so does ``.e2m1p4x4``, according to the machine code). Only
    ``.e2m1x4`` packs its four floats into 16 bits without gaps.
    """
    name = kind.removesuffix("x4").removesuffix("p4")
    if kind == "e2m1x4":
        codes: Array = a[:, None] >> np.array([0, 4, 8, 12], np.uint16)
    else:
        codes = a.view(np.uint8).reshape(-1, 4)
    return np.asarray(decoded(name)[codes & ((1 << FORMATS[name].width) - 1)])


def _packed(op: Op, exact: Array, kind: str) -> Array:
    name = kind.removesuffix("x4")
    codes = encode(exact, FORMATS[name], "rn", saturate="satfinite" in op.chosen)
    return np.ascontiguousarray(codes.astype(np.uint8)).view(np.uint32).reshape(-1)


@executes("add.narrow8")
def add_narrow8(op: Op, a: Array, c: Array) -> Any:
    kind = op.chosen["cdtype"]
    return _packed(op, odd_sum(_fours(a, op.chosen["atype"]), _fours(c, kind), "rn"), kind)


@executes("sub.narrow8")
def sub_narrow8(op: Op, a: Array, c: Array) -> Any:
    kind = op.chosen["cdtype"]
    return _packed(op, odd_sum(_fours(a, op.chosen["atype"]), -_fours(c, kind), "rn"), kind)


@executes("mul.narrow8")
def mul_narrow8(op: Op, a: Array, c: Array) -> Any:
    return _packed(op, _fours(a, op.chosen["atype"]) * _fours(c, op.chosen["ctype"]), op.chosen["dtype"])


@executes("fma.narrow8")
def fma_narrow8(op: Op, a: Array, b: Array, c: Array) -> Any:
    kind = op.chosen["cdtype"]
    product = _fours(a, op.chosen["atype"]) * _fours(b, op.chosen["btype"])
    return _packed(op, odd_sum(product, _fours(c, kind), "rn"), kind)
