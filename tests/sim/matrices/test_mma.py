"""mma and mma.sp, held against the layouts of the manual and sums in rational numbers.

That an H200 computes the same is the business of tests/conformance.
"""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sim.kernels.one_instruction import pack, run_registers

LANE = np.arange(32)
GROUP, IN_GROUP = LANE >> 2, LANE & 3
WIDTHS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4,
    "u4": 4, "b1": 1, "s32": 32, "e3m2": 8, "e2m3": 8, "e2m1": 8,
}  # fmt: skip
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip


# --- the manual's fragments: rows and columns of element i, for every lane ------------------------


def place_a(i: int, bits: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    per = max(32 // bits, 1)
    register, part = divmod(i, per)
    lower, step = (register % 2, register // 2) if rows == 16 else (0, register)
    return GROUP + 8 * lower, IN_GROUP * per + part + 4 * per * step


def place_b(i: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    per = max(32 // bits, 1)
    register, part = divmod(i, per)
    return IN_GROUP * per + part + 4 * per * register, GROUP


def place_c(i: int) -> tuple[np.ndarray, np.ndarray]:
    return GROUP + 8 * (i // 2), IN_GROUP * 2 + i % 2


def registers(matrix: np.ndarray, operand: str, bits: int, rows: int = 16) -> np.ndarray:
    """Codes of a matrix as registers ``[register, lane]``."""
    count = matrix.size // 32
    places = [
        place_a(i, bits, rows) if operand == "a" else place_b(i, bits) if operand == "b" else place_c(i)
        for i in range(count)
    ]
    elements = np.stack([matrix[row, column] for row, column in places])
    return elements if bits == 64 else pack(elements, bits)


def sums(found: np.ndarray, rows: int, kind: str) -> np.ndarray:
    """D's codes from its registers."""
    elements = found
    if WIDTHS[kind] == 16:
        elements = np.stack([found & 0xFFFF, found >> 16], 1).reshape(-1, 32)
    matrix = np.zeros((rows, 8), elements.dtype)
    for i, own in enumerate(elements):
        matrix[place_c(i)] = own
    return matrix


def codes(values: np.ndarray, kind: str) -> np.ndarray:
    if kind in DTYPES:
        encoded = values.astype(DTYPES[kind])
        return encoded.view(f"u{encoded.itemsize}").astype(np.uint64)
    return values.astype(np.int64).view(np.uint64) & np.uint64((1 << WIDTHS[kind]) - 1)


def run(
    name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: tuple[str, str, str, str]
) -> np.ndarray:
    """D's codes for codes of A, B and C; ``kinds`` of D, A, B, C."""
    d, x, y, z = kinds
    rows, bits = len(a), WIDTHS[d] if d == "f64" else 32
    operands = [
        registers(a, "a", WIDTHS[x], rows), registers(b, "b", WIDTHS[y]), registers(c, "c", WIDTHS[z]),
    ]  # fmt: skip
    results = rows * 8 // 32 * WIDTHS[d] // bits
    return sums(run_registers(f"{name} {{d}}, {{0}}, {{1}}, {{2}};", operands, results, bits=bits), rows, d)


def integers(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    low, high = (0, 2) if kind == "b1" else (0, 8) if kind[0] == "u" else (-4, 5)
    return rng.integers(low, high, shape)


# --- dense ------------------------------------------------------------------------------------------

DENSE = [
    *(("f16", f"m16n8k{k}", total) for k in (8, 16) for total in ("f16", "f32")),
    *(("bf16", f"m16n8k{k}", "f32") for k in (8, 16)),
    *(("tf32", f"m16n8k{k}", "f32") for k in (4, 8)),
    *((kind, f"m16n8k{k}", total) for kind in ("e4m3", "e5m2") for k in (16, 32) for total in ("f16", "f32")),
    ("f64", "m8n8k4", "f64"),
    *(("f64", f"m16n8k{k}", "f64") for k in (4, 8, 16)),
    *((kind, shape, "s32") for kind in ("s8", "u8") for shape in ("m8n8k16", "m16n8k16", "m16n8k32")),
    *((kind, shape, "s32") for kind in ("s4", "u4") for shape in ("m8n8k32", "m16n8k32", "m16n8k64")),
    *(("b1", shape, "s32") for shape in ("m8n8k128", "m16n8k128", "m16n8k256")),
]


def extents(shape: str) -> tuple[int, int]:
    m, _, k = shape[1:].replace("n", " ").replace("k", " ").split()
    return int(m), int(k)


@pytest.mark.parametrize(("kind", "shape", "total"), DENSE)
def test_small_integers(kind: str, shape: str, total: str) -> None:
    rng = np.random.default_rng(1)
    m, k = extents(shape)
    a, b, c = integers(rng, (m, k), kind), integers(rng, (k, 8), kind), integers(rng, (m, 8), "s32")
    tail = ".xor.popc" if kind == "b1" else ""
    found = run(
        f"mma.sync.aligned.{shape}.row.col.{total}.{kind}.{kind}.{total}{tail}",
        codes(a, kind), codes(b, kind), codes(c, total), (total, kind, kind, total),
    )  # fmt: skip
    expected = (a[:, :, None] != b[None]).sum(1) if kind == "b1" else a @ b
    assert (found == codes(expected + c, total)).all()


def test_bits_in_both() -> None:
    rng = np.random.default_rng(2)
    a, b, c = rng.integers(0, 2, (16, 256)), rng.integers(0, 2, (256, 8)), rng.integers(-9, 9, (16, 8))
    found = run(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", a, b, codes(c, "s32"), ("s32", "b1", "b1", "s32")
    )  # fmt: skip
    assert (found == codes(a @ b + c, "s32")).all()


@pytest.mark.parametrize("saturate", [False, True])
def test_integers_leave_32_bits(saturate: bool) -> None:
    a, b = np.full((16, 32), -128), np.where(np.arange(8) % 2, 127, -128) * np.ones((32, 1), np.int64)
    c = np.array([2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 0, 2**31 - 524288, -(2**31) + 520192])
    c = c * np.ones((16, 1), np.int64)
    found = run(
        f"mma.sync.aligned.m16n8k32.row.col{'.satfinite' if saturate else ''}.s32.s8.s8.s32",
        codes(a, "s8"), codes(b, "s8"), codes(c, "s32"), ("s32", "s8", "s8", "s32"),
    )  # fmt: skip
    exact = a @ b + c
    expected = exact.clip(-(2**31), 2**31 - 1) if saturate else exact
    assert (found == codes(expected, "s32")).all()
    assert ((exact > 2**31 - 1) | (exact < -(2**31))).any()


@pytest.mark.parametrize("total", ["f16", "f32"])
@pytest.mark.parametrize("majors", list(itertools.product(("row", "col"), repeat=2)))
def test_four_products_of_halves(majors: tuple[str, str], total: str) -> None:
    """m8n8k4: threads 4q..4q+3 and 16+4q..16+4q+3 compute product q."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(-4, 5, (4, *shape)) for shape in ((8, 4), (4, 8), (8, 8)))
    quarter, half = (LANE % 16) // 4, LANE // 16
    each = np.arange(4)[:, None]
    line = LANE % 4 + 4 * half
    spread_a = a[quarter, line, each] if majors[0] == "row" else a[quarter, each + 4 * half, LANE % 4]
    spread_b = b[quarter, each, line] if majors[1] == "col" else b[quarter, LANE % 4, each + 4 * half]
    i = np.arange(8)[:, None]
    if total == "f16":
        rows, columns = line + 0 * i, i + 0 * LANE
    else:
        rows, columns = (LANE & 1) + (i & 2) + 4 * half, (i & 4) + (LANE & 2) + (i & 1)
    spread_c = codes(c[quarter, rows, columns], total)
    x, y = (pack(codes(part, "f16"), 16) for part in (spread_a, spread_b))
    z = pack(spread_c, 16) if total == "f16" else spread_c
    name = f"mma.sync.aligned.m8n8k4.{'.'.join(majors)}.{total}.f16.f16.{total}"
    found = run_registers(f"{name} {{d}}, {{0}}, {{1}}, {{2}};", [x, y, z], len(z))
    expected = codes((a @ b + c)[quarter, rows, columns], total)
    assert (found == (pack(expected, 16) if total == "f16" else expected)).all()


# --- the sums of floats -------------------------------------------------------------------------------

#: Exponent of the least normal number of a type.
LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14}


def exponent(value: float, kind: str) -> int:
    return max(math.frexp(value)[1] - 1, LEAST[kind])


def block(a: list[float], b: list[float], c: float, kinds: tuple[str, str, str]) -> Fraction:
    """A sum as a tensor core adds it: addends cut to multiples of 2**-25 of the largest exponent."""
    addends = [
        (Fraction(x) * Fraction(y), exponent(x, kinds[0]) + exponent(y, kinds[1]))
        for x, y in zip(a, b, strict=True)
        if x and y
    ] + ([(Fraction(c), exponent(c, kinds[2]))] if c else [])
    if not addends:
        return Fraction(0)
    unit = Fraction(2) ** (max(e for _, e in addends) - 25)
    return sum((math.trunc(value / unit) for value, _ in addends), 0) * unit


def cut(value: Fraction) -> float:
    """Toward zero to 24 bits."""
    if not value:
        return 0.0
    size = abs(value)
    power = math.frexp(float(size))[1] - 24
    power += 1 if size / Fraction(2) ** power >= 2**24 else 0
    unit = Fraction(2) ** max(power, -149)
    return math.copysign(float(math.floor(size / unit) * unit), value)


def half(value: Fraction) -> float:
    """To the nearest f16."""
    size = abs(value)
    if not size:
        return 0.0
    power = math.frexp(float(size))[1]
    unit = Fraction(2) ** max(power - 11, -24)
    return math.copysign(float(round(size / unit) * unit), value)


def spread_numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: str, reach: int) -> np.ndarray:
    values = (
        rng.uniform(1, 2, shape) * rng.choice([-1, 1], shape) * 2.0 ** rng.integers(-reach, reach + 1, shape)
    )
    values[rng.random(shape) < 0.1] = 0
    if kind == "tf32":
        return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(DTYPES[kind])


SUMS = [
    ("f16", 16, "f32", 6), ("f16", 16, "f16", 2), ("f16", 8, "f32", 14), ("bf16", 16, "f32", 12), ("tf32", 8, "f32", 10),
    ("tf32", 4, "f32", 3),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "k", "total", "reach"), SUMS)
def test_sums_are_cut(kind: str, k: int, total: str, reach: int) -> None:
    rng = np.random.default_rng(4)
    a, b = (spread_numbers(rng, shape, kind, reach) for shape in ((16, k), (k, 8)))
    c = spread_numbers(rng, (16, 8), total, reach)
    found = run(
        f"mma.sync.aligned.m16n8k{k}.row.col.{total}.{kind}.{kind}.{total}",
        codes(a, kind), codes(b, kind), codes(c, total), (total, kind, kind, total),
    )  # fmt: skip
    rounded = half if total == "f16" else cut
    x, y, z = (np.asarray(part, np.float64).tolist() for part in (a, b.T, c))
    expected = [
        [rounded(block(x[i], y[j], z[i][j], (kind, kind, total))) for j in range(8)] for i in range(16)
    ]
    assert (found == codes(np.array(expected), total)).all()
    if total == "f32":  # not what rounding the exact sum would give
        exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64) + c
        assert (np.array(expected) != exact.astype(np.float32)).any()


@pytest.mark.parametrize("total", ["f16", "f32"])
def test_bytes_are_two_products_and_a_sum(total: str) -> None:
    """The lower two of each four elements, then the upper two on top; then C, rounded as an addition."""
    rng = np.random.default_rng(5)
    a, b = spread_numbers(rng, (16, 32), "e4m3", 4), spread_numbers(rng, (32, 8), "e5m2", 4)
    c = spread_numbers(rng, (16, 8), total, 4)
    found = run(
        f"mma.sync.aligned.m16n8k32.row.col.{total}.e4m3.e5m2.{total}",
        codes(a, "e4m3"), codes(b, "e5m2"), codes(c, total), (total, "e4m3", "e5m2", total),
    )  # fmt: skip
    rounded = half if total == "f16" else cut
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lower = np.arange(32) % 4 < 2
    expected = np.zeros((16, 8), DTYPES[total])
    for i, j in itertools.product(range(16), range(8)):
        part = 0.0
        for which in (lower, ~lower):
            part = rounded(block(x[i, which].tolist(), y[which, j].tolist(), part, ("f16", "f16", total)))
        expected[i, j] = DTYPES[total](part) + c[i, j]
    assert (found == codes(expected, total)).all()


def test_subnormal_bytes_are_normal_halves() -> None:
    """Measured on an H200: the exponent of a subnormal e4m3 is that of the half it becomes."""
    a, b = (
        np.frombuffer(bytes.fromhex(text), np.uint8).astype(np.uint64)
        for text in (
            "a9cd4334adab3ebd3f3501c9b04b42bc774cb239332d3f40ccadbe34ce3c4bb8",
            "b63ebb81c1c6c73e40c47b3e42c3b5bbb846bcb745363e38c24003bdbe0434c0",
        )
    )
    x, y, z = np.zeros((16, 32), np.uint64), np.zeros((32, 8), np.uint64), np.zeros((16, 8), np.uint64)
    x[6], y[:, 3], z[6, 3] = a, b, 0x3B9C4D47
    name = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"
    assert run(name, x, y, z, ("f32", "e4m3", "e5m2", "f32"))[6, 3] == 0x4178938A


def one(kind: str, k: int, a: list[float], b: list[float], c: float, total: str = "f32") -> int:
    """The code of one element of D; all other elements are zero."""
    x, y, z = np.zeros((16, k)), np.zeros((k, 8)), np.zeros((16, 8))
    x[3, : len(a)], y[: len(b), 5], z[3, 5] = a, b, c
    found = run(
        f"mma.sync.aligned.m16n8k{k}.row.col.{total}.{kind}.{kind}.{total}",
        codes(x, kind), codes(y, kind), codes(z, total), (total, kind, kind, total),
    )  # fmt: skip
    return int(found[3, 5])


def word(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def test_addends_far_below_the_largest_are_lost() -> None:
    ones = [1.0] * 8
    assert one("bf16", 16, ones, [2.0**-25] * 8, 1.0) == word(1 + 2.0**-22)
    assert one("bf16", 16, ones, [2.0**-26] * 8, 1.0) == word(1.0)
    # Toward zero: all of 1 - 2**-25 but its last bit.
    assert one("bf16", 16, [1.0], [-(2.0**-25)], 1.0) == word(1 - 2.0**-24)


def test_a_product_is_not_normalized() -> None:
    """1.5 * 1.5 has the exponent of 1 * 1."""
    assert one("f16", 16, [1.5] + [2.0**-5] * 8, [1.5] + [2.0**-20] * 8, 0.0) == word(2.25 + 2.0**-22)


def test_special_values() -> None:
    infinity, nan = math.inf, 0x7FFFFFFF
    assert one("f16", 16, [infinity], [0.0], 0.0) == nan
    assert one("f16", 16, [infinity, -infinity], [1.0, 1.0], 0.0) == nan
    assert one("f16", 16, [infinity], [-1.0], 5.0) == word(-infinity)
    assert one("f16", 16, [1.0], [1.0], math.nan) == nan
    assert one("f16", 16, [60000.0], [60000.0], 0.0, "f16") == 0x7C00
    assert one("f16", 16, [1.0], [math.nan], 0.0, "f16") == 0x7FFF
    big = 2.0**100
    assert one("bf16", 16, [big], [-big], 1.0) == word(-infinity)
    assert one("bf16", 16, [big, -big], [big, big], 1.0) == word(0.0)
    # What underflows is +0, whatever its sign.
    assert one("bf16", 16, [2.0**-100], [-(2.0**-100)], 0.0) == 0
    assert one("bf16", 16, [0.0], [-1.0], -0.0) == 0


@pytest.mark.parametrize(("rnd", "last"), [("", 0), (".rn", 0), (".rz", 0), (".rm", 0), (".rp", 1)])
def test_doubles_are_a_chain(rnd: str, last: int) -> None:
    """1 + 2**-60 - 1 in ascending k: the small addend is rounded away before the large ones cancel."""
    a, b, c = np.zeros((8, 4)), np.ones((4, 8)), np.ones((8, 8))
    a[:, 0], a[:, 1] = 2.0**-60, -1.0
    found = run(
        f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{rnd}",
        codes(a, "f64"), codes(b, "f64"), codes(c, "f64"), ("f64",) * 4,
    )  # fmt: skip
    sign = -0.0 if rnd == ".rm" else 0.0
    assert (found == codes(np.full((8, 8), last * 2.0**-52 or sign), "f64")).all()


# --- sparse -------------------------------------------------------------------------------------------

SPARSE = [
    ("f16", 16, 1, "f32"), ("f16", 32, 2, "f16"), ("bf16", 16, 1, "f32"), ("bf16", 32, 2, "f32"), ("tf32", 8, 1, "f32"),
    ("tf32", 16, 2, "f32"), ("e4m3", 64, 4, "f32"), ("s8", 32, 2, "s32"), ("u8", 64, 4, "s32"), ("s4", 64, 2, "s32"),
    ("u4", 128, 4, "s32"),
]  # fmt: skip


def sparse_matrix(rng: np.random.Generator, kind: str, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A ``[16, k]`` with half zeroes, what is kept of it, and an index of each chunk ``[16, chunks]``."""
    chunk = {4: 8, 32: 2}.get(WIDTHS[kind], 4)
    dense, index = np.zeros((16, k), np.int64), np.zeros((16, k // chunk), np.int64)
    kept = np.zeros((16, k // 2), np.int64)
    for row, number in itertools.product(range(16), range(k // chunk)):
        own = integers(rng, (chunk // 2,), kind)
        first, second = sorted(rng.choice(4, 2, replace=False).tolist())
        if chunk == 2:  # one element, as its two halves
            first, second = (0, 1) if first < 2 else (2, 3)
        each = max(chunk // 4, 1)
        at = number * chunk
        places = (
            [at + first // 2] if chunk == 2
            else [at + pair * each + part for pair in (first, second) for part in range(each)]
        )  # fmt: skip
        dense[row, places] = own
        kept[row, number * chunk // 2 : (number + 1) * chunk // 2] = own
        index[row, number] = first | second << 2
    return dense, kept, index


def metadata(index: np.ndarray, kind: str, suppliers: int, selector: int) -> np.ndarray:
    """The manual's figures: who of each four threads has which indices. The others have wrong ones."""
    words = np.full(32, 0x44444444, np.uint32)
    chunks = index.shape[1]
    for lane in range(32):
        row, place = lane // 4, lane % 4 - selector * suppliers
        if not 0 <= place < suppliers:
            continue
        if WIDTHS[kind] >= 16:  # four indices of a row, and four of the row 8 below
            own = [*index[row, 4 * place : 4 * place + 4], *index[row + 8, 4 * place : 4 * place + 4]]
        else:  # eight of one row; of two threads the second has the row 8 below
            first = 8 * (place // 2) if chunks == 16 else 0
            own = list(index[row + 8 * (place % 2), first : first + 8])
        words[lane] = sum(int(value) << (4 * i) for i, value in enumerate(own))
    return words


@pytest.mark.parametrize("ordered", ["sp", "sp::ordered_metadata"])
@pytest.mark.parametrize(("kind", "k", "suppliers", "total"), SPARSE)
def test_sparse(kind: str, k: int, suppliers: int, total: str, ordered: str) -> None:
    rng = np.random.default_rng(6)
    dense, kept, index = sparse_matrix(rng, kind, k)
    b, c = integers(rng, (k, 8), kind), integers(rng, (16, 8), "s32")
    operands = [
        registers(codes(kept, kind), "a", WIDTHS[kind]), registers(codes(b, kind), "b", WIDTHS[kind]),
        registers(codes(c, total), "c", WIDTHS[total]),
    ]  # fmt: skip
    name = f"mma.{ordered}.sync.aligned.m16n8k{k}.row.col.{total}.{kind}.{kind}.{total}"
    for selector in range(4 // suppliers):
        words = metadata(index, kind, suppliers, selector)
        found = run_registers(
            f"{name} {{d}}, {{0}}, {{1}}, {{2}}, {{3}}, {selector};", [*operands, words], len(operands[2])
        )
        assert (sums(found, 16, total) == codes(dense @ b + c, total)).all()


def test_sparse_skips_what_is_not_kept() -> None:
    """An infinity in B that no kept element meets does not count."""
    a, b, c = np.ones((16, 8)), np.zeros((16, 8)), np.zeros((16, 8))
    b[0::4], b[1::4], b[2::4] = 1.0, math.inf, 2.0
    operands = [registers(codes(x, "f16"), y, 16) for x, y in ((a, "a"), (b, "b"))]
    words = np.full(32, 0x88888888, np.uint32)
    found = run_registers(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {0}, {1}, {2}, {3}, 0;",
        [*operands, registers(codes(c, "f32"), "c", 32), words],
        4,
    )
    assert (sums(found, 16, "f32") == codes(np.full((16, 8), 12.0), "f32")).all()


def test_sparse_tf32_from_halves() -> None:
    """Measured on an H200: indices that are no element's put the halves of two together."""
    b = np.zeros((8, 8), np.uint32)
    b[0::2], b[1::2] = 0x3F80E000, 0x40400000
    operands = [registers(codes(np.ones((16, 4)), "tf32"), "a", 32), registers(b, "b", 32)]
    # The upper half of the second element above the lower half of the first.
    words = np.full(32, 0xCCCCCCCC, np.uint32)
    found = run_registers(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {d}, {0}, {1}, {2}, {3}, 0;",
        [*operands, np.zeros((4, 32), np.uint32), words],
        4,
    )
    assert (found.view(np.float32) == 4 * np.uint32(0x4040E000).view(np.float32)).all()


# --- narrow formats and scales ------------------------------------------------------------------------


def narrow(values: np.ndarray, kind: str) -> np.ndarray:
    """Codes in bytes; those of 4 bits stand in the middle."""
    return codes(values, kind) << np.uint64(2 if kind == "e2m1" else 0)


@pytest.mark.parametrize(("x", "y"), [("e2m1", "e3m2"), ("e2m3", "e4m3"), ("e5m2", "e2m1")])
def test_narrow_formats(x: str, y: str) -> None:
    rng = np.random.default_rng(7)
    a, b, c = (rng.integers(-4, 5, shape) for shape in ((16, 32), (32, 8), (16, 8)))
    found = run_registers(
        f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{x}.{y}.f32 {{d}}, {{0}}, {{1}}, {{2}};",
        [
            registers(narrow(a, x), "a", 8),
            registers(narrow(b, y), "b", 8),
            registers(codes(c, "f32"), "c", 32),
        ],
        4,
        target="sm_120a",
    )
    assert (sums(found, 16, "f32") == codes(a @ b + c, "f32")).all()


SCALED = [
    ("mxf8f6f4", "1X", "ue8m0", 32, "e4m3", 1),
    ("mxf4", "2X", "ue8m0", 64, "e2m1", 2),
    ("mxf4nvf4", "4X", "ue4m3", 64, "e2m1", 4),
]


@pytest.mark.parametrize(("kind", "vector", "scale", "k", "element", "count"), SCALED)
def test_scales(kind: str, vector: str, scale: str, k: int, element: str, count: int) -> None:
    """A's scales come from one pair of each four threads, rows g and g + 8; B's from one thread."""
    rng = np.random.default_rng(8)
    a, b, c = (rng.integers(-2, 3, shape) for shape in ((16, k), (k, 8), (16, 8)))
    powers_a, powers_b = rng.integers(-3, 4, (16, count)), rng.integers(-3, 4, (count, 8))
    encoded = {"ue8m0": lambda p: p + 127, "ue4m3": lambda p: (p + 7) << 3}[scale]
    bits = 4 if k == 64 else 8
    for byte, pair, thread in itertools.product(range(0, 4, count), (0, 1), (0, 3)):
        words_a, words_b = (np.full(32, 0x41414141, np.uint32) for _ in range(2))
        for lane in range(32):
            if lane % 4 // 2 == pair:
                own = encoded(powers_a[lane // 4 + 8 * (lane % 2)])
                words_a[lane] = sum(int(v) << (8 * (byte + i)) for i, v in enumerate(own))
            if lane % 4 == thread:
                own = encoded(powers_b[:, lane // 4])
                words_b[lane] = sum(int(v) << (8 * (byte + i)) for i, v in enumerate(own))
        found = run_registers(
            f"mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vector}"
            f".f32.{element}.{element}.f32.{scale} {{d}}, {{0}}, {{1}}, {{2}}, "
            f"{{3}}, {{{byte}, {pair}}}, {{4}}, {{{byte}, {thread}}};",
            [
                registers(codes(a, element), "a", bits), registers(codes(b, element), "b", bits),
                registers(codes(c, "f32"), "c", 32), words_a, words_b[None],
            ],
            4,
            target="sm_120a",
        )  # fmt: skip
        x = a * 2.0 ** powers_a.repeat(k // count, 1)
        y = b * 2.0 ** powers_b.repeat(k // count, 0)
        assert (sums(found, 16, "f32") == codes(x @ y + c, "f32")).all()
