"""tcgen05.mma of a pair of CTAs: each brings half of A's rows and half of B's columns, and keeps half of D's rows.

Where D lies is written again here from the manual's table of data paths, CUTLASS's mma_traits_sm100_frag.hpp
and, for layout C, Apache TVM's tmem_datapath_layout.  Values are chosen so that sums are exact.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.tcgen05.stage import COLUMNS, Cells, cells_of, perform_pair, played_pair
from tests.sim.tcgen05.test_kinds import (
    CODES,
    EXACT,
    FLOATS,
    SFA,
    SFB,
    Chunks,
    contained,
    f32,
    idesc,
    numbers,
    scale_cells,
    shared,
    stored,
)
from tests.sim.tcgen05.test_mma import A_AT, B_AT, BASE, SCHEDULES, Operand, operand
from tests.sim.tcgen05.test_sparse import META, in_cells, in_shared, result, sparse_a

pytestmark = pytest.mark.one_in(2)

Array = NDArray[Any]
Both = tuple[list[Operand], list[Operand]]

MMA = "tcgen05.mma.cta_group::2.kind::{kind} [d], {a}, b, v, {flag}"
#: Column of A in tensor memory.
A_COLUMN = 200


def places(m: int, n: int, sparse: bool = False) -> tuple[Array, Array, Array]:
    """CTA, lane and column of each element of D: layouts A, B and C."""
    rows, columns = np.mgrid[:m, :n]
    cta, row = np.divmod(rows, m // 2)
    if m == 256:
        return cta, row, columns
    if sparse:
        return cta, row % 16 + 32 * (row // 16), columns
    return cta, row + 64 * (columns >= n // 2), columns % (n // 2)


def put(cells: Cells, product: Cells, sparse: bool = False) -> None:
    """Write D of the whole pair to ``cells[2, lane, column]``."""
    m, n = product.shape
    cells[places(m, n, sparse)] = product


def rows_of_a(m: int, sparse: bool = False) -> Array:
    """Lane of each of a CTA's rows of A in tensor memory; a dense M = 128 has them twice."""
    if m == 256:
        return np.arange(128)
    return np.arange(64) % 16 + 32 * (np.arange(64) // 16) if sparse else np.arange(64)


def hold(cells: Cells, raw: Cells, m: int, sparse: bool = False) -> None:
    """A of the whole pair in tensor memory."""
    for cta, half in enumerate(np.split(raw, 2)):
        at = rows_of_a(m, sparse)
        cells[cta, at, A_COLUMN : A_COLUMN + 8] = half
        if m == 128 and not sparse:
            cells[cta, at + 64, A_COLUMN : A_COLUMN + 8] = half


def both_cells(seed: int = 0) -> Cells:
    return np.stack([cells_of(seed), cells_of(seed + 1)])


def placed(
    left: Array | None, right: Array, element: str, swizzle: str = "128B"
) -> tuple[Both, dict[str, int]]:
    """Operands of both CTAs, and their descriptors, which are the same in both."""
    both: Both = ([], [])
    words = {}
    for name, values, at in (("a", left, A_AT), ("b", right, B_AT)):
        if values is not None:
            for mine, half in zip(both, np.split(values, 2), strict=True):
                mine.append(in_shared(half, element, at, swizzle))
                words[name] = mine[-1].word
    return both, words


#: kind, element, K, D's code.
KINDS = [
    ("f16", "f16", 16, 1),
    ("tf32", "tf32", 8, 1),
    ("f8f6f4", "e4m3", 32, 1),
    ("f8f6f4", "e2m1", 32, 1),
    ("i8", "s8", 32, 2),
]


@pytest.mark.parametrize(("kind", "element", "k", "d"), KINDS)
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("inside", [False, True])
def test_every_kind(kind: str, element: str, k: int, d: int, m: int, inside: bool) -> None:
    """A in shared memory or in tensor memory; issued by a thread of either CTA."""
    number = (m // 128 + inside + len(element)) % 3
    schedule, seed = SCHEDULES[number]
    generator = np.random.default_rng(m + number)
    n = (32, 96, 160)[number]
    left, right = numbers(generator, (m, k), element), numbers(generator, (n, k), element)
    both, words = placed(None if inside else left, right, element, ("32B", "64B", "128B")[number])
    words["v"] = idesc(d, element, element, m, n)
    cells = both_cells()
    if inside:
        hold(cells, in_cells(left, element), m)
    before = generator.integers(-64, 65, (m, n)).astype(np.float64)
    put(cells, result(before, d))
    code = f"add.u32 n, tm, {A_COLUMN}\n" + MMA.format(kind=kind, a="[n]" if inside else "a", flag="always")
    out = perform_pair(code, both, cells, words, issuer=int(inside), schedule=schedule, seed=seed)
    put(cells, result(left @ right.T + before, d))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("majors", ["KM", "MK", "MM"])
@pytest.mark.parametrize(("m", "swizzle"), [(128, "128B"), (256, "none")])
def test_transposed_and_negated_operands(majors: str, m: int, swizzle: str) -> None:
    generator = np.random.default_rng(m)
    left, right = generator.integers(-8, 9, (m, 16)), generator.integers(-8, 9, (128, 16))
    both: Both = ([], [])
    words = {}
    for name, values, at, major in (("a", left, A_AT, majors[0]), ("b", right, B_AT, majors[1])):
        for mine, half in zip(both, np.split(values, 2), strict=True):
            mine.append(operand(half, "bf16", at, swizzle, {"K": "K", "M": "MN"}[major], 0))
            words[name] = mine[-1].word
    words["v"] = idesc(1, "bf16", "bf16", m, 128, majors=majors, more=1 << 13)
    cells = both_cells()
    out = perform_pair(MMA.format(kind="f16", a="a", flag="never"), both, cells, words)
    put(cells, f32(-(left @ right.T)))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("n", [16, 256])
def test_smallest_and_largest_n(m: int, n: int) -> None:
    generator = np.random.default_rng(n)
    left, right = generator.integers(-8, 9, (m, 16)), generator.integers(-8, 9, (n, 16))
    both, words = placed(left, right, "f16")
    words["v"] = idesc(1, "f16", "f16", m, n)
    cells = both_cells()
    out = perform_pair(MMA.format(kind="f16", a="a", flag="never"), both, cells, words, schedule="late")
    put(cells, f32(left @ right.T))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("m", [128, 256])
def test_a_scaled_d_of_16_bits_with_disabled_lanes(m: int) -> None:
    """Eight words of lanes: four for the even CTA, four for the odd one."""
    generator = np.random.default_rng(m)
    n = 32
    left, right = generator.choice(EXACT, (m, 16)), generator.choice(EXACT, (n, 16))
    both, words = placed(left, right, "f16")
    words["v"] = idesc(0, "f16", "f16", m, n)
    masks = [int(w) for w in generator.integers(0, 1 << 32, 8)]
    before = generator.integers(-64, 65, (m, n)) / 4
    cells = both_cells()
    put(cells, before.astype(np.float16).view(np.uint16) | np.uint32(0xBEEF0000))
    old = cells.copy()
    code = "".join(f"mov.b32 x{i}, {word}\n" for i, word in enumerate(masks))
    code += MMA.format(kind="f16", a="a", flag="{x0..x7}, always, 2")
    out = perform_pair(code, both, cells, words, issuer=1)
    total = (left @ right.T + before / 4).astype(np.float16).view(np.uint16).astype(np.uint32)
    put(cells, total)
    for cta in range(2):
        for lane in range(128):
            if masks[4 * cta + lane // 32] >> lane % 32 & 1:
                cells[cta, lane] = old[cta, lane]
    assert np.array_equal(out, cells)


# --- sparse A -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "element", "k", "d"), KINDS)
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("inside", [False, True])
def test_sparse(kind: str, element: str, k: int, d: int, m: int, inside: bool) -> None:
    """Each CTA has the metadata of its rows; with M = 128 it lies in the lanes that D has."""
    generator = np.random.default_rng(m + inside)
    cells = both_cells()
    at = rows_of_a(m, sparse=True).tolist()
    halves = [sparse_a(kind, element, at, generator, mine, META) for mine in cells]
    left, dense = (np.concatenate(parts) for parts in zip(*halves, strict=True))
    right = numbers(generator, (64, 2 * k), element)
    both, words = placed(None if inside else left, right, element)
    if inside:
        hold(cells, in_cells(left, element), m, sparse=True)
    words["v"] = idesc(d, element, element, m, 64, more=1 << 2)
    code = f"add.u32 n, tm, {A_COLUMN}\nadd.u32 m, tm, {META}\n"
    code += f"tcgen05.mma.sp.cta_group::2.kind::{kind} [d], {'[n]' if inside else 'a'}, b, [m], v, never"
    schedule, seed = SCHEDULES[m // 128]
    out = perform_pair(code, both, cells, words, issuer=int(inside), schedule=schedule, seed=seed)
    put(cells, result(dense @ right.T, d), sparse=True)
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("lane", [0, 16])
def test_the_halves_of_the_lanes(lane: int) -> None:
    """Layout C: 64 rows at lane 16, D and metadata alike."""
    generator = np.random.default_rng(lane)
    cells = both_cells()
    at = (rows_of_a(128, sparse=True) + 16).tolist()
    halves = [sparse_a("f16", "f16", at, generator, mine, META) for mine in cells]
    left, dense = (np.concatenate(parts) for parts in zip(*halves, strict=True))
    right = numbers(generator, (64, 32), "f16")
    both, words = placed(left, right, "f16")
    words["v"] = idesc(1, "f16", "f16", 128, 64, more=1 << 2)
    code = f"add.u32 d, tm, {16 << 16}\nadd.u32 m, tm, {META + (lane << 16)}\n"
    code += "tcgen05.mma.sp.cta_group::2.kind::f16 [d], a, b, [m], v, never"
    report, out = played_pair(code, both, cells, words)
    if not lane:
        assert [f.rule.name for f in report.findings] == ["tensor-memory"], report
        return
    assert report.verdict == "clean", report
    for cta in range(2):
        cells[cta, at, :64] = f32(dense[64 * cta : 64 * cta + 64] @ right.T)
    assert np.array_equal(out, cells)


# --- block scales ---------------------------------------------------------------------------------

SCALED = (
    f"add.u32 n, tm, {SFA}\nadd.u32 m, tm, {SFB}\nadd.u32 tc, tm, {A_COLUMN}\nadd.u32 r0, tm, {META}\n"
    "tcgen05.mma{sp}.cta_group::2.kind::{kind}.block_scale{size} [d], {a}, b, {meta}v, [n], [m], {flag}"
)
SCALINGS = [
    ("mxf8f6f4", "", "ue8m0", 1, 3),
    ("mxf4", "", "ue8m0", 2, 2),
    ("mxf4nvf4", ".scale_vec::2X", "ue8m0", 2, 0),
    ("mxf4nvf4", ".block16", "ue4m3", 4, 0),
]


def scales_of(generator: np.random.Generator, rows: int, count: int, scale: str) -> tuple[Array, Array]:
    """Codes and numbers."""
    if scale == "ue8m0":
        raw = generator.integers(125, 130, (rows, count)).astype(np.uint8)
        return raw, 2.0 ** (raw.astype(int) - 127)
    values = generator.choice([0.25, 0.5, 1, 1.25, 3], (rows, count))
    return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), values


def put_scales(cells: Cells, m: int, of_a: Array, of_b: Array, first: int) -> None:
    """A CTA has the scales of its rows of A, and those of all of B; with M = 128 B's second half is 64 lanes on."""
    for mine, half in zip(cells, np.split(of_a, 2), strict=True):
        scale_cells(mine, SFA, half, first)
        if m == 256:
            scale_cells(mine, SFB, of_b, first)
            continue
        view = mine.view(np.uint8).reshape(128, COLUMNS, 4)
        for number, part in enumerate(np.split(of_b, 2)):
            for n, line in enumerate(part):
                for copy in (0, 32):
                    lane = 64 * number + copy + n % 32
                    view[lane, SFB + n // 32, first : first + len(line)] = line


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "size", "scale", "count", "first"), SCALINGS)
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("inside", [False, True])
def test_block_scales(kind: str, size: str, scale: str, count: int, first: int, m: int, inside: bool) -> None:
    generator = np.random.default_rng(count + 10 * inside)
    nibbles = kind != "mxf8f6f4"
    a, b = ("e2m1", "e2m1") if nibbles else ("e2m3", "e5m2")
    k, n = (64 if nibbles else 32), 96
    left, right = numbers(generator, (m, k), a), numbers(generator, (n, k), b)
    (raw_a, of_a), (raw_b, of_b) = (scales_of(generator, rows, count, scale) for rows in (m, n))
    cells = both_cells()
    put_scales(cells, m, raw_a, raw_b, first)
    before = generator.integers(-64, 65, (m, n)) / 8
    put(cells, f32(before))
    both: Both = ([], [])
    words = {}
    for name, values, element, at in (("a", left, a, A_AT), ("b", right, b, B_AT)):
        for mine, half in zip(both, np.split(values, 2), strict=True):
            if name == "b" or not inside:
                mine.append(shared(half, element, at, nibbles=nibbles))
                words[name] = mine[-1].word
    if inside:
        hold(cells, contained(left, a, nibbles), m)
    types = 1 << 7 | 1 << 10 if nibbles else CODES[a] << 7 | CODES[b] << 10
    words["v"] = first << 4 | types | n >> 3 << 17 | (scale == "ue8m0") << 23 | m >> 7 << 27 | first << 29
    flag = "never" if inside else "always"
    code = SCALED.format(sp="", kind=kind, size=size, a="[tc]" if inside else "a", meta="", flag=flag)
    schedule, seed = SCHEDULES[m // 128]
    out = perform_pair(code, both, cells, words, issuer=int(inside), schedule=schedule, seed=seed)
    total = (left * of_a.repeat(k // count, 1)) @ (right * of_b.repeat(k // count, 1)).T
    put(cells, f32(total + (before if flag == "always" else 0)))
    assert np.array_equal(out, cells)


def test_each_quarter_of_the_lanes_has_its_own_scales() -> None:
    """M = 128: the first two quarters have the first half of D's columns, the others the second."""
    generator = np.random.default_rng(11)
    left, right = numbers(generator, (128, 32), "e4m3"), numbers(generator, (64, 32), "e4m3")
    cells = both_cells()
    for quarter in range(4):
        cells[:, 32 * quarter : 32 * quarter + 32, SFA : SFA + 2] = 127 + 2 * quarter
        cells[:, 32 * quarter : 32 * quarter + 32, SFB] = 127 - quarter
    both, words = placed(left, right, "e4m3")
    words["v"] = 64 >> 3 << 17 | 1 << 23 | 1 << 27
    code = SCALED.format(sp="", kind="mxf8f6f4", size="", a="a", meta="", flag="never")
    out = perform_pair(code, both, cells, words)
    product = left @ right.T
    for row in range(128):
        for column in range(64):
            product[row, column] *= 2.0 ** (row % 64 // 32 + 2 * (column >= 32))
    put(cells, f32(product))
    assert np.array_equal(out, cells)


@pytest.mark.parametrize(("inside", "first"), [(64, 0), (112, 2)])
def test_k_of_96(inside: int, first: int) -> None:
    """Rows of 48 bytes, and six scales for each."""
    generator = np.random.default_rng(first)
    m, n = 256, 64
    left, right = numbers(generator, (m, 96), "e2m1"), numbers(generator, (n, 96), "e2m1")
    (raw_a, of_a), (raw_b, of_b) = (scales_of(generator, rows, 6, "ue4m3") for rows in (m, n))
    cells = both_cells()
    view = cells.view(np.uint8).reshape(2, 128, COLUMNS, 4)
    for cta in range(2):
        for column, lines in ((SFA, raw_a[128 * cta : 128 * cta + 128]), (SFB, raw_b)):
            for row, line in enumerate(lines):
                for j, code in enumerate(line):
                    at = column + row // 32 + 4 * ((first + j) // 4)
                    view[cta, row % 32 :: 32, at, (first + j) % 4] = code
    both: Both = ([], [])
    words = {}
    for name, values, address in (("a", left, BASE), ("b", right, BASE + 16384)):
        for mine, half in zip(both, np.split(values, 2), strict=True):
            mine.append(Chunks(stored(half, "e2m1", True), address, inside, address))
            words[name] = mine[-1].word
    words["v"] = first << 4 | 1 << 7 | 1 << 10 | n >> 3 << 17 | m >> 7 << 27 | first << 29 | 1 << 31
    code = SCALED.format(sp="", kind="mxf4nvf4", size=".block16", a="a", meta="", flag="never")
    out = perform_pair(code, both, cells, words, target="sm_103a")
    put(cells, f32((left * of_a.repeat(16, 1)) @ (right * of_b.repeat(16, 1)).T))
    assert np.array_equal(out, cells)
    report, _ = played_pair(code, both, cells, words)
    assert [f.rule.name for f in report.findings] == ["bad-descriptor"], report


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:3])
def test_scales_come_as_cutlass_copies_them(schedule: str, seed: int) -> None:
    """2cta_mma_blockscale_m128.py, two steps of K: the scales of a CTA's 64 rows of A, 8 bytes a lane for each step,
    go to all warps; those of B's 256 columns, 16 bytes a lane, by halves to warps 0 and 1 and to warps 2 and 3."""
    generator = np.random.default_rng(6)
    m, n, steps = 128, 256, 2
    left, right = numbers(generator, (m, 64 * steps), "e2m1"), numbers(generator, (n, 64 * steps), "e2m1")
    (raw_a, of_a), (raw_b, of_b) = (scales_of(generator, rows, 4 * steps, "ue4m3") for rows in (m, n))
    both: Both = ([], [])
    for cta, mine in enumerate(both):
        image_a = np.zeros((32, 16), np.uint8)
        for row in range(64):
            for k in range(4 * steps):
                image_a[row % 32, 8 * (k // 4) + 4 * (row // 32) + k % 4] = raw_a[64 * cta + row, k]
        mine.append(operand(image_a, "byte", A_AT + 8192, "none", "K", 0))
        for step in range(steps):
            image_b = np.zeros((64, 16), np.uint8)
            for column in range(n):
                at = 32 * (column // 128) + column % 32
                image_b[at, 4 * (column % 128 // 32) :][:4] = raw_b[column, 4 * step : 4 * step + 4]
            mine.append(operand(image_b, "byte", A_AT + 9216 + 1024 * step, "none", "K", 0))
            part = slice(64 * step, 64 * step + 64)
            for values, address in ((left, A_AT + 4096 * step), (right, B_AT + 8192 * step)):
                half = np.split(values, 2)[cta][:, part]
                mine.append(shared(half, "e2m1", address, "32B", nibbles=True))
    words = {"c": both[0][0].word, "e": both[0][1].word, "a": both[0][2].word, "b": both[0][3].word}
    words["v"] = 1 << 7 | 1 << 10 | n >> 3 << 17 | m >> 7 << 27
    code = f"""
    .reg u64 at
    .reg b32 of
    add.u32 n, tm, {SFA}
    add.u32 m, tm, {SFB}
    add.u32 of, m, 4
    tcgen05.cp.cta_group::2.32x128b.warpx4 [n], c
    tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [m], e
    add.u64 at, e, {1024 >> 4}
    tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [of], at
    tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16 [d], a, b, v, [n], [m], never
    add.u32 n, n, 2
    add.u64 at, a, {4096 >> 4}
    add.u64 b, b, {8192 >> 4}
    tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16 [d], at, b, v, [n], [of], always
    """
    cells = both_cells()
    out = perform_pair(code, both, cells, words, schedule=schedule, seed=seed)
    product = (left * of_a.repeat(16, 1)) @ (right * of_b.repeat(16, 1)).T
    assert np.array_equal(out[places(m, n)], f32(product))


@pytest.mark.parametrize(("kind", "size", "count"), [("mxf8f6f4", "", 1), ("mxf4", "", 2), ("mxf4nvf4", ".block16", 4)])  # fmt: skip
@pytest.mark.parametrize("inside", [False, True])
def test_sparse_with_block_scales(kind: str, size: str, count: int, inside: bool) -> None:
    generator = np.random.default_rng(count)
    nibbles = kind != "mxf8f6f4"
    element = "e2m1" if nibbles else "e4m3"
    cells = both_cells()
    halves = [sparse_a(kind, element, list(range(128)), generator, mine, META) for mine in cells]
    left, dense = (np.concatenate(parts) for parts in zip(*halves, strict=True))
    k = dense.shape[1]
    right = numbers(generator, (64, k), element)
    (raw_a, of_a), (raw_b, of_b) = (scales_of(generator, rows, count, "ue8m0") for rows in (256, 64))
    put_scales(cells, 256, raw_a, raw_b, 0)
    both: Both = ([], [])
    words = {}
    for name, values, at in (("a", left, A_AT), ("b", right, B_AT)):
        for mine, half in zip(both, np.split(values, 2), strict=True):
            if name == "b" or not inside:
                mine.append(shared(half, element, at, nibbles=nibbles))
                words[name] = mine[-1].word
    if inside:
        hold(cells, contained(left, element, nibbles), 256)
    words["v"] = 1 << 2 | (1 << 7 | 1 << 10 if nibbles else 0) | 64 >> 3 << 17 | 1 << 23 | 2 << 27
    code = SCALED.format(sp=".sp", kind=kind, size=size, a="[tc]" if inside else "a", meta="[r0], ", flag="never")  # fmt: skip
    out = perform_pair(code, both, cells, words)
    put(cells, f32((dense * of_a.repeat(k // count, 1)) @ (right * of_b.repeat(k // count, 1)).T))
    assert np.array_equal(out, cells)


# --- reals, and what does not fit -------------------------------------------------------------------


@pytest.mark.parametrize("m", [128, 256])
def test_random_reals_stay_within_the_bound(m: int) -> None:
    generator = np.random.default_rng(m)
    left, right = (generator.standard_normal((rows, 32)).astype(FLOATS["e4m3"]) for rows in (m, 64))
    both: Both = ([], [])
    words = {"v": idesc(1, "e4m3", "e4m3", m, 64)}
    for name, values, at in (("a", left, A_AT), ("b", right, B_AT)):
        for mine, half in zip(both, np.split(values.view(np.uint8), 2), strict=True):
            mine.append(operand(half, "byte", at, "32B", "K", 0))
            words[name] = mine[-1].word
    cells = both_cells()
    out = perform_pair(MMA.format(kind="f8f6f4", a="a", flag="never"), both, cells, words)
    x, y = left.astype(np.float64), right.astype(np.float64)
    error = np.abs(out[places(m, 64)].view(np.float32).astype(np.float64) - x @ y.T)
    assert (error <= 32 * 2.0**-23 * (np.abs(x) @ np.abs(y).T)).all()


@pytest.mark.parametrize(
    ("code", "word", "rule"),
    [
        (MMA.format(kind="f16", a="a", flag="never"), idesc(1, "f16", "f16", 64, 64), "bad-descriptor"),
        (MMA.format(kind="f16", a="a", flag="never"), idesc(1, "f16", "f16", 128, 24), "bad-descriptor"),
        (MMA.format(kind="i8", a="a", flag="never"), idesc(2, "s8", "s8", 256, 48), "bad-descriptor"),
        (MMA.format(kind="f16", a="[tm]", flag="never"), idesc(1, "f16", "f16", 256, 40), "bad-descriptor"),
        (f"add.u32 d, tm, {16 << 16}\n" + MMA.format(kind="f16", a="a", flag="never"), idesc(1, "f16", "f16", 128, 32), "tensor-memory"),
        (MMA.format(kind="f16", a="[tm]", flag="never").replace("kind::f16", "kind::f16.ashift"), idesc(1, "f16", "f16", 128, 32), "bad-descriptor"),
    ],
)  # fmt: skip
def test_what_a_pair_does_not_have(code: str, word: int, rule: str) -> None:
    both, words = placed(np.zeros((256, 16)), np.zeros((64, 16)), "f16")
    report, _ = played_pair(code, both, both_cells(), words | {"v": word})
    assert [f.rule.name for f in report.findings] == [rule], report
