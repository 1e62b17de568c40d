"""Rung v3, pipelining: copies of a round run during the products of the last.  Published: 939.61 TFLOP/s.

Two stages of 128 columns take the place of one of 256.  The same thread still issues everything, but it
issues the copies of the next round before it waits for those of this round::

    v2b   copy 0 ......... multiply 0 ...... copy 1 ......... multiply 1 ...... copy 2

    v3    copy 0 ......... copy 1 ......... copy 2 ......... copy 3
                           multiply 0 ...... multiply 1 ...... multiply 2

Every stage has an mbarrier for its copies, since copies of two rounds are in flight.  The products need
only one: the thread waits for the products of a round before it goes on, because its next copies
overwrite what they read.

What is left is that thread: it waits in turn for copies and for products, so the tensor core stands still
from the end of a round's products until the next ones have been issued.

Run it: ``python examples/blackwell/ladder/v3.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, Tile, b32, b64, bf16, kernel, kit, ptx, smem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import SLAB, WHOLE_SLABS, check_sizes, operand_3d, program, store_tile, tiles_of, wait

BM, BN, BK, STAGES = 128, 256, 128, 2
PUBLISHED = 939.61  # TFLOP/s for M = N = K = 4096 on a B200

A_BYTES, B_BYTES = BM * BK * bf16.nbytes, BN * BK * bf16.nbytes  # of a stage


def build_v3(M, N, K, *, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and of 64 for K.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, SLAB, WHOLE_SLABS)
    tiles_m, tiles_n, rounds = tiles_of(M, BM), tiles_of(N, BN), tiles_of(K, BK)

    @kernel(
        in_specs=(
            operand_3d(M, K, BM, BK, SLAB, Layout.TMA_128B),
            operand_3d(N, K, BN, BK, SLAB, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16),),
        grid=tiles_m * tiles_n,
        block=128,
        arch=arch,
        extern_smem=True,
    )
    def v3(A, B, D):
        # --- setup ----------------------------------------------------------------------------------
        warp = ptx.special.tid.x() >> 5
        tile_a = smem.alloc((BK // SLAB, BM, SLAB), bf16, swizzle="128B", stages=STAGES)
        tile_b = smem.alloc((BK // SLAB, BN, SLAB), bf16, swizzle="128B", stages=STAGES)
        loaded = smem.alloc(STAGES, b64)  # an mbarrier for the copies of each stage
        multiplied = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            for stage in range(STAGES):
                ptx.mbarrier.init(loaded.at(stage), 1)
            ptx.mbarrier.init(multiplied, 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(warp == 1):
            ptx.tcgen05.alloc(tmem_slot, BN)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, tmem_slot)

        tile_m, tile_n = kit.tile_order.row_major(ptx.special.ctaid.x(), tiles_m, tiles_n)
        m_base, n_base = tile_m * BM, tile_n * BN

        def load(number):
            """Record the copies of a round."""
            stage = number & (STAGES - 1)  # a division would cost 10 instructions, even by a constant
            mbar = loaded.at(stage)
            ptx.mbarrier.arrive_expect_tx(mbar, A_BYTES + B_BYTES)
            for tile, tensor, row in ((tile_a, A, m_base), (tile_b, B, n_base)):
                ptx.cp.async_.bulk.tensor_3d(
                    dst=tile[stage],
                    src=tensor.tma_desc(),
                    coord=(0, row, number * (BK // SLAB)),
                    mbar=mbar,
                    cta_group=1,
                )

        # --- main loop: one thread --------------------------------------------------------------------
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            multiply = kit.StageMultiply(tile_a, tile_b, m=BM, n=BN, k=BK)
            for number in range(min(rounds, STAGES - 1)):
                load(number)  # in Python: the first rounds, before the loop
            with ptx.for_(0, rounds) as number:
                ahead = number + (STAGES - 1)
                with ptx.if_(ahead < rounds):
                    load(ahead)
                stage = number & (STAGES - 1)
                wait(loaded.at(stage), number >> STAGES.bit_length() - 1 & 1)
                multiply(tmem, stage, accumulate=number != 0)
                ptx.tcgen05.commit(multiplied, space="cluster")
                wait(multiplied, number & 1)  # the copies of the next round overwrite this stage

        # --- epilogue: every warp stores 32 rows --------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        store_tile(tmem, warp, D, m_base, n_base, BN)

        # --- teardown -----------------------------------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, BN)
        ptx.ret()

    return v3


#: One round; an odd number of rounds; tiles that hang over each edge.
SHAPES = [(128, 256, 128), (128, 256, 384), (200, 136, 320)]

if __name__ == "__main__":
    program(build_v3, PUBLISHED, SHAPES)
