"""wmma: the words of every fragment, stores of every fragment, and products through memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyptx.isa import Match

from ..case import In, KernelCase, Out, kernel
from ..fragments import FLOAT_MODES, FLOATS, INTEGER_MODES, elements, matches, pack, width
from ..words import uniform

_LOADS = ("wmma.load.a", "wmma.load.a.bits", "wmma.load.b", "wmma.load.b.bits", "wmma.load.c")
_PRODUCTS = (
    "wmma.mma.f16", "wmma.mma.i8", "wmma.mma.alternate", "wmma.mma.f64", "wmma.mma.i4", "wmma.mma.b1",
)  # fmt: skip

#: Threads that copy between global and shared memory, a word each.
_WARP = 32


class _Matrix(NamedTuple):
    """One operand in memory: its type, and how many lines (rows or columns) of how many elements it has."""

    kind: str
    lines: int
    length: int

    @property
    def stride(self) -> int:
        """A distance of lines, in elements, with a gap of 16 bytes behind each."""
        return self.length + 128 // width(self.kind)

    @property
    def bytes(self) -> int:
        """Of the lines at that distance, in whole steps of a warp's words."""
        return -(-self.lines * self.stride * width(self.kind) // (1024)) * 128


def _matrix(operand: str, shape: str, layout: str, kind: str) -> _Matrix:
    m, n, k = map(int, re.findall(r"\d+", shape))
    rows, columns = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    return _Matrix(kind, *((rows, columns) if layout == "row" else (columns, rows)))


def _fragment_of(match: Match) -> _Matrix:
    """The matrix that a load or store reads or writes."""
    operand = match.form.id.split(".")[2]
    layout = next(word for word in match.spelling if word in ("row", "col"))
    return _matrix(operand, match.chosen["shape"], layout, match.spelling[-1])


def _registers(match: Match, name: str, first: int) -> tuple[list[str], int]:
    """Registers for the operand ``name``, and the bits of one."""
    spec = next(spec for spec in match.form.specs() if spec.name == name)
    bits = spec.scalar_types(match.chosen)[0].bits
    letter = "d" if bits == 64 else "r"
    return [f"%{letter}{first + i}" for i in range(spec.length(match.chosen) or 1)], bits


def _moves(opcode: str, registers: list[str], bits: int, base: str) -> Iterator[str]:
    for i, register in enumerate(registers):
        place = f"[{base}+{i * bits // 8}]"
        pair = f"{register}, {place}" if opcode.startswith("ld") else f"{place}, {register}"
        yield f"{opcode}.b{bits} {pair};"


def _words(given: str, nbytes: int) -> NDArray[np.uint32]:
    return uniform(given, nbytes // 4, 32).astype(np.uint32)


def _copied(source: str, target: str, nbytes: int) -> Iterator[str]:
    """Each thread copies every 32nd word; ``source`` or ``target`` is the register of a shared address."""
    load, store = ("shared", "global") if source.startswith("%r") else ("global", "shared")
    for offset in range(0, nbytes, 4 * _WARP):
        yield f"ld.{load}.b32 %r0, [{source}+{offset}];"
        yield f"st.{store}.b32 [{target}+{offset}], %r0;"
    yield "bar.sync 0;"


def _load_case(match: Match) -> KernelCase:
    matrix = _fragment_of(match)
    shared = match.chosen.get("ss", "").startswith("shared")
    close, bits = _registers(match, "r", 8)
    apart, _ = _registers(match, "r", 8 + len(close))
    base = "%r3" if shared else "%given"
    body = [
        "mov.u32 %r3, area;",
        "mad.lo.u32 %r2, %lane, 4, %r3;",
        "mad.wide.u32 %d0, %lane, 4, %given;",
        *(_copied("%d0", "%r2", matrix.bytes) if shared else ()),
        f"mov.u32 %r1, {matrix.stride};",
        f"{match.name} {{{', '.join(close)}}}, [{base}];",
        f"{match.name} {{{', '.join(apart)}}}, [{base}], {'%r1' if shared else matrix.stride};",
        f"mad.wide.u32 %d1, %lane, {len(close) * bits // 4}, %out;",
        *_moves("st.global", close + apart, bits, "%d1"),
    ]
    return KernelCase(
        match.name,
        kernel(
            "\n".join(body),
            "given:u64 out:u64",
            registers=f".shared .align 32 .b8 area[{matrix.bytes}];",
        ),
        (In(_words(match.name, matrix.bytes)), Out(f"u{bits // 8}", (32, 2, len(close)))),
        covers=(match.form.id,),
    )


def _store_case(match: Match) -> KernelCase:
    matrix = _fragment_of(match)
    shared = match.chosen.get("ss", "").startswith("shared")
    registers, bits = _registers(match, "r", 8)
    given = _words(match.name, 32 * len(registers) * bits // 8)
    base, second = ("%r3", f"%r3+{matrix.bytes}") if shared else ("%out", f"%out+{matrix.bytes}")
    text = "{" + ", ".join(registers) + "}"
    body = [
        "mov.u32 %r3, area;",
        "mad.lo.u32 %r2, %lane, 4, %r3;",
        "mad.wide.u32 %d0, %lane, 4, %out;",
        *(_copied("%d0", "%r2", 2 * matrix.bytes) if shared else ()),
        f"mad.wide.u32 %d1, %lane, {len(registers) * bits // 8}, %given;",
        *_moves("ld.global", registers, bits, "%d1"),
        f"{match.name} [{base}], {text};",
        f"mov.u32 %r1, {matrix.stride};",
        f"{match.name} [{second}], {text}, {'%r1' if shared else matrix.stride};",
        "bar.sync 0;",
        *(_copied("%r2", "%d0", 2 * matrix.bytes) if shared else ()),
    ]
    return KernelCase(
        match.name,
        kernel(
            "\n".join(body),
            "given:u64 out:u64",
            registers=f".shared .align 32 .b8 area[{2 * matrix.bytes}];",
        ),
        (In(given), Out(np.uint32, (2, matrix.bytes // 4))),
        covers=(match.form.id,),
    )


def _product_case(match: Match) -> KernelCase:
    """Loads, product and store; each CTA with matrices of its own."""
    formats = match.spelling
    shape = next(word for word in formats if re.fullmatch(r"m\d+n\d+k\d+", word))
    layouts = [word for word in formats if word in ("row", "col")]
    types = [
        word
        for word in formats
        if word in ("f16", "f32", "bf16", "tf32", "f64", "s32", "s8", "u8", "s4", "u4", "b1")
    ]
    kinds = {"a": "f16", "b": "f16", "c": types[-1], "d": types[0]}
    if len(types) == 4:
        kinds = dict(zip("dabc", types, strict=True))
    modes = FLOAT_MODES if kinds["a"] in FLOATS else INTEGER_MODES
    matrices = {
        operand: _matrix(operand, shape, layout, kinds[operand])
        for operand, layout in zip("abcd", (*layouts, "row", "row"), strict=True)
    }
    body, blocks, offset, place = [], [], 0, {"r": 8, "d": 8}
    fragments = {}
    for operand in "abcd":
        count, bits = _registers(match, operand, 0)
        letter = "d" if bits == 64 else "r"
        fragments[operand], _ = _registers(match, operand, place[letter])
        place[letter] += len(count)
    text = {operand: "{" + ", ".join(registers) + "}" for operand, registers in fragments.items()}
    for operand in "abc":
        matrix = matrices[operand]
        size = matrix.lines * matrix.length
        layout = dict(zip("ab", layouts, strict=True)).get(operand, "row")
        body.append(
            f"wmma.load.{operand}.sync.aligned.{layout}.{shape}.global.{matrix.kind} {text[operand]}, [%d0+{offset}];"
        )
        offset += size * width(matrix.kind) // 8
        blocks.append(
            np.stack([
                pack(elements(f"{match.name} {operand} {i}", size, matrix.kind, mode[operand == "c"]), width(matrix.kind))
                for i, mode in enumerate(modes)
            ])
        )  # fmt: skip
    d = matrices["d"]
    given, result = np.concatenate(blocks, -1), d.lines * d.length * width(d.kind) // 8
    body = [
        "mov.u32 %r0, %ctaid.x;",
        f"mad.wide.u32 %d0, %r0, {offset}, %given;",
        f"mad.wide.u32 %d1, %r0, {result}, %out;",
        *body,
        f"{match.name} {text['d']}, {text['a']}, {text['b']}, {text['c']};",
        f"wmma.store.d.sync.aligned.row.{shape}.global.{d.kind} [%d1], {text['d']};",
    ]
    return KernelCase(
        match.name,
        kernel("\n".join(body), "given:u64 out:u64"),
        (In(given), Out(np.uint32, (len(modes), result // 4))),
        grid=(len(modes),),
        covers=(match.form.id,),
    )


CASES = [
    *map(_load_case, matches(*_LOADS)),
    *map(_store_case, matches("wmma.store.d")),
    *map(_product_case, matches(*_PRODUCTS)),
]
