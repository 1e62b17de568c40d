"""The products of a stage by wgmma: what is recorded, and stages of every type and major multiplied right."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import (
    Kernel,
    ScalarType,
    SpecError,
    Tile,
    b64,
    bf16,
    e4m3,
    e5m2,
    f16,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    smem,
    tf32,
    u64,
)
from tests.dsl.helpers import body_of, in_kernel

M, N = 128, 72
NUMPY = {
    bf16: ml_dtypes.bfloat16,
    f16: np.float16,
    f32: np.float32,
    e4m3: ml_dtypes.float8_e4m3fn,
    e5m2: ml_dtypes.float8_e5m2,
}


def product(a: ScalarType, b: ScalarType, majors: str, n: int, rows: str) -> Kernel:
    """D[128, n] = A @ B.T with one stage of K, the second of two. ``rows``: by blocks or by warpgroups."""
    k = 128 // a.nbytes
    blocks, groups = (2, 1) if rows == "blocks" else (1, 2)
    named = [{"K": "K", "M": "MN"}[letter] for letter in majors]
    loads = [kit.TmaOperand(r, k, t, major=m) for r, t, m in ((M, a, named[0]), (n, b, named[1]))]

    @kernel(
        in_specs=(loads[0].spec(M, k), loads[1].spec(n, k)),
        out_specs=(Tile(M, n, f32),),
        block=128 * groups,
        arch="sm_90a",
        extern_smem=True,
    )
    def one(A, B, D):  # type: ignore[no-untyped-def]
        warp = kit.warp_index()
        tiles = [load.stages(2) for load in loads]
        loaded = smem.alloc(1, b64)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.arrive_expect_tx(loaded, loads[0].nbytes + loads[1].nbytes)
            for load, tile, array in zip(loads, tiles, (A, B), strict=True):
                load.load(tile[1], array, row=0, k=0, mbar=loaded)
        ptx.warp.sync()
        first = 0 if blocks == 2 else (warp >> 2) * 64
        kinds = [tf32 if t is f32 else t for t in (a, b)]
        multiply = kit.WgmmaMultiply(
            *tiles,
            n=n,
            k=k,
            dtype=kinds[0],
            b_type=kinds[1],
            first=first,
            blocks=blocks,
            a_major=named[0],
            b_major=named[1],
        )
        accs = [ptx.wgmma.accumulator(n=n, name=f"acc{i}_") for i in range(blocks)]
        ptx.mbarrier.wait(loaded, 0)
        multiply(accs, 1, False)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        for block, acc in enumerate(accs):
            corner = reg.scalar(u64)
            ptx.inst.mad.wide.u32(corner, (warp >> 2) * 64 + 64 * block, 4 * n, D.ptr)
            kit.wgmma_epilogue.direct(acc, corner, 4 * n)

    return one


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("a", "b", "majors", "n"),
    [
        (bf16, bf16, "KK", N),
        (f16, f16, "MK", N),
        (bf16, bf16, "KM", 128),
        (f16, f16, "MM", 64),
        (f32, f32, "KK", N),
        (e4m3, e5m2, "KK", 40),
    ],
)
@pytest.mark.parametrize("rows", ["blocks", "groups"])
def test_products(a: ScalarType, b: ScalarType, majors: str, n: int, rows: str) -> None:
    rng = np.random.default_rng(n)
    k = 128 // a.nbytes
    # Small integers, whose sums are exact.
    left, right = (rng.integers(-2, 3, (r, k)).astype(NUMPY[t]) for r, t in ((M, a), (n, b)))
    given = [np.ascontiguousarray(x.T) if m == "M" else x for x, m in zip((left, right), majors, strict=True)]
    report = product(a, b, majors, n, rows).simulate(*given, sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert np.array_equal(report.outputs[0], left.astype(np.float32) @ right.astype(np.float32).T)


def test_what_it_records() -> None:
    def body() -> None:
        tiles = [smem.alloc((rows, 64), bf16, swizzle="128B", stages=2) for rows in (64, 32)]
        multiply = kit.WgmmaMultiply(*tiles, n=32, k=64, dtype=bf16)
        multiply([ptx.wgmma.accumulator(n=32)], 1)

    recorded = [line.split()[0] for line in body_of(body, arch="sm_90a", extern_smem=True)]
    assert sum(word.startswith("wgmma.mma_async") for word in recorded) == 4
    # Three further descriptors of A and of B.
    assert recorded.count("add.u64") == 6


def test_refusals() -> None:
    def check() -> None:
        a, b = (smem.alloc((rows, 64), bf16, swizzle="128B", stages=2) for rows in (64, 32))
        with pytest.raises(SpecError, match="more than the 64 rows of A"):
            kit.WgmmaMultiply(a, b, n=32, k=64, dtype=bf16, blocks=2)
        with pytest.raises(SpecError, match="expected stages with 128-byte swizzle"):
            kit.WgmmaMultiply(a[0], b, n=32, k=64, dtype=bf16)
        multiply = kit.WgmmaMultiply(a, b, n=32, k=64, dtype=bf16)
        with pytest.raises(SpecError, match="2 accumulators: expected 1"):
            multiply([ptx.wgmma.accumulator(n=32)] * 2, 0)

    in_kernel(check, arch="sm_90a", extern_smem=True)
