"""Operands that CTAs of a cluster share: every CTA gets its whole tiles, whoever loads which part."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, ScalarType, SpecError, Tile, bf16, e4m3, f32, kernel, kit, ptx, smem, u32

NUMPY = {bf16: ml_dtypes.bfloat16, f32: np.float32, e4m3: ml_dtypes.float8_e4m3fn}
ROWS, COLUMNS = 128, 128  # of a CTA's tiles


def copied(grid: kit.ClusterGrid, dtype: ScalarType, majors: str, batch: bool) -> Kernel:
    """Each CTA stores the words of both stages of its A and B as they lie in shared memory: two steps of K."""
    named = [{"K": "K", "M": "MN"}[letter] for letter in majors]
    operands = kit.SharedOperands(
        grid, (ROWS, COLUMNS), dtype, a_major=named[0], b_major=named[1], batch=False, b_batch=batch
    )
    words = (ROWS + COLUMNS) * 128 // 4

    @kernel(
        in_specs=(
            operands.a.spec(ROWS * grid.rows, 2 * operands.k),
            operands.b.spec(COLUMNS * grid.columns, 2 * operands.k, 2 if batch else None),
        ),
        out_specs=(Tile(grid.size, 2, words, u32),),
        grid=grid.size,
        block=64,
        cluster=(grid.size, 1, 1),
        arch="sm_90a",
        extern_smem=True,
    )
    def copy(A, B, out):  # type: ignore[no-untyped-def]
        warp, rank = kit.warp_index(), ptx.cluster.rank()
        tiles = operands.stages(2)
        ring = kit.Ring(2, consumers=grid.readers)
        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()
        row, column = grid.place(rank)
        with kit.single_thread(warp, 0):
            operands.join(rank)
            producer = ring.producer()
            with ptx.for_(0, 2 * operands.k, operands.k) as k:
                slot = producer.acquire()
                operands.load(
                    slot, A, B, row=row * ROWS, column=column * COLUMNS, k=k, b_batch=1 if batch else None
                )
                producer.advance()
        with kit.single_warp(warp, 1):
            operands.hand_back_as(rank, ptx.warp.elect())
            consumer = ring.consumer()
            lane = ptx.special.laneid()
            with ptx.for_(0, 2) as step:
                slot = consumer.acquire()
                for i, tile in enumerate(tiles):
                    with ptx.for_(lane, ROWS * 32, 32) as word:
                        value = smem.load(u32, tile[slot.index].addr + word * 4)
                        ptx.inst.st.global_.u32(out.at(rank, step, word + i * ROWS * 32), value)
                ptx.warp.sync()
                operands.hand_back(consumer)
        ptx.cluster.sync()

    return copy


def _boxes(x: np.ndarray, major: str) -> np.ndarray:
    """A tile's bytes as TMA writes them: rows of 128 bytes, whose pieces of 16 bytes are permuted."""
    if major == "M":
        width = 128 // x.dtype.itemsize
        x = np.concatenate([x[i : i + width].T for i in range(0, len(x), width)])
    pieces = np.ascontiguousarray(x).view(np.uint32).reshape(-1, 8, 4)
    rows = np.arange(len(pieces))
    return np.stack([pieces[rows, piece ^ (rows & 7)] for piece in range(8)], axis=1).ravel()


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("extents", "dtype", "majors", "batch"),
    [
        ((1, 1), bf16, "KK", True),
        ((2, 1), bf16, "MM", False),
        ((1, 2), bf16, "MK", False),
        ((2, 2), e4m3, "KK", False),
        ((4, 2), f32, "KK", True),
    ],
)
@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_every_cta_gets_its_tiles(
    extents: tuple[int, int], dtype: ScalarType, majors: str, batch: bool, schedule: str
) -> None:
    grid = kit.ClusterGrid(*extents)
    rng = np.random.default_rng(0)
    k = 2 * 128 // dtype.nbytes
    a = rng.integers(-8, 8, (ROWS * grid.rows, k)).astype(NUMPY[dtype])
    b = rng.integers(-8, 8, (2, COLUMNS * grid.columns, k)).astype(NUMPY[dtype])
    given = [
        np.ascontiguousarray(x.swapaxes(-1, -2)) if major == "M" else x
        for x, major in zip((a, b if batch else b[1]), majors, strict=True)
    ]
    report = copied(grid, dtype, majors, batch).simulate(*given, schedule=schedule, sanitize="strict")
    assert report.verdict == "clean", str(report)
    for rank in range(grid.size):
        row, column = rank % grid.rows, rank // grid.rows
        for step in range(2):
            part = slice(step * k // 2, (step + 1) * k // 2)
            tiles = a[row * ROWS :][:ROWS, part], b[1, column * COLUMNS :][:COLUMNS, part]
            expected = np.concatenate([_boxes(x, major) for x, major in zip(tiles, majors, strict=True)])
            assert np.array_equal(report.outputs[0][rank, step], expected)


def test_refusals() -> None:
    with pytest.raises(SpecError, match="cannot share 129 rows of A"):
        kit.SharedOperands(kit.ClusterGrid(1, 2), (129, 128), bf16)
    with pytest.raises(SpecError, match="types of one size"):
        kit.SharedOperands(kit.ClusterGrid(1, 1), (128, 128), bf16, e4m3)
