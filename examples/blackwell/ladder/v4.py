"""Rung v4, warp specialization: one warp copies, another multiplies.  Published: 1208.83 TFLOP/s.

A thread that waits for copies and for products in turn leaves one of the engines idle.  Here two warps have a
loop each, and a ring of seven stages is between them::

    warp 0, one lane    wait empty[s] -> expect bytes on full[s] -> copy A, copy B            the producer
    warp 1, one lane    wait full[s]  -> 4 x tcgen05.mma of K = 16 -> commit to empty[s]      the consumer

    full[s]     completes a phase when the copies have filled stage s
    empty[s]    completes a phase when the products that read stage s have been computed

The consumer does not wait for its products.  It issues those of the next stage as soon as that stage is
full, so the tensor core always has work.  Only the producer waits for them, before it overwrites a stage.

* At first all stages are empty, and no product will say so.  So the producer starts with the other parity:
  a wait for parity 1 of a new mbarrier passes at once, as if a phase had completed before.
* ``bar.sync`` says that the products have been issued, not that they have been computed.  An extra commit
  after the last round, to an mbarrier of its own, tells the epilogue.
* The producer waits until the last stages are empty, so that no commit arrives at a CTA that has ended.

The tile is 128x128 here, as the author chose it: a stage has 32 KiB, and seven of them fit.

``--profile FILE.html`` records what each warp waits for and when, with ``kit.Trace``.

Run it: ``python examples/blackwell/ladder/v4.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, Tile, b32, b64, bf16, kernel, kit, ptx, reg, smem, u32

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import SLAB, WHOLE_SLABS, check_sizes, operand_3d, program, store_tile, tiles_of, wait

BM, BN, BK, STAGES = 128, 128, 64, 7
WARPS = 4
PUBLISHED = 1208.83  # TFLOP/s for M = N = K = 4096 on a B200

A_BYTES, B_BYTES = BM * BK * bf16.nbytes, BN * BK * bf16.nbytes  # of a stage


def launch_of(M, N, K):
    """Return how many CTAs and warps a launch has."""
    return tiles_of(M, BM) * tiles_of(N, BN), WARPS


def build_v4(M, N, K, *, trace=None, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and of 64 for K.
        trace: a ``kit.Trace`` that is on, for marks; its buffer is then the first argument of the kernel.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, SLAB, WHOLE_SLABS)
    trace = kit.Trace.off() if trace is None else trace
    tiles_m, tiles_n = tiles_of(M, BM), tiles_of(N, BN)

    @kernel(
        in_specs=(
            *trace.specs,
            operand_3d(M, K, BM, BK, SLAB, Layout.TMA_128B),
            operand_3d(N, K, BN, BK, SLAB, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16),),
        grid=tiles_m * tiles_n,
        block=32 * WARPS,
        arch=arch,
        extern_smem=True,
    )
    @trace.traced
    def v4(A, B, D):
        # --- setup ----------------------------------------------------------------------------------
        warp = ptx.special.tid.x() >> 5
        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B", stages=STAGES)
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B", stages=STAGES)
        full = smem.alloc(STAGES, b64)
        empty = smem.alloc(STAGES, b64)
        done = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)
        with trace.span("setup"):
            with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
                for stage in range(STAGES):
                    ptx.mbarrier.init(full.at(stage), 1)  # one arrive.expect_tx
                    ptx.mbarrier.init(empty.at(stage), 1)  # one commit
                ptx.mbarrier.init(done, 1)
                ptx.fence.mbarrier_init()
            with ptx.if_(warp == 1):
                ptx.tcgen05.alloc(tmem_slot, BN)
            ptx.tcgen05.fence_before_thread_sync()
            ptx.bar.sync(0)
            ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, tmem_slot)

        tile_m, tile_n = kit.tile_order.row_major(ptx.special.ctaid.x(), tiles_m, tiles_n)
        m_base, n_base = tile_m * BM, tile_n * BN

        def advance(stage, phase):
            """Go to the next stage; after the last one, to the first stage and the other parity."""
            stage += 1
            wrapped = stage == STAGES
            ptx.inst.mov.u32(stage, 0, pred=wrapped)
            ptx.inst.xor.b32(phase, phase, 1, pred=wrapped)

        # --- producer: one lane of warp 0 ---------------------------------------------------------------
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            stage, phase = reg.scalar(u32, init=0), reg.scalar(u32, init=1)  # the other parity
            with ptx.for_(0, K // SLAB) as slab:
                with trace.span("wait for products", stage=stage):
                    wait(empty.at(stage), phase)
                with trace.span("issue copies", stage=stage):
                    mbar = full.at(stage)
                    ptx.mbarrier.arrive_expect_tx(mbar, A_BYTES + B_BYTES)
                    for tile, tensor, row in ((tile_a, A, m_base), (tile_b, B, n_base)):
                        ptx.cp.async_.bulk.tensor_3d(
                            dst=tile[stage],
                            src=tensor.tma_desc(),
                            coord=(0, row, slab),
                            mbar=mbar,
                            cta_group=1,
                        )
                advance(stage, phase)
            with ptx.for_(0, STAGES):  # the last commits
                wait(empty.at(stage), phase)
                advance(stage, phase)

        # --- consumer: one lane of warp 1 ---------------------------------------------------------------
        with ptx.if_(warp == 1), ptx.if_(ptx.warp.elect()):
            multiply = kit.StageMultiply(tile_a, tile_b, m=BM, n=BN, k=BK)
            stage, phase = reg.scalar(u32, init=0), reg.scalar(u32, init=0)
            with ptx.for_(0, K // SLAB) as slab:
                with trace.span("wait for copies", stage=stage):
                    wait(full.at(stage), phase)
                with trace.span("issue products", stage=stage):
                    multiply(tmem, stage, accumulate=slab != 0)
                    ptx.tcgen05.commit(empty.at(stage), space="cluster")
                advance(stage, phase)
            ptx.tcgen05.commit(done, space="cluster")  # the extra commit: all products

        # --- epilogue: every warp stores 32 rows --------------------------------------------------------
        ptx.warp.sync()  # the elected lanes come back
        with trace.span("wait for the main loop"):
            wait(done, 0)
            ptx.tcgen05.fence_after_thread_sync()
        with trace.span("epilogue"):
            store_tile(tmem, warp, D, m_base, n_base, BN)

        # --- teardown -----------------------------------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, BN)
        trace.finish()
        ptx.ret()

    return v4


#: One stage; a ring that wraps around; tiles that hang over each edge.
SHAPES = [(128, 128, 64), (128, 128, 640), (200, 136, 320)]

if __name__ == "__main__":
    program(build_v4, PUBLISHED, SHAPES, trace=launch_of)
