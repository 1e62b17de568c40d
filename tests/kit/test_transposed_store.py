"""The transpose of an accumulator in shared memory, as TMA stores it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Layout, SpecError, Tile, bf16, f16, f32, kernel, kit, ptx, smem
from pyptx.core.types import ScalarType


@pytest.mark.sample(2)
@pytest.mark.parametrize(("columns", "dtype"), [(16, bf16), (80, f16), (128, bf16)])
def test_transpose(columns: int, dtype: ScalarType) -> None:
    @kernel(
        in_specs=(Tile(64, columns, f32),),
        out_specs=(Tile(columns, 64, dtype, Layout.TMA_128B, tma_box=(columns, 64)),),
        block=128,
        arch="sm_90a",
    )
    def transpose(X, Y):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        tile = smem.alloc((columns, 64), dtype, swizzle="128B")
        acc = ptx.wgmma.accumulator(n=columns)
        origin = acc.origin()
        for i, value in enumerate(acc):
            ptx.inst.ld.global_.f32(value, X.at(origin.row + acc.row(i), origin.column + acc.column(i)))
        kit.TransposedStore(warp).store(kit.a_fragments(acc, dtype), tile)
        ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            ptx.cp.async_.bulk.tensor_2d(dst=Y.tma_desc(), src=tile, coord=(0, 0))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    x = np.random.default_rng(0).standard_normal((64, columns)).astype(np.float32)
    report = transpose.simulate(x, sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert np.array_equal(report.outputs[0], x.T.astype(report.outputs[0].dtype))


@pytest.mark.parametrize(
    "options", [{"swizzle": "none"}, {"shape": (48, 64)}, {"dtype": f16}, {"stages": 2}], ids=str
)
def test_what_is_refused(options: dict[str, Any]) -> None:
    @kernel(out_specs=(Tile(1, f32),), block=128, arch="sm_90a")
    def other(Y):  # type: ignore[no-untyped-def]
        given = {"shape": (32, 64), "dtype": bf16, "swizzle": "128B", **options}
        tile = smem.alloc(given.pop("shape"), given.pop("dtype"), **given)
        acc = ptx.wgmma.accumulator(n=32)
        for value in acc:
            value.set(0.0)
        kit.TransposedStore(kit.warp_index()).store(kit.a_fragments(acc), tile)

    with pytest.raises(SpecError, match=r"expected \(32, 64\) elements"):
        other.ptx()
