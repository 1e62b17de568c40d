"""Five kernels as authors write them, each with one bug that experts have shipped, and the same kernels mended.

``wrong`` chooses the kernel with the bug. The line that has it, or that lacks what is missing, is marked with
``BUG``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from pyptx import (
    InstructionDescriptor,
    Kernel,
    Layout,
    OperandTile,
    Tile,
    b32,
    b64,
    bf16,
    f32,
    kernel,
    ptx,
    reg,
    smem,
)

__all__ = ["PLANTED", "Planted"]

STAGES, TILES, WIDTH = 2, 5, 64


@dataclass(frozen=True)
class Planted:
    """One kernel: ``build(wrong)`` makes it; its inputs, what it must compute, and what the report must say.

    Attributes:
        rule: the rule of the first finding.
        remedy: the remedy of this finding in the DSL.
        words: words of why, and of the advice.
    """

    build: Callable[[bool], Kernel]
    inputs: tuple[Any, ...]
    expected: Any
    rule: str
    remedy: str
    words: tuple[str, ...]


def ring_with_an_early_hand_back(wrong: bool) -> Kernel:
    """A warp fills a ring of two stages by TMA; two warps add the tiles. They arrive on ``empty`` too early."""

    @kernel(
        in_specs=(Tile(TILES * WIDTH, f32, Layout.TMA_NONE, tma_box=(WIDTH,)),),
        out_specs=(Tile(WIDTH, f32),),
        block=(96,),
        arch="sm_90a",
    )
    def sum_tiles(X, Y):
        tid = ptx.special.tid.x()
        tiles = smem.alloc(WIDTH, f32, align=128, stages=STAGES, name="tiles")
        full = smem.alloc(1, b64, stages=STAGES, name="full")
        empty = smem.alloc(1, b64, stages=STAGES, name="empty")
        with ptx.if_(tid == 0):
            for stage in range(STAGES):
                ptx.mbarrier.init(full[stage], 1)
                ptx.mbarrier.init(empty[stage], WIDTH)
        ptx.bar.sync(0)
        with ptx.if_(tid == 64):
            for tile in range(TILES):
                stage, turn = tile % STAGES, tile // STAGES
                ptx.mbarrier.wait(empty[stage], turn & 1 ^ 1)
                ptx.mbarrier.arrive_expect_tx(full[stage], WIDTH * 4)
                ptx.cp.async_.bulk.tensor_1d(
                    dst=tiles[stage], src=X.tma_desc(), coord=tile * WIDTH, mbar=full[stage]
                )
        with ptx.if_(tid < WIDTH):
            total = reg.scalar(f32, init=0.0)
            for tile in range(TILES):
                stage, turn = tile % STAGES, tile // STAGES
                ptx.mbarrier.wait(full[stage], turn & 1)
                if wrong:
                    ptx.mbarrier.arrive(empty[stage])  # BUG
                total += smem.load(f32, tiles[stage].at(tid))
                if not wrong:
                    ptx.mbarrier.arrive(empty[stage])
            ptx.store(Y.at(tid), total, space="global")

    return sum_tiles


def store_without_a_fence(wrong: bool) -> Kernel:
    """Warps scale a tile in shared memory, and TMA stores it. The proxy fence is missing."""

    @kernel(
        in_specs=(Tile(4, WIDTH, f32),),
        out_specs=(Tile(4, WIDTH, f32, Layout.TMA_NONE, tma_box=(4, WIDTH)),),
        block=(128,),
        arch="sm_90a",
    )
    def scale(X, Y):
        tid = ptx.special.tid.x()
        warp, lane = tid >> 5, tid & 31
        tile = smem.alloc((4, WIDTH), f32, align=128, name="tile")
        for half in range(0, WIDTH, 32):
            x = ptx.load(f32, X.at(warp, lane + half), space="global")
            smem.store(tile.at(warp, lane + half), x * 3.0)  # BUG: no fence behind the stores
        if not wrong:
            ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            ptx.cp.async_.bulk.tensor_2d(dst=Y.tma_desc(), src=tile, coord=(0, 0))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    return scale


def wait_with_the_wrong_parity(wrong: bool) -> Kernel:
    """A persistent loop fills one stage again and again; the readers wait for the same parity each time."""

    @kernel(
        in_specs=(Tile(TILES * WIDTH, f32, Layout.TMA_NONE, tma_box=(WIDTH,)),),
        out_specs=(Tile(TILES * WIDTH, f32),),
        block=(WIDTH,),
        arch="sm_90a",
    )
    def double(X, Y):
        tid = ptx.special.tid.x()
        tile = smem.alloc(WIDTH, f32, align=128, name="tile")
        full = smem.alloc(1, b64, name="full")
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full, 1)
        ptx.bar.sync(0)
        parity = reg.scalar(b32, init=0)
        for number in range(TILES):
            with ptx.if_(tid == 0):
                ptx.mbarrier.arrive_expect_tx(full, WIDTH * 4)
                ptx.cp.async_.bulk.tensor_1d(dst=tile, src=X.tma_desc(), coord=number * WIDTH, mbar=full)
            ptx.mbarrier.wait(full, parity)  # BUG: the parity never changes
            if not wrong:
                parity ^= 1
            x = smem.load(f32, tile.at(tid))
            ptx.store(Y.at(tid + number * WIDTH), x * 2.0, space="global")
            ptx.fence.proxy_async("shared::cta")
            ptx.bar.sync(0)

    return double


M, N, K = 128, 32, 64
IDESC = InstructionDescriptor("f16", M, N, "bf16", "bf16", "f32")


def _gemm(rounds: int, waits: bool, meets: bool) -> Kernel:
    """``rounds`` products of one pair of tiles, in one accumulator that four warps drain.

    Args:
        waits: whether the warps wait for their loads before they hand the accumulator back.
        meets: whether all warps meet before the tensor memory is freed.
    """

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(M, K)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(N, K)),
        ),
        out_specs=(Tile(rounds * M, N, f32),),
        block=(160,),
        arch="sm_100a",
    )
    def gemm(A, B, D):
        tid = ptx.special.tid.x()
        warp = tid >> 5
        a = smem.alloc((M, K), bf16, swizzle="128B", name="a")
        b = smem.alloc((N, K), bf16, swizzle="128B", name="b")
        loaded, done = smem.alloc(1, b64, name="loaded"), smem.alloc(1, b64, name="done")
        drained, slot = smem.alloc(1, b64, name="drained"), smem.alloc(1, b32, name="slot")
        with ptx.if_(warp == 4):
            ptx.tcgen05.alloc(slot, N)
            with ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.init(loaded, 1)
                ptx.mbarrier.init(done, 1)
                ptx.mbarrier.init(drained, 128)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, slot)
        with ptx.if_(warp == 4), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.arrive_expect_tx(loaded, a.nbytes + b.nbytes)
            ptx.cp.async_.bulk.tensor_2d(dst=a, src=A.tma_desc(), coord=(0, 0), mbar=loaded)
            ptx.cp.async_.bulk.tensor_2d(dst=b, src=B.tma_desc(), coord=(0, 0), mbar=loaded)
            ptx.mbarrier.wait(loaded, 0)
            of_a, of_b = ptx.tcgen05.smem_descriptor(a), ptx.tcgen05.smem_descriptor(b)
            for turn in range(rounds):
                if turn:
                    ptx.mbarrier.wait(drained, turn & 1 ^ 1)
                    ptx.tcgen05.fence_after_thread_sync()
                for k in range(0, K, IDESC.k):
                    step = OperandTile(M, K, 16).k_offset(k)
                    at_a, at_b = ptx.tcgen05.advance(of_a, step), ptx.tcgen05.advance(of_b, step)
                    ptx.tcgen05.mma(tmem, at_a, at_b, IDESC, pred_operand=k > 0)
                ptx.tcgen05.commit(done)
        with ptx.if_(warp < 4):
            row = reg.array(b32, N)
            for turn in range(rounds):
                ptx.mbarrier.wait(done, turn & 1)
                ptx.tcgen05.fence_after_thread_sync()
                ptx.tcgen05.ld(row, ptx.tcgen05.address(tmem, lane=warp << 5))
                if waits:
                    ptx.tcgen05.wait_ld()
                ptx.tcgen05.fence_before_thread_sync()
                ptx.mbarrier.arrive(drained)  # BUG without waits: the loads may still be in flight
                place = D.at(tid + turn * M, 0)
                for n in range(0, N, 4):
                    ptx.store(ptx.addr(place, 4 * n), row[n : n + 4], space="global")
            ptx.tcgen05.wait_ld()
            ptx.tcgen05.fence_before_thread_sync()
        if meets:
            ptx.bar.sync(0)
        with ptx.if_(warp == 4):
            ptx.tcgen05.fence_after_thread_sync()
            if not meets:
                ptx.mbarrier.wait(done, rounds & 1 ^ 1)
            ptx.tcgen05.dealloc(tmem, N)  # BUG without meets: other warps still load
            ptx.tcgen05.relinquish_alloc_permit()

    return gemm


def accumulator_handed_back_before_its_loads(wrong: bool) -> Kernel:
    """Two products in one accumulator: the epilogue lets the second one begin before its loads are complete."""
    return _gemm(2, waits=not wrong, meets=True)


def freed_under_loads(wrong: bool) -> Kernel:
    """The warp that allocated the tensor memory waits for the MMAs, and frees it while other warps load."""
    return _gemm(1, waits=True, meets=not wrong)


_X = np.arange(TILES * WIDTH, dtype=np.float32)
_S = np.arange(4 * WIDTH, dtype=np.float32).reshape(4, WIDTH)
_RNG = np.random.default_rng(0)
_A, _B = (_RNG.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
_D = _A.astype(np.float32) @ _B.astype(np.float32).T

PLANTED = {
    "ring-with-an-early-hand-back": Planted(
        ring_with_an_early_hand_back,
        (_X,),
        _X.reshape(TILES, WIDTH).sum(0),
        "data-race",
        "ptx.mbarrier.arrive(empty[0])",
        ("arrives at empty[0]", "before the access", "arrive after"),
    ),
    "store-without-a-fence": Planted(
        store_without_a_fence,
        (_S,),
        _S * 3,
        "proxy-fence-missing",
        'ptx.fence.proxy_async("shared::cta")',
        ("no fence between the proxies", "where they synchronize"),
    ),
    "wait-with-the-wrong-parity": Planted(
        wait_with_the_wrong_parity,
        (_X,),
        _X * 2,
        "deadlock",
        "parity ^= 1",
        ("has parity 0", "phase 1 (parity 1) is complete", "flip the parity after each wait"),
    ),
    "accumulator-handed-back-before-its-loads": Planted(
        accumulator_handed_back_before_its_loads,
        (_A, _B),
        np.concatenate([_D, _D]),
        "data-race",
        "ptx.tcgen05.wait_ld()",
        ("does not wait for its load of tensor memory", "ahead of their synchronization"),
    ),
    "freed-under-loads": Planted(
        freed_under_loads,
        (_A, _B),
        _D,
        "data-race",
        "ptx.bar.sync(0)",
        ("let all warps of the CTA meet",),
    ),
}
