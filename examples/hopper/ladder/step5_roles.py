"""Step 5, roles: one warpgroup copies, two multiply 128x256 of D; registers move to those who need them.

::

    warpgroup 0, one lane    wait empty[s] -> expect 48 KiB on full[s] -> TMA A 128x64, TMA B 256x64
    warpgroups 1, 2          wait full[s] -> 4 wgmma of 64x256x16 -> wait for the products of the stage before
                             -> free that stage: one lane of each warp arrives at empty

No thread waits for all others any more.  A consumer starts the products of a stage before those of the last
one have completed, so the tensor cores always have work.  Each warpgroup holds 64x256 of D, 128 registers a
thread; ``setmaxnreg`` takes registers from the producer.  A tile of 128x256 loads a quarter less for each
product than one of 128x128: (128 + 256) / (128 * 256) elements against (128 + 128) / (128 * 128).

* A warp frees a stage after ``wgmma.wait_group``: wgmma reads shared memory long after it is issued.
* At first all stages are empty, and no arrival will say so: the producer begins with the other parity, which
  passes at once on a new mbarrier (``kit.Ring`` does this).

Run it: ``python examples/hopper/ladder/step5_roles.py``.
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


def build_roles(M, N, K):
    """Build the kernel: M is a multiple of 128, N of 256, K of 64."""
    check_tiles(M, N, K, BM, BN, BK)
    load_a, load_b = kit.TmaOperand(BM, BK, bf16), kit.TmaOperand(BN, BK, bf16)

    @kernel(
        in_specs=(load_a.spec(M, K), load_b.spec(N, K)),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BM),
        block=128 * (1 + CONSUMERS),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,  # without this option ptxas ignores setmaxnreg
    )
    def roles(A, B, D):
        warp = kit.warp_index()
        warpgroup = warp >> 2
        m_base, n_base = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        tile_a, tile_b = load_a.stages(STAGES), load_b.stages(STAGES)
        ring = kit.Ring(STAGES, consumers=CONSUMER_WARPS)
        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        with ptx.if_(warpgroup == 0):
            ptx.setmaxnreg.dec(PRODUCER_REGISTERS)
            with kit.single_thread(warp, 0):
                producer = ring.producer()
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

            start(accumulate=False)
            with ptx.for_(BK, K, BK):
                start(accumulate=True)
                ptx.wgmma.wait_group(1)
                read.release(pred=leader)
            ptx.wgmma.wait_group(0)

            corner = reg.scalar(u64)
            ptx.inst.mad.wide.u32(corner, m_base + first, N * bf16.nbytes, D.ptr)
            ptx.inst.mad.wide.u32(corner, n_base, bf16.nbytes, corner)
            kit.wgmma_epilogue.direct(acc, corner, N * bf16.nbytes, dtype=bf16)
        ptx.ret()

    return roles


SHAPES = [(128, 256, 64), (256, 256, 640)]

if __name__ == "__main__":
    program(build_roles, SHAPES)
