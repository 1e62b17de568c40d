"""cuTile's matmul on a B200: ``C[M, N] = A[M, K] @ B[K, N]``, row-major, by ``tcgen05.mma``.

It computes what ``matmul_mma_sync.py`` computes, in the same order of tiles, with the sums in tensor memory::

                                 f16, bf16              f32
    tile tm x tn x tk            128 x 256 x 64         128 x 256 x 32
    instruction                  kind::f16, K = 16      kind::tf32, K = 8
    A in shared memory           K-major, 128-byte swizzle
    B in shared memory           MN-major: rows of K, 128 bytes of N wide
                                 128-byte swizzle       128-byte swizzle of 32-byte atoms
    a stage of A and B           16 + 32 KB
    stages                       4

TMA would load these tiles if K and N were multiples of 16 bytes (``build_gemm_persistent`` of
``gemm_highperf_blackwell.py`` with ``b_major="MN"``).  Here all 256 threads copy 16, 8 or 4 bytes with
``cp.async``, or single elements, so rows may begin anywhere::

    all threads      wait for the copies of slice k -> fence.proxy.async -> barrier
    one lane         tk / K x tcgen05.mma on slice k -> commit to empty[stage]
    all threads      wait empty of the stage before -> copy slice k + 3 into it

The products of slice k may run while the threads wait for those of slice k - 1 and copy.

Rounding: f16 and bf16 products are exact, and sums are in f32.  ``kind::tf32`` ignores the low 13 bits of an
f32: a relative error of up to 2**-10 each, toward zero.  (``matmul_mma_sync.py`` rounds to nearest; here the
tensor core reads what ``cp.async`` has copied.)

Run it: ``python examples/blackwell/cutile/matmul_tcgen05.py``.  It assembles the kernels for B200 and B300
and verifies them in the simulator.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import cutile_harness as harness

from pyptx import (
    OperandTile,
    SpecError,
    Tile,
    b32,
    b64,
    bf16,
    f16,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    s32,
    smem,
    u32,
    u64,
)

TILES = {2: (128, 256, 64), 4: (128, 256, 32)}
THREADS = 256
STAGES = 4
GROUP_SIZE_M = 8  # rows of tiles in a band of swizzle_2d
TARGETS = ("sm_100a", "sm_103a")
#: Relative error of an f32 input of which the tensor core reads the upper 19 bits.
TF32_ROUNDING = 2.0**-10
#: The swizzle of MN-major B, by the bytes of an element.
B_MODES = {2: "128B", 4: "128B_ATOM_32B"}


def build_matmul(
    N, K, dtype=f16, *, stages=STAGES, group_size_m=GROUP_SIZE_M, padding=kit.Padding.ZERO, arch="sm_100a"
):
    """Build the kernel for one N, K and type; call it with A[M, K] and B[K, N].

    Args:
        N, K: columns of C, and length of the sums; any positive numbers. M is a run-time size.
        dtype: type of A, B and C: f16, bf16 or f32 (multiplied as tf32).
        stages: slices of K in shared memory, 2 to 4 of 48 KB.
        group_size_m: rows of tiles in a band of ``swizzle_2d``.
        padding: what lies past the end of A and B, a ``kit.Padding``.
        arch: a target that has tcgen05.
    """
    if dtype not in (f16, bf16, f32):
        raise SpecError(f"dtype is {dtype!r}: expected f16, bf16 or f32")
    if not 2 <= stages <= STAGES:
        raise SpecError(f"stages = {stages}: expected 2 to {STAGES}, each takes 48 KB")
    size = dtype.nbytes
    tm, tn, tk = TILES[size]
    if padding is kit.Padding.UNDETERMINED and K % tk:
        raise SpecError(
            f"K = {K} is no multiple of {tk}, so every sum of C has terms past the end of A and B: "
            "expected a padding that adds nothing",
            hint="padding=kit.Padding.ZERO",
        )
    kind, multiplied = ("f16", dtype) if size == 2 else ("tf32", "tf32")
    tile_a = OperandTile(tm, tk, 8 * size, "K", "128B")
    tile_b = OperandTile(tn, tk, 8 * size, "MN", B_MODES[size])
    idesc = ptx.tcgen05.instruction_descriptor(m=tm, n=tn, kind=kind, a_type=multiplied, b_major="MN")
    step = 32 // size  # K of one product

    @kernel(
        in_specs=(Tile("M", K, dtype), Tile(K, N, dtype)),
        out_specs=(Tile("M", N, dtype),),
        grid=lambda M: kit.tile_order.cdiv(M, tm) * kit.tile_order.cdiv(N, tn),
        block=THREADS,
        arch=arch,
        extern_smem=True,
    )
    def matmul(A, B, C):
        # --- setup ---------------------------------------------------------------------------
        tid = ptx.special.tid.x()
        warp = kit.warp_index()
        M = C.extent(0)
        bidx, bidy = kit.tile_order.swizzle_2d(M, N, tm, tn, group_size_m)
        m_base, n_base = bidx * tm, bidy * tn

        s_a = smem.alloc((tm, tk), dtype, swizzle="128B", stages=stages)
        s_b = smem.alloc((tk, tn), dtype, swizzle=tile_b.swizzle, stages=stages)
        # The barrier of the CTA says that a stage is full. A commit to its mbarrier says that it is empty.
        empty = smem.alloc(stages, b64)
        done = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)
        k_tail = K % tk != 0
        group = {"thread": tid, "threads": THREADS, "padding": padding}
        load_a = kit.TileLoader(A, s_a, (m_base, 0), along=1, ragged=(True, k_tail), **group)
        load_b = kit.TileLoader(B, s_b, (0, n_base), along=0, ragged=(k_tail, N % tn != 0), **group)

        with kit.single_warp(warp, 0):
            ptx.tcgen05.alloc(tmem_slot, tn)
            ptx.tcgen05.relinquish_alloc_permit()
            with ptx.if_(ptx.warp.elect()):
                for stage in range(stages):
                    ptx.mbarrier.init(empty.at(stage), 1)
                ptx.mbarrier.init(done, 1)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        t_acc = smem.load(b32, tmem_slot)
        first_a = ptx.tcgen05.smem_descriptor(s_a[0], tile_a)
        first_b = ptx.tcgen05.smem_descriptor(s_b[0], tile_b)

        # --- main loop: slices are loaded stages - 1 ahead -------------------------------------
        read, fill = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
        parity = reg.scalar(u32, init=1)  # true at once in the first round: no stage has been filled

        def following(stage, parity=None):
            """Step to the next stage, and from the last one to the first and the other parity."""
            stage += 1
            wrapped = stage == stages
            ptx.inst.mov.u32(stage, 0, pred=wrapped)
            if parity is not None:
                ptx.inst.xor.b32(parity, parity, 1, pred=wrapped)

        def load():
            ptx.mbarrier.wait(empty.at(fill), parity)
            load_a.copy(fill)
            load_b.copy(fill)
            following(fill, parity)

        ahead = min(stages - 1, kit.tile_order.cdiv(K, tk))
        with ptx.for_(0, ahead):
            load()
            ptx.cp.async_.commit_group()
        for _ in range(ahead, stages - 1):
            ptx.cp.async_.commit_group()  # empty, so that the same number may be pending
        with ptx.for_(0, K, tk) as k:
            ptx.cp.async_.wait_group(stages - 2)
            ptx.fence.proxy_async("shared::cta")
            ptx.bar.sync(0)
            with kit.single_thread(warp, 0):
                stage_a, stage_b = reg.scalar(u64), reg.scalar(u64)
                ptx.inst.mad.wide.u32(stage_a, read, s_a.stage_bytes // 16, first_a)
                ptx.inst.mad.wide.u32(stage_b, read, s_b.stage_bytes // 16, first_b)
                for kk in range(0, tk, step):
                    a = ptx.tcgen05.advance(stage_a, tile_a.k_offset(kk)) if kk else stage_a
                    b = ptx.tcgen05.advance(stage_b, tile_b.k_offset(kk)) if kk else stage_b
                    # The first product of a tile overwrites what tensor memory held.
                    ptx.tcgen05.mma(t_acc, a, b, idesc, kind=kind, pred_operand=True if kk else k != 0)
                ptx.tcgen05.commit(empty.at(read))
            ptx.warp.sync()
            following(read)
            # The stage to fill is that of the slice before, whose products may still run.
            with ptx.if_(k + (stages - 1) * tk < K):
                load()
            ptx.cp.async_.commit_group()
        with kit.single_thread(warp, 0):
            ptx.tcgen05.commit(done)
        ptx.warp.sync()

        # --- epilogue: two warps share 32 rows, each takes half of the columns ------------------
        ptx.mbarrier.wait(done, 0)
        ptx.tcgen05.fence_after_thread_sync()
        half = tn // 2
        row = m_base + (tid & (tm - 1))
        right = (warp >> 2) * half
        column = n_base + right
        kit.tcgen05_epilogue.direct(
            t_acc + ((warp & 3) << 21) + right,  # lane 32 * (warp % 4), in the address's upper half
            C.at(row, column).base,
            half,
            dtype=dtype,
            chunk=32,
            align=math.gcd(N * size, 16),
            inside=row < M,
            limit=(N - column).view(s32) if N % tn else None,
        )

        # --- teardown ------------------------------------------------------------------------
        # The last commits have arrived at every mbarrier of this CTA before it ends.
        with ptx.for_(0, stages):
            ptx.mbarrier.wait(empty.at(fill), parity)
            following(fill, parity)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with kit.single_warp(warp, 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(t_acc, tn)
        ptx.ret()

    return matmul


#: Sizes for the simulator: one tile; ragged in every dimension, with copies of 16, 8, 4 and 2 bytes.
SHAPES = {
    f16: [(128, 256, 64), (130, 264, 328), (100, 36, 68), (129, 34, 70), (60, 33, 35)],
    bf16: [(129, 264, 72)],
    f32: [(128, 256, 32), (130, 260, 164), (100, 34, 70), (60, 33, 37)],
}


def main():
    if not harness.verify(build_matmul, SHAPES, TARGETS, TF32_ROUNDING):
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
