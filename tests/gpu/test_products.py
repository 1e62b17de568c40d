"""Fragments, metadata and descriptors on a GPU: products of small integers, exact in every type.

The layouts say which register of which thread holds what; numpy says what the product is.
"""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, Tile, f16, f32, kernel, ptx, reg, smem, u32
from pyptx.dsl.units.fragments import Fragment
from pyptx.layout import (
    FragmentLayout,
    OperandTile,
    SelectedLayout,
    WgmmaDescriptor,
    box_strides,
    element_addresses,
    matrix_fragment,
    mma_fragment,
    mma_metadata,
    wgmma_fragment,
    wgmma_metadata,
)
from pyptx.layout.fragments import DENSE_SHAPES, SPARSE_SHAPES
from tests.gpu.machines import on_gpu

pytestmark = pytest.mark.gpu

_FLOATS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip

#: Types that sm_90a multiplies.
_TYPES = ("f16", "bf16", "tf32", "f64", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1")


def sums_of(dtype: str) -> str:
    return "f64" if dtype == "f64" else "s32" if dtype[0] in "us" or dtype == "b1" else "f32"


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    low, high = (0, 2) if dtype == "b1" else (0, 8) if dtype[0] == "u" else (-4, 4)
    return rng.integers(low, high, shape)


def bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """The bits of each integer as an element of ``dtype``, ``uint64``."""
    if dtype in _FLOATS:
        encoded = values.astype(_FLOATS[dtype])
        return encoded.view(f"u{encoded.itemsize}").astype(np.uint64)
    width = int(dtype[1:])
    return values.astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)


def words(elements: np.ndarray, width: int) -> np.ndarray:
    """``[elements, threads]`` of bits as the threads' 32-bit words, ``[threads, words]``."""
    count, threads = elements.shape
    if width == 64:
        return (
            np.stack([elements & np.uint64(0xFFFFFFFF), elements >> np.uint64(32)], 1)
            .reshape(-1, threads)
            .T.astype(np.uint32)
        )
    packed = 32 // width
    parts = elements.reshape(count // packed, packed, threads) << (
        np.arange(packed, dtype=np.uint64)[None, :, None] * np.uint64(width)
    )
    return np.bitwise_or.reduce(parts, 1).T.astype(np.uint32)


def spread(matrix: np.ndarray, layout: FragmentLayout, dtype: str) -> np.ndarray:
    """The words of ``matrix`` (``[matrices, rows, columns]`` or one) that each thread holds."""
    row, column, number = layout.places()
    matrices = matrix if matrix.ndim == 3 else matrix[None]
    return words(bits(matrices[number, row, column], dtype), layout.bits)


def load(fragment: Any, source: Any, first: int) -> int:
    """Fill ``fragment`` from the thread's words; returns the next word."""
    for register in fragment:
        width = register.type.bits
        first += first % 2 if width == 64 else 0
        ptx.inst["ld.global.b64" if width == 64 else "ld.global.b32"](register, ptx.addr(source, 4 * first))
        first += width // 32
    return first


def store(target: Any, fragment: Any) -> None:
    first = 0
    for register in fragment:
        width = register.type.bits
        ptx.inst["st.global.b64" if width == 64 else "st.global.b32"](ptx.addr(target, 4 * first), register)
        first += width // 32


def run(body: Any, given: np.ndarray, results: int) -> np.ndarray:
    """``body(thread's input pointer) -> fragment to store``, one CTA; ``given`` is ``[threads, words]``."""
    threads = len(given)

    @kernel(
        in_specs=(Tile(given.size, u32),),
        out_specs=(Tile(threads * results, u32),),
        grid=(1,),
        block=(threads,),
        arch="sm_90a",
    )
    def product(A, D):
        tid = ptx.special.tid.x()
        source = reg.scalar(A.ptr.type)
        ptx.inst.mad.wide.u32(source, tid, 4 * given.shape[1], A.ptr)
        target = reg.scalar(D.ptr.type)
        ptx.inst.mad.wide.u32(target, tid, 4 * results, D.ptr)
        store(target, body(source))

    assert isinstance(product, Kernel)
    empty = np.zeros(threads * results, np.uint32)
    (found,) = on_gpu(product, [np.ascontiguousarray(given).ravel()], [empty])
    return found.reshape(threads, results)


def multiply(left: np.ndarray, right: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "b1":  # xor, then count
        return (left[:, :, None] != right[None, :, :]).sum(1)
    return left @ right


DENSE = [
    (dtype, shape) for dtype in _TYPES for shape in DENSE_SHAPES[dtype] if (dtype, shape) != ("f16", "m8n8k4")
]


@pytest.mark.parametrize(
    ("dtype", "shape"), [*DENSE, ("f16 in f16", "m16n8k16"), ("e4m3 in f16", "m16n8k32")]
)
def test_mma(dtype: str, shape: str) -> None:
    dtype, _, total = dtype.partition(" in ")
    total = total or sums_of(dtype)
    rng = np.random.default_rng(1)
    a, b, c = (mma_fragment(*key) for key in (("a", shape, dtype), ("b", shape, dtype), ("c", shape, total)))
    left, right = random(rng, (a.rows, a.columns), dtype), random(rng, (b.rows, b.columns), dtype)
    addend = random(rng, (c.rows, c.columns), "s32")
    given = np.hstack([spread(left, a, dtype), spread(right, b, dtype), spread(addend, c, total)])

    def body(source: Any) -> Fragment:
        x, y, z = (
            ptx.mma.fragment(op, shape, kind) for op, kind in (("a", dtype), ("b", dtype), ("c", total))
        )
        load(z, source, load(y, source, load(x, source, 0)))
        ptx.mma(z, x, y)
        return z

    found = run(body, given, c.registers * c.register_bits // 32)
    assert (found == spread(multiply(left, right, dtype) + addend, c, total)).all()


@pytest.mark.parametrize("total", ["f16", "f32"])
@pytest.mark.parametrize("majors", list(itertools.product(("row", "col"), repeat=2)))
def test_mma_m8n8k4(majors: tuple[str, str], total: str) -> None:
    rng = np.random.default_rng(2)
    a = mma_fragment("a", "m8n8k4", "f16", major=majors[0])
    b = mma_fragment("b", "m8n8k4", "f16", major=majors[1])
    c = mma_fragment("c", "m8n8k4", total)
    left, right = random(rng, (4, 8, 4), "f16"), random(rng, (4, 4, 8), "f16")
    addend = random(rng, (4, 8, 8), "s32")
    given = np.hstack([spread(left, a, "f16"), spread(right, b, "f16"), spread(addend, c, total)])

    def body(source: Any) -> Fragment:
        x = ptx.mma.fragment("a", "m8n8k4", "f16", layout=majors[0])
        y = ptx.mma.fragment("b", "m8n8k4", "f16", layout=majors[1])
        z = ptx.mma.fragment("d", "m8n8k4", total)
        load(z, source, load(y, source, load(x, source, 0)))
        ptx.mma(z, x, y)
        return z

    found = run(body, given, c.registers)
    assert (found == spread(left @ right + addend, c, total)).all()


def sparse_operand(
    rng: np.random.Generator, rows: int, k: int, dtype: str, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random A ``[rows, k]`` with half zeroes, its kept elements ``[rows, k/2]``, an index of each chunk."""
    chunk = {4: 8, 8: 4, 16: 4, 32: 2}[width]
    kept = random(rng, (rows, k // 2), dtype)
    dense = np.zeros((rows, k), np.int64)
    index = np.zeros((rows, k // chunk), np.uint64)
    for row, number in itertools.product(range(rows), range(k // chunk)):
        own = kept[row, number * chunk // 2 : (number + 1) * chunk // 2]
        start = number * chunk
        if chunk == 2:
            position = int(rng.integers(2))
            dense[row, start + position] = own[0]
            index[row, number] = 0b1110 if position else 0b0100
            continue
        first, second = sorted(rng.choice(4, 2, replace=False).tolist())
        each = chunk // 4
        dense[row, start + first * each : start + (first + 1) * each] = own[:each]
        dense[row, start + second * each : start + (second + 1) * each] = own[each:]
        index[row, number] = first | second << 2
    return dense, kept, index


def metadata_words(index: np.ndarray, found: SelectedLayout, selector: int) -> np.ndarray:
    """The words of the threads that the selector names; the others hold indices that would be wrong."""
    layout = found.layout
    row, column, _ = layout.places()
    held = words(index[row, column], 4)
    asked = np.isin(np.arange(layout.thread_count) % 32, found.lanes(selector))
    return np.where(asked[:, None], held, held ^ np.uint32(0x44444444) | np.uint32(0x88888888)).astype(
        np.uint32
    )


SPARSE = [
    (dtype, shape, selector)
    for dtype in _TYPES
    if dtype in SPARSE_SHAPES
    for shape in SPARSE_SHAPES[dtype]
    for selector in range(4 // mma_metadata(shape, dtype).suppliers)
]


@pytest.mark.parametrize(("dtype", "shape", "selector"), SPARSE)
def test_sparse_mma(dtype: str, shape: str, selector: int) -> None:
    total = sums_of(dtype)
    rng = np.random.default_rng(3)
    a = mma_fragment("a", shape, dtype, sparse=True)
    b = mma_fragment("b", shape, dtype, sparse=True)
    c = mma_fragment("c", shape, total, sparse=True)
    dense, kept, index = sparse_operand(rng, 16, b.rows, dtype, a.bits)
    right = random(rng, (b.rows, 8), dtype)
    addend = random(rng, (16, 8), "s32")
    meta = metadata_words(index, mma_metadata(shape, dtype), selector)
    given = np.hstack([spread(kept, a, dtype), spread(right, b, dtype), spread(addend, c, total), meta])

    def body(source: Any) -> Fragment:
        x, y, z = (
            ptx.mma.fragment(op, shape, kind, sparse=True)
            for op, kind in (("a", dtype), ("b", dtype), ("c", total))
        )
        e = reg.array(u32, 1)
        load(e, source, load(z, source, load(y, source, load(x, source, 0))))
        ptx.mma(z, x, y, metadata=e[0], selector=selector)
        return z

    found = run(body, given, c.registers)
    assert (found == spread(dense @ right + addend, c, total)).all()


# --- ldmatrix, stmatrix, movmatrix ------------------------------------------------------------------


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_matrices(num: int, trans: bool) -> None:
    """Load, turn each matrix over, and store it the other way round: memory is as it was."""
    layout = matrix_fragment("m8n8", num, trans=trans)
    image = np.arange(num * 64).reshape(num, 8, 8)
    given = np.zeros((32, 4 + num), np.uint32)
    given[: 8 * num, :4] = words(bits(image.reshape(8 * num, 8), "u16").T, 16)

    def body(source: Any) -> Any:
        area = smem.alloc((2, 32, 16), align=16)
        mine = area.addr + ptx.special.laneid() * 16
        row = reg.array(u32, 4)
        load(row, source, 0)
        ptx.inst.st.shared.v4.b32(ptx.addr(mine), row)
        ptx.bar.sync(0)
        loaded = reg.array(u32, num)
        ptx.ldmatrix(loaded, mine, trans=trans)
        turned = [ptx.movmatrix(register) for register in loaded]
        ptx.stmatrix(ptx.addr(mine, 512), turned, trans=not trans)
        ptx.bar.sync(0)
        back = reg.array(u32, 4)
        ptx.inst.ld.shared.v4.b32(back, ptx.addr(mine, 512))
        return [*loaded, *turned, *back]

    found = run(body, given, 2 * num + 4)
    assert (found[:, :num] == spread(image, layout, "u16")).all()
    other = matrix_fragment("m8n8", num, trans=not trans)
    assert (found[:, num : 2 * num] == spread(image, other, "u16")).all()
    assert (found[: 8 * num, 2 * num :] == given[: 8 * num, :4]).all()


# --- wgmma ----------------------------------------------------------------------------------------------

_SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
#: Where B's area begins; A's begins at 0.
_SECOND = 16384


def image_of(
    matrix: np.ndarray, dtype: str, width: int, major: str, swizzle: str, base: int
) -> tuple[np.ndarray, WgmmaDescriptor]:
    """Bytes of shared memory, and the descriptor, of ``matrix`` (M or N by K) in boxes one after the other."""
    span = _SPANS[swizzle]
    rows = matrix.shape[0] if major == "K" else matrix.shape[1]
    leading, stride = box_strides(rows, span, swizzle, major)  # type: ignore[arg-type]
    descriptor = WgmmaDescriptor(base, leading, stride, swizzle)
    each = width // 8
    at = element_addresses(descriptor.operand(), *matrix.shape, each, major)  # type: ignore[arg-type]
    memory = np.zeros(2 * _SECOND, np.uint8)
    encoded = bits(matrix, dtype)
    for byte in range(each):
        memory[at + byte] = (encoded >> np.uint64(8 * byte)).astype(np.uint8)
    return memory, descriptor


MAJORS = [("f16", *majors) for majors in itertools.product(("K", "MN"), repeat=2)]

#: Type, swizzle, order of A and B, whether A is sparse, and in registers.
WGMMA = [
    (dtype, swizzle, a, b, sparse, in_registers)
    for dtype, a, b in (
        *((dtype, "K", "K") for dtype in ("bf16", "tf32", "e4m3", "e5m2", "s8", "u8")),
        *MAJORS,
        ("bf16", "MN", "MN"),
    )
    for swizzle, sparse, in_registers in itertools.product(_SPANS, (False, True), (False, True))
    if not (in_registers and a == "MN")  # A in registers has one layout
    if not (sparse and swizzle == "32B" and b == "K")  # B's rows have 64 bytes
]


@pytest.mark.parametrize(("dtype", "swizzle", "major_a", "major_b", "sparse", "in_registers"), WGMMA)
def test_wgmma(
    dtype: str, swizzle: str, major_a: str, major_b: str, sparse: bool, in_registers: bool
) -> None:
    n, total = 64, sums_of(dtype)
    a, d = wgmma_fragment("a", dtype), wgmma_fragment("d", total, n)
    k = a.columns * (2 if sparse else 1)
    if sparse and _SPANS[swizzle] == 32 and major_b == "K":
        pytest.skip("64 bytes of a row of B do not fit a 32-byte swizzle")
    rng = np.random.default_rng(4)
    if sparse:
        left, kept, index = sparse_operand(rng, 64, k, dtype, a.bits)
        meta = metadata_words(index, wgmma_metadata(dtype), 0)
    else:
        left = kept = random(rng, (64, k), dtype)
        meta = np.zeros((128, 1), np.uint32)
    right = random(rng, (k, n), dtype)
    memory_a, desc_a = image_of(kept, dtype, a.bits, major_a, swizzle, 0)
    memory_b, desc_b = image_of(right.T, dtype, a.bits, major_b, swizzle, _SECOND)
    image = np.where(np.arange(2 * _SECOND) < _SECOND, memory_a, memory_b).view(np.uint32).reshape(128, -1)
    given = np.hstack([spread(kept, a, dtype), meta, image])

    def body(source: Any) -> Fragment:
        area = smem.alloc(2 * _SECOND, align=1024)
        x = ptx.wgmma.fragment(dtype, sparse=sparse)
        e = reg.array(u32, 1)
        first = load(e, source, load(x, source, 0))
        mine = area.addr + ptx.special.tid.x() * (image.shape[1] * 4)
        word = reg.scalar(u32)
        for i in range(image.shape[1]):
            ptx.inst.ld.global_.b32(word, ptx.addr(source, 4 * (first + i)))
            ptx.inst.st.shared.b32(ptx.addr(mine, 4 * i), word)
        ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        options_a = dict(
            swizzle=swizzle, major=major_a, leading=desc_a.leading_bytes, stride=desc_a.stride_bytes
        )
        options_b = dict(
            swizzle=swizzle, major=major_b, leading=desc_b.leading_bytes, stride=desc_b.stride_bytes
        )
        p = ptx.wgmma.descriptor(area.addr, **options_a)
        q = ptx.wgmma.descriptor(area.addr + _SECOND, **options_b)
        acc = ptx.wgmma.accumulator(64, n, total)
        ptx.wgmma.fence()
        ptx.wgmma.mma_async(
            acc, x if in_registers else p, q, atype=dtype, scale_d=False,
            trans_a=major_a == "MN" and not in_registers, trans_b=major_b == "MN", metadata=e[0] if sparse else None,
        )  # fmt: skip
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        return acc

    found = run(body, given, d.registers)
    assert (found == spread(left @ right, d, total)).all()


@pytest.mark.parametrize("total", ["f16", "f32"])
def test_wgmma_over_a_row_of_k(total: str) -> None:
    """Four steps of K along the rows of 128 bytes, into one accumulator; each thread then stores its elements
    at the rows and columns that its origin and the fragment give."""
    n, k = 96, 64
    rng = np.random.default_rng(5)
    left, right = random(rng, (64, k), "f16"), random(rng, (k, n), "f16")
    tile_a, tile_b = OperandTile(64, k, 16), OperandTile(n, k, 16)
    memory = np.zeros(tile_a.nbytes + tile_b.nbytes, np.uint8)
    for matrix, tile, base in ((left, tile_a, 0), (right.T, tile_b, tile_a.nbytes)):
        at = element_addresses(tile.descriptor(base), *matrix.shape, 2, "K")
        for byte in range(2):
            memory[at + byte] = (bits(matrix, "f16") >> np.uint64(8 * byte)).astype(np.uint8)
    image = memory.view(np.uint32)

    @kernel(
        in_specs=(Tile(image.size, u32),),
        out_specs=(Tile(64, n, f32),),
        grid=(1,),
        block=(128,),
        arch="sm_90a",
    )
    def steps(A, D):
        a, b = (smem.alloc((rows, k), f16, swizzle="128B") for rows in (64, n))
        tid = ptx.special.tid.x()
        mine, source = a.addr + tid * 4, reg.scalar(A.ptr.type)
        ptx.inst.mad.wide.u32(source, tid, 4, A.ptr)
        word = reg.scalar(u32)
        for first in range(0, image.size, 128):
            ptx.inst.ld.global_.b32(word, ptx.addr(source, 4 * first))
            ptx.inst.st.shared.b32(ptx.addr(mine, 4 * first), word)
        ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        desc_a, desc_b = ptx.wgmma.descriptor(a), ptx.wgmma.descriptor(b)
        acc = ptx.wgmma.accumulator(64, n, total)
        ptx.wgmma.fence()
        for step in range(0, k, 16):
            step_a = ptx.wgmma.advance(desc_a, tile_a.k_offset(step))
            step_b = ptx.wgmma.advance(desc_b, tile_b.k_offset(step))
            ptx.wgmma.mma_async(acc, step_a, step_b, atype="f16", scale_d=step > 0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        origin = acc.origin()
        target = reg.scalar(D.ptr.type)
        ptx.inst.mad.wide.u32(target, origin.row * n + origin.column, 4, D.ptr)
        low, high, wide = reg.scalar(f16), reg.scalar(f16), reg.scalar(f32)
        for i in range(acc.elements):
            register, part = acc.register(i)
            if total == "f16":
                ptx.inst.mov.b32([low, high], register)
                ptx.inst.cvt.f32.f16(wide, high if part else low)
                register = wide
            ptx.inst.st.global_.f32(ptx.addr(target, 4 * (acc.row(i) * n + acc.column(i))), register)

    (found,) = on_gpu(steps, [image.copy()], [np.zeros((64, n), np.float32)])
    assert (found == left @ right).all()


WMMA = [
    *((dtype, shape) for dtype in ("f16", "bf16", "s8", "u8") for shape in ("m16n16k16", "m8n32k16", "m32n8k16")),
    ("tf32", "m16n16k8"),
    ("f64", "m8n8k4"),
    ("s4", "m8n8k32"),
]  # fmt: skip


def packed(matrix: np.ndarray, dtype: str, width: int) -> np.ndarray:
    """The words of ``matrix`` by rows in memory."""
    return words(bits(matrix.ravel(), dtype)[:, None], width).ravel()


@pytest.mark.parametrize(("dtype", "shape"), WMMA)
def test_wmma(dtype: str, shape: str) -> None:
    total = sums_of(dtype)
    m, n, k = (int(part) for part in shape.replace("n", " ").replace("k", " ")[1:].split())
    width, sum_width = (
        {"f64": 64, "tf32": 32, "f16": 16, "bf16": 16, "s4": 4}.get(dtype, 8),
        64 if total == "f64" else 32,
    )
    rng = np.random.default_rng(6)
    left, right, addend = random(rng, (m, k), dtype), random(rng, (k, n), dtype), random(rng, (m, n), "s32")
    parts = [packed(left, dtype, width), packed(right.T, dtype, width), packed(addend, total, sum_width)]
    image = np.concatenate([np.pad(part, (0, 2048 - part.size)) for part in parts])
    result = m * n * sum_width // 32

    @kernel(
        in_specs=(Tile(image.size, u32),),
        out_specs=(Tile(result, u32),),
        grid=(1,),
        block=(32,),
        arch="sm_90a",
    )
    def product(A, D):
        a, b, c = (ptx.addr(A.ptr, 8192 * part) for part in range(3))
        x = ptx.wmma.load_a(a, shape, dtype, space="global")
        y = ptx.wmma.load_b(b, shape, dtype, space="global")
        z = ptx.wmma.load_c(c, shape, total, stride=n, space=None)
        ptx.wmma.store_d(D.ptr, ptx.wmma.mma(x, y, z, shape, dtype), shape, total, space="global")

    (found,) = on_gpu(product, [image], [np.zeros(result, np.uint32)])
    assert (found == packed(left @ right + addend, total, sum_width)).all()
