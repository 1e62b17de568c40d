"""The complete Hopper GEMM: ``D = A @ B.T``, with the options that a library's GEMM has.

``gemm_highperf_hopper.py`` is the one to read first: the same roles and rules, for one tile and cluster.  A
CTA computes tiles of ``BM x BN``; the CTAs of a cluster, a grid of ``CM x CN``, compute a larger tile
together.  Each loads its share of its row's A and of its column's B, and multicasts it (here CM = CN = 2)::

                      BN: rank 0, 1     BN: rank 2, 3        stage s of the ring, in each CTA
                     +----------------+----------------+      +---------+---------+---------+---------+
    BM: rank 0, 2    | warpgroup 1    |                |      | A share | A share | B share | B share |
                     | warpgroup 2    |                |      +---------+---------+---------+---------+
                     +----------------+----------------+        by ranks of its row, of its column
    BM: rank 1, 3    |                |                |      full[s]: all bytes have come, from 3 CTAs
                     |                |                |      empty[s]: 3 CTAs have read what this one loads
                     +----------------+----------------+

    warpgroup 0, one lane    for each tile and stage: wait empty -> expect bytes on full -> TMA A, TMA B
    the other warpgroups     wait full -> wgmma -> wait for the products of the stage before -> free it

``consumers="cooperative"``: the warpgroups share a tile, each has its rows.  ``"pingpong"``: each of two
warpgroups has a tile of its own, every other tile of the cluster; one stores while the other multiplies::

    warpgroup 1   | products of tile 0 | epilogue 0         | products of tile 2 | epilogue 2 ...
    warpgroup 2                        | products of tile 1 | epilogue 1         | products of tile 3 ...
                                       ^ barrier 2          ^ barrier 1          ^ barrier 2

``deferred=True``: cooperative warpgroups hide the epilogue as well. They round a tile's sums into half as
many registers, start the first products of the next tile, and store while the tensor cores work.

The rules that make it correct, besides those of the first one:

* With ping-pong a warpgroup begins to wait for stages only after the other one has waited for all of its own.
  A wait looks at the parity of a phase alone: it would pass two phases too early.
* A stage is freed by warps of all CTAs into which its loads were multicast, at each CTA that loads for them.
* With ``split`` the cluster's CTAs multiply parts of K. They exchange their sums through shared memory
  (``kit.ClusterSum``), between two cluster barriers: the first says that all have written, the second that
  all have read.
* TMA fills what is outside of A and B with zeros, which add nothing, and drops what is outside of D.

Order of sums: within a CTA the tensor core adds the steps of K (32 bytes each) in order to one f32
accumulator; with ``split`` the parts are added in order, each sum rounded to f32. So equal inputs give equal
bits. NaN, infinities and subnormals behave as in IEEE; f32 inputs are multiplied as tf32 (their low 13 bits
are not read).

``python examples/hopper/gemm.py`` assembles and simulates it anywhere, and measures it on a Hopper GPU.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path

from pyptx import SpecError, Tile, bf16, f32, kernel, kit, ptx, reg, smem, u32

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_harness as harness
from gemm_options import (
    BOXES,
    MULTIPLIED,
    REGISTERS,
    ROWS,
    STREAMED_ROWS,
    check,
    plan,
    policies,
    usable_sms,
    with_arguments,
)
from gemm_widths import NARROW, WIDE, check_narrow, widths_of


def build_gemm(
    M,
    N,
    K,
    *,
    a_type=bf16,
    b_type=None,
    out_type=bf16,
    a_major="K",
    b_major="K",
    batch=None,
    tile=(128, 256),
    cluster=(2, 1),
    consumers="cooperative",
    warpgroups=None,
    stages=None,
    staging=None,
    split=1,
    resident=1,
    deferred=False,
    widths=None,
    order=kit.tile_order.boustrophedon,
    sms=None,
    beta=None,
    scaled=False,
    epilogue=None,
    hints=None,
    dependent=False,
):
    """Build the kernel; call it with A[M, K], B[N, K] and what the options add, in the order below.

    Args:
        M, N, K: any sizes for which rows of A, B and D are multiples of 16 bytes. None for M: the kernel
            serves every M.
        a_type: type of A: bf16, f16, f32 (multiplied as tf32), e4m3 or e5m2.
        b_type: type of B, by default A's; e4m3 and e5m2 can be mixed.
        out_type: type of D (and C): f32, bf16 or f16.
        a_major, b_major: ``"MN"`` for A[K, M] and B[K, N], in 16-bit types.
        batch: number of independent products, of A[batch, M, K], B[batch, N, K] and D[batch, M, N].
        tile: rows and columns of D that a CTA computes at a time.
        cluster: CTAs of a cluster along M and along N, powers of two. Those in a row share A, those in a
            column B.
        consumers: ``"cooperative"`` or ``"pingpong"``.
        warpgroups: number of consumer warpgroups; default: 1 to 3, as the tile's rows need.
        stages, staging: depth of the ring and of D's staging; default: what fits (``gemm_options.plan``).
        split: number of CTAs, a cluster, that multiply parts of K of one tile. It replaces ``cluster``.
        resident: CTAs that share an SM, each with one consumer warpgroup.
        deferred: store a tile while the first products of the next one run: its sums wait in registers,
            rounded. For cooperative consumers and 16-bit types of D, without split, beta and epilogue.
        widths: None, or ``(narrow, below, leading)``: tiles of two widths, so that clusters have equally much
            to do (``gemm_widths``, whose ``balanced`` finds them). The last ``below`` rows of tiles have
            ``leading`` tiles of the usual width, and then ones of ``narrow`` columns (of clusters, whose CTAs
            all have narrow ones). For 16-bit types of D, without batch, split, beta and epilogue.
        order: a function of ``pyptx.kit.tile_order`` that decides which tile a cluster computes next.
        sms: number of SMs to use; default: those that clusters of this size fill at the same time.
        beta: a number: the kernel has an argument C[M, N] of D's type, and adds ``beta * C``.
        scaled: the kernel has two arguments of one f32 each, factors of A and of B.
        epilogue: an :class:`gemm_options.Epilogue`, applied after all these.
        hints: L2 policies of ``"A"``, ``"B"``, ``"D"``, such as ``{"B": "evict_last", "D": "evict_first"}``;
            True keeps A and B and lets go of D. Default: with one row of tiles, up to 128 rows, A stays
            and B, which is read once, goes first (``gemm_options.STREAM``); otherwise, and with False, none.
        dependent: overlap this launch with the end of the previous one in its stream; the kernel waits for
            that one before it reads or writes global memory.

    Raises:
        SpecError: an option out of range, or a combination that the hardware or this kernel does not have.
    """
    b_type = a_type if b_type is None else b_type
    if split > 1:
        cluster = (1, 1)
    check(locals())
    pingpong = consumers == "pingpong"
    BM, BN = tile
    BK, warpgroups, blocks, span, stages, staging = plan(
        a_type,
        out_type,
        tile,
        pingpong=pingpong,
        warpgroups=warpgroups,
        stages=stages,
        staging=staging,
        split=split,
        deferred=deferred,
        resident=resident,
    )
    operands = kit.SharedOperands(
        kit.ClusterGrid(*cluster),
        tile,
        a_type,
        b_type,
        a_major=a_major,
        b_major=b_major,
        batch=batch is not None,
    )
    CM, CN = cluster
    ctas = split if split > 1 else CM * CN
    clusters = (usable_sms(ctas) if sms is None else sms) * resident // ctas
    tiles_n = -(-N // (BN * CN))
    if widths is not None:
        narrow = widths[0]
        widths = widths_of(N, -(-M // (BM * CM)), BN, widths, CN)
    k_blocks = -(-K // BK)
    part, longer = divmod(k_blocks, split)  # stages of a part; the first parts have one more
    if part == 0:
        raise SpecError(f"split = {split}: K = {K} has only {k_blocks} stages, and some part would be empty")
    rows = "M" if M is None else M
    front = () if batch is None else (batch,)
    chunk = span // out_type.nbytes
    if widths is not None:
        check_narrow(narrow, BN, chunk)
    box = (*(1 for _ in front), kit.wgmma_epilogue.ROWS, chunk)
    stored = Tile(*front, rows, N, out_type, BOXES[span], tma_box=box)
    warps = 4 * warpgroups
    packs = deferred or widths is not None  # sums are rounded before they are stored

    kept = policies(hints, streamed=M is not None and min(BM * CM, STREAMED_ROWS) >= M)
    addends = () if beta is None else ("C",)
    factors = ("scale_A", "scale_B") if scaled else ()
    inputs = () if epilogue is None else [f"input_{i}" for i in range(len(epilogue.inputs))]

    def grid(M=M):
        tiles = -(-M // (BM * CM)) * tiles_n * (batch or 1) if widths is None else widths.tiles
        return (ctas * (tiles if split > 1 else min(clusters, tiles)), 1, 1)

    @kernel(
        in_specs=(
            operands.a.spec(rows, K, batch),
            operands.b.spec(N, K, batch),
            *(() if beta is None else (stored,)),
            *((Tile(1, f32), Tile(1, f32)) if scaled else ()),
            *(() if epilogue is None else epilogue.inputs),
        ),
        out_specs=(stored,),
        grid=grid if M is None else grid(),
        block=(128 * (1 + warpgroups), 1, 1),
        cluster=(ctas, 1, 1),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=resident,  # without this option ptxas ignores setmaxnreg
        dependent=dependent,
    )
    @with_arguments("A", "B", *addends, *factors, *inputs, "D")
    def gemm(A, B, *others):
        others, D = others[:-1], others[-1]
        C = others[0] if addends else None
        scales = others[len(addends) : len(addends) + len(factors)]
        further = others[len(addends) + len(factors) :]
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        warpgroup = warp >> 2
        rank = ptx.cluster.rank()
        row, column = operands.grid.place(rank) if split == 1 else (0, 0)
        tiles_m = kit.tile_order.cdiv(D.extent(len(front)), BM * CM)
        tiles_mn = tiles_m * tiles_n
        tiles = tiles_mn * (batch or 1) if widths is None else widths.tiles
        cluster_id = ptx.special.clusterid.x()

        tile_a, tile_b = operands.stages(stages)
        staged = smem.alloc(
            (kit.wgmma_epilogue.ROWS * warps, chunk), out_type, swizzle=f"{span}B", stages=staging
        )
        # full expects one arrive.expect_tx of this CTA; empty expects each warp that reads what it loads.
        readers = warps // 2 if pingpong else warps
        ring = kit.Ring(stages, consumers=readers * operands.grid.readers)
        addend = None if beta is None else kit.Addend(staged, beta=beta, warps=warps)
        total = kit.ClusterSum(parts=split, columns=BN, blocks=BM // ROWS) if split > 1 else None

        def each_tile(first=cluster_id, step=clusters):
            """Open the loop over tiles; with ``split`` a cluster has one."""
            if split > 1:
                return contextlib.nullcontext(first)
            return kit.StaticTiles(tiles, first=first, step=step).loop()

        def place(tile):
            """Return the first row and column of this CTA's part of a tile, and the matrix."""
            if widths is not None:
                tile_m, first, _ = widths.place(tile, order)
                if CN > 1:
                    own = reg.scalar(u32)
                    ptx.inst.selp.b32(own, narrow, BN, tile >= widths.wide_tiles)
                    first += own * column
                return (tile_m * CM + row) * BM, first, None
            matrix, within = (None, tile) if batch is None else kit.fast_divmod(tile, tiles_mn, limit=2**31)
            tile_m, tile_n = order(within, tiles_m, tiles_n)
            return (tile_m * CM + row) * BM, (tile_n * CN + column) * BN, matrix

        def part_of_k():
            """Return the bounds of K between which this CTA multiplies."""
            if split == 1:
                return 0, K
            first, last = (
                (number * part + ptx.min(number, longer)) * BK if longer else number * (part * BK)
                for number in (rank, rank + 1)
            )
            return first, last

        with kit.single_thread(warp, 0):
            ring.init()
            if addend is not None:
                addend.init()
            ptx.fence.mbarrier_init()
        # All CTAs initialize their barriers before any CTA signals a barrier of another.
        meet = ptx.cluster.sync if ctas > 1 else functools.partial(ptx.bar.sync, 0)
        meet()

        # --- producer: one lane of warpgroup 0 -----------------------------------------------
        with ptx.if_(warpgroup == 0):
            if warpgroups in REGISTERS:
                ptx.setmaxnreg.dec(REGISTERS[warpgroups][0])
            with kit.single_thread(warp, 0):
                for tensor in (A, B, D):
                    ptx.tensormap.prefetch(tensor.tma_desc())
                if dependent:
                    # All that came before overlaps with the previous launch, whose results are A and B.
                    ptx.griddepcontrol.wait()
                keep_a, keep_b = (kept.get(name) and ptx.cache.policy(kept[name]) for name in "AB")
                producer = ring.producer()
                operands.join(rank)
                with each_tile() as tile:
                    m_base, n_base, matrix = place(tile)
                    first_k, last_k = part_of_k()
                    with ptx.for_(first_k, last_k, BK) as k:
                        slot = producer.acquire()
                        operands.load(
                            slot,
                            A,
                            B,
                            row=m_base,
                            column=n_base,
                            k=k,
                            batch=matrix,
                            cache_hint=keep_a,
                            b_cache_hint=keep_b,
                        )
                        producer.advance()
                if dependent:
                    ptx.griddepcontrol.launch_dependents()
            if split > 1:
                ptx.cluster.sync()  # the consumers' barrier between writing and reading their sums

        # --- consumers -------------------------------------------------------------------------
        with ptx.else_():
            if warpgroups in REGISTERS:
                ptx.setmaxnreg.inc(REGISTERS[warpgroups][1])
            group = warpgroup - 1
            leader = ptx.warp.elect()
            operands.hand_back_as(rank, leader)
            first_row = 0 if pingpong else group * (ROWS * blocks)
            stream = kept.get("D") and ptx.cache.policy(kept["D"])
            if dependent and (addends or factors or inputs):
                ptx.griddepcontrol.wait()
            products = [
                (
                    kit.WgmmaMultiply(
                        tile_a,
                        tile_b,
                        n=columns,
                        k=BK,
                        dtype=MULTIPLIED[a_type],
                        b_type=MULTIPLIED[b_type],
                        first=first_row,
                        blocks=blocks,
                        a_major=a_major,
                        b_major=b_major,
                    ),
                    [ptx.wgmma.accumulator(n=columns, name=f"{name}{block}_") for block in range(blocks)],
                )
                for name, columns in (("acc", BN), *(() if widths is None else (("narrow", narrow),)))
            ]
            accs = products[0][1]
            consumer = ring.consumer()
            read = ring.consumer()  # one stage behind the other: the stage whose products have completed
            if scales:
                scale = reg.scalar(f32)
                both = [reg.scalar(f32) for _ in scales]
                for factor, array in zip(both, scales, strict=True):
                    ptx.inst.ld.global_.f32(factor, array.at(0))
                ptx.inst.mul.f32(scale, *both)
            if addend is not None:
                addend.begin(C.tma_desc(), warp=warp - 4, leader=leader)
            apply = None
            if epilogue is not None:

                def apply(values, row, column):
                    epilogue.apply(values, row, column, *further)

            def scaled_sums(acc):
                """Multiply an accumulator by the scales, if there are any."""
                for value in acc if scales else ():
                    ptx.inst.mul.f32(value, value, scale)
                return acc

            def store(coord, acc, block):
                """Record the epilogue of one accumulator."""
                if addend is not None and (block or split > 1):
                    addend.prefetch(coord)
                kit.wgmma_epilogue.through_shared(
                    acc,
                    staged,
                    D.tma_desc(),
                    coord,
                    warp=warp - 4,
                    leader=leader,
                    apply=apply,
                    addend=addend,
                    cache_hint=stream,
                    fewer=None if widths is None else (held_kind == NARROW, narrow),
                )

            def store_all(coord, sums):
                """Record the epilogues of a tile's accumulators, one below the other."""
                column, first, *matrix = coord
                for block, acc in enumerate(sums):
                    store((column, first + block * ROWS if block else first, *matrix), acc, block)

            if packs:
                held = [kit.wgmma_epilogue.Packed(BN, out_type) for _ in accs]
                held_kind = reg.scalar(u32, init=0)  # 0: there is none
            if deferred:
                held_at = [reg.scalar(u32) for _ in range(2 if batch is None else 3)]

            def store_held():
                """Store the tile that waits, if there is one."""
                with ptx.if_(held_kind != 0):
                    store_all(held_at, held)

            def multiply_all(multiply, accs, tile, first_k, last_k):
                """Multiply a tile; meanwhile store the one before, if that was deferred."""

                def start(accumulate):
                    """Start the products of a stage."""
                    slot = consumer.acquire()
                    multiply(accs, slot.index, accumulate)
                    ptx.wgmma.commit_group()
                    consumer.advance()

                start(accumulate=False)
                if deferred:
                    if k_blocks > 1:
                        start(accumulate=True)
                    store_held()
                    if k_blocks > 1:
                        ptx.wgmma.wait_group(1)
                        operands.hand_back(read)
                with ptx.for_(first_k + (2 if deferred and k_blocks > 1 else 1) * BK, last_k, BK):
                    start(accumulate=True)
                    ptx.wgmma.wait_group(1)
                    operands.hand_back(read)
                if pingpong:
                    # The other warpgroup may begin, if the cluster has one more tile.
                    ptx.bar.arrive(other_turn, 256, pred=tile + clusters < tiles)
                ptx.wgmma.wait_group(0)
                operands.hand_back(read)

            def pack(accs, kind):
                """Round a tile's sums into the registers in which they wait."""
                for packed, acc in zip(held, accs, strict=True):
                    packed.take(scaled_sums(acc))
                held_kind.set(kind)

            mine = {}
            if pingpong:
                # Warpgroup 2 begins with the cluster's second tile, and lets warpgroup 1 begin.
                with ptx.if_(group == 1):
                    consumer.skip(k_blocks)
                    read.skip(k_blocks)
                    ptx.bar.arrive(1, 256)
                own_turn, other_turn = group + 1, 2 - group
                mine = {"first": cluster_id + group * clusters, "step": 2 * clusters}
            with each_tile(**mine) as tile:
                m_base, n_base, matrix = place(tile)
                first_k, last_k = part_of_k()
                corner = (n_base, m_base + first_row, *(() if matrix is None else (matrix,)))
                if addend is not None and split == 1:
                    addend.prefetch(corner)
                if pingpong:
                    ptx.bar.sync(own_turn, 256)
                if widths is None:
                    multiply_all(*products[0], tile, first_k, last_k)
                    if packs:
                        pack(accs, WIDE)
                else:
                    with ptx.if_(tile >= widths.wide_tiles):
                        multiply_all(*products[1], tile, first_k, last_k)
                        pack(products[1][1], NARROW)
                    with ptx.else_():
                        multiply_all(*products[0], tile, first_k, last_k)
                        pack(accs, WIDE)

                if deferred:
                    for value, place_of in zip(held_at, corner, strict=True):
                        ptx.inst.mov.u32(value, place_of)
                elif total is not None:
                    thread = ptx.special.tid.x() & 127
                    for block, acc in enumerate(accs):
                        total.put(acc, group * blocks + block, thread)
                    ptx.cluster.sync()
                    own = (total.take(rank, group * blocks + block, thread) for block in range(blocks))
                    store_all((n_base + rank * (BN // split), *corner[1:]), map(scaled_sums, own))
                else:
                    store_all(corner, held if packs else map(scaled_sums, accs))
                if pingpong:
                    consumer.skip(k_blocks)
                    read.skip(k_blocks)
            if deferred:
                store_all(held_at, held)
            kit.wgmma_epilogue.settle(leader)

        # --- teardown: no CTA exits while another may still signal it or read from it -------------
        if ctas > 1:
            ptx.cluster.sync()
        ptx.ret()

    return gemm


def main():
    good = harness.verify(
        build_gemm,
        [
            # M, N, K and options: no extent is a multiple of its tile; more stages of K than the ring has.
            ((200, 264, 136), {}),
            ((264, 520, 392), {"consumers": "pingpong", "tile": (64, 128), "sms": 4}),
            ((200, 520, 72), {"cluster": (2, 2), "tile": (128, 128), "out_type": f32}),
            ((136, 264, 392), {"cluster": (1, 2), "tile": (256, 128)}),
            ((136, 136, 520), {"split": 4, "tile": (128, 128)}),
        ],
    )
    torch, why = harness.hopper()
    if torch is None:
        print(f"\nThe kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    else:
        good &= harness.compare(torch, build_gemm, [((200, 264, 136), {}), ((512, 768, 1024), {})])
        for size in (4096, 6144, 8192):
            harness.measure(torch, build_gemm, (size, size, size))
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main()
