"""What each conversion must compute, in plain Python: companion of :mod:`tests.sim.oracles.words`.

Narrow formats are lists of their magnitudes, made from exponent bits, mantissa bits and bias; a value is rounded
by finding its neighbors in the list.  What the manual leaves open about NaN is an H200's answer: canonical NaNs,
but sign and payload stay where f64 is involved, and bits that are only copied stay what they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from math import floor
from typing import Any

from tests.sim.oracles.words import (
    F32,
    F64,
    FORMATS,
    Chosen,
    Format,
    bits_of,
    clamp,
    encode,
    flush,
    integer,
    is_infinite,
    is_nan,
    limits,
    negative,
    value_of,
    wrap,
)

CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "tf32": 0x7FFFE000}
TF32 = Format(11, -126, 19)

#: Exponent bits, mantissa bits, bias, and the code of the largest finite number, as the manual and the OCP
#: specifications of 8-bit floats and of microscaling formats give them.
NARROW = {
    "f16": (5, 10, 15, 0x7BFF),
    "bf16": (8, 7, 127, 0x7F7F),
    "e4m3": (4, 3, 7, 0x7E),
    "e5m2": (5, 2, 15, 0x7B),
    "e2m3": (2, 3, 1, 0x1F),
    "e3m2": (3, 2, 3, 0x1F),
    "e2m1": (2, 1, 1, 0x07),
    "ue8m0": (8, 0, 127, 0xFE),
    "ue5m3": (5, 3, 15, 0xFE),
}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "e4m3": 0x7F, "e5m2": 0x7F, "ue8m0": 0xFF, "ue5m3": 0xFF}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "e5m2": 0x7C}
#: Bits from one packed code to the next.
STRIDE = {"f16": 16, "bf16": 16, "e2m1": 4}


@cache
def magnitudes(name: str) -> list[Fraction]:
    """The finite magnitudes of a format, ascending: the index is the code."""
    _, mantissa, bias, largest = NARROW[name]
    found = []
    for code in range(largest + 1):
        exponent, fraction = code >> mantissa, Fraction(code & ((1 << mantissa) - 1), 1 << mantissa)
        if exponent or name == "ue8m0":
            found.append((1 + fraction) * Fraction(2) ** (exponent - bias))
        else:
            found.append(fraction * Fraction(2) ** (1 - bias))
    return found


def sign_bit(name: str) -> int:
    """The sign bit of a format; 0 if it has none."""
    if name == "s2f6":
        return 0x80
    return 0 if name[0] == "u" else 1 << sum(NARROW[name][:2])


def decode(code: int, name: str) -> Fraction | float:
    """The value of a code: a fraction, or a float that is infinite or no number."""
    if name == "s2f6":
        return Fraction(code - 256 if code >= 128 else code, 64)
    minus = -1 if code & sign_bit(name) else 1
    magnitude = code & ~sign_bit(name)
    found = magnitudes(name)
    if magnitude < len(found):
        return minus * found[magnitude]
    return minus * float("inf") if magnitude == INFINITY.get(name) else float("nan")


def neighbor(magnitude: Fraction, name: str, mode: str, random: int = 0, bits: int = 16) -> int | None:
    """The code that a magnitude is rounded to (rn, rz, or away from zero); None: beyond the largest."""
    found = magnitudes(name)
    low = bisect_right(found, magnitude) - 1
    below = found[low] if low >= 0 else Fraction(0)
    if low + 1 < len(found):
        above = found[low + 1]
    else:
        # What would come next if the exponent had no end.
        above = 2 * below if name == "ue8m0" else 2 * below - found[low - 1]
    if magnitude >= above:
        return None
    place = (magnitude - below) / (above - below)
    up = {
        "rn": place > Fraction(1, 2) or (place == Fraction(1, 2) and low % 2 == 1),
        "rz": False,
        "away": place > 0,
        "rs": floor(place * (1 << bits)) + random >= 1 << bits,
    }[mode]
    code = max(low + up, 0)
    return code if code < len(found) else None


def narrow(value: Any, minus: bool, name: str, c: Chosen, random: int = 0, bits: int = 16) -> int:
    """The code of a value (a fraction, infinite or no number) with the sign ``minus``, which counts for zeros."""
    sign, largest = sign_bit(name), NARROW[name][3] if name in NARROW else 0x7F
    if value != value:
        return NAN.get(name, largest)
    if "relu" in c and minus:
        return 0
    if name == "s2f6":
        return _fixed(value, c.get("rnd", "rn"))
    minus = minus and sign != 0
    mode = c.get("rnd", "rn")
    if mode in ("rm", "rp"):
        mode = "away" if minus == (mode == "rm") else "rz"
    beyond = largest if "satfinite" in c or name not in NAN else INFINITY.get(name, NAN[name])
    if isinstance(value, float):
        code: int | None = beyond
    else:
        code = neighbor(abs(value), name, mode, random, bits)
        if code is None:
            code = largest if mode == "rz" else beyond
    assert code is not None
    code |= sign * minus
    return 0 if "pzo" in c and code == sign else code


def _fixed(value: Any, rnd: str) -> int:
    """Multiples of 1/64, from -2 to 127/64, in two's complement."""
    if isinstance(value, float):
        units = 127 if value > 0 else -128
    else:
        units = _whole(value * 64, f"{rnd}i")
    return min(max(units, -128), 127) & 0xFF


# --- what registers hold ----------------------------------------------------------------------


@lru_cache(1 << 17)
def read(raw: int, name: str) -> tuple[Any, bool]:
    """The value of a float and its sign."""
    f = FORMATS[name]
    minus = negative(raw, f)
    if is_nan(raw, f):
        return float("nan"), minus
    if is_infinite(raw, f):
        return float("-inf") if minus else float("inf"), minus
    return value_of(raw, f), minus


def write(value: Any, minus: bool, name: str, mode: str, *, ftz: bool = False) -> int:
    """A value as f16, bf16, f32, f64 or tf32, rounded; NaN is canonical."""
    f = TF32 if name == "tf32" else FORMATS[name]
    shift = 13 if name == "tf32" else 0
    if value != value:
        return CANONICAL[name]
    if isinstance(value, float):
        word = f.infinity | (f.sign if minus else 0)
    else:
        word = encode(value, f, mode, ftz=ftz) if value else (f.sign if minus else 0)
    return word << shift


def saturated(word: int, name: str) -> int:
    """[0, 1]; NaN and minus zero become zero."""
    f = FORMATS[name]
    if is_nan(word, f) or negative(word, f):
        return 0
    return min(word, encode(Fraction(1), f, "rn"))


def payload(raw: int, source: Format, target: Format) -> int:
    """A NaN from or to f64: sign and upper payload stay, and it becomes quiet."""
    sign = target.sign if negative(raw, source) else 0
    fraction = raw & ((1 << (source.precision - 1)) - 1)
    shift = target.precision - source.precision
    fraction = fraction << shift if shift >= 0 else fraction >> -shift
    return sign | target.infinity | fraction | 1 << (target.precision - 2)


# --- integers ---------------------------------------------------------------------------------


def _cvt_int(c: Chosen, a: int) -> int:
    value = integer(a, c["atype"])
    return wrap(clamp(value, c["dtype"]) if "sat" in c else value, c["dtype"])


def _from_int(name: str | None = None) -> Callable[..., int]:
    def expected(c: Chosen, a: int) -> int:
        target = name or c["dtype"]
        value = Fraction(integer(a, c["atype"]))
        word = write(value, value < 0, target, c["rnd"])
        return saturated(word, target) if "sat" in c else word

    return expected


def _whole(value: Fraction, mode: str) -> int:
    below = floor(value)
    if mode == "rmi" or value == below:
        return below
    if mode == "rpi":
        return below + 1
    if mode == "rzi":
        return below if value > 0 else below + 1
    rest = value - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def _to_int(name: str | None = None) -> Callable[..., int]:
    def expected(c: Chosen, a: int) -> int:
        source, kind = name or c["atype"], c["dtype"]
        if "ftz" in c:
            a = flush(a)
        value, minus = read(a, source)
        if value != value:
            # Zero, unless the source is .f64 or the destination 64 bits wide: then the top bit alone.
            return 1 << (bits_of(kind) - 1) if source == "f64" or bits_of(kind) == 64 else 0
        if isinstance(value, float):
            return wrap(limits(kind)[0 if minus else 1], kind)
        return wrap(clamp(_whole(value, c["irnd"]), kind), kind)

    return expected


def _pack(c: Chosen, a: int, b: int, rest: int = 0) -> int:
    bits = bits_of(c["dtype"])
    low, high = limits(c["dtype"])
    fields = [min(max(integer(x, "s32"), low), high) & ((1 << bits) - 1) for x in (a, b)]
    return wrap(rest << 2 * bits | fields[0] << bits | fields[1], "u32")


# --- floats -----------------------------------------------------------------------------------


def to_16(c: Chosen, a: int, name: str, source: str = "f32") -> int:
    """A float as f16, bf16 or tf32. An H200 flushes operands for bf16, but not for f16."""
    if "ftz" in c and name == "bf16":
        a = flush(a)
    value, minus = read(a, source)
    if value != value:
        return 0 if "sat" in c else CANONICAL[name]
    word = write(value, minus, name, c.get("rnd", "rn"))
    sign, infinity = (1 << 31, 0x7F800000) if name == "tf32" else (1 << 15, FORMATS[name].infinity)
    if "satfinite" in c and word & ~sign == infinity:
        word -= 0x2000 if name == "tf32" else 1
    if "sat" in c:
        return saturated(word, name)
    if ("relu" in c and minus) or ("pzo" in c and word == sign):
        return 0
    return word


def _to_16(name: str | None = None, source: str = "f32") -> Callable[..., int]:
    return lambda c, a: to_16(c, a, name or c["dtype"], source)


def _pair_to_16(c: Chosen, a: int, b: int) -> int:
    name = c["dtype"][:-2]
    return to_16(c, a, name) << 16 | to_16(c, b, name)


def _pair_rs(c: Chosen, a: int, b: int, random: int) -> int:
    name = c["dtype"][:-2]
    bits = 13 if name == "f16" else 16
    chosen = {**c, "rnd": "rs"}
    mask = (1 << bits) - 1
    upper = narrow(*read(a, "f32"), name, chosen, random >> 16 & mask, bits)
    return upper << 16 | narrow(*read(b, "f32"), name, chosen, random & mask, bits)


def _tf32_away(c: Chosen, a: int) -> int:
    sign, magnitude = a & (1 << 31), a & 0x7FFFFFFF
    if magnitude < F32.infinity:
        # In units of f32's last place: the last place of tf32 is 8192.
        magnitude += 4096
    # A NaN is cut to tf32's bits, and infinite if none of them is left.
    word = magnitude // 8192 * 8192
    if "satfinite" in c and word >= F32.infinity:
        word -= 8192
    return sign | word


def _widen(c: Chosen, a: int, name: str) -> int:
    if name == "bf16" and "ftz" not in c:
        return a << 16
    value, minus = read(a, name)
    word = write(value, minus, "f32", "rz")
    word = flush(word) if "ftz" in c else word
    return saturated(word, "f32") if "sat" in c else word


def _from_f64(name: str) -> Callable[..., int]:
    def expected(c: Chosen, a: int) -> int:
        if is_nan(a, F64):
            word = payload(a, F64, FORMATS[name])
        else:
            word = write(*read(a, "f64"), name, c["rnd"], ftz="ftz" in c)
        return saturated(word, name) if "sat" in c else word

    return expected


def _to_f64(source: str) -> Callable[..., int]:
    def expected(c: Chosen, a: int) -> int:
        f = FORMATS[source]
        if "ftz" in c:
            a = CANONICAL["f32"] if is_nan(a, f) else flush(a)
        word = payload(a, f, F64) if is_nan(a, f) else write(*read(a, source), "f64", "rz")
        return saturated(word, "f64") if "sat" in c else word

    return expected


def _same(name: str, *, copies: bool) -> Callable[..., int]:
    """To the same format; ``copies``: without any modifier even a NaN stays."""

    def expected(c: Chosen, a: int) -> int:
        f = FORMATS[name]
        if copies and not {"irnd", "ftz", "sat"} & set(c):
            return a
        if "ftz" in c:
            a = flush(a)
        value, minus = read(a, name)
        if value != value:
            word = payload(a, f, f) if name == "f64" else CANONICAL[name]
        elif "irnd" in c and not isinstance(value, float):
            word = write(Fraction(_whole(value, c["irnd"])), minus, name, "rz")
        else:
            word = a
        return saturated(word, name) if "sat" in c else word

    return expected


# --- narrow formats ---------------------------------------------------------------------------


def scale_of(factor: int, shift: int) -> Any:
    return decode(factor >> shift & 0xFF, "ue8m0")


def narrow_pair(
    c: Chosen, upper: tuple[int, str], lower: tuple[int, str], name: str, factor: int | None
) -> int:
    """Two floats (raw bits and format), divided by their scale factors, as packed codes."""
    codes = []
    for (raw, source), shift in ((upper, 8 if "scaled::n2::ue8m0" in c else 0), (lower, 0)):
        if "scaled::n1::ue8m0" in c and raw & ~FORMATS[source].sign:
            raw = raw if raw & FORMATS[source].infinity else 0
        value, minus = read(raw, source)
        scale = scale_of(factor, shift) if factor is not None else 1
        value = float("nan") if scale != scale else value if isinstance(value, float) else value / scale
        codes.append(narrow(value, minus, name, c))
    return codes[0] << STRIDE.get(name, 8) | codes[1]


def _narrow_two(name: str | None = None) -> Callable[..., int]:
    def expected(c: Chosen, a: int, b: int, factor: int | None = None) -> int:
        target = name or c["dtype"][:-2]
        return narrow_pair(c, (a, "f32"), (b, "f32"), target, factor)

    return expected


def _narrow_pack(name: str | None = None, source: str | None = None) -> Callable[..., int]:
    def expected(c: Chosen, a: int, factor: int | None = None) -> int:
        kind, target = source or c["atype"][:-2], name or c["dtype"][:-2]
        return narrow_pair(c, (a >> 16, kind), (a & 0xFFFF, kind), target, factor)

    return expected


def narrow_four(c: Chosen, values: tuple[int, ...], random: int) -> int:
    """Four f32; pairs share 16 random bits, which the first of a pair takes from the other end."""
    name = c["dtype"][:-2]
    if name == "e2m1":
        by = random.to_bytes(4, "big")
        fields = [by[0] << 8 | by[2], by[1] << 8 | by[3]]
    else:
        fields = [random >> 16, random & 0xFFFF]
    word = 0
    for i, raw in enumerate(values):
        field = fields[i // 2]
        if i % 2 == 0:
            field = int(f"{field:016b}"[::-1], 2)
        code = narrow(*read(raw, "f32"), name, {**c, "rnd": "rs"}, field)
        word = word << STRIDE.get(name, 8) | code
    return word


def _widen_pair(target: str, name: str | None = None) -> Callable[..., int]:
    def expected(c: Chosen, a: int, factor: int | None = None) -> int:
        source = name or c["atype"][:-2]
        width = sum(NARROW[source][:2]) + (sign_bit(source) != 0) if source in NARROW else 8
        halves = []
        for shift in (STRIDE.get(source, 8), 0):
            code = a >> shift & ((1 << width) - 1)
            value = decode(code, source)
            scale = scale_of(factor, 8 if shift else 0) if factor is not None else 1
            value = float("nan") if scale != scale else value if isinstance(value, float) else value * scale
            # The sign of a code counts even if it is zero; in two's complement there is no minus zero.
            halves.append(narrow(value, bool(code & sign_bit(source)), target, {**c, "rnd": "rn"}))
        return halves[0] << 16 | halves[1]

    return expected


#: Form id -> what it must compute.
EXPECTED: dict[str, Callable[..., Any]] = {
    "cvt.int": _cvt_int,
    "cvt.pack": _pack,
    "cvt.pack.insert": _pack,
    "cvt.float_from_int": _from_int(),
    "cvt.float_from_int.sat": _from_int(),
    "cvt.half_from_int": _from_int("f16"),
    "cvt.bfloat_from_int": _from_int("bf16"),
    "cvt.bfloat_from_byte": _from_int("bf16"),
    "cvt.int_from_float": _to_int(),
    "cvt.int_from_float.sat": _to_int(),
    "cvt.int_from_half": _to_int("f16"),
    "cvt.int_from_bfloat": _to_int("bf16"),
    "cvt.byte_from_bfloat": _to_int("bf16"),
    "cvt.narrow16": _to_16(),
    "cvt.narrow16.directed": _to_16(),
    "cvt.narrow16.relu": _to_16(),
    "cvt.f16_from_f32": _to_16("f16"),
    "cvt.bf16_from_f32.ftz": _to_16("bf16"),
    "cvt.half.pzo": _to_16(),
    "cvt.tf32": _to_16("tf32"),
    "cvt.tf32.rna": _tf32_away,
    "cvt.pack16": _pair_to_16,
    "cvt.pack16.relu": _pair_to_16,
    "cvt.pack16.pzo": _pair_to_16,
    "cvt.pack16.rs": _pair_rs,
    "cvt.widen16": lambda c, a: _widen(c, a, c["atype"]),
    "cvt.f32_from_f16.sat": lambda c, a: _widen(c, a, "f16"),
    "cvt.f32_from_bf16.rnd": lambda c, a: _widen(c, a, "bf16"),
    "cvt.f32_from_bf16.ftz": lambda c, a: _widen(c, a, "bf16"),
    "cvt.f16_from_bf16": _to_16("f16", "bf16"),
    "cvt.bf16_from_f16": _to_16("bf16", "f16"),
    "cvt.f16_from_f64": _from_f64("f16"),
    "cvt.bf16_from_f64": _from_f64("bf16"),
    "cvt.f32_from_f64": _from_f64("f32"),
    "cvt.f64_from_f16": _to_f64("f16"),
    "cvt.f64_from_bf16": _to_f64("bf16"),
    "cvt.f64_from_f32": _to_f64("f32"),
    "cvt.f32": _same("f32", copies=True),
    "cvt.f64": _same("f64", copies=True),
    "cvt.f16": _same("f16", copies=False),
    "cvt.bf16": _same("bf16", copies=False),
    "cvt.f8x2": _narrow_two(),
    "cvt.f6x2": _narrow_two(),
    "cvt.narrow8": _narrow_two(),
    "cvt.ue8m0x2": _narrow_two("ue8m0"),
    "cvt.ue5m3x2": _narrow_two("ue5m3"),
    "cvt.s2f6x2": _narrow_two("s2f6"),
    "cvt.f8x2_from_f16x2": _narrow_pack(source="f16"),
    "cvt.f8x2_from_bf16x2": _narrow_pack(source="bf16"),
    "cvt.f6x2_from_pack": _narrow_pack(),
    "cvt.narrow8_from_pack": _narrow_pack(),
    "cvt.ue8m0x2_from_bf16x2": _narrow_pack("ue8m0", "bf16"),
    "cvt.ue5m3x2_from_pack": _narrow_pack("ue5m3"),
    "cvt.s2f6x2_from_bf16x2": _narrow_pack("s2f6", "bf16"),
    "cvt.f16x2_from_f8x2": _widen_pair("f16"),
    "cvt.f16x2_from_f6x2": _widen_pair("f16"),
    "cvt.f16x2_from_ue5m3x2": _widen_pair("f16", "ue5m3"),
    "cvt.bf16x2_from_ue8m0x2": _widen_pair("bf16", "ue8m0"),
    "cvt.bf16x2_from_f8x2": _widen_pair("bf16"),
    "cvt.bf16x2_from_ue5m3x2": _widen_pair("bf16", "ue5m3"),
    "cvt.bf16x2_from_s2f6x2": _widen_pair("bf16", "s2f6"),
}
