"""Integer arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..semantics import Op, executes

Array = NDArray[Any]

_WIDE = {np.dtype(f"{k}{n}"): np.dtype(f"{k}{2 * n}") for k in "ui" for n in (2, 4)}


def _saturated(symbol: str) -> Any:
    def scalar(chosen: dict[str, str]) -> str:
        if "sat" not in chosen:
            return f"{{a}} {symbol} {{b}}"
        low, high = TYPES[chosen["type"]].limits
        return f"min(max({{a}} {symbol} {{b}}, {low}), {high})"

    return scalar


@executes("add.int", scalar=_saturated("+"))
def add(op: Op, a: Array, b: Array) -> Any:
    if "sat" in op.chosen:
        low, high = TYPES[op.chosen["type"]].limits
        return np.clip(np.asarray(a, np.int64) + np.asarray(b, np.int64), low, high)
    return a + b


@executes("sub.int", scalar=_saturated("-"))
def sub(op: Op, a: Array, b: Array) -> Any:
    if "sat" in op.chosen:
        low, high = TYPES[op.chosen["type"]].limits
        return np.clip(np.asarray(a, np.int64) - np.asarray(b, np.int64), low, high)
    return a - b


def _high(a: Array, b: Array) -> Any:
    """The high half of a product."""
    dtype = np.result_type(a, b)
    if dtype in _WIDE:
        wide = _WIDE[dtype]
        return (a.astype(wide) * b.astype(wide) >> dtype.itemsize * 8).astype(dtype)
    return (a.astype(object) * b.astype(object) >> 64).astype(dtype)


def _half_scalar(chosen: dict[str, str]) -> str:
    return "{a} * {b}" if chosen["half"] == "lo" else f"({{a}} * {{b}}) >> {TYPES[chosen['type']].bits}"


@executes("mul.int", scalar=_half_scalar)
def mul(op: Op, a: Array, b: Array) -> Any:
    return a * b if op.chosen["half"] == "lo" else _high(*np.broadcast_arrays(a, b))


@executes("mul.wide", scalar="{a} * {b}")
def mul_wide(a: Array, b: Array) -> Any:
    wide = _WIDE[np.result_type(a, b)]
    return a.astype(wide) * b.astype(wide)


def _mad_scalar(chosen: dict[str, str]) -> str:
    return f"({_half_scalar(chosen)}) + {{c}}"


@executes("mad.int", scalar=_mad_scalar)
def mad(op: Op, a: Array, b: Array, c: Array) -> Any:
    return mul(op, a, b) + c


@executes("mad.wide", scalar="{a} * {b} + {c}")
def mad_wide(a: Array, b: Array, c: Array) -> Any:
    return mul_wide(a, b) + c


def _truncating(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient toward zero and remainder; a zero divisor gives all ones and the dividend."""
    a, b = np.broadcast_arrays(a, b)
    zero = b == 0
    divisor = np.where(zero, np.ones_like(b), b)
    if a.dtype.kind == "u":
        quotient = a // divisor
    else:
        quotient = _signed_quotient(a, divisor)
    remainder = a - quotient * divisor
    return np.where(zero, ~np.zeros_like(a), quotient), np.where(zero, a, remainder)


def _signed_quotient(a: Array, b: Array) -> Any:
    floor = a // b
    return floor + ((a % b != 0) & ((a < 0) != (b < 0)))


@executes("div.int", scalar="({a} // {b} if ({a} < 0) == ({b} < 0) else -(-{a} // {b})) if {b} else -1")
def div(a: Array, b: Array) -> Any:
    return _truncating(a, b)[0]


@executes("rem.int", scalar="({a} % {b} if ({a} < 0) == ({b} < 0) else {a} % -{b}) if {b} else {a}")
def rem(a: Array, b: Array) -> Any:
    return _truncating(a, b)[1]


@executes("neg.int", scalar="-{a}")
def neg(a: Array) -> Any:
    return -a


@executes("min.int", scalar="min({a}, {b})")
def minimum(a: Array, b: Array) -> Any:
    return np.minimum(a, b)


@executes("max.int", scalar="max({a}, {b})")
def maximum(a: Array, b: Array) -> Any:
    return np.maximum(a, b)
