"""A Hopper GEMM on fp8 with scales of blocks: ``D = sum_k sa[m, k] * sb[n / 128, k] * (A_k @ B_k.T)``.

A has one scale for each 128 elements of a row (1 x 128), B one for each block of 128 x 128.  The tensor
core sums e4m3 or e5m2 with about 13 bits below the largest addend, so a sum over a long K would lose much.
Here it sums 128 of K; then the warpgroup's threads multiply that sum by both scales and add it to a second
set of registers in f32.  The two consumer warpgroups overlap: one adds while the other's products run::

    warpgroup 1   | wgmma, K block 0 | scale, add | wgmma, K block 1 | scale, add | ...
    warpgroup 2          | wgmma, K block 0 | scale, add | wgmma, K block 1 | scale, add | ...
    tensor cores  | 1    | 1 and 2          | 2          | 1          ...

The roles, the ring and the clusters are those of ``gemm.py``.  A stage is 128 of K: one block of scales.
Each thread needs the scales of two rows of A and one of B. It loads them from global memory one stage ahead,
so that they are there when the products are.

* The accumulator of a block is read after ``wgmma.wait_group(0)`` and overwritten by the next block's first
  product (``scale_d`` is 0), so nothing clears it.
* A tile lies in one block of N: its columns divide 128.
* TMA fills what is outside of A and B with zeros.  Threads whose row is outside of A load the scale of the
  last row: their numbers are not stored.

Order of sums: in a block the tensor core adds 32 of K after the other; then one fma in f32 for each block, in
the order of K.  Equal inputs give equal bits.  Scales that are infinite or NaN give what IEEE's fma gives.

``python examples/hopper/gemm_blockwise.py`` assembles and simulates it anywhere, and measures it on a Hopper
GPU.
"""

from __future__ import annotations

import functools
import itertools
import sys
from pathlib import Path

import numpy as np

from pyptx import SpecError, Tile, bf16, e4m3, e5m2, f32, kernel, kit, ptx, reg, smem

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_harness as harness
from gemm_options import BOXES, OUTPUTS, REGISTERS, ROWS, plan, usable_sms

BLOCK = 128  # elements of K, and of N, that share a scale
WARPGROUPS = 2
LARGEST = {e4m3: 448.0, e5m2: 57344.0}


class OneScale:
    """One scale for A and one for B, with the methods of ``kit.BlockScales``: sums are scaled at the end."""

    def __init__(self, scale_A, scale_B):
        self.factor, other = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(self.factor, scale_A.at(0))
        ptx.inst.ld.global_.f32(other, scale_B.at(0))
        ptx.inst.mul.f32(self.factor, self.factor, other)

    def begin(self, totals, **place):
        """Clear the totals."""
        for value in itertools.chain(*totals):
            value.set(0.0)

    def turn(self, more):
        """There is nothing to load."""

    def add(self, accs, totals):
        """Add a block's sums to the totals."""
        for value, summand in zip(itertools.chain(*totals), itertools.chain(*accs), strict=True):
            ptx.inst.add.f32(value, value, summand)

    def finish(self, totals):
        """Scale the totals."""
        for value in itertools.chain(*totals):
            ptx.inst.mul.f32(value, value, self.factor)


def build_gemm_blockwise(
    M,
    N,
    K,
    *,
    a_type=e4m3,
    b_type=None,
    out_type=bf16,
    tile=(128, 128),
    cluster=(2, 1),
    stages=None,
    staging=None,
    scales_major="M",
    order=kit.tile_order.boustrophedon,
    sms=None,
):
    """Build the kernel; call it with A[M, K], B[N, K], scales of A and scales of B.

    The scales are f32: of A ``[ceil(K / 128), M]``, or ``[M, ceil(K / 128)]`` with ``scales_major="K"``; of B
    ``[ceil(N / 128), ceil(K / 128)]``.

    Args:
        M, N, K: any sizes for which rows of A, B and D are multiples of 16 bytes. None for M: the kernel
            serves every M.
        a_type, b_type: e4m3 or e5m2; B's is A's by default.
        out_type: f32, bf16 or f16.
        tile: rows and columns of D that a CTA computes at a time: 128 or 256 rows, columns that divide 128,
            and at most 128 x 128 elements.
        cluster: CTAs of a cluster along M and along N; those in a row share A, those in a column share B.
        stages, staging: depth of the ring and of D's staging; default: what fits (``gemm_options.plan``).
        scales_major: ``"M"`` or ``"K"``: the dimension of A's scales whose neighbors are adjacent. None: one
            number for A and one for B (each an array of one): sums in f32 all the same, for a comparison with
            libraries that do not accumulate fast.
        order: a function of ``pyptx.kit.tile_order`` that decides which tile a cluster computes next.
        sms: number of SMs to use; default: those that clusters of this size fill at the same time.

    Raises:
        SpecError: an option out of range, or a combination that the hardware or this kernel does not have.
    """
    b_type = a_type if b_type is None else b_type
    if not {a_type, b_type} <= {e4m3, e5m2} or out_type not in OUTPUTS:
        raise SpecError(
            f"A of {a_type!r}, B of {b_type!r}, D of {out_type!r}: expected e4m3 or e5m2, then {OUTPUTS}"
        )
    if scales_major not in ("M", "K", None):
        raise SpecError(f"scales_major = {scales_major!r}: expected 'M', 'K' or None")
    BM, BN = tile
    if BM not in (128, 256) or BN < 8 or BLOCK % BN or BM * BN > 128 * 128:
        raise SpecError(
            f"tile = {tile}: expected 128 or 256 rows, columns that divide {BLOCK}; a thread holds two f32 "
            "for each number of D, so that 128 x 128 is the largest"
        )
    if N * out_type.nbytes % 16:
        raise SpecError(
            f"N = {N}: rows of D have {N * out_type.nbytes} bytes, and TMA needs a multiple of 16"
        )
    _, _, blocks, span, stages, staging = plan(
        a_type, out_type, tile, warpgroups=WARPGROUPS, stages=stages, staging=staging
    )
    operands = kit.SharedOperands(kit.ClusterGrid(*cluster), tile, a_type, b_type)
    CM, CN = cluster
    ctas = CM * CN
    clusters = (usable_sms(ctas) if sms is None else sms) // ctas
    if clusters < 1:
        raise SpecError(f"sms = {sms}: a cluster has {ctas} CTAs")
    tiles_n = -(-N // (BN * CN))
    k_blocks = -(-K // BLOCK)
    rows = "M" if M is None else M
    chunk = span // out_type.nbytes
    warps = 4 * WARPGROUPS

    scale_specs = {
        "M": (Tile(k_blocks, rows, f32), Tile(-(-N // BLOCK), k_blocks, f32)),
        "K": (Tile(rows, k_blocks, f32), Tile(-(-N // BLOCK), k_blocks, f32)),
        None: (Tile(1, f32), Tile(1, f32)),
    }[scales_major]

    def grid(M=M):
        return (ctas * min(clusters, -(-M // (BM * CM)) * tiles_n), 1, 1)

    @kernel(
        in_specs=(
            operands.a.spec(rows, K),
            operands.b.spec(N, K),
            *scale_specs,
        ),
        out_specs=(Tile(rows, N, out_type, BOXES[span], tma_box=(kit.wgmma_epilogue.ROWS, chunk)),),
        grid=grid if M is None else grid(),
        block=(128 * (1 + WARPGROUPS), 1, 1),
        cluster=(ctas, 1, 1),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,  # without this option ptxas ignores setmaxnreg
    )
    def gemm_blockwise(A, B, scales_A, scales_B, D):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        warpgroup = warp >> 2
        rank = ptx.cluster.rank()
        row, column = operands.grid.place(rank)
        height = D.extent(0)
        tiles_m = kit.tile_order.cdiv(height, BM * CM)
        work = kit.StaticTiles(tiles_m * tiles_n, first=ptx.special.clusterid.x(), step=clusters)
        tile_a, tile_b = operands.stages(stages)
        staged = smem.alloc(
            (kit.wgmma_epilogue.ROWS * warps, chunk), out_type, swizzle=f"{span}B", stages=staging
        )
        ring = kit.Ring(stages, consumers=warps * operands.grid.readers)

        def place(tile):
            """Return the first row and column of this CTA's part of a tile."""
            tile_m, tile_n = order(tile, tiles_m, tiles_n)
            return (tile_m * CM + row) * BM, (tile_n * CN + column) * BN

        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        # All CTAs initialize their barriers before any CTA signals a barrier of another.
        meet = ptx.cluster.sync if ctas > 1 else functools.partial(ptx.bar.sync, 0)
        meet()

        # --- producer: one lane of warpgroup 0 -----------------------------------------------
        with ptx.if_(warpgroup == 0):
            ptx.setmaxnreg.dec(REGISTERS[WARPGROUPS][0])
            with kit.single_thread(warp, 0):
                for tensor in (A, B, D):
                    ptx.tensormap.prefetch(tensor.tma_desc())
                producer = ring.producer()
                operands.join(rank)
                with work.loop() as tile:
                    m_base, n_base = place(tile)
                    with ptx.for_(0, K, BLOCK) as k:
                        slot = producer.acquire()
                        operands.load(slot, A, B, row=m_base, column=n_base, k=k)
                        producer.advance()

        # --- consumers -------------------------------------------------------------------------
        with ptx.else_():
            ptx.setmaxnreg.inc(REGISTERS[WARPGROUPS][1])
            first_row = (warpgroup - 1) * (ROWS * blocks)
            leader = ptx.warp.elect()
            operands.hand_back_as(rank, leader)
            multiply = kit.WgmmaMultiply(
                tile_a, tile_b, n=BN, k=BLOCK, dtype=a_type, b_type=b_type, first=first_row, blocks=blocks
            )
            accs = [ptx.wgmma.accumulator(n=BN, name=f"acc{i}_") for i in range(blocks)]
            totals = [ptx.wgmma.accumulator(n=BN, name=f"total{i}_") for i in range(blocks)]
            consumer = ring.consumer()
            if scales_major is None:
                scales = OneScale(scales_A, scales_B)
            else:
                scales = kit.BlockScales(scales_A, scales_B, blocks=blocks, a_major=scales_major)

            with work.loop() as tile:
                m_base, n_base = place(tile)
                scales.begin(totals, row=m_base + first_row, column=n_base, last=height - 1)
                with ptx.for_(0, K, BLOCK) as k:
                    slot = consumer.acquire()
                    multiply(accs, slot.index, accumulate=False)
                    ptx.wgmma.commit_group()
                    scales.turn(more=k < (k_blocks - 1) * BLOCK)
                    ptx.wgmma.wait_group(0)
                    operands.hand_back(consumer)
                    scales.add(accs, totals)

                if scales_major is None:
                    scales.finish(totals)
                for block, total in enumerate(totals):
                    corner = (n_base, m_base + first_row + block * ROWS)
                    kit.wgmma_epilogue.through_shared(
                        total, staged, D.tma_desc(), corner, warp=warp - 4, leader=leader
                    )
            kit.wgmma_epilogue.settle(leader)

        # --- teardown: no CTA exits while another may still signal it -----------------------------
        if ctas > 1:
            ptx.cluster.sync()
        ptx.ret()

    return gemm_blockwise


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, K, seed=0, *, a_type=e4m3, b_type=None, scales_major="M"):
    """Return A, B and the scales of both, as :func:`quantize` makes them of normally distributed numbers."""
    rng = np.random.default_rng(seed)
    # Rows and columns of very different magnitude, which one scale for the whole matrix could not hold.
    a, b = (rng.standard_normal((rows, K), np.float32) for rows in (M, N))
    a *= np.exp2(rng.integers(-6, 7, (M, 1))).astype(np.float32)
    b *= np.exp2(rng.integers(-6, 7, (N, 1)) // 4).astype(np.float32)
    b_type = a_type if b_type is None else b_type
    if scales_major is None:
        given = [(x / np.abs(x).max(), kind) for x, kind in ((a, a_type), (b, b_type))]
        parts = [(x * LARGEST[kind]).astype(harness.NUMPY[kind]) for x, kind in given]
        return *parts, *(np.array([1 / LARGEST[kind]], np.float32) for _, kind in given)
    a, scales_a = quantize(a, 1, a_type)
    b, scales_b = quantize(b, BLOCK, b_type)
    return a, b, np.ascontiguousarray(scales_a.T) if scales_major == "M" else scales_a, scales_b


def quantize(x, rows, kind):
    """Return a matrix in fp8, and the f32 scales of its blocks of ``rows`` x 128 elements."""
    k_blocks, m_blocks = -(-x.shape[1] // BLOCK), -(-x.shape[0] // rows)
    padded = np.zeros((m_blocks * rows, k_blocks * BLOCK), np.float32)
    padded[: x.shape[0], : x.shape[1]] = x
    blocks = padded.reshape(m_blocks, rows, k_blocks, BLOCK)
    most = np.abs(blocks).max(axis=(1, 3))
    scales = np.where(most > 0, most / np.float32(LARGEST[kind]), 1)
    scales = scales.astype(np.float32)
    scaled = (blocks / scales[:, None, :, None]).reshape(padded.shape)[: x.shape[0], : x.shape[1]]
    return scaled.astype(harness.NUMPY[kind]), scales


def reference(a, b, scales_a, scales_b, scales_major="M"):
    """Return the product in float64, and the bound of the error of f32 results."""
    K = a.shape[1]
    if scales_major is None:
        k_blocks = -(-K // BLOCK)
        scales_a = np.repeat(scales_a, a.shape[0] * k_blocks).reshape(-1, k_blocks)
        scales_b = np.repeat(scales_b, -(-b.shape[0] // BLOCK) * k_blocks).reshape(-1, k_blocks)
    by_row = (scales_a.T if scales_major == "M" else scales_a).astype(np.float64)
    by_column = np.repeat(scales_b.astype(np.float64), BLOCK, axis=0)[: b.shape[0]]
    exact = np.zeros((a.shape[0], b.shape[0]))
    error = np.zeros_like(exact)
    for block, k in enumerate(range(0, K, BLOCK)):
        part, magnitude = harness.reference(a[:, k : k + BLOCK], b[:, k : k + BLOCK])
        factor = by_row[:, block, None] * by_column[None, :, block]
        exact += part * factor
        of_block = harness.bound(magnitude, min(BLOCK, K - k), a.dtype)
        # The product of the scales, the product with it and the sum are rounded to f32.
        error += np.abs(factor) * (of_block + 2.0**-22 * magnitude) + 2.0**-23 * np.abs(exact)
    return exact, error


def simulated(kernel, shape, seed=0, schedule="eager", out_type=bf16, **kinds):
    """Run a product in the simulator; return the report and the error as a fraction of the bound."""
    M, N, _ = shape
    given = make_inputs(*shape, seed, **kinds)
    d = np.full((M, N), np.nan, harness.NUMPY[out_type])
    report = kernel.simulate(*given, out=d, schedule=schedule, seed=seed, sanitize="strict")
    return report, harness.worst_error(*reference(*given, kinds.get("scales_major", "M")), d)


def measure(torch, shape, **options):
    """Time the kernel, and torch's product of the same fp8 numbers with one scale for each matrix."""
    from pyptx import bench

    M, N, K = shape

    def inputs(copy):
        # All scales are 1, so that the library's product is the same.
        a, b = (torch.randn(rows, K, device="cuda").to(torch.float8_e4m3fn) for rows in (M, N))
        shapes = (-(-K // BLOCK), M), (-(-N // BLOCK), -(-K // BLOCK))
        return a, b, *(torch.ones(shape, device="cuda") for shape in shapes)

    one = torch.ones((), device="cuda")

    def library(a, b, scales_a, scales_b):
        return torch._scaled_mm(
            a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    result = bench(
        {"pyptx": build_gemm_blockwise(M, N, K, **options), "torch, one scale": library},
        inputs,
        reference=lambda a, b, scales_a, scales_b: a.float() @ b.float().T,
        rtol=2.0**-6,
        atol=1e-2 * K**0.5,
        flops=2 * M * N * K,
    )
    print(f"\nD[{M}, {N}] = A[{M}, {K}] @ B[{N}, {K}].T in e4m3 with scales of blocks")
    result.show()
    return result


def main():
    good = True
    for shape, options in [
        ((200, 264, 272), {}),
        (
            (264, 144, 400),
            {"tile": (256, 64), "cluster": (1, 2), "scales_major": "K", "a_type": e5m2, "sms": 2},
        ),
    ]:
        kernel = build_gemm_blockwise(*shape, **options)
        assembly = kernel.assemble()
        kinds = {name: options[name] for name in ("a_type", "scales_major") if name in options}
        report, error = simulated(kernel, shape, **kinds)
        right = report.verdict == "clean" and report.holds == "every schedule" and error <= 1
        right &= not (assembly.spills or assembly.warnings or assembly.notes)
        good &= right
        print(
            f"{' x '.join(map(str, shape))} {options}: error/bound {error:.4f}, {'ok' if right else report}"
        )
    torch, why = harness.hopper()
    if torch is None:
        print(f"The kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    else:
        for shape in ((4096, 7168, 2048), (8192, 8192, 8192)):
            measure(torch, shape)
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
