"""A Hopper GEMM at the speed of the library: ``D[M, N] = A[M, K] @ B[N, K].T``, bf16 in, f32 or bf16 out.

A cluster of two CTAs on neighboring SMs computes 256x256 of D.  Each CTA multiplies its own 128 rows of A by
the same 256 rows of B.  Each CTA loads one half of these rows of B and multicasts it to both CTAs::

                   B.T  256 columns                        stage s of the ring, in each CTA
                 +-----------------+             +---------------+-----------------+-----------------+
    A  CTA 0     | warpgroup 1: 64 |  128 rows   | A 128x64 bf16 | B rows 0..127   | B rows 128..255 |
                 | warpgroup 2: 64 |             +---------------+-----------------+-----------------+
                 +-----------------+               loaded by       loaded by CTA 0   loaded by CTA 1
       CTA 1     | warpgroup 1: 64 |  128 rows     each CTA        into both         into both
                 | warpgroup 2: 64 |
                 +-----------------+             full[s]: 48 KiB have arrived, from both CTAs
                                                 empty[s]: both CTAs have read the stage

    warpgroup 0, one lane     wait empty[s] -> expect 48 KiB on full[s] -> TMA A, TMA half of B to both CTAs
    warpgroups 1, 2           wait full[s] -> 4 x wgmma of K=16 -> wait for the products of the previous stage
                              -> free that stage: each warp arrives at empty[s] of each CTA

Each thread of warpgroups 1 and 2 holds 128 numbers of D in registers.  Warpgroup 0 gives up registers for
them (``setmaxnreg``).  The kernel is persistent: a cluster computes every ``clusters``-th tile.  The producer
loads stages of the next tile while the consumers store D of this tile through shared memory.

The rules that make it correct:

* A producer fills the stage in both CTAs, so it waits for the readers of both: 8 warps x 2 CTAs arrive at
  each ``empty[s]``.  Otherwise it would overwrite the stage of a slower peer.
* A warp arrives after ``wgmma.wait_group``, when its products have *completed*: wgmma reads shared memory
  long after it is issued.
* ``full[s]`` of a CTA may receive the peer's bytes before its own producer expects them: then the
  pending byte count is negative, and the phase stays incomplete until that producer arrives.
* The peer's barriers are initialized only after the first cluster barrier.  No CTA exits before the last
  cluster barrier: until then the peer's arrivals and multicasts can still reach its shared memory.
* The TMA engine sees what ``st`` and ``stmatrix`` wrote to shared memory only after ``fence.proxy.async``.

Measured on an H200 with normally distributed inputs and bf16 output: 760 TFLOP/s for M = N = K = 4096 and 792
for 8192; cuBLAS reaches 762 and 782.

Run it: ``python examples/hopper/gemm_highperf_hopper.py``.  Without a GPU it assembles the kernel and
verifies it in the simulator; on a Hopper GPU it also launches and measures it.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from pyptx import Layout, SpecError, Tile, bf16, f32, kernel, kit, ptx, reg, smem, u64

BM, BN, BK = 128, 256, 64  # a CTA's tile of D, and the slice of K that one stage holds
WGMMA_M, WGMMA_K = 64, 16  # rows of a warpgroup; K of one wgmma on 16-bit operands (32 bytes)
CTAS = 2  # CTAs of a cluster; the second computes the 128 rows below the first
BOTH = (1 << CTAS) - 1  # multicast mask
CLUSTER_M = CTAS * BM
CONSUMERS = BM // WGMMA_M  # warpgroups that multiply
CONSUMER_WARPS = 4 * CONSUMERS
THREADS = 128 * (1 + CONSUMERS)
A_STAGE = BM * BK * 2  # bytes of A in one stage
B_STAGE = BN * BK * 2
#: A consumer frees a stage after it has started the products of the next stage, so there must be two stages.
MIN_STAGES, MAX_STAGES = 2, 4
#: Registers of a thread, by role. The SM has 65,536 registers.
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232


def build_gemm(
    M,
    N,
    K,
    *,
    stages=4,
    clusters=66,
    order=kit.tile_order.boustrophedon,
    epilogue="tma",
    out_dtype=f32,
    trace=None,
):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: multiples of 256 (the rows of a cluster), 256 and 64.
        stages: depth of the ring, 2 to 4 (48 KiB of shared memory each).
        clusters: number of clusters that share the tiles; 66 fill the 132 SMs of an H100 or H200.
        order: a function of ``pyptx.kit.tile_order`` that decides which tile a cluster computes next.
        epilogue: ``"tma"`` stores D through swizzled shared memory; ``"direct"`` stores D from registers.
        out_dtype: type of D, f32 or bf16.
        trace: a ``kit.Trace`` that is on, for marks; its buffer is then the first argument of the kernel.
    """
    trace = kit.Trace.off() if trace is None else trace
    for name, size, tile in (("M", M, CLUSTER_M), ("N", N, BN), ("K", K, BK)):
        if size <= 0 or size % tile:
            raise SpecError(
                f"{name} = {size} is not a positive multiple of {tile}, "
                + ("the rows of a cluster of two CTAs" if name == "M" else "its tile"),
                hint=f"pad {name} to {max(1, -(-size // tile)) * tile}",
            )
    if not MIN_STAGES <= stages <= MAX_STAGES:
        raise SpecError(
            f"stages = {stages}: expected {MIN_STAGES} to {MAX_STAGES}, each takes {A_STAGE + B_STAGE} bytes"
        )
    if clusters < 1:
        raise SpecError(f"clusters = {clusters}: expected a positive number")
    if epilogue not in ("direct", "tma"):
        raise SpecError(f"epilogue = {epilogue!r}: expected 'direct' or 'tma'")
    tiles_m, tiles_n = M // CLUSTER_M, N // BN
    tiles = tiles_m * tiles_n
    clusters = min(clusters, tiles)
    load_a, load_b = kit.TmaOperand(BM, BK, bf16), kit.TmaOperand(BN // CTAS, BK, bf16)
    chunk = 128 // out_dtype.nbytes  # columns of D in a row of 128 bytes
    stored = Tile(M, N, out_dtype, Layout.TMA_128B, tma_box=(kit.wgmma_epilogue.ROWS, chunk))

    @kernel(
        in_specs=(
            *trace.specs,
            load_a.spec(M, K),
            load_b.spec(N, K),
        ),
        out_specs=(stored if epilogue == "tma" else Tile(M, N, out_dtype),),
        grid=(CTAS * clusters, 1, 1),
        block=(THREADS, 1, 1),
        cluster=(CTAS, 1, 1),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,  # without this option ptxas ignores setmaxnreg
    )
    @trace.traced
    def gemm(A, B_T, D):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        warpgroup = warp >> 2
        rank = ptx.cluster.rank()
        work = kit.StaticTiles(tiles, first=ptx.special.clusterid.x(), step=clusters)

        tile_a = smem.alloc((BM, BK), bf16, swizzle="128B", stages=stages)
        tile_b = smem.alloc((BN, BK), bf16, swizzle="128B", stages=stages)
        if epilogue == "tma":
            staging_rows = kit.wgmma_epilogue.ROWS * CONSUMER_WARPS
            staging = smem.alloc((staging_rows, chunk), out_dtype, swizzle="128B", stages=2)
        # full expects one arrive.expect_tx of this CTA; empty expects every warp in both CTAs that reads the
        # stage.
        ring = kit.Ring(stages, consumers=CONSUMER_WARPS * CTAS)

        def place(tile):
            """Return the first row and column of this CTA's part of a tile of the cluster."""
            tile_m, tile_n = order(tile, tiles_m, tiles_n)
            return (tile_m * CTAS + rank) * BM, tile_n * BN

        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        # Both CTAs initialize their barriers before either CTA signals a barrier of the other.
        ptx.cluster.sync()

        # --- producer: one lane of warpgroup 0 -----------------------------------------------
        with ptx.if_(warpgroup == 0):
            ptx.setmaxnreg.dec(PRODUCER_REGISTERS)
            with kit.single_thread(warp, 0):
                producer = ring.producer()
                half = rank * (BN // CTAS)
                with work.loop() as tile:
                    m_base, n_base = place(tile)
                    with ptx.for_(0, K, BK) as k:
                        with trace.span("wait empty", stage=producer.stage):
                            slot = producer.acquire()
                        ptx.mbarrier.arrive_expect_tx(slot.full, A_STAGE + B_STAGE)
                        load_a.load(tile_a[slot.index], A, row=m_base, k=k, mbar=slot.full)
                        load_b.load(
                            tile_b[slot.index].rows(half, BN // CTAS),
                            B_T,
                            row=n_base + half,
                            k=k,
                            mbar=slot.full,
                            multicast=BOTH,
                        )
                        producer.advance()

        # --- consumers: warpgroups 1 and 2 compute 64 rows of the tile each --------------------
        with ptx.else_():
            ptx.setmaxnreg.inc(CONSUMER_REGISTERS)
            first = (warpgroup - 1) * WGMMA_M
            lane = ptx.special.laneid()
            leader = ptx.warp.elect()
            # Descriptors of stage 0. The next stage is A_STAGE or B_STAGE bytes further, in units of 16.
            first_a = ptx.wgmma.descriptor(tile_a[0].rows(first, WGMMA_M))
            first_b = ptx.wgmma.descriptor(tile_b[0])
            acc = ptx.wgmma.accumulator(m=WGMMA_M, n=BN, dtype=f32)
            consumer = ring.consumer()
            read = ring.consumer()  # one stage behind the other: the stage whose products have completed

            def multiply(accumulate):
                """Start the four products of a stage."""
                with trace.span("wait full", stage=consumer.stage):
                    slot = consumer.acquire()
                desc_a, desc_b = reg.scalar(u64), reg.scalar(u64)
                ptx.inst.mad.wide.u32(desc_a, slot.index, A_STAGE // 16, first_a)
                ptx.inst.mad.wide.u32(desc_b, slot.index, B_STAGE // 16, first_b)
                ptx.wgmma.fence()
                for k in range(0, BK, WGMMA_K):
                    a, b = ptx.wgmma.advance(desc_a, 2 * k), ptx.wgmma.advance(desc_b, 2 * k)
                    # The first product of a tile overwrites what the registers held.
                    ptx.wgmma.mma_async(acc, a, b, atype=bf16, scale_d=accumulate or k > 0)
                ptx.wgmma.commit_group()
                consumer.advance()

            def hand_back():
                """Free the previous stage: lane r of each warp arrives at the stage's barrier in CTA r."""
                read.release(cta=lane, pred=lane < CTAS)

            with work.loop() as tile:
                m_base, n_base = place(tile)
                multiply(accumulate=False)
                with ptx.for_(BK, K, BK):
                    multiply(accumulate=True)
                    with trace.span("wait products", stage=read.stage):
                        ptx.wgmma.wait_group(1)
                    hand_back()
                with trace.span("wait products", stage=read.stage):
                    ptx.wgmma.wait_group(0)
                hand_back()

                # --- epilogue: registers -> D -------------------------------------------------
                with trace.span("store tile", value=tile):
                    if epilogue == "direct":
                        corner = reg.scalar(u64)
                        ptx.inst.mad.wide.u32(corner, m_base + first, N * out_dtype.nbytes, D.ptr)
                        ptx.inst.mad.wide.u32(corner, n_base, out_dtype.nbytes, corner)
                        kit.wgmma_epilogue.direct(acc, corner, N * out_dtype.nbytes, dtype=out_dtype)
                    else:
                        corner = (n_base, m_base + first)
                        kit.wgmma_epilogue.through_shared(
                            acc, staging, D.tma_desc(), corner, warp=warp - 4, leader=leader
                        )
            if epilogue == "tma":
                kit.wgmma_epilogue.settle(leader)

        # --- teardown: no CTA exits while the peer may still signal it --------------------------
        ptx.cluster.sync()
        trace.finish()
        ptx.ret()

    return gemm


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]


def make_inputs(M, N, K, seed=0):
    """Return A[M, K] and B[N, K] in bf16 with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((M, K), np.float32).astype(bf16.dtype),
        rng.standard_normal((N, K), np.float32).astype(bf16.dtype),
    )


def worst_error(a, b, d):
    """Return the largest error against float64, as a fraction of the bound.

    The tensor core cuts each addend below 2**-25 of the largest addend, and cuts each sum to f32. So the
    error of a sum over K is at most ``K * 2**-23 * (|A| @ |B|.T)``. The rounding to a bf16 output adds a
    relative error of 2**-8.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact = a @ b.T
    bound = a.shape[1] * 2.0**-23 * (np.abs(a) @ np.abs(b).T)
    if d.dtype == bf16.dtype:
        bound += 2.0**-8 * (np.abs(exact) + bound)
    error = np.abs(d.astype(np.float64) - exact)
    return np.inf if np.isnan(error).any() else float(np.max(error / bound))


def verify(shapes, schedules=SCHEDULES, **options):
    """Assemble and simulate each shape under each schedule. Print a table; return True if all is right."""
    print(
        f"{'M x N x K':>18}  {'PTX':>6}  {'ptxas':<22} {'schedule':<10} {'seconds':>7}  {'error/bound':>11}"
    )
    good = True
    for M, N, K in shapes:
        gemm = build_gemm(M, N, K, **options)
        lines = gemm.ptx().count("\n")
        assembly = gemm.assemble()
        ptxas = f"{assembly.resources[0].registers} regs, {assembly.spills} B spilled"
        # If ptxas ignored setmaxnreg or serialized wgmma, its notes say so.
        clean = not (assembly.spills or assembly.warnings or assembly.notes)
        a, b = make_inputs(M, N, K)
        for schedule, seed in schedules:
            d = np.full((M, N), np.nan, np.float32)  # elements that are not written stay NaN
            started = time.perf_counter()
            report = gemm.simulate(a, b, out=d, schedule=schedule, seed=seed)
            seconds = time.perf_counter() - started
            error = worst_error(a, b, d)
            right = clean and report.verdict == "clean" and error <= 1
            good &= right
            name = f"{schedule}#{seed}" if schedule == "random" else schedule
            print(
                f"{f'{M} x {N} x {K}':>18}  {lines:>6}  {ptxas:<22} {name:<10} {seconds:>7.2f}  "
                f"{error:>11.4f}  {'ok' if right else 'WRONG'}"
            )
            if report.verdict != "clean":
                print(report)
    return good


def hopper():
    """Return torch and an empty text if torch sees a GPU that runs sm_90a; else None and the reason."""
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    capability = torch.cuda.get_device_capability()
    if capability != (9, 0):
        name = torch.cuda.get_device_name()
        return None, f"{name} has compute capability {capability[0]}.{capability[1]}, sm_90a needs 9.0"
    return torch, ""


def compare(torch, shapes):
    """Launch on the GPU and compare: every output must equal the simulator's, which models wgmma exactly."""
    good = True
    for M, N, K in shapes:
        a, b = make_inputs(M, N, K, seed=M)
        there = [torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16).cuda() for x in (a, b)]
        gemm = build_gemm(M, N, K)
        d = torch.full((M, N), float("nan"), device="cuda")
        gemm(*there, out=d)
        d = d.cpu().numpy()
        same = np.array_equal(d.view(np.uint32), gemm(a, b).view(np.uint32))
        right = same and worst_error(a, b, d) <= 1
        good &= right
        print(f"{f'{M} x {N} x {K}':>18}  GPU = simulator, word for word: {'ok' if right else 'WRONG'}")
    return good


def measure(torch, shapes, out_dtype=bf16, protocol="burst", **options):
    """Time the kernel and ``torch.matmul`` on normally distributed inputs, after a check of the outputs."""
    from pyptx import bench

    results = []
    for M, N, K in shapes:

        def inputs(copy, M=M, N=N, K=K):
            return tuple(torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))

        def library(a, b):
            return torch.matmul(a, b.T) if out_dtype is bf16 else torch.mm(a, b.T, out_dtype=torch.float32)

        result = bench(
            {"torch": library, "pyptx": build_gemm(M, N, K, out_dtype=out_dtype, **options)},
            inputs,
            reference=lambda a, b: a.float() @ b.float().T,
            rtol=2.0**-7,
            atol=1e-5 * K,
            flops=2 * M * N * K,
            protocol=protocol,
        )
        print(f"\nD[{M}, {N}] in {out_dtype} = A[{M}, {K}] @ B[{N}, {K}].T")
        result.show()
        results.append(result)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", metavar="MxNxK", help="print the PTX of one size and stop")
    options = parser.parse_args()
    if options.emit:
        print(build_gemm(*map(int, options.emit.split("x"))).ptx(), end="")
        return
    # First one slice of K, then two tiles of one cluster, with more slices than stages.
    good = verify([(256, 256, 64), (256, 512, 192)], clusters=1)
    torch, why = hopper()
    if torch is not None:
        good &= compare(torch, [(256, 256, 64), (768, 768, 320)])
        measure(torch, [(4096, 4096, 4096), (8192, 8192, 8192)])
    else:
        print(f"\nThe kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
