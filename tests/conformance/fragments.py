"""Cases of warp-level matrix instructions, made from the table's variants.

Every operand of such an instruction is a vector of registers, and which matrix element lies where does not matter
for a recording: a case fills the registers of each thread with elements of one format and records the registers
of D.  Each CTA is one warp with operands of its own :class:`Mode`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from pyptx.isa import Match, form, variants
from pyptx.isa.targets import target

from .case import ARCH, In, KernelCase, Out, kernel
from .words import uniform

__all__ = ["FLOATS", "INTEGERS", "elements", "index_words", "matches", "pack", "product_case", "width"]

Words = NDArray[np.uint64]

#: Fraction and exponent bits. tf32 stands in the upper bits of a word, whose lower 13 bits are noise.
FLOATS = {
    "f16": (10, 5), "bf16": (7, 8), "tf32": (10, 8), "f32": (23, 8), "f64": (52, 11), "e4m3": (3, 4), "e5m2": (2, 5),
}  # fmt: skip
INTEGERS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}

_DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip

#: What A and B, and C, hold in each warp of a case on floats.
FLOAT_MODES = (
    ("integers", "integers"), ("near", "near"), ("near", "wide"), ("wide", "near"), ("wide", "wide"),
    ("sparse", "sparse"), ("tiny", "tiny"), ("tiny", "zero"), ("big", "big"), ("special", "near"),
    ("any", "any"), ("near", "special"),
)  # fmt: skip
INTEGER_MODES = (("any", "any"), ("edge", "edge"), ("any", "edge"))

#: Metadata: indices of two kept elements of four in order, and of one kept element of two.
_PAIRS = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
_SINGLES = (0b0100, 0b1110)


def _has(match: Match) -> bool:
    """Whether the cases' target has this variant."""
    arch = target(ARCH)
    return arch in match.form.on and all(a.on is None or arch in a.on for a in match.alternatives)


def width(kind: str) -> int:
    """Bits of an element in memory and registers."""
    if kind in INTEGERS:
        return INTEGERS[kind]
    return 32 if kind == "tf32" else 1 + sum(FLOATS[kind])


def _specials(kind: str) -> Words:
    fraction, exponent = FLOATS[kind]
    sign = 1 << (fraction + exponent)
    top = (1 << exponent) - 1
    infinity = top << fraction
    values = [
        0,
        sign,
        1,
        sign | 1,
        (1 << fraction) - 1,
        1 << fraction,
        infinity,
        sign | infinity,
        infinity - 1,
        infinity | 1,
    ]
    return np.array(values, np.uint64)


def elements(name: str, count: int, kind: str, mode: str) -> Words:
    """``count`` elements of a format as raw bits; ``name`` chooses the stream."""
    noise = uniform(name, count)
    if kind in INTEGERS:
        mask = np.uint64((1 << INTEGERS[kind]) - 1)
        low = noise & mask
        if mode == "edge":
            # The extremes and their neighbors, so that sums leave 32 bits.
            half = 1 << INTEGERS[kind] - 1
            edges = np.array([0, 1, 2 * half - 1, half, half - 1], np.uint64)
            near = edges[(noise >> np.uint64(40)) % np.uint64(5)]
            return (near ^ low & np.uint64(63) if kind == "s32" else near) & mask
        return low
    fraction, exponent = FLOATS[kind]
    bias = (1 << (exponent - 1)) - 1
    top = (1 << exponent) - 1
    shift = np.uint64(13 if kind == "tf32" else 0)
    dirt = (noise >> np.uint64(24)) & np.uint64(0x1FFF if kind == "tf32" else 0)
    sign = noise >> np.uint64(63) << np.uint64(fraction + exponent)
    low = noise & np.uint64((1 << fraction) - 1)
    high = noise >> np.uint64(53)

    def scaled(first: int, last: int) -> Words:
        field = high % np.uint64(last - first + 1) + np.uint64(first)
        return sign | field << np.uint64(fraction) | low

    if mode == "integers":
        numbers = ((high % np.uint64(9)).astype(np.int64) - 4).astype(_DTYPES[kind])
        return numbers.view(f"u{numbers.itemsize}").astype(np.uint64)
    if mode == "zero":
        return np.zeros(count, np.uint64)
    wide = min(bias - 1, 12 if kind in ("f16", "bf16", "tf32") else 24)
    if mode == "any":
        words = noise >> np.uint64(63 - fraction - exponent)
    elif mode == "near":
        words = scaled(bias - 2, bias + 2)
    elif mode == "wide":
        words = scaled(bias - wide, bias + wide)
    elif mode == "sparse":
        words = np.where(high & np.uint64(512), sign, scaled(bias - wide, bias + wide))
    elif mode == "tiny":
        words = scaled(0, 2)
    elif mode == "big":
        words = scaled(top - 2, top - 1)
    else:
        assert mode == "special", mode
        choice = noise >> np.uint64(40) & np.uint64(127)
        some = _specials(kind)
        words = np.where(choice < len(some), some[choice % np.uint64(len(some))], scaled(bias - 2, bias + 2))
    return words << shift | dirt


def pack(bits: Words, size: int) -> NDArray[np.uint32]:
    """Elements along the last axis into 32-bit words, the first in the low bits."""
    if size == 64:
        return (
            np.stack([bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)], -1)
            .reshape(*bits.shape[:-1], -1)
            .astype(np.uint32)
        )
    each = 32 // size
    parts = bits.reshape(*bits.shape[:-1], -1, each) << (np.arange(each, dtype=np.uint64) * np.uint64(size))
    return np.bitwise_or.reduce(parts, -1).astype(np.uint32)


def index_words(name: str, count: int, kind: str) -> NDArray[np.uint32]:
    """Words of metadata whose every index is legal."""
    legal = np.array(_SINGLES if kind == "tf32" else _PAIRS, np.uint64)
    return pack(legal[uniform(name, 8 * count) % np.uint64(len(legal))].reshape(count, 8), 4).reshape(count)


def _kind_of(match: Match, operand: str) -> str:
    """The format of the elements of an operand."""
    chosen = match.chosen
    words = [w for w in match.spelling if w in FLOATS or w in INTEGERS]
    if operand in ("c", "d"):
        return chosen.get("ctype" if operand == "c" else "dtype", words[-1] if operand == "c" else words[0])
    return chosen.get("atype" if operand == "a" else "btype", words[1] if operand == "a" else words[2])


def product_case(
    match: Match, selector: int | None = None, modes: tuple[tuple[str, str], ...] = ()
) -> KernelCase:
    """A case of one variant of mma or mma.sp (``selector`` chooses the threads that have the metadata)."""
    specs = {spec.name: spec for spec in match.form.specs()}
    kinds = {operand: _kind_of(match, operand) for operand in "abc"}
    if not modes:
        modes = FLOAT_MODES if kinds["a"] in FLOATS else INTEGER_MODES
    name = match.name + ("" if selector is None else f" {selector}")
    wide = kinds["a"] == "f64"
    size, letter = (64, "d") if wide else (32, "r")
    loads, names, blocks, next_register, offset = [], {}, [], 4, 0
    for operand in ("a", "b", "c", *(["metadata"] if selector is not None else [])):
        count = specs[operand].length(match.chosen) or 1
        registers = [f"%{letter}{next_register + i}" for i in range(count)]
        next_register += count
        for register in registers:
            loads.append(f"ld.global.b{size} {register}, [%d0+{offset}];")
            offset += size // 8
        names[operand] = "{" + ", ".join(registers) + "}" if operand != "metadata" else registers[0]
        if operand == "metadata":
            words = index_words(f"{name} {operand}", len(modes) * 32, kinds["a"]).reshape(-1, 32, 1)
        else:
            kind = kinds[operand]
            each = count * size // width(kind)
            words = np.concatenate([
                pack(elements(f"{name} {operand} {i}", 32 * each, kind, mode[operand == "c"]).reshape(1, 32, each), width(kind))
                for i, mode in enumerate(modes)
            ])  # fmt: skip
        blocks.append(words)
    given = np.ascontiguousarray(np.concatenate(blocks, -1))
    results = specs["d"].length(match.chosen) or 1
    d = [f"%{letter}{next_register + i}" for i in range(results)]
    extra = f", {names['metadata']}, {selector}" if selector is not None else ""
    body = [
        f"mad.wide.u32 %d0, %index, {given.shape[-1] * 4}, %given;",
        f"mad.wide.u32 %d1, %index, {results * size // 8}, %out;",
        *loads,
        f"{match.name} {{{', '.join(d)}}}, {names['a']}, {names['b']}, {names['c']}{extra};",
        *(f"st.global.b{size} [%d1+{i * size // 8}], {register};" for i, register in enumerate(d)),
    ]
    return KernelCase(
        name,
        kernel("\n".join(body), "given:u64 out:u64"),
        (In(given), Out(np.uint64 if wide else np.uint32, (len(modes), 32, results))),
        grid=(len(modes),),
        covers=(match.form.id,),
    )


def matches(*identifiers: str) -> Iterator[Match]:
    """The variants of these forms that the cases' target has."""
    for identifier in identifiers:
        yield from (match for match in variants(form(identifier)) if _has(match))
