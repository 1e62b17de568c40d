"""beta * C in an epilogue: C of every type arrives before it is added, whatever is late, in every round."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, Layout, ScalarType, SpecError, Tile, bf16, f16, f32, kernel, kit, ptx, smem
from tests.dsl.helpers import in_kernel

NUMPY = {f32: np.float32, bf16: ml_dtypes.bfloat16, f16: np.float16}
ROWS = 64


def added(columns: int, dtype: ScalarType, stages: int, times: int, beta: float) -> Kernel:
    """D = row + column / 4 + beta * C, ``times`` tiles of 64 rows one below the other."""
    chunk = 128 // dtype.nbytes
    tile = Tile(times * ROWS, columns, dtype, Layout.TMA_128B, tma_box=(kit.wgmma_epilogue.ROWS, chunk))

    @kernel(in_specs=(tile,), out_specs=(tile,), block=128, arch="sm_90a", extern_smem=True)
    def add(C, D):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        staging = smem.alloc((ROWS, chunk), dtype, swizzle="128B", stages=stages)
        addend = kit.Addend(staging, beta=beta, warps=4)
        with kit.single_thread(warp, 0):
            addend.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        leader = ptx.warp.elect()
        addend.begin(C.tma_desc(), warp=warp, leader=leader)
        with ptx.for_(0, times * ROWS, ROWS) as first:
            acc = ptx.wgmma.accumulator(n=columns)
            origin = acc.origin()
            for i, value in enumerate(acc):
                ptx.inst.cvt.rn.f32.u32(value, (origin.row + acc.row(i)) * 4 + origin.column + acc.column(i))
                ptx.inst.mul.f32(value, value, 0.25)
            addend.prefetch((0, first))
            kit.wgmma_epilogue.through_shared(
                acc, staging, D.tma_desc(), (0, first), warp=warp, leader=leader, addend=addend
            )
        kit.wgmma_epilogue.settle(leader)

    return add


@pytest.mark.one_in(6)
@pytest.mark.parametrize("schedule", ["eager", "late", "starve:tma", "random"])
@pytest.mark.parametrize(
    ("columns", "dtype", "stages", "times"),
    [(64, f32, 1, 2), (128, f32, 2, 3), (192, bf16, 3, 2), (128, f16, 1, 2), (128, bf16, 2, 3)],
)
def test_added(columns: int, dtype: ScalarType, stages: int, times: int, schedule: str) -> None:
    rng = np.random.default_rng(columns)
    c = (rng.integers(-64, 64, (times * ROWS, columns)) / 4).astype(NUMPY[dtype])
    place = np.arange(ROWS)[:, None] + np.arange(columns) / 4
    # Exact in f32, and rounded once.
    expected = (np.tile(place, (times, 1)) + 0.5 * c.astype(np.float64)).astype(NUMPY[dtype])
    report = added(columns, dtype, stages, times, 0.5).simulate(c, schedule=schedule, sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert np.array_equal(report.outputs[0], expected)


def test_refusals() -> None:
    def check() -> None:
        with pytest.raises(SpecError, match="fewer than 16 rows"):
            kit.Addend(smem.alloc((64, 64), bf16, swizzle="128B", stages=2), beta=1.0, warps=8)
        with pytest.raises(SpecError, match="expected stages of 16 rows"):
            kit.Addend(smem.alloc((64, 64), bf16, swizzle="128B"), beta=1.0, warps=4)

    in_kernel(check, arch="sm_90a", extern_smem=True)
