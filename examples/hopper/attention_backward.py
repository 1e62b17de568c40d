"""Attention backward on Hopper: dQ, dK and dV of ``O = softmax(scale * Q K^T) V``, bf16 or f16.

With P the softmax, recomputed from the log-sum-exp of the forward, and row by row ``delta = sum(dO * O)``::

    dP = dO V^T      dS = P * (dP - delta)      dV = P^T dO      dK = scale * dS^T Q      dQ = scale * dS K

Three kernels. ``prepare`` computes delta and clears the sums of dQ; the main one computes dK, dV and, in f32,
the sums of dQ; ``finish`` scales and rounds dQ.

A CTA of the main kernel has a block of 128 keys of one head of K and V, 64 keys in each of two warpgroups,
and goes through the queries that see them.  Scores are transposed, keys are rows: so P^T and dS^T are operand
A of the products into dV and dK straight from registers, and dS alone goes through shared memory::

                              queries: block j   block j+1  ...         rings of shared memory
                            +------------------+----------+       +-----------------------------+
    K, V  warpgroup 1  64   | S^T  = K Q_j^T   |          |       | Q and -LSE: block j, j+1    |
    rows  warpgroup 2  64   | dP^T = V dO_j^T  |   ...    |       | dO and -delta: block j, j+1 |
                            | dV += P^T dO_j   |          |       | dS: block j (, j+1)         |
                            | dK += dS^T Q_j   |          |       | dQ: a part of each warp     |
                            +------------------+----------+       +-----------------------------+
                               dQ_j = dS K  -> added to the sums in memory by the copy engine

    warpgroup 0, one lane    K, Q_0, V, dO_0, then Q_j, dO_j
    warpgroups 1, 2          start S_j; barrier: dS_(j-1) is there; start dQ_(j-1), dK_(j-1); wait for S_j
                             P = exp(S_j - LSE), first part             <- those two products run
                             wait for dQ_(j-1), let the engine add it; start dP_j
                             P, the rest; wait for dK_(j-1)             <- dK, dP
                             start dV_j; wait for dP_j
                             dS_j, to shared memory, transposed         <- dV

So the tensor cores always have a product to run.  Registers decide how far this goes.  Where dV_j runs on
under S_(j+1) (``overlap=4``), P in 16 bits has registers of its own: 96 queries of D = 64 leave them, and 48
of D = 128.  With 64 queries of D = 128 dV_j completes first, and dS is computed with P as rounded for dV, so
that only its 16 bits stay (``overlap=3``).  ``overlap=2`` and 1 start dP_j after all exponentials; with 128
queries of D = 64 dV_j then starts after dS, from P rounded in place.  With ``overlap=0`` a block's products
complete before the next block begins, which needs the fewest registers: then D = 128 has room for 80 queries
(``block=80, overlap=0, ds_stages=1``).  Blocks of other lengths than 128 (D = 64) or 64 (D = 128) have dQ
transposed: its elements are rows.

The rules that make it correct:

* With several stages of dS a warpgroup writes a stage again so many blocks later; the barrier between says
  that the other one has waited for its products of that stage.  With one stage a second barrier says so.
* A warp frees dO_j when the product into dV has completed, at the latest with S_(j+1), and Q_j after the wait
  for dK_j.  It has read LSE and delta before the fence and the barrier that stand between.
* Each warp has a part of dQ of its own: it writes it when the engine has read the part before.
* A mask sets P to 0: for the blocks that the diagonal cuts, and for keys behind the end. Queries behind the
  end have -LSE = -infinity, so P = 0 there. TMA fills rows behind the end with zeros.

Sums: dV and dK add in the order of wgmma, over the blocks of queries in order, and over the heads that share
K and V in order.  They do not depend on the schedule.  The sums of dQ add one term for each block of keys, in
f32, in the order in which the engine adds: their last bits differ between runs.  With ``deterministic=True``
a counter for each part makes the order that of the keys, and dQ is bit-equal in all runs.

Special values: NaN and infinity in the inputs give NaN where the formulas do, except that a masked key has
P = 0 whatever its score, and that a query whose log-sum-exp is -infinity, which sees no key, counts as P = 0.

Run it: ``python examples/hopper/attention_backward.py``.  Without a GPU it assembles the kernels and verifies
them in the simulator; on a Hopper GPU it also launches them, and measures them beside torch.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from attention_backward_ends import (
    KEYS,
    SPREAD,
    AttentionBackward,
    build_finish,
    build_prepare,
    check_options,
    check_room,
    choose,
    most_ds_stages,
)
from attention_reference import hopper
from attention_reference.backward import make_inputs, measure, reference, verify

from pyptx import SpecError, Tile, bf16, f16, f32, kernel, kit, pred, ptx, reg, smem, u32, u64

__all__ = ["AttentionBackward", "build_attention_backward", "make_inputs", "reference"]

ROWS = 64  # keys of a block in each of the two consumer warpgroups
WARPS = 8
BLOCKS = {64: 128, 128: 64}  # queries of a block whose dQ has its queries in rows, by head dim
REGISTERS = (24, 240)  # of a thread of the producer's and of a consumer's warpgroup
SECTION_BYTES = 24 << 20  # Q, dO and sums of dQ of the heads that the CTAs go through together, within L2
BESIDE = {64: 1.0, 128: 2.0}  # work of a tile beside its blocks of queries, in blocks
TO_BASE_2 = math.log2(math.e)


def build_attention_backward(
    B,
    H,
    S,
    D,
    *,
    Sk=None,
    Hk=None,
    dtype=bf16,
    causal=False,
    scale=None,
    order="bshd",
    deterministic=False,
    block=None,
    overlap=None,
    rounded=None,
    stages=None,
    q_stages=None,
    ds_stages=None,
    store_at=0.5,
    staged=True,
    ctas=132,
    section=None,
):
    """Build the three kernels, an :class:`AttentionBackward`.

    Args:
        B, H, S, D: batches, query heads, queries, and elements of a head: 64 or 128.
        Sk, Hk: keys, and heads of K and V, a divisor of H; default: S and H.
        dtype: bf16 or f16, of all arrays but the log-sum-exp, which is f32.
        causal: query i sees the keys up to ``i + Sk - S``.
        scale: factor of the scores; default: ``D ** -0.5``.
        order: ``"bshd"``, or ``"bhsd"`` for arrays [B, H, S, D].
        deterministic: whether the terms of dQ are added in the order of the keys. All CTAs of the main kernel
            then run at once, a cooperative launch: ``ctas`` is at most the number of multiprocessors.
        block: queries of a block: a multiple of 32 for D = 64, of 16 for D = 128, up to 128.
        overlap: 0: the products of a block complete before those of the next. 1: exponentials run under the
            products of the block before. 2: the product into dV runs on, too, under dS and the next scores;
            ptxas has registers for it with 96 queries of D = 64, or 48 of D = 128. 3: dP starts before the
            second part of the exponentials, and the product into dV runs under dS, not under the next
            scores. 4: as 3, and under the next scores. Default: the most that there are registers for.
        rounded: whether dS is computed with P as it is rounded for dV, which frees registers; default: with
            ``overlap=3``.
        stages: depth of the rings of Q and dO, at least 2; default: 3 where ``overlap`` is above 2, since a
            block of Q stays until the middle of the next block, else 2.
        q_stages: depth of the ring of Q alone, which is needed longest; default: ``stages``.
        ds_stages: stages of dS: 1, or ``stages``; default: ``stages`` if they fit, else 1.
        store_at: share of a block's exponentials that stand before the wait for dQ, 0 to 1.
        staged: whether dQ goes through shared memory to the copy engine, which adds it; otherwise the warps
            add their registers to the sums.
        ctas: number of CTAs that share the blocks of keys; 132 fill an H100 or H200.
        section: number of K/V heads of all batches whose blocks come before those of further heads; default:
            as many as fit into L2, or for a causal mask, of those, as many as :class:`pyptx.kit.WorkOrder`
            chooses.

    Raises:
        SpecError: a combination that is not built.
    """
    Sk, Hk = Sk or S, Hk or H
    block, overlap, rounded = choose(D, block, overlap, rounded, deterministic or Sk % KEYS, staged)
    stages = (3 if overlap > 2 else 2) if stages is None else stages
    ds_stages = most_ds_stages(D, block, stages) if ds_stages is None else ds_stages
    check_options(B, H, S, D, Sk, Hk, dtype, block, overlap, stages, ds_stages, store_at)
    early = D == 128 or overlap > 1  # whether the product into dV begins before dS
    if rounded and not (early and overlap):
        raise SpecError("rounded with a product into dV that begins after dS: not built")
    scale = D**-0.5 if scale is None else scale
    group = H // Hk
    blocks = kit.QueryBlocks(S, Sk, block=block, key_block=KEYS, causal=causal)
    blocks_q, blocks_k = blocks.count, blocks.key_count
    if deterministic and not staged:
        raise SpecError("deterministic without staged: the order is that of the copy engine's additions")
    lengths, fitting = blocks.lengths(), max(1, SECTION_BYTES // (2 * group * S * D * (dtype.nbytes + 2)))
    uneven = lengths[0] != lengths[-1]
    if section is None and not uneven:
        section = max(n for n in range(1, B * Hk + 1) if B * Hk % n == 0 and n <= fitting)
    order_of_tiles = kit.WorkOrder(
        [group * length + BESIDE[D] for length in reversed(lengths)],
        B * Hk,
        ctas=ctas,
        most=fitting,
        section=section,
        turns=not deterministic,
    )
    load_q, load_kv = (kit.HeadOperand(rows, D, dtype, order=order) for rows in (block, KEYS))
    ds_tile = kit.HeadOperand(block, KEYS, dtype)
    turned = block != BLOCKS[D]  # whether a warpgroup's dQ has elements in rows, and queries in columns
    queries = block if D == 128 else block // 2  # of dQ in a warpgroup
    sums = kit.SummedAccumulator(queries if turned else 64, warps=WARPS)
    statistics = Tile(B, H, blocks_q * block, f32)
    staging = WARPS * (staged * sums.nbytes + 16 * load_kv.width * dtype.nbytes)
    loaded = load_q.nbytes + block * f32.nbytes  # of a stage of Q or dO
    fixed = 2 * load_kv.nbytes + stages * loaded + ds_stages * ds_tile.nbytes + staging
    q_stages = stages if q_stages is None else q_stages
    if q_stages < 2:
        raise SpecError(f"q_stages = {q_stages}: expected at least 2")
    check_room(fixed + q_stages * loaded)
    shared = q_stages == stages  # whether Q and dO of a block are in stages of one number
    stored_kv = load_kv.stored(B, Sk, Hk, kit.wgmma_epilogue.ROWS)

    @kernel(
        in_specs=(
            load_q.spec(B, S, H),
            load_kv.spec(B, Sk, Hk),
            load_kv.spec(B, Sk, Hk),
            load_q.spec(B, S, H),
            statistics,
            statistics,
        ),
        out_specs=(stored_kv, stored_kv, sums.spec(B, H, blocks_q), Tile(B, H, blocks_q, WARPS, u32)),
        grid=(order_of_tiles.ctas,),
        block=(384,),
        arch="sm_90a",
        extern_smem=True,
        min_ctas_per_sm=1,
        cooperative=deterministic,
    )
    def attention_backward(Q, K, V, dO, LSE, DELTA, dK, dV, SUMS, COUNTS):
        # --- setup ---------------------------------------------------------------------------
        warp = kit.warp_index()
        work = order_of_tiles.tiles(ptx.special.ctaid.x())
        tile_k, tile_v = load_kv.stages(1), load_kv.stages(1)
        tile_q, tile_do = load_q.stages(q_stages), load_q.stages(stages)
        tile_ds = ds_tile.stages(ds_stages)
        out = smem.alloc((WARPS * 16, load_kv.width), dtype, swizzle="128B", stages=1)
        dq_parts = sums.staging() if staged else None
        lse = smem.alloc(block, f32, align=128, stages=q_stages)
        delta = smem.alloc(block, f32, align=128, stages=stages)
        places = smem.alloc((WARPS, 4), u32, align=16)
        rings = [
            kit.Ring(depth, consumers=WARPS, name=name)
            for name, depth in (("k", 1), ("v", 1), ("q", q_stages), ("do", stages))
        ]
        k_ring, v_ring, q_ring, do_ring = rings
        with kit.single_thread(warp, 0):
            for ring in rings:
                ring.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        def place(index):
            """Return the head, the keys, and the blocks of queries that see them, of a tile."""
            tile = SimpleNamespace()
            row, head = order_of_tiles.place(index)
            # Rows of different work: the last one has the first keys, which most queries see.
            number = blocks_k - 1 - row if uneven else row
            tile.batch, tile.head = kit.fast_divmod(head, Hk, limit=B * Hk)
            tile.number, tile.key = number, number * KEYS
            tile.queries = blocks.of(number)
            return tile

        # --- producer: one lane of warpgroup 0 -----------------------------------------------
        with ptx.if_(warp < 4):
            ptx.setmaxnreg.dec(REGISTERS[0])
            with kit.single_thread(warp, 0):
                to_k, to_v, to_q, to_do = (ring.producer() for ring in rings)

                def load(side, tile, array, position, head, batch, vector=None, values=None):
                    """Load a block; with ``values`` also the numbers of its rows."""
                    slot = side.acquire()
                    operand = load_q if vector is not None else load_kv
                    more = 0 if vector is None else vector.nbytes
                    ptx.mbarrier.arrive_expect_tx(slot.full, operand.nbytes + more)
                    operand.load(
                        tile[slot.index], array, position=position, head=head, batch=batch, mbar=slot.full
                    )
                    if vector is not None:
                        source = values.at(batch, head, position)
                        ptx.cp.async_.bulk.load(vector[slot.index], source, vector.nbytes, slot.full)
                    side.advance()

                with work.loop() as index:
                    tile = place(index)
                    load(to_k, tile_k, K, tile.key, tile.head, tile.batch)
                    waiting = reg.scalar(pred)  # whether V has not been asked for
                    ptx.inst.setp.eq.u32(waiting, 0, 0)
                    heads = ptx.for_(tile.head * group, tile.head * group + group)
                    with heads as head, ptx.for_(tile.queries.first, blocks_q) as number:
                        load(to_q, tile_q, Q, number * block, head, tile.batch, lse, LSE)
                        with ptx.if_(waiting):
                            load(to_v, tile_v, V, tile.key, tile.head, tile.batch)
                            ptx.inst.setp.ne.u32(waiting, 0, 0)
                        load(to_do, tile_do, dO, number * block, head, tile.batch, delta, DELTA)

        # --- consumers: 64 keys in each warpgroup ----------------------------------------------
        with ptx.else_():
            ptx.setmaxnreg.inc(REGISTERS[1])
            half, member = (warp >> 2) - 1, warp - 4
            leader, lane = ptx.warp.elect(), ptx.special.laneid()
            s, dp, dq = (ptx.wgmma.accumulator(n=n) for n in (block, block, sums.columns))
            dk, dv = ptx.wgmma.accumulator(n=D), ptx.wgmma.accumulator(n=D)
            p, ds = ([ptx.wgmma.fragment(dtype) for _ in range(block // 16)] for _ in range(2))
            mine = {"first": half * ROWS, "rows": ROWS}
            k_rows, v_rows = (load_kv.descriptors(t[0], **mine) for t in (tile_k, tile_v))
            q_rows, do_rows = (load_q.descriptors(t[0]) for t in (tile_q, tile_do))
            q_columns, do_columns = (load_q.descriptors(t[0], "MN") for t in (tile_q, tile_do))
            # dQ in a warpgroup: all of D = 64 for half of the queries, half of D = 128 for all of them.
            slab = kit.HeadOperand(KEYS, load_kv.width, dtype)
            if D == 64:
                ds_rows = ds_tile.descriptors(tile_ds[0], first=half * queries, rows=queries)
                k_columns = slab.descriptors(tile_k[0], "MN")
            else:
                ds_rows = ds_tile.descriptors(tile_ds[0])
                k_columns = slab.descriptors(tile_k[0].rows(half * KEYS, KEYS), "MN")
            tile_bytes = {
                **dict.fromkeys((k_rows, v_rows, k_columns), 0),
                **dict.fromkeys((q_rows, q_columns, do_rows, do_columns), load_q.nbytes),
                ds_rows: ds_tile.nbytes,
            }
            to_ds = kit.TransposedStore(warp & 3)
            # dO and dS of a block are in stages of one number.
            ring, before_q = q_ring.consumer(), reg.scalar(u32)
            do_side, before = (ring, before_q) if shared else (do_ring.consumer(), reg.scalar(u32))
            k_slot, v_slot, phase = k_ring.slot(0), v_ring.slot(0), reg.scalar(u32, init=0)
            started = reg.scalar(pred)  # whether dK has a value that products add to
            behind = 1 if overlap in (2, 4) else 0  # groups of products that waits leave behind
            copies = reg.array(u32, block // 4) if rounded else []  # of P in 16 bits
            terms = kit.OrderedTerms(COUNTS.at(0, 0, 0, 0).base, leader)
            # Query and key of this thread's element 0 in a block.
            pair, row = (lane & 3) * 2, half * ROWS + (member & 3) * 16 + (lane >> 2)

            def steps(operand, stage=0):
                return kit.descriptor_steps(
                    operand.first, operand.offsets, stage=stage, stage_bytes=tile_bytes[operand]
                )

            def multiply(acc, a, b, scale_first=False, **transposed):
                """Start a product of steps along K, as a group of its own."""
                for i, (left, right) in enumerate(zip(a, b, strict=True)):
                    ptx.wgmma.mma_async(
                        acc, left, right, atype=dtype, scale_d=scale_first if i == 0 else True, **transposed
                    )
                ptx.wgmma.commit_group()

            def numbers(vector, slot):
                """Yield the numbers of the queries of this thread's elements: two for each four."""
                base = ptx.addr(vector[slot.index].addr + pair * 8)
                for column in range(0, block, SPREAD):
                    found = reg.array(f32, 4)
                    ptx.inst.ld.shared.v4.f32(found, ptx.addr(base.base, base.offset + 4 * column))
                    yield from (found[:2], found[2:])

            def start_gradients(stage, stage_q):
                """Start the products into dQ and dK of a block, whose dS both warpgroups have stored."""
                left, right = steps(ds_rows, stage if ds_stages > 1 else 0), steps(k_columns)
                if turned:
                    multiply(dq, right, left, trans_a=True)
                else:
                    multiply(dq, left, right, trans_b=True)
                multiply(dk, ds, steps(q_columns, stage_q), started, trans_b=True)
                ptx.inst.setp.eq.u32(started, 0, 0)

            def start_last_block():
                """Start the products of the block before that need its dS."""
                ptx.bar.sync(1, 256)
                ptx.wgmma.wait_group(behind)
                ptx.wgmma.fence()
                start_gradients(before, before_q)

            def add_dq(tile, last=None):
                """Hand dQ of a block, by default the one before, to the engine; it is complete."""
                if last is None:
                    last = tile.part - WARPS if group == 1 else tile.part_before
                place = reg.scalar(u64)
                if not staged:
                    ptx.inst.mad.wide.u32(place, last, sums.nbytes, SUMS.at(0, 0, 0, 0, 0).base)
                    sums.add_registers(dq, place)
                    return
                part = dq_parts.rows(member, 1)
                if deterministic:
                    terms.count()
                sums.stage(dq, part, leader)
                if deterministic:
                    terms.wait(last, tile.number)
                ptx.inst.mad.wide.u32(place, last, sums.nbytes, SUMS.at(0, 0, 0, 0, 0).base)
                sums.add(place, part, leader)

            def exponentials(numbers_of, first, end):
                for number in range(first, end):
                    minus = next(numbers_of)
                    for i in range(4 * number, 4 * number + 4):
                        ptx.inst.fma.rn.f32(s[i], s[i], scale * TO_BASE_2, minus[i % 2])
                        ptx.inst.ex2.approx.ftz.f32(s[i], s[i])

            def make_ds(slot):
                """Turn dP into dS, in f32 and in 16 bits."""
                found = numbers(delta, slot)
                for i, value in enumerate(dp):
                    if i % 4 == 0:
                        minus = next(found)
                    if i % 2 == 0:
                        factors = kit.to_f32([copies[i // 2]], dtype) if rounded else s[i : i + 2]
                    ptx.inst.add.rn.f32(value, value, minus[i % 2])
                    ptx.inst.mul.rn.f32(value, value, factors[i % 2])
                kit.a_fragments(dp, dtype, out=ds)

            def round_p():
                """Round P; keep a copy, as registers that a product reads must not be used meanwhile."""
                kit.a_fragments(s, dtype, out=p)
                if rounded:
                    for copy, word in zip(copies, (word for part in p for word in part), strict=True):
                        ptx.inst.mov.b32(copy, word)

            def store_ds():
                """Store this warpgroup's dS, transposed."""
                if ds_stages == 1:
                    ptx.bar.sync(2, 256)  # both warpgroups have read the dS before
                part = tile_ds[do_side.stage if ds_stages > 1 else 0].rows(half * block, block)
                to_ds.store(ds, part)
                ptx.fence.proxy_async("shared::cta")

            def advance():
                before_q.set(ring.stage)
                ring.advance()
                if not shared:
                    before.set(do_side.stage)
                    do_side.advance()

            def turn(tile, number, masked, first):
                """Go to block ``number``: its P and dS, the rest of the block before."""
                slot = ring.acquire()
                ptx.wgmma.fence()
                multiply(s, steps(k_rows), steps(q_rows, slot.index))
                found, middle = numbers(lse, slot), round(store_at * block / 8)
                if first:
                    ptx.wgmma.wait_group(0)
                    middle = 0
                else:
                    start_last_block()
                    ptx.wgmma.wait_group(2)
                    ptx.mbarrier.arrive(do_ring.slot(before).empty, pred=leader)
                    exponentials(found, 0, middle)
                    ptx.wgmma.wait_group(1)
                    add_dq(tile)
                exponentials(found, middle, block // 8)
                if masked:
                    blocks.mask(s, tile.key + row, number * block + pair)
                if not first:
                    ptx.wgmma.wait_group(0)
                    ptx.mbarrier.arrive(q_ring.slot(before_q).empty, pred=leader)
                if early:
                    round_p()
                slot = do_ring.slot(do_side.stage)
                ptx.mbarrier.wait(slot.full, do_side.phase)
                ptx.wgmma.fence()
                multiply(dp, steps(v_rows), steps(do_rows, slot.index))
                if early:
                    multiply(dv, p, steps(do_columns, slot.index), not first, trans_b=True)
                ptx.wgmma.wait_group(behind)
                make_ds(slot)
                if not early:
                    kit.a_fragments(s, dtype, out=p)
                    ptx.wgmma.fence()
                    multiply(dv, p, steps(do_columns, slot.index), not first, trans_b=True)
                store_ds()
                advance()

            def full_turn(tile, number, masked, first):
                """Go to block ``number`` with more products under way, for ``overlap`` above 2."""
                slot = ring.acquire()
                ptx.wgmma.fence()
                multiply(s, steps(k_rows), steps(q_rows, slot.index))
                found, middle = numbers(lse, slot), round(store_at * block / 8)
                if first:
                    ptx.wgmma.wait_group(0)
                    middle = 0
                else:
                    ptx.bar.sync(1, 256)
                    ptx.wgmma.wait_group(1)
                    ptx.mbarrier.arrive(do_ring.slot(before).empty, pred=leader)
                    start_gradients(before, before_q)
                    ptx.wgmma.wait_group(2)
                    exponentials(found, 0, middle)
                    ptx.wgmma.wait_group(1)
                    add_dq(tile)
                slot = do_ring.slot(do_side.stage)
                ptx.mbarrier.wait(slot.full, do_side.phase)
                ptx.wgmma.fence()
                multiply(dp, steps(v_rows), steps(do_rows, slot.index))
                exponentials(found, middle, block // 8)
                if masked:
                    blocks.mask(s, tile.key + row, number * block + pair)
                if not first:
                    ptx.wgmma.wait_group(1)
                    ptx.mbarrier.arrive(q_ring.slot(before_q).empty, pred=leader)
                round_p()
                ptx.wgmma.fence()
                multiply(dv, p, steps(do_columns, slot.index), not first, trans_b=True)
                ptx.wgmma.wait_group(1)
                make_ds(slot)
                store_ds()
                advance()
                if overlap == 3:
                    ptx.wgmma.wait_group(0)

            def whole_turn(tile, number, masked):
                """Go through block ``number`` from its scores to its dQ, for ``overlap=0``."""
                slot = ring.acquire()
                ptx.wgmma.fence()
                multiply(s, steps(k_rows), steps(q_rows, slot.index))
                do_slot = do_ring.slot(do_side.stage)
                ptx.mbarrier.wait(do_slot.full, do_side.phase)
                multiply(dp, steps(v_rows), steps(do_rows, slot.index))
                ptx.wgmma.wait_group(1)
                exponentials(numbers(lse, slot), 0, block // 8)
                if masked:
                    blocks.mask(s, tile.key + row, number * block + pair)
                ptx.wgmma.wait_group(0)
                make_ds(do_slot)
                kit.a_fragments(s, dtype, out=p)
                store_ds()
                ptx.wgmma.fence()
                multiply(dv, p, steps(do_columns, slot.index), started, trans_b=True)
                ptx.bar.sync(1, 256)
                start_gradients(do_slot.index, slot.index)
                ptx.wgmma.wait_group(1)
                ptx.mbarrier.arrive(do_slot.empty, pred=leader)
                add_dq(tile, tile.part)
                ptx.wgmma.wait_group(0)
                ptx.mbarrier.arrive(slot.empty, pred=leader)
                advance()

            with work.loop() as index:
                tile = place(index)
                # Registers are short: what the epilogue needs waits in shared memory.
                kept, kept_place = [index, tile.key, tile.head, tile.batch], places.rows(member, 1)
                ptx.store(kept_place, kept, space="shared", pred=leader)
                # The block of queries, and the number of this warp's part of its dQ.
                number, part = reg.scalar(u32), reg.scalar(u32)
                tile.part = part
                number.set(tile.queries.first)
                block_of_all = (tile.batch * H + tile.head * group) * blocks_q + number
                ptx.inst.mad.lo.u32(part, block_of_all, WARPS, member)

                def step(masked, first=False):
                    """Go through one block, and to the next."""
                    if overlap > 2:
                        full_turn(tile, number, masked, first)
                    elif overlap:
                        turn(tile, number, masked, first)
                    else:
                        whole_turn(tile, number, masked)
                    number.set(number + 1)
                    if group > 1:
                        tile.part_before.set(part)
                    part.set(part + WARPS)

                tile.part_before = reg.scalar(u32) if group > 1 else None
                ptx.inst.setp.ne.u32(started, 0, 0)
                ptx.mbarrier.wait(k_slot.full, phase)
                ptx.mbarrier.wait(v_slot.full, phase)
                if overlap:
                    step(masked=blocks.masked, first=True)
                with ptx.for_(0, group):
                    if blocks.masked:
                        with ptx.while_(lambda: number < ptx.min(tile.queries.whole, blocks_q)):
                            step(masked=True)
                    with ptx.while_(lambda: number < blocks_q):
                        step(masked=False)
                    if group > 1:
                        number.set(tile.queries.first)
                        ptx.inst.mad.lo.u32(part, tile.queries.first, WARPS, part)
                ptx.mbarrier.arrive(v_slot.empty, pred=leader)
                if overlap:
                    start_last_block()
                    ptx.wgmma.wait_group(1)
                    ptx.mbarrier.arrive(do_ring.slot(before).empty, pred=leader)
                    add_dq(tile)
                    ptx.wgmma.wait_group(0)
                    ptx.mbarrier.arrive(q_ring.slot(before_q).empty, pred=leader)
                ptx.mbarrier.arrive(k_slot.empty, pred=leader)
                phase ^= 1
                if deterministic:
                    terms.count()

                # --- epilogue: dV and dK through shared memory --------------------------------
                ptx.warp.sync()
                key, head, batch = (reg.scalar(u32) for _ in range(3))
                ptx.load(u32, kept_place, vector=4, space="shared", out=[index, key, head, batch])
                for value in dk:
                    ptx.inst.mul.rn.f32(value, value, scale)
                for acc, target in ((dv, dV), (dk, dK)):
                    kit.wgmma_epilogue.through_shared(
                        acc,
                        out,
                        target.tma_desc(),
                        (0, key + half * ROWS),
                        warp=member,
                        leader=leader,
                        beyond=lambda at, head=head, batch=batch: (at, head, batch),
                    )
            ptx.cp.async_.bulk.wait_group(0, pred=leader)
        ptx.ret()

    shape, types = (B, H, S, D, block, sums), {"dtype": dtype, "order": order}
    finish = build_finish(*shape, **types, scale=scale, turned=turned)
    return AttentionBackward(build_prepare(*shape, **types), attention_backward, finish)


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


#: Small problems: options of the inputs, and of the kernels alone.
CASES = [
    ((1, 1, 128, 64), {}, {}),
    ((1, 1, 100, 128), {"causal": True}, {}),
    ((1, 2, 130, 64), {"Sk": 200, "Hk": 1, "dtype": f16}, {"deterministic": True}),
]


def main():
    good = verify(partial(build_attention_backward, ctas=2), CASES)
    torch = hopper()
    if torch is None:
        print("\nThe kernels were not launched: no GPU that runs sm_90a. The simulator has run all of them.")
    else:
        for D in BLOCKS:
            for causal in (False, True):
                backward = build_attention_backward(4, 16, 4096, D, causal=causal)
                measure(torch, backward, 4, 16, 4096, D, causal)
    if not good:
        sys.exit("some results are wrong")
    print("All results are right.")


if __name__ == "__main__":
    main()
