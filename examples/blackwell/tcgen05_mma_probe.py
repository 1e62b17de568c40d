"""A first lesson, the smallest tcgen05 kernel: one MMA, from shared memory to tensor memory to registers.

One warp computes ``D[128, 64] = A[128, 16] @ B[64, 16].T`` (bf16 in, f32 out) with a single instruction::

    global --TMA--> shared:  A 128x16, B 64x16      32-byte rows, 32-byte swizzle
    shared --tcgen05.mma--> tensor memory:          128 lanes x 64 columns of f32
    tensor memory --tcgen05.ld--> registers         a warp can access 32 lanes, so four warps load
    registers --> global

Two mbarriers synchronize the steps: ``loaded`` (the bytes of TMA have arrived) and ``multiplied`` (the MMA
has completed).

Run it: ``python examples/blackwell/tcgen05_mma_probe.py``.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pyptx import Layout, Tile, b32, bf16, f32, kernel, ptx, reg, smem

M, N, K = 128, 64, 16
A_BYTES, B_BYTES = M * K * 2, N * K * 2

#: 32-byte swizzle (6 in bits 61-63), 256 bytes between 8-row groups, descriptor version 1.
DESC_K32 = 6 << 61 | 1 << 46 | (256 >> 4) << 32 | 1 << 16


@kernel(
    in_specs=(
        Tile(M, K, bf16, Layout.TMA_32B, tma_box=(M, K)),
        Tile(N, K, bf16, Layout.TMA_32B, tma_box=(N, K)),
    ),
    out_specs=(Tile(M, N, f32),),
    grid=(1, 1, 1),
    block=(128, 1, 1),
    arch="sm_100a",
)
def probe(A, B, D):
    tid = ptx.special.tid.x()
    warp = tid >> 5
    s_a = smem.alloc((M, K), bf16, swizzle="32B")
    s_b = smem.alloc((N, K), bf16, swizzle="32B")
    loaded = smem.alloc(8, align=8)
    multiplied = smem.alloc(8, align=8)
    slot = smem.alloc(4, align=4)
    first_warp = warp == 0

    # Warp 0 allocates 64 columns of tensor memory; one of its lanes initializes the mbarriers.
    with ptx.if_(first_warp):
        ptx.tcgen05.alloc(slot, N)
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(loaded, 1)
            ptx.mbarrier.init(multiplied, 1)
            ptx.fence.mbarrier_init()
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()
    tmem = smem.load(b32, slot)

    # One lane loads and multiplies; its commit makes `multiplied` complete when the MMA has completed.
    with ptx.if_(first_warp), ptx.if_(ptx.warp.elect()):
        ptx.mbarrier.arrive_expect_tx(loaded, A_BYTES + B_BYTES)
        ptx.cp.async_.bulk.tensor_2d(dst=s_a, src=A.tma_desc(), coord=(0, 0), mbar=loaded)
        ptx.cp.async_.bulk.tensor_2d(dst=s_b, src=B.tma_desc(), coord=(0, 0), mbar=loaded)
        ptx.mbarrier.wait(loaded, 0)
        idesc = reg.scalar(b32, init=ptx.tcgen05.make_instr_desc_f16bf16_f32(m=M, n=N))
        desc_a = ptx.tcgen05.masked_descriptor(s_a, const_bits=DESC_K32)
        desc_b = ptx.tcgen05.masked_descriptor(s_b, const_bits=DESC_K32)
        ptx.tcgen05.mma(tmem, desc_a, desc_b, idesc, kind="f16", pred_operand=False)
        ptx.tcgen05.commit(multiplied, space="cluster")

    # All threads wait. Then each thread reads its own row, which is lane tid of tensor memory.
    ptx.mbarrier.wait(multiplied, 0)
    ptx.tcgen05.fence_after_thread_sync()
    row = reg.array(b32, N)
    ptx.tcgen05.ld(row, tmem + (warp << 21), shape="32x32b", count=N, dtype="b32")
    ptx.tcgen05.wait_ld()
    d_row = D.ptr + 0
    ptx.inst.mad.wide.u32(d_row, tid, 4 * N, d_row)
    for v in range(0, N, 4):
        ptx.inst.st.global_.v4.b32(ptx.addr(d_row, 4 * v), row[v : v + 4])

    # Warp 0 may free the columns only after all threads have completed their loads.
    ptx.tcgen05.fence_before_thread_sync()
    ptx.bar.sync(0)
    with ptx.if_(first_warp):
        ptx.tcgen05.fence_after_thread_sync()
        ptx.tcgen05.relinquish_alloc_permit()
        ptx.tcgen05.dealloc(tmem, N)
    ptx.ret()


def main():
    rng = np.random.default_rng(0)
    a = rng.integers(-8, 9, (M, K)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-8, 9, (N, K)).astype(ml_dtypes.bfloat16)
    exact = a.astype(np.int64) @ b.astype(np.int64).T  # small integers: every order of summation is exact
    assembly = probe.assemble()
    print(f"ptxas: {assembly.resources[0].registers} registers, {assembly.spills} bytes spilled")
    for schedule in ("eager", "late", "random"):
        d = np.full((M, N), np.nan, np.float32)
        report = probe.simulate(a, b, out=d, schedule=schedule)
        print(f"{schedule:<7} {report.verdict}, product {'right' if np.array_equal(d, exact) else 'WRONG'}")
        assert report.verdict == "clean" and np.array_equal(d, exact), report


if __name__ == "__main__":
    main()
