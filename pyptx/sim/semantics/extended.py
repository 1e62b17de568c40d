"""Extended-precision integer arithmetic: instructions that write and read the carry flag CC.CF.

The manual says that ``sub.cc`` writes a borrow. ptxas implements CC.CF as the carry of the adder: a
subtraction adds ``a``, the complement of ``b`` and one. Its carry is the complement of the borrow, and an
``addc`` after a ``sub.cc`` adds this carry. (Source: machine code for sm_90. A chain of subtractions alone
gives the same results either way.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..code.propagation import Propagation, Rule
from ..code.semantic import Op, executes
from ..numbers.bits import high_half

Array = NDArray[Any]

_executes = partial(executes, per="warp", team=True, registers_only=True)
_WRITES, _READS = Propagation(Rule.CARRY), Propagation(Rule.CARRY, reads_carry=True)


def _unsigned(values: Array) -> Array:
    return values.astype(f"u{values.dtype.itemsize}")


def _total(s: Any, op: Op, lanes: Array, a: Array, b: Array, carry: Any) -> Any:
    """Return ``a + b + carry`` of unsigned values; with .cc, store the carry out in the lanes' CC.CF."""
    partial = a + b
    total = partial + carry.astype(a.dtype)
    if "cc" in op.chosen:
        s.carry[lanes] = (partial < a) | (total < partial)
    return total


def _lane_total(s: Any, op: Op, lane: int, a: int, b: int, carry: int) -> int:
    """Return ``a + b + carry`` as :func:`_total` does, for one lane and numbers of either signedness."""
    bits = TYPES[op.chosen["type"]].bits
    mask = (1 << bits) - 1
    total = (a & mask) + (b & mask) + carry
    if "cc" in op.chosen:
        s.carry[lane] = total >> bits
    return total & mask


_NONE, _ONE = np.uint8(0), np.uint8(1)


def _sum_lane(s: Any, op: Op, lane: int, a: int, b: int) -> int:
    return _lane_total(s, op, lane, a, b, 0)


@_executes("add.cc", undefined=_WRITES, lane=_sum_lane)
def add_with_carry_out(s: Any, op: Op, lanes: Array, a: Array, b: Array) -> Any:
    return _total(s, op, lanes, _unsigned(a), _unsigned(b), _NONE)


def _sum_with_carry_lane(s: Any, op: Op, lane: int, a: int, b: int) -> int:
    return _lane_total(s, op, lane, a, b, int(s.carry[lane]))


@_executes("addc", undefined=_READS, lane=_sum_with_carry_lane)
def add_with_carry(s: Any, op: Op, lanes: Array, a: Array, b: Array) -> Any:
    return _total(s, op, lanes, _unsigned(a), _unsigned(b), s.carry[lanes])


def _difference_lane(s: Any, op: Op, lane: int, a: int, b: int) -> int:
    return _lane_total(s, op, lane, a, ~b, 1)


@_executes("sub.cc", undefined=_WRITES, lane=_difference_lane)
def subtract_with_carry_out(s: Any, op: Op, lanes: Array, a: Array, b: Array) -> Any:
    return _total(s, op, lanes, _unsigned(a), ~_unsigned(b), _ONE)


def _difference_with_carry_lane(s: Any, op: Op, lane: int, a: int, b: int) -> int:
    return _lane_total(s, op, lane, a, ~b, int(s.carry[lane]))


@_executes("subc", undefined=_READS, lane=_difference_with_carry_lane)
def subtract_with_carry(s: Any, op: Op, lanes: Array, a: Array, b: Array) -> Any:
    return _total(s, op, lanes, _unsigned(a), ~_unsigned(b), s.carry[lanes])


def _half(op: Op, a: Array, b: Array) -> Array:
    return _unsigned(a * b if op.chosen["half"] == "lo" else high_half(a, b))


def _lane_half(op: Op, a: int, b: int) -> int:
    return a * b if op.chosen["half"] == "lo" else a * b >> TYPES[op.chosen["type"]].bits


def _mad_lane(carry: Callable[[Any, int], int]) -> Callable[..., int]:
    def of_one(s: Any, op: Op, lane: int, a: int, b: int, c: int) -> int:
        return _lane_total(s, op, lane, _lane_half(op, a, b), c, carry(s, lane))

    return of_one


@_executes("mad.cc", undefined=_WRITES, lane=_mad_lane(lambda s, lane: 0))
def mad_with_carry_out(s: Any, op: Op, lanes: Array, a: Array, b: Array, c: Array) -> Any:
    return _total(s, op, lanes, _half(op, a, b), _unsigned(c), _NONE)


@_executes("madc", undefined=_READS, lane=_mad_lane(lambda s, lane: int(s.carry[lane])))
def mad_with_carry(s: Any, op: Op, lanes: Array, a: Array, b: Array, c: Array) -> Any:
    return _total(s, op, lanes, _half(op, a, b), _unsigned(c), s.carry[lanes])
