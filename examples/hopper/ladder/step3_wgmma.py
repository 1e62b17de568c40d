"""Step 3, Hopper's engines: TMA copies a tile with one instruction, ``wgmma`` multiplies from shared memory.

A CTA computes 128x128 of D with one warpgroup, which holds the sums: 128 numbers a thread, in two
accumulators of 64 rows::

    one thread     expect 32 KiB on the mbarrier; TMA: box of A 128x64, box of B 128x64
    128 threads    wait for the mbarrier -> 8 wgmma of 64x128x16 -> wait for the products -> barrier

No address of an element is computed any more, and no operand passes through registers.  The swizzle of step 2
is a field of the tensor map and of the matrix descriptor.  But copies and products still wait for each other.

Run it: ``python examples/hopper/ladder/step3_wgmma.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Tile, b64, bf16, kernel, kit, ptx, reg, smem, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ladder_parts import check_tiles, program

BM, BN, BK = 128, 128, 64
WGMMA_M = 64
THREADS = 128


def build_wgmma(M, N, K):
    """Build the kernel: M and N are multiples of 128, K of 64."""
    check_tiles(M, N, K, BM, BN, BK)
    load_a, load_b = kit.TmaOperand(BM, BK, bf16), kit.TmaOperand(BN, BK, bf16)

    @kernel(
        in_specs=(load_a.spec(M, K), load_b.spec(N, K)),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BM),
        block=THREADS,
        arch="sm_90a",
    )
    def wgmma(A, B, D):
        warp = kit.warp_index()
        m_base, n_base = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        tile_a, tile_b = load_a.stages(1), load_b.stages(1)
        loaded = smem.alloc(1, b64)
        with kit.single_thread(warp, 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        accs = [ptx.wgmma.accumulator(n=BN, name=f"acc{block}_") for block in range(BM // WGMMA_M)]
        multiply = kit.WgmmaMultiply(tile_a, tile_b, n=BN, k=BK, dtype=bf16, blocks=len(accs))
        with ptx.for_(0, K, BK) as k:
            with kit.single_thread(warp, 0):
                ptx.mbarrier.arrive_expect_tx(loaded, load_a.nbytes + load_b.nbytes)
                load_a.load(tile_a[0], A, row=m_base, k=k, mbar=loaded)
                load_b.load(tile_b[0], B, row=n_base, k=k, mbar=loaded)
            ptx.mbarrier.wait(loaded, (k // BK) & 1)
            multiply(accs, 0, accumulate=k != 0)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)  # the next copies overwrite the tiles

        corner = reg.scalar(u64)
        ptx.inst.mad.wide.u32(corner, m_base, N * bf16.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(corner, n_base, bf16.nbytes, corner)
        for acc in accs:
            kit.wgmma_epilogue.direct(acc, corner, N * bf16.nbytes, dtype=bf16)
            corner += WGMMA_M * N * bf16.nbytes
        ptx.ret()

    return wgmma


SHAPES = [(128, 128, 64), (256, 128, 320)]

if __name__ == "__main__":
    program(build_wgmma, SHAPES)
