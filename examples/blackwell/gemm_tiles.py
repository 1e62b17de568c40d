"""A Blackwell GEMM of many tile sizes: ``D[M, N] = A[M, K] @ B[N, K].T``, f16 in and out, f32 between.

The persistent kernel of ``gemm_highperf_blackwell.py`` has one tile, 256x256.  Which tile is best depends on
the problem: a small one fills the last round of a small D, a large one loads fewer bytes for each product.
``build_gemm_tiles`` records a kernel for each of 16 choices: M of the instruction 128 or 256, N 64, 128, 192
or 256, and clusters of one pair of CTAs or of two::

    one pair, cluster (2, 1)           CTA 0               CTA 1
    half of the tile's rows            upper               lower
    loads of A                         upper half          lower half
    loads of B                         left half           right half

    two pairs, cluster (2, 2)          CTA 0     CTA 1     CTA 2     CTA 3
    tile of D                          left      left      right     right
    half of the tile's rows            upper     lower     upper     lower
    loads of A: quarter, for CTAs      1st, 0 2  3rd, 1 3  2nd, 0 2  4th, 1 3
    loads of B, half of its tile's     left      right     left      right

A cluster of two pairs computes two tiles side by side, which need the same rows of A.  Each CTA loads a half
of its rows and multicasts it to the CTA of the same place in the other pair: L2 sends A once for both.  B is
each pair's own.  A stage may be filled again when all CTAs that its copies fill have read it: the commit of
each pair goes to all four CTAs, and ``empty[s]`` expects two.

What M = 128 changes.  Each CTA has 64 rows of D, and tensor memory has 128 lanes.  The tensor core puts the
right half of the columns into the lanes 64 to 127, so that an accumulator takes N / 2 columns only::

    M = 256         columns 0 .. N-1            M = 128       columns 0 .. N/2-1
    lane 0          row 0,   columns 0 ..       lane 0        row 0,  D's columns 0   ..
    ...                                         lane 63       row 63, D's columns 0   ..
    lane 127        row 127, columns 0 ..       lane 64       row 0,  D's columns N/2 ..

The epilogue reads both by the same instruction: thread t has lane t.  It only stores to two places of D.

    warps 0..3   epilogue: tensor memory -> f16 -> shared memory -> TMA store, 32 columns at a time
    warp 4       products: one lane of the even CTA of each pair
    warp 5       loads: one lane

Which tile is computed where, and how, is as in ``PersistentDenseGemmKernel`` of CUTLASS's CuTe DSL
(``dense_gemm_persistent.py``), so that times that others measured with it can be compared with this kernel's
events.  The same are

* the order of tiles: of R clusters, cluster c takes the tiles c, c + R, c + 2R, ..., and the tiles are
  numbered down the columns, without a swizzle;
* the six warps and their roles, two accumulators, stages of K = 64, one stage for each turn of a loop;
* the number of stages: what 227 KiB hold beside 1 KiB for barriers and two stages of the epilogue; what is
  left goes to further stages of the epilogue;
* the epilogue: ``tcgen05.ld.32x32b.x32``, and for its 32 columns one copy of 128 rows (two of 64 rows for
  M = 128) that one thread issues, and two barriers of the four warps;
* the multicast of A, and the commits.

Different are

* two-dimensional tensor maps (there is no batch), no cache hints, and no ``try_wait`` ahead of a turn;
* an accumulator is handed back when it has been loaded, not when its last columns have been stored, and
  without a third barrier of the four warps;
* the number of clusters: the DSL asks the driver how many fit. The default here divides 148 multiprocessors,
  and a chip whose GPCs leave some of them out of clusters of four takes fewer: give ``clusters``.

Run it: ``python examples/blackwell/gemm_tiles.py``. It assembles four of the 16 kernels, or all with
``--every``, and verifies them in the simulator; on a Blackwell GPU it launches and measures all.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_highperf_blackwell as gemm
import numpy as np

from pyptx import Layout, SpecError, Tile, bf16, f16, f32, kernel, kit, ptx, reg, smem, u16

PAIR = 2  # CTAs that a tcgen05.mma.cta_group::2 uses
TILE_K = 64  # one row of the 128-byte swizzle, in elements of 16 bits
CHUNK = 32  # columns of D that the epilogue stores at a time
LANES = 128  # of tensor memory
CAPACITY = 227 * 1024  # bytes of shared memory that a CTA can have
BARRIERS = 1024  # bytes that are set apart for the mbarriers
EPILOGUE_WARPS, MMA_WARP, TMA_WARP = 4, 4, 5
#: Bytes of a row of a chunk -> the layout whose swizzle is as wide.
STAGED = {64: Layout.TMA_64B, 128: Layout.TMA_128B}
#: The configurations: M and N of the instruction, and pairs in a cluster.
CONFIGURATIONS = [(m, n, pairs) for m in (128, 256) for n in (64, 128, 192, 256) for pairs in (1, 2)]
#: Both M, the least and the most columns, one pair and two.
CORNERS = [(128, 64, 1), (128, 256, 2), (256, 64, 2), (256, 256, 1)]


def stages_of(mma_m, mma_n, out_dtype=f16):
    """Return the number of stages of the ring, and of the epilogue, as CuTe DSL chooses them."""
    stage_bytes = (mma_m + mma_n) // PAIR * TILE_K * 2
    chunk_bytes = LANES * CHUNK * out_dtype.nbytes
    stages = (CAPACITY - BARRIERS - 2 * chunk_bytes) // stage_bytes
    return stages, (CAPACITY - BARRIERS - stages * stage_bytes) // chunk_bytes


def check_options(mma_m, mma_n, cluster_m, cluster_n, dtype, out_dtype):
    """Raise an error for an option that the kernel does not have."""
    for name, value, choices in (
        ("mma_m", mma_m, (128, 256)),
        ("mma_n", mma_n, (64, 128, 192, 256)),
        ("cluster_m", cluster_m, (PAIR,)),
        ("cluster_n", cluster_n, (1, 2)),
        ("dtype", dtype, (f16, bf16)),
        ("out_dtype", out_dtype, (f16, bf16, f32)),
    ):
        if value not in choices:
            raise SpecError(f"{name} = {value!r}: expected {' or '.join(map(str, choices))}")


def check_sizes(M, N, K, pitch, clusters, stages, most, out_dtype):
    """Raise an error for sizes with which TMA cannot load or store, or that do not fit."""
    for name, size in (("M", M), ("N", N), ("K", K), ("clusters", clusters), ("pitch", pitch)):
        if type(size) is not int or size <= 0:
            raise SpecError(f"{name} = {size!r}: expected a positive whole number")
    if type(stages) is not int or not 1 <= stages <= most:
        raise SpecError(f"stages = {stages!r}: expected 1 to {most}, which fit beside the epilogue")
    if pitch < K or pitch % 8:
        raise SpecError(
            f"K = {K} and pitch = {pitch}: TMA needs rows of A and B that are multiples of 16 bytes apart",
            hint=f"pitch={-(-K // 8) * 8} for A[M, pitch] and B[N, pitch]: the rest of a row is not read",
        )
    if N * out_dtype.nbytes % 16:
        raise SpecError(
            f"N = {N}: rows of D have {N * out_dtype.nbytes} bytes, and TMA needs a multiple of 16",
            hint=f"pad N to {-(-N // 8) * 8}",
        )


def build_gemm_tiles(
    M,
    N,
    K,
    *,
    mma_m=256,
    mma_n=256,
    cluster_m=2,
    cluster_n=1,
    stages=None,
    clusters=None,
    pitch=None,
    dtype=f16,
    out_dtype=f16,
    arch="sm_100a",
):
    """Build the kernel for one problem and one tile; call it with A[M, K] and B[N, K].

    Args:
        M, N, K: any sizes; rows of D must be multiples of 16 bytes, and those of A and B unless ``pitch`` is
            given.
        mma_m, mma_n: rows and columns of D that one instruction multiplies for a pair of CTAs: 128 or 256,
            and 64, 128, 192 or 256. Each CTA has ``mma_m / 2`` rows.
        cluster_m: CTAs of a cluster along M: 2, a pair.
        cluster_n: CTAs of a cluster along N: 1, or 2 for two pairs that share A.
        stages: depth of the ring, at most (and by default) what fits beside the epilogue; :func:`stages_of`.
        clusters: number of clusters that share the tiles, by default as many as 148 multiprocessors hold.
        pitch: elements from one row of A and of B to the next, a multiple of 8; by default K. With another
            one, call the kernel with A[M, pitch] and B[N, pitch]; only K of each row are read.
        dtype: type of A and B: f16 or bf16.
        out_dtype: type of D: f16, bf16 or f32.
        arch: a target that has tcgen05.

    Raises:
        SpecError: an option that is not listed here, or rows that TMA cannot load or store.
    """
    check_options(mma_m, mma_n, cluster_m, cluster_n, dtype, out_dtype)
    ctas = PAIR * cluster_n
    clusters = gemm.SMS // ctas if clusters is None else clusters
    pitch = K if pitch is None else pitch
    most, staged = stages_of(mma_m, mma_n, out_dtype)
    stages = most if stages is None else stages
    check_sizes(M, N, K, pitch, clusters, stages, most, out_dtype)

    rows = mma_m // PAIR  # of A and D in a CTA
    halves = LANES // rows  # 2 for M = 128: the lanes 64 to 127 hold the right half of the columns
    columns = mma_n // halves  # of tensor memory, of an accumulator
    a = kit.TmaOperand(rows // cluster_n, TILE_K, dtype)  # what a CTA loads; with two pairs, for both
    b = kit.TmaOperand(mma_n // PAIR, TILE_K, dtype)
    layout = STAGED[CHUNK * out_dtype.nbytes]
    tiles_m = kit.tile_order.cdiv(M, mma_m)
    tiles_n = kit.tile_order.cdiv(N, mma_n * cluster_n)  # of a cluster
    running = min(clusters, tiles_m * tiles_n)

    @kernel(
        in_specs=(a.spec(M, K, pitch=pitch), b.spec(N, K, pitch=pitch)),
        out_specs=(Tile(M, N, out_dtype, layout, tma_box=(rows, CHUNK)),),
        grid=(PAIR, cluster_n, running),
        block=(32 * (EPILOGUE_WARPS + 2), 1, 1),
        cluster=(PAIR, cluster_n, 1),
        arch=arch,
        extern_smem=True,
        min_ctas_per_sm=1,  # the threads may have all registers; a second CTA would find no shared memory
    )
    def gemm_tiles(A, B_T, D):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        grid = kit.ClusterGrid(PAIR, cluster_n)
        half, pair = grid.place(ptx.cluster.rank())  # which half of a tile's rows, and which tile
        is_leader = half == 0

        tile_a = smem.alloc((rows, TILE_K), dtype, swizzle=a.swizzle, stages=stages)
        tile_b = b.stages(stages)
        staging = smem.alloc((LANES, CHUNK), out_dtype, swizzle=layout.swizzle, stages=staged)
        # A leader's full expects one arrive.expect_tx; each empty expects a commit of each pair.
        ring = kit.Ring(stages, consumers=cluster_n)
        accumulators = kit.Accumulators(2, columns, readers=EPILOGUE_WARPS, cta_group=PAIR)
        tiles = kit.StaticTiles(tiles_m * tiles_n, first=ptx.special.clusterid.z(), step=running)

        def place(tile):
            """Return this CTA's first row of A and D, and the first column of its pair's tile."""
            # Down the columns: the order by rows of the transposed grid.
            column, row = kit.tile_order.row_major(tile, tiles_n, tiles_m)
            n_base = column * (mma_n * cluster_n)
            return row * mma_m + half * rows, n_base + pair * mma_n if cluster_n > 1 else n_base

        with kit.single_thread(warp, TMA_WARP):
            for tensor in (A, B_T, D):
                ptx.tensormap.prefetch(tensor.tma_desc())
            ring.init()
            accumulators.init()
            ptx.fence.mbarrier_init()
        with kit.single_warp(warp, 0):
            accumulators.alloc()
        # After this barrier all threads of the cluster can use the mbarriers and the tensor memory.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        ptx.tcgen05.fence_after_thread_sync()
        tmem = accumulators.base()

        # --- loads: one lane of each CTA -------------------------------------------------------
        with kit.single_thread(warp, TMA_WARP):
            sharers = grid.row_mask(half)  # the CTAs of both pairs that need these rows of A
            producer = ring.producer()
            with tiles.loop() as tile:
                m_base, n_base = place(tile)
                b_base = n_base + half * b.rows
                with ptx.for_(0, K, TILE_K) as k:
                    slot = producer.acquire()
                    # The copies of both CTAs of a pair signal the leader; those of A come from both pairs.
                    with ptx.if_(is_leader):
                        ptx.mbarrier.arrive_expect_tx(slot.full, PAIR * (tile_a.nbytes + b.nbytes))
                    to = {"k": k, "mbar": slot.leader_full(), "cta_group": PAIR}
                    stage_a = tile_a[slot.index]
                    if cluster_n == 1:
                        a.load(stage_a, A, row=m_base, **to)
                    else:
                        part = pair * a.rows
                        a.load(stage_a.rows(part, a.rows), A, row=m_base + part, multicast=sharers, **to)
                    b.load(tile_b[slot.index], B_T, row=b_base, **to)
                    producer.advance()
            # Wait for the last commits: the CTA, with its barriers, may exit only after they have arrived.
            producer.drain()

        # --- products: one lane of each leader -------------------------------------------------
        with ptx.if_(is_leader), kit.single_thread(warp, MMA_WARP):
            multiply = kit.StageMultiply(tile_a, tile_b, m=mma_m, n=mma_n, k=TILE_K, cta_group=PAIR)
            both = reg.scalar(u16)
            ptx.inst.mov.u16(both, gemm.BOTH_CTAS)
            if cluster_n > 1:
                ptx.inst.mov.u16(both, gemm.BOTH_CTAS << PAIR, pred=pair != 0)
            every = reg.scalar(u16, init=(1 << ctas) - 1)
            consumer = ring.consumer()
            writer = accumulators.writer(tmem)
            with tiles.loop():
                acc = writer.acquire()
                with ptx.for_(0, K, TILE_K) as k:
                    slot = consumer.acquire()
                    ptx.tcgen05.fence_after_thread_sync()
                    multiply(acc.tmem, slot.index, accumulate=k != 0)
                    # To all CTAs whose copies fill this stage of this pair.
                    ptx.tcgen05.commit(slot.empty, multicast=every, cta_group=PAIR)
                    consumer.advance()
                writer.commit(both)
            writer.drain()

        # --- epilogue: four warps of each CTA --------------------------------------------------
        with kit.warp_group(warp, 0):
            leader = ptx.warp.elect()
            reader = accumulators.reader(tmem + (warp << 21))  # lane 32 * warp, in the address's upper half
            store = kit.tcgen05_epilogue.WarpgroupStore(staging, D.tma_desc(), warp)
            with tiles.loop() as tile:
                m_base, n_base = place(tile)
                acc = reader.acquire()
                boxes = [(n_base + i * columns if i else n_base, m_base) for i in range(halves)]
                store(acc.tmem, boxes, columns, read=partial(reader.release, leader))
                reader.advance()
            store.settle()

        # --- teardown ------------------------------------------------------------------------
        # No CTA frees tensor memory or exits while another one still uses its pair or signals its barriers.
        ptx.tcgen05.fence_before_thread_sync()
        ptx.cluster.sync()
        with kit.single_warp(warp, 0):
            ptx.tcgen05.fence_after_thread_sync()
            accumulators.dealloc(tmem)
        ptx.ret()

    return gemm_tiles


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, K, seed=0, *, dtype=f16, pitch=None):
    """Return A[M, pitch] and B[N, pitch]: random numbers in K columns, and NaN in the rest of each row."""
    found = []
    for array in gemm.make_inputs(M, N, K, seed, dtype=dtype):
        padded = np.full((len(array), K if pitch is None else pitch), np.nan, array.dtype)
        padded[:, :K] = array
        found.append(padded)
    return tuple(found)


def run(M, N, K, *, seed=0, schedule="late", sanitize=True, **options):
    """Simulate one kernel. Return the report, and the largest error as a fraction of its bound."""
    a, b = make_inputs(M, N, K, seed, dtype=options.get("dtype", f16), pitch=options.get("pitch"))
    d = np.full((M, N), np.nan, gemm.NUMPY[options.get("out_dtype", f16)])  # what is not written stays NaN
    made = build_gemm_tiles(M, N, K, **options)
    report = made.simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize=sanitize)
    return report, gemm.worst_error(a[:, :K], b[:, :K], d)


def verify(configurations):
    """Assemble and simulate some configurations. Print a table; return True if all is right."""
    heads = f"{'ptxas':<22} {'holds for':<15} {'error/bound':>11}"
    print(f"{'tile':>9} {'pairs':>5} {'stages':>6} {'epilogue':>8}  {heads}")
    good = True
    for mma_m, mma_n, pairs in configurations:
        options = {"mma_m": mma_m, "mma_n": mma_n, "cluster_n": pairs}
        assembly = build_gemm_tiles(4096, 4096, 4096, **options).assemble()
        report, error = run(130, 72, 136, clusters=1, **options)
        right = report.verdict == "clean" and error <= 1
        right &= not (assembly.spills or assembly.warnings or assembly.notes)
        good &= right
        stages, staged = stages_of(mma_m, mma_n)
        ptxas = f"{assembly.resources[0].registers} regs, {assembly.spills} B spilled"
        print(
            f"{f'{mma_m}x{mma_n}':>9} {pairs:>5} {stages:>6} {staged:>8}  {ptxas:<22} {report.holds!s:<15} "
            f"{error:>11.4f}  {'ok' if right else 'WRONG'}"
        )
        if report.verdict != "clean":
            print(report)
    return good


def measure(torch, size):
    """Launch all configurations on the GPU, check the results against torch, and print TFLOP/s."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    exact = a.float() @ b.float().T
    for mma_m, mma_n, pairs in CONFIGURATIONS:
        made = build_gemm_tiles(size, size, size, mma_m=mma_m, mma_n=mma_n, cluster_n=pairs)
        d = torch.full((size, size), float("nan"), device="cuda", dtype=torch.float16)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(20):
            start.record()
            made(a, b, out=d)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        torch.testing.assert_close(d.float(), exact, rtol=1e-2, atol=1e-2 * size**0.5)
        print(f"{f'{mma_m}x{mma_n}':>9} {pairs:>5}  {2 * size**3 / sorted(times)[10] / 1e9:>8.1f} TFLOP/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--every", action="store_true", help="verify all 16 configurations")
    good = verify(CONFIGURATIONS if parser.parse_args().every else CORNERS)
    torch, why = gemm.blackwell()
    if torch is not None:
        measure(torch, 8192)
    else:
        print(f"\nThe kernels were not launched on a GPU: {why}. The simulator has run these.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
