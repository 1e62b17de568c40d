"""The Blackwell GEMM of the project's first specification, as printed there, put together from its steps.

Every call stands as it was spelled.  Kept because it is *wrong*, in ways that a simulator must show:

* Step 4 hands a stage back with a plain ``mbarrier.arrive`` right after the MMAs were *issued*; TMA may refill
  it while they still read.  Needs K beyond the ring (K > 256) and engines that are late.
* Step 6 frees tensor memory with no barrier after the other warps' loads.
* No ``tcgen05.fence`` stands around any synchronization.

The first is wrong values under the ``late`` schedule; the others are for the sanitizer.  The steps leave out
the setup and some address arithmetic; that is filled in here and marked.
"""

from __future__ import annotations

from pyptx import Layout, Tile, b32, b64, bf16, f32, kernel, pred, ptx, reg, smem, u32

BM, BN, BK = 128, 256, 64
K_PER_INSTR = 16
MMAS_PER_KTILE = BK // K_PER_INSTR
MMA_DESC_B128 = 0x4000404000010000

# Step 1: shared-memory layout
STAGES = 4
A_STAGE = BM * BK * 2
B_STAGE = BN * BK * 2

SMEM_A_BASE = 0
SMEM_B_BASE = SMEM_A_BASE + STAGES * A_STAGE
SMEM_BAR_LOAD = SMEM_B_BASE + STAGES * B_STAGE
SMEM_BAR_CONSUMED = SMEM_BAR_LOAD + STAGES * 8
SMEM_BAR_MMA = SMEM_BAR_CONSUMED + STAGES * 8
SMEM_TMEM_SLOT = SMEM_BAR_MMA + 8
SMEM_BYTES = SMEM_TMEM_SLOT + 16


def build_racy_gemm(M, N, K, grid_tile_width=8):
    """The printed kernel for one size: D[M, N] = A[M, K] @ B[N, K].T."""
    k_iters, stages = K // BK, STAGES
    tiles_m, tiles_n = M // BM, N // BN
    smem_b_base = SMEM_B_BASE

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
        ),
        out_specs=(Tile(M, N, f32),),
        grid=(tiles_m, tiles_n, 1),
        block=(128, 1, 1),
        arch="sm_100a",
        smem=SMEM_BYTES,
        extern_smem=True,
    )
    def gemm(A, B_T, D):
        # Setup (not printed): indices, roles, barriers, tensor memory.
        tid = ptx.special.tid.x()
        warp = tid >> 5
        base = smem.base()
        bar_load = base + SMEM_BAR_LOAD
        bar_consumed = base + SMEM_BAR_CONSUMED
        bar_mma = base + SMEM_BAR_MMA
        tmem_slot = base + SMEM_TMEM_SLOT
        is_tma_warp = tid == 0
        is_mma_warp = tid == 32
        alloc_warp = warp == 0

        # Step 2: tile order. Groups along M, every other one backwards.
        tile_linear = ptx.special.ctaid.y() * tiles_m + ptx.special.ctaid.x()
        group_span = reg.scalar(u32, init=grid_tile_width * tiles_n)
        group_id = reg.scalar(u32)
        group_offset = reg.scalar(u32)
        ptx.inst.div.u32(group_id, tile_linear, group_span)
        ptx.inst.rem.u32(group_offset, tile_linear, group_span)
        group_first = group_id * grid_tile_width
        group_width = reg.scalar(u32)
        ptx.inst.sub.u32(group_width, tiles_m, group_first)
        ptx.inst.min.u32(group_width, group_width, grid_tile_width)
        minor_fwd = group_offset // group_width
        minor_rev = reg.scalar(u32)
        ptx.inst.sub.u32(minor_rev, tiles_n - 1, minor_fwd)
        is_odd_group = (group_id & 1) != 0
        tile_minor = reg.scalar(u32)
        ptx.inst.selp.b32(tile_minor, minor_rev, minor_fwd, is_odd_group)
        m_base = (group_first + group_offset % group_width) * BM
        n_base = tile_minor * BN

        with ptx.if_(tid == 0):
            for s in range(stages):
                ptx.mbarrier.init(bar_load + s * 8, 1)
                ptx.mbarrier.init(bar_consumed + s * 8, 1)
            ptx.mbarrier.init(bar_mma, 1)
        with ptx.if_(alloc_warp):
            ptx.tcgen05.alloc(tmem_slot, 512)
        ptx.bar.sync(0)
        tmem_base = smem.load(b32, ptx.addr(tmem_slot))
        idesc = reg.scalar(b32, init=ptx.tcgen05.make_instr_desc_f16bf16_f32())

        # Step 3: producer
        with ptx.if_(is_tma_warp):
            for ki in range(k_iters):
                slot = ki % stages
                smem_a = base + SMEM_A_BASE + slot * A_STAGE
                smem_b = base + smem_b_base + slot * B_STAGE
                mbar_l = bar_load + slot * 8
                mbar_c = bar_consumed + slot * 8

                if ki >= stages:
                    # Slot reuse: wait for MMA to finish previous iter.
                    consumed_phase = ((ki // stages) - 1) & 1
                    with ptx.scope():
                        ready = reg.scalar(pred)
                        ptx.label(f"cwait_{ki}")
                        ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(
                            ready, ptx.addr(mbar_c), consumed_phase
                        )
                        ptx.bra(f"cdone_{ki}", pred=ready)
                        ptx.bra(f"cwait_{ki}")
                        ptx.label(f"cdone_{ki}")

                ptx.mbarrier.arrive_expect_tx(mbar_l, A_STAGE + B_STAGE)
                ptx.cp.async_.bulk.tensor_2d(
                    dst=smem_a, src=A.tma_desc(),
                    coord=(ki * BK, m_base), mbar=mbar_l,
                )  # fmt: skip
                ptx.cp.async_.bulk.tensor_2d(
                    dst=smem_b, src=B_T.tma_desc(),
                    coord=(ki * BK, n_base), mbar=mbar_l,
                )  # fmt: skip

        # Step 4: consumer
        with ptx.if_(is_mma_warp):
            for ki in range(k_iters):
                slot = ki % stages
                # Addresses and phase (not printed).
                smem_a = base + SMEM_A_BASE + slot * A_STAGE
                smem_b = base + smem_b_base + slot * B_STAGE
                mbar_l = bar_load + slot * 8
                mbar_c = bar_consumed + slot * 8
                load_phase = (ki // stages) & 1

                # Wait for TMA to finish this slot.
                with ptx.scope():
                    ready = reg.scalar(pred)
                    ptx.label(f"lwait_{ki}")
                    ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(
                        ready, ptx.addr(mbar_l), load_phase
                    )  # fmt: skip
                    ptx.bra(f"ldone_{ki}", pred=ready)
                    ptx.bra(f"lwait_{ki}")
                    ptx.label(f"ldone_{ki}")

                desc_a0 = ptx.tcgen05.masked_descriptor(smem_a, const_bits=MMA_DESC_B128)
                desc_b0 = ptx.tcgen05.masked_descriptor(smem_b, const_bits=MMA_DESC_B128)
                for kk in range(MMAS_PER_KTILE):
                    if kk == 0:
                        desc_a, desc_b = desc_a0, desc_b0
                    else:
                        desc_a = reg.scalar(b64); desc_b = reg.scalar(b64)  # noqa: E702  # fmt: skip
                        ptx.inst.add.s64(desc_a, desc_a0, kk * 2)
                        ptx.inst.add.s64(desc_b, desc_b0, kk * 2)
                    is_first = (ki == 0 and kk == 0)  # fmt: skip
                    ptx.tcgen05.mma(
                        tmem_base, desc_a, desc_b, idesc,
                        kind="f16", pred_operand=(not is_first),
                    )  # fmt: skip

                # Signal this slot is free.
                ptx.mbarrier.arrive(mbar_c)

            # Commit after all K-tiles.
            ptx.tcgen05.commit(bar_mma, space="cluster")

        # Step 5: epilogue
        with ptx.scope():
            ready = reg.scalar(pred)
            ptx.label("cw")
            ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(
                ready, ptx.addr(bar_mma), 0
            )  # fmt: skip
            ptx.bra("cd", pred=ready)
            ptx.bra("cw")
            ptx.label("cd")

        # Thread T reads DP=T (warps 0..3 cover DPs 0..127).
        row_base = m_base + tid
        # d_ptr = D + (row * N + n_base) * 4 (not printed)
        d_ptr = D.ptr + 0
        ptx.inst.mad.wide.u32(d_ptr, row_base, N * 4, d_ptr)
        ptx.inst.mad.wide.u32(d_ptr, n_base, 4, d_ptr)

        tmem_row_bits = (tid << 16) & 0x3E00000
        tmem_addr = tmem_base + tmem_row_bits

        out = reg.array(b32, 128)
        for chunk in range(BN // 128):
            chunk_off = chunk * 128
            ptx.tcgen05.ld(
                [out[i] for i in range(128)],
                tmem_addr + chunk_off,
                shape="32x32b", count=128, dtype="b32",
            )  # fmt: skip
            ptx.tcgen05.wait_ld()

            for vec in range(128 // 4):
                off = (chunk_off + vec * 4) * 4
                ptx.inst.st.global_.v4.b32(
                    ptx.addr(d_ptr, off),
                    [out[vec * 4], out[vec * 4 + 1], out[vec * 4 + 2], out[vec * 4 + 3]],
                )

        # Step 6: cleanup
        with ptx.if_(alloc_warp):
            ptx.tcgen05.dealloc(tmem_base, 512)
            ptx.tcgen05.relinquish_alloc_permit()
        ptx.ret()

    return gemm
