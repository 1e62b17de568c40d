"""An operand loaded by TMA: its spec, its boxes, and what it refuses. Products of such operands: tests/examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, b64, bf16, e4m3, f32, kernel, kit, ptx, smem, u8
from pyptx.layout import OperandTile, swizzle
from tests.dsl.helpers import in_kernel


@pytest.mark.parametrize(
    ("operand", "dims", "box"),
    [
        (kit.TmaOperand(128, 64, bf16), (500, 72), (128, 64)),
        (kit.TmaOperand(128, 128, bf16), (500, 72), (128, 64)),
        (kit.TmaOperand(128, 64, bf16, major="MN"), (72, 504), (64, 64)),
        (kit.TmaOperand(64, 32, f32, swizzle="64B"), (500, 72), (64, 16)),
        (kit.TmaOperand(128, 128, e4m3, major="MN", batch=True), (3, 72, 512), (1, 128, 128)),
        (kit.TmaOperand(128, 40, f32, major="MN"), (72, 500), (40, 32)),
    ],
)
def test_specs(operand: kit.TmaOperand, dims: tuple[int, ...], box: tuple[int, ...]) -> None:
    rows, k = dims[-2:] if operand.major == "K" else dims[:-3:-1]
    spec = operand.spec(rows, k, *dims[:-2])
    assert spec.dims == dims and spec.tma_box == box and spec.dtype is operand.dtype
    assert operand.nbytes == operand.rows * operand.k * operand.dtype.nbytes


def test_rows_that_are_longer_than_those_of_the_operand() -> None:
    spec = kit.TmaOperand(128, 64, bf16).spec(300, 257, pitch=264)
    assert spec.dims == (300, 264) and spec.tma_box == (128, 64)
    assert spec.tma_shape == (300, 257) and spec.tma_strides == (528, 2)
    spec = kit.TmaOperand(128, 64, bf16, major="MN").spec(300, 70, pitch=304)
    assert spec.dims == (70, 304) and spec.tma_shape == (70, 300) and spec.tma_strides == (608, 2)
    assert kit.TmaOperand(128, 64, bf16).spec("M", 64, pitch=64).dims == ("M", 64)
    for rows, pitch, words in (
        (300, 256, "at least the 257"),
        (300, 260, "multiple of 8"),
        ("M", 264, "two numbers"),
    ):
        with pytest.raises(SpecError, match=words):
            kit.TmaOperand(128, 64, bf16).spec(rows, 257, pitch=pitch)


def copied(operand: kit.TmaOperand, rows: int, k: int, row: int, at: int) -> Kernel:
    """The bytes of the second of two stages after a load at ``(row, at)``."""

    @kernel(in_specs=(operand.spec(rows, k),), out_specs=(Tile(operand.nbytes, u8),), block=32, arch="sm_90a")
    def copy(A, out):  # type: ignore[no-untyped-def]
        tile, full = operand.stages(2), smem.alloc(1, b64)
        assert tile.nbytes == operand.nbytes
        leader = ptx.warp.elect()
        with ptx.if_(leader):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
            operand.load(tile[1], A, row=row, k=at, mbar=full)
            ptx.mbarrier.wait(full, 0)
            ptx.cp.async_.bulk.store(dst=out.ptr, src=tile[1], size=operand.nbytes)
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    return copy


@pytest.mark.parametrize(
    "options", [{}, {"major": "MN"}, {"swizzle": "64B"}, {"major": "MN", "swizzle": "32B"}]
)
@pytest.mark.parametrize(("row", "at"), [(0, 0), (64, 8), (40, 56)])
def test_bytes_lie_where_the_descriptor_says(options: dict[str, Any], row: int, at: int) -> None:
    """Numbers of (row, k), read from where OperandTile puts the tile's elements; 0 outside the array."""
    rows, k, extents = 64, 64, (80, 72)
    operand = kit.TmaOperand(rows, k, bf16, **options)
    values = np.arange(1, 1 + extents[0] * extents[1], dtype=np.uint16).reshape(extents)
    array = values if operand.major == "K" else np.ascontiguousarray(values.T)
    report = copied(operand, *extents, row, at).simulate(array.view(bf16.dtype), schedule="late")
    assert report.verdict == "clean", str(report)
    words = report.outputs[0].view(np.uint16)
    tile = OperandTile(rows, k, 16, operand.major, operand.swizzle)
    for m in range(0, rows, 3):
        for j in range(0, k, 5):
            along, across = (j, m) if operand.major == "K" else (m, j)
            height = rows if operand.major == "K" else k
            byte = 2 * along // tile.span * height * tile.span + across * tile.span + 2 * along % tile.span
            inside = row + m < extents[0] and at + j < extents[1]
            expected = values[row + m, at + j] if inside else 0
            assert words[swizzle(byte, operand.swizzle) // 2] == expected


@pytest.mark.parametrize(("row", "at"), [(0, 0), (96, 8), (60, 68)])
def test_atoms_of_32_bytes(row: int, at: int) -> None:
    """CUTLASS's layout of MN-major tf32: Swizzle<2,5,2> of bytes, over atoms of 32 elements of M by 4 of K."""
    rows, k, extents = 64, 24, (140, 72)
    operand = kit.TmaOperand(rows, k, f32, major="MN")
    assert operand.swizzle == "128B_ATOM_32B"
    values = np.arange(1, 1 + extents[0] * extents[1], dtype=np.uint32).reshape(extents)
    report = copied(operand, *extents, row, at).simulate(
        np.ascontiguousarray(values.T).view(np.float32), schedule="late", sanitize="strict"
    )
    assert report.verdict == "clean", str(report)
    words = report.outputs[0].view(np.uint32)
    for m in range(rows):
        for j in range(k):
            byte = 4 * (m % 32) + 128 * j + 128 * k * (m // 32)  # (32, k, boxes):(1, 32, 32 k) elements
            byte ^= (byte >> 7 & 3) << 5  # Swizzle<2,5,2>: bits [7, 9) onto bits [5, 7)
            inside = row + m < extents[0] and at + j < extents[1]
            assert words[byte // 4] == (values[row + m, at + j] if inside else 0), (m, j)


def test_refusals() -> None:
    for arguments, options, words in (
        ((128, 64, bf16), {"swizzle": "none"}, "swizzle is 'none'"),
        ((128, 48, bf16), {}, "K = 48"),
        ((512, 64, bf16), {}, "512 rows: TMA has at most 256"),
        ((128, 32, f32), {"major": "MN", "swizzle": "128B"}, "32-bit elements"),
        ((128, 64, bf16), {"major": "MN", "swizzle": "128B_ATOM_32B"}, "16-bit elements"),
        ((128, 64, bf16), {"swizzle": "128B_ATOM_64B"}, "expected '32B', '64B', '128B', '128B_ATOM_32B'"),
    ):
        with pytest.raises(SpecError, match=words):
            kit.TmaOperand(*arguments, **options)  # type: ignore[arg-type]
    operand = kit.TmaOperand(128, 64, bf16)
    with pytest.raises(SpecError, match="K is 100"):
        operand.spec(128, 100)
    with pytest.raises(SpecError, match="batch is 2"):
        operand.spec(128, 64, 2)

    def check() -> None:
        with pytest.raises(SpecError, match="batch is 0"):
            operand.load(operand.stages(1)[0], None, row=0, k=0, mbar=smem.alloc(1, b64), batch=0)  # type: ignore[arg-type]

    in_kernel(check)
