"""What each value form must compute, in plain Python from the manual's words.

Every function takes the chosen modifiers and the raw bits of the operands (unsigned integers, predicates
as 0 or 1) and returns the raw bits of the result in a register of the result type's width; a pair gives a
tuple.  :data:`ANY` stands where the manual leaves the value open, a :class:`Nan` for any NaN of a format.
Integers are Python's, floats are fractions: nothing here rounds but :func:`encode`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from pyptx.sim.memory import PARAM_WINDOW, SHARED_WINDOW

Chosen = Mapping[str, str]

#: The manual leaves the value open (all forms of code must still agree on it).
ANY = "any value"


@dataclass(frozen=True)
class Format:
    """A binary float format: bits of the significand, smallest normal exponent, width."""

    precision: int
    least: int
    bits: int

    @property
    def infinity(self) -> int:
        fraction = self.precision - 1
        return ((1 << (self.bits - 1 - fraction)) - 1) << fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


F16, BF16 = Format(11, -14, 16), Format(8, -126, 16)
F32, F64 = Format(24, -126, 32), Format(53, -1022, 64)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


@dataclass(frozen=True)
class Nan:
    """Any NaN of a format."""

    format: Format

    def __contains__(self, bits: int) -> bool:
        return bits & ~self.format.sign > self.format.infinity


def bits_of(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def integer(raw: int, kind: str) -> int:
    """Raw bits as a value of an integer type; wider bits are cut off."""
    width = bits_of(kind)
    raw &= (1 << width) - 1
    return raw - (1 << width) if kind[0] == "s" and raw >> (width - 1) else raw


def limits(kind: str) -> tuple[int, int]:
    width = bits_of(kind)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def wrap(value: int, kind: str) -> int:
    return value & ((1 << bits_of(kind)) - 1)


def clamp(value: int, kind: str) -> int:
    low, high = limits(kind)
    return min(max(value, low), high)


# --- integers ---------------------------------------------------------------------------------


def _add(c: Chosen, a: int, b: int, sign: int = 1) -> int:
    kind = c["type"]
    total = integer(a, kind) + sign * integer(b, kind)
    return wrap(clamp(total, kind) if "sat" in c else total, kind)


def _sub(c: Chosen, a: int, b: int) -> int:
    return _add(c, a, b, -1)


def _mul(c: Chosen, a: int, b: int) -> int:
    kind = c["type"]
    product = integer(a, kind) * integer(b, kind)
    return wrap(product if c["half"] == "lo" else product >> bits_of(kind), kind)


def _mul_wide(c: Chosen, a: int, b: int) -> int:
    kind = c["type"]
    return wrap(integer(a, kind) * integer(b, kind), f"{kind[0]}{2 * bits_of(kind)}")


def _mad(c: Chosen, a: int, b: int, addend: int) -> int:
    return wrap(_mul(c, a, b) + addend, c["type"])


def _mad_wide(c: Chosen, a: int, b: int, addend: int) -> int:
    return wrap(_mul_wide(c, a, b) + addend, f"u{2 * bits_of(c['type'])}")


def _div(c: Chosen, a: int, b: int) -> Any:
    x, y = integer(a, c["type"]), integer(b, c["type"])
    if y == 0:
        return ANY
    quotient = abs(x) // abs(y)
    return wrap(quotient if (x < 0) == (y < 0) else -quotient, c["type"])


def _rem(c: Chosen, a: int, b: int) -> Any:
    x, y = integer(a, c["type"]), integer(b, c["type"])
    if y == 0:
        return ANY
    remainder = abs(x) % abs(y)
    return wrap(-remainder if x < 0 else remainder, c["type"])


def _neg_int(c: Chosen, a: int) -> int:
    return wrap(-a, c["type"])


def _min(c: Chosen, a: int, b: int) -> int:
    return a if integer(a, c["type"]) < integer(b, c["type"]) else b


def _max(c: Chosen, a: int, b: int) -> int:
    return a if integer(a, c["type"]) > integer(b, c["type"]) else b


def _shl(c: Chosen, a: int, b: int) -> int:
    return wrap(a << b, c["type"]) if b < bits_of(c["type"]) else 0


def _shr(c: Chosen, a: int, b: int) -> int:
    value = integer(a, c["type"])
    for _ in range(min(b, 64)):
        value //= 2  # toward minus infinity: the sign comes in from the left
    return wrap(value, c["type"])


# --- floats -----------------------------------------------------------------------------------


def is_nan(raw: int, f: Format) -> bool:
    return raw in Nan(f)


def is_infinite(raw: int, f: Format) -> bool:
    return raw & ~f.sign == f.infinity


def negative(raw: int, f: Format) -> bool:
    return bool(raw & f.sign)


def value_of(raw: int, f: Format) -> Fraction:
    """The exact value of finite bits."""
    fraction = raw & ((1 << (f.precision - 1)) - 1)
    exponent = (raw & f.infinity) >> (f.precision - 1)
    if exponent:
        fraction += 1 << (f.precision - 1)
    scale = Fraction(2) ** (f.least + max(exponent, 1) - f.precision)
    magnitude = fraction * scale
    return -magnitude if negative(raw, f) else magnitude


def _rounded(value: Fraction, exponent: int, precision: int, mode: str) -> int:
    """Units of the last place of ``|value|`` at an exponent, rounded once: rn, rz, rm or rp."""
    units = abs(value) / Fraction(2) ** (exponent - precision + 1)
    whole = floor(units)
    rest = units - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and value < 0,
        "rp": rest > 0 and value > 0,
    }[mode]
    return whole + up


def encode(value: Fraction, f: Format, mode: str, *, ftz: bool = False) -> int:
    """``value``, which is not zero, rounded once to the format.

    With ``ftz`` a result that is subnormal becomes a zero of its sign.  The manual does not say when that is
    judged; an H200 does it after rounding as if exponents had no end.
    """
    sign = f.sign if value < 0 else 0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    if ftz and exponent < f.least:
        units = _rounded(value, exponent, f.precision, mode)
        if units * Fraction(2) ** (exponent - f.precision + 1) < Fraction(2) ** f.least:
            return sign
    exponent = max(exponent, f.least)
    # A carry out of the significand runs into the exponent, as it should.
    bits = ((exponent - f.least) << (f.precision - 1)) + _rounded(value, exponent, f.precision, mode)
    if bits >= f.infinity:
        to_infinity = mode == "rn" or (mode == "rm" and value < 0) or (mode == "rp" and value > 0)
        bits = f.infinity if to_infinity else f.infinity - 1
    return sign | bits


def flush(raw: int, f: Format = F32) -> int:
    """A subnormal as zero of its sign."""
    return raw & f.sign if not raw & f.infinity else raw


def _inputs(c: Chosen, *raw: int) -> tuple[int, ...]:
    return tuple(map(flush, raw)) if "ftz" in c else raw


def _result(c: Chosen, raw: Any, f: Format) -> Any:
    if "sat" in c:
        if isinstance(raw, Nan) or negative(raw, f):
            return 0
        return min(raw, encode(Fraction(1), f, "rn"))
    return raw


def sum_of(a: int, b: int, f: Format, mode: str, ftz: bool) -> Any:
    """IEEE addition of two encoded values."""
    if is_nan(a, f) or is_nan(b, f):
        return Nan(f)
    if is_infinite(a, f) or is_infinite(b, f):
        if is_infinite(a, f) and is_infinite(b, f) and a != b:
            return Nan(f)
        return a if is_infinite(a, f) else b
    return _finite_sum(value_of(a, f), value_of(b, f), negative(a, f), negative(b, f), f, mode, ftz)


def _finite_sum(x: Fraction, y: Fraction, x_sign: bool, y_sign: bool, f: Format, mode: str, ftz: bool) -> int:
    total = x + y
    if total:
        return encode(total, f, mode, ftz=ftz)
    # An exact zero: of both signs' common sign, else positive, but negative when rounding down.
    minus = x_sign if x_sign == y_sign else mode == "rm"
    return f.sign if minus else 0


def _float_add(f: Format, flip: bool = False) -> Callable[..., Any]:
    def expected(c: Chosen, a: int, b: int) -> Any:
        a, b = _inputs(c, a, b)
        total = sum_of(a, b ^ f.sign if flip else b, f, c.get("rnd", "rn"), "ftz" in c)
        return _result(c, total, f)

    return expected


def _float_mul(f: Format) -> Callable[..., Any]:
    def expected(c: Chosen, a: int, b: int) -> Any:
        a, b = _inputs(c, a, b)
        return _result(c, product_of(a, b, f, c.get("rnd", "rn"), "ftz" in c), f)

    return expected


def product_of(a: int, b: int, f: Format, mode: str, ftz: bool) -> Any:
    if is_nan(a, f) or is_nan(b, f):
        return Nan(f)
    sign = (a ^ b) & f.sign
    if is_infinite(a, f) or is_infinite(b, f):
        return Nan(f) if not (a & ~f.sign and b & ~f.sign) else sign | f.infinity
    exact = value_of(a, f) * value_of(b, f)
    return encode(exact, f, mode, ftz=ftz) if exact else sign


def _fma(c: Chosen, a: int, b: int, addend: int) -> Any:
    f, mode = F32, c["rnd"]
    a, b, addend = _inputs(c, a, b, addend)
    if any(is_nan(x, f) for x in (a, b, addend)):
        return _result(c, Nan(f), f)
    if is_infinite(a, f) or is_infinite(b, f):
        product = product_of(a, b, f, mode, False)
        return _result(c, product if isinstance(product, Nan) else sum_of(product, addend, f, mode, False), f)
    if is_infinite(addend, f):
        return _result(c, addend, f)
    sign = negative(a, f) != negative(b, f)
    exact = value_of(a, f) * value_of(b, f)
    total = _finite_sum(exact, value_of(addend, f), sign, negative(addend, f), f, mode, "ftz" in c)
    return _result(c, total, f)


def _float_div(f: Format) -> Callable[..., Any]:
    def expected(c: Chosen, a: int, b: int) -> Any:
        a, b = _inputs(c, a, b)
        sign = (a ^ b) & f.sign
        if is_nan(a, f) or is_nan(b, f):
            return Nan(f)
        if is_infinite(a, f):
            return Nan(f) if is_infinite(b, f) else sign | f.infinity
        if is_infinite(b, f):
            return sign
        x, y = value_of(a, f), value_of(b, f)
        if y == 0:
            return sign | f.infinity if x else Nan(f)
        return encode(x / y, f, c["rnd"], ftz="ftz" in c) if x else sign

    return expected


def _neg_float(c: Chosen, a: int) -> Any:
    f = FORMATS[c["type"]]
    (a,) = _inputs(c, a)
    return Nan(f) if is_nan(a, f) else a ^ f.sign


# --- comparison -------------------------------------------------------------------------------

_ORDER = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lo": lambda x, y: x < y,
    "ls": lambda x, y: x <= y,
    "hi": lambda x, y: x > y,
    "hs": lambda x, y: x >= y,
}


def _ordering(raw: int, f: Format) -> Any:
    """A number that orders as the float does."""
    if is_infinite(raw, f):
        return float("-inf") if negative(raw, f) else float("inf")
    return value_of(raw, f)


def _setp(c: Chosen, a: int, b: int) -> tuple[int, int]:
    name, kind = c["cmp"], c["type"]
    if kind[0] != "f":
        holds = _ORDER[name](integer(a, kind), integer(b, kind))
        return int(holds), int(not holds)
    f = FORMATS[kind]
    unordered = is_nan(a, f) or is_nan(b, f)
    if name in ("num", "nan"):
        holds = unordered == (name == "nan")
    elif unordered:
        holds = len(name) == 3  # equ, neu, ltu ...: true if either is NaN
    else:
        holds = _ORDER[name[:2]](_ordering(a, f), _ordering(b, f))
    return int(holds), int(not holds)


def _selp(c: Chosen, a: int, b: int, p: int) -> int:
    return a if p else b


# --- moves and conversions --------------------------------------------------------------------

_WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "param": PARAM_WINDOW}


def _cvta(c: Chosen, a: int) -> int:
    return wrap(a + _WINDOWS.get(c["space"], 0), "u64")


def _cvta_to(c: Chosen, a: int) -> int:
    return wrap(a - _WINDOWS.get(c["space"], 0), "u64")


def _cvt_int(c: Chosen, a: int) -> int:
    value = integer(a, c["atype"])
    return wrap(clamp(value, c["dtype"]) if "sat" in c else value, c["dtype"])


def _cvt_float_from_int(c: Chosen, a: int) -> int:
    value = integer(a, c["atype"])
    return encode(Fraction(value), FORMATS[c["dtype"]], c["rnd"]) if value else 0


def _to_integer(value: Fraction, mode: str) -> int:
    below = floor(value)
    if mode == "rmi" or value == below:
        return below
    if mode == "rpi":
        return below + 1
    if mode == "rzi":
        return below if value > 0 else below + 1
    rest = value - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def _cvt_int_from_float(c: Chosen, a: int) -> int:
    f, kind = FORMATS[c["atype"]], c["dtype"]
    (a,) = _inputs(c, a)
    if is_nan(a, f):
        # Zero, unless the source is .f64 or the destination 64 bits wide: then the top bit alone.
        return 1 << (bits_of(kind) - 1) if f is F64 or bits_of(kind) == 64 else 0
    if is_infinite(a, f):
        return wrap(limits(kind)[0 if negative(a, f) else 1], kind)
    return wrap(clamp(_to_integer(value_of(a, f), c["irnd"]), kind), kind)


def _narrow(a: int, f: Format, mode: str) -> int:
    if is_nan(a, F32):
        return 0x7FFF  # the canonical NaN of both 16-bit formats
    sign = f.sign if negative(a, F32) else 0
    if is_infinite(a, F32):
        return sign | f.infinity
    value = value_of(a, F32)
    return encode(value, f, mode) if value else sign


def _cvt_narrow16(c: Chosen, a: int) -> int:
    return _narrow(a, FORMATS[c["dtype"]], c["rnd"])


def _cvt_pack16(c: Chosen, a: int, b: int) -> int:
    f = FORMATS[c["dtype"][:-2]]
    return _narrow(a, f, c["rnd"]) << 16 | _narrow(b, f, c["rnd"])


def _cvt_widen16(c: Chosen, a: int) -> Any:
    f = FORMATS[c["atype"]]
    if is_nan(a, f):
        return Nan(F32)
    sign = F32.sign if negative(a, f) else 0
    if is_infinite(a, f):
        return sign | F32.infinity
    value = value_of(a, f)
    return encode(value, F32, "rz") if value else sign


#: Form id -> what it must compute.
EXPECTED: dict[str, Callable[..., Any]] = {
    "add.int": _add,
    "sub.int": _sub,
    "mul.int": _mul,
    "mul.wide": _mul_wide,
    "mad.int": _mad,
    "mad.wide": _mad_wide,
    "div.int": _div,
    "rem.int": _rem,
    "neg.int": _neg_int,
    "min.int": _min,
    "max.int": _max,
    "and": lambda c, a, b: a & b,
    "or": lambda c, a, b: a | b,
    "xor": lambda c, a, b: a ^ b,
    "not": lambda c, a: wrap(~a, c["type"]),
    "shl": _shl,
    "shr": _shr,
    "add.f32": _float_add(F32),
    "add.f64": _float_add(F64),
    "sub.f32": _float_add(F32, flip=True),
    "sub.f64": _float_add(F64, flip=True),
    "mul.f32": _float_mul(F32),
    "mul.f64": _float_mul(F64),
    "fma.f32": _fma,
    "div.f32": _float_div(F32),
    "div.f64": _float_div(F64),
    "neg.float": _neg_float,
    "setp": _setp,
    "selp": _selp,
    "mov": lambda c, a: a,
    "cvta": _cvta,
    "cvta.to": _cvta_to,
    "cvt.int": _cvt_int,
    "cvt.float_from_int": _cvt_float_from_int,
    "cvt.int_from_float": _cvt_int_from_float,
    "cvt.narrow16": _cvt_narrow16,
    "cvt.pack16": _cvt_pack16,
    "cvt.widen16": _cvt_widen16,
}
