"""Comparison and selection instructions: setp, set, selp, slct."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..code.propagation import copied
from ..code.semantic import Op, executes
from ..numbers.packed import elements, flushed, joined, numbers

Array = NDArray[Any]

#: Comparison -> ufunc and operator. On floats they are ordered (false if an operand is a NaN), except ``ne``.
_PLAIN = {
    "eq": ("equal", "=="),
    "ne": ("not_equal", "!="),
    "lt": ("less", "<"),
    "le": ("less_equal", "<="),
    "gt": ("greater", ">"),
    "ge": ("greater_equal", ">="),
    "lo": ("less", "<"),
    "ls": ("less_equal", "<="),
    "hi": ("greater", ">"),
    "hs": ("greater_equal", ">="),
}
#: Comparison that is true with a NaN -> its complement, which is false with a NaN.
_COMPLEMENT = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt", "nan": "num"}
#: The ufuncs that combine a comparison with a predicate.
_COMBINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compare(name: str, a: Any, b: Any) -> Any:
    """Return, for each element, whether the comparison ``name`` holds for ``a`` and ``b``."""
    if name in _COMPLEMENT:
        return ~_compare(_COMPLEMENT[name], a, b)
    if name == "neu":
        return np.not_equal(a, b)
    if name == "num":
        return np.equal(a, a) & np.equal(b, b)
    if name == "ne" and a.dtype.kind == "f":
        return np.less(a, b) | np.greater(a, b)
    return getattr(np, _PLAIN[name][0])(a, b)


def _truth(op: Op, a: Array, b: Array) -> Any:
    """Return the result of the instruction's comparison: ``(n,)``, or ``(n, k)`` for packed operands."""
    kind = op.cache.get("kind")
    if kind is None:
        spec = next(s for s in op.binding.match.form.specs() if s.name == "a")
        kind = op.cache["kind"] = spec.scalar_types(op.chosen)[0].name
    a, b = numbers(a, kind), numbers(b, kind)
    if "ftz" in op.chosen:
        a, b = flushed(a), flushed(b)
    return _compare(op.chosen["cmp"], a, b)


# --- setp -------------------------------------------------------------------------------------


def _is_float(chosen: dict[str, str]) -> bool:
    return chosen.get("type", "f")[0] == "f"


def _setp_scalar(chosen: dict[str, str]) -> str | None:
    return None if _is_float(chosen) else f"{{a}} {_PLAIN[chosen['cmp']][1]} {{b}}"


def _setp_array(chosen: dict[str, str]) -> str | None:
    name = chosen["cmp"]
    if name == "neu":
        return "np.not_equal({a}, {b}, {out})"
    if name not in _PLAIN or (name == "ne" and _is_float(chosen)):
        return None
    return f"np.{_PLAIN[name][0]}({{a}}, {{b}}, {{out}})"


@executes("setp", scalar=_setp_scalar, array=_setp_array)
def setp(op: Op, a: Array, b: Array) -> Any:
    holds = _compare(op.chosen["cmp"], a, b)
    return (holds, ~holds) if op.pair else holds


@executes("setp.ftz")
def setp_ftz(op: Op, a: Array, b: Array) -> Any:
    holds = _truth(op, a, b)
    return (holds, ~holds) if op.pair else holds


def _setp_bool_scalar(chosen: dict[str, str]) -> str | None:
    plain = _setp_scalar(chosen)
    symbol = {"and": "and", "or": "or", "xor": "!="}[chosen["bool"]]
    return None if plain is None else f"({plain}) {symbol} {{c}}"


def _setp_bool_array(chosen: dict[str, str]) -> str | None:
    plain = None if "ftz" in chosen else _setp_array(chosen)
    if plain is None:
        return None
    return f"np.logical_{chosen['bool']}({plain.replace(', {out}', '')}, {{c}}, {{out}})"


@executes("setp.bool", scalar=_setp_bool_scalar, array=_setp_bool_array)
def setp_bool(op: Op, a: Array, b: Array, c: Array) -> Any:
    combined, holds = _COMBINED[op.chosen["bool"]], _truth(op, a, b)
    return (combined(holds, c), combined(~holds, c)) if op.pair else combined(holds, c)


def _with_predicate(op: Op, holds: Any, c: Array | None) -> Any:
    """Combine the comparison's result with the predicate operand ``c``, if the instruction has one."""
    if c is None:
        return holds
    of_each = c if holds.ndim < 2 else np.reshape(c, (-1, 1))
    return _COMBINED[op.chosen["bool"]](holds, of_each)


@executes("setp.half", "setp.bfloat")
def setp_narrow(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    return _with_predicate(op, _truth(op, a, b), c)


@executes("setp.half2", "setp.bfloat2")
def setp_packed(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    holds = _with_predicate(op, _truth(op, a, b), c)
    return (holds[:, 0], holds[:, 1]) if op.pair else holds[:, 0]


# --- set --------------------------------------------------------------------------------------

_HALF_ONE, _BFLOAT_ONE = np.uint16(0x3C00), np.uint16(0x3F80)


def _set_scalar(chosen: dict[str, str]) -> str | None:
    if chosen["dtype"] == "f32" or _is_float(chosen):
        return None
    plain = _setp_bool_scalar(chosen) if "bool" in chosen else _setp_scalar(chosen)
    return f"-({plain})"


@executes("set", scalar=_set_scalar)
def set_word(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    holds = _with_predicate(op, _truth(op, a, b), c)
    return holds.astype(np.float32) if op.chosen["dtype"] == "f32" else -holds.astype(np.int32)


@executes("set.half", "set.half.half")
def set_half(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    return _with_predicate(op, _truth(op, a, b), c).astype(np.float16)


@executes("set.bfloat", "set.bfloat.half")
def set_bfloat(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    return _with_predicate(op, _truth(op, a, b), c) * _BFLOAT_ONE


@executes("set.int.half", "set.int.bfloat")
def set_integer(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    return -_with_predicate(op, _truth(op, a, b), c).astype(np.int32)


@executes("set.half2", "set.bfloat2")
def set_packed_float(op: Op, a: Array, b: Array, c: Array | None) -> Any:
    one = {"f16x2": _HALF_ONE, "bf16x2": _BFLOAT_ONE}.get(op.chosen["dtype"], np.uint16(0xFFFF))
    return joined(_with_predicate(op, _truth(op, a, b), c) * one)


@executes("set.packed")
def set_packed(op: Op, a: Array, b: Array) -> Any:
    kind = TYPES[op.chosen["type"]]
    dtype = np.dtype(f"{'i' if kind.kind == 's' else 'u'}{kind.nbytes // kind.lanes}")
    holds = _compare(op.chosen["cmp"], elements(a, dtype), elements(b, dtype))
    return joined(-holds.astype(f"i{dtype.itemsize}"))


# --- selection --------------------------------------------------------------------------------


@executes("selp", scalar="({a} if {c} else {b})", undefined=copied("a", "b"))
def selp(a: Array, b: Array, c: Array) -> Any:
    return np.where(c, a, b)


@executes("slct.int", undefined=copied("a", "b"), scalar="({a} if {c} >= 0 else {b})")
def slct(a: Array, b: Array, c: Array) -> Any:
    return np.where(c >= 0, a, b)


@executes("slct.float", undefined=copied("a", "b"))
def slct_float(op: Op, a: Array, b: Array, c: Array) -> Any:
    # c >= 0 is false for a NaN and true for -0.
    return np.where((flushed(c) if "ftz" in op.chosen else c) >= 0, a, b)
