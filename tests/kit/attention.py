"""Two products with something in between, for one tile: O = f(Q K^T) V, on Hopper and on Blackwell.

With ``softmax`` f is the softmax of each row; without, f is the identity, so that integers give exact results.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pyptx import Kernel, Layout, ScalarType, Tile, b32, b64, bf16, f32, kernel, kit, ptx, reg, smem
from pyptx.dsl import Reg, RegArray

KEYS, DIM = 128, 64
#: exp(x) = 2 ** (LOG2_E * x)
LOG2_E = 1.4426950408889634


def _specs(queries: int, dtype: ScalarType) -> list[Tile]:
    return [Tile(rows, DIM, dtype, Layout.TMA_128B, tma_box=(rows, DIM)) for rows in (queries, KEYS, KEYS)]


def _load(tiles: list, tensors: tuple, loaded) -> None:  # type: ignore[no-untyped-def, type-arg]
    ptx.mbarrier.arrive_expect_tx(loaded, sum(tile.nbytes for tile in tiles))
    for tile, tensor in zip(tiles, tensors, strict=True):
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=tensor.tma_desc(), coord=(0, 0), mbar=loaded)


def _exponential(value: Reg, scaled: Reg) -> None:
    """Record ``value = exp(value - maximum)``; ``scaled`` is the maximum times -LOG2_E."""
    ptx.inst.fma.rn.f32(value, value, LOG2_E, scaled)
    ptx.ex2(value, out=value)


def on_hopper(softmax: bool, dtype: ScalarType = bf16) -> Kernel:
    """64 queries: S, P and O in the registers of a warpgroup."""

    @kernel(in_specs=_specs(64, dtype), out_specs=(Tile(64, DIM, f32),), block=128, arch="sm_90a")
    def attention(Q, K, V, O):  # type: ignore[no-untyped-def]  # noqa: E741
        warp = kit.warp_index()
        q = smem.alloc((64, DIM), dtype, swizzle="128B")
        k = smem.alloc((KEYS, DIM), dtype, swizzle="128B")
        v = smem.alloc((KEYS, DIM), dtype, swizzle="128B")
        loaded = smem.alloc(1, b64)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            _load([q, k, v], (Q, K, V), loaded)
        ptx.mbarrier.wait(loaded, 0)

        s = ptx.wgmma.accumulator(n=KEYS)
        desc_q, desc_k = ptx.wgmma.descriptor(q), ptx.wgmma.descriptor(k)
        ptx.wgmma.fence()
        for step in range(DIM // 16):
            ptx.wgmma.mma_async(
                s,
                ptx.wgmma.advance(desc_q, 32 * step),
                ptx.wgmma.advance(desc_k, 32 * step),
                atype=dtype,
                scale_d=step > 0,
            )
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)

        if softmax:
            scaled = kit.row_reduce(s, "max")
            for row in scaled:
                ptx.inst.mul.rn.f32(row, row, -LOG2_E)
            rows = sorted({s.row(i) for i in range(s.elements)})
            for i, value in enumerate(s):
                _exponential(value, scaled[rows.index(s.row(i))])
            sums = kit.row_reduce(s, "add", across=False)
        p = kit.a_fragments(s, dtype)
        o = ptx.wgmma.accumulator(n=DIM)
        ptx.wgmma.fence()
        for step, a in enumerate(p):
            desc_v = ptx.wgmma.descriptor(v.rows(16 * step, 16), major="MN")
            ptx.wgmma.mma_async(o, a, desc_v, scale_d=step > 0, trans_b=True)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        if softmax:
            kit.across_lanes(sums, s, "add")
            for i, value in enumerate(o):
                ptx.inst.div.rn.f32(value, value, sums[rows.index(o.row(i))])
        kit.wgmma_epilogue.direct(o, O.at(0, 0).base, 4 * DIM)

    return attention


def on_blackwell(softmax: bool, dtype: ScalarType = bf16, arch: str = "sm_100a") -> Kernel:
    """128 queries, a row for each thread: S, P and O in tensor memory."""
    p_column, o_column, columns = KEYS, KEYS + KEYS // 2, 256

    @kernel(in_specs=_specs(128, dtype), out_specs=(Tile(128, DIM, f32),), block=128, arch=arch)
    def attention(Q, K, V, O):  # type: ignore[no-untyped-def]  # noqa: E741
        warp = kit.warp_index()
        q = smem.alloc((128, DIM), dtype, swizzle="128B")
        k = smem.alloc((KEYS, DIM), dtype, swizzle="128B")
        v = smem.alloc((KEYS, DIM), dtype, swizzle="128B")
        loaded, multiplied, slot = smem.alloc(1, b64), smem.alloc(1, b64), smem.alloc(1, b32)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.mbarrier.init(multiplied, 1)
            ptx.fence.mbarrier_init()
        with kit.single_warp(warp, 1):
            ptx.tcgen05.alloc(slot, columns)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, slot)
        with kit.single_thread(warp, 0):
            _load([q, k, v], (Q, K, V), loaded)
            first = kit.StageMultiply(q, k, m=128, n=KEYS, k=DIM)
            ptx.mbarrier.wait(loaded, 0)
            first(tmem, 0, accumulate=False)
            ptx.tcgen05.commit(multiplied)
        ptx.mbarrier.wait(multiplied, 0)
        ptx.tcgen05.fence_after_thread_sync()

        mine = tmem + (warp << 21)
        words = reg.array(b32, KEYS)
        ptx.tcgen05.ld(words, mine, count=KEYS)
        ptx.tcgen05.wait_ld()
        s = words.view(f32)
        if softmax:
            (scaled,) = kit.row_reduce(s, "max")
            ptx.inst.mul.rn.f32(scaled, scaled, -LOG2_E)
            for value in s:
                _exponential(value, scaled)
            (total,) = kit.row_reduce(s, "add")
        kit.store_a(ptx.addr(mine, p_column), s, dtype)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with kit.single_thread(warp, 0):
            ptx.tcgen05.fence_after_thread_sync()
            second = kit.StageMultiply(None, v, m=128, n=DIM, k=KEYS, a_type=dtype, b_major="MN")
            second(tmem + o_column, 0, accumulate=False, a_tmem=tmem + p_column)
            ptx.tcgen05.commit(multiplied)
        ptx.mbarrier.wait(multiplied, 1)
        ptx.tcgen05.fence_after_thread_sync()

        def divided(chunk: RegArray, _column: int) -> None:
            for value in chunk:
                ptx.inst.div.rn.f32(value, value, total)

        kit.tcgen05_epilogue.direct(
            ptx.addr(mine, o_column),
            O.at(ptx.special.tid.x(), 0).base,
            DIM,
            apply=divided if softmax else None,
        )
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with kit.single_warp(warp, 1):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.relinquish_alloc_permit()
            ptx.tcgen05.dealloc(tmem, columns)

    return attention


def inputs(queries: int, softmax: bool, dtype: type = ml_dtypes.bfloat16) -> list[np.ndarray]:
    """Q, K and V: random numbers, or integers for which every sum is exact, and P too."""
    rng = np.random.default_rng(queries)
    if softmax:
        return [rng.standard_normal((rows, DIM)).astype(dtype) for rows in (queries, KEYS, KEYS)]
    return [rng.integers(-1, 2, (rows, DIM)).astype(dtype) for rows in (queries, KEYS, KEYS)]


def wrong(arrays: list[np.ndarray], found: np.ndarray, softmax: bool) -> float:
    """The largest error as a fraction of its bound; for integers, 0 or infinity.

    P is rounded to bf16, with a relative error of 2**-8 at most (ties to even: 2**-9, beside that of
    ``ex2.approx`` and of the rounded argument); sums in f32 add less.
    """
    q, k, v = (each.astype(np.float64) for each in arrays)
    s = q @ k.T
    if not softmax:
        return 0.0 if np.array_equal(found, s @ v) else np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    total = p.sum(1, keepdims=True)
    bound = 2.0**-8 * (p @ abs(v)) / total
    return float(np.max(abs(found - p @ v / total) / bound))
