"""Rung v6, persistent: a pair of CTAs computes tile after tile.  Published: 1475.93 TFLOP/s.

v5 has a CTA for each tile.  While a CTA starts, allocates, fills its ring and stores its tile, its tensor
core stands still.  Here 148 CTAs, one for each multiprocessor of a B200, stay for the whole launch, and
pair ``p`` computes the tiles p, p + 74, p + 148, ...  Each role has its own loop over these tiles::

    warp 0        producer     copies of tile t + 1 follow those of tile t; the ring never runs dry
    warp 1        consumer     (of the leader) products of tile t into accumulator t % 2
    warps 2 to 5  epilogue     tile t - 1 from the other accumulator to D

    copies  --full[s]-->  products  --full accumulator-->  epilogue
            <--empty[s]--           <--empty accumulator--

Two accumulators of 256 columns take all 512 columns of tensor memory.  So the tensor core works on a tile
while the epilogue stores the one before; the price of a tile is the longer of the two, and not the sum.

* There are two pairs of producer and consumer now: copies and products hand over stages of shared memory,
  products and epilogue hand over accumulators.  The consumer of the first is the producer of the second,
  which also begins with the other parity.
* Four warps store, since each reaches a quarter of tensor memory: the one that its number modulo 4 selects.
  Warps 2, 3, 4, 5 reach the quarters 2, 3, 0, 1.
* An accumulator is empty when all eight warps, four of each CTA, have loaded their lanes.  One lane of
  each warp arrives at the leader, whose thread issues the products.

``python examples/blackwell/ladder/v6.py`` verifies it; ``--profile FILE.html`` records a timeline.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, Tile, bf16, kernel, kit, ptx, reg, smem, u16

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import SLAB, WAIT_HINT, WHOLE_SLABS, check_sizes, operand_3d, program, store_tile, tiles_of
from ladder.v5 import BK, BM, BN, BOTH_CTAS, CTA_M, CTA_N, PAIR_BYTES, STAGES

PAIRS = 74  # 148 multiprocessors
EPILOGUE_WARPS = 4
WARPS = 2 + EPILOGUE_WARPS
PUBLISHED = 1475.93  # TFLOP/s for M = N = K = 4096 on a B200


def launch_of(M, N, K, pairs=PAIRS):
    """Return how many CTAs and warps a launch has."""
    return 2 * min(pairs, tiles_of(M, BM) * tiles_of(N, BN)), WARPS


def build_v6(M, N, K, *, pairs=PAIRS, trace=None, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and of 64 for K.
        pairs: number of pairs of CTAs that share the tiles.
        trace: a ``kit.Trace`` that is on, for marks; its buffer is then the first argument of the kernel.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, SLAB, WHOLE_SLABS)
    trace = kit.Trace.off() if trace is None else trace
    tiles_m, tiles_n = tiles_of(M, BM), tiles_of(N, BN)
    pairs = min(pairs, tiles_m * tiles_n)

    @kernel(
        in_specs=(
            *trace.specs,
            operand_3d(M, K, CTA_M, BK, SLAB, Layout.TMA_128B),
            operand_3d(N, K, CTA_N, BK, SLAB, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16),),
        grid=2 * pairs,
        block=32 * WARPS,
        cluster=2,
        arch=arch,
        extern_smem=True,
    )
    @trace.traced
    def v6(A, B, D):
        # --- setup ----------------------------------------------------------------------------------
        warp = ptx.special.tid.x() >> 5
        rank = ptx.cluster.rank()
        tile_a = smem.alloc((CTA_M, BK), bf16, swizzle="128B", stages=STAGES)
        tile_b = smem.alloc((CTA_N, BK), bf16, swizzle="128B", stages=STAGES)
        ring = kit.Ring(STAGES, suspend_hint=WAIT_HINT)
        accumulators = kit.Accumulators(2, BN, readers=EPILOGUE_WARPS, cta_group=2)
        tiles = kit.StaticTiles(tiles_m * tiles_n, first=ptx.special.clusterid.x(), step=pairs)

        def place(tile):
            """Return this CTA's first row of D and of A, and the pair's first column."""
            tile_m, tile_n = kit.tile_order.row_major(tile, tiles_m, tiles_n)
            return tile_m * BM + rank * CTA_M, tile_n * BN

        with trace.span("setup"):
            with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
                ring.init()
                accumulators.init()
                ptx.fence.mbarrier_init()
            with ptx.if_(warp == 1):
                accumulators.alloc()  # all 512 columns, in both CTAs
            ptx.tcgen05.fence_before_thread_sync()
            ptx.cluster.sync(aligned=True)
            ptx.tcgen05.fence_after_thread_sync()
        tmem = accumulators.base()

        # --- producer: one lane of warp 0 of each CTA ---------------------------------------------------
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            producer = ring.producer()
            with tiles.loop() as tile:
                m_base, n_base = place(tile)
                b_base = n_base + rank * CTA_N
                with ptx.for_(0, K // SLAB) as slab:
                    with trace.span("wait for products", stage=producer.stage):
                        slot = producer.acquire()
                    with trace.span("issue copies", stage=producer.stage):
                        with ptx.if_(rank == 0):
                            ptx.mbarrier.arrive_expect_tx(slot.full, PAIR_BYTES)
                        full = slot.leader_full()
                        for buffer, tensor, row in ((tile_a, A, m_base), (tile_b, B, b_base)):
                            ptx.cp.async_.bulk.tensor_3d(
                                dst=buffer[slot.index],
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
            writer = accumulators.writer(tmem)
            with tiles.loop() as tile:
                with trace.span("wait for epilogue", value=tile):
                    accumulator = writer.acquire()
                with ptx.for_(0, K // SLAB) as slab:
                    with trace.span("wait for copies", stage=consumer.stage):
                        slot = consumer.acquire()
                    with trace.span("issue products", stage=consumer.stage):
                        multiply(accumulator.tmem, slot.index, accumulate=slab != 0)
                        ptx.tcgen05.commit(slot.empty, multicast=both, cta_group=2)
                    consumer.advance()
                writer.commit(multicast=both)
            writer.drain()

        # --- epilogue: warps 2 to 5 of each CTA ---------------------------------------------------------
        with ptx.if_(warp >= 2):
            quarter = warp & 3
            leader = ptx.warp.elect()
            reader = accumulators.reader(tmem)
            with tiles.loop() as tile:
                with trace.span("wait for the main loop", value=tile):
                    accumulator = reader.acquire()
                with trace.span("epilogue", value=tile):
                    m_base, n_base = place(tile)
                    store_tile(accumulator.tmem, quarter, D, m_base, n_base, BN)
                reader.release(leader)
                reader.advance()

        # --- teardown -----------------------------------------------------------------------------------
        ptx.warp.sync()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync(aligned=True)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            accumulators.dealloc(tmem)
        trace.finish()
        ptx.ret()

    return v6


#: One tile; six tiles for two pairs, with tiles that hang over each edge.
SHAPES = [(256, 256, 64), (300, 520, 640)]

if __name__ == "__main__":
    program(build_v6, PUBLISHED, SHAPES, trace=launch_of, simulated={"pairs": 2})
