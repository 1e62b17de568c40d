"""Comparison and selection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..semantics import Op, executes

Array = NDArray[Any]

_OPERATORS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_FUNCTIONS: dict[str, Any] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _compare(name: str, a: Any, b: Any) -> Any:
    if name in ("num", "nan"):
        unordered = np.isnan(a) | np.isnan(b)
        return unordered if name == "nan" else ~unordered
    if name.endswith("u") and name[:-1] in _OPERATORS:
        return np.asarray(_FUNCTIONS[_OPERATORS[name[:-1]]](a, b) | np.isnan(a) | np.isnan(b))
    result = np.asarray(_FUNCTIONS[_OPERATORS[name]](a, b))
    if name == "ne" and np.asarray(a).dtype.kind == "f":
        # Ordered: false if either is NaN.
        result &= ~(np.isnan(a) | np.isnan(b))
    return result


def _setp_scalar(chosen: dict[str, str]) -> str | None:
    if chosen["type"][0] == "f":
        return None
    return f"{{a}} {_OPERATORS[chosen['cmp']]} {{b}}"


@executes("setp", scalar=_setp_scalar)
def setp(op: Op, a: Array, b: Array) -> Any:
    result = _compare(op.chosen["cmp"], a, b)
    return (result, ~result) if op.pair else result


@executes("selp", scalar="{a} if {c} else {b}")
def selp(a: Array, b: Array, c: Array) -> Any:
    return np.where(c, a, b)
