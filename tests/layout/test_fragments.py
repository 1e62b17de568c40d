"""Fragments against the manual's formulas, CUTLASS's atoms, the instruction table and each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.layout import (
    FragmentLayout,
    SelectedLayout,
    block_scales,
    matrix_fragment,
    mma_fragment,
    mma_metadata,
    wgmma_fragment,
    wgmma_metadata,
)
from pyptx.layout.fragments import DENSE_SHAPES, SPARSE_SHAPES

# --- CUTLASS --------------------------------------------------------------------------------------
#
# (thread, value) -> number of the element counted down the columns, as CUTLASS's traits give it: extents and
# strides of the thread's and of the value's number. B is (n, k) there.

CUTE = {
    # mma_traits_sm80.hpp, _sm89.hpp, _sm90.hpp, _sm120.hpp
    ("a", "m16n8k8", "f16"): "4 8:32 1|2 2:16 8",
    ("b", "m16n8k8", "f16"): "4 8:16 1|2:8",
    ("a", "m16n8k16", "f16"): "4 8:32 1|2 2 2:16 8 128",
    ("b", "m16n8k16", "f16"): "4 8:16 1|2 2:8 64",
    ("d", "m16n8k16", "f32"): "4 8:32 1|2 2:16 8",
    ("a", "m16n8k4", "tf32"): "4 8:16 1|2:8",
    ("b", "m16n8k4", "tf32"): "4 8:8 1|1:0",
    ("a", "m16n8k8", "tf32"): "4 8:16 1|2 2:8 64",
    ("b", "m16n8k8", "tf32"): "4 8:8 1|2:32",
    ("a", "m8n8k4", "f64"): "4 8:8 1|1:0",
    ("b", "m8n8k4", "f64"): "4 8:8 1|1:0",
    ("d", "m8n8k4", "f64"): "4 8:16 1|2:8",
    ("a", "m16n8k4", "f64"): "4 8:16 1|2:8",
    ("a", "m16n8k8", "f64"): "4 8:16 1|2 2:8 64",
    ("a", "m16n8k16", "f64"): "4 8:16 1|2 4:8 64",
    ("b", "m16n8k16", "f64"): "4 8:8 1|4:32",
    ("d", "m16n8k16", "f64"): "4 8:32 1|2 2:16 8",
    ("a", "m8n8k16", "s8"): "4 8:32 1|4:8",
    ("b", "m8n8k16", "s8"): "4 8:32 1|4:8",
    ("a", "m16n8k16", "s8"): "4 8:64 1|4 2:16 8",
    ("a", "m16n8k32", "s8"): "4 8:64 1|4 2 2:16 8 256",
    ("b", "m16n8k32", "s8"): "4 8:32 1|4 2:8 128",
    ("a", "m16n8k32", "e4m3"): "4 8:64 1|4 2 2:16 8 256",
    ("b", "m16n8k32", "e5m2"): "4 8:32 1|4 2:8 128",
    ("a", "m16n8k32", "e2m1"): "4 8:64 1|4 2 2:16 8 256",
    ("a", "m8n8k32", "s4"): "4 8:64 1|8:8",
    ("a", "m16n8k32", "s4"): "4 8:128 1|8 2:16 8",
    ("a", "m16n8k64", "s4"): "4 8:128 1|8 2 2:16 8 512",
    ("b", "m16n8k64", "u4"): "4 8:64 1|8 2:8 256",
    ("a", "m16n8k64", "e2m1"): "4 8:128 1|8 2 2:16 8 512",
    ("b", "m16n8k64", "e2m1"): "4 8:64 1|8 2:8 256",
    ("a", "m8n8k128", "b1"): "4 8:256 1|32:8",
    ("a", "m16n8k128", "b1"): "4 8:512 1|32 2:16 8",
    ("a", "m16n8k256", "b1"): "4 8:512 1|32 2 2:16 8 2048",
    ("b", "m16n8k256", "b1"): "4 8:256 1|32 2:8 1024",
}
# mma_traits_sm120_sparse.hpp
CUTE_SPARSE = {
    ("b", "m16n8k64", "e4m3"): "4 8:32 1|4 4:8 128",
    ("b", "m16n8k64", "e2m1"): "4 8:32 1|4 4:8 128",
    ("b", "m16n8k128", "e2m1"): "4 8:64 1|8 4:8 256",
}
# mma_traits_sm90_gmma.hpp
CUTE_WGMMA = {
    ("a", "tf32"): "4 8 4:64 1 16|2 2:8 256",
    ("a", "f16"): "4 8 4:128 1 16|2 2 2:64 8 512",
    ("a", "bf16"): "4 8 4:128 1 16|2 2 2:64 8 512",
    ("a", "e4m3"): "4 8 4:256 1 16|4 2 2:64 8 1024",
    ("a", "u8"): "4 8 4:256 1 16|4 2 2:64 8 1024",
}


def cute(text: str) -> tuple[Callable[[int], int], Callable[[int], int]]:
    """The functions of a thread's and of a value's number."""

    def function(part: str) -> Callable[[int], int]:
        extents, strides = (tuple(map(int, side.split())) for side in part.split(":"))

        def offset(index: int) -> int:
            total = 0
            for extent, stride in zip(extents, strides, strict=True):
                total += index % extent * stride
                index //= extent
            return total

        return offset

    threads, values = text.split("|")
    return function(threads), function(values)


def check_cute(layout: FragmentLayout, text: str, *, transposed: bool = False) -> None:
    threads, values = cute(text)
    for thread in range(layout.thread_count):
        for element in range(layout.elements):
            place = layout.place(element, thread)
            row, column = (place.column, place.row) if transposed else (place.row, place.column)
            extent = layout.columns if transposed else layout.rows
            assert row + extent * column == threads(thread) + values(element), (element, thread)


@pytest.mark.parametrize("key", CUTE)
def test_mma_is_cutlasss(key: tuple[str, str, str]) -> None:
    check_cute(mma_fragment(*key), CUTE[key], transposed=key[0] == "b")


@pytest.mark.parametrize("key", CUTE_SPARSE)
def test_sparse_b_is_cutlasss(key: tuple[str, str, str]) -> None:
    check_cute(mma_fragment(*key, sparse=True), CUTE_SPARSE[key], transposed=True)


@pytest.mark.parametrize("key", CUTE_WGMMA)
def test_a_of_wgmma_is_cutlasss(key: tuple[str, str]) -> None:
    check_cute(wgmma_fragment(*key), CUTE_WGMMA[key])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", range(8, 257, 8))
def test_d_of_wgmma_is_cutlasss(n: int) -> None:
    check_cute(wgmma_fragment("d", "f32", n), f"4 8 4:128 1 16|2 2 {n // 8}:64 8 512")


# mma_traits_sm70.hpp: the threads of a quarter are 0..3 and 16..19, each quarter four further.
QUARTERS = {
    ("a", "f16", "row"): "8:1|4:8",
    ("a", "f16", "col"): "4 2:8 4|4:1",
    ("b", "f16", "col"): "8:1|4:8",
    ("b", "f16", "row"): "4 2:8 4|4:1",
    ("d", "f16", None): "8:1|8:8",
    ("c", "f32", None): "2 2 2:1 16 4|2 2 2:8 2 32",
}


@pytest.mark.parametrize("key", QUARTERS)
def test_m8n8k4_is_cutlasss(key: tuple[str, str, str | None]) -> None:
    operand, dtype, major = key
    layout = mma_fragment(operand, "m8n8k4", dtype, major=major)
    threads, values = cute(QUARTERS[key])
    for quarter, number, element in itertools.product(range(4), range(8), range(layout.elements)):
        row, column, matrix = layout.place(element, number % 4 + 16 * (number // 4) + 4 * quarter)
        down, extent = (column + 8 * row, 8) if operand == "b" else (row + 8 * column, 8)
        assert extent == 8 and matrix == quarter
        assert down == threads(number) + values(element)


# --- the manual -----------------------------------------------------------------------------------
#
# Row and column of element i in the thread whose groupID is g and threadID_in_group is t, as the sections
# "Matrix Fragments for mma.m16n8k..." and "Register Fragments" give them.

Formula = Callable[[int, int, int], tuple[int, int]]

MANUAL: dict[tuple[str, str, str], Formula] = {
    ("a", "m16n8k8", "bf16"): lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    ("b", "m16n8k8", "bf16"): lambda g, t, i: (2 * t + i, g),
    ("c", "m16n8k8", "f32"): lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    ("a", "m16n8k16", "bf16"): lambda g, t, i: (
        g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
        2 * t + (i & 1) + (0 if i < 4 else 8),
    ),
    ("b", "m16n8k16", "f16"): lambda g, t, i: (2 * t + (i & 1) + (0 if i < 2 else 8), g),
    ("d", "m16n8k16", "f16"): lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    ("a", "m16n8k4", "tf32"): lambda g, t, i: (g + 8 * i, t),
    ("b", "m16n8k4", "tf32"): lambda g, t, i: (t, g),
    ("a", "m16n8k8", "tf32"): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    ("b", "m16n8k8", "tf32"): lambda g, t, i: (t if i == 0 else t + 4, g),
    ("a", "m8n8k4", "f64"): lambda g, t, i: (g, t),
    ("b", "m8n8k4", "f64"): lambda g, t, i: (t, g),
    ("c", "m8n8k4", "f64"): lambda g, t, i: (g, 2 * t + i),
    ("a", "m16n8k16", "f64"): lambda g, t, i: (
        (g, 2 * i + t) if i % 2 == 0 else (g + 8, 2 * i - 2 + t)
    ),
    ("b", "m16n8k16", "f64"): lambda g, t, i: (4 * i + t, g),
    ("a", "m8n8k16", "u8"): lambda g, t, i: (g, 4 * t + i),
    ("b", "m8n8k16", "u8"): lambda g, t, i: (4 * t + i, g),
    ("c", "m8n8k16", "s32"): lambda g, t, i: (g, 2 * t + i),
    ("a", "m16n8k16", "u8"): lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)),
    ("b", "m16n8k16", "s8"): lambda g, t, i: (4 * t + i, g),
    ("a", "m16n8k32", "e5m2"): lambda g, t, i: (
        g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
        4 * t + (i & 3) + (0 if i < 8 else 16),
    ),
    ("b", "m16n8k32", "s8"): lambda g, t, i: (4 * t + (i & 3) + (0 if i < 4 else 16), g),
    ("a", "m8n8k32", "u4"): lambda g, t, i: (g, 8 * t + i),
    ("b", "m8n8k32", "u4"): lambda g, t, i: (8 * t + i, g),
    ("a", "m16n8k32", "u4"): lambda g, t, i: (g if i < 8 else g + 8, 8 * t + (i & 7)),
    ("a", "m16n8k64", "u4"): lambda g, t, i: (
        g if 0 <= i < 8 or 16 <= i < 24 else g + 8,
        8 * t + (i & 7) + (0 if i < 16 else 32),
    ),
    ("b", "m16n8k64", "s4"): lambda g, t, i: (8 * t + (i & 7) + (0 if i < 8 else 32), g),
    ("b", "m8n8k128", "b1"): lambda g, t, i: (32 * t + i, g),
    ("a", "m16n8k128", "b1"): lambda g, t, i: (g if i < 32 else g + 8, 32 * t + (i & 0x1F)),
    ("b", "m16n8k128", "b1"): lambda g, t, i: (32 * t + i, g),
    ("a", "m16n8k256", "b1"): lambda g, t, i: (
        g if 0 <= i < 32 or 64 <= i < 96 else g + 8,
        32 * t + (i & 0x1F) + (0 if i < 64 else 128),
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", MANUAL)
def test_mma_is_the_manuals(key: tuple[str, str, str]) -> None:
    layout, formula = mma_fragment(*key), MANUAL[key]
    assert layout.thread_count == 32
    for lane, i in itertools.product(range(32), range(layout.elements)):
        assert layout.place(i, lane)[:2] == formula(lane >> 2, lane % 4, i), (lane, i)


def test_m8n8k4_is_the_manuals() -> None:
    """Computations 1 to 4 are of the threads 0..3 and 16..19, 4..7 and 20..23, and so on."""
    for lane in range(32):
        upper = 4 if lane >= 16 else 0
        quarter = lane % 16 // 4
        a_row, a_col = (mma_fragment("a", "m8n8k4", "f16", major=major) for major in ("row", "col"))
        b_row, b_col = (mma_fragment("b", "m8n8k4", "f16", major=major) for major in ("row", "col"))
        for i in range(4):
            assert a_row.place(i, lane) == (lane % 4 + upper, i, quarter)
            assert a_col.place(i, lane) == (i % 4 + upper, lane % 4, quarter)
            assert b_row.place(i, lane) == (lane % 4, i + upper, quarter)
            assert b_col.place(i, lane) == (i, lane % 4 + upper, quarter)
        for i in range(8):
            assert mma_fragment("c", "m8n8k4", "f16").place(i, lane) == (lane % 4 + upper, i, quarter)
            row = (lane & 1) + (i & 2) + upper
            column = (i & 4) + (lane & 2) + (i & 1)
            assert mma_fragment("d", "m8n8k4", "f32").place(i, lane) == (row, column, quarter)


@pytest.mark.parametrize("n", [8, 24, 96, 256])
def test_d_of_wgmma_is_the_manuals(n: int) -> None:
    layout = wgmma_fragment("d", "f32", n)
    for thread, i in itertools.product(range(128), range(n // 2)):
        row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i >> 1 & 1)
        column = 8 * (i // 4) + 2 * (thread % 4) + (i & 1)
        assert layout.place(i, thread) == (row, column, 0)


def test_sparse_a_holds_chunks_of_the_dense_row() -> None:
    """The manual: register r of a thread holds kept elements of columns firstcol..lastcol."""

    def chunk(shape: str, dtype: str, i: int, lane: int, width: int) -> tuple[int, int]:
        place = mma_fragment("a", shape, dtype, sparse=True).place(i, lane)
        return place.row, 2 * place.column // width * width

    for lane in range(32):
        g, t = lane >> 2, lane % 4
        for i in range(4):
            assert chunk("m16n8k16", "f16", i, lane, 4) == (g if i < 2 else g + 8, 4 * t)
            assert chunk("m16n8k16", "tf32", i, lane, 2) == (
                g if i in (0, 2) else g + 8,
                2 * t if i < 2 else 2 * t + 8,
            )
        for i in range(8):
            row = g if i < 2 or 4 <= i < 6 else g + 8
            assert chunk("m16n8k32", "bf16", i, lane, 4) == (row, 4 * t if i < 4 else 4 * t + 16)
            assert chunk("m16n8k32", "s8", i, lane, 8) == (g if i < 4 else g + 8, 8 * t)
        for i in range(32):
            row = g if i < 8 or 16 <= i < 24 else g + 8
            assert chunk("m16n8k128", "u4", i, lane, 16) == (row, 16 * t if i < 16 else 16 * t + 64)


# --- the whole matrix, each other, the table --------------------------------------------------------


def every_fragment() -> list[tuple[str, str, str, bool, str | None]]:
    found: list[tuple[str, str, str, bool, str | None]] = []
    for sparse, shapes in ((False, DENSE_SHAPES), (True, SPARSE_SHAPES)):
        for dtype, taken in shapes.items():
            for shape, operand in itertools.product(taken, "ab"):
                majors = ("row", "col") if (shape, dtype) == ("m8n8k4", "f16") else (None,)
                found += [(operand, shape, dtype, sparse, major) for major in majors]
    for sparse, shape, dtype in (
        (False, "m8n8k4", "f16"), (False, "m8n8k4", "f32"), (False, "m8n8k4", "f64"), (False, "m8n8k16", "s32"),
        (False, "m16n8k8", "f16"), (False, "m16n8k8", "f32"), (True, "m16n8k64", "s32"), (False, "m16n8k4", "f64"),
    ):  # fmt: skip
        found += [(operand, shape, dtype, sparse, None) for operand in "cd"]
    return found


@pytest.mark.parametrize("key", every_fragment(), ids=str)
def test_a_fragment_holds_each_element_once(key: tuple[str, str, str, bool, str | None]) -> None:
    operand, shape, dtype, sparse, major = key
    layout = mma_fragment(operand, shape, dtype, sparse=sparse, major=major)
    row, column, matrix = layout.places()
    cells = set(zip(row.ravel().tolist(), column.ravel().tolist(), matrix.ravel().tolist(), strict=True))
    assert len(cells) == row.size
    assert cells == set(itertools.product(range(layout.rows), range(layout.columns), range(layout.matrices)))
    assert not row.flags.writeable
    assert layout.elements == layout.registers * layout.packed
    m, n, k = (int(part) for part in shape.replace("n", " ").replace("k", " ")[1:].split())
    kept = k // 2 if sparse else k
    assert (layout.rows, layout.columns) == {"a": (m, kept), "b": (k, n)}.get(operand, (m, n))


@pytest.mark.parametrize(
    ("shape", "dtype", "sum_type"),
    [(shape, dtype, "f64" if dtype == "f64" else "s32" if dtype[0] in "us" or dtype == "b1" else "f32")
     for dtype, shapes in DENSE_SHAPES.items() for shape in shapes if (shape, dtype) != ("m8n8k4", "f16")],
)  # fmt: skip
def test_products_of_registers_are_the_matrix_product(shape: str, dtype: str, sum_type: str) -> None:
    """Element i of A in lane 4*g+t always meets element i of B in lane 4*c+t, for each register of a row of
    A: the sums over t and i of the registers' products are D, whatever column each stands for."""
    a, b = mma_fragment("a", shape, dtype), mma_fragment("b", shape, dtype)
    d = mma_fragment("d", shape, sum_type)
    rng = np.random.default_rng(7)
    left, right = rng.integers(-9, 9, (a.rows, a.columns)), rng.integers(-9, 9, (b.rows, b.columns))
    row, column, _ = a.places()
    in_a = left[row, column]
    row, column, _ = b.places()
    in_b = right[row, column]
    halves = a.rows // 8
    per_register = in_a.reshape(-1, halves, a.packed, 8, 4)  # group of columns, half, element, g, t
    pairs = in_b.reshape(-1, b.packed, 8, 4)
    product = np.einsum("rheGt,reCt->hGC", per_register, pairs).reshape(a.rows, b.columns)
    assert (product == left @ right).all()
    row, column, _ = d.places()
    assert (product[row, column] == (left @ right)[row, column]).all()


def test_ldmatrix_loads_a_and_b_of_m16n8k16() -> None:
    """Matrices in the order rows 0-7, rows 8-15 of the first 8 columns, then of the next 8: A. Of B, which
    lies by columns in memory: a row is a column of B."""
    four = matrix_fragment("m8n8", 4)
    a = mma_fragment("a", "m16n8k16", "bf16")
    for lane, i in itertools.product(range(32), range(8)):
        row, column, matrix = four.place(i, lane)
        assert (row + 8 * (matrix % 2), column + 8 * (matrix // 2)) == a.place(i, lane)[:2]
    two, b = matrix_fragment("m8n8", 2), mma_fragment("b", "m16n8k16", "bf16")
    turned = matrix_fragment("m8n8", 2, trans=True)
    for lane, i in itertools.product(range(32), range(4)):
        row, column, matrix = two.place(i, lane)
        assert (column + 8 * matrix, row) == b.place(i, lane)[:2]
        # With .trans, a row in memory is a row of B.
        row, column, matrix = turned.place(i, lane)
        assert (row + 8 * matrix, column) == b.place(i, lane)[:2]


def test_bytes_from_memory_are_fragments_of_m16n8k32() -> None:
    """m8n16 twice is B, by columns of 16 bytes; m16n16 is the first half of A, by columns in memory."""
    two, b = matrix_fragment("m8n16", 2), mma_fragment("b", "m16n8k32", "e2m1")
    for lane, i in itertools.product(range(32), range(8)):
        row, column, matrix = two.place(i, lane)
        assert (column + 16 * matrix, row) == b.place(i, lane)[:2]
    pair, a = matrix_fragment("m16n16", 2, trans=True), mma_fragment("a", "m16n8k32", "e4m3")
    for lane, i in itertools.product(range(32), range(16)):
        row, column, matrix = pair.place(i, lane)
        assert (column, row + 16 * matrix) == a.place(i, lane)[:2]


def test_stmatrix_of_bytes_stores_d_by_columns() -> None:
    stored, d = matrix_fragment("m16n8", 1, trans=True), mma_fragment("d", "m16n8k32", "f32")
    for lane, i in itertools.product(range(32), range(4)):
        row, column, _ = stored.place(i, lane)
        assert (column, row) == d.place(i, lane)[:2]


# copy_traits_sm75.hpp, _sm90.hpp, _sm100.hpp: bits of the source, a row of 128 bits after the other. For
# m16n16 the threads' rows are permuted there and the bytes of the two registers exchanged after the load.
MATRICES = {
    ("m8n8", 1, False): "32:32|32:1",
    ("m8n8", 4, False): "32:32|32 4:1 1024",
    ("m8n8", 1, True): "4 8:256 16|16 2:1 128",
    ("m8n8", 2, True): "4 8:256 16|16 2 2:1 128 1024",
    ("m8n16", 2, False): "32:32|32 2:1 1024",
    ("m16n8", 1, True): "4 8:256 8|8 2 2:1 128 64",
    ("m16n8", 4, True): "4 8:256 8|8 2 2 4:1 128 64 1024",
}


@pytest.mark.parametrize("key", MATRICES)
def test_matrices_are_cutlasss(key: tuple[str, int, bool]) -> None:
    shape, num, trans = key
    layout = matrix_fragment(shape, num, trans=trans)
    threads, values = cute(MATRICES[key])
    for lane, i in itertools.product(range(32), range(layout.elements)):
        row, column, matrix = layout.place(i, lane)
        bit = threads(lane) + values(i * layout.bits)
        assert bit == (matrix * layout.rows + row) * 128 + column * layout.bits


def test_m16n16_is_cutlasss() -> None:
    layout = matrix_fragment("m16n16", 1, trans=True)
    threads, values = cute("4 8:256 8|8 2 2 2:1 128 64 1024")
    rows, _ = cute("2 2 4:128 1024 256|1:0")
    for lane, register, byte in itertools.product(range(32), range(2), range(4)):
        # CUTLASS's value (register R, byte B) is byte B%2 + 2*R of register B//2 as the instruction left it.
        raw_register, raw_byte = byte // 2, byte % 2 + 2 * register
        row, column, _ = layout.place(4 * raw_register + raw_byte, lane)
        assert threads(lane) + values(8 * (4 * register + byte)) == rows(row) + 8 * column


def test_movmatrix_is_a_transposed_load() -> None:
    plain, turned = matrix_fragment("m8n8"), matrix_fragment("m8n8", trans=True)
    for lane, i in itertools.product(range(32), range(2)):
        assert plain.place(i, lane)[:2] == turned.place(i, lane)[1::-1]


# --- sparse metadata and scales -----------------------------------------------------------------------
#
# mma_traits_sm90_gmma_sparse.hpp and mma_traits_sm120_sparse.hpp: thread and dense element -> number of the
# element down the columns. Four bits of a word stand for a chunk of dense elements.


@pytest.mark.parametrize(
    ("found", "text", "chunk"),
    [
        (wgmma_metadata("f16"), "2 2 8 4:1024 0 1 16|16 2:64 8", 4),
        (wgmma_metadata("bf16"), "2 2 8 4:1024 0 1 16|16 2:64 8", 4),
        (wgmma_metadata("tf32"), "2 2 8 4:512 0 1 16|8 2:64 8", 2),
        (wgmma_metadata("e4m3"), "2 2 8 4:8 2048 1 16|32:64", 4),
        (wgmma_metadata("s8"), "2 2 8 4:8 2048 1 16|32:64", 4),
        (mma_metadata("m16n8k64", "e5m2"), "2 2 8:8 512 1|32:16", 4),
        (mma_metadata("m16n8k64", "e2m1"), "2 2 8:8 512 1|32:16", 4),
        (mma_metadata("m16n8k128", "e2m1"), "2 2 8:8 1024 1|64:16", 8),
    ],
)
def test_metadata_is_cutlasss(found: SelectedLayout, text: str, chunk: int) -> None:
    layout = found.layout
    threads, values = cute(text)
    assert layout.bits == 4 and layout.elements == 8
    for thread, index in itertools.product(range(layout.thread_count), range(8)):
        row, column, _ = layout.place(index, thread)
        for element in range(chunk):
            dense = threads(thread) + values(index * chunk + element)
            assert dense == row + layout.rows * (column * chunk + element)


@pytest.mark.parametrize(
    ("shape", "dtype"), [(shape, dtype) for dtype, shapes in SPARSE_SHAPES.items() for shape in shapes]
)
def test_the_threads_that_a_selector_names_supply_all_metadata(shape: str, dtype: str) -> None:
    found = mma_metadata(shape, dtype)
    row, column, _ = found.layout.places()
    taken: list[int] = []
    for selector in range(4 // found.suppliers):
        lanes = list(found.lanes(selector))
        cells = set(zip(row[:, lanes].ravel().tolist(), column[:, lanes].ravel().tolist(), strict=True))
        assert len(cells) == row[:, lanes].size
        assert cells == set(itertools.product(range(16), range(found.layout.columns)))
        taken += lanes
    assert sorted(taken) == list(range(32))
    with pytest.raises(SpecError, match=f"selector {4 // found.suppliers} selects no thread"):
        found.lanes(4 // found.suppliers)


def test_selectors_are_the_tables() -> None:
    """The instruction table knows how many selectors each form of mma.sp has."""
    limits = {
        ("m16n8k16", "f16"): 4, ("m16n8k32", "f16"): 2, ("m16n8k8", "tf32"): 4, ("m16n8k16", "tf32"): 2,
        ("m16n8k16", "bf16"): 4, ("m16n8k32", "bf16"): 2, ("m16n8k64", "e4m3"): 1, ("m16n8k32", "s8"): 2,
        ("m16n8k64", "u8"): 1, ("m16n8k64", "s4"): 2, ("m16n8k128", "u4"): 1, ("m16n8k128", "e2m1"): 1,
    }  # fmt: skip
    for (shape, dtype), selectors in limits.items():
        assert 4 // mma_metadata(shape, dtype).suppliers == selectors


@pytest.mark.parametrize("count", [1, 2, 4])
def test_scales_are_cutlasss(count: int) -> None:
    """mma_traits_sm120.hpp, where 64 dense elements share the scales of a row; and what a kernel measured on
    sm_120 says of the selectors: row m in lane 4*(m%8) + 2*tid + m//8, column n in lane 4*n + tid."""
    a, b = block_scales("a", count), block_scales("b", count)
    in_a, values_a = cute("2 2 8:8 0 1|64:16")
    in_b, values_b = cute("4 8:0 1|64:8")
    each = 64 // count
    for lane, scale, dense in itertools.product(range(32), range(count), range(each)):
        row, column, _ = a.layout.place(scale, lane)
        assert in_a(lane) + values_a(scale * each + dense) == row + 16 * (column * each + dense)
        row, column, _ = b.layout.place(scale, lane)
        assert in_b(lane) + values_b(scale * each + dense) == column + 8 * (row * each + dense)
    for thread in range(2):
        rows = {a.layout.place(0, lane).row: lane for lane in a.lanes(thread)}
        assert rows == {m: 4 * (m % 8) + 2 * thread + m // 8 for m in range(16)}
    for thread in range(4):
        columns = {b.layout.place(0, lane).column: lane for lane in b.lanes(thread)}
        assert columns == {n: 4 * n + thread for n in range(8)}


# --- formulas and refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [wgmma_fragment("d", "f32", 64), wgmma_fragment("a", "e4m3"), mma_fragment("a", "m16n8k64", "s4"),
     mma_fragment("b", "m16n8k16", "f16"), mma_fragment("d", "m8n8k4", "f32"), matrix_fragment("m16n16", 2, trans=True)],
)  # fmt: skip
def test_coordinates_are_functions_of_the_thread(layout: FragmentLayout) -> None:
    for element in range(0, layout.elements, 3):
        for axis in ("row", "column", "matrix"):
            coordinate = layout.coordinate(axis)  # type: ignore[arg-type]
            own = layout.coordinate(axis, element)  # type: ignore[arg-type]
            assert own.terms == coordinate.terms
            for thread in range(layout.thread_count):
                number = getattr(layout.place(element, thread), axis)
                assert own(thread) == number
                assert eval(str(own), {"thread": thread}) == number


def test_a_coordinate_reads_as_a_formula() -> None:
    layout = wgmma_fragment("d", "f32", 16)
    assert str(layout.coordinate("row", 2)) == "8 + (thread >> 2) % 8 + 16 * ((thread >> 5) % 4)"
    assert str(layout.coordinate("column", 5)) == "9 + 2 * (thread % 4)"
    assert str(layout.coordinate("matrix")) == "0"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mma_fragment("e", "m16n8k16", "f16"), "operand 'e' .*'a', 'b', 'c' or 'd'"),
        (lambda: mma_fragment("a", "m16n8k16", "f32"), "no operand of type 'f32': expected f16"),
        (lambda: mma_fragment("a", "m16n8k64", "f16"), "'m16n8k64' for f16: expected m8n8k4, m16n8k8"),
        (lambda: mma_fragment("a", "m16n8k8", "f16", sparse=True), "mma.sp has no shape 'm16n8k8' for f16"),
        (lambda: mma_fragment("a", "m16n8k16", "f64", sparse=True), "mma.sp has no operand of type 'f64'"),
        (lambda: mma_fragment("a", "m16n8k16", "f16", major="col"), "cannot be 'col'-major: expected 'row'"),
        (lambda: mma_fragment("b", "m8n8k4", "f16", major="k"), "cannot be 'k'-major"),
        (lambda: mma_fragment("d", "m16n8k16", "f32", major="row"), "cannot be 'row'-major"),
        (lambda: mma_fragment("d", "m16n16k16", "f32"), "no shape 'm16n16k16'"),
        (lambda: mma_fragment("d", "m16n8k64", "f64"), "D of m16n8k64 cannot be 'f64': expected f16, f32, s32"),
        (lambda: mma_fragment("c", "m8n8k4", "s32"), "C of m8n8k4 cannot be 's32': expected f16, f32, f64"),
        (lambda: wgmma_fragment("b", "f16"), "operand 'b' .*'a' or 'd'"),
        (lambda: wgmma_fragment("a", "f16", 8), "n = 8 of operand 'a'"),
        (lambda: wgmma_fragment("d", "f32"), "n = None of operand 'd'"),
        (lambda: wgmma_fragment("a", "f32"), "A of wgmma cannot be 'f32': expected f16"),
        (lambda: wgmma_fragment("d", "bf16", 8), "D of wgmma cannot be 'bf16': expected f16, f32 or s32"),
        (lambda: wgmma_fragment("d", "f32", 12), "N = 12 of wgmma with f32: expected a multiple of 8"),
        (lambda: wgmma_fragment("d", "s32", 40), "N = 40 of wgmma with s32: expected 8, 16, 24 or"),
        (lambda: wgmma_fragment("d", "f32", 264), "N = 264"),
        (lambda: wgmma_metadata("b1"), "no A of type 'b1': expected f16"),
        (lambda: block_scales("a", 3), "operand 'a' with 3 scales: expected .* 1, 2 or 4"),
        (lambda: block_scales("d", 1), "operand 'd' with 1 scales"),
        (lambda: matrix_fragment("m8n4"), "no shape 'm8n4' without .trans"),
        (lambda: matrix_fragment("m16n16"), "no shape 'm16n16' without .trans; expected m8n8, m8n8.trans"),
        (lambda: matrix_fragment("m8n8", 3), ".x3 of m8n8: expected 1 or 2, or 4"),
        (lambda: matrix_fragment("m16n16", 4, trans=True), ".x4 of m16n16: expected 1 or 2 matrices"),
        (lambda: mma_fragment("a", "m16n8k8", "f16").place(4), "no element 4: expected 0..3"),
        (lambda: mma_fragment("a", "m16n8k8", "f16").place(0, 32), "no thread 32: expected 0..31"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        call()
