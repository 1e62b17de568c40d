"""Step 7, stores by TMA: the sums go through swizzled shared memory, and an engine writes whole rows.

The kernel of step 6 with another epilogue.  Stored from registers, four threads write 16 bytes of a row of
bf16, half of what a transaction of memory moves, and a thread computes the address of each store.  Now a warp
packs 64 columns of its 16 rows and writes them to shared memory with ``stmatrix``, whose swizzle keeps eight
rows in different banks; one lane stores the box of 16x64 by TMA::

    warp      cvt, stmatrix -> fence.proxy.async -> bar.warp.sync
    one lane  TMA store of the box -> commit_group

* ``fence.proxy.async``: the engine reads shared memory by another path, and without the fence it need not
  see what ``stmatrix`` wrote.
* No warp waits for the store.  Before a warp writes a box of the staging again, the lane that stored it waits
  until the engine has read it (``wait_group.read``).  So the next tile's products begin while boxes of this
  one are still being stored.
* The staging takes 32 KiB, and the ring keeps four stages of 48 KiB.

Run it: ``python examples/hopper/ladder/step7_tma_store.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, Tile, bf16, kernel, kit, ptx, smem

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ladder_parts import check_tiles, program

BM, BN, BK, STAGES = 128, 256, 64, 4
WGMMA_M = 64
CONSUMERS = BM // WGMMA_M
CONSUMER_WARPS = 4 * CONSUMERS
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
SMS = 132  # of an H100 or H200
CHUNK = 64  # columns of D in a row of a box: 128 bytes, the width of the swizzle


def build_tma_store(M, N, K, *, sms=SMS):
    """Build the kernel: M is a multiple of 128, N of 256, K of 64; ``sms`` CTAs share the tiles."""
    check_tiles(M, N, K, BM, BN, BK)
    tiles_m, tiles_n = M // BM, N // BN
    tiles = tiles_m * tiles_n
    ctas = min(sms, tiles)
    load_a, load_b = kit.TmaOperand(BM, BK, bf16), kit.TmaOperand(BN, BK, bf16)
    stored = Tile(M, N, bf16, Layout.TMA_128B, tma_box=(kit.wgmma_epilogue.ROWS, CHUNK))

    @kernel(
        in_specs=(load_a.spec(M, K), load_b.spec(N, K)),
        out_specs=(stored,),
        grid=ctas,
        block=128 * (1 + CONSUMERS),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,  # without this option ptxas ignores setmaxnreg
    )
    def tma_store(A, B, D):
        warp = kit.warp_index()
        warpgroup = warp >> 2
        work = kit.StaticTiles(tiles, first=ptx.special.ctaid.x(), step=ctas)
        tile_a, tile_b = load_a.stages(STAGES), load_b.stages(STAGES)
        staging = smem.alloc(
            (kit.wgmma_epilogue.ROWS * CONSUMER_WARPS, CHUNK), bf16, swizzle="128B", stages=2
        )
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

                kit.wgmma_epilogue.through_shared(
                    acc, staging, D.tma_desc(), (n_base, m_base + first), warp=warp - 4, leader=leader
                )
            kit.wgmma_epilogue.settle(leader)
        ptx.ret()

    return tma_store


#: One tile; more tiles than CTAs, and stages of a tile that begin within the ring.
SHAPES = [(128, 256, 64), (384, 512, 192)]

if __name__ == "__main__":
    program(build_tma_store, SHAPES, simulated={"sms": 2})
