"""A minimal Blackwell matmul: ``C[M, N] = A[M, K] @ B[N, K].T``, f16 in and out, loaded by ``cp.async``.

One CTA of four warps computes one ``block_m x block_n`` tile of C, one slice of K at a time.  Every thread
copies 16 bytes at a time from global to shared memory; TMA does not take part::

                 K -------->
        +-----+-----+-----+            1. all threads      cp.async A and B, wait, fence, barrier
    A   |     |     | ... | block_m    2. one lane         block_k / 16 x tcgen05.mma, one commit
        +-----+-----+-----+               warp 0           waits for the mbarrier
    B   |     |     | ... | block_n    3. all threads      barrier, next slice
        +-----+-----+-----+
        block_k                        4. all threads      tensor memory -> registers -> f16 -> C

A row of a slice has 32, 64 or 128 bytes (``block_k`` 16, 32 or 64).  The threads permute its 16-byte pieces
as TMA's swizzle of that width would, so the tensor core reads the tiles as if TMA had written them.

The rules that make it correct:

* ``cp.async`` writes through the generic proxy and the tensor core reads through the async proxy, so each
  thread executes ``fence.proxy.async`` after its copies have completed, before the barrier.
* Rows past M are zero in shared memory: ``cp.async`` reads 0 of its 16 bytes there and writes zeros.
* One phase of the mbarrier is one slice of K: the parity to wait for is 0, 1, 0, 1, ...

M is a run-time size: ``Tile("M", K)``.  N and K are numbers of the recording.  N, K and M can be any; where
K or N is no multiple of 8, rows of the matrix are no multiples of 16 bytes, and copies get smaller.

Run it: ``python examples/blackwell/tilus/matmul_v0.py``.  On a Blackwell GPU it tunes, launches, verifies
and measures the kernel; elsewhere it assembles all nine configurations and verifies them in the simulator.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import tilus_harness as harness

import pyptx
from pyptx import Tile, b32, b64, f16, kernel, kit, ptx, reg, s32, smem, u32

WARPS = 4
THREADS = 32 * WARPS
SWIZZLES = {16: "32B", 32: "64B", 64: "128B"}  # block_k -> the swizzle that is as wide as a row


@pyptx.autotune("block_m, block_n", [[128, 64], [128, 128], [128, 256]])
@pyptx.autotune("block_k", [16, 32, 64])
def build_matmul_v0(N, K, *, block_m, block_n, block_k, relinquish=True, arch="sm_100a"):
    """Build the kernel for one N and K; call it with A[M, K] and B[N, K] in f16, and ``out=`` C[M, N].

    Args:
        N, K: columns of C, and length of the sums; any positive numbers.
        block_m, block_n, block_k: the tile of C, and the slice of K: 128; 64, 128 or 256; 16, 32 or 64.
        relinquish: False keeps the permit to allocate tensor memory until the CTA ends, as the published
            kernel does: the CTAs of a multiprocessor then run one after the other.
        arch: a target that has tcgen05.
    """
    swizzle = SWIZZLES[block_k]

    @kernel(
        in_specs=(Tile("M", K, f16), Tile(N, K, f16)),
        out_specs=(Tile("M", N, f16),),
        grid=lambda M: (-(-M // block_m), -(-N // block_n)),
        block=THREADS,
        arch=arch,
    )
    def matmul_v0(A, B, C):
        # --- setup ---------------------------------------------------------------------------
        tid = ptx.special.tid.x()
        warp = kit.warp_index()
        m_base = ptx.special.ctaid.x() * block_m
        n_base = ptx.special.ctaid.y() * block_n

        s_a = smem.alloc((block_m, block_k), f16, swizzle=swizzle)
        s_b = smem.alloc((block_n, block_k), f16, swizzle=swizzle)
        multiplied = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)

        k_tail = K % block_k != 0
        group = {"along": 1, "thread": tid, "threads": THREADS}
        load_a = kit.TileLoader(A, s_a, (m_base, 0), ragged=(True, k_tail), **group)
        load_b = kit.TileLoader(B, s_b, (n_base, 0), ragged=(N % block_n != 0, k_tail), **group)

        with kit.single_warp(warp, 0):
            ptx.tcgen05.alloc(tmem_slot, block_n)
            if relinquish:
                ptx.tcgen05.relinquish_alloc_permit()
            with ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.init(multiplied, 1)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        t_acc = smem.load(b32, tmem_slot)
        multiply = kit.StageMultiply(s_a, s_b, m=block_m, n=block_n, k=block_k)
        phase = reg.scalar(u32, init=0)

        # --- main loop -----------------------------------------------------------------------
        with ptx.for_(0, K, block_k) as k:
            load_a.copy()
            load_b.copy()
            ptx.cp.async_.wait_all()
            ptx.fence.proxy_async("shared::cta")
            ptx.bar.sync(0)
            with kit.single_warp(warp, 0):
                with ptx.if_(ptx.warp.elect()):
                    # The first product of a tile overwrites what tensor memory held.
                    multiply(t_acc, 0, accumulate=k != 0)
                    ptx.tcgen05.commit(multiplied, space="cluster")
                ptx.warp.sync()
                ptx.mbarrier.wait(multiplied, phase)
            ptx.bar.sync(0)
            phase ^= 1

        # --- epilogue: each thread stores its row of the tile ----------------------------------
        ptx.tcgen05.fence_after_thread_sync()
        # A store has as many bytes as the pitch of C allows, so it lies inside of C or outside.
        kit.tcgen05_epilogue.direct(
            t_acc + (warp << 21),  # lane 32 * warp, in the address's upper half
            C.at(m_base + tid, n_base).base,
            block_n,
            dtype=f16,
            chunk=64,
            align=math.gcd(2 * N, 16),
            inside=m_base + tid < C.extent(0),
            limit=(N - n_base).view(s32) if N % block_n else None,
        )

        # --- teardown ------------------------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with kit.single_warp(warp, 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(t_acc, block_n)
        ptx.ret()

    return matmul_v0


#: Sizes for the simulator: one tile; ragged in every dimension with copies of 16, 4 and 2 bytes.
SHAPES = [(128, 256, 64), (150, 104, 72), (129, 66, 38), (40, 33, 35)]


def main(bench=True):
    torch, why = harness.blackwell()
    if torch is not None:
        harness.tabulate(torch, build_matmul_v0, "matmul_v0", [(8192, 8192, 8192)], bench)
        return
    good = harness.verify(build_matmul_v0, SHAPES)
    print(f"\nThe kernel was not launched on a GPU: {why}. The simulator has run all configurations.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main(bench=True)
    # pyptx.ncu_run(main, bench=False, kernel_regex="matmul|nvjet")
