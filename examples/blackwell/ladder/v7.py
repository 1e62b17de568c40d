"""Rung v7, even waves: half tiles at the end, cluster launch control, stores by TMA.  Not published.

The text ends with v6, so there is no figure to stand beside this rung.  Arithmetic says what it leaves:
4096 x 4096 has 256 tiles of 256x256, and 74 pairs need four rounds for them, of which the last one has 34
tiles.  The tensor cores are busy for at most 256 / (4 * 74) = 86.5% of the time.

* Even waves.  The tiles of a last round that is at most half full are cut into halves of 256x128.  34 tiles
  become 68 halves, one for each pair and six pairs without: 3.5 rounds instead of 4, at most 98.8%.  All
  other tiles keep 256 columns, because narrower tiles load more: 1.07 GB for 256 tiles of 256x256, 1.61 GB
  for 512 halves.
* Cluster launch control.  The grid has a cluster for each tile, 290 here, and as many as fit run.  When one
  has no tile left, it cancels a cluster that has not started and takes its tile.  Where multiprocessors
  differ in speed, the faster ones take more.  ``schedule="static"`` gives pair p every 74th tile, as v6 does.
* Stores by TMA.  A warp rounds 64 columns of its rows, writes them to shared memory with a swizzle, and one
  lane stores the box.  v6's stores touch 32 rows each; a box is written in whole rows of 128 bytes.  The
  staging takes 32 KiB, so the ring has six stages.

A tile of 64 columns of K is one slab, so the tensor maps have two dimensions, and K may be a multiple of 8.

Run it: ``python examples/blackwell/ladder/v7.py``; ``--profile FILE.html`` records a timeline.  In the
simulator the program gives out tiles by ``schedule="static"``, so that one run holds for every schedule;
launch control takes one run for each assignment of the clusters.  On a B200 it measures launch control.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, SpecError, Tile, bf16, kernel, kit, ptx, reg, smem, u16, u32

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import WAIT_HINT, check_sizes, operand_2d, program, tiles_of
from ladder.v5 import BK, BM, BN, BOTH_CTAS, CTA_M
from ladder.v6 import EPILOGUE_WARPS, PAIRS

STAGES = 6
HALF_N = BN // 2  # columns of half a tile
BOX_N = HALF_N // 2  # rows of B in a copy: what a CTA loads for half a tile; a whole tile takes two copies
CHUNK = 64  # columns of a store: rows of 128 bytes
SCHEDULER = 2  # warps: producer, consumer, scheduler, and one without work, then the epilogue
WARPS = 4 + EPILOGUE_WARPS

IDESC = ptx.tcgen05.make_instr_desc_f16bf16_f32(BM, BN)
HALF_IDESC = ptx.tcgen05.make_instr_desc_f16bf16_f32(BM, HALF_N)


def split(M, N, pairs=PAIRS):
    """Return how many tiles are whole, and how many are halves of the tiles of the last round."""
    tiles = tiles_of(M, BM) * tiles_of(N, BN)
    rest = tiles % pairs
    return (tiles - rest, 2 * rest) if 2 * rest <= pairs else (tiles, 0)


def launch_of(M, N, K, pairs=PAIRS, schedule="clc"):
    """Return how many CTAs and warps a launch has."""
    clusters = sum(split(M, N, pairs))
    return 2 * (clusters if schedule == "clc" else min(pairs, clusters)), WARPS


def either(half, whole, is_half):
    """Return one of two numbers in a register. Records one ``selp``."""
    chosen = reg.scalar(u32)
    ptx.inst.selp.b32(chosen, half, whole, is_half)
    return chosen


def build_v7(M, N, K, *, pairs=PAIRS, schedule="clc", trace=None, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and K.
        pairs: number of pairs of CTAs that run at a time.
        schedule: ``"clc"`` for cluster launch control, ``"static"`` for every ``pairs``-th tile.
        trace: a ``kit.Trace`` that is on, for marks; its buffer is then the first argument of the kernel.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, 8, "rows of A and B must be multiples of 16 bytes")
    if schedule not in ("clc", "static"):
        raise SpecError(f"schedule = {schedule!r}: expected 'clc' or 'static'")
    trace = kit.Trace.off() if trace is None else trace
    tiles_m, tiles_n = tiles_of(M, BM), tiles_of(N, BN)
    whole, halves = split(M, N, pairs)
    ctas, warps = launch_of(M, N, K, pairs, schedule)

    @kernel(
        in_specs=(
            *trace.specs,
            operand_2d(M, K, CTA_M, BK, Layout.TMA_128B),
            operand_2d(N, K, BOX_N, BK, Layout.TMA_128B),
        ),
        out_specs=(Tile(M, N, bf16, Layout.TMA_128B, tma_box=(32, CHUNK)),),
        grid=ctas,
        block=32 * warps,
        cluster=2,
        arch=arch,
        extern_smem=True,
        min_ctas_per_sm=1,
    )
    @trace.traced
    def v7(A, B, D):
        # --- setup ----------------------------------------------------------------------------------
        warp = ptx.warp.shfl_idx(ptx.special.tid.x() >> 5, 0)
        rank = ptx.cluster.rank()
        tile_a = smem.alloc((CTA_M, BK), bf16, swizzle="128B", stages=STAGES)
        tile_b = smem.alloc((2 * BOX_N, BK), bf16, swizzle="128B", stages=STAGES)
        staging = smem.alloc((CTA_M, CHUNK), bf16, swizzle="128B", stages=2)
        ring = kit.Ring(STAGES, suspend_hint=WAIT_HINT)
        accumulators = kit.Accumulators(2, BN, readers=EPILOGUE_WARPS, cta_group=2)
        if schedule == "static":
            tiles = kit.StaticTiles(whole + halves, first=ptx.special.clusterid.x(), step=ctas // 2)
        else:
            # The readers of an answer: two producers, a consumer, the warps of both epilogues.
            readers = 3 + 2 * EPILOGUE_WARPS
            tiles = kit.LaunchControlTiles(first=ptx.special.clusterid.x(), readers=readers, cluster=2)

        def place(number):
            """Return this CTA's first row, the first column, and whether the tile is a half."""
            is_half = number >= whole
            past = number - whole
            tile = ptx.selp(whole + (past >> 1), number, is_half)
            tile_m, tile_n = kit.tile_order.boustrophedon(tile, tiles_m, tiles_n)
            column = ptx.selp((past & 1) * HALF_N, 0, is_half)
            return tile_m * BM + rank * CTA_M, tile_n * BN + column, is_half

        with trace.span("setup"):
            with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
                for tensor in (A, B, D):
                    ptx.tensormap.prefetch(tensor.tma_desc())
                ring.init()
                accumulators.init()
                if schedule == "clc":
                    tiles.init()
                ptx.fence.mbarrier_init()
            with ptx.if_(warp == 1):
                accumulators.alloc()
            ptx.tcgen05.fence_before_thread_sync()
            ptx.cluster.sync(aligned=True)
            ptx.tcgen05.fence_after_thread_sync()
        tmem = accumulators.base()

        # --- producer: one lane of warp 0 of each CTA ---------------------------------------------------
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            producer = ring.producer()
            with tiles.loop() as number:
                m_base, n_base, is_half = place(number)
                b_base = n_base + rank * either(BOX_N, 2 * BOX_N, is_half)
                nbytes = either((BM + HALF_N) * BK * 2, (BM + BN) * BK * 2, is_half)
                with ptx.for_(0, K, BK) as k:
                    with trace.span("wait for products", stage=producer.stage):
                        slot = producer.acquire()
                    with trace.span("issue copies", stage=producer.stage):
                        with ptx.if_(rank == 0):
                            ptx.mbarrier.arrive_expect_tx(slot.full, nbytes)
                        full = slot.leader_full()
                        for buffer, tensor, row, pred in (
                            (tile_a[slot.index], A, m_base, None),
                            (tile_b[slot.index], B, b_base, None),
                            (tile_b[slot.index].rows(BOX_N, BOX_N), B, b_base + BOX_N, ~is_half),
                        ):
                            ptx.cp.async_.bulk.tensor_2d(
                                dst=buffer,
                                src=tensor.tma_desc(),
                                coord=(k, row),
                                mbar=full,
                                cta_group=2,
                                pred=pred,
                            )
                    producer.advance()
            producer.drain()

        # --- consumer: one lane of warp 1 of the leader -------------------------------------------------
        with ptx.if_(rank == 0), ptx.if_(warp == 1), ptx.if_(ptx.warp.elect()):
            multiply = kit.StageMultiply(tile_a, tile_b, m=BM, n=BN, k=BK, cta_group=2)
            both = reg.scalar(u16, init=BOTH_CTAS)
            consumer = ring.consumer()
            writer = accumulators.writer(tmem)
            with tiles.loop() as number:
                _, _, is_half = place(number)
                idesc = either(HALF_IDESC, IDESC, is_half)
                with trace.span("wait for epilogue", value=number):
                    accumulator = writer.acquire()
                with ptx.for_(0, K, BK) as k:
                    with trace.span("wait for copies", stage=consumer.stage):
                        slot = consumer.acquire()
                    with trace.span("issue products", stage=consumer.stage):
                        multiply(accumulator.tmem, slot.index, accumulate=k != 0, idesc=idesc)
                        ptx.tcgen05.commit(slot.empty, multicast=both, cta_group=2)
                    consumer.advance()
                writer.commit(multicast=both)
            writer.drain()

        # --- scheduler: one lane of warp 2 of the leader ------------------------------------------------
        if schedule == "clc":
            with ptx.if_(rank == 0), ptx.if_(warp == SCHEDULER), ptx.if_(ptx.warp.elect()):
                tiles.schedule()

        # --- epilogue: warps 4 to 7 of each CTA ---------------------------------------------------------
        with ptx.if_(warp >= 4):
            first = (warp & 3) * 32
            leader = ptx.warp.elect()
            reader = accumulators.reader(tmem + (first << 16))
            with tiles.loop(leader) as number:
                m_base, n_base, is_half = place(number)
                with trace.span("wait for the main loop", value=number):
                    accumulator = reader.acquire()
                columns = either(HALF_N, BN, is_half)
                with trace.span("epilogue", value=number), ptx.for_(0, columns, HALF_N) as column:
                    kit.tcgen05_epilogue.through_shared(
                        accumulator.tmem + column,
                        staging,
                        D.tma_desc(),
                        (n_base + column, m_base + first),
                        HALF_N,
                        first=first,
                        leader=leader,
                        drain=False,
                    )
                reader.release(leader)
                reader.advance()
            kit.tcgen05_epilogue.settle(leader)

        # --- teardown -----------------------------------------------------------------------------------
        ptx.warp.sync()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync(aligned=True)
        with ptx.if_(warp == 1):
            ptx.tcgen05.fence_after_thread_sync()
            accumulators.dealloc(tmem)
        trace.finish()
        ptx.ret()

    return v7


#: One tile, which two pairs share; seven tiles for three pairs, the last one cut into halves.
SHAPES = [(256, 256, 64), (256, 1704, 200)]

if __name__ == "__main__":
    program(build_v7, None, SHAPES, trace=launch_of, simulated={"pairs": 3, "schedule": "static"})
