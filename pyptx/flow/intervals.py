"""Intervals of integers, and what integer instructions make of them.

A register of n bits stands for an integer that is congruent to its bits modulo 2**n: the number that the
program computes if nothing wraps. So an interval may leave the range of the register's type, and
:func:`fitted` says whether the bits, read as a type, still are one interval. An infinite bound means that
nothing is known about this side.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from ..core.types import ScalarType

__all__ = [
    "UNKNOWN",
    "Interval",
    "add",
    "fitted",
    "hull",
    "is_finite",
    "multiply",
    "negate",
    "refined",
    "type_range",
    "widened",
]

#: The least and the largest value, both included.
Interval: TypeAlias = tuple[int | float, int | float]
UNKNOWN: Interval = (-math.inf, math.inf)


def is_finite(value: Interval) -> bool:
    """True if both bounds are known."""
    return not (math.isinf(value[0]) or math.isinf(value[1]))


def type_range(kind: ScalarType) -> tuple[int, int]:
    """Return the least and the largest value of an integer type; bits count as unsigned."""
    if kind.kind == "s":
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, (1 << kind.bits) - 1


def fitted(value: Interval, kind: ScalarType) -> Interval | None:
    """Return the numbers that the bits of ``value`` are as ``kind``; None if they are not one interval."""
    if not is_finite(value):
        return None
    least, most = type_range(kind)
    size = 1 << kind.bits
    shift = (int(value[0]) - least) // size * size
    moved = (value[0] - shift, value[1] - shift)
    return moved if moved[1] <= most else None


def hull(a: Interval, b: Interval) -> Interval:
    """Return the least interval that contains both."""
    return min(a[0], b[0]), max(a[1], b[1])


def widened(old: Interval, new: Interval) -> Interval:
    """Return ``old`` with each bound that ``new`` exceeds made infinite, so that a loop's fixpoint ends."""
    return (
        old[0] if new[0] >= old[0] else -math.inf,
        old[1] if new[1] <= old[1] else math.inf,
    )


def add(a: Interval, b: Interval) -> Interval:
    """Return the sums."""
    return a[0] + b[0], a[1] + b[1]


def negate(a: Interval) -> Interval:
    """Return the negated values."""
    return -a[1], -a[0]


def multiply(a: Interval, b: Interval) -> Interval:
    """Return the products."""
    products = [0 if not x or not y else x * y for x in a for y in b]
    return min(products), max(products)


#: Comparisons: the one that holds if the first does not, and whether it compares as unsigned numbers.
_OPPOSITES = {
    **{"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"},
    **{"lo": "hs", "hs": "lo", "hi": "ls", "ls": "hi"},
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def refined(
    a: Interval, b: Interval, comparison: str, kind: ScalarType, holds: bool
) -> tuple[Interval, Interval] | None:
    """Return the values of ``a`` and ``b`` for which a ``setp`` comparison holds, or does not hold.

    None means that it cannot. Values that are not one interval as ``kind`` stay as they are.
    """
    if comparison not in _OPPOSITES:
        return a, b
    name = comparison if holds else _OPPOSITES[comparison]
    signed = kind.kind == "s" and name not in _UNSIGNED
    name = _UNSIGNED.get(name, name)
    x, y = (_comparable(each, kind, signed) for each in (a, b))
    if x is None or y is None:
        return a, b
    if name in ("gt", "ge"):
        result = _ordered(y, x, strict=name == "gt")
        found = None if result is None else (result[1], result[0])
    elif name in ("lt", "le"):
        found = _ordered(x, y, strict=name == "lt")
    elif name == "eq":
        both = max(x[0], y[0]), min(x[1], y[1])
        found = (both, both) if both[0] <= both[1] else None
    else:
        one, other = _without(x, y), _without(y, x)
        found = None if one is None or other is None else (one, other)
    return found


def _comparable(value: Interval, kind: ScalarType, signed: bool) -> Interval | None:
    """Return the values as numbers of the comparison; None if they are not one interval."""
    if is_finite(value):
        unsigned = ScalarType(f"u{kind.bits}", kind.bits, "u")
        return fitted(value, kind if signed else unsigned)
    return value if signed else (max(value[0], 0), value[1])


def _ordered(x: Interval, y: Interval, *, strict: bool) -> tuple[Interval, Interval] | None:
    """Return the values with x < y (``strict``) or x <= y; None if there are none."""
    step = 1 if strict else 0
    x, y = (x[0], min(x[1], y[1] - step)), (max(y[0], x[0] + step), y[1])
    return (x, y) if x[0] <= x[1] and y[0] <= y[1] else None


def _without(x: Interval, y: Interval) -> Interval | None:
    """Return x without the value of y, if y is one value at a bound of x; None if nothing is left."""
    if y[0] != y[1]:
        return x
    least = x[0] + 1 if x[0] == y[0] else x[0]
    most = x[1] - 1 if x[1] == y[0] else x[1]
    return (least, most) if least <= most else None
