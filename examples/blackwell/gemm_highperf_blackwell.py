"""A Blackwell GEMM, one PTX instruction at a time: ``D[M, N] = A[M, K] @ B[N, K].T``, bf16 in, f32 out.

One CTA of four warps computes one 128x256 tile of D.  A and B stream through a ring of shared-memory stages::

                 K ------------>                      stage s of the ring
        +-----+-----+-----+-----+            +---------------+-----------------+
    A   |64   |64   | ... |     | 128 rows   | A 128x64 bf16 | B 256x64 bf16   |
        +-----+-----+-----+-----+            +---------------+-----------------+
    B   |64   |64   | ... |     | 256 rows     full[s]: the TMA engine has filled the stage
        +-----+-----+-----+-----+              empty[s]: the tensor core has read the stage

    warp 0, one lane    wait empty[s] -> expect bytes on full[s] -> TMA A, TMA B         (producer)
    warp 1, one lane    wait full[s] -> 4 x tcgen05.mma of K=16 -> commit to empty[s]    (consumer)
    warp 2              allocates tensor memory at the start, frees it at the end
    all four warps      wait done -> tensor memory -> registers -> D                     (epilogue)

The accumulator is in tensor memory: element (m, n) of the tile is in lane m, column n.  A warp can access 32
lanes of tensor memory, so the epilogue needs four warps.

The rules that make it correct:

* The consumer frees a stage with ``tcgen05.commit``, not with an ordinary arrive.  An MMA is asynchronous: it
  still reads the stage after its issue, and TMA must not refill the stage until the MMA has completed.
* ``commit`` covers the MMAs of the thread that executes it, so one lane issues both.
* Each synchronization that hands tensor memory from one thread to another has a ``tcgen05.fence`` on both
  sides.
* Warp 2 frees tensor memory after a barrier; every warp completes its loads before it reaches this barrier.

``build_gemm_2sm`` is the same kernel for a pair of CTAs, a cluster of two on neighboring SMs.  One
``tcgen05.mma.cta_group::2`` multiplies 256x256 for both: each CTA loads its own 128 rows of A and its own
half of B, and holds its own 128 rows of D.  The pair loads B once, and a stage is a third smaller::

                    CTA 0, the leader             CTA 1
    loads           A rows   0..127               A rows 128..255
                    B rows   0..127               B rows 128..255        both signal CTA 0's full[s]
    multiplies      issues the MMAs for both      -
    commit          empty[s] of CTA 0       and   empty[s] of CTA 1      (multicast)
    holds           D rows   0..127               D rows 128..255        all 256 columns each

* Both producers load, and each waits for its own ``empty[s]`` first.  The copies of both signal the leader's
  ``full[s]``, which expects the bytes of both CTAs.
* A CTA can use the peer's barriers and tensor memory only after a cluster barrier.  Neither CTA frees tensor
  memory or exits before the other has finished, because the tensor cores access both CTAs.

``build_gemm_persistent`` computes many tiles with each pair.  It has two accumulators in tensor memory, which
fill all 512 columns, so that the epilogue of a tile runs while the tensor cores multiply the next one::

    warp 0, one lane of each CTA    loads the stages of all tiles of the pair, one after the other
    warp 1, one lane of the leader  wait acc_empty[i] -> products of a tile -> commit to acc_full[i] of both
    warp 2                          allocates and frees tensor memory
    warps 4..7 of each CTA          wait acc_full[i] -> tensor memory -> registers -> staging -> TMA store

                 tile 0            tile 1            tile 2
    products     D in columns 0+   D in columns 256+ D in columns 0+
    epilogue                       tile 0            tile 1            tile 2

* A warp of the epilogue arrives at the leader's ``acc_empty[i]`` when ``tcgen05.wait::ld`` has completed its
  last load; it stores what is in its registers afterwards.
* Each warp has its part of two staging tiles. It writes one of them when its TMA store of two boxes before
  has read it; after the last tile it waits until all have been read.
* M, N and K need not be multiples of the tile: TMA fills what is outside A and B with zeros, so that the
  products add nothing, and drops what is outside D.

The same function records the kernel for single CTAs, with tiles by cluster launch control instead of a
constant distance, for bf16, f16, tf32, e4m3 and e5m2, both majors of A and B, batches, and every M.

Run it: ``python examples/blackwell/gemm_highperf_blackwell.py``.  Without a GPU it assembles the kernel and
verifies it in the simulator; on a Blackwell GPU it also launches and measures it.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import ml_dtypes
import numpy as np

from pyptx import (
    Layout,
    SpecError,
    Tile,
    b32,
    b64,
    bf16,
    e4m3,
    e5m2,
    f16,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    s32,
    smem,
    tf32,
    u16,
    u32,
    u64,
)

BM, BN, BK = 128, 256, 64  # tile of D, and the slice of K that one stage holds
MMA_K = 16  # K of one tcgen05.mma on 16-bit operands: 32 bytes
WARPS = 4
A_STAGE = BM * BK * 2  # bytes of A in one stage
B_STAGE = BN * BK * 2

STAGES_2SM = 5
PAIR_M = 2 * BM  # rows of D that a pair of CTAs computes
B_HALF_STAGE = B_STAGE // 2
BOTH_CTAS = 0b11  # a multicast mask of the pair's ranks

SMS = 148  # of a B200
#: Bytes of the stages in a CTA's shared memory; two staging tiles of 16 KiB and the barriers need the rest.
STAGE_BYTES = 192 * 1024
TMA_WARP, MMA_WARP, ALLOC_WARP, SCHEDULER_WARP, EPILOGUE_WARP = range(5)  # the epilogue has four warps

#: What a column of D adds to the instruction descriptor, whose bits 17 to 22 are N / 8.
IDESC_COLUMN = 1 << 14

#: 128-byte swizzle, 1024 bytes between 8-row groups, descriptor version 1.
MMA_DESC_B128 = 0x4000404000010000


def check_sizes(M, N, K, rows, stages, most_stages, stage_bytes, epilogue):
    """Raise an error for sizes that a kernel with tiles of ``rows`` rows cannot compute."""
    for name, size, tile in (("M", M, rows), ("N", N, BN), ("K", K, BK)):
        if size <= 0 or size % tile:
            raise SpecError(
                f"{name} = {size} is not a positive multiple of its tile, {tile}",
                hint=f"pad {name} to {max(1, -(-size // tile)) * tile}",
            )
    if not 1 <= stages <= most_stages:
        raise SpecError(f"stages = {stages}: expected 1 to {most_stages}, each takes {stage_bytes} bytes")
    if epilogue not in ("direct", "tma"):
        raise SpecError(f"epilogue = {epilogue!r}: expected 'direct' or 'tma'")


def output_tile(M, N, dtype, epilogue):
    """Return the spec of D: a plain array, or one with a tensor map whose boxes have 32 rows of 128 bytes."""
    if epilogue == "direct":
        return Tile(M, N, dtype)
    return Tile(M, N, dtype, Layout.TMA_128B, tma_box=(32, 128 // dtype.nbytes))


def multiply_stage(tmem_base, tile_a, tile_b, idesc, k, cta_group=1):
    """Record the four MMAs along K of one stage: D += A @ B.T. The first MMA of a tile overwrites D."""
    desc_a = ptx.tcgen05.masked_descriptor(tile_a, const_bits=MMA_DESC_B128)
    desc_b = ptx.tcgen05.masked_descriptor(tile_b, const_bits=MMA_DESC_B128)
    for kk in range(BK // MMA_K):
        if kk:
            desc_a += 2 * MMA_K // 16  # 32 bytes further along K, in units of 16
            desc_b += 2 * MMA_K // 16
        accumulate = True if kk else k != 0
        ptx.tcgen05.mma(
            tmem_base, desc_a, desc_b, idesc, kind="f16", pred_operand=accumulate, cta_group=cta_group
        )


def store_tile(tmem_base, warp, D, m_base, n_base, N, dtype, epilogue):
    """Record the epilogue of one warp, which stores 32 of the CTA's 128 rows from tensor memory to D."""
    tmem_rows = tmem_base + (warp << 21)  # lane 32 * warp, in the address's upper half
    if epilogue == "direct":
        row = reg.scalar(u64)
        ptx.inst.mad.wide.u32(row, m_base + ptx.special.tid.x(), N * dtype.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(row, n_base, dtype.nbytes, row)
        kit.tcgen05_epilogue.direct(tmem_rows, row, BN, dtype=dtype)
    else:
        first = warp * 32
        place = (n_base, m_base + first)
        staging = smem.alloc((BM, 128 // dtype.nbytes), dtype, swizzle="128B", stages=2)
        kit.tcgen05_epilogue.through_shared(tmem_rows, staging, D.tma_desc(), place, BN, first=first)


def build_gemm(
    M, N, K, *, stages=4, order=kit.tile_order.boustrophedon, epilogue="direct", out_dtype=f32, arch="sm_100a"
):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: multiples of 128, 256 and 64.
        stages: depth of the ring, 2 to 4 (48 KiB of shared memory each).
        order: a function of ``pyptx.kit.tile_order`` that maps a CTA's number to the tile that it computes.
        epilogue: ``"direct"`` stores D from registers; ``"tma"`` stores D through swizzled shared memory.
        out_dtype: type of D, f32 or bf16.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, BM, stages, 4, A_STAGE + B_STAGE, epilogue)
    tiles_m, tiles_n = M // BM, N // BN

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(BN, BK)),
        ),
        out_specs=(output_tile(M, N, out_dtype, epilogue),),
        grid=(tiles_m * tiles_n, 1, 1),
        block=(32 * WARPS, 1, 1),
        arch=arch,
        extern_smem=True,
    )
    def gemm(A, B_T, D):
        # --- setup ---------------------------------------------------------------------------
        tid = ptx.special.tid.x()
        warp = tid >> 5
        is_tma_warp = warp == 0
        is_mma_warp = warp == 1
        is_alloc_warp = warp == 2

        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B", stages=stages)
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B", stages=stages)
        ring = kit.Ring(stages)  # full expects one arrive.expect_tx, empty one commit
        done = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)

        tile_m, tile_n = order(ptx.special.ctaid.x(), tiles_m, tiles_n)
        m_base = tile_m * BM
        n_base = tile_n * BN

        with ptx.if_(is_tma_warp), ptx.if_(ptx.warp.elect()):
            ring.init()
            ptx.mbarrier.init(done, 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(is_alloc_warp):
            ptx.tcgen05.alloc(tmem_slot, BN)
            ptx.tcgen05.relinquish_alloc_permit()
        # After this barrier all threads can use the mbarriers and the tensor memory.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem_base = smem.load(b32, tmem_slot)

        # --- producer: one lane of warp 0 ----------------------------------------------------
        with ptx.if_(is_tma_warp), ptx.if_(ptx.warp.elect()):
            producer = ring.producer()
            with ptx.for_(0, K, BK) as k:
                slot = producer.acquire()
                ptx.mbarrier.arrive_expect_tx(slot.full, A_STAGE + B_STAGE)
                ptx.cp.async_.bulk.tensor_2d(
                    dst=tile_a[slot.index], src=A.tma_desc(), coord=(k, m_base), mbar=slot.full
                )
                ptx.cp.async_.bulk.tensor_2d(
                    dst=tile_b[slot.index], src=B_T.tma_desc(), coord=(k, n_base), mbar=slot.full
                )
                producer.advance()
            # Wait for the last commits: the CTA, with its barriers, may exit only after they have arrived.
            producer.drain()

        # --- consumer: one lane of warp 1 ----------------------------------------------------
        with ptx.if_(is_mma_warp), ptx.if_(ptx.warp.elect()):
            idesc = reg.scalar(b32, init=ptx.tcgen05.make_instr_desc_f16bf16_f32(BM, BN))
            consumer = ring.consumer()
            with ptx.for_(0, K, BK) as k:
                slot = consumer.acquire()
                ptx.tcgen05.fence_after_thread_sync()
                multiply_stage(tmem_base, tile_a[slot.index], tile_b[slot.index], idesc, k)
                ptx.tcgen05.commit(slot.empty, space="cluster")
                consumer.advance()
            ptx.tcgen05.commit(done, space="cluster")

        # --- epilogue: every warp stores 32 rows of the tile ----------------------------------- The elected
        # lanes rejoin their warps, so ptxas can keep values that all lanes share in uniform registers.
        ptx.warp.sync()
        ptx.mbarrier.wait(done, 0)
        ptx.tcgen05.fence_after_thread_sync()
        store_tile(tmem_base, warp, D, m_base, n_base, N, out_dtype, epilogue)

        # --- teardown ------------------------------------------------------------------------
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(is_alloc_warp):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem_base, BN)
        ptx.ret()

    return gemm


def build_gemm_2sm(
    M,
    N,
    K,
    *,
    stages=STAGES_2SM,
    order=kit.tile_order.boustrophedon,
    epilogue="direct",
    out_dtype=f32,
    arch="sm_100a",
):
    """Build the kernel for pairs of CTAs; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: multiples of 256, 256 and 64.
        stages: depth of the ring, 1 to 5 (32 KiB of shared memory each, in both CTAs).
        order: a function of ``pyptx.kit.tile_order`` that maps a pair's number to the tile that it computes.
        epilogue: ``"direct"`` stores D from registers; ``"tma"`` stores D through swizzled shared memory.
        out_dtype: type of D, f32 or bf16.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, PAIR_M, stages, STAGES_2SM, A_STAGE + B_HALF_STAGE, epilogue)
    tiles_m, tiles_n = M // PAIR_M, N // BN

    @kernel(
        in_specs=(
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(BM, BK)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(BN // 2, BK)),
        ),
        out_specs=(output_tile(M, N, out_dtype, epilogue),),
        grid=(2 * tiles_m * tiles_n, 1, 1),
        block=(32 * WARPS, 1, 1),
        cluster=(2, 1, 1),
        arch=arch,
        extern_smem=True,
    )
    def gemm_2sm(A, B_T, D):
        # --- setup ---------------------------------------------------------------------------
        warp = ptx.special.tid.x() >> 5
        is_tma_warp = warp == 0
        is_mma_warp = warp == 1
        is_alloc_warp = warp == 2
        rank = ptx.cluster.rank()
        is_leader = rank == 0

        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B", stages=stages)
        tile_b = smem.alloc((BN // 2, BK), bf16, swizzle="128B", stages=stages)
        ring = kit.Ring(stages)  # the leader's full expects one arrive.expect_tx, each empty one commit
        done = smem.alloc(1, b64)
        tmem_slot = smem.alloc(1, b32)

        tile_m, tile_n = order(ptx.special.clusterid.x(), tiles_m, tiles_n)
        m_base = tile_m * PAIR_M + rank * BM  # this CTA's rows of A and D
        n_base = tile_n * BN
        b_base = n_base + rank * (BN // 2)  # this CTA's rows of B

        with ptx.if_(is_tma_warp), ptx.if_(ptx.warp.elect()):
            ring.init()
            ptx.mbarrier.init(done, 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(is_alloc_warp):
            # Both CTAs allocate together, and get the same columns for D.
            ptx.tcgen05.alloc(tmem_slot, BN, cta_group=2)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=2)
        # After this barrier all threads of both CTAs can use the mbarriers and the tensor memory.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        tmem_base = smem.load(b32, tmem_slot)

        # --- producer: one lane of warp 0 of each CTA ------------------------------------------
        with ptx.if_(is_tma_warp), ptx.if_(ptx.warp.elect()):
            producer = ring.producer()
            with ptx.for_(0, K, BK) as k:
                slot = producer.acquire()
                with ptx.if_(is_leader):
                    ptx.mbarrier.arrive_expect_tx(slot.full, 2 * (A_STAGE + B_HALF_STAGE))
                full = slot.leader_full()
                ptx.cp.async_.bulk.tensor_2d(
                    dst=tile_a[slot.index], src=A.tma_desc(), coord=(k, m_base), mbar=full, cta_group=2
                )
                ptx.cp.async_.bulk.tensor_2d(
                    dst=tile_b[slot.index], src=B_T.tma_desc(), coord=(k, b_base), mbar=full, cta_group=2
                )
                producer.advance()
            # Wait for the last commits: the CTA, with its barriers, may exit only after they have arrived.
            producer.drain()

        # --- consumer: one lane of warp 1 of the leader ----------------------------------------
        with ptx.if_(is_leader), ptx.if_(is_mma_warp), ptx.if_(ptx.warp.elect()):
            idesc = reg.scalar(b32, init=ptx.tcgen05.make_instr_desc_f16bf16_f32(PAIR_M, BN))
            both = reg.scalar(u16, init=BOTH_CTAS)
            consumer = ring.consumer()
            with ptx.for_(0, K, BK) as k:
                slot = consumer.acquire()
                ptx.tcgen05.fence_after_thread_sync()
                multiply_stage(tmem_base, tile_a[slot.index], tile_b[slot.index], idesc, k, cta_group=2)
                ptx.tcgen05.commit(slot.empty, multicast=both, cta_group=2)
                consumer.advance()
            ptx.tcgen05.commit(done, multicast=both, cta_group=2)

        # --- epilogue: every warp stores 32 rows of this CTA's half of the tile ------------------- The
        # elected lanes rejoin their warps, so ptxas can keep values that all lanes share in uniform
        # registers.
        ptx.warp.sync()
        ptx.mbarrier.wait(done, 0)
        ptx.tcgen05.fence_after_thread_sync()
        store_tile(tmem_base, warp, D, m_base, n_base, N, out_dtype, epilogue)

        # --- teardown ------------------------------------------------------------------------
        # Neither CTA frees tensor memory or exits while the other still uses the pair.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        with ptx.if_(is_alloc_warp):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem_base, BN, cta_group=2)
        ptx.ret()

    return gemm_2sm


#: The kind of tcgen05.mma for each type of A and B, and the type that it multiplies.
KINDS = {
    bf16: ("f16", bf16),
    f16: ("f16", f16),
    f32: ("tf32", tf32),
    e4m3: ("f8f6f4", e4m3),
    e5m2: ("f8f6f4", e5m2),
}


def build_gemm_persistent(
    M,
    N,
    K,
    *,
    ctas=2,
    stages=None,
    clusters=None,
    schedule="static",
    answers=3,
    ahead=1,
    order=kit.tile_order.boustrophedon,
    narrow=None,
    parts=1,
    dtype=bf16,
    a_major="K",
    b_major="K",
    batch=None,
    out_dtype=f32,
    epilogue="tma",
    apply=None,
    dependent=False,
    arch="sm_100a",
):
    """Build the persistent kernel; call it with A[M, K] and B[N, K].

    Args:
        M, N, K: any sizes for which rows of A and B are multiples of 16 bytes, and those of D too with
            ``epilogue="tma"``. None for M: the kernel serves every M.
        ctas: 2 for pairs of CTAs that compute 256x256, 1 for single CTAs that compute 128x256.
        stages: depth of the ring, at most (and by default) 6 of 32 KiB for a pair, 4 of 48 KiB for one CTA.
        clusters: number of clusters that share the tiles, by default as many as fill the 148 SMs of a B200.
        schedule: ``"static"``: a cluster takes every ``clusters``-th tile. ``"clc"``: the grid has a cluster
            for each tile, and clusters that run cancel others and take their tiles (cluster launch control).
        answers, ahead: with ``"clc"``, the tiles that a cluster takes ahead of its slowest role, and the
            requests that it has in flight; see :class:`pyptx.kit.LaunchControlTiles`.
        order: a function of ``pyptx.kit.tile_order`` that decides which tile a cluster computes next.
        narrow: whether some tiles are narrower than 256 columns, so that the clusters end together
            (:class:`pyptx.kit.TwoWidths`). By default where that helps and the schedule is static: it needs a
            number for M, more tiles than clusters, one part, and a K-major B.
        parts: number of parts in which the epilogue hands an accumulator back: 1, 2 or 4.
        dtype: type of A and B: bf16, f16, f32 (multiplied as tf32), e4m3 or e5m2.
        a_major, b_major: ``"MN"`` for A[K, M] and B[K, N].
        batch: number of independent products, of A[batch, M, K], B[batch, N, K] and D[batch, M, N].
        out_dtype: type of D: f32, bf16, f16, e4m3 or e5m2.
        epilogue: ``"tma"`` stores D through swizzled shared memory; ``"direct"`` stores D from registers.
        apply: a function that records on a chunk of D before it is rounded: it gets the f32 registers, which
            it changes in place, this thread's row of D, and the chunk's first column.
        dependent: overlap this launch with the end of the previous one in its stream.
        arch: a target that has tcgen05.
    """
    for name, value, choices in (
        ("ctas", ctas, (1, 2)),
        ("schedule", schedule, ("static", "clc")),
        ("parts", parts, (1, 2, 4)),
        ("dtype", dtype, tuple(KINDS)),
        ("a_major", a_major, ("K", "MN")),
        ("b_major", b_major, ("K", "MN")),
        ("out_dtype", out_dtype, (f32, bf16, f16, e4m3, e5m2)),
        ("epilogue", epilogue, ("tma", "direct")),
    ):
        if value not in choices:
            raise SpecError(f"{name} = {value!r}: expected {' or '.join(map(repr, choices))}")
    for name, size in (
        ("M", 1 if M is None else M),
        ("N", N),
        ("K", K),
        ("batch", 1 if batch is None else batch),
        ("stages", 1 if stages is None else stages),
        ("clusters", 1 if clusters is None else clusters),
    ):
        if type(size) is not int or size <= 0:
            raise SpecError(f"{name} = {size}: expected a positive whole number")
    if not callable(order):
        raise SpecError(f"order = {order!r}: expected a function of pyptx.kit.tile_order")
    kind, multiplied = KINDS[dtype]
    tile_k = 128 // dtype.nbytes  # one row of the swizzle
    tile_m = BM * ctas
    b_rows = BN // ctas  # rows of B that each CTA loads
    a = kit.TmaOperand(BM, tile_k, dtype, major=a_major, batch=batch is not None)
    b = kit.TmaOperand(b_rows // parts, tile_k, dtype, major=b_major, batch=batch is not None)
    stage_bytes = a.nbytes + parts * b.nbytes
    most = STAGE_BYTES // stage_bytes
    stages = most if stages is None else stages
    if not 1 <= stages <= most:
        raise SpecError(f"stages = {stages}: expected 1 to {most}, each takes {stage_bytes} bytes")
    clusters = SMS // ctas if clusters is None else clusters
    tiles_n = -(-N // BN)
    matrices = 1 if batch is None else batch
    row_bytes = N * out_dtype.nbytes
    front = () if batch is None else (batch,)
    rows = "M" if M is None else M
    widths = None
    if narrow or (narrow is None and schedule == "static"):
        widths = tile_widths(M, N, tile_m, clusters, parts, b_major, matrices)
    if narrow and widths is None:
        raise SpecError(
            "narrow = True: no tiles of a second width let the clusters end earlier",
            hint="it needs a number for M, more tiles than clusters, parts=1 and b_major='K'",
        )
    widest = 128 // out_dtype.nbytes  # columns of a box that a swizzle can have
    box_columns = widest if widths is None else math.gcd(widest, widths.narrow)
    if epilogue == "tma":
        if row_bytes % 16:
            raise SpecError(
                f"N = {N}: rows of D have {row_bytes} bytes, and TMA needs a multiple of 16",
                hint='epilogue="direct" stores rows of any length',
            )
        box = (*(1 for _ in front), 32, box_columns)
        layout = {128: Layout.TMA_128B, 64: Layout.TMA_64B, 32: Layout.TMA_32B}[
            box_columns * out_dtype.nbytes
        ]
        stored = Tile(*front, rows, N, out_dtype, layout, tma_box=box)
    else:
        stored = Tile(*front, rows, N, out_dtype)

    def grid(M=M):
        tiles = (-(-M // tile_m) * tiles_n if widths is None else widths.tiles) * matrices
        return (ctas * (tiles if schedule == "clc" else min(clusters, tiles)), 1, 1)

    @kernel(
        in_specs=(a.spec(rows, K, batch), b.spec(N, K, batch)),
        out_specs=(stored,),
        grid=grid if M is None else grid(),
        block=(32 * (EPILOGUE_WARP + WARPS), 1, 1),
        cluster=(ctas, 1, 1),
        arch=arch,
        extern_smem=True,
        min_ctas_per_sm=1,  # the threads may have all registers; a second CTA would find no shared memory
        dependent=dependent,
    )
    def gemm_persistent(A, B_T, D):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        rank = ptx.cluster.rank()
        is_leader = rank == 0
        height = D.extent(len(front))  # M: an int, or a register if the kernel serves every M
        tiles_m = kit.tile_order.cdiv(height, tile_m)
        tiles_mn = tiles_m * tiles_n if widths is None else widths.tiles
        cluster = ptx.special.clusterid.x()

        tile_a = a.stages(stages)
        tile_b = smem.alloc((b_rows, tile_k), dtype, swizzle=b.swizzle, stages=stages)
        if epilogue == "tma":
            swizzle = f"{box_columns * out_dtype.nbytes}B"
            staging = smem.alloc((BM, box_columns), out_dtype, swizzle=swizzle, stages=2)
        ring = kit.Ring(stages)  # the leader's full expects one arrive.expect_tx, each empty one commit
        # A turn of the loops over K has as many stages as fit into the ring and into K without a rest.
        at_once = math.gcd(stages, -(-K // tile_k))
        accumulators = kit.Accumulators(2, BN, readers=WARPS, cta_group=ctas, parts=parts)
        if schedule == "static":
            tiles = kit.StaticTiles(tiles_mn * matrices, first=cluster, step=clusters)
        else:
            # Readers: the producers, the thread that multiplies, and the warps of the epilogues.
            readers = ctas + 1 + ctas * WARPS
            tiles = kit.LaunchControlTiles(
                first=cluster, readers=readers, answers=answers, ahead=ahead, cluster=ctas
            )

        def place(tile):
            """Return this CTA's first row, the tile's first column, whether it is narrow, and the matrix."""
            matrix, within = (None, tile) if batch is None else kit.fast_divmod(tile, tiles_mn, limit=2**31)
            if widths is None:
                row, column = order(within, tiles_m, tiles_n)
                return row * tile_m + rank * BM, column * BN, None, matrix
            row, column, is_narrow = widths.place(within, order)
            return row * tile_m + rank * BM, column, is_narrow, matrix

        with kit.single_thread(warp, TMA_WARP):
            for tensor in (A, B_T, D) if epilogue == "tma" else (A, B_T):
                ptx.tensormap.prefetch(tensor.tma_desc())
            ring.init()
            accumulators.init()
            if schedule == "clc":
                tiles.init()
            ptx.fence.mbarrier_init()
        with kit.single_warp(warp, ALLOC_WARP):
            accumulators.alloc()
        # After this barrier all threads of both CTAs can use the mbarriers and the tensor memory.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        tmem = accumulators.base()

        # --- producer: one lane of each CTA ----------------------------------------------------
        with kit.single_thread(warp, TMA_WARP):
            if dependent:
                # All that came before overlaps with the previous launch, whose results are A and B.
                ptx.griddepcontrol.wait()
            producer = ring.producer()
            with tiles.loop() as tile:
                m_base, n_base, is_narrow, matrix = place(tile)
                if widths is None:
                    # A part of the tile's columns are neighboring rows of B; each CTA loads a half of them.
                    b_bases = [
                        n_base + part * (BN // parts) + rank * (b_rows // parts) for part in range(parts)
                    ]
                else:
                    # Each CTA of a pair has half of a tile's columns, in the first rows of its stages.
                    half = select(is_narrow, widths.narrow // 2, BN // 2)
                    b_bases = [n_base + rank * half if ctas == 2 else n_base]
                with ptx.for_(0, K, at_once * tile_k) as first_k:
                    for i, slot in enumerate(producer.slots(at_once)):
                        if ctas == 2:
                            with ptx.if_(is_leader):
                                ptx.mbarrier.arrive_expect_tx(slot.full, 2 * stage_bytes)
                        else:
                            ptx.mbarrier.arrive_expect_tx(slot.full, stage_bytes)
                        k = first_k + i * tile_k if i else first_k
                        to = {"k": k, "batch": matrix, "mbar": slot.full}
                        if ctas == 2:
                            to |= {"mbar": slot.leader_full(), "cta_group": 2}
                        a.load(tile_a[slot.index], A, row=m_base, **to)
                        stage_b = tile_b[slot.index]
                        for part, b_base in enumerate(b_bases):
                            target = stage_b.rows(part * b.rows, b.rows) if parts > 1 else stage_b
                            b.load(target, B_T, row=b_base, **to)
            if dependent:
                ptx.griddepcontrol.launch_dependents()
            # Wait for the last commits: the CTA, with its barriers, may exit only after they have arrived.
            producer.drain()

        # --- products: one lane of the leader --------------------------------------------------
        with ptx.if_(is_leader), kit.single_thread(warp, MMA_WARP):
            multiply = kit.StageMultiply(
                tile_a,
                tile_b,
                m=tile_m,
                n=BN,
                k=tile_k,
                kind=kind,
                a_type=multiplied,
                b_type=multiplied,
                a_major=a_major,
                b_major=b_major,
                cta_group=ctas,
                parts=parts,
            )
            both = reg.scalar(u16, init=BOTH_CTAS) if ctas == 2 else None
            consumer = ring.consumer()
            writer = accumulators.writer(tmem)
            with tiles.loop() as tile:
                idesc = None
                if widths is not None:
                    *_, is_narrow, _ = place(tile)
                    fewer = (BN - widths.narrow) * IDESC_COLUMN
                    idesc = select(is_narrow, multiply.idesc - fewer, multiply.idesc)
                acc = writer.acquire()
                with ptx.for_(0, K, at_once * tile_k) as k:
                    for i, slot in enumerate(consumer.slots(at_once)):
                        ptx.tcgen05.fence_after_thread_sync()
                        options = {}
                        if i == 0:
                            is_first = k == 0

                            def wait_part(part, is_first=is_first):
                                if part:
                                    with ptx.if_(is_first):
                                        writer.wait_part(part)

                            options = {"accumulate": ~is_first, "before": wait_part}
                        multiply(acc.tmem, slot.index, idesc=idesc, **options)
                        ptx.tcgen05.commit(slot.empty, multicast=both, cta_group=ctas)
                writer.commit(both)
            writer.drain()

        # --- scheduler: one lane of the leader -------------------------------------------------
        if schedule == "clc":
            with ptx.if_(is_leader), kit.single_thread(warp, SCHEDULER_WARP):
                tiles.schedule()

        # --- epilogue: four warps of each CTA store 32 rows each -------------------------------
        with kit.warp_group(warp, EPILOGUE_WARP // WARPS):
            quarter = warp & 3  # a warp can access the 32 lanes of its number modulo 4
            first = quarter * 32
            leader = ptx.warp.elect()
            reader = accumulators.reader(tmem + (quarter << 21))  # the lane is in the address's upper half
            with tiles.loop(leader) as tile:
                m_base, n_base, is_narrow, matrix = place(tile)
                acc = reader.acquire()
                if widths is not None:
                    width = select(is_narrow, widths.narrow, BN).view(s32)
                options = {"read": lambda columns: reader.release(leader, columns)}
                if epilogue == "direct" or apply is not None:
                    row = m_base + first + ptx.special.laneid()
                if apply is not None:
                    options["apply"] = lambda values, column: apply(values, row, n_base + column)
                if epilogue == "tma":
                    if widths is not None:
                        options |= {"limit": width, "least": widths.narrow}
                    coord = (n_base, m_base + first, *(() if batch is None else (matrix,)))
                    kit.tcgen05_epilogue.through_shared(
                        acc.tmem,
                        staging,
                        D.tma_desc(),
                        coord,
                        BN,
                        first=first,
                        leader=leader,
                        drain=False,
                        **options,
                    )
                else:
                    if N % BN:
                        options["limit"] = (N - n_base).view(s32)
                    if widths is not None:
                        inside = reg.scalar(s32)
                        ptx.inst.min.s32(inside, options.get("limit", BN), width)
                        options |= {"limit": inside, "least": widths.narrow}
                    kit.tcgen05_epilogue.direct(
                        acc.tmem,
                        D.at(*(() if batch is None else (matrix,)), row, n_base).base,
                        BN,
                        dtype=out_dtype,
                        chunk=32,
                        align=math.gcd(row_bytes, 16),
                        inside=row < height,
                        **options,
                    )
                reader.advance()
            if epilogue == "tma":
                kit.tcgen05_epilogue.settle(leader)

        # --- teardown ------------------------------------------------------------------------
        # Neither CTA frees tensor memory or exits while the other still uses the pair.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        with kit.single_warp(warp, ALLOC_WARP):
            ptx.tcgen05.fence_after_thread_sync()
            accumulators.dealloc(tmem)
        ptx.ret()

    return gemm_persistent


def tile_widths(M, N, tile_m, clusters, parts, b_major, matrices):
    """Return tiles of two widths with which the clusters end earlier; None if there are none."""
    if M is None or parts > 1 or b_major != "K":
        return None
    strips = -(-M // tile_m)
    return kit.TwoWidths.choose(N, strips, BN, clusters=clusters, step=32, matrices=matrices)


def select(condition, yes, no):
    """Return one of two numbers in a u32 register, by a predicate."""
    chosen = reg.scalar(u32)
    ptx.inst.selp.b32(chosen, yes, no, condition)
    return chosen


def build_gemm_clc(M, N, K, **options):
    """Build the persistent kernel with tiles by cluster launch control; see :func:`build_gemm_persistent`."""
    return build_gemm_persistent(M, N, K, schedule="clc", **options)


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, K, seed=0, *, dtype=bf16, a_major="K", b_major="K", batch=None):
    """Return A[M, K] and B[N, K] of a type, with random, normally distributed numbers that tf32 holds."""
    rng = np.random.default_rng(seed)
    front = () if batch is None else (batch,)
    shapes = [(rows, K) if major == "K" else (K, rows) for rows, major in ((M, a_major), (N, b_major))]
    numbers = (rng.standard_normal((*front, *shape), np.float32) for shape in shapes)
    return tuple(x.astype(ml_dtypes.bfloat16).astype(NUMPY[dtype]) for x in numbers)


#: For each type the numpy type, the relative error of rounding to it, and half of its smallest number.
NUMPY = {
    f32: np.float32,
    bf16: ml_dtypes.bfloat16,
    f16: np.float16,
    e4m3: ml_dtypes.float8_e4m3fn,
    e5m2: ml_dtypes.float8_e5m2,
}
ROUNDING = {
    NUMPY[bf16]: (2.0**-8, 0),
    np.float16: (2.0**-11, 2.0**-25),
    NUMPY[e4m3]: (2.0**-4, 2.0**-10),
    NUMPY[e5m2]: (2.0**-3, 2.0**-17),
}


def worst_error(a, b, d, *, a_major="K", b_major="K"):
    """Return the largest error against float64, as a fraction of the bound.

    The sum over K has an error of at most ``K * 2**-23 * (|A| @ |B|.T)``, to which the rounding to the type
    of D is added. Types of 8 bits clamp what they cannot hold.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    a = a if a_major == "K" else a.swapaxes(-1, -2)
    b = b.swapaxes(-1, -2) if b_major == "K" else b
    exact = a @ b
    bound = a.shape[-1] * 2.0**-23 * (np.abs(a) @ np.abs(b))
    if d.dtype.type in ROUNDING:
        relative, least = ROUNDING[d.dtype.type]
        bound += relative * (np.abs(exact) + bound) + least
    if d.dtype.itemsize == 1:
        most = float(ml_dtypes.finfo(d.dtype).max)
        exact = np.clip(exact, -most, most)
    error = np.abs(d.astype(np.float64) - exact)
    return np.inf if np.isnan(error).any() else float(np.max(error / np.maximum(bound, 1e-300)))


def verify(build, shapes, schedules):
    """Assemble and simulate each shape under each schedule. Print a table; return True if all is right."""
    heads = f"{'PTX':>6}  {'ptxas':<22} {'schedule':<10} {'seconds':>7}  {'error/bound':>11}"
    print(f"{build.__name__}\n{'M x N x K':>18}  {heads}")
    good = True
    for M, N, K in shapes:
        gemm = build(M, N, K)
        lines = gemm.ptx().count("\n")
        assembly = gemm.assemble()
        resources = assembly.resources[0]
        ptxas = f"{resources.registers} regs, {assembly.spills} B spilled"
        a, b = make_inputs(M, N, K)
        for schedule in schedules:
            kind, _, seed = schedule.partition("#")
            d = np.full((M, N), np.nan, np.float32)  # elements that are not written stay NaN
            started = time.perf_counter()
            report = gemm.simulate(a, b, out=d, schedule=kind, seed=int(seed or 0))
            seconds = time.perf_counter() - started
            error = worst_error(a, b, d)
            right = report.verdict == "clean" and error <= 1 and not assembly.spills and not assembly.warnings
            good &= right
            print(
                f"{f'{M} x {N} x {K}':>18}  {lines:>6}  {ptxas:<22} {schedule:<10} {seconds:>7.2f}  "
                f"{error:>11.4f}  {'ok' if right else 'WRONG'}"
            )
            if report.verdict != "clean":
                print(report)
    return good


def blackwell():
    """Return torch and an empty text if torch sees a GPU that runs sm_100a; else None and the reason."""
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    capability = torch.cuda.get_device_capability()
    if capability != (10, 0):
        name = torch.cuda.get_device_name()
        return None, f"{name} has compute capability {capability[0]}.{capability[1]}, sm_100a needs 10.0"
    return torch, ""


def measure(torch, shapes):
    """Launch the kernels on the GPU, check the results against torch, and time all with CUDA events."""

    def milliseconds(function):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(20):
            start.record()
            function()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        return sorted(times)[len(times) // 2]

    heads = "".join(f"  {build.__name__:>14}" for build in BUILDERS)
    print(f"\n{'TFLOP/s':>18}{heads}  {'torch':>14}")
    for M, N, K in shapes:
        a = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(N, K, device="cuda", dtype=torch.bfloat16)
        times = []
        for build in BUILDERS:
            gemm = build(M, N, K)
            d = torch.full((M, N), float("nan"), device="cuda")
            gemm(a, b, out=d)
            torch.testing.assert_close(d, a.float() @ b.float().T, rtol=1e-2, atol=1e-2 * K**0.5)
            times.append(milliseconds(lambda gemm=gemm, a=a, b=b, d=d: gemm(a, b, out=d)))
        times.append(milliseconds(lambda a=a, b=b: torch.matmul(a, b.T)))
        speeds = "".join(f"  {2 * M * N * K / time / 1e9:>14.1f}" for time in times)
        print(f"{f'{M} x {N} x {K}':>18}{speeds}")


#: Each kernel and its test sizes: one tile and one stage, a ring that wraps around, many tiles.
BUILDERS = {
    build_gemm: [(128, 256, 64), (128, 256, 512), (256, 512, 320), (512, 512, 512)],
    build_gemm_2sm: [(256, 256, 64), (256, 256, 512), (512, 768, 384)],
    build_gemm_persistent: [(256, 256, 64), (300, 256, 136)],
    build_gemm_clc: [(300, 256, 136)],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", metavar="MxNxK", help="print the PTX of one size and stop")
    parser.add_argument("--pair", action="store_true", help="with --emit: print the kernel for CTA pairs")
    options = parser.parse_args()
    if options.emit:
        build = build_gemm_2sm if options.pair else build_gemm
        print(build(*map(int, options.emit.split("x"))).ptx(), end="")
        return
    good = True
    for build, shapes in BUILDERS.items():
        good &= verify(build, shapes, ("eager", "late", "random#1", "random#2", "random#3"))
    torch, why = blackwell()
    if torch is not None:
        measure(torch, [(4096, 4096, 4096), (8192, 8192, 8192)])
    else:
        print(f"\nThe kernels were not launched on a GPU: {why}. The simulator has run all of them.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
