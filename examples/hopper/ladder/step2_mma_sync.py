"""Step 2, tensor cores: ``mma.sync`` multiplies 16x8x16 a warp; tiles come through shared memory.

A CTA computes 128x128 of D with eight warps, 64x32 each::

           32     32     32     32
        +------+------+------+------+    in a round of 64 columns of K:
     64 |warp 0|warp 1|warp 2|warp 3|      all threads    copy A 128x64 and B 128x64, 16 bytes at a time
        +------+------+------+------+      barrier        every copy has arrived
     64 |warp 4|warp 5|warp 6|warp 7|      each warp      4 times: ldmatrix of A 64x16 and B 32x16,
        +------+------+------+------+                     16 mma.sync
                                           barrier        the next copies overwrite the tiles

What a CTA has loaded is used 128 times, so global memory and L2 deliver 1/128 of what step 1 asked the caches
for.  Every operand passes through registers: shared memory is read (64 + 32) * 16 elements for 64 * 32 * 16
products.  And all warps wait for the copies, then the copies wait for all warps.

The rows of a tile are 128 bytes; chunk ``c`` of row ``r`` lies at chunk ``c ^ (r % 8)``, so the eight rows
that an ``ldmatrix`` reads are in different banks.

Run it: ``python examples/hopper/ladder/step2_mma_sync.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Tile, b32, bf16, f32, kernel, kit, ptx, reg, smem, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))

import functools
import operator

from ladder_parts import check_tiles, program

BM, BN, BK = 128, 128, 64
WARPS_M, WARPS_N = 2, 4
WARP_M, WARP_N = BM // WARPS_M, BN // WARPS_N
THREADS = 32 * WARPS_M * WARPS_N
SHAPE = "m16n8k16"
ROW = BK * bf16.nbytes  # bytes of a row of a tile


def build_mma_sync(M, N, K):
    """Build the kernel: M and N are multiples of 128, K of 64."""
    check_tiles(M, N, K, BM, BN, BK)

    @kernel(
        in_specs=(Tile(M, K, bf16), Tile(N, K, bf16)),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BM),
        block=THREADS,
        arch="sm_90a",
    )
    def mma_sync(A, B, D):
        tid, lane = ptx.special.tid.x(), ptx.special.laneid()
        warp_m, warp_n = (tid >> 7) * WARP_M, (tid >> 5 & 3) * WARP_N
        m_base, n_base = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B")
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B")
        inside = {"thread": tid, "threads": THREADS, "ragged": (False, False)}
        load_a = kit.TileLoader(A, tile_a, (m_base, 0), along=1, **inside)
        load_b = kit.TileLoader(B, tile_b, (n_base, 0), along=1, **inside)

        # ldmatrix: each lane gives the address of 16 bytes of a row. Of A, lanes 0-15 give 16 rows, lanes
        # 16-31 the same rows 8 columns further. Of B, lanes 0-7 give 8 rows and lanes 8-15 their next 8
        # columns; lanes 16-31 likewise for the next 8 rows.
        row_a = warp_m + (lane & 15)
        from_a = tile_a.addr + row_a * ROW + (((lane >> 4) ^ (row_a & 7)) << 4)
        row_b = warp_n + (lane & 7) + (lane >> 4) * 8
        from_b = tile_b.addr + row_b * ROW + (((lane >> 3 & 1) ^ (row_b & 7)) << 4)

        sums = [[ptx.mma.fragment("d", SHAPE, f32) for _ in range(WARP_N // 8)] for _ in range(WARP_M // 16)]
        for fragment in functools.reduce(operator.iadd, sums, []):
            for register in fragment:
                register.set(0.0)
        with ptx.for_(0, K, BK):
            load_a.copy()
            load_b.copy()
            ptx.cp.async_.wait_all()
            ptx.bar.sync(0)
            for column in range(0, BK, 16):
                left = [ptx.mma.fragment("a", SHAPE, bf16) for _ in sums]
                right = [ptx.mma.fragment("b", SHAPE, bf16) for _ in sums[0]]
                at_a, at_b = from_a ^ (column * 2), from_b ^ (column * 2)  # the swizzle: an XOR, not a sum
                for i, a in enumerate(left):
                    ptx.ldmatrix(a, ptx.addr(at_a, i * 16 * ROW))
                for j in range(0, len(right), 2):
                    ptx.ldmatrix([*right[j], *right[j + 1]], ptx.addr(at_b, j * 8 * ROW))
                for a, row in zip(left, sums, strict=True):
                    for b, d in zip(right, row, strict=True):
                        ptx.mma(d, a, b)
            ptx.bar.sync(0)

        origin = sums[0][0].origin(lane)
        place = reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, m_base + warp_m + origin.row, N * bf16.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(place, n_base + warp_n + origin.column, bf16.nbytes, place)
        for i, row in enumerate(sums):
            for j, d in enumerate(row):
                for element in (0, 2):
                    packed = reg.scalar(b32)
                    ptx.inst.cvt.rn.bf16x2.f32(packed, d[element + 1], d[element])
                    offset = (i * 16 + d.row(element)) * N + j * 8 + d.column(element)
                    ptx.inst.st.global_.b32(ptx.addr(place, offset * bf16.nbytes), packed)
        ptx.ret()

    return mma_sync


SHAPES = [(128, 128, 64), (256, 128, 192)]

if __name__ == "__main__":
    program(build_mma_sync, SHAPES)
