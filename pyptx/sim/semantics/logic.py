"""Bitwise logic, shifts and permutations of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..code.propagation import BITWISE, moved
from ..code.semantic import Op, executes
from ..numbers.packed import elements, joined

Array = NDArray[Any]


@executes("and", undefined=BITWISE, scalar="{a} & {b}", array="np.bitwise_and({a}, {b}, {out})")
def bitwise_and(a: Array, b: Array) -> Any:
    return a & b


@executes("or", undefined=BITWISE, scalar="{a} | {b}", array="np.bitwise_or({a}, {b}, {out})")
def bitwise_or(a: Array, b: Array) -> Any:
    return a | b


@executes("xor", undefined=BITWISE, scalar="{a} ^ {b}", array="np.bitwise_xor({a}, {b}, {out})")
def bitwise_xor(a: Array, b: Array) -> Any:
    return a ^ b


def _not_scalar(chosen: dict[str, str]) -> str:
    return "not {a}" if chosen["type"] == "pred" else "~{a}"


@executes("not", undefined=BITWISE, scalar=_not_scalar, array="np.invert({a}, {out})")
def complement(a: Array) -> Any:
    return ~a


@executes("cnot", scalar="int({a} == 0)", array="np.equal({a}, 0, {out})")
def is_zero(a: Array) -> Any:
    return a == 0


# A numpy shift by the width or more gives zero or copies of the sign, as these instructions do. numpy widens
# a narrow value to the type of its 32-bit amount, and the result is cut to the destination.


def _shl_scalar(chosen: dict[str, str]) -> str:
    return f"({{a}} << {{b}} if {{b}} < {TYPES[chosen['type']].bits} else 0)"


@executes("shl", undefined=moved("a"), scalar=_shl_scalar, array="np.left_shift({a}, {b}, {out})")
def shift_left(a: Array, b: Array) -> Any:
    return a << b


def _shr_scalar(chosen: dict[str, str]) -> str:
    # A Python shift of a signed value already fills with the sign.
    return f"({{a}} >> min({{b}}, {TYPES[chosen['type']].bits}))"


def _shr_array(chosen: dict[str, str]) -> str:
    # An amount of 2**31 or more is negative as int32; numpy rightly treats it as beyond the width.
    amount = "{b}.view(np.int32)" if chosen["type"] == "s32" else "{b}"
    return f"np.right_shift({{a}}, {amount}, {{out}})"


@executes("shr", undefined=moved("a"), scalar=_shr_scalar, array=_shr_array)
def shift_right(a: Array, b: Array) -> Any:
    return a >> b


def _funnel_scalar(chosen: dict[str, str]) -> str:
    amount = "min({c}, 32)" if chosen["mode"] == "clamp" else "({c} & 31)"
    pair = "({b} << 32 | {a})"
    return f"{pair} << {amount} >> 32" if chosen["dir"] == "l" else f"{pair} >> {amount}"


_HALF, _WIDTH, _MODULO = np.array(32, np.uint64), np.array(32, np.uint32), np.array(31, np.uint32)


@executes("shf", undefined=moved("a", "b"), scalar=_funnel_scalar)
def funnel_shift(op: Op, a: Array, b: Array, c: Array) -> Any:
    pair = b.astype(np.uint64) << _HALF | a
    amount = np.asarray(np.minimum(c, _WIDTH) if op.chosen["mode"] == "clamp" else c & _MODULO)
    return (pair << amount >> _HALF if op.chosen["dir"] == "l" else pair >> amount).astype(np.uint32)


# --- lop3: functions of three values ----------------------------------------------------------


_TWO: dict[int, Callable[[Array, Array], Any]] = {
    0: lambda a, b: np.uint32(0),
    2: lambda a, b: ~a & b,
    4: lambda a, b: a & ~b,
    6: lambda a, b: a ^ b,
    8: lambda a, b: a & b,
    10: lambda a, b: b,
    12: lambda a, b: a,
    14: lambda a, b: a | b,
}


def _of_two(table: int, a: Array, b: Array) -> Any:
    """Return a logic function of the bits of ``a`` and ``b``.

    ``table`` has its results for (1, 1), (1, 0), (0, 1) and (0, 0), in bits 3 to 0.
    """
    if table & 1:
        return ~_of_two(table ^ 15, a, b)
    return _TWO[table](a, b)


def _of_three(a: Array, b: Array, c: Array, table: int) -> Any:
    """Return, for each bit position, bit ``4 * a + 2 * b + c`` of ``table``.

    Even bits of the table are for c = 0, odd bits for c = 1.
    """
    even = sum((table >> 2 * i & 1) << i for i in range(4))
    odd = sum((table >> 2 * i + 1 & 1) << i for i in range(4))
    result = _of_two(even, a, b)
    return result if even == odd else result ^ (c & _of_two(even ^ odd, a, b))


def _terms(chosen: dict[str, str]) -> str:
    """Return an expression for the function: the OR of eight products, each masked by its bit of the table.

    The table is a constant, so Python computes the masks when it compiles the expression.
    """
    products = []
    for place in range(8):
        factors = [f"{'' if place >> 2 - i & 1 else '~'}{{{name}}}" for i, name in enumerate("abc")]
        products.append(f"(-({{immLut}} >> {place} & 1) & {' & '.join(factors)})")
    return " | ".join(products)


@executes("lop3", undefined=BITWISE, scalar=_terms)
def logic_of_three(a: Array, b: Array, c: Array, table: Array) -> Any:
    return _of_three(a, b, c, table.item())


@executes("lop3.bool")
def logic_of_three_and_any(op: Op, a: Array, b: Array, c: Array, table: Array, q: Array) -> Any:
    result = _of_three(a, b, c, table.item())
    any_bit = result != 0
    return result, (any_bit | q if op.chosen["bool"] == "or" else any_bit & q)


# --- permutations -----------------------------------------------------------------------------

#: Bytes of [b, a] that each mode selects for bytes 0 to 3 of the result, by the low two bits of c
#: (``#data-movement-and-conversion-instructions-prmt``).
_ORDERS = {
    "f4e": ("0123", "1234", "2345", "3456"),
    "b4e": ("0765", "1076", "2107", "3210"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("0123", "1123", "2223", "3333"),
    "ecr": ("0000", "0111", "0122", "0123"),
    "rc16": ("0101", "2323", "0101", "2323"),
}
_CHOICES = {mode: np.array([list(map(int, o)) for o in orders]) for mode, orders in _ORDERS.items()}
_NIBBLES = np.arange(0, 16, 4, dtype=np.uint32)


def _permuted(a: Array, b: Array, selectors: Sequence[int]) -> Any:
    """Choose four of the eight bytes of ``a`` and ``b``, with the same selectors in every lane."""
    sides = elements(a, np.uint8), elements(b, np.uint8)
    result = np.empty((max(map(len, sides)), 4), np.uint8)
    for place, selector in enumerate(selectors):
        byte = sides[selector >> 2 & 1][:, selector & 3]
        result[:, place] = byte.view(np.int8) >> 7 if selector & 8 else byte
    return joined(result)


@executes("prmt", undefined=moved("a", "b"))
def permute(op: Op, a: Array, b: Array, c: Array) -> Any:
    mode = op.chosen.get("mode")
    if c.size == 1:
        word = c.item()
        return _permuted(
            a, b, _CHOICES[mode][word & 3] if mode else [word >> i & 15 for i in range(0, 16, 4)]
        )
    a, b, c = np.broadcast_arrays(*(np.atleast_1d(x) for x in (a, b, c)))
    source = np.concatenate([elements(a, np.uint8), elements(b, np.uint8)], axis=1)
    if mode is not None:
        return joined(np.take_along_axis(source, _CHOICES[mode][c & 3], axis=1))
    selectors = c[:, None] >> _NIBBLES
    taken = np.take_along_axis(source, (selectors & 7).astype(np.intp), axis=1)
    # If the highest bit of a selector is set, the result's byte is eight copies of the selected byte's sign.
    signs = (taken.view(np.int8) >> 7).view(np.uint8)
    return joined(np.where(selectors & 8, signs, taken))
