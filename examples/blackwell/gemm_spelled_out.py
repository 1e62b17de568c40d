"""The Blackwell GEMM with everything spelled out: ``D[M, N] = A[M, K] @ B[N, K].T``, bf16 in, f32 out.

``gemm_highperf_blackwell.py`` has the same kernel, ``build_gemm``, with the units and the kit of pyptx.  Here
nothing stands between the author and the PTX text:

* Shared memory is laid out by hand: ``smem.base()`` and offsets, the bytes in the option ``smem=``.
* A wait is a ``try_wait``, two branches and two labels.
* The loop over K is a Python loop, so the stage, the phase and the labels of each round are constants. The
  text grows with K: about 75 lines for each 64 of K. The other kernel has a PTX loop.
* The order of the tiles is spelled as ``div``, ``rem`` and ``selp``.
* The kernel allocates all 512 columns of tensor memory, of which the tile needs 256.

::

    bytes of shared memory          A_STAGE = 16 KiB, B_STAGE = 32 KiB
    0                               stages of A
    stages * A_STAGE                stages of B
    + stages * B_STAGE              bar_load[stages]        TMA has filled the stage
    + stages * 8                    bar_consumed[stages]    the tensor core has read the stage
    + stages * 8                    bar_mma                 the tile is done
    + 8                             the address of the tensor memory

    warp 0, one lane    wait bar_consumed -> expect bytes on bar_load -> TMA A, TMA B
    warp 1, one lane    wait bar_load -> 4 x tcgen05.mma -> commit to bar_consumed; at last commit to bar_mma
    warp 2              allocates tensor memory, frees it
    all four warps      wait bar_mma -> tensor memory -> registers -> D

A stage is handed back by ``tcgen05.commit``.  An ordinary ``mbarrier.arrive`` after the MMAs would come too
early: they have been issued then, and still read the stage when TMA fills it again.

Run it: ``python examples/blackwell/gemm_spelled_out.py``.
"""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np

from pyptx import Layout, SpecError, Tile, b32, b64, bf16, f32, kernel, pred, ptx, reg, smem, u32, u64

BM, BN, BK = 128, 256, 64
K_PER_INSTR = 16
MMAS_PER_KTILE = BK // K_PER_INSTR
STAGES = 4
A_STAGE = BM * BK * 2
B_STAGE = BN * BK * 2
TMEM_COLUMNS = 512

#: 128-byte swizzle, 1024 bytes between 8-row groups, descriptor version 1.
MMA_DESC_B128 = 0x4000404000010000


def wait(name, mbar, phase):
    """Record a loop that tries until the phase of this parity is over; ``name`` makes its labels unique."""
    with ptx.scope():
        ready = reg.scalar(pred)
        ptx.label(f"{name}_wait")
        ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(ready, ptx.addr(mbar), phase)
        ptx.bra(f"{name}_done", pred=ready)
        ptx.bra(f"{name}_wait")
        ptx.label(f"{name}_done")


def tile_of(tile_linear, tiles_m, tiles_n, grid_tile_width):
    """Return the row and column of tile number ``tile_linear``.

    Groups of ``grid_tile_width`` rows of tiles, each walked column by column; every other group from right to
    left, so that a group begins at the columns where the last one ended.  The last group may be lower.
    """
    group_span = grid_tile_width * tiles_n
    group_id, group_offset, first, height, minor, major_fwd, major_rev, major, row = (
        reg.scalar(u32) for _ in range(9)
    )
    ptx.inst.div.u32(group_id, tile_linear, group_span)
    ptx.inst.rem.u32(group_offset, tile_linear, group_span)
    ptx.inst.mul.lo.u32(first, group_id, grid_tile_width)
    ptx.inst.sub.u32(height, tiles_m, first)
    ptx.inst.min.u32(height, height, grid_tile_width)
    ptx.inst.rem.u32(minor, group_offset, height)
    ptx.inst.div.u32(major_fwd, group_offset, height)
    ptx.inst.sub.u32(major_rev, tiles_n - 1, major_fwd)
    is_odd_group = (group_id & 1) != 0
    ptx.inst.selp.b32(major, major_rev, major_fwd, is_odd_group)
    ptx.inst.add.u32(row, first, minor)
    return row, major


def build_gemm(M, N, K, *, stages=STAGES, grid_tile_width=8, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: multiples of 128, 256 and 64.
        stages: depth of the ring, 1 to 4 (48 KiB of shared memory each).
        grid_tile_width: rows of tiles in a group.
        arch: a target that has tcgen05.

    Raises:
        SpecError: a size that is no multiple of its tile, another number of stages, a width below 1.
    """
    for name, size, tile in (("M", M, BM), ("N", N, BN), ("K", K, BK)):
        if size <= 0 or size % tile:
            raise SpecError(
                f"{name} = {size} is not a positive multiple of its tile, {tile}",
                hint=f"pad {name} to {max(1, -(-size // tile)) * tile}",
            )
    if not 1 <= stages <= STAGES:
        raise SpecError(f"stages = {stages}: expected 1 to {STAGES}, each takes {A_STAGE + B_STAGE} bytes")
    if grid_tile_width < 1:
        raise SpecError(f"grid_tile_width = {grid_tile_width}: expected a positive number of rows of tiles")
    tiles_m, tiles_n, k_iters = M // BM, N // BN, K // BK

    smem_b_base = stages * A_STAGE
    smem_bar_load = smem_b_base + stages * B_STAGE
    smem_bar_consumed = smem_bar_load + stages * 8
    smem_bar_mma = smem_bar_consumed + stages * 8
    smem_tmem_slot = smem_bar_mma + 8
    smem_bytes = smem_tmem_slot + 16

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
        ),
        out_specs=(Tile(M, N, f32),),
        grid=(tiles_m, tiles_n, 1),
        block=(128, 1, 1),
        arch=arch,
        smem=smem_bytes,
        extern_smem=True,
    )
    def gemm(A, B_T, D):
        # --- setup ---------------------------------------------------------------------------
        tid = ptx.special.tid.x()
        warp = tid >> 5
        is_tma_warp = warp == 0
        is_mma_warp = warp == 1
        alloc_warp = warp == 2

        base = smem.base()
        bar_load = base + smem_bar_load
        bar_consumed = base + smem_bar_consumed
        bar_mma = base + smem_bar_mma
        tmem_slot = base + smem_tmem_slot

        tile_linear = ptx.special.ctaid.y() * tiles_m + ptx.special.ctaid.x()
        tile_m, tile_n = tile_of(tile_linear, tiles_m, tiles_n, grid_tile_width)
        m_base = tile_m * BM
        n_base = tile_n * BN

        with ptx.if_(is_tma_warp), ptx.if_(ptx.warp.elect()):
            for slot in range(stages):
                ptx.mbarrier.init(bar_load + slot * 8, 1)
                ptx.mbarrier.init(bar_consumed + slot * 8, 1)
            ptx.mbarrier.init(bar_mma, 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(alloc_warp):
            ptx.tcgen05.alloc(tmem_slot, TMEM_COLUMNS)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem_base = smem.load(b32, ptx.addr(tmem_slot))

        # --- the warp that loads -------------------------------------------------------------
        with ptx.if_(is_tma_warp), ptx.if_(ptx.warp.elect()):
            for ki in range(k_iters):
                slot = ki % stages
                smem_a = base + slot * A_STAGE
                smem_b = base + smem_b_base + slot * B_STAGE
                mbar_l = bar_load + slot * 8
                if ki >= stages:
                    consumed_phase = ((ki // stages) - 1) & 1
                    wait(f"consumed_{ki}", bar_consumed + slot * 8, consumed_phase)
                ptx.mbarrier.arrive_expect_tx(mbar_l, A_STAGE + B_STAGE)
                ptx.cp.async_.bulk.tensor_2d(
                    dst=smem_a, src=A.tma_desc(), coord=(ki * BK, m_base), mbar=mbar_l
                )
                ptx.cp.async_.bulk.tensor_2d(
                    dst=smem_b, src=B_T.tma_desc(), coord=(ki * BK, n_base), mbar=mbar_l
                )

        # --- the warp that multiplies --------------------------------------------------------
        with ptx.if_(is_mma_warp), ptx.if_(ptx.warp.elect()):
            idesc = reg.scalar(b32, init=ptx.tcgen05.make_instr_desc_f16bf16_f32())
            for ki in range(k_iters):
                slot = ki % stages
                smem_a = base + slot * A_STAGE
                smem_b = base + smem_b_base + slot * B_STAGE
                wait(f"loaded_{ki}", bar_load + slot * 8, (ki // stages) & 1)
                desc_a0 = ptx.tcgen05.masked_descriptor(smem_a, const_bits=MMA_DESC_B128)
                desc_b0 = ptx.tcgen05.masked_descriptor(smem_b, const_bits=MMA_DESC_B128)
                for kk in range(MMAS_PER_KTILE):
                    if kk == 0:
                        desc_a, desc_b = desc_a0, desc_b0
                    else:
                        desc_a, desc_b = reg.scalar(b64), reg.scalar(b64)
                        ptx.inst.add.s64(desc_a, desc_a0, kk * 2)  # 32 bytes along K, in units of 16
                        ptx.inst.add.s64(desc_b, desc_b0, kk * 2)
                    is_first = ki == 0 and kk == 0
                    ptx.tcgen05.mma(tmem_base, desc_a, desc_b, idesc, kind="f16", pred_operand=(not is_first))
                if ki + stages < k_iters:  # no thread waits for the last ones
                    ptx.tcgen05.commit(bar_consumed + slot * 8, space="cluster")
            ptx.tcgen05.commit(bar_mma, space="cluster")

        # --- epilogue ------------------------------------------------------------------------
        ptx.warp.sync()
        wait("mma", bar_mma, 0)
        ptx.tcgen05.fence_after_thread_sync()
        d_ptr = reg.scalar(u64)
        ptx.inst.mad.wide.u32(d_ptr, m_base + tid, N * 4, D.ptr)
        ptx.inst.mad.wide.u32(d_ptr, n_base, 4, d_ptr)
        tmem_row_bits = (tid << 16) & 0x3E00000  # lane 32 * warp, in the address's upper half
        tmem_addr = tmem_base + tmem_row_bits
        out = reg.array(b32, 128)
        for chunk in range(BN // 128):
            chunk_off = chunk * 128
            ptx.tcgen05.ld(
                [out[i] for i in range(128)],
                tmem_addr + chunk_off,
                shape="32x32b",
                count=128,
                dtype="b32",
            )
            ptx.tcgen05.wait_ld()
            for vec in range(128 // 4):
                off = (chunk_off + vec * 4) * 4
                ptx.inst.st.global_.v4.b32(
                    ptx.addr(d_ptr, off),
                    [out[vec * 4], out[vec * 4 + 1], out[vec * 4 + 2], out[vec * 4 + 3]],
                )

        # --- teardown ------------------------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(alloc_warp):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem_base, TMEM_COLUMNS)
            ptx.tcgen05.relinquish_alloc_permit()
        ptx.ret()

    return gemm


def check(M, N, K, schedule="late", **options):
    """Simulate a product of random numbers; return the report and the largest error by its bound."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, K), np.float32).astype(ml_dtypes.bfloat16) for rows in (M, N))
    d = np.full((M, N), np.nan, np.float32)  # elements that are not written stay NaN
    report = build_gemm(M, N, K, **options).simulate(a, b, out=d, schedule=schedule, sanitize="strict")
    wide = a.astype(np.float64), b.astype(np.float64)
    bound = K * 2.0**-23 * (abs(wide[0]) @ abs(wide[1]).T)
    error = abs(d - wide[0] @ wide[1].T) / bound
    return report, float(np.inf if np.isnan(error).any() else error.max())


def main():
    for shape in ((128, 256, 64), (128, 256, 640), (384, 512, 128)):
        report, error = check(*shape)
        assembly = build_gemm(*shape).assemble()
        right = report.verdict == "clean" and error <= 1 and not assembly.spills
        ptxas = f"{assembly.resources[0].registers} regs, {assembly.spills} B spilled"
        print(f"{' x '.join(map(str, shape)):>18}  {ptxas}  {report.holds}  {error:.4f}")
        if not right:
            print(report)
            sys.exit("wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
