"""Tuples of operands for value forms: special values against each other, random ones, and those where rounding decides.

:func:`tuples` makes one word per operand and tuple. Of every eight tuples three hold special values, one uniform bits,
one numbers of ordinary size, one operands that are related (equal but for a little, multiples, canceling), two what
is critical for the result's format: ties, one off a tie, overflow, underflow, limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from pyptx.core.types import TYPES

from .words import FORMATS, Format, Words, floats, splitmix64, uniform

__all__ = ["tuples"]

#: Kinds that are no types: a shift amount or field (any, or up to 255), a lane number, an offset among set bits,
#: and a word that is 0 or 1.
_OWN_KINDS = {"amount": 32, "byte": 32, "lane": 32, "offset": 32, "bit": 32}
_TURN = 8
_STYLES = ("special", "special", "special", "uniform", "ordinary", "related", "critical", "critical")

U = np.uint64


def _mask(bits: int) -> np.uint64:
    return U((1 << bits) - 1)


def _lane_of(kind: str) -> tuple[str, int]:
    """The kind of one lane of a packed kind, and how many lanes it has."""
    if kind not in TYPES or TYPES[kind].lanes == 1:
        return kind, 1
    return kind[: kind.rindex("x")], TYPES[kind].lanes


def _width(kind: str) -> int:
    return _OWN_KINDS.get(kind) or (1 if kind == "pred" else TYPES[kind].bits)


@cache
def tuples(kinds: tuple[str, ...], result: str, count: int) -> Words:
    """Words ``[operand, tuple]`` for operands of these kinds, with what is critical for ``result``.

    Lanes of packed operands are tuples of their own, each lane another.
    """
    lanes = max(_lane_of(kind)[1] for kind in kinds)
    single = _tuples(tuple(_lane_of(kind)[0] for kind in kinds), _lane_of(result)[0], count)
    rows = []
    for kind, row in zip(kinds, single, strict=True):
        name, own = _lane_of(kind)
        bits = _width(name)
        packed = np.zeros(count, U)
        for lane in range(own):
            packed |= np.roll(row, 37 * (lane % lanes)) << U(bits * lane)
        rows.append(packed)
    return np.stack(rows)


@cache
def _tuples(kinds: tuple[str, ...], result: str, count: int) -> Words:
    turn = np.arange(count) % _TURN
    columns = np.zeros((len(kinds), count), U)
    styles = {
        "special": _special,
        "uniform": _uniform,
        "ordinary": _ordinary,
        "related": _related,
        "critical": _critical,
    }
    for name, make in styles.items():
        at = np.flatnonzero(np.isin(turn, [t for t, style in enumerate(_STYLES) if style == name]))
        for row, words in enumerate(make(kinds, result, len(at))):
            columns[row, at] = words & _mask(_width(kinds[row]))
    return columns


def _stream(style: str, kind: str, slot: int) -> str:
    return f"{style} {kind} {slot}"


def _pick(index: np.ndarray, choices: Sequence[Any]) -> np.ndarray:
    """``choices[index]`` element by element; a choice is an array or one value."""
    return np.choose(index.astype(np.intp) % len(choices), choices)


# --- special values -----------------------------------------------------------------------------


@cache
def specials(kind: str) -> Words:
    """The special values of a kind as raw bits."""
    if kind in FORMATS:
        return np.arange(256, dtype=U) if FORMATS[kind].bits == 8 else _special_floats(FORMATS[kind])
    if kind in ("pred", "bit"):
        return np.array([0, 1], U)
    if kind == "lane":
        return np.arange(32, dtype=U)
    if kind == "offset":
        return np.array(
            [n & 0xFFFFFFFF for n in (0, 1, -1, 2, -2, 3, -3, 8, -8, 31, -31, 32, -32, 33, -33)], U
        )
    if kind in ("amount", "byte"):
        near = [*range(34), 47, 48, 63, 64, 65, 127, 128, 255]
        return np.array(
            near if kind == "byte" else [*near, 256, 257, 0x10005, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], U
        )
    bits = _width(kind)
    found = [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        10,
        15,
        16,
        17,
        31,
        32,
        33,
        63,
        64,
        100,
        127,
        128,
        129,
        255,
        256,
        0x7FFF,
        0x8000,
    ]
    found += [0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32]
    top = 1 << (bits - 1)
    found += [top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, -3, -5, -10, -127, -128, -129, -32768, -32769]
    found += [sum(byte << (8 * i) for i in range(bits // 8)) for byte in (0x55, 0xAA, 0x80, 0x7F, 0x01)]
    found += [0x80007FFF, 0x00FF00FF, 0xFF0180FE]
    return np.array(list(dict.fromkeys(n & (2 * top - 1) for n in found)), U)


def _special_floats(form: Format) -> Words:
    p, sign = form.fraction, 1 << (form.fraction + form.exponent)
    one, infinity = form.bias << p, ((1 << form.exponent) - 1) << p
    quiet = 1 << (p - 1)
    found = [0, 1, 2, (1 << p) - 1, 1 << p, (1 << p) + 1, 3 << (p - 1), one, one + 1, one - 1, one + quiet]
    found += [
        infinity - 1,
        infinity,
        infinity | quiet,
        infinity | 1,
        infinity | ((1 << p) - 1),
        infinity | quiet | 5,
    ]
    # More payloads; among f16 and bf16, 7ff7 is what a copy fills in out of bounds and fma.oob looks for.
    found += [infinity | quiet | 10, infinity | quiet | 3, infinity | 7, infinity | ((1 << p) - 9)]
    found += [(form.bias + e) << p for e in (-1, 1, 2, -2, p, p + 1, -p, -p - 1)]
    found += [(form.bias + 1) << p | quiet >> 1, (form.bias + 1) << p | quiet, one | ((1 << p) - 1) // 3]
    if form.exponent >= 8:
        found += [(form.bias + e) << p for e in (31, 32, 63, 64, -24, -14, 15, 16)]
        found += [(form.bias + e) << p | ((1 << p) - 1) for e in (30, 31, 62, 63, 15, 6, 7)]
    return np.array([s | n for n in dict.fromkeys(found) for s in (0, sign)], U) << U(form.shift)


def _special(kinds: tuple[str, ...], result: str, count: int) -> list[Words]:
    """The first operand goes through its special values, the others beside it; then they are drawn, at times NaNs only."""
    rows = []
    place = np.arange(count)
    for slot, kind in enumerate(kinds):
        values = specials(kind)
        drawn = splitmix64(place.astype(U) + U(slot << 20))
        row = np.where(place < len(values), values[place % len(values)], values[drawn % U(len(values))])
        if slot == 0:
            row = values[place % len(values)]
        if kind in FORMATS and len(kinds) > 1:
            nans = values[_magnitude(values, FORMATS[kind]) > _infinity(FORMATS[kind])]
            row = np.where(
                (place % _TURN == _TURN - 1) & (place >= len(values)), nans[drawn % U(len(nans))], row
            )
        rows.append(row)
    return rows


def _magnitude(words: Words, form: Format) -> Words:
    return words & _mask(form.bits - 1)


def _infinity(form: Format) -> np.uint64:
    return U(((1 << form.exponent) - 1) << (form.fraction + form.shift))


# --- random values ------------------------------------------------------------------------------


def _uniform(kinds: tuple[str, ...], result: str, count: int) -> list[Words]:
    return [_drawn(kind, slot, count, "uniform") for slot, kind in enumerate(kinds)]


def _drawn(kind: str, slot: int, count: int, style: str) -> Words:
    """Uniform bits; of an own kind, what it allows."""
    words = uniform(_stream(style, kind, slot), count)
    if kind in _OWN_KINDS:
        values = specials(kind)
        return values[words % U(len(values))]
    return words >> U(64 - _width(kind))


def _ordinary(kinds: tuple[str, ...], result: str, count: int) -> list[Words]:
    rows = []
    for slot, kind in enumerate(kinds):
        if kind in FORMATS:
            spread = min(30, FORMATS[kind].bias - 2)
            near, far = (floats(_stream(f"ordinary {s}", kind, slot), count, kind, s) for s in (4, spread))
            rows.append(np.where(np.arange(count) % 2, near, far))
        elif kind in _OWN_KINDS or kind == "pred":
            rows.append(_drawn(kind, slot, count, "ordinary"))
        else:
            words = uniform(_stream("ordinary", kind, slot), count)
            short = words >> (U(64 - _width(kind)) + (words & U(63)) % U(_width(kind)))
            rows.append(np.where(words & U(64), ~short + U(1), short))
    return rows


def _related(kinds: tuple[str, ...], result: str, count: int) -> list[Words]:
    """Operands that have to do with each other, by turns."""
    rows = _ordinary(kinds, result, count)
    turn = np.arange(count) % 4
    little = (splitmix64(np.arange(count, dtype=U)) % U(5)) - U(2)
    first = kinds[0]
    if first in FORMATS:
        form = FORMATS[first]
        sign = U(1 << (form.bits - 1))
        unit = little << U(form.shift)
        if len(kinds) == 1:
            # Beside the special values.
            values = specials(first)
            return [values[np.arange(count) % len(values)] + unit]
        if kinds[1] == first:
            rows[1] = _pick(turn, [rows[1], rows[0] + unit, (rows[0] ^ sign) + unit, rows[0] ^ sign])
        if len(kinds) > 2 and kinds[2] == first:
            product = encode(decode(rows[0], first) * decode(rows[1], first), first)
            rows[2] = np.where(turn == 3, rows[2], (product ^ sign) + unit)
    elif first in TYPES and first != "pred" and len(kinds) > 1 and kinds[1] == first:
        multiple = rows[1] * (uniform("multiple", count) >> U(64 - _width(first) // 2)) + little
        rows[0] = _pick(turn, [rows[0], rows[1] + little, multiple, ~rows[1] + little])
    return rows


# --- critical values ----------------------------------------------------------------------------


def decode(words: Words, kind: str) -> np.ndarray:
    """Raw bits as f64."""
    form = FORMATS[kind]
    if kind == "f64":
        return words.view(np.float64)
    if kind == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    assert form.exponent == 8, kind
    wide = words << U(32 - form.bits)
    with np.errstate(invalid="ignore"):
        return wide.astype(np.uint32).view(np.float32).astype(np.float64)


def encode(values: np.ndarray, kind: str) -> Words:
    """f64 as raw bits, rounded in some way."""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "f64":
            return values.astype(np.float64).view(U)
        if kind == "f16":
            return values.astype(np.float16).view(np.uint16).astype(U)
        return values.astype(np.float32).view(np.uint32).astype(U) >> U(32 - FORMATS[kind].bits)


def _critical(kinds: tuple[str, ...], result: str, count: int) -> list[Words]:
    rows = _uniform(kinds, result, count)
    same = [slot for slot, kind in enumerate(kinds) if kind == result][:3]
    if result in FORMATS and result in decodable() and same:
        for slot, words in zip(same, _arithmetic(FORMATS[result], len(same), count), strict=True):
            rows[slot] = words
        return rows
    for slot, kind in enumerate(kinds):
        if kind in decodable():
            make = _between if result in FORMATS else _about_integers
            rows[slot] = make(kind, result, slot, count)
        elif kind in TYPES and kind != "pred" and kind not in FORMATS:
            rows[slot] = (_long_integers if result in FORMATS else _limits)(kind, result, slot, count)
    return rows


def decodable() -> tuple[str, ...]:
    return ("f16", "bf16", "f32", "f64")


def _arithmetic(form: Format, operands: int, count: int) -> list[Words]:
    """Sums and products that are ties or next to them, that are subnormal, that overflow; by turns of four."""
    p, bias = form.fraction, form.bias
    draws = [uniform(f"arithmetic {form} {slot}", count) for slot in range(3)]
    turn = np.arange(count) % 4
    fraction = [d & _mask(p) for d in draws]
    sign = [d >> U(63) for d in draws]
    center = U(bias) + ((draws[0] >> U(53)) & U(7)) - U(3)
    # Ties of a sum: the second is half a unit of the first, or a unit of its own beside that.
    beside = _pick(np.arange(count) // 4 % 4, [U(0), U(1), _mask(p), _mask(p)])
    low = np.maximum(center.astype(np.int64) - (p + 1), 0).astype(U)
    lower = np.maximum(center.astype(np.int64) - 2 * p - 2, 0).astype(U)
    half = (p + 1) // 2
    short = [fraction[0] & ~_mask(p - half) | U(1 << (p - half)), fraction[1] & ~_mask(half) | U(1 << half)]
    # A product (or sum) about the least normal number, and about the largest.
    spread = (draws[1] >> U(53)) % U(7)
    wide = U(1) + (draws[0] >> U(54)) % U(2 * bias - 1)
    small = np.clip(
        bias + (1 - bias) - (wide.astype(np.int64) - bias) + spread.astype(np.int64) - 5, 0, 2 * bias
    )
    large = np.clip(bias + bias - (wide.astype(np.int64) - bias) + spread.astype(np.int64) - 4, 0, 2 * bias)
    exponents = [
        [center, U(bias) + spread, wide, wide],
        [low, U(bias) + U(1) + ((draws[1] >> U(56)) & U(3)), small.astype(U), large.astype(U)],
        [lower, np.where(draws[2] & U(1 << 60), U(bias - p - 1), lower), spread, U(2 * bias) - spread],
    ]
    fractions = [
        [fraction[0], short[0], fraction[0], fraction[0]],
        [beside, short[1], fraction[1], fraction[1]],
        [fraction[2] & ~_mask(p - 2), beside, fraction[2], fraction[2]],
    ]
    rows = []
    for slot in range(operands):
        exponent = _pick(turn, [np.broadcast_to(e, count) for e in exponents[slot]])
        digits = _pick(turn, [np.broadcast_to(f, count) for f in fractions[slot]])
        rows.append(((sign[slot] << U(form.exponent) | exponent) << U(p) | digits) << U(form.shift))
    return rows


def _between(kind: str, result: str, slot: int, count: int) -> Words:
    """Midway between two numbers of the result's format, or one unit of ``kind`` beside that; or about its limits."""
    form, draw = FORMATS[result], uniform(_stream(f"between {result}", kind, slot), count)
    # A third of them subnormal or nearly so.
    low = form.fraction + 4
    span = np.where(np.arange(count) % 3 == 0, low, form.largest - form.least + low).astype(U)
    exponent = (draw >> U(48)) % span
    scale = exponent.astype(np.int64) + form.least - form.fraction - 2
    digits = (draw & _mask(form.fraction)) + U(1 << form.fraction)
    quantum = np.maximum(scale, form.least) - form.fraction
    kept = np.ldexp(digits.astype(np.float64), np.minimum(scale - form.least, 0).astype(np.int32)).astype(
        np.int64
    )
    halves = _pick((draw >> U(40)) % U(4), [0.5, 0.5, 0.5, 0.0])
    value = np.ldexp(kept + halves, quantum.astype(np.int32)) * np.where(draw & U(1 << 47), -1.0, 1.0)
    beside = _pick((draw >> U(42)) % U(4), [U(0), U(0), U(1), ~U(0)])
    return encode(value, kind) + beside


def _about_integers(kind: str, result: str, slot: int, count: int) -> Words:
    """Integers, halves and quarters beside them, and the limits of the result's type; one unit off as well."""
    bits = int("".join(filter(str.isdigit, result)) or 32)
    draw = uniform(_stream(f"integers {result}", kind, slot), count)
    whole = (draw >> (U(64 - bits) + (draw & U(63)) % U(bits))).astype(np.float64)
    top = 2.0 ** (bits - 1)
    limits = _pick((draw >> U(8)) % U(6), [0.0, top, -top, 2 * top, 1.0, 2.0 ** (bits - 2)])
    value = np.where(np.arange(count) % 2, limits, whole * np.where(draw & U(64), -1.0, 1.0))
    value = value + _pick((draw >> U(16)) % U(6), [0.0, 0.5, -0.5, 0.25, -1.0, 0.75])
    return encode(value, kind) + _pick((draw >> U(24)) % U(4), [U(0), U(0), U(1), ~U(0)])


def _long_integers(kind: str, result: str, slot: int, count: int) -> Words:
    """Integers with more digits than the result has: ties, and one beside them."""
    bits, keep = _width(kind), FORMATS[result].fraction + 1
    draw = uniform(_stream(f"long {result}", kind, slot), count)
    digits = (draw & _mask(keep)) | U(1 << (keep - 1))
    room = max(bits - keep - 1, 1)
    shift = (draw >> U(55)) % U(room)
    value = (digits << U(1) | U(1)) << shift
    value = value + _pick((draw >> U(40)) % U(3), [U(0), U(1), ~U(0)])
    return np.where(draw & U(1 << 54), ~value + U(1), value)


def _limits(kind: str, result: str, slot: int, count: int) -> Words:
    """About the limits of the result's type."""
    bits = min(64, int("".join(filter(str.isdigit, result)) or 1))
    draw = uniform(_stream(f"limits {result}", kind, slot), count)
    top = 1 << (bits - 1)
    mark = _pick(draw % U(4), [U(0), U(top), ~U(top) + U(1), U((2 * top) & (2**64 - 1))])
    return mark + ((draw >> U(8)) % U(7)) - U(3)
