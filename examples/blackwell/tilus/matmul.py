"""The rest of the Tilus ladder, one builder: ``C[M, N] = A[M, K] @ B[N, K].T``, f16 in and out.

What each version adds to the one before is an option of ``build_matmul``:

====  =============================================  ====================================================
V2    ``stages``                                     a ring of slices: loads run ahead of the products
V3    ``roles=True``                                 one warp loads, another multiplies
V4    ``swizzle_size``                               tiles in bands of so many columns: operands stay in L2
V5    ``persistent=True``, ``mma_stages=2``          a CTA takes tile after tile (cluster launch control),
                                                     and stores one tile while it multiplies the next
V6    ``ctas=2``                                     a pair of CTAs multiplies 256 rows and loads B once
====  =============================================  ====================================================

The warps of a CTA::

    0     one lane    wait empty[s] -> expect bytes on full[s] -> TMA A, TMA B
    1     one lane    wait full[s] -> block_k / 16 x tcgen05.mma -> commit to empty[s]
    2     one lane    requests the next tile                                       (from V5 on)
    3                 allocates tensor memory and frees it
    4-7               tensor memory -> registers -> f16 -> staging tile -> TMA -> C, strip by strip

In V2 the lane of warp 0 also multiplies.  The published V2 loads ``stages - 1`` slices past K, which nothing
waits for: the CTA may exit while TMA still writes into its shared memory.  Here the loads end with K, and
``drain`` waits for the last commits.

Run it: ``python examples/blackwell/tilus/matmul.py``.  On a Blackwell GPU it tunes, launches, verifies and
measures V2 to V6; elsewhere it assembles each version and verifies it in the simulator.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import tilus_harness as harness

import pyptx
from pyptx import Layout, SpecError, Tile, f16, kernel, kit, ptx, reg, smem, u16

ROWS = 128  # rows of C in a CTA: the lanes of tensor memory
EPILOGUE_GROUP, EPILOGUE_WARPS = 1, 4  # the second warpgroup
BOTH_CTAS = 0b11
#: Elements of f16 in a row of shared memory -> the layout whose swizzle is as wide as the row.
LAYOUTS = {16: Layout.TMA_32B, 32: Layout.TMA_64B, 64: Layout.TMA_128B}


def check(N, K, block_m, block_n, ctas, stages, roles, swizzle_size, persistent, in_flight):
    """Raise an error for sizes and options that do not go together."""
    for name, size in (("N", N), ("K", K)):
        if size <= 0 or size % 8:
            raise SpecError(
                f"{name} = {size}: expected a positive multiple of 8, rows of 16 bytes for TMA",
                hint=f"pad {name} to {max(1, -(-size // 8)) * 8}, or use matmul_v0, which takes any {name}",
            )
    if ctas not in (1, 2) or block_m != ROWS * ctas:
        raise SpecError(
            f"block_m = {block_m} and ctas = {ctas}: expected {ROWS} rows for each of 1 or 2 CTAs"
        )
    if stages < 2:
        raise SpecError(f"stages = {stages}: expected 2 or more; matmul_v1 has one")
    if not roles and (swizzle_size is not None or persistent or ctas == 2):
        raise SpecError("swizzle_size, persistent and ctas=2 build on roles=True")
    if in_flight not in (1, 2) or (roles and in_flight != 2):
        raise SpecError(f"in_flight = {in_flight}: expected 2, or 1 with roles=False")
    if swizzle_size is None and (persistent or ctas == 2):
        raise SpecError("persistent and ctas=2 build on swizzle_size: tiles need one number each")


class OneTile:
    """The tile of a CTA that computes only one, with the interface of ``kit.LaunchControlTiles``."""

    def __init__(self, number):
        self.number = number

    def loop(self, leader=None):
        return contextlib.nullcontext(self.number)


def build_matmul(
    N,
    K,
    *,
    block_m=128,
    block_n=256,
    block_k=64,
    e_block_n=16,
    stages=4,
    roles=True,
    swizzle_size=None,
    persistent=False,
    mma_stages=1,
    ctas=1,
    in_flight=2,
    arch="sm_100a",
):
    """Build the kernel for one N and K; call it with A[M, K] and B[N, K] in f16, and ``out=`` C[M, N].

    Args:
        N, K: columns of C, and length of the sums; multiples of 8. M is a run-time size.
        block_m, block_n, block_k: the tile of C (of the pair), and the slice of K.
        e_block_n: columns of C that the epilogue stores at a time: 16, 32 or 64.
        stages: slices in shared memory, 2 or more.
        roles: False lets one thread load and multiply.
        swizzle_size: width in tiles of a band of C; None takes the tile from ``%ctaid.x`` and ``.y``.
        persistent: True lets a CTA cancel CTAs that have not started and take their tiles.
        mma_stages: number of accumulators in tensor memory.
        ctas: 2 for pairs of CTAs.
        in_flight: without roles, products that may run at a time: 1 waits for each, as the published V2 does.
        arch: a target that has tcgen05.
    """
    check(N, K, block_m, block_n, ctas, stages, roles, swizzle_size, persistent, in_flight)
    operand, staged = LAYOUTS[block_k], LAYOUTS[e_block_n]
    b_rows = block_n // ctas  # rows of B that each CTA loads
    tiles_n = kit.tile_order.cdiv(N, block_n)

    def grid(M):
        tiles_m = kit.tile_order.cdiv(M, block_m)
        return (tiles_m, tiles_n) if swizzle_size is None else (ctas * tiles_m * tiles_n,)

    @kernel(
        in_specs=(
            Tile("M", K, f16, operand, tma_box=(ROWS, block_k)),
            Tile(N, K, f16, operand, tma_box=(b_rows, block_k)),
        ),
        out_specs=(Tile("M", N, f16, staged, tma_box=(32, e_block_n)),),
        grid=grid,
        block=32 * 2 * EPILOGUE_WARPS,
        cluster=(ctas, 1, 1),
        arch=arch,
        extern_smem=True,
    )
    def matmul(A, B, C):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        rank = ptx.cluster.rank() if ctas == 2 else None
        number = ptx.special.clusterid.x() if ctas == 2 else ptx.special.ctaid.x()
        tiles_m = kit.tile_order.num_tiles(C, 0, (block_m, block_n))

        s_a = smem.alloc((ROWS, block_k), f16, swizzle=operand.swizzle, stages=stages)
        s_b = smem.alloc((b_rows, block_k), f16, swizzle=operand.swizzle, stages=stages)
        s_c = smem.alloc((ROWS, e_block_n), f16, swizzle=staged.swizzle, stages=2)
        ring = kit.Ring(stages)
        accumulators = kit.Accumulators(mma_stages, block_n, readers=EPILOGUE_WARPS, cta_group=ctas)
        if persistent:
            # Readers: the lanes that load, the lane that multiplies, and the warps of the epilogues.
            readers = ctas + 1 + ctas * EPILOGUE_WARPS
            tiles = kit.LaunchControlTiles(first=number, readers=readers, cluster=ctas)
        else:
            tiles = OneTile(number)

        def place(tile):
            """Return the first row and column of this CTA's part of a tile."""
            if swizzle_size is None:
                row, column = ptx.special.ctaid.x(), ptx.special.ctaid.y()
            else:
                # Bands of columns: the order of bands of rows, with rows and columns exchanged.
                column, row = kit.tile_order.grouped(tile, tiles_n, tiles_m, swizzle_size)
            m_base = row * block_m
            return m_base if rank is None else m_base + rank * ROWS, column * block_n

        with kit.single_thread(warp, 0):
            ring.init()
            accumulators.init()
            if persistent:
                tiles.init()
            ptx.fence.mbarrier_init()
        with kit.single_warp(warp, 3):
            accumulators.alloc()
        synchronize = ptx.cluster.sync if ctas == 2 else lambda: ptx.bar.sync(0)
        ptx.tcgen05.fence_before_thread_sync()
        synchronize()
        ptx.tcgen05.fence_after_thread_sync()
        t_acc = accumulators.base()
        both = reg.scalar(u16, init=BOTH_CTAS) if ctas == 2 else None
        stage_bytes = s_a.nbytes + s_b.nbytes

        def in_leader():
            """Open a block for the even CTA of a pair."""
            return contextlib.nullcontext() if rank is None else ptx.if_(rank == 0)

        # --- what the two roles do for one slice of K ----------------------------------------------
        def load(producer, k, m_base, n_base):
            slot = producer.acquire()
            if ctas == 1:
                to = {"mbar": slot.full}
                ptx.mbarrier.arrive_expect_tx(slot.full, stage_bytes)
            else:
                # The copies of both CTAs signal the barrier of the even CTA, whose lane multiplies.
                to = {"mbar": slot.leader_full(), "cta_group": 2}
                with ptx.if_(rank == 0):
                    ptx.mbarrier.arrive_expect_tx(slot.full, 2 * stage_bytes)
            b_base = n_base if rank is None else n_base + rank * b_rows
            ptx.cp.async_.bulk.tensor_2d(dst=s_a[slot.index], src=A.tma_desc(), coord=(k, m_base), **to)
            ptx.cp.async_.bulk.tensor_2d(dst=s_b[slot.index], src=B.tma_desc(), coord=(k, b_base), **to)
            producer.advance()

        def multiply_slice(multiply, consumer, acc, k):
            slot = consumer.acquire()
            ptx.tcgen05.fence_after_thread_sync()
            multiply(acc.tmem, slot.index, accumulate=k != 0)
            ptx.tcgen05.commit(slot.empty, multicast=both, cta_group=ctas)
            consumer.advance()

        def products():
            return kit.StageMultiply(s_a, s_b, m=block_m, n=block_n, k=block_k, cta_group=ctas)

        if not roles:
            # --- V2: one lane loads and multiplies ---------------------------------------------
            in_advance = (stages + 1 - in_flight) * block_k  # elements of K
            with kit.single_thread(warp, 0):
                multiply, producer, consumer = products(), ring.producer(), ring.consumer()
                writer = accumulators.writer(t_acc)
                corner = place(number)
                for ahead in range(0, min(K, in_advance), block_k):
                    load(producer, ahead, *corner)
                acc = writer.acquire()
                with ptx.for_(0, K, block_k) as k:
                    multiply_slice(multiply, consumer, acc, k)
                    # The next stage to fill is that of these products, or of those before, which may run.
                    ahead = k + in_advance
                    with ptx.if_(ahead < K):
                        load(producer, ahead, *corner)
                writer.commit(both)
                producer.drain()
                writer.drain()
        else:
            # --- V3: a lane that loads, in each CTA -------------------------------------------------
            with kit.single_thread(warp, 0):
                producer = ring.producer()
                with tiles.loop() as tile:
                    corner = place(tile)
                    with ptx.for_(0, K, block_k) as k:
                        load(producer, k, *corner)
                # The CTA, with its barriers, may exit only after the last commits have arrived.
                producer.drain()

            # --- and a lane that multiplies, in the even CTA ------------------------------------------
            with in_leader(), kit.single_thread(warp, 1):
                multiply, consumer, writer = products(), ring.consumer(), accumulators.writer(t_acc)
                with tiles.loop():
                    acc = writer.acquire()
                    with ptx.for_(0, K, block_k) as k:
                        multiply_slice(multiply, consumer, acc, k)
                    writer.commit(both)
                writer.drain()

        if persistent:
            with in_leader(), kit.single_thread(warp, 2):
                tiles.schedule()

        # --- epilogue: four warps store 32 rows each ----------------------------------------------
        with kit.warp_group(warp, EPILOGUE_GROUP):
            first = (warp & 3) * 32  # a warp reaches the 32 lanes of its number modulo 4
            leader = ptx.warp.elect()
            reader = accumulators.reader(t_acc + (first << 16))  # the lane is in the address's upper half
            with tiles.loop(leader) as tile:
                m_base, n_base = place(tile)
                acc = reader.acquire()
                kit.tcgen05_epilogue.through_shared(
                    acc.tmem,
                    s_c,
                    C.tma_desc(),
                    (n_base, m_base + first),
                    block_n,
                    first=first,
                    leader=leader,
                    drain=not persistent,
                    read=lambda columns: reader.release(leader, columns),
                )
                reader.advance()
            if persistent:
                kit.tcgen05_epilogue.settle(leader)

        # --- teardown ------------------------------------------------------------------------
        # Neither CTA of a pair frees tensor memory or exits while the other still uses it.
        ptx.tcgen05.fence_before_thread_sync()
        synchronize()
        with kit.single_warp(warp, 3):
            ptx.tcgen05.fence_after_thread_sync()
            accumulators.dealloc(t_acc)
        ptx.ret()

    return matmul


# --- the versions, each with the space that its text tunes over ---------------------------------------

STRIPS = ("block_m, block_n, e_block_n", [[128, 64, 16], [128, 128, 16], [128, 256, 16]])
SLICES = ("block_k", [16, 32, 64])
STAGES = ("stages", [2, 3, 4])
#: Version -> fixed options, and the names and rows that are tuned.
VERSIONS = {
    "v2": ({"roles": False}, [STRIPS, SLICES, STAGES]),
    "v3": ({}, [STRIPS, SLICES, STAGES]),
    "v4": ({}, [STRIPS, SLICES, STAGES, ("swizzle_size", [1, 4, 8])]),
    "v5": (
        {"persistent": True},
        [
            ("block_m, block_n, e_block_n", [[128, 128, 16], [128, 256, 16]]),
            ("block_k", [32, 64]),
            ("stages", [3, 4, 5]),
            ("mma_stages", [1, 2]),
            ("swizzle_size", [4, 8]),
        ],
    ),
    "v6": (
        {"persistent": True, "ctas": 2, "mma_stages": 2},
        [
            ("block_m, block_n, e_block_n", [[256, 256, 16], [256, 256, 32]]),
            ("block_k", [64]),
            ("stages", [5, 6]),
            ("swizzle_size", [4, 8, 16]),
        ],
    ),
}
#: What the program verifies of each version in the simulator: sizes, and a configuration that is quick
#: there.
QUICK = {"block_n": 128, "block_k": 32, "e_block_n": 16, "stages": 3}
CHOSEN = {
    "v2": QUICK | {"block_m": 128},
    "v3": QUICK | {"block_m": 128},
    "v4": QUICK | {"block_m": 128, "swizzle_size": 4},
    "v5": QUICK | {"block_m": 128, "swizzle_size": 4, "mma_stages": 2},
    "v6": QUICK | {"block_m": 256, "swizzle_size": 4},
}
SHAPE = (300, 264, 136)


def tuned(version):
    """Return the builder of a version, tuned over its space."""
    fixed, space = VERSIONS[version]

    def build_version(N, K, *, arch="sm_100a", **chosen):
        return build_matmul(N, K, arch=arch, **fixed, **chosen)

    build_version.__name__ = f"build_matmul_{version}"
    for names, rows in reversed(space):
        build_version = pyptx.autotune(names, rows)(build_version)
    return build_version


def main(bench=True):
    torch, why = harness.blackwell()
    if torch is not None:
        for version in VERSIONS:
            harness.tabulate(torch, tuned(version), f"matmul_{version}", [(8192, 8192, 8192)], bench)
        return
    good = True
    for version, chosen in CHOSEN.items():
        print(version)
        # From V5 on the hardware chooses which CTAs are canceled. Nine CTAs have too many cases to run all.
        schedules = ("eager", "late", "random") if version in ("v5", "v6") else ("eager",)
        good &= harness.verify(tuned(version), [SHAPE], [chosen], schedules)
    print(f"\nThe kernels were not launched on a GPU: {why}. The simulator has run all versions.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


if __name__ == "__main__":
    main(bench=True)
    # pyptx.ncu_run(main, bench=False, kernel_regex="matmul|nvjet")
