"""TMA copies: what they leave is the same, byte for byte, in simulator and GPU.

Loads are dumped from shared memory; stores are read back from the tensor.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, Layout, Scalar, Tile, bf16, kernel, ptx, reg, s32, smem, u32
from tests.gpu.machines import on_gpu, simulated

ROWS, COLUMNS = 40, 104
SPAN = {"TMA_NONE": 32, "TMA_32B": 32, "TMA_64B": 64, "TMA_128B": 128}
#: Bytes past a 1024-byte boundary where the box lands.
OFFSETS = (0, 128, 384, 512)
#: Coordinates, innermost first: inside, over each edge, negative, wholly outside. The innermost is a multiple
#: of 16 bytes: anything else is an illegal instruction on an H200.
COORDINATES = ((0, 0), (16, 7), (96, 30), (-8, -3), (-24, 39), (88, 0), (104, 40), (-64, -40))
BOX_ROWS = 12
DUMP = 4096


def build_dump(layout: str, offset: int) -> Kernel:
    """Fill shared memory with a pattern, load one box at ``offset``, and dump all of it."""
    inner = SPAN[layout] // 2

    @kernel(
        in_specs=(
            Tile(ROWS, COLUMNS, bf16, Layout[layout], tma_box=(BOX_ROWS, inner)),
            Scalar(s32),
            Scalar(s32),
        ),
        out_specs=(Tile(DUMP // 4, u32),),
        grid=(1,),
        block=(128,),
        arch="sm_90a",
    )
    def dump(A, x, y, D):
        area = smem.alloc(DUMP, align=1024)
        arrived = smem.alloc(8, align=8)
        tid = ptx.special.tid.x()
        mine = area.addr + tid * 4
        first = tid == 0
        for word in range(0, DUMP, 512):
            ptx.inst.st.shared.u32(ptx.addr(mine, word), 0xA5A5A5A5)
        # The pattern was written by ordinary stores; TMA overwrites part of it.
        ptx.fence.proxy_async("shared::cta")
        with ptx.if_(first):
            ptx.mbarrier.init(arrived, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(first):
            ptx.mbarrier.arrive_expect_tx(arrived, BOX_ROWS * inner * 2)
            ptx.cp.async_.bulk.tensor_2d(dst=area.addr + offset, src=A.tma_desc(), coord=(x, y), mbar=arrived)
        ptx.mbarrier.wait(arrived, 0)
        out = D.ptr + 0
        ptx.inst.mad.wide.u32(out, tid, 4, out)
        value = reg.scalar(u32)
        for word in range(0, DUMP, 512):
            ptx.inst.ld.shared.u32(value, ptx.addr(mine, word))
            ptx.inst.st.global_.u32(ptx.addr(out, word), value)
        ptx.ret()

    return dump


def _source() -> np.ndarray:
    return np.arange(1, ROWS * COLUMNS + 1).astype(np.uint16).view(ml_dtypes.bfloat16).reshape(ROWS, COLUMNS)


CASES = [
    pytest.param(layout, offset, id=f"{layout}-{offset}")
    for layout, offset in itertools.product(SPAN, OFFSETS)
]


def _expected(layout: str, offset: int, x: int, y: int) -> np.ndarray:
    """The dump by the manual's definition: element by element, swizzle on absolute address bits."""
    mask = {"TMA_NONE": 0, "TMA_32B": 1, "TMA_64B": 3, "TMA_128B": 7}[layout]
    source = _source().view(np.uint16)
    words = np.full(DUMP // 2, 0xA5A5, np.uint16)
    inner = SPAN[layout] // 2
    for row in range(BOX_ROWS):
        for column in range(inner):
            inside = 0 <= y + row < ROWS and 0 <= x + column < COLUMNS
            address = offset + (row * inner + column) * 2
            address ^= ((address >> 7) & mask) << 4
            words[address // 2] = source[y + row, x + column] if inside else 0
    return words.view(np.uint32)


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("layout", "offset"), CASES)
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_load_in_the_simulator(layout: str, offset: int, schedule: str) -> None:
    for x, y in COORDINATES:
        empty = [np.zeros(DUMP // 4, np.uint32)]
        (dump,) = simulated(build_dump(layout, offset), [_source(), x, y], empty, schedule=schedule)
        assert np.array_equal(dump, _expected(layout, offset, x, y)), (x, y)


@pytest.mark.gpu
@pytest.mark.parametrize(("layout", "offset"), CASES)
def test_load_on_the_gpu(layout: str, offset: int) -> None:
    for x, y in COORDINATES:
        (dump,) = on_gpu(build_dump(layout, offset), [_source(), x, y], [np.zeros(DUMP // 4, np.uint32)])
        assert np.array_equal(dump, _expected(layout, offset, x, y)), (x, y)


#: Where a store may land, innermost first: inside and past the end. Negative coordinates stop an H200.
STORED = ((0, 0), (16, 7), (96, 30), (88, 39), (104, 0), (0, 40), (1024, 1024))


def build_store(layout: str) -> Kernel:
    """Load the box at the origin and store it at (x, y)."""
    inner = SPAN[layout] // 2
    tile = Tile(ROWS, COLUMNS, bf16, Layout[layout], tma_box=(BOX_ROWS, inner))

    @kernel(
        in_specs=(tile, Scalar(s32), Scalar(s32)), out_specs=(tile,), grid=(1,), block=(32,), arch="sm_90a"
    )
    def store(A, x, y, B):
        box = smem.alloc((BOX_ROWS, inner), bf16, align=1024, swizzle=Layout[layout].swizzle)
        arrived = smem.alloc(8, align=8)
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(arrived, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(arrived, BOX_ROWS * inner * 2)
            ptx.cp.async_.bulk.tensor_2d(dst=box, src=A.tma_desc(), coord=(0, 0), mbar=arrived)
            ptx.mbarrier.wait(arrived, 0)
            ptx.cp.async_.bulk.tensor_2d(dst=B.tma_desc(), src=box, coord=(x, y))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)
        ptx.ret()

    return store


def _stored(layout: str, x: int, y: int) -> np.ndarray:
    expected = np.zeros((ROWS, COLUMNS), np.uint16)
    source = _source().view(np.uint16)
    for row in range(BOX_ROWS):
        for column in range(SPAN[layout] // 2):
            if y + row < ROWS and x + column < COLUMNS:
                expected[y + row, x + column] = source[row, column]
    return expected


def _empty() -> list[np.ndarray]:
    return [np.zeros((ROWS, COLUMNS), ml_dtypes.bfloat16)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", SPAN)
@pytest.mark.parametrize("schedule", ["eager", "late", "random", "starve:tma"])
def test_store_in_the_simulator(layout: str, schedule: str) -> None:
    for x, y in STORED:
        (stored,) = simulated(build_store(layout), [_source(), x, y], _empty(), schedule=schedule)
        assert np.array_equal(stored.view(np.uint16), _stored(layout, x, y)), (x, y)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", SPAN)
def test_store_on_the_gpu(layout: str) -> None:
    for x, y in STORED:
        (stored,) = on_gpu(build_store(layout), [_source(), x, y], _empty())
        assert np.array_equal(stored.view(np.uint16), _stored(layout, x, y)), (x, y)


@pytest.mark.parametrize(("x", "y"), [(-8, 0), (0, -1), (4, 0)])
def test_what_stops_an_h200_is_found(x: int, y: int) -> None:
    (empty,) = _empty()
    report = build_store("TMA_NONE").simulate(_source(), x, y, out=empty)
    assert report.verdict == "error"
    assert report.findings[0].rule.name == "bad-tensor-map"
