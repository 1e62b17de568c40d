"""Tiles of bytes turned in shared memory: products of integers are exact with every width of rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import SpecError, Tile, b64, bf16, f32, kernel, kit, ptx, smem
from pyptx.core.types import ScalarType, e4m3, e5m2

NUMPY = {e4m3: ml_dtypes.float8_e4m3fn, e5m2: ml_dtypes.float8_e5m2}


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("keys", "elements", "dtype", "warps", "ahead"),
    [
        (32, 128, e4m3, 1, 1),
        (64, 128, e4m3, 3, 2),
        (96, 256, e5m2, 4, 2),
        (128, 256, e4m3, 2, 4),
        (256, 128, e4m3, 4, 3),
    ],
)
def test_scores_times_a_turned_tile(
    keys: int, elements: int, dtype: ScalarType, warps: int, ahead: int
) -> None:
    """O = S V: S is an accumulator, whose columns are rows of V as they lie in memory."""
    loaded = kit.HeadOperand(keys, elements, dtype)
    turned = kit.TransposedOperand(loaded)

    @kernel(
        in_specs=(Tile(64, keys, f32), loaded.spec(1, keys, 1)),
        out_specs=(Tile(64, elements, f32),),
        block=128,
        arch="sm_90a",
    )
    def product(S, V, O):  # type: ignore[no-untyped-def]  # noqa: E741
        warp = kit.warp_index()
        raw, tiles = loaded.stages(1), turned.stages(2)
        full = smem.alloc(1, b64)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.arrive_expect_tx(full, loaded.nbytes)
            loaded.load(raw[0], V, position=0, head=0, batch=0, mbar=full)
        ptx.mbarrier.wait(full, 0)
        with ptx.if_(warp < warps):
            turned.turn(raw[0], tiles[1], warp=warp, warps=warps, ahead=ahead)
        ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        s, o = ptx.wgmma.accumulator(n=keys), ptx.wgmma.accumulator(n=elements)
        origin = s.origin()
        for i, value in enumerate(s):
            ptx.inst.ld.global_.f32(value, S.at(origin.row + s.row(i), origin.column + s.column(i)))
        p = kit.a_fragments(s, dtype)
        ptx.wgmma.fence()
        for i, (a, b) in enumerate(zip(p, turned.descriptors(tiles[0]).steps(1), strict=True)):
            ptx.wgmma.mma_async(o, a, b, scale_d=i > 0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        kit.wgmma_epilogue.direct(o, O.ptr, 4 * elements)

    rng = np.random.default_rng(keys)
    s = rng.integers(-4, 5, (64, keys)).astype(np.float32)
    v = rng.integers(-4, 5, (keys, elements)).astype(NUMPY[dtype])
    report = product.simulate(s, v[None, :, None], sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert np.array_equal(report.outputs[0], s @ v.astype(np.float32))


def test_what_is_refused() -> None:
    with pytest.raises(SpecError, match="8-bit elements"):
        kit.TransposedOperand(kit.HeadOperand(64, 64, bf16))
    with pytest.raises(SpecError, match="48 rows"):
        kit.TransposedOperand(kit.HeadOperand(48, 128, e4m3))
