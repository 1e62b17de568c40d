"""Executes ``cvt``: conversions between integers and floats, between float formats, and packed ones.

Rules for NaN: without f64, a NaN result of 32 bits or less is the canonical NaN. If the source or the result
is f64, sign and payload stay, and the NaN becomes quiet. A conversion that only copies a register copies any
NaN unchanged.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..code.propagation import PARTS, moved
from ..code.semantic import Op, executes
from ..numbers.bits import clamped
from ..numbers.formats import cut_f32, decoded, odd_f32, rounded, wrong_side
from ..numbers.narrow import narrowed, random_fields, scale, scaled, stride, widened
from ..numbers.single import TINY, flushed, round_f32

Array = NDArray[Any]

_F16, _F32, _F64 = np.float16, np.float32, np.float64
_U16, _U32, _U64 = np.uint16, np.uint32, np.uint64
_QUIET_F64 = _U64(1 << 51)
#: For each format, the register bits of its NaN, of its largest number, and of one unit in the last place.
_WORDS: dict[str, tuple[Array, int, int]] = {
    "f16": (np.array(0x7FFF, _U16), 0x7BFF, 1),
    "bf16": (np.array(0x7FFF, _U16), 0x7F7F, 1),
    "tf32": (np.array(0x7FFFE000, _U32), 0x7F7FE000, 0x2000),
}
#: The bits of the canonical NaN, by the float's size in bytes.
_NAN = {2: _WORDS["f16"][0], 4: np.array(0x7FFFFFFF, _U32)}


def _modifiers(op: Op) -> dict[str, str]:
    """Return the instruction's modifiers as a dict; the rounding is to nearest if it names none."""
    found = op.cache.get("modifiers")
    if found is None:
        found = op.cache["modifiers"] = {"rnd": "rn", **op.chosen}
    return found


def _array(a: Any) -> Array:
    """Return an operand as an array of at least one dimension, also if it is an immediate (a scalar)."""
    return a if a.ndim else np.asarray(a)[None]


def _word(a: Array) -> Array:
    return np.asarray(a.view(f"u{a.itemsize}"))


def _canonical(result: Array) -> Array:
    """Make the NaNs of an f16 or f32 array canonical, in place; return the array."""
    nan = result != result
    if np.count_nonzero(nan):
        np.putmask(_word(result), nan, _NAN[result.itemsize])
    return result


def _saturated(a: Array) -> Array:
    """Return the values clamped to [0, 1]; NaN and -0 become +0."""
    zero, one = a.dtype.type(0), a.dtype.type(1)
    return np.asarray(np.where(a > zero, np.minimum(a, one), zero))


def _bf16_to_f32(a: Array) -> Array:
    """Convert bf16 bits to f32, exactly; a NaN keeps its payload."""
    return np.left_shift(_array(a), _U32(16), dtype=_U32).view(_F32)


def _halves(a: Array) -> NDArray[np.uint16]:
    """Return 32-bit values as ``(n, 2)`` 16-bit halves, the lower half first."""
    return np.ascontiguousarray(_array(a)).view(_U16).reshape(-1, 2)


# --- integers ---------------------------------------------------------------------------------


def _int_scalar(chosen: dict[str, str]) -> str:
    if "sat" not in chosen:
        return "{a}"
    low, high = TYPES[chosen["dtype"]].limits
    return f"min(max({{a}}, {low}), {high})"


@executes("cvt.int", undefined=moved("a"), scalar=_int_scalar)
def cvt_int(op: Op, a: Array) -> Any:
    dtype = TYPES[op.chosen["dtype"]].register_dtype
    if "sat" in op.chosen:
        low, high = TYPES[op.chosen["dtype"]].limits
        source_low, source_high = TYPES[op.chosen["atype"]].limits
        a = clamped(a, max(low, source_low), min(high, source_high))
    return np.asarray(a).astype(dtype)


def _pack_field(dtype: str, a: str) -> str:
    low, high = _limits(dtype)
    return f"(min(max({{{a}}}, {low}), {high}) & {(1 << int(dtype[1:])) - 1})"


def _limits(dtype: str) -> tuple[int, int]:
    """Return the least and the largest value of an integer type, such as ``s8``.

    Only ``cvt.pack`` has types of fewer than 8 bits.
    """
    bits = int(dtype[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def _pack_scalar(chosen: dict[str, str]) -> str:
    dtype = chosen["dtype"]
    return f"{_pack_field(dtype, 'a')} << {dtype[1:]} | {_pack_field(dtype, 'b')}"


def _insert_scalar(chosen: dict[str, str]) -> str:
    return f"{{c}} << {2 * int(chosen['dtype'][1:])} | {_pack_scalar(chosen)}"


@executes("cvt.pack", scalar=_pack_scalar)
def cvt_pack(op: Op, a: Array, b: Array) -> Any:
    dtype = op.chosen["dtype"]
    bits = int(dtype[1:])
    low, high = _limits(dtype)
    upper, lower = (clamped(x, low, high).astype(_U32) & _U32((1 << bits) - 1) for x in (a, b))
    return upper << _U32(bits) | lower


@executes("cvt.pack.insert", scalar=_insert_scalar)
def cvt_pack_insert(op: Op, a: Array, b: Array, c: Array) -> Any:
    return c << _U32(2 * int(op.chosen["dtype"][1:])) | cvt_pack(op, a, b)


# --- integers to floats -----------------------------------------------------------------------


def _sides(a: Array, nearest: Array) -> tuple[Array, Array]:
    """Return two masks: the elements where rounding integer ``a`` to float ``nearest`` went up, or down."""
    near = nearest.astype(_F64)
    if a.itemsize == 8:
        # Two parts of 32 bits, each exact as a double; the remainder after subtracting `near` is exact too.
        shift, low = a.dtype.type(32), a.dtype.type(0xFFFFFFFF)
        error = (a >> shift).astype(_F64) * 2.0**32 - near + (a & low).astype(_F64)
    else:
        error = a.astype(_F64) - near
    return error < 0, error > 0


@executes("cvt.float_from_int", "cvt.float_from_int.sat", "cvt.half_from_int")
def cvt_float_from_int(op: Op, a: Array) -> Any:
    chosen = _modifiers(op)
    a = _array(a)
    nearest = a.astype(TYPES[chosen["dtype"]].register_dtype)
    result = nearest if chosen["rnd"] == "rn" else wrong_side(nearest, *_sides(a, nearest), chosen["rnd"])
    return _saturated(result) if "sat" in chosen else result


@executes("cvt.bfloat_from_int", "cvt.bfloat_from_byte")
def cvt_bfloat_from_int(op: Op, a: Array) -> Any:
    a = _array(a)
    nearest = a.astype(_F32)
    if a.itemsize > 2:
        nearest = odd_f32(nearest, *_sides(a, nearest))
    return cut_f32(nearest, 16, _modifiers(op)["rnd"]) >> _U32(16)


# --- floats to integers -----------------------------------------------------------------------

_INTEGRAL: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _to_int(op: Op, a: Array, source: str) -> Any:
    """Round floats to integers and clamp them to the result's type.

    Measured on an H200: NaN becomes 0; if the source or the result has 64 bits, only the top bit is set.
    """
    kind = TYPES[_modifiers(op)["dtype"]]
    low, high = kind.limits
    whole = _INTEGRAL[_modifiers(op)["irnd"]](a, dtype=_F64)
    wide = source == "f64" or kind.bits == 64
    np.putmask(whole, whole != whole, float(low or high // 2 + 1) if wide else 0.0)
    np.maximum(whole, float(low), out=whole)
    if kind.bits < 64:
        return np.minimum(whole, float(high), out=whole).astype(kind.register_dtype)
    # A double cannot represent the largest integer of 64 bits.
    over = whole >= 2.0 ** high.bit_length()
    np.putmask(whole, over, 0.0)
    result = whole.astype(kind.register_dtype)
    np.putmask(result, over, high)
    return result


@executes("cvt.int_from_float", "cvt.int_from_float.sat")
def cvt_int_from_float(op: Op, a: Array) -> Any:
    a = _array(a)
    return _to_int(op, flushed(a) if "ftz" in _modifiers(op) else a, _modifiers(op)["atype"])


@executes("cvt.int_from_half")
def cvt_int_from_half(op: Op, a: Array) -> Any:
    return _to_int(op, a, "f16")


@executes("cvt.int_from_bfloat", "cvt.byte_from_bfloat")
def cvt_int_from_bfloat(op: Op, a: Array) -> Any:
    return _to_int(op, _bf16_to_f32(a), "bf16")


# --- f32 to f16, bf16 and tf32 ----------------------------------------------------------------


def _finish(word: Array, nan: Array, name: str, chosen: dict[str, str]) -> Array:
    """Apply .satfinite, .relu, the canonical NaN and .pzo to result bits ``word``, in place.

    ``name`` is the format of the results, ``nan`` flags the NaNs, and ``chosen`` has the modifiers.
    """
    canonical, largest, unit = _WORDS[name]
    sign = 1 << (8 * word.itemsize - 1)
    if "satfinite" in chosen:
        np.putmask(word, word == largest + unit, largest)
        np.putmask(word, word == sign + largest + unit, sign + largest)
    if "relu" in chosen:
        np.putmask(word, word >= sign, 0)
    if np.count_nonzero(nan):
        np.putmask(word, nan, canonical)
    if "pzo" in chosen:
        np.putmask(word, word == sign, 0)
    return word


def _to_16(a: Array, name: str, chosen: dict[str, str]) -> NDArray[np.uint16]:
    """Convert f32 to the bits of f16 or bf16, rounded once."""
    rnd = chosen["rnd"]
    if name == "f16":
        # Measured on an H200: .ftz has no effect here; it could change results of .rm and .rp only.
        word: Array = rounded(a, _F16, rnd).view(_U16)
    elif rnd == "rn":
        word = a.astype(ml_dtypes.bfloat16).view(_U16)
        if "ftz" in chosen:
            np.putmask(word, np.abs(a) < TINY, word & _U16(0x8000))
    else:
        word = (cut_f32(flushed(a) if "ftz" in chosen else a, 16, rnd) >> _U32(16)).astype(_U16)
    return _finish(word, a != a, name, chosen)


@executes(
    "cvt.narrow16",
    "cvt.narrow16.directed",
    "cvt.narrow16.relu",
    "cvt.f16_from_f32",
    "cvt.bf16_from_f32.ftz",
)
def cvt_narrow16(op: Op, a: Array) -> Any:
    chosen = _modifiers(op)
    name = chosen["dtype"]
    word = _to_16(_array(a), name, chosen)
    if name == "bf16":
        return word
    return _saturated(word.view(_F16)) if "sat" in chosen else word.view(_F16)


def _pair(a: Array, b: Array) -> Array:
    """Return two operands as an array ``(n, 2)``: column 1 has ``a``, the upper half, column 0 has ``b``."""
    a, b = _array(a), _array(b)
    both = np.empty((max(len(a), len(b)), 2), a.dtype)
    both[:, 1], both[:, 0] = a, b
    return both


@executes("cvt.pack16", "cvt.pack16.relu", "cvt.pack16.pzo", undefined=PARTS)
def cvt_pack16(op: Op, a: Array, b: Array) -> Any:
    chosen = _modifiers(op)
    return _to_16(_pair(a, b), chosen["dtype"][:-2], chosen).view(_U32)[:, 0]


@executes("cvt.pack16.rs")
def cvt_pack16_rs(op: Op, a: Array, b: Array, rbits: Array) -> Any:
    """Round ``a`` and ``b`` stochastically with their halves of ``rbits``, and pack the results.

    bf16 uses all 16 bits of a half, f16 the lower 13.
    """
    chosen = _modifiers(op)
    name = chosen["dtype"][:-2]
    bits = 13 if name == "f16" else 16
    random = _halves(rbits).astype(np.int64) & ((1 << bits) - 1)
    return narrowed(_pair(a, b), name, chosen, random, bits).astype(_U16).view(_U32)[:, 0]


@executes("cvt.tf32")
def cvt_tf32(op: Op, a: Array) -> Any:
    chosen = _modifiers(op)
    a = _array(a)
    return _finish(cut_f32(a, 13, chosen["rnd"]), a != a, "tf32", chosen)


@executes("cvt.half.pzo")
def cvt_half_pzo(op: Op, a: Array) -> Any:
    if _modifiers(op)["dtype"] == "tf32":
        return cvt_tf32(op, a)
    return cvt_narrow16(op, a)


@executes("cvt.tf32.rna")
def cvt_tf32_rna(op: Op, a: Array) -> Any:
    """Round f32 to tf32, to nearest with ties away from zero.

    Measured on an H200: a NaN loses its lower 13 bits too, and becomes an infinity if its other payload bits
    are zero.
    """
    word = _word(_array(a))
    unit, half = _U32(1 << 13), _U32(1 << 12)
    magnitude, infinity = _U32(0x7FFFFFFF), 0x7F800000
    word = word + half * ((word & magnitude) < infinity) & ~(unit - _U32(1))
    if "satfinite" in op.chosen:
        word -= unit * ((word & magnitude) >= infinity)
    return word


# --- between f16 and bf16, and wider ----------------------------------------------------------


@executes("cvt.widen16", "cvt.f32_from_f16.sat", "cvt.f32_from_bf16.rnd", "cvt.f32_from_bf16.ftz")
def cvt_widen16(op: Op, a: Array) -> Any:
    chosen = _modifiers(op)
    if a.dtype == _F16:
        wide = _canonical(_array(a).astype(_F32))
        return _saturated(wide) if "sat" in chosen else wide
    wide = _bf16_to_f32(a)
    return _canonical(flushed(wide)) if "ftz" in chosen else wide


@executes("cvt.f16_from_bf16")
def cvt_f16_from_bf16(op: Op, a: Array) -> Any:
    return _to_16(_bf16_to_f32(a), "f16", _modifiers(op)).view(_F16)


@executes("cvt.bf16_from_f16")
def cvt_bf16_from_f16(op: Op, a: Array) -> Any:
    return _to_16(_array(a).astype(_F32), "bf16", _modifiers(op))


def _cut_nan(a: Array, word: Array, mantissa: int) -> Array:
    """Replace the results of f64 NaNs, in place: keep sign and upper payload bits; make the NaN quiet."""
    nan = a != a
    if nan.any():
        bits = 8 * word.itemsize
        source = a.view(_U64)[nan]
        payload = source >> _U64(52 - mantissa) & _U64((1 << mantissa) - 1) | _U64(1 << (mantissa - 1))
        exponent = _U64((1 << (bits - 1)) - (1 << mantissa))
        word[nan] = (source >> _U64(63)) << _U64(bits - 1) | exponent | payload
    return word


@executes("cvt.f16_from_f64")
def cvt_f16_from_f64(op: Op, a: Array) -> Any:
    a = _array(a)
    result = rounded(a, _F16, _modifiers(op)["rnd"])
    _cut_nan(a, result.view(_U16), 10)
    return _saturated(result) if "sat" in _modifiers(op) else result


@executes("cvt.bf16_from_f64")
def cvt_bf16_from_f64(op: Op, a: Array) -> Any:
    a = _array(a)
    nearest = a.astype(_F32)
    back = nearest.astype(_F64)
    word = cut_f32(odd_f32(nearest, back > a, back < a), 16, _modifiers(op)["rnd"]) >> _U32(16)
    return _cut_nan(a, word.astype(_U16), 7)


@executes("cvt.f64_from_f16", "cvt.f64_from_bf16")
def cvt_f64_from_16(op: Op, a: Array) -> Any:
    wide = _array(a) if a.dtype == _F16 else _bf16_to_f32(a)
    return _to_f64(wide, "sat" in _modifiers(op))


@executes("cvt.f64_from_f32")
def cvt_f64_from_f32(op: Op, a: Array) -> Any:
    a = _array(a)
    return _to_f64(_canonical(flushed(a)) if "ftz" in _modifiers(op) else a, "sat" in _modifiers(op))


def _to_f64(a: Array, saturate: bool) -> Array:
    """Convert to f64, exactly; NaNs become quiet."""
    wide: Array = a.astype(_F64)
    np.bitwise_or(wide.view(_U64), _QUIET_F64, out=wide.view(_U64), where=wide != wide)
    return _saturated(wide) if saturate else wide


@executes("cvt.f32_from_f64")
def cvt_f32_from_f64(op: Op, a: Array) -> Any:
    a = _array(a)
    result = round_f32(a, op.mode)
    return result if "sat" in op.chosen else _cut_nan(a, _word(result), 23).view(_F32)


# --- to the same format -----------------------------------------------------------------------


#: Without any of these modifiers, a conversion to the same format copies its operand.
_CHANGING = frozenset({"irnd", "ftz", "sat"})


def _same(a: Array, chosen: dict[str, str]) -> Array:
    """Convert floats to the same format: flush, round to integral and saturate as the modifiers say.

    NaNs are not made canonical.
    """
    if "ftz" in chosen:
        a = flushed(a)
    if "irnd" in chosen:
        a = _INTEGRAL[chosen["irnd"]](a)
    return _saturated(a) if "sat" in chosen else a


@executes("cvt.f32")
def cvt_f32(op: Op, a: Array) -> Any:
    a = _array(a)
    return a if _CHANGING.isdisjoint(op.chosen) else _canonical(_same(a, op.chosen))


@executes("cvt.f64")
def cvt_f64(op: Op, a: Array) -> Any:
    a = _array(a)
    return a if _CHANGING.isdisjoint(op.chosen) else _to_f64(_same(a, op.chosen), False)


@executes("cvt.f16")
def cvt_f16(op: Op, a: Array) -> Any:
    return _canonical(_same(_array(a).copy(), _modifiers(op)))


@executes("cvt.bf16")
def cvt_bf16(op: Op, a: Array) -> Any:
    wide = _same(_bf16_to_f32(a), _modifiers(op))
    return _to_16(wide, "bf16", {"rnd": "rn"})


# --- narrow formats ---------------------------------------------------------------------------


def _packed(op: Op, pair: Array, factor: Array | None) -> Any:
    """Return the packed narrow floats to which ``cvt`` converts ``pair``, floats ``(n, 2)``, lower one first.

    Each float is divided by its scale factor first.
    """
    chosen = _modifiers(op)
    kind = TYPES[chosen["dtype"]]
    name = kind.name[:-2]
    code = narrowed(pair if factor is None else scaled(pair, factor, chosen), name, chosen)
    code = code.astype(kind.register_dtype)
    return code[:, 1] << stride(name) | code[:, 0]


@executes("cvt.f8x2", "cvt.f6x2", "cvt.narrow8", "cvt.ue8m0x2", "cvt.ue5m3x2", "cvt.s2f6x2")
def cvt_narrow_pair(op: Op, a: Array, b: Array, factor: Array | None = None) -> Any:
    return _packed(op, _pair(a, b), factor)


@executes(
    "cvt.f8x2_from_f16x2",
    "cvt.f8x2_from_bf16x2",
    "cvt.f6x2_from_pack",
    "cvt.narrow8_from_pack",
    "cvt.ue8m0x2_from_bf16x2",
    "cvt.ue5m3x2_from_pack",
    "cvt.s2f6x2_from_bf16x2",
)
def cvt_narrow_pack(op: Op, a: Array, factor: Array | None = None) -> Any:
    halves = _halves(a)
    pair = _bf16_to_f32(halves) if _modifiers(op)["atype"] == "bf16x2" else halves.view(_F16)
    if factor is None:
        pair = pair.astype(_F32)
    return _packed(op, pair, factor)


@executes("cvt.f8x4.rs")
def cvt_narrow_four_rs(op: Op, v: Array, rbits: Array) -> Any:
    chosen = _modifiers(op)
    kind = TYPES[chosen["dtype"]]
    name = kind.name[:-2]
    result: Array = np.zeros(1, np.int64)
    for a, random in zip(v, random_fields(rbits, name), strict=True):
        result = result << stride(name) | narrowed(a, name, chosen, random)
    return result.astype(kind.register_dtype)


@executes(
    "cvt.f16x2_from_f8x2",
    "cvt.f16x2_from_f6x2",
    "cvt.f16x2_from_ue5m3x2",
    "cvt.bf16x2_from_ue8m0x2",
    "cvt.bf16x2_from_f8x2",
    "cvt.bf16x2_from_ue5m3x2",
    "cvt.bf16x2_from_s2f6x2",
)
def cvt_widen_pair(op: Op, a: Array, factor: Array | None = None) -> Any:
    """Convert two packed narrow floats to f16 or bf16, times their scale factors; round each product once."""
    chosen = _modifiers(op)
    target, source = chosen["dtype"][:-2], chosen["atype"][:-2]
    code = np.ascontiguousarray(_array(a)).view(np.uint8)
    if stride(source) == 8:
        code = code.reshape(-1, 2)
    else:
        code = np.stack([code, code >> np.uint8(4)], axis=-1)
    if factor is None:
        words = widened(source, target, "relu" in chosen, "satfinite" in chosen)[code]
    else:
        scales = np.stack([scale(factor, 0), scale(factor, 8)], axis=-1)
        words = narrowed(np.resize(decoded(source), 256)[code] * scales, target, chosen).astype(_U16)
    return words.view(_U32)[:, 0]
