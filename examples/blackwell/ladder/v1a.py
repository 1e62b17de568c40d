"""Rung v1a, the basic tcgen05 kernel: 2-D copies of 16-byte rows, no swizzle.  Published: 254.62 TFLOP/s.

A CTA of four warps computes one 128x256 tile of D, in rounds of 256 columns of A and B.  One thread does
all the work of a round, one step after the other::

    TMA: A and B into shared memory -> wait -> 16 x tcgen05.mma of K = 16 -> commit -> wait -> next round

``tcgen05.mma`` does not take a row-major tile.  Its unit is the core matrix: 8 rows of 16 bytes, stored
as 128 adjacent bytes.  So a copy takes 8 columns (16 bytes) of all rows, and ``BK / 8`` copies fill a
tile::

    A in global memory                          A in shared memory
                8 columns                       slab 0:  row 0 | row 1 | ... | row 127    16 bytes each
              +---+---+---+---+--               slab 1:  row 0 | row 1 | ... | row 127
    128 rows  | 0 | 1 | 2 | 3 | ...             ...
              +---+---+---+---+--               slab 31
                                                8 rows further down: 128 bytes = SBO
                                                8 columns further along K, a slab: 128 * 16 bytes = LBO

The descriptor of an operand says where its core matrices lie: the leading byte offset (LBO) is the
distance of neighbors along K, the stride byte offset (SBO) that of neighbors along M or N.

D stays in tensor memory, 128 lanes of 256 columns.  The epilogue loads it into registers, and from there
it goes to global memory (``store_tile`` in ``parts.py``).

What limits this kernel is its copies: TMA moves about one row of a box per clock, and here a row has 16
bytes.

One mbarrier serves both waits of a round: its even phases complete when the bytes of A and B have
arrived, its odd phases when the products have been computed.  Only the thread that issues them waits for
it; the others wait for that thread at ``bar.sync``.  If all threads waited for the mbarrier, a thread
that looks when the next phase has ended as well would take a later phase for its own, and then wait for a
phase that never completes.

Run it: ``python examples/blackwell/ladder/v1a.py``.  Without a B200 it assembles the kernel and verifies
it in the simulator; on a B200 it also launches and measures it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, Tile, b32, b64, bf16, kernel, kit, ptx, reg, smem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import MMA_K, check_sizes, operand_2d, program, store_tile, tiles_of, wait

BM, BN, BK = 128, 256, 256  # the tile of D, and the columns of A and B of one round
PUBLISHED = 254.62  # TFLOP/s for M = N = K = 4096 on a B200

#: The instruction descriptor: f32 accumulator, A and B in bf16, N / 8, M / 16.
IDESC = 1 << 4 | 1 << 7 | 1 << 10 | BN >> 3 << 17 | BM >> 4 << 24

# --- the layout of this rung: what the next rungs replace -------------------------------------------

SLAB = 8  # columns of one copy: 16 bytes
#: For each product, the bytes from the first columns to its 16 columns, which are two slabs, in A and in B.
STEPS = [(2 * n * BM * 16, 2 * n * BN * 16) for n in range(BK // MMA_K)]


def operand(rows, K, box_rows):
    """Describe A or B, for copies of 8 columns."""
    return operand_2d(rows, K, box_rows, SLAB, Layout.TMA_NONE)


def tile(rows):
    """Allocate a tile of A or B: a stage for each copy."""
    return smem.alloc((rows, SLAB), bf16, align=128, stages=BK // SLAB)


def load(A, B, tile_a, tile_b, k, m_base, n_base, mbar):
    """Record the copies of a round, one for each stage of the tiles. They signal ``mbar``.

    The last stage comes first, and B before A. In this order ptxas, which unrolls the loop, spills fewer
    uniform registers: 410 instead of 420 machine instructions for a round.
    """
    columns = tile_a.shape[-1]
    with ptx.for_(0, tile_a.stages) as copied:
        slab = tile_a.stages - 1 - copied
        column = k + slab * columns
        for tile, tensor, row in ((tile_b, B, n_base), (tile_a, A, m_base)):
            ptx.cp.async_.bulk.tensor_2d(
                dst=tile[slab], src=tensor.tma_desc(), coord=(column, row), mbar=mbar, space="cta"
            )


def fields(rows):
    """Return the descriptor of a tile of A or B, without its address."""
    lbo = rows * 16  # to the core matrix 8 columns further
    sbo = 8 * 16  # to the core matrix 8 rows further
    return 0 << 61 | 1 << 46 | sbo >> 4 << 32 | lbo >> 4 << 16  # no swizzle, version 1


def multiply(tmem, desc_a, desc_b, idesc, steps, accumulate):
    """Record the products of one stage: ``D += A @ B.T``, K = 16 for each.

    Args:
        tmem: tensor-memory address of D.
        desc_a, desc_b: descriptors of the first 16 columns of A and of B.
        idesc: the instruction descriptor.
        steps: for each product, the bytes from the first columns to its columns, in A and in B.
        accumulate: False (or a predicate that is false) if the first product overwrites D.
    """
    for number, (step_a, step_b) in enumerate(steps):
        a = ptx.tcgen05.advance(desc_a, step_a) if step_a else desc_a
        b = ptx.tcgen05.advance(desc_b, step_b) if step_b else desc_b
        more = accumulate if number == 0 else True
        ptx.tcgen05.mma(tmem, a, b, idesc, kind="f16", pred_operand=more)


# --- the kernel --------------------------------------------------------------------------------------


def one_stage(name, M, N, K, *, operand, tile, load, fields, steps, arch):
    """Build a kernel with one stage of shared memory; the functions are those above, or another rung's."""
    tiles_m, tiles_n = tiles_of(M, BM), tiles_of(N, BN)

    @kernel(
        in_specs=(operand(M, K, BM), operand(N, K, BN)),
        out_specs=(Tile(M, N, bf16),),
        grid=tiles_m * tiles_n,
        block=128,
        arch=arch,
        extern_smem=True,
        name=name,
    )
    def gemm(A, B, D):
        # --- setup: an mbarrier, tensor memory ------------------------------------------------------
        warp = ptx.special.tid.x() >> 5
        tile_a, tile_b = tile(BM), tile(BN)
        mbar = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(mbar, 1)  # one thread arrives
            ptx.fence.mbarrier_init()
        with ptx.if_(warp == 1):
            ptx.tcgen05.alloc(tmem_slot, BN)  # a whole warp allocates; the unit is columns
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, tmem_slot)

        tile_m, tile_n = kit.tile_order.row_major(ptx.special.ctaid.x(), tiles_m, tiles_n)
        m_base, n_base = tile_m * BM, tile_n * BN

        # --- main loop: one thread --------------------------------------------------------------------
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            idesc = reg.scalar(b32, init=IDESC)
            desc_a = ptx.tcgen05.masked_descriptor(tile_a.addr, const_bits=fields(BM))
            desc_b = ptx.tcgen05.masked_descriptor(tile_b.addr, const_bits=fields(BN))
            with ptx.for_(0, K, BK) as k:
                # A copy counts all bytes of its box, also where the box lies outside of A or B.
                ptx.mbarrier.arrive_expect_tx(mbar, (BM + BN) * BK * bf16.nbytes)
                load(A, B, tile_a, tile_b, k, m_base, n_base, mbar)
                wait(mbar, 0)
                multiply(tmem, desc_a, desc_b, idesc, steps, accumulate=k != 0)
                ptx.tcgen05.commit(mbar, space="cluster")
                wait(mbar, 1)  # the next round overwrites A and B

        # --- epilogue: every warp stores 32 rows --------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        store_tile(tmem, warp, D, m_base, n_base, BN)

        # --- teardown: tensor memory must be freed, after the last load ---------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, BN)
        ptx.ret()

    return gemm


def build_v1a(M, N, K, *, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and K.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, 8, "rows of A and B must be multiples of 16 bytes")
    return one_stage(
        "v1a", M, N, K, operand=operand, tile=tile, load=load, fields=fields, steps=STEPS, arch=arch
    )


#: One round; tiles that hang over each edge.
SHAPES = [(128, 256, 256), (200, 136, 264)]

if __name__ == "__main__":
    program(build_v1a, PUBLISHED, SHAPES)
