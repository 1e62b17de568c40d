"""tcgen05.mma.ws and .sp: D in layouts D, E and G, masks of B's columns, metadata of a sparse A in tensor memory.

The places of metadata are written again here, one index at a time, from CUTLASS's tmem_e_frg and tmem_e_frg_ws
(and, for 64 rows without .ws, from the manual's rule that A, D and metadata use the same half of the lanes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.tcgen05.stage import Cells, cells_of, perform, report_of
from tests.sim.tcgen05.test_kinds import (
    SFA,
    SFB,
    contained,
    f32,
    idesc,
    lanes,
    numbers,
    scale_cells,
    shared,
)
from tests.sim.tcgen05.test_mma import A_AT, B_AT, SCHEDULES, operand

pytestmark = pytest.mark.one_in(2)

Array = NDArray[Any]

# --- weight stationary ------------------------------------------------------------------------------

WS = "tcgen05.mma.ws.cta_group::1.kind::{kind} [d], {a}, b, v, {flag}"


def spread(product: Array, m: int) -> Array:
    """Layouts D, E and G: D's columns in 1, 2 or 4 parts, one below the other."""
    n = product.shape[1]
    parts = 128 // m
    out = np.empty((128, n // parts))
    for row in range(m):
        for column in range(n):
            out[row + m * (column // (n // parts)), column % (n // parts)] = product[row, column]
    return out


@pytest.mark.one_in(4)
@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize("flag", ["never", "always"])
def test_layouts_of_d(m: int, n: int, flag: str) -> None:
    generator = np.random.default_rng(m + n)
    left, right = generator.integers(-8, 9, (m, 16)), generator.integers(-8, 9, (n, 16))
    A, B = operand(left, "bf16", A_AT, "128B", "K", 0), operand(right, "f16", B_AT, "32B", "MN", 0)
    word = 1 << 4 | 1 << 7 | 1 << 16 | n >> 3 << 17 | m >> 4 << 24
    before = generator.integers(-9, 10, (m, n))
    cells = cells_of()
    width = n * m // 128
    cells[:, :width] = f32(spread(before, m))
    code = WS.format(kind="f16", a="a", flag=flag)
    schedule, seed = SCHEDULES[(m + n) // 32 % len(SCHEDULES)]
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": word}, schedule=schedule, seed=seed)
    cells[:, :width] = f32(spread(left @ right.T + (before if flag == "always" else 0), m))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("collector", [f".collector::b{i}::{use}" for i, use in enumerate(("fill", "use", "lastuse", "discard"))])  # fmt: skip
def test_collectors_change_nothing(collector: str) -> None:
    left, right = np.arange(512).reshape(32, 16) % 7, np.arange(1024).reshape(64, 16) % 5
    A, B = operand(left, "f16", A_AT, "128B", "K", 0), operand(right, "f16", B_AT, "128B", "K", 0)
    code = WS.format(kind="f16", a="a", flag="never").replace("kind::f16", "kind::f16" + collector)
    cells = cells_of()
    out = perform(code, [A, B], cells, {"a": A.word, "b": B.word, "v": idesc(1, "f16", "f16", 32, 64)})
    cells[:, :16] = f32(spread(left @ right.T, 32))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("kind", ["f16", "i8", "f8f6f4"])
def test_each_part_of_d_has_its_own_a_in_tensor_memory(m: int, kind: str) -> None:
    """What lies in a part's lanes is the A of its columns; equal everywhere, the product is the usual one."""
    generator = np.random.default_rng(m)
    element = {"f16": "f16", "i8": "s8", "f8f6f4": "e3m2"}[kind]
    k, n = (16 if kind == "f16" else 32), 64
    left, right = numbers(generator, (128, k), element), numbers(generator, (n, k), element)
    cells = cells_of()
    if kind == "f16":
        cells[:, 200:208] = np.ascontiguousarray(left.astype(np.float16)).view("<u4")
        B = operand(right, "f16", B_AT, "128B", "K", 0)
    else:
        cells[:, 200:208] = contained(left, element)
        B = shared(right, element, B_AT)
    word = idesc(2 if kind == "i8" else 1, element, element, m, n)
    code = "add.u32 n, tm, 200\n" + WS.format(kind=kind, a="[n]", flag="never")
    out = perform(code, [B], cells, {"b": B.word, "v": word})
    width = n * m // 128
    expected = np.empty((128, width))
    for part in range(128 // m):
        rows = slice(m * part, m * part + m)
        expected[rows] = left[rows] @ right[width * part : width * part + width].T
    cells[:, :width] = expected.astype(np.int32).view(np.uint32) if kind == "i8" else f32(expected)
    assert np.array_equal(out, cells)


def column_mask(used: int, skipped: int, starts: list[int], skip_first: list[bool], shift: int) -> int:
    return (
        sum(start << 8 * i for i, start in enumerate(starts))
        | sum(flag << 32 + i for i, flag in enumerate(skip_first))
        | 1 << 39 | skipped - 1 << 40 | used - 1 << 48 | shift << 56
    )  # fmt: skip


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("shift", [0, 2, 8])
def test_zero_columns(m: int, shift: int) -> None:
    """Runs of 4 used and 3 zero columns; each part begins elsewhere; B's columns count from the shift on."""
    generator = np.random.default_rng(m + shift)
    n = 64
    left, right = generator.integers(-8, 9, (m, 16)), generator.integers(1, 9, (n + 16, 16))
    A, B = operand(left, "f16", A_AT, "128B", "K", 0), operand(right, "f16", B_AT, "128B", "K", 0)
    starts, skips = [0, 1, 2, 3], [False, True, False, True]
    effective = right[shift : shift + n].copy()
    width = n * m // 128
    for column in range(n):
        part, place = divmod(column, width)
        run = (place + starts[part]) % 7
        if run < 3 if skips[part] else run >= 4:
            effective[column] = 0
    cells = cells_of()
    word = idesc(1, "f16", "f16", m, n, more=1 << 30)  # shifts of up to 8
    words = {"a": A.word, "b": B.word, "v": word, "e": column_mask(4, 3, starts, skips, shift)}
    out = perform(WS.format(kind="f16", a="a", flag="never") + ", e", [A, B], cells, words)
    cells[:, :width] = f32(spread(left @ effective.T, m))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize(
    ("word", "mask", "rule"),
    [
        (idesc(1, "f16", "f16", 64, 64), column_mask(4, 3, [0] * 4, [False] * 4, 1), "bad-descriptor"),
        (idesc(1, "f16", "f16", 64, 64, more=3 << 30), 40 << 56, "bad-descriptor"),
        (idesc(1, "f16", "f16", 64, 64), 1 << 36, "bad-descriptor"),
        (idesc(1, "f16", "f16", 64, 32), 0, "bad-descriptor"),
        (idesc(1, "f16", "f16", 16, 64), 0, "bad-descriptor"),
    ],
)
def test_what_ws_refuses(word: int, mask: int, rule: str) -> None:
    A, B = (operand(np.zeros((64, 16)), "f16", at, "128B", "K", 0) for at in (A_AT, B_AT))
    code = WS.format(kind="f16", a="a", flag="never") + ", e"
    report = report_of(code, [A, B], cells_of(), {"a": A.word, "b": B.word, "v": word, "e": mask})
    assert [f.rule.name for f in report.findings] == [rule], report


def test_ws_accumulators_start_at_lane_0() -> None:
    A, B = (operand(np.zeros((64, 16)), "f16", at, "128B", "K", 0) for at in (A_AT, B_AT))
    code = "add.u32 d, d, 0x100000\n" + WS.format(kind="f16", a="a", flag="never")
    report = report_of(code, [A, B], cells_of(), {"a": A.word, "b": B.word, "v": idesc(1, "f16", "f16", 64, 64)})  # fmt: skip
    assert [f.rule.name for f in report.findings] == ["tensor-memory"], report


# --- sparse A ---------------------------------------------------------------------------------------

META = 192
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def sparse_row(values: Array, chunks: Array, kind: str) -> tuple[Array, list[int]]:
    """A row with its zeros, and the 4-bit index of each chunk."""
    dense: list[float] = []
    indices = []
    stored_values = iter(values)
    for chunk in chunks:
        first, second = PAIRS[chunk]
        if kind == "tf32":
            keep = chunk % 2
            dense += [0, next(stored_values)] if keep else [next(stored_values), 0]
            indices.append(0b1110 if keep else 0b0100)
            continue
        width = 2 if kind.startswith("mxf4") else 1
        block = [0.0] * 4 * width
        for place in (first, second):
            for i in range(width):
                block[place * width + i] = next(stored_values)
        dense += block
        indices.append(first | second << 2)
    return np.array(dense), indices


def put_index(cells: Cells, place: int, number: int, index: int, wide: bool, column: int) -> None:
    """Index ``number`` of the row that lies at lane ``place`` of a dense matrix."""
    if wide:
        lane = place - place % 16 + place % 8 + 8 * (number // 4)
        bit = 16 * (place % 16 // 8) + 4 * (number % 4)
    else:
        lane, bit, column = place, 4 * (number % 8), column + number // 8
    cells[lane, column] = cells[lane, column] & ~np.uint32(15 << bit) | np.uint32(index << bit)


def sparse_a(kind: str, element: str, rows: list[int], generator: np.random.Generator, cells: Cells, column: int) -> tuple[Array, Array]:  # fmt: skip
    """A as stored and with its zeros, its metadata placed; ``rows`` are lanes of a dense matrix."""
    wide = kind in ("f16", "tf32")
    count = 8 if wide else 16
    k = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(kind, 32)
    values = numbers(generator, (len(rows), k), element)
    values[values == 0] = 1
    dense = []
    for line, place in zip(values, rows, strict=True):
        expanded, indices = sparse_row(line, generator.integers(0, 6, count), kind)
        dense.append(expanded)
        for number, index in enumerate(indices):
            put_index(cells, place, number, index, wide, column)
    return values, np.array(dense)


#: kind, element, D's code.
KINDS = [("f16", "f16", 1), ("tf32", "tf32", 1), ("f8f6f4", "e5m2", 1), ("f8f6f4", "e2m3", 1), ("f8f6f4", "e2m1", 1), ("i8", "s8", 2)]  # fmt: skip


def in_shared(values: Array, element: str, address: int, swizzle: str) -> Any:
    if element in ("f16", "tf32"):
        return operand(values, element, address, swizzle, "K", 0)
    return shared(values, element, address, swizzle)


def in_cells(values: Array, element: str) -> Cells:
    if element in ("f16", "tf32"):
        return np.ascontiguousarray(values.astype({"f16": np.float16, "tf32": np.float32}[element])).view(
            "<u4"
        )
    return contained(values, element)


def result(product: Array, d: int) -> Cells:
    return product.astype(np.int64).astype(np.uint32) if d == 2 else f32(product)


@pytest.mark.parametrize(
    ("kind", "element", "d", "selector"),
    [
        (*case, selector)
        for case in KINDS
        for selector in (0, 1)
        if not selector or case[0] in ("f16", "tf32")
    ],
)
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_a(kind: str, element: str, d: int, selector: int, m: int, inside: bool) -> None:
    """The selector counts columns of metadata, for elements of 16 and 32 bits."""
    generator = np.random.default_rng(m + 7 * inside)
    cells = cells_of()
    at = lanes(m)
    left, dense = sparse_a(kind, element, at.tolist(), generator, cells, META + selector)
    right = numbers(generator, (64, dense.shape[1]), element)
    B = in_shared(right, element, B_AT, "128B")
    operands, words = [B], {"b": B.word}
    if inside:
        cells[at, 200:208] = in_cells(left, element)
    else:
        A = in_shared(left, element, A_AT, "64B")
        operands.append(A)
        words["a"] = A.word
    code = f"add.u32 n, tm, 200\nadd.u32 m, tm, {META}\n"
    code += f"tcgen05.mma.sp.cta_group::1.kind::{kind} [d], {'[n]' if inside else 'a'}, b, [m], v, never"
    schedule, seed = SCHEDULES[m // 64 + 2 * inside]
    words["v"] = idesc(d, element, element, m, 64, more=1 << 2 | selector)
    out = perform(code, operands, cells, words, schedule=schedule, seed=seed)
    cells[at, :64] = result(dense @ right.T, d)
    assert np.array_equal(out, cells)


def test_sparse_metadata_in_the_second_half_of_the_lanes() -> None:
    """64 rows at lane 16: A, D and metadata alike."""
    generator = np.random.default_rng(3)
    cells = cells_of()
    at = lanes(64) + 16
    left, dense = sparse_a("f16", "f16", at.tolist(), generator, cells, META)
    right = numbers(generator, (64, 32), "f16")
    A, B = in_shared(left, "f16", A_AT, "128B"), in_shared(right, "f16", B_AT, "128B")
    words = {"a": A.word, "b": B.word, "v": idesc(1, "f16", "f16", 64, 64, more=1 << 2)}
    code = f"add.u32 d, tm, {16 << 16}\nadd.u32 m, tm, {META + (16 << 16)}\n"
    code += "tcgen05.mma.sp.cta_group::1.kind::f16 [d], a, b, [m], v, never"
    out = perform(code, [A, B], cells, words)
    other = report_of(code.replace(f"{META + (16 << 16)}", f"{META}"), [A, B], cells, words)
    assert [f.rule.name for f in other.findings] == ["tensor-memory"], other
    cells[at, :64] = f32(dense @ right.T)
    assert np.array_equal(out, cells)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "element", "d"), KINDS)
@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_ws(kind: str, element: str, d: int, m: int, inside: bool) -> None:
    """Each part of D has its own copy of the metadata: here each says something else."""
    generator = np.random.default_rng(m + inside)
    cells = cells_of()
    n, width = 128, m
    left, dense = sparse_a(kind, element, list(range(128)), generator, cells, META)
    if not inside:
        # One A; the metadata of each part puts its elements elsewhere.
        for row in range(m, 128):
            left[row] = left[row % m]
            chosen = generator.integers(0, 6, 8 if kind in ("f16", "tf32") else 16)
            dense[row], indices = sparse_row(left[row], chosen, kind)
            for number, index in enumerate(indices):
                put_index(cells, row, number, index, kind in ("f16", "tf32"), META)
    right = numbers(generator, (n, dense.shape[1]), element)
    B = in_shared(right, element, B_AT, "128B")
    operands, words = [B], {"b": B.word, "v": idesc(d, element, element, m, n, more=1 << 2)}
    if inside:
        cells[:, 200:208] = in_cells(left, element)
    else:
        A = in_shared(left[:m], element, A_AT, "32B")
        operands.append(A)
        words["a"] = A.word
    code = f"add.u32 n, tm, 200\nadd.u32 m, tm, {META}\n"
    code += f"tcgen05.mma.ws.sp.cta_group::1.kind::{kind} [d], {'[n]' if inside else 'a'}, b, [m], v, never"
    out = perform(code, operands, cells, words)
    expected = np.empty((128, width))
    for part in range(128 // m):
        rows = slice(m * part, m * part + m)
        expected[rows] = dense[rows] @ right[width * part : width * part + width].T
    cells[:, :width] = result(expected, d)
    assert np.array_equal(out, cells)


@pytest.mark.parametrize(
    ("kind", "size", "count"), [("mxf8f6f4", "", 1), ("mxf4", "", 2), ("mxf4nvf4", ".scale_vec::4X", 4)]
)
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_with_block_scales(kind: str, size: str, count: int, inside: bool) -> None:
    """A row has as many scales as when it is dense, each for twice as many elements of K."""
    generator = np.random.default_rng(count)
    nibbles = kind != "mxf8f6f4"
    element = "e2m1" if nibbles else "e4m3"
    cells = cells_of()
    left, dense = sparse_a(kind, element, list(range(128)), generator, cells, META)
    k = dense.shape[1]
    right = numbers(generator, (64, k), element)
    raw = [generator.integers(125, 130, (rows, count)).astype(np.uint8) for rows in (128, 64)]
    scale_cells(cells, SFA, raw[0], 0)
    scale_cells(cells, SFB, raw[1], 0)
    B = shared(right, element, B_AT, nibbles=nibbles)
    operands, words = [B], {"b": B.word}
    if inside:
        cells[:, 200:208] = contained(left, element, nibbles)
    else:
        A = shared(left, element, A_AT, nibbles=nibbles)
        operands.append(A)
        words["a"] = A.word
    types = 1 << 7 | 1 << 10 if nibbles else 0
    words["v"] = 1 << 2 | types | 64 >> 3 << 17 | 1 << 23 | 1 << 27
    code = f"add.u32 tc, tm, 200\nadd.u32 r0, tm, {META}\nadd.u32 n, tm, {SFA}\nadd.u32 m, tm, {SFB}\n"
    code += f"tcgen05.mma.sp.cta_group::1.kind::{kind}.block_scale{size} [d], {'[tc]' if inside else 'a'}, b, [r0], v, [n], [m], never"  # fmt: skip
    out = perform(code, operands, cells, words)
    x, y = (2.0 ** (r.astype(int) - 127).repeat(k // count, 1) for r in raw)
    cells[:, :64] = f32((dense * x) @ (right * y).T)
    assert np.array_equal(out, cells)


def test_the_descriptor_must_say_sparse_too() -> None:
    A, B = (operand(np.zeros((128, 16)), "f16", at, "128B", "K", 0) for at in (A_AT, B_AT))
    code = "tcgen05.mma.sp.cta_group::1.kind::f16 [d], a, b, [tm], v, never"
    report = report_of(code, [A, B], cells_of(), {"a": A.word, "b": B.word, "v": idesc(1, "f16", "f16", 128, 64)})  # fmt: skip
    assert [f.rule.name for f in report.findings] == ["bad-descriptor"], report
