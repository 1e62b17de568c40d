"""Step 4, stages: copies run ahead of the products through a ring in shared memory.

The kernel of step 3 with four stages of 32 KiB.  The same thread copies and multiplies, in turn::

    before the loop    copy stages 0, 1 and 2
    round i            wait until the products of round i - 1 have completed      their stage is free
                       one thread copies round i + 3 into that stage
                       wait full[i % 4] -> start the products of round i

So three copies are under way while the tensor cores work, which covers the latency of memory.  The products
of a round begin only after the threads have met at a barrier and one of them has issued a copy; between two
rounds the tensor cores have nothing to do.

Run it: ``python examples/hopper/ladder/step4_stages.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Tile, b64, bf16, kernel, kit, ptx, reg, smem, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ladder_parts import check_tiles, program

BM, BN, BK, STAGES = 128, 128, 64, 4
AHEAD = STAGES - 1
WGMMA_M = 64
THREADS = 128


def build_stages(M, N, K):
    """Build the kernel: M and N are multiples of 128, K of 64."""
    check_tiles(M, N, K, BM, BN, BK)
    load_a, load_b = kit.TmaOperand(BM, BK, bf16), kit.TmaOperand(BN, BK, bf16)
    rounds = K // BK

    @kernel(
        in_specs=(load_a.spec(M, K), load_b.spec(N, K)),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BM),
        block=THREADS,
        arch="sm_90a",
        extern_smem=True,
    )
    def stages(A, B, D):
        warp = kit.warp_index()
        m_base, n_base = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        tile_a, tile_b = load_a.stages(STAGES), load_b.stages(STAGES)
        full = smem.alloc(STAGES, b64)

        def copy(round):
            """Copy the operands of a round into its stage."""
            stage = round % STAGES
            mbar = full.at(stage)
            ptx.mbarrier.arrive_expect_tx(mbar, load_a.nbytes + load_b.nbytes)
            load_a.load(tile_a[stage], A, row=m_base, k=round * BK, mbar=mbar)
            load_b.load(tile_b[stage], B, row=n_base, k=round * BK, mbar=mbar)

        with kit.single_thread(warp, 0):
            for stage in range(STAGES):
                ptx.mbarrier.init(full.at(stage), 1)
            ptx.fence.mbarrier_init()
            for round in range(min(AHEAD, rounds)):
                copy(round)
        ptx.bar.sync(0)

        accs = [ptx.wgmma.accumulator(n=BN, name=f"acc{block}_") for block in range(BM // WGMMA_M)]
        multiply = kit.WgmmaMultiply(tile_a, tile_b, n=BN, k=BK, dtype=bf16, blocks=len(accs))
        with ptx.for_(0, rounds) as round:
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)  # the products of all warps have completed
            with ptx.if_(round + AHEAD < rounds), kit.single_thread(warp, 0):
                copy(round + AHEAD)
            stage = round % STAGES
            ptx.mbarrier.wait(full.at(stage), (round // STAGES) & 1)
            multiply(accs, stage, accumulate=round != 0)
            ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)

        corner = reg.scalar(u64)
        ptx.inst.mad.wide.u32(corner, m_base, N * bf16.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(corner, n_base, bf16.nbytes, corner)
        for acc in accs:
            kit.wgmma_epilogue.direct(acc, corner, N * bf16.nbytes, dtype=bf16)
            corner += WGMMA_M * N * bf16.nbytes
        ptx.ret()

    return stages


#: Fewer rounds than stages; a ring that wraps around.
SHAPES = [(128, 128, 128), (256, 128, 640)]

if __name__ == "__main__":
    program(build_stages, SHAPES)
