"""A Hopper GEMM on fp8 with scales of blocks: ``D = sum_k sa[m, k] * sb[n / 128, k] * (A_k @ B_k.T)``.

A has one scale for each 128 elements of a row (1 x 128), B one for each block of 128 x 128.  The tensor
core sums e4m3 or e5m2 with about 13 bits below the largest addend, so a sum over a long K would lose much.
Here it sums 128 of K; then the warpgroup's threads multiply that sum by both scales and add it to a second
set of registers in f32.  The two consumer warpgroups overlap: one adds while the other's products run::

    warpgroup 1   | wgmma, K block 0 | scale, add | wgmma, K block 1 | scale, add | ...
    warpgroup 2          | wgmma, K block 0 | scale, add | wgmma, K block 1 | scale, add | ...
    tensor cores  | 1    | 1 and 2          | 2          | 1          ...

The roles, the ring and the clusters are those of ``gemm.py``.  A stage is 128 of K: one block of scales.
TMA loads its scales beside A and B, and each thread reads those of its rows from shared memory.  (A thread
that loads a scale from global memory one stage ahead waits for it: a stage is multiplied in 512 clocks.)
Scales whose rows TMA cannot load come from global memory all the same.

* A warpgroup has one accumulator of 64 rows.  With 256 rows it multiplies its two halves one after the other,
  so that a thread holds 64 sums of a block and 128 totals.  Such a tile reads 2/3 of the bytes of L2 for
  each product that a tile of 128 x 128 reads, and L2 is what bounds the latter.
* With 192 rows there are three consumer warpgroups: the products of two hide what the third one adds.
* With ``ahead`` a warpgroup has two accumulators, for its two halves or for every other block of K: the
  products of one are in flight while the sums of the other are added, whatever the other warpgroup does.
* The accumulator of a block is read after ``wgmma.wait_group(0)`` and overwritten by the next block's first
  product (``scale_d`` is 0), so nothing clears it.
* With ``split`` the cluster's CTAs have parts of the blocks of K of one tile, and exchange their totals as in
  ``gemm.py``: with few rows the blocks come one after another, and there are more SMs than tiles.
* A tile lies in at most two blocks of N.  If it lies in two, the thread takes the scale of each piece of
  columns that does not depend on where the tile begins: of 64 columns in a tile of 192.
* TMA fills what is outside of A and B with zeros.  Rows outside of A have the scale zero, or that of the last
  row: their numbers are not stored.

Order of sums: in a block the tensor core adds 32 of K after the other; then one fma in f32 for each block, in
the order of K; with ``split`` the parts' totals are added in order.  Equal inputs give equal bits.  Scales
that are infinite or NaN give what IEEE's fma gives.

``python examples/hopper/gemm_blockwise.py`` assembles and simulates it anywhere, and measures it on a Hopper
GPU.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import sys
from pathlib import Path

import numpy as np

from pyptx import SpecError, Tile, bf16, e4m3, e5m2, f32, kernel, kit, ptx, reg, smem, u32

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_harness as harness
from blockwise_choice import choose, fits_ahead, sets_of
from gemm_options import BOXES, OUTPUTS, REGISTERS, ROWS, STREAMED_ROWS, plan, policies, usable_sms

STAGGER = 1  # the named barrier with which the second warpgroup begins later
BLOCK = 128  # elements of K, and of N, that share a scale
UNROLLED = 8  # stages of a turn of the loop over K, at most
WHOLE = 12  # with ``ahead`` up to so many are one turn: it has no wait for all products in between
LARGEST = {e4m3: 448.0, e5m2: 57344.0}
#: Columns of a tile at most, by its rows: what the registers hold of two f32 for each number of D.
MOST_COLUMNS = {64: 192, 128: 192, 192: 128, 256: 128}


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

    def add(self, acc, total, block=0):
        """Add a block's sums to the totals."""
        for value, summand in zip(total, acc, strict=True):
            ptx.inst.add.f32(value, value, summand)

    def finish(self, totals):
        """Scale the totals."""
        for value in itertools.chain(*totals):
            ptx.inst.mul.f32(value, value, self.factor)


def in_shared(scales_in, scales_major, rows, k_blocks):
    """Return whether TMA loads the scales into the stages.

    Args:
        scales_in: ``"shared"``, ``"registers"`` or None: in shared memory if TMA can load them.
        scales_major: as for :func:`build_gemm_blockwise`.
        rows: rows of A in all, None if only a launch knows.
        k_blocks: blocks of K.

    Raises:
        SpecError: another choice, or scales that TMA cannot load.
    """
    if scales_in not in ("shared", "registers", None):
        raise SpecError(f"scales_in = {scales_in!r}: expected 'shared', 'registers' or None")
    # Rows of scales are multiples of 16 bytes.
    can = scales_major == "M" and k_blocks % 4 == 0 and (rows is None or rows % 4 == 0)
    if scales_in == "shared" and not can:
        raise SpecError(
            f"scales_in = 'shared' with scales_major = {scales_major!r}, {rows} rows and {k_blocks} blocks "
            "of K: TMA loads scales of A whose rows are adjacent, and numbers of rows and of blocks that are "
            "multiples of 4"
        )
    return can and scales_in != "registers" and (rows is not None or scales_in == "shared")


def check_promoted(tile):
    """Raise :class:`SpecError` for a tile whose sums and totals do not fit the registers."""
    BM, BN = tile
    if BM not in MOST_COLUMNS or not 8 <= BN <= MOST_COLUMNS[BM] or BLOCK + math.gcd(BN, BLOCK) < BN:
        raise SpecError(
            f"tile = {tile}: expected 64, 128, 192 or 256 rows, and columns that lie in at most two blocks "
            f"of {BLOCK}; a thread holds a sum and a total for each number of D, so that 256 x 128, "
            "192 x 128 and 128 x 192 are the largest"
        )


def check_stagger(warpgroups, k_blocks, stages):
    """Raise :class:`SpecError` where two warpgroups cannot be staggered."""
    if warpgroups != 2 or k_blocks < stages:
        raise SpecError(
            f"stagger with {warpgroups} consumer warpgroups, {k_blocks} blocks of K and {stages} stages: "
            "expected two warpgroups, and no fewer blocks than stages, so that a warpgroup is never two "
            "tiles ahead of the other"
        )


def check_ahead(tile, *, stagger, in_registers):
    """Raise :class:`SpecError` where products cannot run ahead of promotions."""
    if stagger or in_registers or not fits_ahead(tile):
        raise SpecError(
            f"ahead with tile = {tile}, stagger = {stagger}, scales in registers: {in_registers}: expected "
            "256 rows and at most 96 columns, 192 rows and at most 80 columns, or fewer rows and at most 128 "
            "columns, warpgroups that are not staggered, and scales that TMA loads"
        )


def check_split(split, k_blocks, *, stagger, ahead, in_registers):
    """Raise :class:`SpecError` where K cannot be split."""
    if type(split) is not int or not 1 < split <= 8 or split > k_blocks:
        raise SpecError(
            f"split = {split!r} of {k_blocks} blocks of K: expected at most 8, and no more than there are"
        )
    if stagger or ahead or in_registers:
        raise SpecError(
            f"split with stagger = {stagger}, ahead = {ahead}, scales in registers: {in_registers}: expected "
            "neither, since these begin at the first block of K"
        )


def stages_of_turn(k_blocks, most, whole=0):
    """Return the stages of a turn of the loop over K: a divisor of all if one is above 3, else ``most``.

    The wait for a stage is then hidden behind the promotion of the stage before, but for the first one of a
    turn.  Up to ``whole`` stages are one turn.
    """
    if k_blocks <= whole:
        return k_blocks
    most = min(most, k_blocks)
    return next((count for count in range(most, 3, -1) if k_blocks % count == 0), most)


class Promotion:
    """What a consumer warpgroup does in a tile: products of a block of K, then their sums to its totals.

    Args:
        operands: the ``kit.SharedOperands``.
        tiles: the stages of A and of B.
        scales: ``kit.BlockScales``, the reader of a ``kit.StagedScales``, or :class:`OneScale`.
        n: columns of the tile.
        blocks: blocks of 64 rows of the warpgroup.
        first: its first row in the tile.
        types: element types of A and B.
        second: None, or in two warpgroups that are staggered whether this is the second of them, in a
            register: its first products of a tile wait until the first one's have completed.
        ahead: whether there are two accumulators, of the two blocks or of every other block of K, so that one
            is added while the other's products run; :meth:`tile` then needs a second side of the ring.
    """

    def __init__(self, operands, tiles, scales, *, n, blocks, first, types, second=None, ahead=False):
        self.operands, self.scales = operands, scales
        self.first, self.second = first, second
        self.staged = isinstance(scales, kit.StagedScalesReader)
        # Scales in registers take some that eight unrolled stages need.
        self.unrolled = UNROLLED // 2 if isinstance(scales, kit.BlockScales) else UNROLLED
        self.products = [
            kit.WgmmaMultiply(
                *tiles, n=n, k=BLOCK, dtype=types[0], b_type=types[1], first=first + block * ROWS
            )
            for block in range(blocks)
        ]
        if second is not None:
            self.turn = reg.scalar(u32)
            ptx.inst.selp.b32(self.turn, 1, 0, second)
        #: The products of a turn of the loop take them one after the other.
        self.accs = [ptx.wgmma.accumulator(n=n, name=f"acc{i}_") for i in range(2 if ahead else 1)]
        self.ahead = ahead
        self.totals = [ptx.wgmma.accumulator(n=n, name=f"total{block}_") for block in range(blocks)]

    def tile(self, consumer, K, *, row, column, read=None, part=None, **others):
        """Record the loop over K of a tile, and return its totals.

        Args:
            consumer: the ring's side.
            K: length of the sums.
            row, column: first row and column of the tile.
            read: the side that hands stages back, with ``ahead``.
            part: bounds of K between which this CTA multiplies; default: all. Not with ``ahead``, a second
                warpgroup, or scales in registers.
            others: what else ``kit.BlockScales.begin`` needs.
        """
        if self.staged:
            self.scales.begin(self.totals, row=row, column=column)
        else:
            self.scales.begin(self.totals, row=row + self.first, column=column, **others)
        if self.ahead:
            self._turns(K, lambda k, count: self._overlapped(consumer, read, k, count))
            return self.totals
        if self.second is not None:
            with ptx.if_(self.second):
                ptx.bar.sync(STAGGER, 256)
        if part is not None:
            with ptx.for_(*part, BLOCK) as k:
                self._in_turn(consumer, k, 1, K)
            return self.totals
        self._turns(K, lambda k, count: self._in_turn(consumer, k, count, K))
        return self.totals

    def _turns(self, K, record):
        """Record the loop over K: ``record(k, count)`` records ``count`` stages from ``k`` on."""
        k_blocks = -(-K // BLOCK)
        count = stages_of_turn(k_blocks, self.unrolled, WHOLE if self.ahead else 0)
        whole = k_blocks // count * count
        with ptx.for_(0, whole * BLOCK, count * BLOCK) as k:
            record(k, count)
        if k_blocks > whole:
            record(whole * BLOCK, k_blocks - whole)

    def _in_turn(self, consumer, k, count, K):
        """Record stages from ``k`` on in which products, a wait and the promotion follow each other."""
        last = len(self.products) - 1
        for i in range(count):
            at = k + i * BLOCK if i else k
            slot = consumer.acquire()
            for block in range(last + 1):
                self._start(slot, block)
                if block == 0:
                    # While the tensor cores work: the scales are needed after the wait.
                    if self.staged:
                        self.scales.read(slot, at)
                    else:
                        self.scales.turn(more=at < (-(-K // BLOCK) - 1) * BLOCK)
                ptx.wgmma.wait_group(0)
                if block == 0 and i == 0 and self.second is not None:
                    ptx.bar.arrive(STAGGER, 256, pred=self.begins(k))
                if block == last:
                    self.operands.hand_back(consumer)
                self._add(block)
        if self.staged:
            self.scales.keep()

    def _overlapped(self, consumer, read, k, count):
        """Record stages from ``k`` on in which products are promoted while the next ones are in flight.

        They end with a wait for all: ptxas would serialize products that are in flight from one turn of the
        loop to the next.
        """
        last = len(self.products) - 1
        for i in range(count):
            slot = consumer.acquire()
            for block in range(last + 1):
                at = i * (last + 1) + block
                self._start(slot, block, at)
                if block == last and last:
                    self._read(slot, k, i)  # the stage before has been added
                if at:
                    ptx.wgmma.wait_group(1)
                    self._finish(read, at - 1)
                if block == last and not last:
                    self._read(slot, k, i)
            consumer.advance()
        ptx.wgmma.wait_group(0)
        self._finish(read, count * (last + 1) - 1)

    def _finish(self, read, at):
        """Add the sums of product ``at`` of a turn; hand its stage back if it is the last of the stage."""
        blocks = len(self.products)
        if at % blocks == blocks - 1:
            self.operands.hand_back(read)
        self._add(at % blocks, at)

    def _read(self, slot, k, i):
        if self.staged:
            self.scales.read(slot, k + i * BLOCK if i else k)

    def _start(self, slot, block, at=0):
        """Start the products of a block in the accumulator of the turn's product ``at``."""
        self.products[block]([self.accs[at % len(self.accs)]], slot.index, accumulate=False)
        ptx.wgmma.commit_group()

    def _add(self, block, at=0):
        self.scales.add(self.accs[at % len(self.accs)], self.totals[block], block)

    def begins(self, k):
        """Return whether this is the first warpgroup in its first block of K."""
        return (k | self.turn) == 0


def build_gemm_blockwise(
    M,
    N,
    K,
    *,
    a_type=e4m3,
    b_type=None,
    out_type=bf16,
    tile=None,
    cluster=None,
    stages=None,
    staging=None,
    scales_major="M",
    scales_in=None,
    stagger=False,
    ahead=None,
    split=1,
    resident=1,
    hints=None,
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
        tile: rows and columns of D that a CTA computes at a time: 64, 128, 192 or 256 rows, and columns that
            lie in at most two blocks of 128. 256 x 128, 192 x 128 and 128 x 192 are the largest. Default,
            with ``cluster``: what ``blockwise_choice`` chooses; 256 x 128 if M is None.
        cluster: CTAs of a cluster along M and along N; those in a row share A, those in a column share B.
            Default: 1 x 2 if ``tile`` is given.
        stages, staging: depth of the ring and of D's staging; default: what fits (``gemm_options.plan``).
        scales_major: ``"M"`` or ``"K"``: the dimension of A's scales whose neighbors are adjacent. None: one
            number for A and one for B (each an array of one): sums in f32 all the same, for a comparison with
            libraries that do not accumulate fast.
        scales_in: ``"shared"``: TMA loads the scales beside A and B; ``scales_major`` is ``"M"``, and M and
            ``ceil(K / 128)`` are multiples of 4. ``"registers"``: each thread loads its own, and a tile lies
            in one block of N. Default: shared where TMA can, for a known M.
        stagger: whether the second warpgroup begins a tile half a period after the first one, so that from
            the beginning one adds, and at the end one stores, while the other multiplies.  Needs two
            warpgroups, and no fewer blocks of K than stages.
        ahead: whether a warpgroup starts products before it adds the last ones, which takes a second
            accumulator: in tiles of 256 rows and at most 96 columns, of 192 rows and at most 80, or of 64 and
            128 rows and at most 128. Without ``stagger``, and not with scales in registers. Default: False if
            ``tile`` or ``cluster`` is given.
        split: number of CTAs, a cluster, that multiply parts of K of one tile. It replaces ``cluster``.
            Without ``stagger`` and ``ahead``, and not with scales in registers.
        resident: CTAs that share an SM, of tiles of 64 rows.
        hints: L2 policies of ``"A"`` and ``"B"``; default: ``gemm_options.STREAM`` up to 128 rows, else none.
        order: a function of ``pyptx.kit.tile_order`` that decides which tile a cluster computes next.
        sms: number of SMs to use; default: those that clusters of this size fill at the same time.

    Raises:
        SpecError: an option out of range, or a combination that the hardware or this kernel does not have.
    """
    b_type = a_type if b_type is None else b_type
    kept = policies(hints, streamed=M is not None and M <= STREAMED_ROWS)
    if not set(kept) <= {"A", "B"}:
        raise SpecError(f"hints = {hints!r}: expected L2 policies of 'A' and 'B'")
    if not {a_type, b_type} <= {e4m3, e5m2} or out_type not in OUTPUTS:
        raise SpecError(
            f"A of {a_type!r}, B of {b_type!r}, D of {out_type!r}: expected e4m3 or e5m2, then {OUTPUTS}"
        )
    if scales_major not in ("M", "K", None):
        raise SpecError(f"scales_major = {scales_major!r}: expected 'M', 'K' or None")
    k_blocks = -(-K // BLOCK)
    shared = in_shared(scales_in, scales_major, M, k_blocks)
    in_registers = not shared and scales_major is not None
    if split > 1:
        tile, cluster = tile or (128, 64), (1, 1)
        check_split(split, k_blocks, stagger=stagger, ahead=ahead, in_registers=in_registers)
    elif resident > 1:
        tile, cluster = tile or (64, 64), cluster or (1, 1)
    elif tile is None and cluster is None and M is not None:
        may_split, ahead = not (stagger or ahead), False if stagger else ahead
        chosen = choose(M, N, K, out_type=out_type, one_block=in_registers, may_split=may_split, ahead=ahead)
        tile, cluster, split, resident = chosen.tile, chosen.cluster, chosen.split, chosen.resident
        ahead = chosen.ahead
    else:
        tile, cluster = tile or (256, 128), cluster or (1, 2)
    BM, BN = tile
    check_promoted(tile)
    if BLOCK % BN and in_registers:
        raise SpecError(
            f"tile = {tile} lies in two blocks of {BLOCK} columns: expected columns that divide {BLOCK}, or "
            "scales that TMA loads"
        )
    if N * out_type.nbytes % 16:
        raise SpecError(
            f"N = {N}: rows of D have {N * out_type.nbytes} bytes, and TMA needs a multiple of 16"
        )
    staged_scales = kit.StagedScales(tile) if shared else None
    beside = staged_scales.stage_bytes if shared else 0
    # Three warpgroups, or products that run ahead, hide the promotion anyway.
    interleave = shared and BM == 256 and BLOCK % BN == 0 and not ahead
    _, warpgroups, blocks, span, stages, staging = plan(
        a_type,
        out_type,
        tile,
        stages=stages,
        staging=staging,
        beside=beside,
        split=split,
        resident=resident,
        sets=sets_of(tile, ahead),
        fixed=staged_scales.interleave_bytes if interleave else 0,
    )
    if stagger:
        check_stagger(warpgroups, k_blocks, stages)
    if ahead:
        check_ahead(tile, stagger=stagger, in_registers=in_registers)
    operands = kit.SharedOperands(kit.ClusterGrid(*cluster), tile, a_type, b_type)
    CM, CN = cluster
    ctas = split if split > 1 else CM * CN
    clusters = (usable_sms(ctas) if sms is None else sms) * resident // ctas
    if clusters < 1:
        raise SpecError(f"sms = {sms}: a cluster has {ctas} CTAs")
    tiles_n = -(-N // (BN * CN))
    part, longer = divmod(k_blocks, split)  # blocks of a part; the first parts have one more
    rows = "M" if M is None else M
    chunk = span // out_type.nbytes
    warps = 4 * warpgroups

    n_blocks = -(-N // BLOCK)
    if shared:
        scale_specs = staged_scales.a_spec(k_blocks, rows), staged_scales.b_spec(n_blocks, k_blocks)
    elif scales_major is None:
        scale_specs = Tile(1, f32), Tile(1, f32)
    else:
        shape = (k_blocks, rows) if scales_major == "M" else (rows, k_blocks)
        scale_specs = Tile(*shape, f32), Tile(n_blocks, k_blocks, f32)

    def grid(M=M):
        tiles = -(-M // (BM * CM)) * tiles_n
        return (ctas * (tiles if split > 1 else min(clusters, tiles)), 1, 1)

    @kernel(
        in_specs=(
            operands.a.spec(rows, K),
            operands.b.spec(N, K),
            *scale_specs,
        ),
        out_specs=(Tile(rows, N, out_type, BOXES[span], tma_box=(kit.wgmma_epilogue.ROWS, chunk)),),
        grid=grid if M is None else grid(),
        block=(128 * (1 + warpgroups), 1, 1),
        cluster=(ctas, 1, 1),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=resident,  # without this option ptxas ignores setmaxnreg
    )
    def gemm_blockwise(A, B, scales_A, scales_B, D):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        warpgroup = warp >> 2
        rank = ptx.cluster.rank()
        row, column = operands.grid.place(rank) if split == 1 else (0, 0)
        height = D.extent(0)
        tiles_m = kit.tile_order.cdiv(height, BM * CM)
        cluster_id = ptx.special.clusterid.x()
        total = kit.ClusterSum(parts=split, columns=BN, blocks=BM // ROWS) if split > 1 else None
        tiles = operands.stages(stages)
        if shared:
            staged_scales.stages(stages)
        staged = smem.alloc(
            (kit.wgmma_epilogue.ROWS * warps, chunk), out_type, swizzle=f"{span}B", stages=staging
        )
        ring = kit.Ring(stages, consumers=warps * operands.grid.readers)

        def each_tile():
            """Open the loop over tiles; with ``split`` a cluster has one."""
            if split > 1:
                return contextlib.nullcontext(cluster_id)
            return kit.StaticTiles(tiles_m * tiles_n, first=cluster_id, step=clusters).loop()

        def part_of_k():
            """Return the bounds of K between which this CTA multiplies."""
            if split == 1:
                return 0, K
            return tuple(
                (number * part + ptx.min(number, longer)) * BLOCK if longer else number * (part * BLOCK)
                for number in (rank, rank + 1)
            )

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
            if warpgroups in REGISTERS:
                ptx.setmaxnreg.dec(REGISTERS[warpgroups][0])
            with kit.single_thread(warp, 0):
                for tensor in (A, B, D, *((scales_A, scales_B) if shared else ())):
                    ptx.tensormap.prefetch(tensor.tma_desc())
                keep_a, keep_b = (kept.get(name) and ptx.cache.policy(kept[name]) for name in "AB")
                producer = ring.producer()
                operands.join(rank)
                with each_tile() as tile:
                    m_base, n_base = place(tile)
                    with ptx.for_(*part_of_k(), BLOCK) as k:
                        slot = producer.acquire()
                        corner = {"row": m_base, "column": n_base, "k": k}
                        operands.load(
                            slot,
                            A,
                            B,
                            **corner,
                            beside=staged_scales.nbytes if shared else 0,
                            cache_hint=keep_a,
                            b_cache_hint=keep_b,
                        )
                        if shared:
                            staged_scales.load(slot, scales_A, scales_B, **corner)
                        producer.advance()
            if split > 1:
                ptx.cluster.sync()  # the consumers' barrier between writing and reading their totals

        # --- consumers -------------------------------------------------------------------------
        with ptx.else_():
            if warpgroups in REGISTERS:
                ptx.setmaxnreg.inc(REGISTERS[warpgroups][1])
            first_row = (warpgroup - 1) * (ROWS * blocks)
            leader = ptx.warp.elect()
            operands.hand_back_as(rank, leader)
            if shared:
                scales = staged_scales.reader(first=first_row, blocks=blocks, interleave=interleave)
            elif scales_major is None:
                scales = OneScale(scales_A, scales_B)
            else:
                scales = kit.BlockScales(scales_A, scales_B, blocks=blocks, a_major=scales_major)
            promotion = Promotion(
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
            consumer = ring.consumer()
            read = ring.consumer() if ahead else None

            with each_tile() as tile:
                m_base, n_base = place(tile)
                totals = promotion.tile(
                    consumer,
                    K,
                    row=m_base,
                    column=n_base,
                    read=read,
                    part=part_of_k() if split > 1 else None,
                    last=height - 1,
                )
                if scales_major is None:
                    scales.finish(totals)
                if total is not None:
                    thread, number = ptx.special.tid.x() & 127, (warpgroup - 1) * blocks
                    for block, acc in enumerate(totals):
                        total.put(acc, number + block, thread)
                    ptx.cluster.sync()
                    totals = (total.take(rank, number + block, thread) for block in range(blocks))
                    n_base += rank * (BN // split)
                for block, acc in enumerate(totals):
                    corner = (n_base, m_base + first_row + block * ROWS)
                    kit.wgmma_epilogue.through_shared(
                        acc, staged, D.tma_desc(), corner, warp=warp - 4, leader=leader
                    )
            kit.wgmma_epilogue.settle(leader)

        # --- teardown: no CTA exits while another may still signal it or read from it ---------------
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
        ((200, 264, 400), {}),
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
