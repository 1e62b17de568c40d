"""Logic and shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..semantics import Op, executes

Array = NDArray[Any]


@executes("and", scalar="{a} & {b}")
def bitwise_and(a: Array, b: Array) -> Any:
    return a & b


@executes("or", scalar="{a} | {b}")
def bitwise_or(a: Array, b: Array) -> Any:
    return a | b


@executes("xor", scalar="{a} ^ {b}")
def bitwise_xor(a: Array, b: Array) -> Any:
    return a ^ b


def _not_scalar(chosen: dict[str, str]) -> str:
    return "not {a}" if chosen["type"] == "pred" else "~{a}"


@executes("not", scalar=_not_scalar)
def complement(a: Array) -> Any:
    return ~a


def _shl_scalar(chosen: dict[str, str]) -> str:
    return f"({{a}} << {{b}} if {{b}} < {TYPES[chosen['type']].bits} else 0)"


@executes("shl", scalar=_shl_scalar)
def shift_left(a: Array, b: Array) -> Any:
    width = a.dtype.itemsize * 8
    amount = np.minimum(b, np.uint32(width - 1)).astype(a.dtype)
    return np.where(b < width, a << amount, np.zeros_like(a))


def _shr_scalar(chosen: dict[str, str]) -> str:
    # A Python shift of a signed value already fills with the sign.
    return f"({{a}} >> min({{b}}, {TYPES[chosen['type']].bits}))"


@executes("shr", scalar=_shr_scalar)
def shift_right(op: Op, a: Array, b: Array) -> Any:
    width = a.dtype.itemsize * 8
    amount = np.minimum(b, np.uint32(width - 1)).astype(a.dtype)
    shifted = a >> amount
    if op.chosen["type"][0] == "s":
        return shifted
    return np.where(b < width, shifted, np.zeros_like(a))
