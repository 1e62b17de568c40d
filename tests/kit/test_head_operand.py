"""Tiles of attention heads: what TMA loads, packed and not, and what wgmma reads with the descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, b64, bf16, f32, kernel, kit, ptx, smem, u32
from pyptx.core.types import ScalarType, e4m3
from tests.dsl.helpers import in_kernel

B, S, H = 2, 21, 4


def loaded(operand: kit.HeadOperand, position: int, head: int, batch: int) -> Kernel:
    """The words of shared memory after a load, in order."""
    words = operand.nbytes // 4

    @kernel(in_specs=(operand.spec(B, S, H),), out_specs=(Tile(words, f32),), block=32, arch="sm_90a")
    def load(X, Y):  # type: ignore[no-untyped-def]
        tiles = operand.stages(2)
        full = smem.alloc(1, b64)
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
            operand.load(tiles[1], X, position=position, head=head, batch=batch, mbar=full)
        ptx.warp.sync()
        ptx.mbarrier.wait(full, 0)
        lane = ptx.special.laneid()
        with ptx.for_(lane, words, 32) as word:
            value = smem.load(f32, ptx.addr(tiles[1].addr + word * 4))
            ptx.store(Y.at(word), value)

    return load


@pytest.mark.parametrize("order", ["bshd", "bhsd"])
@pytest.mark.parametrize("packed", [1, 4])
@pytest.mark.parametrize("elements", [64, 192])
def test_rows_in_shared_memory(elements: int, packed: int, order: Any) -> None:
    operand = kit.HeadOperand(16, elements, bf16, order=order, packed=packed)
    rng = np.random.default_rng(elements)
    x = rng.integers(0, 1 << 14, (B, S, H, elements), np.uint16)
    position, head, batch = (18, 2, 1) if packed == 1 else (19, 0, 1)
    given = x if order == "bshd" else np.ascontiguousarray(x.swapaxes(1, 2))
    report = loaded(operand, position, head, batch).simulate(
        given.view(ml_dtypes.bfloat16), sanitize="strict"
    )
    assert report.verdict == "clean", str(report)
    halves = report.outputs[0].view(np.uint16).reshape(elements // 64, 16, 64)
    rows = np.zeros((16, elements), np.uint16)
    for row in range(16):
        at = position + row // packed
        if at < S:
            rows[row] = x[batch, at, head + row % packed]
    for row in range(16):
        for chunk in range(8):
            # The swizzle puts the piece of 16 bytes at its number XOR the row's number.
            place = 8 * (chunk ^ row % 8)
            expected = rows[row].reshape(-1, 64)[:, 8 * chunk : 8 * chunk + 8]
            assert np.array_equal(halves[:, row, place : place + 8], expected)


@pytest.mark.parametrize("stage", [0, 1, None])
def test_products_with_the_descriptors(stage: int | None) -> None:
    """S = X[:64] X^T, and then X summed over its rows with S as operand A: integers, so all sums are exact."""
    rows, elements = 64, 128
    operand = kit.HeadOperand(rows, elements, bf16)

    @kernel(
        in_specs=(operand.spec(1, rows, 1),),
        out_specs=(Tile(rows, rows, f32), Tile(rows, elements, f32)),
        block=128,
        arch="sm_90a",
    )
    def products(X, Y, Z):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        tiles = operand.stages(2)
        full = smem.alloc(1, b64)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
            operand.load(tiles[1 if stage is None else stage], X, position=0, head=0, batch=0, mbar=full)
        ptx.mbarrier.wait(full, 0)
        number = ptx.special.ctaid.x() + 1 if stage is None else stage
        along, across = operand.descriptors(tiles[0]), operand.descriptors(tiles[0], "MN")
        s, o = ptx.wgmma.accumulator(n=rows), ptx.wgmma.accumulator(n=elements)
        ptx.wgmma.fence()
        for i, step in enumerate(along.steps(number)):
            ptx.wgmma.mma_async(s, step, step, atype=bf16, scale_d=i > 0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        p = kit.a_fragments(s)
        ptx.wgmma.fence()
        for i, (a, step) in enumerate(zip(p, across.steps(number), strict=True)):
            ptx.wgmma.mma_async(o, a, step, trans_b=True, scale_d=i > 0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        kit.wgmma_epilogue.direct(s, Y.ptr, 4 * rows)
        kit.wgmma_epilogue.direct(o, Z.ptr, 4 * elements)

    x = (np.random.default_rng(0).random((rows, elements)) < 0.05).astype(ml_dtypes.bfloat16)
    report = products.simulate(x[None, :, None], sanitize="strict")
    assert report.verdict == "clean", str(report)
    wide = x.astype(np.float64)
    assert np.array_equal(report.outputs[0], wide @ wide.T)
    assert np.array_equal(report.outputs[1], wide @ wide.T @ wide)


@pytest.mark.parametrize(("elements", "dtype"), [(64, bf16), (128, bf16), (128, e4m3), (256, e4m3)], ids=str)
def test_rows_as_operand_a_from_registers(elements: int, dtype: ScalarType) -> None:
    """X X^T with the first X from registers is exact, since X are integers."""
    operand = kit.HeadOperand(64, elements, dtype)

    @kernel(in_specs=(operand.spec(1, 64, 1),), out_specs=(Tile(64, 64, f32),), block=128, arch="sm_90a")
    def product(X, Y):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        tiles = operand.stages(2)
        full = smem.alloc(1, b64)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
            operand.load(tiles[1], X, position=0, head=0, batch=0, mbar=full)
        ptx.mbarrier.wait(full, 0)
        rows = operand.fragments(tiles[1], warp=warp)
        s = ptx.wgmma.accumulator(n=64)
        ptx.wgmma.fence()
        for i, (a, b) in enumerate(zip(rows, operand.descriptors(tiles[0]).steps(1), strict=True)):
            ptx.wgmma.mma_async(s, a, b, scale_d=i > 0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        kit.wgmma_epilogue.direct(s, Y.ptr, 4 * 64)

    x = np.random.default_rng(elements).integers(-3, 4, (64, elements)).astype(np.float32)
    report = product.simulate(x.astype(dtype.dtype)[None, :, None], sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert np.array_equal(report.outputs[0], x @ x.T)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kit.HeadOperand(64, 64, bf16, order="hsbd"), "order is 'hsbd'"),  # type: ignore[arg-type]
        (lambda: kit.HeadOperand(64, 96, bf16), "heads of 96"),
        (lambda: kit.HeadOperand(12, 64, bf16), "rows is 12"),
        (lambda: kit.HeadOperand(264, 64, bf16), "rows is 264"),
        (lambda: kit.HeadOperand(64, 128, e4m3, packed=3), "packed is 3"),
        (lambda: kit.HeadOperand(64, 64, bf16, piece=12), "piece is 12"),
        (lambda: kit.HeadOperand(64, 64, bf16, packed=8).stored(1, 8, 8, 12), "boxes of 12 rows"),
        (lambda: kit.HeadOperand(32, 64, bf16).fragments(smem.alloc(1), warp=kit.warp_index()), "32 rows"),
        (
            lambda: kit.HeadOperand(64, 64, bf16).fragments(smem.alloc(1), warp=kit.warp_index(), count=5),
            "count is 5",
        ),
    ],
)
def test_what_is_refused(call: Callable[[], object], words: str) -> None:
    def body() -> None:
        with pytest.raises(SpecError, match=words):
            call()

    in_kernel(body, arch="sm_90a")


@pytest.mark.parametrize("elements", [64, 128])
def test_pieces_and_cleared_rows(elements: int) -> None:
    """Rows of a tile from two places, and zeros behind a row that a register names."""
    operand = kit.HeadOperand(32, elements, bf16, piece=16)
    words = operand.nbytes // 4

    @kernel(
        in_specs=(operand.spec(B, S, H), Tile(1, u32)),
        out_specs=(Tile(words, f32),),
        block=64,
        arch="sm_90a",
    )
    def load(X, number, Y):  # type: ignore[no-untyped-def]
        tiles = operand.stages(2)
        full = smem.alloc(1, b64)
        warp, thread = kit.warp_index(), ptx.special.tid.x()
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
            with ptx.for_(0, 32, 16) as row:
                operand.load(tiles[1], X, position=3, head=1, batch=row >> 4, mbar=full, row=row)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(full, 0)
        operand.clear(tiles[1], ptx.load(u32, number.at(0)), thread=thread, threads=64)
        ptx.bar.sync(0)
        with ptx.for_(thread, words, 64) as word:
            ptx.store(Y.at(word), smem.load(f32, ptx.addr(tiles[1].addr + word * 4)))

    x = np.random.default_rng(elements).integers(1, 1 << 14, (B, S, H, elements), np.uint16)
    for first in (0, 21, 32):
        report = load.simulate(x.view(ml_dtypes.bfloat16), np.array([first], np.uint32), sanitize="strict")
        assert report.verdict == "clean", str(report)
        halves = report.outputs[0].view(np.uint16).reshape(elements // 64, 32, 64)
        for row in range(32):
            for chunk in range(8):
                place = 8 * (chunk ^ row % 8)
                expected = x[row // 16, 3 + row % 16, 1].reshape(-1, 64)[:, 8 * chunk : 8 * chunk + 8]
                found = halves[:, row, place : place + 8]
                assert np.array_equal(found, expected if row < first else np.zeros_like(expected))
