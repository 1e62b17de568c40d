"""What floating-point arithmetic must compute: exact rationals, rounded once by :func:`~tests.sim.oracles.words.encode`.

An operand becomes a :class:`Real`; sums, products, quotients and roots of these are exact (a root up to a bit that says
there is more), so that a fused multiply-add is a product and a sum. Approximate forms give a :class:`Near`: the true
value and how far the manual lets the result be from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from tests.sim.oracles.words import (
    BF16,
    F16,
    F32,
    F64,
    FORMATS,
    Format,
    Nan,
    Near,
    Packed,
    encode,
    flush,
    value_of,
)

Chosen = Mapping[str, str]

#: The NaN of arithmetic; of f64 any is taken here (the payload rules are held by recorded words).
CANONICAL: dict[Format, Any] = {F16: 0x7FFF, BF16: 0x7FFF, F32: 0x7FFFFFFF, F64: Nan(F64)}


@dataclass(frozen=True)
class Real:
    """A number, an infinity (of the sign of ``value``) or a NaN; ``minus`` is the sign of a zero as well."""

    value: Fraction = Fraction(0)
    minus: bool = False
    infinite: bool = False
    nan: bool = False

    def __neg__(self) -> Real:
        return Real(-self.value, not self.minus, self.infinite, self.nan)

    @property
    def zero(self) -> bool:
        return not (self.value or self.infinite or self.nan)


NAN = Real(nan=True)


def real(raw: int, f: Format) -> Real:
    """What raw bits stand for."""
    minus = bool(raw & f.sign)
    magnitude = raw & ~f.sign
    if magnitude >= f.infinity:
        return NAN if magnitude > f.infinity else Real(minus=minus, infinite=True)
    return Real(value_of(raw, f), minus)


def plus(x: Real, y: Real, mode: str) -> Real:
    if x.nan or y.nan or (x.infinite and y.infinite and x.minus != y.minus):
        return NAN
    if x.infinite or y.infinite:
        return x if x.infinite else y
    total = x.value + y.value
    # An exact zero: of both signs' common sign, else positive, but negative when rounding down.
    minus = total < 0 if total else x.minus if x.minus == y.minus and x.zero else mode == "rm"
    return Real(total, minus)


def times(x: Real, y: Real) -> Real:
    minus = x.minus != y.minus
    if x.nan or y.nan or (x.infinite and y.zero) or (x.zero and y.infinite):
        return NAN
    return Real(x.value * y.value, minus, x.infinite or y.infinite)


def over(x: Real, y: Real) -> Real:
    minus = x.minus != y.minus
    if x.nan or y.nan or (x.infinite and y.infinite) or (x.zero and y.zero):
        return NAN
    if x.infinite or y.zero:
        return Real(minus=minus, infinite=True)
    return Real(minus=minus) if y.infinite else Real(x.value / y.value, minus)


def root(x: Real) -> Real:
    if x.nan or x.zero or (x.infinite and not x.minus):
        return x
    if x.minus:
        return NAN
    scaled = x.value * Fraction(4) ** 1200
    assert scaled.denominator == 1
    whole = math.isqrt(scaled.numerator)
    more = whole * whole != scaled.numerator
    # One more bit says that the root goes on.
    return Real(Fraction(2 * whole + more, 2) / Fraction(2) ** 1200)


def bits(x: Real, f: Format, c: Chosen, mode: str | None = None) -> Any:
    """The result in a format, with the modifiers that act on results."""
    if x.nan:
        return 0 if "sat" in c else CANONICAL[f]
    if x.infinite:
        raw = f.infinity | (f.sign if x.minus else 0)
    elif x.value:
        raw = encode(x.value, f, mode or c.get("rnd", "rn"), ftz="ftz" in c)
    else:
        raw = f.sign if x.minus else 0
    if "sat" in c:
        return 0 if raw & f.sign else min(raw, encode(Fraction(1), f, "rn"))
    return 0 if "relu" in c and raw & f.sign else raw


# --- operands by type -------------------------------------------------------------------------


def split(raw: int, count: int, width: int) -> list[int]:
    return [raw >> (width * i) & ((1 << width) - 1) for i in range(count)]


def join(elements: list[Any], width: int) -> Any:
    if all(isinstance(e, int) for e in elements):
        return sum(e << (width * i) for i, e in enumerate(elements))
    return Packed(tuple(elements), width)


def _taken(c: Chosen, raw: int, f: Format) -> Real:
    return real(flush(raw, f) if "ftz" in c else raw, f)


def each(f: Format, count: int, element: Callable[..., Any]) -> Callable[..., Any]:
    """An oracle of registers from one of elements: ``element(chosen, raw...)``."""

    def expected(c: Chosen, *raw: int) -> Any:
        columns = [split(r, count, f.bits) for r in raw]
        return join([element(c, *row) for row in zip(*columns, strict=True)], f.bits)

    return expected if count > 1 else element


def by_type(make: Callable[[Format], Callable[..., Any]]) -> Callable[..., Any]:
    """An oracle of a form whose modifier ``.type`` names the format, packed or not."""
    known = {}
    for name, f in FORMATS.items():
        known[name], known[f"{name}x2"] = make(f), each(f, 2, make(f))

    def expected(c: Chosen, *raw: int) -> Any:
        return known[c["type"]](c, *raw)

    return expected


# --- exact forms ------------------------------------------------------------------------------


def _add(f: Format) -> Callable[..., Any]:
    return lambda c, a, b: bits(plus(_taken(c, a, f), _taken(c, b, f), c.get("rnd", "rn")), f, c)


def _sub(f: Format) -> Callable[..., Any]:
    return lambda c, a, b: bits(plus(_taken(c, a, f), -_taken(c, b, f), c.get("rnd", "rn")), f, c)


def _mul(f: Format) -> Callable[..., Any]:
    return lambda c, a, b: bits(times(_taken(c, a, f), _taken(c, b, f)), f, c)


def _fma(f: Format) -> Callable[..., Any]:
    def expected(c: Chosen, a: int, b: int, addend: int) -> Any:
        if "oob" in c and 0x7FF7 in (a & ~f.sign, b & ~f.sign):
            return 0  # the NaN that stands for an element out of bounds
        product = times(_taken(c, a, f), _taken(c, b, f))
        return bits(plus(product, _taken(c, addend, f), c.get("rnd", "rn")), f, c)

    return expected


def _div(f: Format) -> Callable[..., Any]:
    return lambda c, a, b: bits(over(_taken(c, a, f), _taken(c, b, f)), f, c)


def _rcp(f: Format) -> Callable[..., Any]:
    return lambda c, a: bits(over(Real(Fraction(1)), _taken(c, a, f)), f, c)


def _sqrt(f: Format) -> Callable[..., Any]:
    return lambda c, a: bits(root(_taken(c, a, f)), f, c)


def _neg(f: Format) -> Callable[..., Any]:
    return lambda c, a: bits(-_taken(c, a, f), f, c)


def _abs(f: Format) -> Callable[..., Any]:
    return lambda c, a: bits(_taken(c, a & ~f.sign, f), f, c)


def _extreme(f: Format, largest: bool) -> Callable[..., Any]:
    def key(raw: int) -> int:
        return -(raw & ~f.sign) - 1 if raw & f.sign else raw  # bits order as numbers do, -0 below +0

    def expected(c: Chosen, *operands: int) -> Any:
        raw = [flush(r, f) if "ftz" in c else r for r in operands]
        sign = raw[0] ^ raw[1] if "xorsign" in c else 0
        if "abs" in c:
            raw = [r & ~f.sign for r in raw]
        numbers = [r for r in raw if not real(r, f).nan]
        if not numbers or ("NaN" in c and len(numbers) < len(raw)):
            return CANONICAL[f]
        return (max if largest else min)(numbers, key=key) | sign & f.sign

    return expected


def _testp(c: Chosen, a: int) -> int:
    f = FORMATS[c["type"]]
    x = real(a, f)
    subnormal = bool(x.value) and not a & f.infinity
    return {
        "finite": not (x.nan or x.infinite),
        "infinite": x.infinite,
        "number": not x.nan,
        "notanumber": x.nan,
        "normal": not (x.nan or x.infinite or subnormal),
        "subnormal": subnormal,
    }[c["op"]]


def _copysign(c: Chosen, a: int, b: int) -> int:
    sign = FORMATS[c["type"]].sign
    return (a & sign) | (b & ~sign)


# --- mixed and narrow forms -------------------------------------------------------------------


def _mixed(c: Chosen, a: int, addend: int, sign: int = 0) -> Any:
    x = real(a, FORMATS[c["atype"].removesuffix("x2")])
    return bits(plus(x, real(addend ^ sign, F32), c.get("rnd", "rn")), F32, c)


def _mixed_sub(c: Chosen, a: int, addend: int) -> Any:
    return _mixed(c, a, addend, F32.sign)


def _mixed_fma(c: Chosen, a: int, b: int, addend: int) -> Any:
    f = FORMATS[c["abtype"]]
    return bits(plus(times(real(a, f), real(b, f)), real(addend, F32), c["rnd"]), F32, c)


def _mixed_fma_element(c: Chosen, a: int, b: int, addend: int) -> Any:
    x = real(a, FORMATS[c["atype"].removesuffix("x2")])
    return bits(plus(times(x, real(b, F32)), real(addend, F32), c["rnd"]), F32, c)


def _pairs(element: Callable[..., Any]) -> Callable[..., Any]:
    """Two halves or bfloats, and operands of two f32."""

    def expected(c: Chosen, a: int, *rest: int) -> Any:
        columns = [split(a, 2, 16), *(split(r, 2, 32) for r in rest)]
        return join([element(c, *row) for row in zip(*columns, strict=True)], 32)

    return expected


def _narrowing(combine: Callable[[Real, Real, str], Real]) -> Callable[..., Any]:
    def expected(c: Chosen, a: int, b: int) -> Any:
        f = FORMATS[c["dtype"].removesuffix("x2")]
        rows = zip(split(a, 2, 32), split(b, 2, 32), strict=True)
        return join(
            [bits(combine(_taken(c, x, F32), _taken(c, y, F32), "rz"), f, c, "rz") for x, y in rows], 16
        )

    return expected


_NARROW = {
    "e5m2x4": ml_dtypes.float8_e5m2,
    "e4m3x4": ml_dtypes.float8_e4m3fn,
    "e3m2x4": ml_dtypes.float6_e3m2fn,
    "e2m3x4": ml_dtypes.float6_e2m3fn,
    "e2m1x4": ml_dtypes.float4_e2m1fn,
    "e2m1p4x4": ml_dtypes.float4_e2m1fn,
    "ue8m0x4": ml_dtypes.float8_e8m0fnu,
}
_WIDTHS = {"e3m2x4": 6, "e2m3x4": 6, "e2m1x4": 4, "e2m1p4x4": 4}
_REALS = {
    kind: [
        real(int(b), F64)
        for b in np.arange(1 << _WIDTHS.get(kind, 8), dtype=np.uint8)
        .view(dtype)
        .astype(np.float64)
        .view(np.uint64)
    ]
    for kind, dtype in _NARROW.items()
}


def _fours(raw: int, kind: str) -> list[Real]:
    step = 4 if kind == "e2m1x4" else 8
    return [_REALS[kind][code & ((1 << _WIDTHS.get(kind, 8)) - 1)] for code in split(raw, 4, step)]


def _byte(x: Real, kind: str, c: Chosen) -> int:
    """A result in e5m2 or e4m3: NaN is 0x7F in both; beyond the largest number lies infinity, in e4m3 NaN."""
    if x.nan:
        return 0x7F
    sign = 0x80 if x.minus else 0
    largest, beyond = (0x7B, 0x7C) if kind == "e5m2x4" else (0x7E, 0x7F)
    if x.infinite:
        return sign | (largest if "satfinite" in c else beyond)
    # One exponent bit more than there is, so that nothing is infinite yet.
    f = Format(3, -14, 9) if kind == "e5m2x4" else Format(4, -6, 9)
    magnitude = encode(abs(x.value), f, "rn") if x.value else 0
    if magnitude > largest:
        magnitude = largest if "satfinite" in c else beyond
    return sign | magnitude


def _narrow_sum(sign: int) -> Callable[..., Any]:
    def expected(c: Chosen, a: int, addend: int) -> Any:
        kind = c["cdtype"]
        rows = zip(_fours(a, c["atype"]), _fours(addend, kind), strict=True)
        return join([_byte(plus(x, -y if sign else y, "rn"), kind, c) for x, y in rows], 8)

    return expected


def _narrow_mul(c: Chosen, a: int, b: int) -> Any:
    rows = zip(_fours(a, c["atype"]), _fours(b, c["ctype"]), strict=True)
    return join([_byte(times(x, y), c["dtype"], c) for x, y in rows], 8)


def _narrow_fma(c: Chosen, a: int, b: int, addend: int) -> Any:
    kind = c["cdtype"]
    rows = zip(_fours(a, c["atype"]), _fours(b, c["btype"]), _fours(addend, kind), strict=True)
    return join([_byte(plus(times(x, y), z, "rn"), kind, c) for x, y, z in rows], 8)


# --- approximate forms ------------------------------------------------------------------------


def near(c: Chosen, f: Format, x: Real, *, ulps: float = 0, absolute: float = 0) -> Any:
    """A result within a bound; what is no number, infinite or zero is exact."""
    if x.nan or x.infinite or x.zero:
        return bits(x, f, c)
    exact = x.value
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > abs(exact)
    unit = Fraction(2) ** (max(exponent, f.least) - f.precision + 1)
    return Near(f, exact, max(Fraction(ulps) * unit, Fraction(absolute)) + unit, "ftz" in c)


def _function(function: Callable[[float], float]) -> Callable[[Real], Real]:
    """A function of finite numbers from one of floats, far more exact than any bound here."""

    def result(x: Real) -> Real:
        value = Fraction(function(float(x.value)))
        return Real(value, value < 0 or (not value and x.minus))

    return result


def _exp2(x: Real) -> Real:
    if x.nan:
        return NAN
    if x.infinite or abs(x.value) > 400:
        return Real() if x.minus else Real(infinite=True)
    return _function(math.exp2)(x) if hasattr(math, "exp2") else _function(lambda v: 2.0**v)(x)


def _log2(x: Real) -> Real:
    if x.nan or (x.minus and not x.zero):
        return NAN
    if x.zero:
        return Real(minus=True, infinite=True)
    return x if x.infinite else _function(math.log2)(x)


def _tanh(x: Real) -> Real:
    if x.nan or x.zero:
        return x
    if x.infinite:
        return Real(Fraction(-1 if x.minus else 1), x.minus)
    # A tiny double has a tangent that rounds to itself; fractions keep what floats would flush.
    return x if abs(x.value) < Fraction(2) ** -40 else _function(math.tanh)(x)


def _rsqrt(x: Real) -> Real:
    return over(Real(Fraction(1)), root(x))


def _approximate(f: Format, function: Callable[[Real], Real], **bound: float) -> Callable[..., Any]:
    return lambda c, a: near(c, f, function(_taken(c, a, f)), **bound)


def _turning(function: Callable[[float], float], at_zero: int) -> Callable[..., Any]:
    def expected(c: Chosen, a: int) -> Any:
        x = _taken(c, a, F32)
        if x.nan or x.infinite:
            return CANONICAL[F32]
        if x.zero:
            return at_zero or a & F32.sign
        # The reduction multiplies with a rounded constant: its error grows with the angle.
        grows = float(abs(x.value)) * 2.0**-22
        return Near(F32, Fraction(function(float(x.value))), Fraction(2.0**-20 + min(grows, 2.0)))

    return expected


def _fast_div(c: Chosen, a: int, b: int) -> Any:
    x, y = _taken(c, a, F32), _taken(c, b, F32)
    if c["how"] == "approx" and not y.infinite and abs(y.value) > Fraction(2) ** 126:
        return bits(times(x, Real(minus=y.minus)), F32, c)
    return near(c, F32, over(x, y), ulps=2)


def _high_half(function: Callable[[Real], Real]) -> Callable[..., Any]:
    """Of the upper half of an f64, as an upper half: subnormals are flushed, 20 bits of fraction are left."""

    def expected(c: Chosen, a: int) -> Any:
        result = function(real(flush(a >> 32 << 32, F64), F64))
        return near({"ftz": "ftz"}, F64, result, ulps=2.0**33)

    return expected


def _rsqrt64(c: Chosen, a: int) -> Any:
    if "ftz" in c:
        return _high_half(_rsqrt)(c, a)
    return near(c, F64, _rsqrt(real(a, F64)), ulps=2)


#: Form id -> what it must compute.
EXPECTED: dict[str, Callable[..., Any]] = {
    "add.f32": _add(F32),
    "sub.f32": _sub(F32),
    "mul.f32": _mul(F32),
    "fma.f32": _fma(F32),
    "mad.f32": _fma(F32),
    "div.f32": _div(F32),
    "add.f64": _add(F64),
    "sub.f64": _sub(F64),
    "mul.f64": _mul(F64),
    "fma.f64": _fma(F64),
    "mad.f64": _fma(F64),
    "div.f64": _div(F64),
    "add.f32x2": each(F32, 2, _add(F32)),
    "sub.f32x2": each(F32, 2, _sub(F32)),
    "mul.f32x2": each(F32, 2, _mul(F32)),
    "fma.f32x2": each(F32, 2, _fma(F32)),
    "neg.float": by_type(_neg),
    "abs.float": by_type(_abs),
    "min.f32": _extreme(F32, False),
    "max.f32": _extreme(F32, True),
    "min3.f32": _extreme(F32, False),
    "max3.f32": _extreme(F32, True),
    "min.f64": _extreme(F64, False),
    "max.f64": _extreme(F64, True),
    "testp": _testp,
    "copysign": _copysign,
    **{
        f"{name}.{kind}": by_type(make)
        for name, make in (
            ("add", _add),
            ("sub", _sub),
            ("mul", _mul),
            ("fma", _fma),
            ("neg", _neg),
            ("abs", _abs),
        )
        for kind in ("half", "bfloat")
    },
    **{f"min.{kind}": by_type(lambda f: _extreme(f, False)) for kind in ("half", "bfloat")},
    **{f"max.{kind}": by_type(lambda f: _extreme(f, True)) for kind in ("half", "bfloat")},
    "add.mixed": _mixed,
    "sub.mixed": _mixed_sub,
    "fma.mixed": _mixed_fma,
    "add.mixed.packed": _pairs(_mixed),
    "sub.mixed.packed": _pairs(_mixed_sub),
    "fma.mixed.packed": _pairs(_mixed_fma_element),
    "add.narrow": _narrowing(plus),
    "sub.narrow": _narrowing(lambda x, y, mode: plus(x, -y, mode)),
    "mul.narrow": _narrowing(lambda x, y, _: times(x, y)),
    "add.narrow8": _narrow_sum(0),
    "sub.narrow8": _narrow_sum(1),
    "mul.narrow8": _narrow_mul,
    "fma.narrow8": _narrow_fma,
    "rcp.f32": _rcp(F32),
    "rcp.f64": _rcp(F64),
    "sqrt.f32": _sqrt(F32),
    "sqrt.f64": _sqrt(F64),
    "div.f32.fast": _fast_div,
    "rcp.approx.f32": _approximate(F32, lambda x: over(Real(Fraction(1)), x), ulps=1),
    "sqrt.approx.f32": _approximate(F32, root, ulps=2),
    "rsqrt.f32": _approximate(F32, _rsqrt, ulps=2),
    "sin.f32": _turning(math.sin, 0),
    "cos.f32": _turning(math.cos, 0x3F800000),
    "lg2.f32": _approximate(F32, _log2, ulps=4, absolute=2.0**-22),
    "ex2.f32": _approximate(F32, _exp2, ulps=2),
    "tanh.f32": _approximate(F32, _tanh, ulps=2**13),
    "rcp.approx.f64": _high_half(lambda x: over(Real(Fraction(1)), x)),
    "rsqrt.f64": _rsqrt64,
    "ex2.half": by_type(lambda f: _approximate(f, _exp2, ulps=2)),
    "ex2.bfloat": by_type(lambda f: _approximate(f, _exp2, ulps=1)),
    "tanh.half": by_type(lambda f: _approximate(f, _tanh, ulps=2)),
}
