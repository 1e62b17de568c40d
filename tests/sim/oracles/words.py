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

from pyptx.sim.memory.address_space import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW

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


@dataclass(frozen=True)
class Near:
    """Any value of a format within a tolerance; with ``flushed`` none that is subnormal, but zero in place of them."""

    format: Format
    exact: Fraction
    tolerance: Fraction
    flushed: bool = False

    def __contains__(self, bits: int) -> bool:
        f = self.format
        if bits in Nan(f):
            return False
        # Infinity stands next to the largest number.
        value, beyond = value_of(bits, f), value_of(f.infinity, f)
        if self.flushed and not bits & f.infinity:
            return not bits & ~f.sign and abs(self.exact) - self.tolerance < Fraction(2) ** f.least
        return abs(value - max(min(self.exact, beyond), -beyond)) <= self.tolerance


@dataclass(frozen=True)
class Packed:
    """Elements of a packed register, least significant first, some of which are not known exactly."""

    elements: tuple[Any, ...]
    width: int

    def __contains__(self, bits: int) -> bool:
        parts = [bits >> (self.width * i) & ((1 << self.width) - 1) for i in range(len(self.elements))]
        pairs = zip(parts, self.elements, strict=True)
        return all(part == e if isinstance(e, int) else part in e for part, e in pairs)


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


# --- moves ------------------------------------------------------------------------------------

_WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
    "const": CONST_WINDOW,
    "local": LOCAL_WINDOW,
}


def _cvta(c: Chosen, a: int) -> int:
    return wrap(a + _WINDOWS.get(c["space"], 0), "u64")


def _cvta_to(c: Chosen, a: int) -> int:
    return wrap(a - _WINDOWS.get(c["space"], 0), "u64")


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
    "setp": _setp,
    "selp": _selp,
    "mov": lambda c, a: a,
    "cvta": _cvta,
    "cvta.to": _cvta_to,
}
