"""Integer arithmetic, and instructions that count, find, extract and insert bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..code.propagation import UPWARD, moved
from ..code.semantic import Op, executes
from ..numbers.bits import (
    WIDE,
    bit_length,
    carryless_product,
    clamped,
    count_ones,
    high_half,
    ones,
    reversed_bits,
    spare,
    truncating,
    width_of,
)
from ..numbers.packed import elements, joined

Array = NDArray[Any]

# --- addition ---------------------------------------------------------------------------------


def _sum_scalar(symbol: str) -> Any:
    def scalar(chosen: dict[str, str]) -> str:
        if "sat" not in chosen:
            return f"{{a}} {symbol} {{b}}"
        low, high = TYPES[chosen["type"]].limits
        return f"min(max({{a}} {symbol} {{b}}, {low}), {high})"

    return scalar


def _wraps(template: str) -> Any:
    """Return a function of the modifiers that returns ``template``, or None for ``.sat``, which has none."""
    return lambda chosen: None if "sat" in chosen else template


@executes("add.int", undefined=UPWARD, scalar=_sum_scalar("+"), array=_wraps("np.add({a}, {b}, {out})"))
def add(op: Op, a: Array, b: Array) -> Any:
    if "sat" in op.chosen:
        return clamped(a.astype(np.int64) + b.astype(np.int64), *TYPES["s32"].limits)
    return a + b


@executes("sub.int", undefined=UPWARD, scalar=_sum_scalar("-"), array=_wraps("np.subtract({a}, {b}, {out})"))
def sub(op: Op, a: Array, b: Array) -> Any:
    if "sat" in op.chosen:
        return clamped(a.astype(np.int64) - b.astype(np.int64), *TYPES["s32"].limits)
    return a - b


@executes("add.sat.u32", scalar="min({a} + {b}, 0xFFFFFFFF)")
def add_saturating(a: Array, b: Array) -> Any:
    return np.minimum(a.astype(np.uint64) + b, TYPES["u32"].limits[1])


@executes("neg.int", undefined=UPWARD, scalar="-{a}", array="np.negative({a}, {out})")
def neg(a: Array) -> Any:
    return -a


@executes("abs.int", scalar="abs({a})", array="np.absolute({a}, {out})")
def absolute(a: Array) -> Any:
    return np.absolute(a)


@executes("sad", scalar="abs({a} - {b}) + {c}")
def sum_of_absolute_difference(a: Array, b: Array, c: Array) -> Any:
    # The subtraction may wrap, and the result is still right: it is the distance modulo 2**n.
    return np.maximum(a, b) - np.minimum(a, b) + c


# --- multiplication ---------------------------------------------------------------------------


def _half_scalar(chosen: dict[str, str]) -> str:
    return "{a} * {b}" if chosen["half"] == "lo" else f"({{a}} * {{b}}) >> {TYPES[chosen['type']].bits}"


def _low_half(template: str) -> Any:
    return lambda chosen: template if chosen["half"] == "lo" else None


@executes("mul.int", undefined=UPWARD, scalar=_half_scalar, array=_low_half("np.multiply({a}, {b}, {out})"))
def mul(op: Op, a: Array, b: Array) -> Any:
    return a * b if op.chosen["half"] == "lo" else high_half(a, b)


def _wide_array(template: str) -> Any:
    """Return a function of the modifiers that replaces ``wide`` in ``template`` by the product's dtype."""
    return lambda chosen: template.replace("wide", f"np.{WIDE[TYPES[chosen['type']].register_dtype].name}")


@executes("mul.wide", scalar="{a} * {b}", array=_wide_array("np.multiply({a}.astype(wide), {b}, {out})"))
def mul_wide(a: Array, b: Array) -> Any:
    return a.astype(WIDE[a.dtype]) * b


def _mad_scalar(chosen: dict[str, str]) -> str:
    return f"({_half_scalar(chosen)}) + {{c}}"


@executes(
    "mad.int",
    undefined=UPWARD,
    scalar=_mad_scalar,
    array=_low_half("np.add(np.multiply({a}, {b}), {c}, {out})"),
)
def mad(op: Op, a: Array, b: Array, c: Array) -> Any:
    return mul(op, a, b) + c


@executes(
    "mad.wide",
    scalar="{a} * {b} + {c}",
    array=_wide_array("np.add(np.multiply({a}.astype(wide), {b}), {c}, {out})"),
)
def mad_wide(a: Array, b: Array, c: Array) -> Any:
    return mul_wide(a, b) + c


@executes("mad.sat", scalar="min(max(({a} * {b} >> 32) + {c}, -0x80000000), 0x7FFFFFFF)")
def mad_saturating(a: Array, b: Array, c: Array) -> Any:
    return clamped((a.astype(np.int64) * b >> 32) + c, *TYPES["s32"].limits)


def _factor24(name: str, kind: str) -> str:
    low = f"({{{name}}} & 0xFFFFFF)"
    return low if kind == "u32" else f"(({low} ^ 0x800000) - 0x800000)"


def _mul24_scalar(chosen: dict[str, str]) -> str:
    kind = chosen.get("type", "s32")
    shift = 0 if chosen.get("half") == "lo" else 16
    return f"({_factor24('a', kind)} * {_factor24('b', kind)} >> {shift})"


def _product24(a: Array, b: Array) -> Any:
    """Return the 48-bit product of the low 24 bits of ``a`` and ``b``, sign-extended for a signed type."""
    eight = a.dtype.type(8)
    wide = WIDE[a.dtype]
    return (a << eight >> eight).astype(wide) * (b << eight >> eight).astype(wide)


@executes("mul24", scalar=_mul24_scalar)
def mul24(op: Op, a: Array, b: Array) -> Any:
    product = _product24(a, b)
    return (product if op.chosen["half"] == "lo" else product >> 16).astype(a.dtype)


@executes("mad24", scalar=lambda chosen: f"{_mul24_scalar(chosen)} + {{c}}")
def mad24(op: Op, a: Array, b: Array, c: Array) -> Any:
    return mul24(op, a, b) + c


@executes(
    "mad24.sat",
    scalar=lambda chosen: f"min(max({_mul24_scalar(chosen)} + {{c}}, -0x80000000), 0x7FFFFFFF)",
)
def mad24_saturating(a: Array, b: Array, c: Array) -> Any:
    return clamped((_product24(a, b) >> 16) + c, *TYPES["s32"].limits)


@executes("clmad")
def carryless_mad(op: Op, a: Array, b: Array, c: Array) -> Any:
    low, high = carryless_product(a, b)
    return (low if op.chosen["half"] == "lo" else high) ^ c


def _parts(values: Array, kind: str, bits: int) -> Array:
    """Return the fields of 8 or 16 bits in each register as an int32 array."""
    return elements(values, np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")).astype(np.int32)


@executes("dp4a")
def dot4(op: Op, a: Array, b: Array, c: Array) -> Any:
    products = _parts(a, op.chosen["atype"], 8) * _parts(b, op.chosen["btype"], 8)
    return products.sum(axis=1, dtype=np.int32).astype(np.uint32) + c


@executes("dp2a")
def dot2(op: Op, a: Array, b: Array, c: Array) -> Any:
    first = 0 if op.chosen["half"] == "lo" else 2
    factors = _parts(b, op.chosen["btype"], 8)[:, first : first + 2]
    products = _parts(a, op.chosen["atype"], 16) * factors
    return products.sum(axis=1, dtype=np.int32).astype(np.uint32) + c


# --- division ---------------------------------------------------------------------------------


@executes("div.int", scalar="({a} // {b} if ({a} < 0) == ({b} < 0) else -(-{a} // {b})) if {b} else -1")
def div(a: Array, b: Array) -> Any:
    return truncating(a, b)[0]


@executes("rem.int", scalar="({a} % {b} if ({a} < 0) == ({b} < 0) else {a} % -{b}) if {b} else {a}")
def rem(a: Array, b: Array) -> Any:
    return truncating(a, b)[1]


# --- minimum and maximum ----------------------------------------------------------------------


@executes("min.int", scalar="min({a}, {b})", array="np.minimum({a}, {b}, {out})")
def minimum(a: Array, b: Array) -> Any:
    return np.minimum(a, b)


@executes("max.int", scalar="max({a}, {b})", array="np.maximum({a}, {b}, {out})")
def maximum(a: Array, b: Array) -> Any:
    return np.maximum(a, b)


@executes("min.relu_s32", scalar="max(min({a}, {b}), 0)", array="np.maximum(np.minimum({a}, {b}), 0, {out})")
def minimum_relu(a: Array, b: Array) -> Any:
    return np.maximum(np.minimum(a, b), 0)


@executes("max.relu_s32", scalar="max({a}, {b}, 0)", array="np.maximum(np.maximum({a}, {b}), 0, {out})")
def maximum_relu(a: Array, b: Array) -> Any:
    return np.maximum(np.maximum(a, b), 0)


# --- packed -----------------------------------------------------------------------------------


def _packed(op: Op, ufunc: Any, *operands: Array) -> Any:
    """Apply ``ufunc`` to the elements of packed registers.

    ``.sat`` clamps the exact result, ``.relu`` replaces negative results by zero.
    """
    kind = TYPES[op.chosen.get("type", "s8x4")]
    bits = kind.bits // kind.lanes
    dtype = np.dtype(f"{'i' if kind.kind == 's' else 'u'}{bits // 8}")
    parts = [elements(operand, dtype) for operand in operands]
    if "sat" in op.chosen:
        limits = TYPES[f"{kind.kind}{bits}"].limits
        result = clamped(ufunc(*(p.astype(np.int32) for p in parts)), *limits).astype(dtype)
    else:
        result = ufunc(*parts)
    if "relu" in op.chosen:
        result = np.maximum(result, 0)
    return joined(result)


@executes("add.packed16", "add.packed16.sat", "add.packed8")
def add_packed(op: Op, a: Array, b: Array) -> Any:
    return _packed(op, np.add, a, b)


@executes("sub.packed8")
def sub_packed(op: Op, a: Array, b: Array) -> Any:
    return _packed(op, np.subtract, a, b)


@executes("neg.packed8")
def neg_packed(op: Op, a: Array) -> Any:
    return _packed(op, np.negative, a)


@executes("min.packed16", "min.packed8")
def minimum_packed(op: Op, a: Array, b: Array) -> Any:
    return _packed(op, np.minimum, a, b)


@executes("max.packed16", "max.packed8")
def maximum_packed(op: Op, a: Array, b: Array) -> Any:
    return _packed(op, np.maximum, a, b)


# --- bits -------------------------------------------------------------------------------------


@executes("popc", scalar="({a}).bit_count()")
def count(a: Array) -> Any:
    return count_ones(a)


def _leading_scalar(chosen: dict[str, str]) -> str:
    return f"{TYPES[chosen['type']].bits} - ({{a}}).bit_length()"


@executes("clz", scalar=_leading_scalar)
def leading_zeros(a: Array) -> Any:
    return width_of(a) - bit_length(a)


def _find_scalar(chosen: dict[str, str]) -> str:
    kind = TYPES[chosen["type"]]
    digits = f"({{a}} ^ ({{a}} >> {kind.bits - 1}))" if kind.kind == "s" else "({a})"
    if "shiftamt" not in chosen:
        return f"{digits}.bit_length() - 1"
    return f"({kind.bits} - {digits}.bit_length() if {digits} else -1)"


@executes("bfind", scalar=_find_scalar)
def find_highest(op: Op, a: Array) -> Any:
    if a.dtype.kind == "i":
        # For a negative value, bfind returns the highest zero bit.
        a = (a ^ a >> (width_of(a) - 1)).astype(f"u{a.dtype.itemsize}")
    length = bit_length(a)
    if "shiftamt" in op.chosen:
        return np.where(a == 0, np.int32(-1), np.int32(width_of(a)) - length)
    return length - 1


_PLACES = np.arange(32, dtype=np.int64)
_LOWEST = -(1 << 31)


@executes("fns")
def find_nth(mask: Array, base: Array, offset: Array) -> Any:
    """Return the position of the n-th set bit of ``mask``, counted from bit ``base``.

    With a base above 31 there is no such bit. PTX ISA #integer-arithmetic-instructions-fns.
    """
    mask, base, offset = np.broadcast_arrays(*(np.atleast_1d(x) for x in (mask, base, offset)))
    wanted = offset.astype(np.int32).astype(np.int64)[:, None]
    start = base.astype(np.int64)[:, None]
    present = (mask.astype(np.int64)[:, None] >> _PLACES & 1).astype(bool)
    upward = present & (start <= _PLACES)
    downward = present & (start >= _PLACES) & (start < 32)
    number_up = np.cumsum(upward, axis=1)
    number_down = np.cumsum(downward[:, ::-1], axis=1)[:, ::-1]
    hit = np.where(wanted > 0, upward & (number_up == wanted), downward & (number_down == -wanted))
    hit = np.where(wanted == 0, present & (start == _PLACES), hit)
    found = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
    # The offset -2**31 has no positive counterpart; an H200 returns bit 0 (measured).
    return np.where(wanted[:, 0] == _LOWEST, 0, found)


def _reverse_scalar(chosen: dict[str, str]) -> str:
    return f"int(format({{a}}, '0{TYPES[chosen['type']].bits}b')[::-1], 2)"


@executes("brev", undefined=moved("a"), scalar=_reverse_scalar)
def reverse(a: Array) -> Any:
    return reversed_bits(a)


_BYTE = np.array(0xFF, np.uint32)


def _extract_scalar(chosen: dict[str, str]) -> str:
    field = "({a} >> ({b} & 255)) & ((1 << ({c} & 255)) - 1)"
    if chosen["type"][0] == "u":
        return field
    sign = "((1 << ({c} & 255)) >> 1)"
    return f"(({field}) ^ {sign}) - {sign}"


@executes("bfe", undefined=moved("a"), scalar=_extract_scalar)
def extract(op: Op, a: Array, b: Array, c: Array) -> Any:
    shifts = op.cache.get("shifts")
    if shifts is None:
        shifts = np.asarray((b & _BYTE).astype(a.dtype)), np.asarray(spare(c & _BYTE, a.dtype))
        if shifts[0].ndim == shifts[1].ndim == 0:
            # Both operands are immediates, so the shifts never change.
            op.cache["shifts"] = shifts
    place, unused = shifts
    return a >> place << unused >> unused


def _insert_scalar(chosen: dict[str, str]) -> str:
    field = "(((1 << ({d} & 255)) - 1) << ({c} & 255))"
    return f"({{b}} & ~{field}) | (({{a}} << ({{c}} & 255)) & {field})"


@executes("bfi", undefined=moved("a", "b"), scalar=_insert_scalar)
def insert(a: Array, b: Array, c: Array, d: Array) -> Any:
    place = (c & _BYTE).astype(a.dtype)
    field = ones(d & _BYTE, a.dtype) << place
    return b ^ ((b ^ (a << place)) & field)


_MODULO = np.array(31, np.uint32)


def _amount(op: Op, value: Array) -> Any:
    """Return a bit position or length: modulo 32 for ``.wrap``, unchanged for ``.clamp``.

    For ``.clamp``, the shift that uses the amount clamps it.
    """
    return value & _MODULO if op.chosen["mode"] == "wrap" else value


def _extend_scalar(chosen: dict[str, str]) -> str:
    amount = "({b} & 31)" if chosen["mode"] == "wrap" else "min({b}, 32)"
    field = f"{{a}} & ((1 << {amount}) - 1)"
    if chosen["type"] == "u32":
        return field
    sign = f"((1 << {amount}) >> 1)"
    return f"(({field}) ^ {sign}) - {sign}"


@executes("szext", undefined=moved("a"), scalar=_extend_scalar)
def extend(op: Op, a: Array, b: Array) -> Any:
    unused = spare(_amount(op, b), a.dtype)
    return a << unused >> unused


def _mask_scalar(chosen: dict[str, str]) -> str:
    if chosen["mode"] == "wrap":
        return "((1 << ({b} & 31)) - 1) << ({a} & 31)"
    return "((1 << min({b}, 32)) - 1) << min({a}, 32)"


@executes("bmsk", scalar=_mask_scalar)
def bit_mask(op: Op, a: Array, b: Array) -> Any:
    return ones(_amount(op, b), np.uint32) << _amount(op, a)
