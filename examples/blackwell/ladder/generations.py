"""Three generations of the same product: what loads the tiles, and what multiplies them.

==========  ===========================  ====================  ============================================
generation  load                         compute               the threads' part
==========  ===========================  ====================  ============================================
Ampere      ``cp.async``                 ``mma.sync``          all: addresses, copies, fragments, products
Hopper      ``cp.async.bulk.tensor``     ``wgmma.mma_async``   one copies, 128 multiply and hold D
Blackwell   ``cp.async.bulk.tensor``     ``tcgen05.mma``       one copies and multiplies, 128 store D
==========  ===========================  ====================  ============================================

``cp.async.bulk.tensor`` is TMA's copy.

Each kernel computes ``D[M, N] = A[M, K] @ B[N, K].T``, bf16 in and out, with four warps and one stage of
shared memory: a tile of 64x64 of D (128x64 on Blackwell), 64 columns of K in a round.  Put side by side,
they show where the registers, addresses and waits of one generation went in the next.

In all three the rows of a tile have 128 bytes in shared memory, and chunk ``c`` of row ``r`` lies at
chunk ``c ^ (r % 8)``, so that eight rows of one chunk lie in different banks.  Ampere's threads compute
this themselves, for the copies (``kit.TileLoader``) and for ``ldmatrix``; TMA, ``wgmma`` and
``tcgen05.mma`` only need to be told.

Run it: ``python examples/blackwell/ladder/generations.py``.  It assembles the kernels and verifies them
in the simulator.  Where torch sees a GPU, it also launches those that the GPU can run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, SpecError, Tile, b32, b64, bf16, f32, kernel, kit, ptx, reg, smem, u64

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import launch, operand_2d, store_tile, verify, wait

BM, BN, BK = 64, 64, 64
BLACKWELL_M = 128  # rows of a tile that fill the lanes of tensor memory
THREADS = 128
MMA_N, MMA_K = 8, 16  # of one mma.sync; M is 16, the rows of a warp


def check_tiles(M, N, K, rows):
    """Raise an error for sizes that are no multiples of the tile."""
    for name, size, tile in (("M", M, rows), ("N", N, BN), ("K", K, BK)):
        if size <= 0 or size % tile:
            raise SpecError(f"{name} = {size} is not a positive multiple of its tile, {tile}")


# --- Ampere: every thread copies, every warp multiplies -------------------------------------------------


def build_ampere(M, N, K, *, arch="sm_80"):
    """Build the kernel with ``cp.async`` and ``mma.sync``: M, N and K are multiples of 64."""
    check_tiles(M, N, K, BM)

    @kernel(
        in_specs=(Tile(M, K, bf16), Tile(N, K, bf16)),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BM),
        block=THREADS,
        arch=arch,
    )
    def ampere(A, B, D):
        tid = ptx.special.tid.x()
        warp, lane = tid >> 5, ptx.special.laneid()
        m_base, n_base = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B")
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B")
        inside = {"thread": tid, "threads": THREADS, "ragged": (False, False)}
        load_a = kit.TileLoader(A, tile_a, (m_base, 0), along=1, **inside)
        load_b = kit.TileLoader(B, tile_b, (n_base, 0), along=1, **inside)

        # ldmatrix: each lane gives the address of one row of 16 bytes. Lanes 0-15 give the warp's 16 rows of
        # A, lanes 16-31 the same rows 8 columns further; lanes 0-7 give 8 rows of B, lanes 8-15 likewise.
        row_a = warp * 16 + (lane & 15)
        from_a = tile_a.addr + row_a * 128 + (((lane >> 4) ^ (row_a & 7)) << 4)
        row_b = lane & 7
        from_b = tile_b.addr + row_b * 128 + (((lane >> 3 & 1) ^ row_b) << 4)

        sums = [ptx.mma.fragment("d", "m16n8k16", f32) for _ in range(BN // MMA_N)]  # 32 registers
        for fragment in sums:
            for register in fragment:
                register.set(0.0)
        with ptx.for_(0, K, BK):
            load_a.copy()
            load_b.copy()
            ptx.cp.async_.wait_all()
            ptx.bar.sync(0)  # the copies of all threads
            for column in range(0, BK, MMA_K):
                a = ptx.mma.fragment("a", "m16n8k16", bf16)
                ptx.ldmatrix(a, from_a ^ (column * 2))  # the swizzle: an XOR, where a sum was
                for n, d in enumerate(sums):
                    b = ptx.mma.fragment("b", "m16n8k16", bf16)
                    ptx.ldmatrix(b, ptx.addr(from_b ^ (column * 2), n * MMA_N * 128))
                    ptx.mma(d, a, b)
            ptx.bar.sync(0)  # the next copies overwrite the tiles

        origin = sums[0].origin(lane)
        place = reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, m_base + warp * 16 + origin.row, N * bf16.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(place, n_base + origin.column, bf16.nbytes, place)
        for n, d in enumerate(sums):
            for i in (0, 2):
                packed = reg.scalar(b32)
                ptx.inst.cvt.rn.bf16x2.f32(packed, d[i + 1], d[i])
                offset = (d.row(i) * N + n * MMA_N + d.column(i)) * bf16.nbytes
                ptx.inst.st.global_.b32(ptx.addr(place, offset), packed)
        ptx.ret()

    return ampere


# --- Hopper: one thread copies, a warpgroup multiplies --------------------------------------------------


def build_hopper(M, N, K, *, arch="sm_90a"):
    """Build the kernel with TMA and ``wgmma``: M, N and K are multiples of 64."""
    check_tiles(M, N, K, BM)

    @kernel(
        in_specs=(
            operand_2d(M, K, BM, BK, Layout.TMA_128B),
            operand_2d(N, K, BN, BK, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BM),
        block=THREADS,
        arch=arch,
    )
    def hopper(A, B, D):
        tid = ptx.special.tid.x()
        m_base, n_base = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B")
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B")
        loaded = smem.alloc(1, b64)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        sums = ptx.wgmma.accumulator(m=BM, n=BN, dtype=f32)  # 32 registers
        desc_a, desc_b = ptx.wgmma.descriptor(tile_a), ptx.wgmma.descriptor(tile_b)
        with ptx.for_(0, K, BK) as k:
            with ptx.if_(tid == 0):
                ptx.mbarrier.arrive_expect_tx(loaded, tile_a.nbytes + tile_b.nbytes)
                ptx.cp.async_.bulk.tensor_2d(dst=tile_a, src=A.tma_desc(), coord=(k, m_base), mbar=loaded)
                ptx.cp.async_.bulk.tensor_2d(dst=tile_b, src=B.tma_desc(), coord=(k, n_base), mbar=loaded)
            wait(loaded, k >> 6 & 1)
            ptx.wgmma.fence()
            for column in range(0, BK, 16):
                a, b = (ptx.wgmma.advance(desc, column * 2) for desc in (desc_a, desc_b))
                ptx.wgmma.mma_async(sums, a, b, atype=bf16, scale_d=True if column else k != 0)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)  # the next copies overwrite the tiles

        corner = reg.scalar(u64)
        ptx.inst.mad.wide.u32(corner, m_base, N * bf16.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(corner, n_base, bf16.nbytes, corner)
        kit.wgmma_epilogue.direct(sums, corner, N * bf16.nbytes, dtype=bf16)
        ptx.ret()

    return hopper


# --- Blackwell: one thread copies and multiplies --------------------------------------------------------


def build_blackwell(M, N, K, *, arch="sm_100a"):
    """Build the kernel with TMA and ``tcgen05.mma``: M is a multiple of 128, N and K of 64."""
    check_tiles(M, N, K, BLACKWELL_M)

    @kernel(
        in_specs=(
            operand_2d(M, K, BLACKWELL_M, BK, Layout.TMA_128B),
            operand_2d(N, K, BN, BK, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // BN, M // BLACKWELL_M),
        block=THREADS,
        arch=arch,
    )
    def blackwell(A, B, D):
        warp = ptx.special.tid.x() >> 5
        m_base, n_base = ptx.special.ctaid.y() * BLACKWELL_M, ptx.special.ctaid.x() * BN
        tile_a = smem.alloc((BLACKWELL_M, BK), bf16, swizzle="128B")
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B")
        loaded, multiplied = smem.alloc(1, b64), smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(tmem_slot, BN)
            with ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.init(loaded, 1)
                ptx.mbarrier.init(multiplied, 1)
                ptx.fence.mbarrier_init()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        sums = smem.load(b32, tmem_slot)  # no registers: 64 columns of tensor memory

        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            multiply = kit.StageMultiply(tile_a, tile_b, m=BLACKWELL_M, n=BN, k=BK)
            with ptx.for_(0, K, BK) as k:
                ptx.mbarrier.arrive_expect_tx(loaded, tile_a.nbytes + tile_b.nbytes)
                ptx.cp.async_.bulk.tensor_2d(dst=tile_a, src=A.tma_desc(), coord=(k, m_base), mbar=loaded)
                ptx.cp.async_.bulk.tensor_2d(dst=tile_b, src=B.tma_desc(), coord=(k, n_base), mbar=loaded)
                wait(loaded, k >> 6 & 1)
                multiply(sums, 0, accumulate=k != 0)
                ptx.tcgen05.commit(multiplied, space="cluster")
                wait(multiplied, k >> 6 & 1)  # the next copies overwrite the tiles
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()

        store_tile(sums, warp, D, m_base, n_base, BN)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(sums, BN)
        ptx.ret()

    return blackwell


# --- the program -----------------------------------------------------------------------------------------

BUILDERS = {"Ampere": build_ampere, "Hopper": build_hopper, "Blackwell": build_blackwell}
SHAPES = [(128, 64, 64), (256, 128, 320)]


def runs_on(generation, capability):
    """Return True if a GPU of this compute capability runs the kernel: sm_80 also on every later one."""
    major, minor = capability
    return {"Ampere": major >= 8, "Hopper": major == 9, "Blackwell": (major, minor) == (10, 0)}[generation]


def main():
    good = True
    for generation, build in BUILDERS.items():
        print(generation)
        good &= verify(build, SHAPES, {})
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        for generation in BUILDERS:
            if runs_on(generation, torch.cuda.get_device_capability()):
                errors = [launch(torch, BUILDERS[generation](*shape), shape) for shape in SHAPES]
                good &= max(errors) <= 1
                print(f"{generation} on the GPU: error/bound {max(errors):.4f}")
    else:
        print("\nNo kernel was launched: torch sees no GPU. The simulator has run all of them.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
