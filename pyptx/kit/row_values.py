"""Elements of rows between memory and f32: vector loads and stores, and conversions of packed types.

Owns how a few neighboring elements of one type lie in registers.  They are *words*: b32 registers with 1, 2
or 4 elements each, the first in the lowest bits; or one b16 register, where the elements fill 2 bytes or 1.

A load or store moves up to 16 bytes; more elements are several loads at neighboring addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..core.errors import SpecError
from ..core.types import ScalarType, b8, b16, b32, bf16, e4m3, e5m2, f16, f32, u16
from ..dsl import Reg, RegArray, ptx, reg
from ..dsl.emit import Predicate
from ..dsl.operands import Addr
from .outputs import pack

__all__ = ["check_elements", "from_f32", "load_words", "set_words", "store_words", "to_f32"]

Space = Literal["global", "shared", "shared::cluster"]

#: Types whose elements can be computed with.
INPUTS = (f32, f16, bf16)
#: Types that results are rounded to.
OUTPUTS = (f32, f16, bf16, e4m3, e5m2)
#: Bytes of the widest load or store of a thread.
WIDEST = 16
#: The bits of minus infinity, by type.
_MINUS_INFINITY = {f32: 0xFF800000, f16: 0xFC00, bf16: 0xFF80}


def check_elements(dtype: ScalarType, allowed: Sequence[ScalarType] = INPUTS, what: str = "dtype") -> None:
    """Raise :class:`SpecError` for a type that rows cannot have. Records nothing."""
    if dtype not in allowed:
        raise SpecError(f"{what} is {dtype!r}: expected {', '.join(map(str, allowed))}")


def _registers(count: int, dtype: ScalarType) -> RegArray:
    """New registers for ``count`` elements. Records nothing."""
    nbytes = count * dtype.nbytes
    return reg.array(b16, 1, name="half") if nbytes < 4 else reg.array(b32, nbytes // 4, name="word")


def set_words(words: Sequence[Reg], dtype: ScalarType, fill: float) -> None:
    """Set all elements to 0 or to minus infinity. Records a ``mov`` for each register."""
    if fill not in (0.0, float("-inf")):
        raise SpecError(f"fill is {fill!r}: expected 0.0 or minus infinity")
    bits = 0 if fill == 0.0 else _MINUS_INFINITY[dtype]
    for word in words:
        word.set(bits if word.type is b16 or dtype.nbytes == 4 else bits | bits << 16)


def load_words(
    place: Addr,
    count: int,
    dtype: ScalarType,
    *,
    space: Space = "global",
    inside: Predicate = None,
    fill: float = 0.0,
    out: Sequence[Reg] | None = None,
    **hints: Any,
) -> Sequence[Reg]:
    """Load ``count`` neighboring elements as words. Records one ``ld`` for each 16 bytes.

    Args:
        place: address of the first element, a multiple of the bytes of ``count`` elements, at most of 16.
        count: number of elements, a power of two.
        dtype: their type.
        space: ``"global"``, ``"shared"`` or ``"shared::cluster"``.
        inside: guard of the loads. Where it is false, new registers get ``fill``, and those of ``out`` keep
            what they hold.
        fill: 0.0 or minus infinity; records a ``mov`` for each register if ``inside`` is given.
        out: registers to load into; default: new ones.
        hints: options of ``ptx.load``: ``nc``, ``l1``, ``prefetch``, ``cache_hint``.

    PTX ISA: `#data-movement-and-conversion-instructions-ld`.
    """
    words = out
    if words is None:
        words = _registers(count, dtype)
        if inside is not None:
            set_words(words, dtype, fill)
    kind = words[0].type
    if count * dtype.nbytes == 1:
        raise SpecError(f"elements of {dtype} are loaded in pairs at least")
    for first in range(0, len(words), 4):
        some = words[first : first + 4]
        at = ptx.addr(place.base, place.offset + 4 * first)
        if len(some) == 1:
            ptx.load(kind, at, space=space, out=some[0], pred=inside, **hints)
        else:
            ptx.load(kind, at, space=space, vector=len(some), out=list(some), pred=inside, **hints)
    return words


def store_words(
    place: Addr,
    words: Sequence[Reg],
    *,
    nbytes: int,
    space: Space = "global",
    inside: Predicate = None,
    **hints: Any,
) -> None:
    """Store words, ``nbytes`` in all. Records one ``st`` for each 16 bytes.

    Args:
        place: address of the first element, a multiple of ``nbytes``, at most of 16.
        words: as :func:`from_f32` returns them.
        nbytes: 1, 2 or 4 bytes of one register, or those of all registers.
        space: ``"global"`` or ``"shared"``.
        inside: guard.
        hints: options of ``ptx.store``: ``cache``, ``l1``, ``cache_hint``.

    PTX ISA: `#data-movement-and-conversion-instructions-st`.
    """
    if nbytes == 1:
        ptx.store(place, words[0], b8, space=space, pred=inside, **hints)
        return
    for first in range(0, len(words), 4):
        some = words[first : first + 4]
        at = ptx.addr(place.base, place.offset + 4 * first)
        ptx.store(at, some[0] if len(some) == 1 else list(some), space=space, pred=inside, **hints)


def to_f32(words: Sequence[Reg], dtype: ScalarType) -> list[Reg]:
    """Return the elements of words as f32, exactly.

    Records nothing for f32; for bf16 a ``shl`` and an ``and`` for each word, since a bf16 is the upper half
    of an f32; for f16 a ``mov`` and two ``cvt`` for each word.
    """
    check_elements(dtype)
    if dtype is f32:
        return [word.view(f32) for word in words]
    if words[0].type is b16:
        return [_half_to_f32(words[0], dtype)]
    found = []
    for word in words:
        if dtype is bf16:
            found += [(word << 16).view(f32), (word & 0xFFFF0000).view(f32)]
            continue
        low, high = reg.array(b16, 2)
        ptx.inst.mov.b32([low, high], word)
        found += [_half_to_f32(low, f16), _half_to_f32(high, f16)]
    return found


def _half_to_f32(half: Reg, dtype: ScalarType) -> Reg:
    value = reg.scalar(f32)
    if dtype is f16:
        ptx.inst.cvt.f32.f16(value, half.view(f16))
    else:
        ptx.inst.mov.b32(value.view(b32), [reg.scalar(u16, init=0), half])
    return value


def from_f32(values: Sequence[Reg], dtype: ScalarType) -> list[Reg]:
    """Round f32 values to a type, to nearest even, and return them as words.

    Records nothing for f32; a ``cvt.rn`` for two values of a 16-bit type; for four of an 8-bit type two
    ``cvt.rn.satfinite``, which turn larger values into the largest number, and a ``mov``.

    Args:
        values: f32 registers: 1, 2, or a multiple of 4.
        dtype: f32, f16, bf16, e4m3 or e5m2.
    """
    check_elements(dtype, OUTPUTS)
    if dtype is f32:
        return [value.view(b32) for value in values]
    if dtype.nbytes == 2:
        if len(values) == 1:
            half = reg.scalar(dtype)
            convert = ptx.inst.cvt.rn.bf16.f32 if dtype is bf16 else ptx.inst.cvt.rn.f16.f32
            convert(half, values[0])
            return [half.view(b16)]
        words = list(reg.array(b32, len(values) // 2))
        for word, low, high in zip(words, values[::2], values[1::2], strict=True):
            pack(word, low, high, dtype)
        return words
    pairs = [_pair(values[at : at + 2], dtype) for at in range(0, len(values), 2)]
    if len(pairs) == 1:
        return pairs
    words = list(reg.array(b32, len(pairs) // 2))
    for word, low, high in zip(words, pairs[::2], pairs[1::2], strict=True):
        ptx.inst.mov.b32(word, [low, high])
    return words


def _pair(values: Sequence[Reg], dtype: ScalarType) -> Reg:
    """Round one or two values to 8 bits, the first in the lower ones."""
    half = reg.scalar(b16)
    convert = ptx.inst.cvt.rn.satfinite.e4m3x2 if dtype is e4m3 else ptx.inst.cvt.rn.satfinite.e5m2x2
    convert.f32(half, values[-1], values[0])
    return half
