"""Step 6, persistent: as many CTAs as SMs, each computes tiles in an order that L2 likes.

The kernel of step 5, with a loop over tiles in both roles::

    CTA c    tiles c, c + 132, c + 264, ...

* The producer does not wait for the epilogue: while the consumers store a tile, it fills the ring with the
  first stages of the next one, so the next main loop begins with full stages.  What is set up once for a CTA,
  barriers and descriptors, is no longer set up for each tile.
* The 132 tiles that are under way together are near each other: ``kit.tile_order.boustrophedon`` goes
  through groups of 8 rows of tiles, down and up.  For 16384 columns, 132 tiles row by row would be two rows
  of tiles and all of B, 16640 rows of operands; in groups of 8 they read 1024 rows of A and 4352 of B.

Run it: ``python examples/hopper/ladder/step6_persistent.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Tile, bf16, kernel, kit, ptx, reg, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ladder_parts import check_tiles, program

BM, BN, BK, STAGES = 128, 256, 64, 4
WGMMA_M = 64
CONSUMERS = BM // WGMMA_M
CONSUMER_WARPS = 4 * CONSUMERS
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
SMS = 132  # of an H100 or H200


def build_persistent(M, N, K, *, sms=SMS):
    """Build the kernel: M is a multiple of 128, N of 256, K of 64; ``sms`` CTAs share the tiles."""
    check_tiles(M, N, K, BM, BN, BK)
    tiles_m, tiles_n = M // BM, N // BN
    tiles = tiles_m * tiles_n
    ctas = min(sms, tiles)
    load_a, load_b = kit.TmaOperand(BM, BK, bf16), kit.TmaOperand(BN, BK, bf16)

    @kernel(
        in_specs=(load_a.spec(M, K), load_b.spec(N, K)),
        out_specs=(Tile(M, N, bf16),),
        grid=ctas,
        block=128 * (1 + CONSUMERS),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,  # without this option ptxas ignores setmaxnreg
    )
    def persistent(A, B, D):
        warp = kit.warp_index()
        warpgroup = warp >> 2
        work = kit.StaticTiles(tiles, first=ptx.special.ctaid.x(), step=ctas)
        tile_a, tile_b = load_a.stages(STAGES), load_b.stages(STAGES)
        ring = kit.Ring(STAGES, consumers=CONSUMER_WARPS)

        def place(tile):
            """Return the first row and column of a tile."""
            tile_m, tile_n = kit.tile_order.boustrophedon(tile, tiles_m, tiles_n)
            return tile_m * BM, tile_n * BN

        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        with ptx.if_(warpgroup == 0):
            ptx.setmaxnreg.dec(PRODUCER_REGISTERS)
            with kit.single_thread(warp, 0):
                producer = ring.producer()
                with work.loop() as tile:
                    m_base, n_base = place(tile)
                    with ptx.for_(0, K, BK) as k:
                        slot = producer.acquire()
                        ptx.mbarrier.arrive_expect_tx(slot.full, load_a.nbytes + load_b.nbytes)
                        load_a.load(tile_a[slot.index], A, row=m_base, k=k, mbar=slot.full)
                        load_b.load(tile_b[slot.index], B, row=n_base, k=k, mbar=slot.full)
                        producer.advance()
        with ptx.else_():
            ptx.setmaxnreg.inc(CONSUMER_REGISTERS)
            first = (warpgroup - 1) * WGMMA_M
            leader = ptx.warp.elect()
            acc = ptx.wgmma.accumulator(n=BN)
            multiply = kit.WgmmaMultiply(tile_a, tile_b, n=BN, k=BK, dtype=bf16, first=first)
            consumer = ring.consumer()
            read = ring.consumer()  # one stage behind the other: the stage whose products have completed

            def start(accumulate):
                """Start the products of a stage."""
                slot = consumer.acquire()
                multiply([acc], slot.index, accumulate)
                ptx.wgmma.commit_group()
                consumer.advance()

            with work.loop() as tile:
                m_base, n_base = place(tile)
                start(accumulate=False)
                with ptx.for_(BK, K, BK):
                    start(accumulate=True)
                    ptx.wgmma.wait_group(1)
                    read.release(pred=leader)
                ptx.wgmma.wait_group(0)
                read.release(pred=leader)

                corner = reg.scalar(u64)
                ptx.inst.mad.wide.u32(corner, m_base + first, N * bf16.nbytes, D.ptr)
                ptx.inst.mad.wide.u32(corner, n_base, bf16.nbytes, corner)
                kit.wgmma_epilogue.direct(acc, corner, N * bf16.nbytes, dtype=bf16)
        ptx.ret()

    return persistent


#: One tile; more tiles than CTAs, and stages of a tile that begin within the ring.
SHAPES = [(128, 256, 64), (384, 512, 192)]

if __name__ == "__main__":
    program(build_persistent, SHAPES, simulated={"sms": 2})
