"""Rung v5, 2-SM MMA: two CTAs multiply one tile of 256x256.  Published: 1302.29 TFLOP/s.

The CTAs of a cluster of two, on neighboring multiprocessors, are a pair.  One
``tcgen05.mma.cta_group::2`` multiplies for both: each CTA brings its own 128 rows of A and one half of
the columns of B, and holds its own rows of D::

                  CTA 0, the leader            CTA 1
    copies        A rows   0..127              A rows 128..255
                  B rows   0..127              B rows 128..255         both signal full[s] of CTA 0
    products      issues them for both         -
    commit        empty[s] of CTA 0      and   empty[s] of CTA 1       multicast to the mask 0b11
    holds         D rows   0..127              D rows 128..255         all 256 columns each

What it buys is half of the copies of B: a CTA of v4 with a tile as wide would load 128 + 256 rows for its
128x256 of D, a CTA of the pair loads 128 + 128.

* The mbarrier of a signal that is multicast lies at the same offset in each CTA. * Both CTAs allocate
tensor memory together, with ``cta_group::2``, and get the same columns. * Where v4 has ``bar.sync``, a
pair needs a cluster barrier: after the setup, since the peer's mbarriers must be
  initialized and its tensor memory allocated, and before the end, since the tensor cores of the pair read and
  write both CTAs.

Run it: ``python examples/blackwell/ladder/v5.py``; ``--profile FILE.html`` records a timeline.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, Tile, b32, b64, bf16, kernel, kit, ptx, reg, smem, u16

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import (
    SLAB,
    WAIT_HINT,
    WHOLE_SLABS,
    check_sizes,
    operand_3d,
    program,
    store_tile,
    tiles_of,
    wait,
)

BM, BN, BK, STAGES = 256, 256, 64, 7  # the tile of a pair
CTA_M, CTA_N = BM // 2, BN // 2  # rows of A and of B that one CTA loads
WARPS = 4
BOTH_CTAS = 0b11
PUBLISHED = 1302.29  # TFLOP/s for M = N = K = 4096 on a B200

PAIR_BYTES = (BM + BN) * BK * bf16.nbytes  # of a stage, in both CTAs


def launch_of(M, N, K):
    """Return how many CTAs and warps a launch has."""
    return 2 * tiles_of(M, BM) * tiles_of(N, BN), WARPS


def build_v5(M, N, K, *, trace=None, arch="sm_100a"):
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
            operand_3d(M, K, CTA_M, BK, SLAB, Layout.TMA_128B),
            operand_3d(N, K, CTA_N, BK, SLAB, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16),),
        grid=2 * tiles_m * tiles_n,
        block=32 * WARPS,
        cluster=2,
        arch=arch,
        extern_smem=True,
    )
    @trace.traced
    def v5(A, B, D):
        # --- setup ----------------------------------------------------------------------------------
        warp = ptx.special.tid.x() >> 5
        rank = ptx.cluster.rank()
        tile_a = smem.alloc((CTA_M, BK), bf16, swizzle="128B", stages=STAGES)
        tile_b = smem.alloc((CTA_N, BK), bf16, swizzle="128B", stages=STAGES)
        ring = kit.Ring(STAGES, suspend_hint=WAIT_HINT)  # what v4 writes out
        done = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)
        with trace.span("setup"):
            with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
                ring.init()
                ptx.mbarrier.init(done, 1)
                ptx.fence.mbarrier_init()
            with ptx.if_(warp == 1):
                ptx.tcgen05.alloc(tmem_slot, BN, cta_group=2)  # in both CTAs
            ptx.tcgen05.fence_before_thread_sync()
            ptx.cluster.sync(aligned=True)
            ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, tmem_slot)

        tile_m, tile_n = kit.tile_order.row_major(ptx.special.clusterid.x(), tiles_m, tiles_n)
        m_base, n_base = tile_m * BM + rank * CTA_M, tile_n * BN  # this CTA's rows, the pair's columns
        b_base = n_base + rank * CTA_N  # the rows of B that this CTA loads

        # --- producer: one lane of warp 0 of each CTA ---------------------------------------------------
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            producer = ring.producer()
            with ptx.for_(0, K // SLAB) as slab:
                with trace.span("wait for products", stage=producer.stage):
                    slot = producer.acquire()
                with trace.span("issue copies", stage=producer.stage):
                    # The leader expects the bytes of both CTAs. The peer's may arrive first.
                    with ptx.if_(rank == 0):
                        ptx.mbarrier.arrive_expect_tx(slot.full, PAIR_BYTES)
                    full = slot.leader_full()
                    for tile, tensor, row in ((tile_a, A, m_base), (tile_b, B, b_base)):
                        ptx.cp.async_.bulk.tensor_3d(
                            dst=tile[slot.index],
                            src=tensor.tma_desc(),
                            coord=(0, row, slab),
                            mbar=full,
                            cta_group=2,
                        )
                producer.advance()
            producer.drain()

        # --- consumer: one lane of warp 1 of the leader -------------------------------------------------
        with ptx.if_(rank == 0), ptx.if_(warp == 1), ptx.if_(ptx.warp.elect()):
            multiply = kit.StageMultiply(tile_a, tile_b, m=BM, n=BN, k=BK, cta_group=2)
            both = reg.scalar(u16, init=BOTH_CTAS)
            consumer = ring.consumer()
            with ptx.for_(0, K // SLAB) as slab:
                with trace.span("wait for copies", stage=consumer.stage):
                    slot = consumer.acquire()
                with trace.span("issue products", stage=consumer.stage):
                    multiply(tmem, slot.index, accumulate=slab != 0)
                    ptx.tcgen05.commit(slot.empty, multicast=both, cta_group=2)
                consumer.advance()
            ptx.tcgen05.commit(done, multicast=both, cta_group=2)

        # --- epilogue: every warp stores 32 rows of its CTA ---------------------------------------------
        ptx.warp.sync()
        with trace.span("wait for the main loop"):
            wait(done, 0)
            ptx.tcgen05.fence_after_thread_sync()
        with trace.span("epilogue"):
            store_tile(tmem, warp, D, m_base, n_base, BN)

        # --- teardown: no CTA frees tensor memory or ends before the other is done ----------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync(aligned=True)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, BN, cta_group=2)
        trace.finish()
        ptx.ret()

    return v5


#: One stage; a ring that wraps around; tiles that hang over each edge, one CTA without any row of D.
SHAPES = [(256, 256, 64), (256, 256, 640), (300, 136, 320)]

if __name__ == "__main__":
    program(build_v5, PUBLISHED, SHAPES, trace=launch_of)
