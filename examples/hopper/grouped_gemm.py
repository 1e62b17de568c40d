"""Grouped GEMM for Hopper: ``D_g = A_g @ B_g.T`` for groups whose rows only the device knows.

A mixture of experts multiplies the tokens of each expert by its weights.  The sizes of the groups are in an
array on the device, and the host neither reads them nor waits for them: the grid is the whole GPU, and each
role walks over the groups by itself (``kit.GroupTiles``)::

    ends  [ 3 | 3 | 260 | 300 ]             contiguous: rows of A and D one group after the other
            |   |    |     |
    tiles   0   -   1 2 3  4                groups in order, each rounded up to tiles; a group may be empty

    A       |g0|      g2          |  g3  |  A, D: [M, K], [M, N]     B: [groups, N, K]

``layout="masked"``: A and D have a slab of ``M`` rows for each group, of which the first ``counts[g]`` hold
tokens (a decoding step with a fixed shape, for a graph).  Rows of D behind them that are in a started tile
get products of whatever A holds there; later rows are not written.

Roles, ring and clusters are those of ``gemm.py``.  What is different:

* A tile of a contiguous group may reach into the next group's rows. They are loaded and multiplied, but must
  not be stored.  A warp whose 16 rows all belong to the group stores by TMA; at the end of a group a warp
  stores from registers, each row under a predicate.
* With ``narrow`` as many of the last rows of tiles as fill the last round have tiles of fewer columns, so
  that all clusters have equally much to do. How many these are the kernel finds out from the sizes.
* All roles read the same sizes, so they agree about the number of tiles.  The sizes must not change while the
  kernel runs.

Order of sums: as ``gemm.py`` without split, and with scales of blocks as ``gemm_blockwise.py``. A group's
bits do not depend on the other groups.

``python examples/hopper/grouped_gemm.py`` assembles and simulates it anywhere, and measures it on a Hopper
GPU.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np

from pyptx import SpecError, Tile, bf16, e4m3, e5m2, f32, kernel, kit, ptx, reg, s32, smem, u32

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_blockwise
import gemm_harness as harness
from gemm_options import BOXES, MULTIPLIED, REGISTERS, ROWS, check, plan, usable_sms, with_arguments
from gemm_widths import NARROW, WIDE, check_narrow

BLOCK = 128  # elements of K, and of N, that share a scale
#: Rows of a group, on average, from which three warpgroups are faster than two whose products run ahead: by
#: 2.7% with 4096 rows, by 2.1% with 8192; with 1024 both take as long.
HIGH = 2048


def build_grouped_gemm(
    groups,
    N,
    K,
    *,
    M=None,
    layout="contiguous",
    a_type=bf16,
    b_type=None,
    out_type=bf16,
    b_major="K",
    tile=None,
    cluster=(1, 1),
    scales_major=None,
    scales_in=None,
    stagger=False,
    ahead=None,
    deferred=False,
    narrow=None,
    stages=None,
    staging=None,
    order=kit.tile_order.boustrophedon,
    sms=None,
):
    """Build the kernel; call it with A, B[groups, N, K], scales if any, and the sizes: ``groups`` s32.

    Args:
        groups: number of groups.
        N, K: columns of each D, and the length of the sums; rows of A, B and D are multiples of 16 bytes.
        M: rows of A and D in all (contiguous), or of each group's slab (masked). None: any number.
        layout: ``"contiguous"``: A[M, K], D[M, N], and the sizes are the row behind each group, not below
            that of the group before. ``"masked"``: A[groups, M, K], D[groups, M, N], and the sizes are the
            numbers of rows to compute, 0 to M.
        a_type, b_type, out_type: as for ``build_gemm``.
        b_major: ``"MN"`` for B[groups, K, N], in 16-bit types.
        scales_major: None, or ``"M"`` or ``"K"`` for fp8 with scales of blocks as in ``gemm_blockwise.py``:
            two more arguments before the sizes, scales of A ``[ceil(K / 128), M]`` or ``[M, ceil(K / 128)]``
            (masked: with ``groups`` in front), and of B ``[groups, ceil(N / 128), ceil(K / 128)]``.
        scales_in: as for ``build_gemm_blockwise``; TMA loads the scales of contiguous groups for tiles of 64
            or 128 rows.
        stagger, ahead: as for ``build_gemm_blockwise``, with scales of blocks.
        deferred: as for ``build_gemm``, without scales of blocks.
        narrow: None, or columns of narrow tiles, as for ``widths`` of ``build_gemm``: with ``deferred`` and
            clusters of one column.
        tile: rows and columns of D that a CTA computes at a time. Default: 128 x 256; with scales of blocks
            that TMA loads 128 x 128 and ``ahead`` for contiguous groups, 192 x 128 if they have 2048 rows or
            more on average, 128 x 192 for masked ones, and with other scales of blocks 128 x 128.
        cluster, stages, staging, order, sms: as for ``build_gemm``; the order is that within a group.
            A cluster whose CTAs share A (1 x 2) suits groups of few rows.

    Raises:
        SpecError: an option out of range, or a combination that the hardware or this kernel does not have.
    """
    if type(groups) is not int or groups < 1:
        raise SpecError(f"groups = {groups!r}: expected a positive whole number")
    b_type = a_type if b_type is None else b_type
    scaled = scales_major is not None
    masked = layout == "masked"
    shared = scaled and (masked or tile is None or tile[0] <= 192)
    # A group may begin at any row.
    shared = shared and gemm_blockwise.in_shared(scales_in, scales_major, M, -(-K // BLOCK))
    if scaled and scales_in == "shared" and not shared:
        raise SpecError(
            f"scales_in = 'shared' with tile = {tile} and contiguous groups: expected at most 192 rows, "
            "since a group may begin at a row that is no multiple of 4"
        )
    if tile is None:
        promoted = shared and not masked and not stagger
        high = promoted and ahead is None and M is not None and HIGH * groups <= M
        ahead = promoted and not high if ahead is None else ahead
        if high:
            tile = (192, 128)
        else:
            tile = (128, 256) if not scaled else (128, 128) if ahead or not shared else (128, 192)
    a_major, consumers, batch, split, hints = "K", "cooperative", groups, 1, None
    beta = epilogue = None
    check(locals())
    if layout not in ("contiguous", "masked"):
        raise SpecError(f"layout = {layout!r}: expected 'contiguous' or 'masked'")
    BM, BN = tile
    if scaled and deferred:
        raise SpecError(
            "deferred with scales of blocks: one warpgroup stores under the other's products anyway"
        )
    staged_scales = None
    if scaled:
        gemm_blockwise.check_promoted(tile)
        if not {a_type, b_type} <= {e4m3, e5m2} or (BLOCK % BN and not shared):
            raise SpecError(
                f"scales of blocks with {a_type!r} and tile = {tile}: expected 8-bit floats, and columns "
                f"that divide {BLOCK} unless TMA loads the scales"
            )
        if shared:
            staged_scales = kit.StagedScales(tile, batch=masked, b_batch=True, aligned=masked)
    BK, warpgroups, blocks, span, stages, staging = plan(
        a_type,
        out_type,
        tile,
        stages=stages,
        staging=staging,
        deferred=deferred,
        beside=staged_scales.stage_bytes if shared else 0,
    )
    if (stagger or ahead) and not scaled:
        raise SpecError(
            f"stagger = {stagger}, ahead = {ahead} without scales of blocks: there is nothing to overlap"
        )
    if stagger:
        gemm_blockwise.check_stagger(warpgroups, -(-K // BK), stages)
    if ahead:
        gemm_blockwise.check_ahead(tile, stagger=stagger, in_registers=not shared)
    operands = kit.SharedOperands(
        kit.ClusterGrid(*cluster), tile, a_type, b_type, b_major=b_major, batch=masked, b_batch=True
    )
    CM, CN = cluster
    ctas = CM * CN
    clusters = (usable_sms(ctas) if sms is None else sms) // ctas
    tiles_n = -(-N // (BN * CN))
    k_blocks = -(-K // BK)
    rows = "M" if M is None else M
    front = (groups,) if masked else ()
    chunk = span // out_type.nbytes
    box = (*(1 for _ in front), kit.wgmma_epilogue.ROWS, chunk)
    warps = 4 * warpgroups
    if narrow is not None:
        if not deferred or CN > 1:
            raise SpecError(
                f"narrow = {narrow} with deferred = {deferred}, cluster = {cluster}: expected deferred "
                "stores and clusters of one column"
            )
        check_narrow(narrow, BN, chunk)
    tiles_narrow = tiles_n if narrow is None else -(-N // narrow)
    if tiles_narrow == tiles_n:
        narrow = None  # tiles of both widths are as many

    scale_specs = ()
    if shared:
        a_batch = groups if masked else None
        scale_specs = (
            staged_scales.a_spec(k_blocks, rows, a_batch),
            staged_scales.b_spec(-(-N // BLOCK), k_blocks, groups),
        )
    elif scaled:
        shape = (k_blocks, rows) if scales_major == "M" else (rows, k_blocks)
        scale_specs = Tile(*front, *shape, f32), Tile(groups, -(-N // BLOCK), k_blocks, f32)

    @kernel(
        in_specs=(
            operands.a.spec(rows, K, groups if masked else None),
            operands.b.spec(N, K, groups),
            *scale_specs,
            Tile(groups, s32),
        ),
        out_specs=(Tile(*front, rows, N, out_type, BOXES[span], tma_box=box),),
        grid=(ctas * clusters, 1, 1),
        block=(128 * (1 + warpgroups), 1, 1),
        cluster=(ctas, 1, 1),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,  # without this option ptxas ignores setmaxnreg
    )
    @with_arguments("A", "B", *(("scales_A", "scales_B") if scaled else ()), "sizes", "D")
    def grouped_gemm(A, B, *others):
        *scale_arrays, sizes, D = others
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        warpgroup = warp >> 2
        rank = ptx.cluster.rank()
        row, column = operands.grid.place(rank)
        work = kit.GroupTiles(
            sizes,
            groups=groups,
            rows=BM * CM,
            tiles_n=tiles_n,
            first=ptx.special.clusterid.x(),
            step=clusters,
            kind="counts" if masked else "ends",
            narrow=None if narrow is None else tiles_narrow,
        )
        tiles = operands.stages(stages)
        if shared:
            staged_scales.stages(stages)
        staged = smem.alloc(
            (kit.wgmma_epilogue.ROWS * warps, chunk), out_type, swizzle=f"{span}B", stages=staging
        )
        ring = kit.Ring(stages, consumers=warps * operands.grid.readers)

        def place(found):
            """Return the first row and column of this CTA's part of a tile."""
            if narrow is None:
                tile_m, tile_n = order(found.within, found.tiles_m, tiles_n)
                return (tile_m * CM + row) * BM + found.begin, (tile_n * CN + column) * BN
            m_base, n_base = reg.scalar(u32), reg.scalar(u32)
            for among, count, width in (
                (~found.narrow, tiles_n, BN),
                (found.narrow, tiles_narrow, narrow),
            ):
                with ptx.if_(among):
                    tile_m, tile_n = order(found.within, found.tiles_m, count)
                    ptx.inst.mad.lo.u32(m_base, tile_m * CM + row, BM, found.begin)
                    ptx.inst.mul.lo.u32(n_base, tile_n, width)
            return m_base, n_base

        with kit.single_thread(warp, 0):
            ring.init()
            ptx.fence.mbarrier_init()
        # All CTAs initialize their barriers before any CTA signals a barrier of another.
        meet = ptx.cluster.sync if ctas > 1 else functools.partial(ptx.bar.sync, 0)
        meet()

        # --- producer: one lane of warpgroup 0 -----------------------------------------------
        with ptx.if_(warpgroup == 0):
            if warpgroups in REGISTERS:
                ptx.setmaxnreg.dec(REGISTERS[warpgroups][0])
            with kit.single_thread(warp, 0):
                for tensor in (A, B, D, *(scale_arrays if shared else ())):
                    ptx.tensormap.prefetch(tensor.tma_desc())
                producer = ring.producer()
                operands.join(rank)
                with work.loop() as found:
                    m_base, n_base = place(found)
                    with ptx.for_(0, K, BK) as k:
                        slot = producer.acquire()
                        part = {
                            "row": m_base,
                            "column": n_base,
                            "k": k,
                            "batch": found.group if masked else None,
                            "b_batch": found.group,
                        }
                        operands.load(slot, A, B, **part, beside=staged_scales.nbytes if shared else 0)
                        if shared:
                            staged_scales.load(slot, *scale_arrays, **part)
                        producer.advance()

        # --- consumers -------------------------------------------------------------------------
        with ptx.else_():
            if warpgroups in REGISTERS:
                ptx.setmaxnreg.inc(REGISTERS[warpgroups][1])
            first_row = (warpgroup - 1) * (ROWS * blocks)
            leader = ptx.warp.elect()
            operands.hand_back_as(rank, leader)
            if scaled:
                scales = (
                    staged_scales.reader(first=first_row, blocks=blocks)
                    if shared
                    else kit.BlockScales(*scale_arrays, blocks=blocks, a_major=scales_major)
                )
                promotion = gemm_blockwise.Promotion(
                    operands,
                    tiles,
                    scales,
                    n=BN,
                    blocks=blocks,
                    first=first_row,
                    types=(a_type, b_type),
                    second=warpgroup == 2 if stagger else None,
                    ahead=ahead,
                )
            else:
                products = [
                    (
                        kit.WgmmaMultiply(
                            *tiles,
                            n=columns,
                            k=BK,
                            dtype=MULTIPLIED[a_type],
                            b_type=MULTIPLIED[b_type],
                            first=first_row,
                            blocks=blocks,
                            b_major=b_major,
                        ),
                        [ptx.wgmma.accumulator(n=columns, name=f"{name}{block}_") for block in range(blocks)],
                    )
                    for name, columns in (("acc", BN), *(() if narrow is None else (("narrow", narrow),)))
                ]
            consumer = ring.consumer()
            read = ring.consumer()  # one stage behind the other: the stage whose products have completed

            def multiply_blocks(found, m_base, n_base):
                """Multiply a tile one block of scales after the other, and return its totals."""
                return promotion.tile(
                    consumer,
                    K,
                    read=read,
                    row=m_base,
                    column=n_base,
                    last=D.extent(len(front)) - 1,
                    a_matrix=found.group if masked else None,
                    b_matrix=found.group,
                )

            def store_held():
                """Store the tile that waits, if there is one."""
                with ptx.if_(held_kind != 0):
                    store_all(held, *held_at)

            def multiply_all(multiply, accs):
                """Multiply a tile, and return its accumulators."""

                def start(accumulate):
                    """Start the products of a stage."""
                    slot = consumer.acquire()
                    multiply(accs, slot.index, accumulate)
                    ptx.wgmma.commit_group()
                    consumer.advance()

                start(accumulate=False)
                ahead = 2 if deferred and k_blocks > 1 else 1
                if ahead == 2:
                    start(accumulate=True)
                if deferred:
                    store_held()
                if ahead == 2:
                    ptx.wgmma.wait_group(1)
                    operands.hand_back(read)
                with ptx.for_(ahead * BK, K, BK):
                    start(accumulate=True)
                    ptx.wgmma.wait_group(1)
                    operands.hand_back(read)
                ptx.wgmma.wait_group(0)
                operands.hand_back(read)
                return accs

            def pack(accs, kind):
                """Round a tile's sums into the registers in which they wait."""
                for packed, acc in zip(held, accs, strict=True):
                    packed.take(acc)
                held_kind.set(kind)

            def store_all(sums, n_base, first, group):
                """Record the epilogues of a tile's accumulators, one below the other."""
                for block, acc in enumerate(sums):
                    store(acc, n_base, first + block * ROWS if block else first, group)

            def store(acc, n_base, first, group):
                """Record one epilogue. ``group`` is the end of the group's rows, or (masked) its number."""
                coord = (n_base, first, group) if masked else (n_base, first)
                by_tma = functools.partial(
                    kit.wgmma_epilogue.through_shared,
                    acc,
                    staged,
                    D.tma_desc(),
                    coord,
                    warp=warp - 4,
                    leader=leader,
                    fewer=None if narrow is None else (held_kind == NARROW, narrow),
                )
                if masked:
                    by_tma()
                    return
                # The rows of this warp that belong to the group decide how the warp stores.
                with ptx.if_(first + ((warp & 3) * 16 + 16) <= group):
                    by_tma()
                with ptx.else_():
                    columns = N - n_base if N % BN or narrow is not None else None
                    if narrow is not None:
                        ptx.inst.min.u32(columns, columns, narrow, pred=held_kind == NARROW)
                    kit.wgmma_epilogue.direct(
                        acc,
                        D.at(first, n_base).base,
                        N * out_type.nbytes,
                        dtype=out_type,
                        rows=group - first,
                        columns=columns,
                    )
                    if narrow is not None:
                        ptx.warp.sync()  # its lanes have stored different rows: they wait together again

            if deferred:
                held = [kit.wgmma_epilogue.Packed(BN, out_type) for _ in range(blocks)]
                held_at = [reg.scalar(u32) for _ in range(3)]
                held_kind = reg.scalar(u32, init=0)  # 0: there is none

            with work.loop() as found:
                m_base, n_base = place(found)
                corner = n_base, m_base + first_row, found.group if masked else found.end
                if scaled:
                    store_all(multiply_blocks(found, m_base, n_base), *corner)
                elif not deferred:
                    store_all(multiply_all(*products[0]), *corner)
                elif narrow is None:
                    pack(multiply_all(*products[0]), WIDE)
                else:
                    with ptx.if_(found.narrow):
                        pack(multiply_all(*products[1]), NARROW)
                    with ptx.else_():
                        pack(multiply_all(*products[0]), WIDE)
                if deferred:
                    for value, wanted in zip(held_at, corner, strict=True):
                        ptx.inst.mov.u32(value, wanted)
            if deferred:
                store_held()  # a cluster may have had no tile: the groups may be empty
            kit.wgmma_epilogue.settle(leader)

        # --- teardown: no CTA exits while another may still signal it -----------------------------
        if ctas > 1:
            ptx.cluster.sync()
        ptx.ret()

    return grouped_gemm


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(counts, N, K, seed=0, *, slab=None, a_type=bf16, b_type=None, b_major="K", scales_major=None):
    """Return A, B, scales if any, and the sizes of groups of ``counts`` rows; with ``slab`` rows, masked."""
    M, groups = sum(counts) if slab is None else slab, len(counts)
    kinds = {"a_type": a_type, "b_type": b_type}
    sizes = (np.cumsum(counts) if slab is None else np.array(counts)).astype(np.int32)
    parts = [
        harness.make_inputs(M, N, K, seed + g, b_major=b_major, **kinds)
        if scales_major is None
        else gemm_blockwise.make_inputs(M, N, K, seed + g, scales_major=scales_major, **kinds)
        for g in range(groups)
    ]
    # One A for all groups if they lie one after the other, and a slab for each if they are masked.
    a, b, *scales = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    if slab is None:
        a, scales = a[0], [scales[0][0], scales[1]] if scales else []
    return a, b, *scales, sizes


def reference(a, b, *others, b_major="K", scales_major=None):
    """Return D in float64 and the bound of its error; NaN where no group defines D."""
    *scales, sizes = others
    N = b.shape[1] if b_major == "K" else b.shape[2]
    exact = np.full((*a.shape[:-1], N), np.nan)
    error = np.zeros_like(exact)
    begin = 0
    for group, size in enumerate(sizes.tolist()):
        masked = a.ndim == 3
        rows = slice(size) if masked else slice(begin, size)
        part = (group, rows) if masked else rows
        if scales:
            by_row = scales[0][group] if masked else scales[0]
            by_row = by_row[:, rows] if scales_major == "M" else by_row[rows]
            found = gemm_blockwise.reference(a[part], b[group], by_row, scales[1][group], scales_major)
        else:
            product, magnitude = harness.reference(a[part], b[group], b_major=b_major)
            found = product, harness.bound(magnitude, a.shape[-1], a.dtype)
        exact[part], error[part] = found
        begin = size
    return exact, error


def simulated(kernel, given, out_type=bf16, b_major="K", scales_major=None, **run):
    """Run the products in the simulator; return the report and the error as a fraction of the bound."""
    exact, error = reference(*given, b_major=b_major, scales_major=scales_major)
    d = np.full(exact.shape, np.nan, harness.NUMPY[out_type])
    report = kernel.simulate(*given, out=d, sanitize="strict", **run)
    defined = ~np.isnan(exact)
    if not defined.any():
        return report, 0.0
    return report, harness.worst_error(exact[defined], error[defined], d[defined])


def measure(torch, counts, N, K, **options):
    """Time the kernel and ``torch._grouped_mm`` on bf16 inputs, groups one after the other."""
    from pyptx import bench

    M, groups = sum(counts), len(counts)
    ends = torch.tensor(np.cumsum(counts), dtype=torch.int32, device="cuda")

    def inputs(copy):
        a = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
        return a, torch.randn(groups, N, K, device="cuda", dtype=torch.bfloat16), ends

    def expected(a, b, ends):
        parts = a.float().split(list(counts))
        return torch.cat([part @ weights.float().T for part, weights in zip(parts, b, strict=True)])

    result = bench(
        {
            "pyptx": build_grouped_gemm(groups, N, K, **options),
            "torch": lambda a, b, ends: torch._grouped_mm(a, b.transpose(-2, -1), offs=ends),
        },
        inputs,
        reference=expected,
        rtol=2.0**-7,
        atol=1e-5 * K,
        flops=2 * M * N * K,
    )
    print(f"\\n{groups} groups of {min(counts)} to {max(counts)} rows, N = {N}, K = {K}, in bf16")
    result.show()
    return result


def main():
    good = True
    for counts, slab, options in [
        ((3, 0, 257, 40), None, {"tile": (128, 128)}),
        ((5, 0, 130), 200, {"tile": (128, 64), "cluster": (2, 1), "layout": "masked", "sms": 4}),
        ((70, 0, 130), None, {"tile": (128, 64), "a_type": e4m3, "scales_major": "M", "sms": 4}),
    ]:
        N, K = 136, 272
        kernel = build_grouped_gemm(len(counts), N, K, **options)
        kinds = {name: options[name] for name in ("a_type", "scales_major") if name in options}
        given = make_inputs(counts, N, K, slab=slab, **kinds)
        report, error = simulated(kernel, given, scales_major=options.get("scales_major"))
        assembly = kernel.assemble(M=1024)
        right = report.verdict == "clean" and report.holds == "every schedule" and error <= 1
        right &= not (assembly.spills or assembly.warnings or assembly.notes)
        good &= right
        print(f"rows {counts} {options}: error/bound {error:.4f}, {'ok' if right else report}")
    torch, why = harness.hopper()
    if torch is None:
        print(f"The kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    else:
        measure(torch, [1024] * 8, 4096, 4096)
        measure(torch, [17, 3000, 0, 900, 1, 2500, 1000, 774], 4096, 4096)
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
