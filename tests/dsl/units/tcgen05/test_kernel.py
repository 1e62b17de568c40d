"""A kernel written with the builders of ``ptx.tcgen05``: what they describe is what the MMA reads."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import InstructionDescriptor, Layout, OperandTile, Tile, kernel, ptx, reg, smem
from pyptx.core.types import b32, bf16, f32

M, N, K = 128, 64, 128
LAYOUTS = {"128B": Layout.TMA_128B, "64B": Layout.TMA_64B, "32B": Layout.TMA_32B, "none": Layout.TMA_NONE}


def parameter(tile: OperandTile) -> Tile:
    """The operand in global memory: the box of the map is as wide as the swizzle."""
    width = tile.span // 2
    shape, box = ((tile.rows, tile.k), (tile.rows, width)) if tile.major == "K" else (
        (tile.k, tile.rows), (tile.k, width)
    )  # fmt: skip
    return Tile(*shape, bf16, LAYOUTS[tile.swizzle], tma_box=box)


def build(a_tile: OperandTile, b_tile: OperandTile) -> Any:
    idesc = InstructionDescriptor("f16", M, N, "bf16", "bf16", "f32", a_tile.major, b_tile.major)

    def load(parameter: Any, buffer: Any, tile: OperandTile, loaded: Any) -> None:
        """Box behind box."""
        along = tile.k if tile.major == "K" else tile.rows
        box = tile.nbytes * tile.span // (2 * along)
        for i in range(2 * along // tile.span):
            ptx.cp.async_.bulk.tensor_2d(
                dst=ptx.addr(buffer, i * box),
                src=parameter.tma_desc(),
                coord=(i * tile.span // 2, 0),
                mbar=loaded,
            )

    @kernel(
        in_specs=(parameter(a_tile), parameter(b_tile)),
        out_specs=(Tile(M, N, f32),),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        arch="sm_100a",
    )
    def multiply(A: Any, B: Any, D: Any) -> None:
        tid = ptx.special.tid.x()
        warp = tid >> 5
        shapes = [(t.rows, t.k) if t.major == "K" else (t.k, t.rows) for t in (a_tile, b_tile)]
        s_a = smem.alloc(shapes[0], bf16, swizzle=a_tile.swizzle, align=128)
        s_b = smem.alloc(shapes[1], bf16, swizzle=b_tile.swizzle, align=128)
        loaded, multiplied = smem.alloc(8, align=8), smem.alloc(8, align=8)
        slot = smem.alloc(4, align=4)
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot, N)
            with ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.init(loaded, 1)
                ptx.mbarrier.init(multiplied, 1)
                ptx.fence.mbarrier_init()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, slot)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.arrive_expect_tx(loaded, a_tile.nbytes + b_tile.nbytes)
            load(A, s_a, a_tile, loaded)
            load(B, s_b, b_tile, loaded)
            ptx.mbarrier.wait(loaded, 0)
            desc_a = ptx.tcgen05.smem_descriptor(s_a, major=a_tile.major)
            desc_b = ptx.tcgen05.smem_descriptor(s_b.addr, b_tile)
            for k in range(0, K, idesc.k):
                slice_a = ptx.tcgen05.advance(desc_a, a_tile.k_offset(k))
                slice_b = ptx.tcgen05.advance(desc_b, b_tile.k_offset(k))
                ptx.tcgen05.mma(tmem, slice_a, slice_b, idesc, pred_operand=k > 0)
            ptx.tcgen05.commit(multiplied)
        ptx.mbarrier.wait(multiplied, 0)
        ptx.tcgen05.fence_after_thread_sync()
        row = reg.array(b32, N)
        ptx.tcgen05.ld(row, ptx.tcgen05.address(tmem, lane=warp << 5))
        ptx.tcgen05.wait_ld()
        d_row = D.ptr + 0
        ptx.inst.mad.wide.u32(d_row, tid, 4 * N, d_row)
        for v in range(0, N, 4):
            ptx.inst.st.global_.v4.b32(ptx.addr(d_row, 4 * v), row[v : v + 4])
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, N)
        ptx.ret()

    return multiply


@pytest.mark.parametrize(
    ("a_tile", "b_tile"),
    [
        (OperandTile(M, K, 16), OperandTile(N, K, 16)),
        (OperandTile(M, K, 16, "K", "64B"), OperandTile(N, K, 16, "MN")),
        (OperandTile(M, K, 16, "MN"), OperandTile(N, K, 16, "MN", "32B")),
        (OperandTile(M, K, 16, "K", "none"), OperandTile(N, K, 16, "K", "32B")),
        (OperandTile(M, K, 16, "MN", "none"), OperandTile(N, K, 16, "MN", "64B")),
    ],
    ids=lambda tile: f"{tile.major}-{tile.swizzle}",
)
def test_the_product_is_right(a_tile: OperandTile, b_tile: OperandTile) -> None:
    generator = np.random.default_rng(5)
    a = generator.integers(-8, 9, (M, K))
    b = generator.integers(-8, 9, (N, K))
    given = [
        np.ascontiguousarray(x if tile.major == "K" else x.T).astype(ml_dtypes.bfloat16)
        for x, tile in ((a, a_tile), (b, b_tile))
    ]
    d = np.full((M, N), np.nan, np.float32)
    multiply = build(a_tile, b_tile)
    report = multiply.simulate(*given, out=d)
    assert report.verdict == "clean", report
    assert np.array_equal(d, a @ b.T)
    assert multiply.assemble().spills == 0
