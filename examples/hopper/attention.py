"""Attention forward on Hopper: ``O = softmax(scale * Q K^T) V`` for each head, with log-sum-exp.

Q, K and V in bf16, f16 or e4m3.

A CTA computes 64 rows of Q in each of its consumer warpgroups, and goes through the keys in blocks, from the
last block that its rows see to the first.  S and O stay in registers; so does P, the exponentials, which are
operand A of the second product::

                                 keys: block j    block j-1   ...       rings of shared memory
                               +--------------+-------------+         +------------------------+
    Q  warpgroup 1   64 rows   | S = Q K_j^T  |             |         | K: block j-1 | j-2 ... |
       warpgroup 2   64 rows   | P = exp(S-m) |   ...       |         | V: block j   | j-1 ... |
                               | O += P V_j   |             |         | Q: rows of each group  |
                               +--------------+-------------+         +------------------------+

    warpgroup 0, one lane     K_0, Q, then in turn: the next block of K, this block of V
    warpgroups 1, 2 (, 3)     start S_j = Q K_j^T, start O += P_(j-1) V_(j-1)
                              wait for S_j, free K_j; softmax of S_j          <- the second product runs
                              wait for O, free V_(j-1); P_j = S_j in 16 bits; O *= factor of the maximum

Heads of 64 and 128 go through each block in two parts (:mod:`attention_parts`): the products of one part run
under the softmax of the other, and maxima are computed only where a sum of exponentials is large.  What
follows is the loop without parts.

With ``overlap=False`` the order is O, S, softmax, and no product of a warpgroup runs during its softmax.
With ``pingpong=True`` named barriers let the warpgroups start their products in turn, so that the softmax of
one runs under the products of another.

In e4m3 the second product needs V with its keys along rows: warps 1 to 3 of warpgroup 0 turn each block of V
in shared memory, in an order of keys in which P is operand A without an exchange between lanes
(:class:`pyptx.kit.TransposedOperand`).  Exponentials are times 2**8 then, in parts 2**3 or 2**4, which uses
more of e4m3's numbers.  With heads of 128, Q is operand A from registers, which spares the port of shared
memory: V, turned, passes it twice more than in 16 bits, and products take half the time.

The rules that make it correct:

* A warp frees a block after ``wgmma.wait_group``, when its products have completed: four warps of each
  consumer warpgroup arrive at ``empty``.
* P is written again only after the products that read it have completed; O is scaled only then, too.
* Blocks that a mask cuts (the diagonal, the edges of a window, the end of the keys) go through the masked
  loop, all others through one without masks.  TMA fills rows behind the end with zeros.
* Q's part of shared memory is loaded for the next tile when all products of this tile's scores have
  completed; with ``staging="q"`` only when O, which is stored through the same bytes, has been read by TMA.
* A warpgroup leaves out the last blocks of its tile that none of its rows sees, but waits for their slots,
  frees them, and takes its turns.

Sums: :class:`pyptx.kit.OnlineSoftmax` and, in parts, :class:`pyptx.kit.GuardedSoftmax` have the order of a
row's sum; O adds a block's products in the order of
wgmma, blocks from the last to the first.  Results do not depend on the number of CTAs or on the schedule.

Special values: NaN and +infinity in a row's scores make the row NaN, as in a softmax by the book.  A row that
a mask cuts off altogether is 0, with log-sum-exp -infinity.  Scores of -infinity count as masked in masked
blocks.  A masked key has weight 0, and 0 * V is NaN where V is not finite, as in the formula with a mask.

Run it: ``python examples/hopper/attention.py``.  Without a GPU it assembles the kernel and verifies it in the
simulator; on a Hopper GPU it also launches it, and measures it beside torch.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from attention_parts import PartedKeys
from attention_reference import hopper, make_inputs, measure, reference, verify
from attention_tuning import DEFAULTS, ROWS, tuning

from pyptx import SpecError, Tile, b32, bf16, e4m3, f16, f32, kernel, kit, pred, ptx, reg, s32, smem, u32

__all__ = ["build_attention", "make_inputs", "reference"]

TURNING = 3  # warps that turn blocks of V in e4m3
SHARED_BYTES = 225 << 10  # of a CTA, without barriers, where all boxes of O have room
MOST_BYTES = 226 << 10  # of tiles in a CTA; barriers have the rest
BESIDE = 1.5  # work of a tile beside its blocks of keys, in blocks
SECTION_BYTES = 32 << 20  # K and V of the heads that the CTAs go through together, within L2


def build_attention(
    B,
    H,
    S,
    D,
    *,
    Sk=None,
    Hk=None,
    dtype=bf16,
    causal=False,
    window=None,
    scale=None,
    order="bshd",
    block=None,
    consumers=None,
    stages=2,
    ctas=132,
    parts=None,
    overlap=True,
    pingpong=None,
    lazy=None,
    polynomials=0,
    degree=3,
    pack=False,
    staging=None,
    section=None,
    pin=None,
    resident=None,
    promotion="128B",
    ragged=None,
    lengths=False,
    page=None,
    pages=None,
):
    """Build the kernel; call it with Q[B, S, H, D], K and V[B, Sk, Hk, D]: O like Q, and lse[B, H, S] in f32.

    In e4m3 factors[B, Hk, 3] in f32 follow, those of Q, K and V, and O is bf16.  Then come the arrays that
    say where sequences are (:class:`pyptx.kit.Sequences`).

    Args:
        B, H, S, D: batches, query heads, queries, and elements of a head: 64, 128 or 256.
        Sk, Hk: keys, and heads of K and V, a divisor of H; default: S and H.
        dtype: bf16, f16 or e4m3, of Q, K, V and O; e4m3 has head dims 128 and 256.
        causal: query i sees the keys up to ``i + Sk - S``.
        window: ``(left, right)``: query i sees the keys ``i + Sk - S - left`` to ``i + Sk - S + right``; None
            for a side without bound.
        scale: factor of the scores; default: ``D ** -0.5``.
        order: ``"bshd"``, or ``"bhsd"`` for arrays [B, H, S, D].
        block: keys of a block, a multiple of 16 (e4m3: 32) up to 256.
        consumers: consumer warpgroups of 64 rows, 1 to 3.
        stages: depth of the rings of K and of V.
        ctas: number of CTAs that share the tiles; 132 fill an H100 or H200.
        parts: whether each block of keys is worked on in two parts, and maxima are computed only where a sum
            of exponentials is large (:mod:`attention_parts`). Default: as an H200 was fastest, unless
            ``overlap=False``, ``pin`` or ``polynomials`` ask for the other loop.
        overlap: whether the scores of the next block are multiplied under the softmax of this one.
        pingpong: whether warpgroups start their products in turn.
        polynomials, degree: as for :class:`pyptx.kit.OnlineSoftmax`.
        lazy: as there; 0 rescales wherever a maximum moves. With ``parts`` the ``limit`` of
            :class:`pyptx.kit.GuardedSoftmax`.
        pack: whether the H / Hk query heads of a K/V head are neighboring rows of a tile; H / Hk divides 16.
        staging: ``"own"`` stores O through shared memory of its own, ``"q"`` through that of Q; default:
            ``"own"`` where there is room, in e4m3 always.
        section: number of heads (with ``pack``: of K/V heads) that are worked on together; default: as
            :class:`pyptx.kit.WorkOrder` chooses, among those whose K and V fit into L2.
        pin: whether ptxas must keep all exponentials before the wait for the products into O; with
            ``overlap``.
        resident: of the products of a block's scores, D / 16 of 16-bit types and D / 32 in e4m3, how many
            take Q from registers, which spares the port of shared memory; in e4m3 all or none, with
            ``parts``.
        promotion: granularity of L2 fetches of K and V, as of :class:`pyptx.kit.HeadOperand`.
        ragged: numbers of queries and keys of all sequences, if these lie one behind the other: then Q and O
            are [1, queries, H, D], K and V [1, keys, Hk, D], lse[1, H, queries], and begins_q[B + 1] and
            begins_k[B + 1] in s32 follow. S and Sk are the most of a sequence.
        lengths: whether lengths[B] in s32 follow, the keys of each sequence.
        page, pages: rows of a page and number of pages, if K and V are pools [pages, page, Hk, D]; with
            ``lengths``, and a table[B, Sk / page] in s32 follows them.

    Raises:
        SpecError: a combination that is not built.
    """
    Sk, Hk, narrow = Sk or S, Hk or H, dtype is e4m3
    if parts is None and not (overlap and not polynomials):
        parts = False
    options = (block, consumers, staging, pingpong, lazy, pin, parts, resident)
    tuned = tuning(H, D, Hk, dtype, causal, window, *options, packed=H // Hk if pack else 1)
    block, consumers, pingpong = tuned.block, tuned.consumers, tuned.pingpong
    if tuned.parts and (polynomials or not overlap):
        raise SpecError("parts with polynomials, or without overlap: not built")
    packed = tuned.packed
    depth = 32 // dtype.nbytes  # keys of one product
    scale = D**-0.5 if scale is None else scale
    positions = consumers * ROWS // packed  # of Q in a tile
    heads = Hk if pack else H  # groups of rows that have tiles of their own
    shared = H // Hk // packed  # neighboring heads of those that read the same K and V
    blocks = kit.KeyBlocks(block, tuned.left, tuned.right)
    ranges = [blocks.of(n * positions + Sk - S, positions, Sk) for n in range(-(-S // positions))]
    order_of_tiles = kit.WorkOrder(
        [found.end - found.first + BESIDE for found in ranges],
        B * heads,
        ctas=ctas,
        most=max(1, SECTION_BYTES // (2 * Sk * D * dtype.nbytes)) * shared,
        together=shared,
        section=section,
    )
    where = kit.Sequences(B, S, Sk, ragged=ragged is not None, lengths=lengths, page=page, pages=pages)
    if narrow and not where.exact:
        raise SpecError("e4m3 with sequences of several lengths is not built")
    leaves = blocks.right is not None and consumers > 1 and not narrow  # whether warpgroups leave out blocks
    cut = blocks.banded or not where.exact or Sk % block != 0  # whether the last block needs a mask
    rows_q, rows_k = ((1, n) for n in ragged) if ragged else ((B, S), (B, Sk))
    rows_k = rows_k if page is None else (pages, page)
    load_q = kit.HeadOperand(ROWS, D, dtype, order=order, packed=packed)
    load_kv = kit.HeadOperand(block, D, dtype, order=order, piece=where.pieces(block), promotion=promotion)
    store_o = kit.HeadOperand(ROWS, D, bf16 if narrow else dtype, order=order, packed=packed)
    turned = kit.TransposedOperand(load_kv) if narrow else None
    loaded = 1 if narrow and D == 256 else stages  # stages of V as it is loaded
    kept = stages + loaded + (stages if narrow else 0)
    tiles = consumers * ROWS * D * dtype.nbytes + kept * load_kv.nbytes
    box = consumers * ROWS * store_o.width * 2  # of O, those of all warps
    # With room for several boxes, a warp need not wait until TMA has read one before it writes the next.
    room = [n for n in (1, 2, 4) if store_o.slabs % n == 0 and tiles + n * box <= SHARED_BYTES]
    boxes = max(room, default=1)
    if staging is None:
        staging = "own" if narrow or ragged or tiles + box <= MOST_BYTES else "q"
    least = tiles + (box if staging == "own" and not ragged else 0)
    if least > MOST_BYTES:
        raise SpecError(
            f"{least} bytes of tiles in shared memory: expected up to {MOST_BYTES}; take a smaller block, or "
            "fewer stages or consumers"
        )

    def body(Q, K, V, O, LSE, **arrays):  # noqa: E741
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        warpgroup = warp >> 2
        work = order_of_tiles.tiles(ptx.special.ctaid.x())
        tile_q = load_q.stages(consumers)
        tile_k, tile_v = load_kv.stages(stages), load_kv.stages(loaded)
        if staging == "own" and not ragged:
            out = smem.alloc((consumers * ROWS, store_o.width), store_o.dtype, swizzle="128B", stages=boxes)
        scratch = smem.alloc(1, f32)
        q_ring = kit.Ring(consumers, consumers=4, name="q")
        k_ring = kit.Ring(stages, consumers=4 * consumers, name="k")
        v_ring = kit.Ring(loaded, consumers=TURNING if narrow else 4 * consumers, name="v")
        rings = [q_ring, k_ring, v_ring]
        if narrow:
            tile_t = turned.stages(stages)
            t_ring = kit.Ring(stages, producers=TURNING, consumers=4 * consumers, name="t")
            rings.append(t_ring)
        with kit.single_thread(warp, 0):
            for ring in rings:
                ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        def place(index):
            """Return which rows a tile has, and which blocks of keys these rows see."""
            tile = SimpleNamespace()
            m, head = order_of_tiles.place(index)
            m = m.view(s32)
            tile.batch, head = kit.fast_divmod(head, heads, limit=B * heads)
            tile.q_head = head * packed
            tile.kv_head = kit.fast_divmod(head, shared, limit=heads)[0]
            tile.first = m * positions
            tile.sequence = where.at(tile.batch, arrays)
            tile.behind = tile.sequence.keys - tile.sequence.queries
            tile.blocks = blocks.of(tile.first + tile.behind, positions, tile.sequence.keys)
            return tile

        def unless_empty(tile):
            """Open a block for tiles that have queries: the others are behind the end of a short sequence."""
            return ptx.if_(tile.first < tile.sequence.queries) if ragged else nullcontext()

        # --- producer: one lane of warpgroup 0 -----------------------------------------------
        with ptx.if_(warpgroup == 0):
            ptx.setmaxnreg.dec(tuned.producer_registers)
            with kit.single_thread(warp, 0):
                to_q, to_k, to_v = q_ring.producer(), k_ring.producer(), v_ring.producer()

                def load(side, tiles_kv, array, key, tile):
                    slot = side.acquire()
                    ptx.mbarrier.arrive_expect_tx(slot.full, load_kv.nbytes)
                    where.load(
                        load_kv,
                        ((tiles_kv[slot.index], array),),
                        arrays,
                        sequence=tile.sequence,
                        key=key,
                        head=tile.kv_head,
                        mbar=slot.full,
                    )
                    side.advance()

                def load_tile(tile):
                    key = reg.scalar(s32)
                    key.set(tile.blocks.end * block - block)
                    load(to_k, tile_k, K, key, tile)
                    for group, slot in enumerate(to_q.slots(consumers)):
                        ptx.mbarrier.arrive_expect_tx(slot.full, load_q.nbytes)
                        load_q.load(
                            tile_q[slot.index],
                            Q,
                            position=tile.first + group * (ROWS // packed) + tile.sequence.first_query,
                            head=tile.q_head,
                            batch=tile.sequence.row,
                            mbar=slot.full,
                        )
                    with ptx.for_(tile.blocks.first + 1, tile.blocks.end, type=s32):
                        load(to_k, tile_k, K, key - block, tile)
                        load(to_v, tile_v, V, key, tile)
                        key -= block
                    load(to_v, tile_v, V, key, tile)

                with work.loop() as index:
                    tile = place(index)
                    with unless_empty(tile):
                        load_tile(tile)

            if narrow:
                with kit.thread_group(warp, 32, 32 * TURNING):
                    from_raw, to_t = v_ring.consumer(), t_ring.producer()
                    leader = ptx.warp.elect()
                    with work.loop() as index:
                        seen = place(index).blocks
                        with ptx.for_(seen.first, seen.end, type=s32):
                            raw, slot = from_raw.acquire(), to_t.acquire()
                            turned.turn(
                                tile_v[raw.index],
                                tile_t[slot.index],
                                warp=warp - 1,
                                warps=TURNING,
                                ahead=tuned.ahead,
                            )
                            ptx.fence.proxy_async("shared::cta")
                            ptx.warp.sync()
                            ptx.mbarrier.arrive(slot.full, pred=leader)
                            to_t.advance()
                            from_raw.release(pred=leader)

        # --- consumers: 64 rows in each warpgroup ----------------------------------------------
        with ptx.else_():
            ptx.setmaxnreg.inc(tuned.consumer_registers)
            group = warpgroup - 1
            leader = ptx.warp.elect()
            lane = ptx.special.laneid()
            o = ptx.wgmma.accumulator(n=D)
            q_steps = load_q.descriptors(tile_q[group]).steps()
            q_slot, q_phase = q_ring.slot(group), reg.scalar(u32, init=0)
            # Row of this thread's element 0 in the tile, and its column.
            row = ((warp - 4) * 16 + (lane >> 2)).view(s32)
            column = ((lane & 3) * 2).view(s32)
            if pingpong:
                turn, next_turn = group + 1, ptx.selp(1, group + 2, group == consumers - 1)
                with ptx.if_(group == consumers - 1):
                    ptx.bar.arrive(next_turn, 256)
            if tuned.parts:
                softmax = kit.GuardedSoftmax(
                    scale=reg.scalar(f32, name="scale") if narrow else scale,
                    limit=tuned.lazy or 0,
                    offset=tuned.offset,
                )
                parted = PartedKeys(
                    o,
                    softmax,
                    load_kv,
                    (tile_k, k_ring),
                    (tile_t, t_ring) if narrow else (tile_v, v_ring),
                    turned=turned,
                    mask=(tuned.left, tuned.right),
                    leader=leader,
                    turns=(turn, next_turn) if pingpong else None,
                )
                from_v = parted.this_v
            else:
                s = ptx.wgmma.accumulator(n=block)
                p = [ptx.wgmma.fragment(dtype) for _ in range(block // depth)]
                softmax = kit.OnlineSoftmax(
                    s,
                    scale=reg.scalar(f32, name="scale") if narrow else scale,
                    offset=tuned.offset,
                    lazy=tuned.lazy,
                    polynomials=polynomials,
                    degree=degree,
                )
                desc_k = load_kv.descriptors(tile_k[0])
                desc_v = turned.descriptors(tile_t[0]) if narrow else load_kv.descriptors(tile_v[0], "MN")
                from_k, from_v = k_ring.consumer(), (t_ring if narrow else v_ring).consumer()
                started = reg.scalar(pred)  # whether O has a value that products add to

            def start_scores(slot):
                for i, (a, b) in enumerate(zip(q_steps, desc_k.steps(slot.index), strict=True)):
                    ptx.wgmma.mma_async(s, a, b, atype=dtype, scale_d=i > 0)
                ptx.wgmma.commit_group()

            def start_output(slot):
                for i, (a, b) in enumerate(zip(p, desc_v.steps(slot.index), strict=True)):
                    ptx.wgmma.mma_async(o, a, b, trans_b=not narrow, scale_d=started if i == 0 else True)
                ptx.wgmma.commit_group()

            def free_q():
                """Let the next rows of Q be loaded, unless O is to be stored through those of this tile."""
                if staging == "own" or ragged:
                    ptx.mbarrier.arrive(q_slot.empty, pred=leader)

            def take_q():
                """Wait for Q, and read what stays in registers."""
                ptx.mbarrier.wait(q_slot.full, q_phase)
                if tuned.resident:
                    q_steps[: tuned.resident] = load_q.fragments(
                        tile_q[group], warp=warp & 3, count=tuned.resident
                    )
                    ptx.fence.proxy_async("shared::cta")  # TMA will write what ldmatrix has read
                    ptx.warp.sync()
                if tuned.resident == len(q_steps):
                    free_q()

            def seen(tile):
                """Return the blocks that rows of this warpgroup see, at least one of the tile's."""
                begin = group.view(s32) * (ROWS // packed) + tile.first + tile.behind
                mine = blocks.of(begin, ROWS // packed, tile.sequence.keys)
                if blocks.left is not None:
                    mine.end = ptx.max(tile.blocks.first + 1, mine.end)
                return mine

            def leave_out(count):
                """Go past the last blocks, which no row of this warpgroup sees."""
                with ptx.for_(0, count, type=s32):
                    for side in (from_k, from_v):
                        side.acquire()
                        side.release(pred=leader)
                    if pingpong:
                        ptx.bar.sync(turn, 256)
                        ptx.bar.arrive(next_turn, 256)

            def step(tile, key, masked):
                """Go to the next block: its scores and softmax, and the output of the block before."""
                if overlap:
                    k_slot, v_slot = from_k.acquire(), None
                else:
                    v_slot = from_v.acquire()
                    k_slot = from_k.acquire()
                if pingpong:
                    ptx.bar.sync(turn, 256)
                ptx.wgmma.fence()
                if overlap:
                    start_scores(k_slot)
                    v_slot = from_v.acquire()
                    ptx.wgmma.fence()  # ptxas would add it behind the wait
                    start_output(v_slot)
                else:
                    start_output(v_slot)
                    start_scores(k_slot)
                if pingpong:
                    ptx.bar.arrive(next_turn, 256)
                ptx.wgmma.wait_group(1 if overlap else 0)
                from_k.release(pred=leader)
                if masked:
                    blocks.mask(s, tile.places, key, tile.sequence.keys, column)
                softmax.block(masked=masked)
                if overlap:
                    if tuned.pin:
                        softmax.pin(scratch)
                    ptx.wgmma.wait_group(0)
                from_v.release(pred=leader)
                kit.a_fragments(s, dtype, out=p)
                softmax.rescale(o)
                ptx.inst.setp.eq.u32(started, 0, 0)

            def clear_behind(tile, key):
                """Store zeros to V behind the end of the keys: it may hold anything, and 0 * NaN is NaN."""
                with ptx.if_(key + block > tile.sequence.keys):
                    first = ptx.max(tile.sequence.keys - key, 0).view(u32)
                    v_slot = from_v.acquire()
                    thread = ptx.special.tid.x() - 128
                    load_kv.clear(tile_v[v_slot.index], first, thread=thread, threads=128 * consumers)
                    ptx.fence.proxy_async("shared::cta")
                    ptx.bar.sync(7, 128 * consumers)

            def take_factors(tile):
                """Set the scale of the scores in e4m3, and return the factor of V."""
                if not narrow:
                    return None
                factor_q, factor_k, factor_v = (
                    ptx.load(f32, arrays["factors"].at(tile.batch, tile.kv_head, i), space="global")
                    for i in range(3)
                )
                softmax.scale.set(factor_q * factor_k * scale)
                return factor_v

            def compute_in_parts(tile):
                factor_v = take_factors(tile)
                tile.places = [(row + 8 * below) // packed + (tile.first + tile.behind) for below in range(2)]
                tile.column = column
                take_q()
                if not where.exact:
                    clear_behind(tile, tile.blocks.end * block - block)
                begin = group.view(s32) * (ROWS // packed) + tile.first
                mine = seen(tile)
                # Rows behind the last query, of a warpgroup that has no others.
                some = nullcontext
                if (ragged or S % positions) and (staging == "own" or ragged):
                    some = partial(ptx.if_, begin < tile.sequence.queries)
                with some():
                    if blocks.banded:
                        parted.leave_out(tile.blocks.end - mine.end)
                    parted.run(tile, q_steps, mine, cut=cut)
                if some is not nullcontext:
                    with ptx.else_():
                        parted.leave_out(tile.blocks.end - tile.blocks.first)
                if tuned.resident < len(q_steps):
                    free_q()
                ptx.inst.xor.b32(q_phase, q_phase, 1)
                with some():
                    epilogue(tile, softmax.finish(o, factor=factor_v))

            def compute(tile):
                tile.places = [(row + 8 * below) // packed + (tile.first + tile.behind) for below in range(2)]
                factor_v = take_factors(tile)
                take_q()
                if not where.exact:
                    clear_behind(tile, tile.blocks.end * block - block)
                mine = tile.blocks
                if leaves:
                    mine = seen(tile)
                    leave_out(tile.blocks.end - mine.end)
                key = reg.scalar(s32)
                key.set(mine.end * block - block)
                k_slot = from_k.acquire()
                ptx.wgmma.fence()
                start_scores(k_slot)
                ptx.wgmma.wait_group(0)
                from_k.release(pred=leader)
                if cut:
                    blocks.mask(s, tile.places, key, tile.sequence.keys, column)
                softmax.block(first=True, masked=cut)
                kit.a_fragments(s, dtype, out=p)
                ptx.inst.setp.ne.u32(started, 0, 0)
                # The blocks behind the first one: cut at the top, whole, cut at the bottom.
                found = tile.blocks
                edges = [(mine.whole_end, True)] if blocks.right is not None else []
                edges += [(found.whole_first, False)]
                edges += [(found.first, True)] if blocks.left is not None else []
                for low, masked in edges:
                    low = (ptx.max(low, found.first) if blocks.left is not None else low) * block
                    with ptx.while_(lambda low=low, key=key: key > low):
                        key -= block
                        step(tile, key, masked)
                free_q()
                v_slot = from_v.acquire()
                ptx.wgmma.fence()
                start_output(v_slot)
                ptx.wgmma.wait_group(0)
                from_v.release(pred=leader)
                ptx.inst.xor.b32(q_phase, q_phase, 1)

                epilogue(tile, softmax.finish(o, factor=factor_v))

            # --- epilogue: O through shared memory, the logarithms directly -------------------
            def epilogue(tile, lse):
                for below, value in enumerate(lse):
                    position, member = kit.fast_divmod((row + 8 * below).view(u32), packed)
                    position = position.view(s32) + tile.first
                    head = tile.q_head + member
                    with ptx.if_(position < tile.sequence.queries):
                        place = (position + tile.sequence.first_query).view(u32)
                        at = LSE.at(tile.sequence.row, head, place)
                        ptx.store(at, value, space="global", pred=lane & 3 == 0)
                        if ragged:
                            round_pair = (
                                ptx.inst.cvt.rn.bf16x2 if dtype is bf16 else ptx.inst.cvt.rn.f16x2
                            ).f32
                            # TMA would store the rest of a tile over the next sequence.
                            place = (place, head) if order == "bshd" else (head, place)
                            at = O.at(0, *place, column.view(u32))
                            for i in range(2 * below, o.elements, 4):
                                word = reg.scalar(b32)
                                round_pair(word, o[i + 1], o[i])  # the first source is the upper half
                                ptx.inst.st.global_.b32(ptx.addr(at, 2 * o.column(i)), word)
                if ragged:
                    return
                if staging == "q":
                    ptx.bar.sync(8 + group, 128)  # all warps of the warpgroup have read Q

                def beyond(at, tile=tile):
                    position = at // packed
                    if packed == 1:
                        return position, tile.q_head, tile.sequence.row
                    return tile.q_head, position, tile.sequence.row

                kit.wgmma_epilogue.through_shared(
                    o,
                    out if staging == "own" else tile_q[group].split(load_q.slabs),
                    O.tma_desc(),
                    (0, tile.first.view(u32) * packed + group * ROWS),
                    warp=warp - 4 if staging == "own" else warp & 3,
                    leader=leader,
                    beyond=beyond,
                )
                if staging == "q":
                    kit.wgmma_epilogue.settle(leader)
                    ptx.mbarrier.arrive(q_slot.empty, pred=leader)

            with work.loop() as index:
                tile = place(index)
                with unless_empty(tile):
                    (compute_in_parts if tuned.parts else compute)(tile)
            kit.wgmma_epilogue.settle(leader)
            if pingpong:
                with ptx.if_(group == 0):
                    ptx.bar.sync(turn, 256)
        ptx.ret()

    more = dict(zip(where.names, where.specs, strict=True))
    if narrow:
        more = {"factors": Tile(B, Hk, 3, f32)}
    output = store_o.stored(B, S, H, kit.wgmma_epilogue.ROWS)
    if ragged:
        output = Tile(1, *((rows_q[1], H) if order == "bshd" else (H, rows_q[1])), D, dtype)
    names = ("Q", "K", "V", *more, "O", "LSE")

    def attention(*parameters):
        body(**dict(zip(names, parameters, strict=True)))

    attention.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])
    return kernel(
        in_specs=(load_q.spec(*rows_q, H), *2 * [load_kv.spec(*rows_k, Hk)], *more.values()),
        out_specs=(output, Tile(rows_q[0], H, rows_q[1], f32)),
        grid=(order_of_tiles.ctas,),
        block=(128 * (1 + consumers),),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,
    )(attention)


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


#: Small problems: options of the inputs, and of the kernel alone.
CASES = [
    ((1, 1, 128, 128), {}, {"block": 64}),
    ((1, 2, 200, 64), {}, {"causal": True, "consumers": 3, "block": 48}),
    ((1, 1, 100, 256), {}, {"causal": True, "block": 48}),
    ((1, 2, 64, 64), {"Sk": 300, "Hk": 1, "dtype": f16}, {"window": (70, 30), "block": 48, "consumers": 2}),
    ((1, 4, 40, 64), {"Sk": 100, "Hk": 1}, {"causal": True, "pack": True, "consumers": 1, "block": 32}),
    ((1, 2, 130, 128), {"Hk": 1, "dtype": e4m3}, {"causal": True, "block": 64}),
]


def main():
    good = verify(partial(build_attention, ctas=2), CASES)
    torch = hopper()
    if torch is None:
        print("\nThe kernel was not launched: no GPU that runs sm_90a. The simulator has run all of it.")
    else:
        for D in DEFAULTS:
            for causal in (False, True):
                measure(torch, build_attention(4, 16, 4096, D, causal=causal), 4, 16, 4096, D, causal)
    if not good:
        sys.exit("some results are wrong")
    print("All results are right.")


if __name__ == "__main__":
    main()
