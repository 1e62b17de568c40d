"""A Blackwell matmul with TMA on both ends: ``C[M, N] = A[M, K] @ B[N, K].T``, f16 in and out.

The tiles and the loop are those of ``matmul_v0.py``: one CTA of four warps computes one ``block_m x
block_n`` tile of C, one slice of K at a time.  TMA loads the slices and stores C::

    loaded          mbarrier of the loads: one arrival, and the bytes of both tiles
    multiplied      mbarrier of the products: one arrival, by tcgen05.commit

    warp 0, one lane   expect bytes -> TMA A, TMA B -> wait loaded -> block_k / 16 x tcgen05.mma
                       -> commit to multiplied -> wait multiplied
    all warps          barrier, next slice

    epilogue, for each strip of e_block_n columns:
    all warps          tensor memory -> registers -> f16 -> staging tile (block_m x e_block_n) -> barrier
    warp 0, one lane   TMA stores the staging tile, waits until the engine has read it
    all warps          barrier, next strip

Both mbarriers complete one phase in each pass, so one parity serves both.  Where ``matmul_v0.py`` needs
some 50 instructions in each thread for a slice, one lane needs two.  Load, product and the next load still
follow each other, so the tensor core waits as long as before.

The rules that make it correct:

* TMA writes the whole box and counts all its bytes, also past M: ``loaded`` expects the bytes of whole
  tiles.
* The threads write the staging tile through the generic proxy and TMA reads it through the async proxy:
  each thread executes ``fence.proxy.async`` after its stores, before the barrier.
* ``cp.async.bulk.wait_group.read 0`` waits until the engine has read the tile, not until C is written: the
  kernel only needs the tile again.  The lane that committed the group must be the lane that waits.

TMA needs rows of 16, 32, 48 ... bytes: N and K are multiples of 8.  M is a run-time size.

Run it: ``python examples/blackwell/tilus/matmul_v1.py``.  On a Blackwell GPU it tunes, launches, verifies
and measures the kernel; elsewhere it assembles all twelve configurations and verifies them in the
simulator.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import tilus_harness as harness

import pyptx
from pyptx import Layout, SpecError, Tile, b32, b64, f16, f16x2, f32, kernel, kit, ptx, reg, smem, u32

WARPS = 4
#: Elements of f16 in a row of shared memory -> the layout whose swizzle is as wide as the row.
LAYOUTS = {16: Layout.TMA_32B, 32: Layout.TMA_64B, 64: Layout.TMA_128B}


@pyptx.autotune(
    "block_m, block_n, e_block_n", [[128, 64, 16], [128, 128, 16], [128, 256, 32], [128, 256, 64]]
)
@pyptx.autotune("block_k", [16, 32, 64])
def build_matmul_v1(N, K, *, block_m, block_n, block_k, e_block_n, relinquish=True, arch="sm_100a"):
    """Build the kernel for one N and K; call it with A[M, K] and B[N, K] in f16, and ``out=`` C[M, N].

    Args:
        N, K: columns of C, and length of the sums; multiples of 8.
        block_m, block_n, block_k: the tile of C, and the slice of K: 128; 64, 128 or 256; 16, 32 or 64.
        e_block_n: columns of C that the epilogue stores at a time: 16, 32 or 64.
        relinquish: False keeps the permit to allocate tensor memory until the CTA ends, as the published
            kernel does: the CTAs of a multiprocessor then run one after the other.
        arch: a target that has tcgen05.
    """
    for name, size in (("N", N), ("K", K)):
        if size <= 0 or size % 8:
            raise SpecError(
                f"{name} = {size}: expected a positive multiple of 8, rows of 16 bytes for TMA",
                hint=f"pad {name} to {max(1, -(-size // 8)) * 8}, or use matmul_v0, which takes any {name}",
            )
    operand, staged = LAYOUTS[block_k], LAYOUTS[e_block_n]

    @kernel(
        in_specs=(
            Tile("M", K, f16, operand, tma_box=(block_m, block_k)),
            Tile(N, K, f16, operand, tma_box=(block_n, block_k)),
        ),
        out_specs=(Tile("M", N, f16, staged, tma_box=(block_m, e_block_n)),),
        grid=lambda M: (-(-M // block_m), -(-N // block_n)),
        block=32 * WARPS,
        arch=arch,
    )
    def matmul_v1(A, B, C):
        # --- setup ---------------------------------------------------------------------------
        tid = ptx.special.tid.x()
        warp = kit.warp_index()
        m_base = ptx.special.ctaid.x() * block_m
        n_base = ptx.special.ctaid.y() * block_n

        s_a = smem.alloc((block_m, block_k), f16, swizzle=operand.swizzle)
        s_b = smem.alloc((block_n, block_k), f16, swizzle=operand.swizzle)
        s_c = smem.alloc((block_m, e_block_n), f16, swizzle=staged.swizzle)
        loaded = smem.alloc(1, b64)
        multiplied = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)

        with kit.single_warp(warp, 0):
            ptx.tcgen05.alloc(tmem_slot, block_n)
            if relinquish:
                ptx.tcgen05.relinquish_alloc_permit()
            with ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.init(loaded, 1)
                ptx.mbarrier.init(multiplied, 1)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        t_acc = smem.load(b32, tmem_slot)
        multiply = kit.StageMultiply(s_a, s_b, m=block_m, n=block_n, k=block_k)
        phase = reg.scalar(u32, init=0)

        # --- main loop -----------------------------------------------------------------------
        with ptx.for_(0, K, block_k) as k:
            with kit.single_warp(warp, 0):
                with ptx.if_(ptx.warp.elect()):
                    ptx.mbarrier.arrive_expect_tx(loaded, s_a.nbytes + s_b.nbytes)
                    ptx.cp.async_.bulk.tensor_2d(dst=s_a, src=A.tma_desc(), coord=(k, m_base), mbar=loaded)
                    ptx.cp.async_.bulk.tensor_2d(dst=s_b, src=B.tma_desc(), coord=(k, n_base), mbar=loaded)
                    ptx.mbarrier.wait(loaded, phase)
                    # The first product of a tile overwrites what tensor memory held.
                    multiply(t_acc, 0, accumulate=k != 0)
                    ptx.tcgen05.commit(multiplied, space="cluster")
                ptx.warp.sync()
                ptx.mbarrier.wait(multiplied, phase)
            ptx.bar.sync(0)
            phase ^= 1

        # --- epilogue ------------------------------------------------------------------------
        ptx.tcgen05.fence_after_thread_sync()
        t_row = t_acc + (warp << 21)  # lane 32 * warp, in the address's upper half
        row_bytes = 2 * e_block_n
        place = s_c.addr + tid * row_bytes
        place ^= ((tid * row_bytes >> 7) & (row_bytes // 16 - 1)) << 4  # the swizzle of this thread's row
        for strip in range(0, block_n, e_block_n):
            words = reg.array(f32, e_block_n)
            ptx.tcgen05.ld(words, ptx.addr(t_row, strip), shape="32x32b", count=e_block_n)
            ptx.tcgen05.wait_ld()
            for i in range(0, e_block_n, 8):
                halves = [ptx.cvt_x2(words[i + n], words[i + n + 1], f16x2) for n in range(0, 8, 2)]
                ptx.store(place ^ (2 * i) if i else place, halves, space="shared")
            ptx.fence.proxy_async("shared::cta")
            ptx.bar.sync(0)
            with kit.single_thread(warp, 0):
                ptx.cp.async_.bulk.tensor_2d(dst=C.tma_desc(), src=s_c, coord=(n_base + strip, m_base))
                ptx.cp.async_.bulk.commit_group()
                ptx.cp.async_.bulk.wait_group(0, read=True)
            ptx.bar.sync(0)

        # --- teardown ------------------------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with kit.single_warp(warp, 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(t_acc, block_n)
        ptx.ret()

    return matmul_v1


#: Sizes for the simulator: one tile; ragged in every dimension; several tiles.
SHAPES = [(128, 256, 64), (150, 104, 72), (200, 264, 136)]


def main(bench=True):
    torch, why = harness.blackwell()
    if torch is not None:
        harness.tabulate(torch, build_matmul_v1, "matmul_v1", [(8192, 8192, 8192)], bench)
        return
    good = harness.verify(build_matmul_v1, SHAPES)
    print(f"\nThe kernel was not launched on a GPU: {why}. The simulator has run all configurations.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main(bench=True)
    # pyptx.ncu_run(main, bench=False, kernel_regex="matmul|nvjet")
