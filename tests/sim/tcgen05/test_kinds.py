"""tcgen05.mma of every kind and type: narrow floats, integers, block scales; A in tensor memory; D of 16 bits.

Values are chosen so that sums are exact.  Codes come from ml_dtypes; packing, scales and D are placed as the manual says.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.tcgen05.stage import COLUMNS, Cells, cells_of, perform, report_of
from tests.sim.tcgen05.test_mma import A_AT, B_AT, BASE, SCHEDULES, Operand, operand

pytestmark = pytest.mark.one_in(3)

Array = NDArray[Any]

FLOATS: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
BITS = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
#: Codes of the types in the instruction descriptor.
CODES = {
    "e4m3": 0,
    "e5m2": 1,
    "e2m3": 3,
    "e3m2": 4,
    "e2m1": 5,
    "u8": 0,
    "s8": 1,
    "f16": 0,
    "bf16": 1,
    "tf32": 2,
}
#: Numbers that each of the narrow floats has.
EXACT = np.array([0, 0.5, 1, 1.5, 2, 3, -0.5, -1, -1.5, -2, -3])


def numbers(generator: np.random.Generator, shape: tuple[int, int], element: str) -> Array:
    if element == "u8":
        return generator.integers(0, 256, shape).astype(np.float64)
    if element == "s8":
        return generator.integers(-128, 128, shape).astype(np.float64)
    return generator.choice(EXACT, shape)


def codes(values: Array, element: str) -> NDArray[np.uint8]:
    if element in ("u8", "s8"):
        return values.astype(np.int64).astype(np.uint8)
    return values.astype(FLOATS[element]).view(np.uint8)


def packed(rows: Array, bits: int, every: int, padding: int) -> NDArray[np.uint8]:
    """Runs of ``every`` codes of a row, each packed from the low bits on and followed by padding bytes."""
    lines = []
    for row in rows:
        line = b""
        for first in range(0, len(row), every):
            number = sum(int(code) << bits * i for i, code in enumerate(row[first : first + every]))
            line += number.to_bytes(every * bits // 8, "little") + bytes([0xA5] * padding)
        lines.append(np.frombuffer(line, np.uint8))
    return np.array(lines)


def stored(values: Array, element: str, nibbles: bool = False) -> NDArray[np.uint8]:
    """Bytes of a row in shared memory."""
    raw = codes(values, element)
    if nibbles:
        return packed(raw, 4, 16, 0)
    if BITS.get(element, 8) == 8:
        return raw
    return packed(raw, BITS[element], 16, 16 - 2 * BITS[element])


def shared(values: Array, element: str, address: int, swizzle: str = "128B", major: str = "K", nibbles: bool = False) -> Operand:  # fmt: skip
    return operand(stored(values, element, nibbles), "byte", address, swizzle, major, 0)


def contained(values: Array, element: str, nibbles: bool = False) -> Cells:
    """Cells of a row of A in tensor memory."""
    raw = codes(values, element)
    if nibbles:
        raw = packed(raw, 4, 2, 0)
    elif element == "e2m1":
        raw = raw << 2  # 00SEEM00
    return np.ascontiguousarray(raw).view("<u4")


def idesc(d: int, a: str, b: str, m: int, n: int, *, majors: str = "KK", more: int = 0) -> int:
    return (
        d << 4 | CODES[a] << 7 | CODES[b] << 10 | (majors[0] == "M") << 15 | (majors[1] == "M") << 16
        | n >> 3 << 17 | m >> 4 << 24 | more
    )  # fmt: skip


def lanes(m: int) -> Array:
    return np.arange(128) if m == 128 else np.arange(64) % 16 + 32 * (np.arange(64) // 16)


def f32(values: Array) -> Cells:
    return values.astype(np.float32).view(np.uint32)


SS = "tcgen05.mma.cta_group::1.kind::{kind} [d], a, b, v, never"


# --- narrow floats ------------------------------------------------------------------------------

PAIRS = [(a, FLOATS_B) for i, a in enumerate(FLOATS) for FLOATS_B in list(FLOATS)[i % 2 :: 2]]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("m", [64, 128])
def test_f8f6f4(a: str, b: str, m: int) -> None:
    generator = np.random.default_rng(m + CODES[a] + 8 * CODES[b])
    n = 48
    left, right = numbers(generator, (m, 32), a), numbers(generator, (n, 32), b)
    cells = cells_of()
    schedule, seed = SCHEDULES[(CODES[a] + CODES[b]) % len(SCHEDULES)]
    A, B = shared(left, a, A_AT, "64B"), shared(right, b, B_AT, "32B")
    out = perform(SS.format(kind="f8f6f4"), [A, B], cells, {"a": A.word, "b": B.word, "v": idesc(1, a, b, m, n)}, schedule=schedule, seed=seed)  # fmt: skip
    cells[lanes(m), :n] = f32(left @ right.T)
    assert np.array_equal(out, cells)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("majors", ["KM", "MK", "MM"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("kind", ["f8f6f4", "i8"])
def test_bytes_may_be_mn_major(majors: str, swizzle: str, kind: str) -> None:
    generator = np.random.default_rng(5)
    a, b, d = ("e4m3", "e5m2", 1) if kind == "f8f6f4" else ("s8", "u8", 2)
    left, right = numbers(generator, (128, 32), a), numbers(generator, (128, 32), b)
    names = {"K": "K", "M": "MN"}
    A, B = (
        shared(v, t, at, swizzle, names[major])
        for v, t, at, major in ((left, a, A_AT, majors[0]), (right, b, B_AT, majors[1]))
    )
    cells = cells_of()
    words = {"a": A.word, "b": B.word, "v": idesc(d, a, b, 128, 128, majors=majors)}
    out = perform(SS.format(kind=kind), [A, B], cells, words)
    product = left @ right.T
    cells[:, :128] = f32(product) if kind == "f8f6f4" else product.astype(np.int32).view(np.uint32)
    assert np.array_equal(out, cells)


def test_tf32_may_be_mn_major_in_32_byte_atoms() -> None:
    """Canonical layout 128B of 32-byte atoms: ((8, n), (4, k)), bits 7 and 8 of an address onto bits 5 and 6."""
    generator = np.random.default_rng(6)
    left, right = (generator.integers(-8, 9, (rows, 8)).astype(np.float64) for rows in (128, 64))

    class Atoms(Operand):
        def put(self, image: NDArray[np.uint8]) -> None:
            for row, line in enumerate(self.values.astype(np.float32)):
                for k, value in enumerate(line):
                    at = self.address + 4 * (row % 32) + row // 32 * self.leading
                    at += k % 4 * 128 + k // 4 * self.stride
                    at ^= (at >> 7 & 3) << 5
                    image[at - 0x400 : at - 0x400 + 4] = np.frombuffer(value.tobytes(), np.uint8)

    A, B = (
        Atoms(v, "tf32", at, "128B", "MN", 1024, 512) for v, at in ((left, A_AT), (right, B_AT))
    )  # fmt: skip
    code = 1 << 61  # 128B of 32-byte atoms
    words = {
        "a": A.word & ~(7 << 61) | code,
        "b": B.word & ~(7 << 61) | code,
        "v": idesc(1, "tf32", "tf32", 128, 64, majors="MM"),
    }
    cells = cells_of()
    out = perform(SS.format(kind="tf32"), [A, B], cells, words)
    cells[:, :64] = f32(left @ right.T)
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("kind", ["f16", "f8f6f4"])
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("flag", ["never", "always"])
def test_d_of_16_bits(kind: str, m: int, flag: str) -> None:
    """One cell an element, in its low half; what is added is read from there."""
    generator = np.random.default_rng(7)
    k = 16 if kind == "f16" else 32
    left, right = generator.choice(EXACT, (m, k)), generator.choice(EXACT, (32, k))
    if kind == "f16":
        A, B = (operand(v, "f16", at, "32B", "K", 0) for v, at in ((left, A_AT), (right, B_AT)))
        word = idesc(0, "f16", "f16", m, 32)
    else:
        A, B = shared(left, "e4m3", A_AT), shared(right, "e3m2", B_AT)
        word = idesc(0, "e4m3", "e3m2", m, 32)
    before = generator.integers(-64, 65, (m, 32)) / 4
    cells = cells_of()
    cells[lanes(m), :32] = before.astype(np.float16).view(np.uint16) | np.uint32(0xBEEF0000)
    code = SS.format(kind=kind).replace("never", flag)
    if kind == "f16" and flag == "always":
        code += ", 2"
        before = before / 4
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": word})
    total = (left @ right.T + (before if flag == "always" else 0)).astype(np.float16)
    cells[lanes(m), :32] = total.view(np.uint16)
    assert np.array_equal(out, cells)


# --- integers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [("u8", "u8"), ("s8", "s8"), ("u8", "s8"), ("s8", "u8")])
@pytest.mark.parametrize("saturate", [False, True])
def test_i8(a: str, b: str, saturate: bool) -> None:
    """Sums wrap, or are clamped once."""
    generator = np.random.default_rng(8)
    left, right = numbers(generator, (128, 32), a), numbers(generator, (80, 32), b)
    before = generator.choice([2**31 - 1, -(2**31), 0, 77], (128, 80))
    cells = cells_of()
    cells[:, :80] = before.astype(np.int32).view(np.uint32)
    A, B = shared(left, a, A_AT), shared(right, b, B_AT)
    word = idesc(2, a, b, 128, 80, more=saturate << 3)
    out = perform(SS.format(kind="i8").replace("never", "always"), [A, B], cells, {"a": A.word, "b": B.word, "v": word})  # fmt: skip
    total = (left @ right.T).astype(np.int64) + before
    if saturate:
        total = total.clip(-(2**31), 2**31 - 1)
    cells[:, :80] = total.astype(np.uint32)
    assert np.array_equal(out, cells)


# --- A in tensor memory ---------------------------------------------------------------------------

TS = "add.u32 n, tm, 200\ntcgen05.mma.cta_group::1.kind::{kind} [d], [n], b, v, never"


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("element", ["f16", "bf16", "tf32", *FLOATS, "s8"])
@pytest.mark.parametrize("n", [8, 64])
def test_a_in_tensor_memory(element: str, m: int, n: int) -> None:
    generator = np.random.default_rng(9)
    wide = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}
    kind = (
        "tf32" if element == "tf32" else "f16" if element in wide else "i8" if element == "s8" else "f8f6f4"
    )
    k = {"f16": 16, "tf32": 8}.get(kind, 32)
    left, right = (numbers(generator, (rows, k), element) for rows in (m, n))
    if element in wide:
        in_cells = np.ascontiguousarray(left.astype(wide[element])).view("<u4")
        B = operand(right, element, B_AT, "128B", "K", 0)
    else:
        in_cells = contained(left, element)
        B = shared(right, element, B_AT)
    assert in_cells.shape == (m, 8)
    for upper in (0, 16) if m == 64 else (0,):
        cells = cells_of()
        at = lanes(m) + upper
        cells[at, 200:208] = in_cells
        code = TS.format(kind=kind)
        if upper:
            code = "add.u32 d, d, 0x100000\n" + code.replace("tm, 200", f"tm, {200 + (16 << 16)}")
        word = idesc(2 if kind == "i8" else 1, element, element, m, n)
        out = perform(code, [B], cells, {"b": B.word, "v": word})
        product = left @ right.T
        cells[at, :n] = product.astype(np.int32).view(np.uint32) if kind == "i8" else f32(product)
        assert np.array_equal(out, cells)


def test_a_and_d_of_64_rows_lie_in_the_same_half() -> None:
    B = operand(np.ones((64, 16)), "f16", B_AT, "128B", "K", 0)
    code = TS.format(kind="f16").replace("tm, 200", f"tm, {200 + (16 << 16)}")
    report = report_of(code, [B], cells_of(), {"b": B.word, "v": idesc(1, "f16", "f16", 64, 64)})
    assert [f.rule.name for f in report.findings] == ["tensor-memory"], report


@pytest.mark.full
@pytest.mark.parametrize("element", ["f16", "tf32", "e4m3", "s8"])
def test_ashift_moves_the_rows_of_a_afterwards(element: str) -> None:
    """As CUTLASS's 1cta_mma_a_from_tmem.py has seen it: in each 32 lanes, and the last row stays."""
    generator = np.random.default_rng(10)
    kind = {"f16": "f16", "tf32": "tf32", "s8": "i8"}.get(element, "f8f6f4")
    k = {"f16": 16, "tf32": 8}.get(kind, 32)
    left, right = numbers(generator, (128, k), element), numbers(generator, (32, k), element)
    if element in ("f16", "tf32"):
        in_cells = np.ascontiguousarray(left.astype({"f16": np.float16, "tf32": np.float32}[element])).view(
            "<u4"
        )
        B = operand(right, element, B_AT, "32B", "K", 0)
    else:
        in_cells, B = contained(left, element), shared(right, element, B_AT, "32B")
    word = idesc(2 if kind == "i8" else 1, element, element, 128, 32)
    again = "add.u32 d, tm, 64\ntcgen05.mma.cta_group::1.kind::{kind} [d], [n], b, v, never"
    code = f"{TS.replace('{kind}', '{kind}.ashift')}\n{again}".format(kind=kind)
    moved = np.arange(128) + (np.arange(128) % 32 != 31)
    for schedule, seed in SCHEDULES:
        cells = cells_of()
        cells[:, 200:208] = in_cells
        out = perform(code, [B], cells, {"b": B.word, "v": word}, schedule=schedule, seed=seed)
        cells[:, 200:208] = in_cells[moved]
        for column, rows in ((0, left), (64, left[moved])):
            product = rows @ right.T
            cells[:, column : column + 32] = (
                product.astype(np.int32).view(np.uint32) if kind == "i8" else f32(product)
            )
        assert np.array_equal(out, cells), schedule


# --- block scales ---------------------------------------------------------------------------------

#: Column of the scales of A and of B.
SFA, SFB = 240, 248


def scale_cells(cells: Cells, column: int, scales: NDArray[np.uint8], first: int) -> None:
    """Row r: lane r % 32 of every quarter, column r // 32, bytes from ``first`` on."""
    view = cells.view(np.uint8).reshape(128, COLUMNS, 4)
    for row, line in enumerate(scales):
        for quarter in range(4):
            view[32 * quarter + row % 32, column + row // 32, first : first + len(line)] = line


SCALED = (
    "add.u32 n, tm, 240\nadd.u32 m, tm, 248\n"
    "tcgen05.mma.cta_group::1.kind::{kind}.block_scale{size} [d], {a}, b, v, [n], [m], {flag}"
)
#: kind, modifier, type of the scales, scales of a row, first bytes that they may have.
SCALINGS = [
    ("mxf8f6f4", "", "ue8m0", 1, (0, 1, 2, 3)),
    ("mxf8f6f4", ".scale_vec::1X", "ue8m0", 1, (3,)),
    ("mxf8f6f4", ".block32", "ue8m0", 1, (2,)),
    ("mxf4", "", "ue8m0", 2, (0, 2)),
    ("mxf4", ".scale_vec::2X", "ue8m0", 2, (2,)),
    ("mxf4nvf4", ".scale_vec::2X", "ue8m0", 2, (0, 2)),
    ("mxf4nvf4", ".block32", "ue8m0", 2, (2,)),
    ("mxf4nvf4", ".scale_vec::4X", "ue4m3", 4, (0,)),
    ("mxf4nvf4", ".block16", "ue8m0", 4, (0,)),
]


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("kind", "size", "scale", "count", "ids"), SCALINGS)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("flag", ["never", "always"])
def test_block_scales(kind: str, size: str, scale: str, count: int, ids: tuple[int, ...], inside: bool, flag: str) -> None:  # fmt: skip
    generator = np.random.default_rng(count + 10 * inside)
    nibbles = kind != "mxf8f6f4"
    a, b = ("e2m1", "e2m1") if nibbles else ("e2m3", "e5m2")
    k, n = (64 if nibbles else 32), 80 if inside else 72
    left, right = numbers(generator, (128, k), a), numbers(generator, (n, k), b)
    if scale == "ue8m0":
        raw = [generator.integers(125, 130, (rows, count)).astype(np.uint8) for rows in (128, n)]
        factor = [2.0 ** (r.astype(int) - 127) for r in raw]
    else:
        factor = [generator.choice([0.25, 0.5, 1, 1.25, 3], (rows, count)) for rows in (128, n)]
        raw = [f.astype(ml_dtypes.float8_e4m3fn).view(np.uint8) for f in factor]
    for first in ids:
        cells = cells_of()
        scale_cells(cells, SFA, raw[0], first)
        scale_cells(cells, SFB, raw[1], ids[-1])
        before = generator.integers(-64, 65, (128, n)) / 8
        cells[:, :n] = f32(before)
        B = shared(right, b, B_AT, nibbles=nibbles)
        operands = [B]
        if inside:
            cells[:, 200:208] = contained(left, a, nibbles)
            at, word = "[tc]", 0
        else:
            A = shared(left, a, A_AT, nibbles=nibbles)
            operands.append(A)
            at, word = "a", A.word
        code = "add.u32 tc, tm, 200\n" + SCALED.format(kind=kind, size=size, a=at, flag=flag)
        types = 1 << 7 | 1 << 10 if nibbles else CODES[a] << 7 | CODES[b] << 10
        v = ids[-1] << 4 | types | n >> 3 << 17 | (scale == "ue8m0") << 23 | 1 << 27 | first << 29
        out = perform(code, operands, cells, {"a": word, "b": B.word, "v": v})
        total = (left * factor[0].repeat(k // count, 1)) @ (right * factor[1].repeat(k // count, 1)).T
        cells[:, :n] = f32(total + (before if flag == "always" else 0))
        assert np.array_equal(out, cells), first


class Chunks(Operand):
    """Rows of 48 bytes: the first part in one tile with 128-byte swizzle, what is past its rows' end in another."""

    def __init__(self, values: NDArray[np.uint8], address: int, inside: int, then: int) -> None:
        super().__init__(values, "byte", address, "128B", "K", 16, 1024)
        self.inside, self.then = inside, then

    def put(self, image: NDArray[np.uint8]) -> None:
        for row, line in enumerate(self.values):
            for i, value in enumerate(line.tolist()):
                at = self.inside + i
                base = self.address if at < 128 else self.then
                at = base + row // 8 * 1024 + row % 8 * 128 + at % 128
                image[(at ^ (at >> 7 & 7) << 4) - BASE] = value

    @property
    def word(self) -> int:
        """With an absolute leading address."""
        return (
            (self.address + self.inside) >> 4 | self.then >> 4 << 16 | 64 << 32 | 1 << 46 | 1 << 52 | 2 << 61
        )


@pytest.mark.parametrize(("kind", "size", "scale", "count", "ids"), [
    ("mxf4", "", "ue8m0", 3, (0, 1, 2, 3)),
    ("mxf4nvf4", ".block32", "ue8m0", 3, (3, 2)),
    ("mxf4nvf4", ".block16", "ue4m3", 6, (0, 2)),
])  # fmt: skip
@pytest.mark.parametrize("n", [32, 144])
def test_k_of_96(kind: str, size: str, scale: str, count: int, ids: tuple[int, ...], n: int) -> None:
    """48 bytes a row, at every place of CUTLASS's circular buffers; scales past a cell go on 4 or 8 columns on."""
    generator = np.random.default_rng(count + n)
    inside = {16: 48, 112: 96}  # of A: of B
    for number, first in enumerate(ids):
        at_a, at_b = list(inside.items())[number % 2]
        left, right = numbers(generator, (128, 96), "e2m1"), numbers(generator, (n, 96), "e2m1")
        raw, factor = [], []
        for rows in (128, n):
            if scale == "ue8m0":
                raw.append(generator.integers(125, 130, (rows, count)).astype(np.uint8))
                factor.append(2.0 ** (raw[-1].astype(int) - 127))
            else:
                factor.append(generator.choice([0.25, 0.5, 1, 1.25, 3], (rows, count)))
                raw.append(factor[-1].astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
        cells = cells_of()
        view = cells.view(np.uint8).reshape(128, COLUMNS, 4)
        for column, lines, start, step in (
            (160, raw[0], first, 4),
            (200, raw[1], ids[-1], 8 if n > 128 else 4),
        ):
            for row, line in enumerate(lines):
                for j, code in enumerate(line):
                    place = column + row // 32 + step * ((start + j) // 4)
                    view[row % 32 :: 32, place, (start + j) % 4] = code
        # 36 KB hold A in two tiles and 32 columns of B, or one tile of each: what follows may lie in the same.
        then, at = (BASE + 16384, BASE + 32768) if n == 32 else (BASE, BASE + 16384)
        A = Chunks(stored(left, "e2m1", True), BASE, at_a, then)
        B = Chunks(stored(right, "e2m1", True), at, at_b, at)
        code = (
            SCALED.format(kind=kind, size=size, a="a", flag="never")
            .replace("tm, 240", "tm, 160")
            .replace("tm, 248", "tm, 200")
        )
        v = (
            ids[-1] << 4
            | 1 << 7
            | 1 << 10
            | n >> 3 << 17
            | (scale == "ue8m0") << 23
            | 1 << 27
            | first << 29
            | 1 << 31
        )
        out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": v}, target="sm_103a")
        x, y = (m * f.repeat(96 // count, 1) for m, f in ((left, factor[0]), (right, factor[1])))
        cells[:, :n] = f32(x @ y.T)
        assert np.array_equal(out, cells), first


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_an_address_of_scales_may_repeat_their_first_byte(first: int) -> None:
    """In its upper two bits, as CUTLASS passes it; the descriptor's number counts."""
    left, right = np.ones((128, 32)), np.ones((32, 32))
    cells = cells_of()
    scale_cells(cells, SFA, np.full((128, 1), 127 + first, np.uint8), first)
    scale_cells(cells, SFB, np.full((32, 1), 128, np.uint8), first)
    A, B = shared(left, "e4m3", A_AT), shared(right, "e4m3", B_AT)
    code = SCALED.format(kind="mxf8f6f4", size="", a="a", flag="never")
    code = code.replace("tcgen05", f"or.b32 n, n, {first << 30}\nor.b32 m, m, {first << 30}\ntcgen05")
    word = first << 4 | 32 >> 3 << 17 | 1 << 23 | 1 << 27 | first << 29
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": word})
    assert (out[:, :32] == f32(np.float64(32 * 2 * 2**first))).all()


def test_each_quarter_of_the_lanes_has_its_own_scales() -> None:
    """Not copied to a quarter, the scales that it holds count."""
    generator = np.random.default_rng(11)
    left, right = numbers(generator, (128, 32), "e4m3"), numbers(generator, (32, 32), "e4m3")
    cells = cells_of()
    for quarter in range(4):
        cells[32 * quarter : 32 * quarter + 32, SFA : SFA + 4] = 127
        cells[32 * quarter : 32 * quarter + 32, SFB] = 127 + quarter
    A, B = shared(left, "e4m3", A_AT), shared(right, "e4m3", B_AT)
    code = SCALED.format(kind="mxf8f6f4", size="", a="a", flag="never")
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": 32 >> 3 << 17 | 1 << 23 | 1 << 27})
    cells[:, :32] = f32((left @ right.T) * 2.0 ** (np.arange(128) // 32)[:, None])
    assert np.array_equal(out, cells)


def test_a_scale_that_is_no_number() -> None:
    """ue8m0 255 is NaN, and makes NaN of its row alone: the canonical one."""
    left, right = np.ones((128, 32)), np.ones((32, 32))
    cells = cells_of()
    cells[:, SFA : SFA + 4] = 127
    cells[:, SFB] = 127
    cells[3::32, SFA] = 255
    A, B = shared(left, "e4m3", A_AT), shared(right, "e4m3", B_AT)
    code = SCALED.format(kind="mxf8f6f4", size="", a="a", flag="never")
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": 32 >> 3 << 17 | 1 << 23 | 1 << 27})
    expected = np.full((128, 32), f32(np.float64(32)))
    expected[3] = 0x7FFFFFFF
    assert np.array_equal(out[:, :32], expected)


def test_random_reals_of_scaled_kinds_stay_within_the_bound() -> None:
    generator = np.random.default_rng(12)
    left, right = (generator.standard_normal((rows, 32)).astype(FLOATS["e4m3"]) for rows in (128, 64))
    raw = [generator.integers(100, 150, (rows, 1)).astype(np.uint8) for rows in (128, 64)]
    cells = cells_of()
    for column, scales in ((SFA, raw[0]), (SFB, raw[1])):
        scale_cells(cells, column, scales, 0)
    A, B = (operand(v.view(np.uint8), "byte", at, "32B", "K", 0) for v, at in ((left, A_AT), (right, B_AT)))
    code = SCALED.format(kind="mxf8f6f4", size="", a="a", flag="never")
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": 64 >> 3 << 17 | 1 << 23 | 1 << 27})
    x, y = (v.astype(np.float64) * 2.0 ** (r.astype(int) - 127) for v, r in ((left, raw[0]), (right, raw[1])))
    error = np.abs(out[:, :64].view(np.float32).astype(np.float64) - x @ y.T)
    assert (error <= 32 * 2.0**-23 * (np.abs(x) @ np.abs(y).T)).all()


# --- what does not fit ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "word", "rule"),
    [
        (SS.format(kind="f8f6f4"), idesc(2, "e4m3", "e4m3", 128, 32), "bad-descriptor"),
        (SS.format(kind="i8"), idesc(1, "u8", "u8", 128, 32), "bad-descriptor"),
        (SS.format(kind="i8"), idesc(2, "u8", "u8", 128, 40), "bad-descriptor"),
        (SS.format(kind="f8f6f4"), idesc(1, "e2m1", "e4m3", 128, 32, majors="MK"), "bad-descriptor"),
        (TS.format(kind="f16"), idesc(1, "f16", "f16", 128, 64, majors="MK"), "bad-descriptor"),
        (TS.format(kind="f16"), idesc(1, "f16", "f16", 128, 264), "bad-descriptor"),
        (TS.format(kind="f16").replace("kind::f16", "kind::f16.ashift"), idesc(1, "f16", "f16", 64, 64), "bad-descriptor"),
        ("add.u32 tc, tm, 200\n" + SCALED.format(kind="mxf4", size="", a="[tc]", flag="never"), 1 << 7 | 1 << 10 | 4 << 17 | 1 << 23 | 1 << 27 | 1 << 31, "not-modeled"),
        (SCALED.format(kind="mxf4", size=".scale_vec::2X", a="a", flag="never"), 1 << 7 | 1 << 10 | 4 << 17 | 1 << 23 | 1 << 27 | 1 << 31, "bad-descriptor"),
        (SCALED.format(kind="mxf4", size="", a="a", flag="never"), 1 << 7 | 1 << 10 | 4 << 17 | 1 << 23 | 1 << 27 | 1 << 29, "bad-descriptor"),
    ],
)  # fmt: skip
def test_descriptors_that_the_kind_does_not_have(code: str, word: int, rule: str) -> None:
    A, B = (operand(np.zeros((128, 32)), "byte", at, "128B", "K", 0) for at in (A_AT, B_AT))
    target = "sm_103a" if word >> 31 else "sm_100a"
    report = report_of(code, [A, B], cells_of(), {"a": A.word, "b": B.word, "v": word}, target=target)
    assert [f.rule.name for f in report.findings] == [rule], report
