"""Attention for decoding on Hopper: few queries, long caches of K and V, paged or not; bound by memory.

All query heads of a K/V head are rows of one tile of 64, so that K and V are read once.  The blocks of keys
of all sequences and heads stand in one row, and each CTA takes an equal part of it, whatever the lengths::

    sequence, head    |     0, 0     |     0, 1     |  1, 0  |  1, 1  |   ...
    blocks of keys    | o o o o o o o o o o o o o o o o o o o o o o o |
    CTA               |  0     |  1     |  2     |  3     |   ...

With ``together`` heads there are as many such rows, of every so many-th head, and as many CTAs side by side:
they read neighboring heads of the same keys at the same time, which lie in the same pages of memory.

A part may end within a head.  The CTA that has the first block of a head owns it: it waits for the CTAs
that have the other blocks, and adds up what all of them found::

    warp 4, one lane    Q of the head, then its blocks of K and V, through a ring of shared memory
    warps 0..3          S = Q K^T; softmax; O += P V; at the end of a part O, maximum, sum to the workspace
                        first block of a head elsewhere: set this CTA's flag
                        first block here: wait for the flags of the CTAs behind, clear them, combine, store

The rules that make it correct:

* The launch is cooperative: an owner waits for CTAs that must be running.  A part that others continue is the
  last of its CTA, the parts that continue it are the first of theirs: so no wait closes a circle.
* All threads of a CTA have stored their part before a barrier; behind it one thread sets the flag with
  release, the owner's threads read it with acquire, and a barrier passes that on to all of them.
* An owner clears the flags that it has read, so that the next launch begins with zeros.
* Rows of V behind the end of a sequence are overwritten with zeros in shared memory: they may hold anything,
  and 0 * NaN is NaN.  Scores of keys behind the end become -infinity.

Sums: within a part as in ``attention.py``, blocks from the first to the last; parts in the order of CTAs, 32
at a time.  The number of CTAs decides where parts end, and so the last bits; the schedule does not.

Special values: as in ``attention.py``.  A sequence of length 0 gives 0, and -infinity as log-sum-exp.

Run it: ``python examples/hopper/attention_decode.py``.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from attention_reference import cache_inputs as make_inputs
from attention_reference import cache_reference as reference
from attention_reference import hopper, verify

from pyptx import SpecError, Tile, Workspace, b32, bf16, f16, f32, kernel, kit, ptx, reg, s32, smem, u32

__all__ = ["build_decode", "make_inputs", "reference"]

ROWS = 64  # rows of a tile of wgmma
THREADS = 160  # a warpgroup that computes, and a warp that copies
TOGETHER = 8  # parts whose loads are in flight at once while they are combined
#: Bytes of shared memory for the ring of K and V.
RING_BYTES = 192 << 10


def build_decode(
    B,
    H,
    Sk,
    D,
    *,
    Hk=None,
    Sq=1,
    dtype=bf16,
    causal=True,
    window=None,
    scale=None,
    order="bshd",
    page=None,
    pages=None,
    block=64,
    stages=None,
    ctas=132,
    together=None,
    promotion="256B",
):
    """Build the kernel; call it with Q[B, Sq, H, D], K, V, lengths[B] (and a table): O like Q, lse[B, H, Sq].

    K and V are [B, Sk, Hk, D], of which the first ``lengths[b]`` positions count, queries included.  With
    ``page`` they are pools [pages, page, Hk, D], and a table[B, Sk / page] in s32 follows the lengths: the
    page that holds each ``page`` positions of a sequence.  Entries behind the end of a sequence are not read.

    Args:
        B, H, Sk, D: sequences, query heads, most keys of a sequence, elements of a head: 64, 128 or 256.
        Hk: heads of K and V, a divisor of H; default: H.
        Sq: queries of each sequence; with the heads of a group, padded to a power of two, at most 64 rows.
        dtype: bf16 or f16.
        causal: query i sees the keys up to ``length - Sq + i``.
        window: number of keys before its own that a query sees; None for all.
        scale: factor of the scores; default: ``D ** -0.5``.
        order: ``"bshd"``, or ``"bhsd"`` for arrays [B, H, S, D] (and pools [pages, Hk, page, D]).
        page, pages: positions of a page, a multiple of 8 that divides ``block`` or is a multiple of it, and
            number of pages of the pool.
        block: keys of a block, a multiple of 16 up to 256.
        stages: depth of the ring, at least 2; default: as many as fit into 192 KiB.
        ctas: number of CTAs, which must be resident at once; 132 fill an H100 or H200.
        together: number of heads that CTAs side by side work on, a divisor of Hk; default: as many as leave
            each head 8 CTAs or more; 1 with ``"bhsd"``, where the keys of a head are neighbors.
        promotion: granularity of L2 fetches of K and V, as of :class:`pyptx.kit.HeadOperand`.

    Raises:
        SpecError: a combination that is not built.
    """
    if D not in (64, 128, 256):
        raise SpecError(f"D = {D}: expected 64, 128 or 256")
    if dtype not in (bf16, f16):
        raise SpecError(f"dtype is {dtype!r}: expected bf16 or f16")
    Hk = Hk or H
    if min(B, H, Sk, Hk, Sq) < 1 or H % Hk:
        raise SpecError(
            f"B, H, Sk, Hk, Sq = {(B, H, Sk, Hk, Sq)}: expected positive numbers, Hk a divisor of H"
        )
    members = H // Hk
    packed = 1 << (members - 1).bit_length()
    rows = Sq * packed
    if rows > ROWS:
        raise SpecError(
            f"{Sq} queries of {members} heads are {rows} rows: expected at most {ROWS}",
            hint="use examples/hopper/attention.py for more queries",
        )
    if block % 16 or not 16 <= block <= 256:
        raise SpecError(f"block = {block}: expected a multiple of 16 keys, up to 256")
    where = kit.Sequences(B, Sq, Sk, lengths=True, page=page, pages=pages)
    scale = D**-0.5 if scale is None else scale
    blocks = kit.KeyBlocks(block, window, 0 if causal else None)
    stages = max(2, RING_BYTES // (4 * block * D)) if stages is None else stages
    most = B * Hk * -(-Sk // block)
    if together is None:
        most_together = max(1, ctas // 8) if order == "bshd" else 1
        together = max(n for n in range(1, Hk + 1) if Hk % n == 0 and n <= most_together)
    if Hk % together or not 1 <= together <= ctas:
        raise SpecError(f"together = {together}: expected a divisor of the {Hk} heads, at most {ctas} CTAs")
    shares = ctas // together  # CTAs of a row of blocks
    if most * (ctas + 1) >= 1 << 32:
        raise SpecError(
            f"{most} blocks for {ctas} CTAs: their product must be below 2**32", hint="larger blocks"
        )
    if stages < 2:
        raise SpecError(f"stages = {stages}: expected at least 2, since a stage is freed one turn later")
    load_q = kit.HeadOperand(ROWS, D, dtype, order=order, packed=packed)
    load_kv = kit.HeadOperand(block, D, dtype, order=order, piece=where.pieces(block), promotion=promotion)
    cache = load_kv.spec(B, Sk, Hk) if page is None else load_kv.spec(pages, page, Hk)
    shape = (B, Sq, H, D) if order == "bshd" else (B, H, Sq, D)
    each = D // 32  # elements of a row that a lane combines
    of_row = Hk // together  # heads of a row of blocks

    def attention(Q, K, V, arrays, O, LSE, parts, sums, flags):  # noqa: E741
        # --- setup: where each sequence begins in the row of blocks --------------------------
        warp = kit.warp_index()
        lane = ptx.special.laneid()
        cta = ptx.special.ctaid.x()
        me, which = kit.fast_divmod(cta, together)  # this CTA's place in its row of blocks, and the row
        tile_q = load_q.stages(1)
        tile_k, tile_v = load_kv.stages(stages), load_kv.stages(stages)
        begins, sizes = smem.alloc(B + 1, u32), smem.alloc(B, s32)
        q_ring = kit.Ring(1, consumers=4, name="q")
        ring = kit.Ring(stages, consumers=4, name="kv")
        with kit.single_thread(warp, 4):
            q_ring.init()
            ring.init()
            ptx.fence.mbarrier_init()
        with kit.single_warp(warp, 0):
            before = reg.scalar(u32, init=0)
            smem.store(begins.at(0), before, pred=lane == 0)
            with ptx.for_(0, B, 32) as start:
                b = start + lane
                inside = b < B
                size = reg.scalar(s32, init=0)
                ptx.inst.ld.global_.s32(size, arrays["lengths"].at(b), pred=inside)
                found = blocks.of(size - Sq, Sq, size)
                count = ptx.selp((found.end - found.first).view(u32), 0, inside)
                sum_to = ptx.warp.scan(count) + before
                smem.store(begins.at(b + 1), sum_to, pred=inside)
                smem.store(sizes.at(b), size, pred=inside)
                before.set(ptx.warp.shfl_idx(sum_to, 31))
        ptx.bar.sync(0)
        total = smem.load(u32, begins.at(B)) * of_row
        working = ptx.min(total, shares)  # CTAs that have blocks
        first, end = me * total // working, (me + 1) * total // working
        end = ptx.selp(end, first, me < working)

        def parts_of_heads(body):
            """Record ``body`` for each head, of which this CTA has some blocks."""
            low, high = reg.scalar(u32, init=0), reg.scalar(u32, init=B)
            # The last sequence that begins at or before this CTA's first block.
            with ptx.while_(lambda: high - low > 1):
                middle = (low + high) >> 1
                below = smem.load(u32, begins.at(middle)) * of_row <= first
                low.set(ptx.selp(middle, low, below))
                high.set(ptx.selp(high, middle, below))
            at = reg.scalar(u32, init=first)
            with ptx.while_(lambda: at < end):
                part = SimpleNamespace(batch=low)
                begin, behind = (smem.load(u32, begins.at(low + i)) for i in range(2))
                part.keys = smem.load(s32, sizes.at(low))
                head, part.first = kit.fast_divmod(at - begin * of_row, behind - begin)
                part.head = head * together + which
                rest = behind - begin - part.first  # blocks of the head from here on
                part.count = ptx.min(rest, end - at)
                part.last = at + rest - 1  # the head's last block in the row of all blocks
                part.range = blocks.of(part.keys - Sq, Sq, part.keys)
                part.block = part.range.first + part.first.view(s32)
                body(part)
                at += part.count
                low.set(ptx.selp(low + 1, low, at == behind * of_row))

        # --- producer: one lane of warp 4 ----------------------------------------------------
        with kit.single_thread(warp, 4):
            to_q, to_kv = q_ring.producer(), ring.producer()

            def copy(part):
                slot = to_q.acquire()
                ptx.mbarrier.arrive_expect_tx(slot.full, load_q.nbytes)
                place = {"batch": part.batch, "mbar": slot.full}
                load_q.load(tile_q[0], Q, position=0, head=part.head * members, **place)
                to_q.advance()
                key = reg.scalar(s32)
                key.set(part.block * block)
                with ptx.for_(0, part.count):
                    slot = to_kv.acquire()
                    ptx.mbarrier.arrive_expect_tx(slot.full, 2 * load_kv.nbytes)
                    where.load(
                        load_kv,
                        ((tile_k[slot.index], K), (tile_v[slot.index], V)),
                        arrays,
                        sequence=kit.Sequence(part.batch, Sq, part.keys, 0, 0, part.batch),
                        key=key,
                        head=part.head,
                        mbar=slot.full,
                    )
                    to_kv.advance()
                    key += block

            parts_of_heads(copy)

        # --- consumers: warps 0 to 3 ---------------------------------------------------------
        with kit.thread_group(warp, 0, 128):
            leader = ptx.warp.elect()
            thread = ptx.special.tid.x()
            s, o = ptx.wgmma.accumulator(n=block), ptx.wgmma.accumulator(n=D)
            p = [ptx.wgmma.fragment(dtype) for _ in range(block // 16)]
            softmax = kit.OnlineSoftmax(s, scale=scale)
            q_steps = load_q.descriptors(tile_q[0]).steps()
            desc_k, desc_v = load_kv.descriptors(tile_k[0]), load_kv.descriptors(tile_v[0], "MN")
            from_q, from_kv, read = q_ring.consumer(), ring.consumer(), ring.consumer()
            row = warp * 16 + (lane >> 2)
            column = (lane & 3) * 2

            def compute(part):
                softmax.reset()
                for value in o:
                    ptx.inst.mov.f32(value, 0.0)
                from_q.acquire()
                places = [((row + 8 * i) // packed).view(s32) + (part.keys - Sq) for i in range(2)]
                number = reg.scalar(s32)
                number.set(part.block)
                with ptx.for_(0, part.count) as turn:
                    slot = from_kv.acquire()
                    ptx.wgmma.fence()
                    for i, (a, b) in enumerate(zip(q_steps, desc_k.steps(slot.index), strict=True)):
                        ptx.wgmma.mma_async(s, a, b, atype=dtype, scale_d=i > 0)
                    ptx.wgmma.commit_group()
                    ptx.wgmma.wait_group(0)
                    # The products into O of the turn before have completed, too.
                    with ptx.if_(turn > 0):
                        read.release(pred=leader)
                    cut = (number < part.range.whole_first) | (number >= part.range.whole_end)
                    with ptx.if_(cut):
                        key = number * block
                        blocks.mask(s, places, key, part.keys, column.view(s32))
                        valid = ptx.min(ptx.max(part.keys - key, 0), block).view(u32)
                        load_kv.clear(tile_v[slot.index], valid, thread=thread, threads=128)
                        ptx.fence.proxy_async("shared::cta")
                        ptx.bar.sync(1, 128)
                    softmax.block(masked=True)
                    softmax.rescale(o)
                    kit.a_fragments(s, dtype, out=p)
                    ptx.wgmma.fence()
                    for a, b in zip(p, desc_v.steps(slot.index), strict=True):
                        ptx.wgmma.mma_async(o, a, b, trans_b=True)
                    ptx.wgmma.commit_group()
                    from_kv.advance()
                    number += 1
                ptx.wgmma.wait_group(0)
                read.release(pred=leader)
                from_q.release(pred=leader)
                hand_over(part)

            def hand_over(part):
                """Store this CTA's part of a head; the owner of the head waits for all parts."""
                softmax.add_lanes()
                owner = part.first == 0
                slot = ptx.selp(cta * 2 + 1, cta * 2, owner)
                ptx.bar.sync(1, 128)  # all warps have read what this CTA stored before
                for below in range(2):
                    mine = row + 8 * below
                    with ptx.if_(mine < rows):
                        place = slot * rows + mine
                        for i in range(2 * below, o.elements, 4):
                            ptx.store(
                                parts.at(place * D + column + o.column(i)), o[i : i + 2], space="global"
                            )
                        pair = (softmax.maximum[below], softmax.total[below])
                        ptx.store(sums.at(place * 2), pair, space="global", pred=lane & 3 == 0)
                ptx.bar.sync(1, 128)
                with ptx.if_(owner):
                    last = ((part.last + 1) * working - 1) // total  # the CTA that has the last block
                    with ptx.for_(me + 1 + thread, last + 1, 128) as other:
                        with ptx.loop() as polling:
                            flag = ptx.load(u32, flag_of(other), space="global", sem="acquire", scope="gpu")
                            polling.break_(flag != 0)
                        ptx.store(flag_of(other), 0, u32, space="global", sem="relaxed", scope="gpu")
                    ptx.bar.sync(1, 128)
                    combine(part, last - me + 1)
                with ptx.else_(), ptx.if_(thread == 0):
                    ptx.store(flags.at(cta), 1, u32, space="global", sem="release", scope="gpu")

            def flag_of(place):
                return flags.at(place * together + which)

            def combine(part, count):
                """Add up the parts of a head: a warp for each row, ``each`` neighbors of it in a lane."""

                def slot_of(number):
                    return ptx.selp((cta + number * together) * 2, cta * 2 + 1, number != 0) * rows

                with ptx.for_(warp, rows, 4) as mine:
                    top, whole = reg.scalar(f32, init=-math.inf), reg.scalar(f32, init=0.0)
                    out = reg.array(f32, each, init=0.0)
                    with ptx.for_(0, count, 32) as start:
                        number = start + lane
                        maximum, part_sum = reg.scalar(f32, init=-math.inf), reg.scalar(f32, init=0.0)
                        place = sums.at((slot_of(number) + mine) * 2)
                        ptx.inst.ld.global_.v2.f32((maximum, part_sum), place, pred=number < count)
                        new = ptx.max(top, ptx.warp.reduce(maximum, "max"))
                        safe = ptx.selp(0.0, new, new == -math.inf)
                        weight = ptx.ex2((maximum - safe) * softmax.base2, ftz=True)
                        old = ptx.ex2((top - safe) * softmax.base2, ftz=True)
                        ptx.inst.fma.rn.f32(whole, whole, old, ptx.warp.reduce(weight * part_sum))
                        for value in out:
                            value *= old
                        for some in range(0, 32, TOGETHER):
                            with ptx.if_(start + some < count):
                                terms = []
                                for i in range(some, some + TOGETHER):
                                    term = reg.array(f32, each, init=0.0)
                                    place = (slot_of(start + i) + mine) * D + lane * each
                                    for k in range(0, each, 4):
                                        ptx.load(
                                            f32,
                                            parts.at(place + k),
                                            space="global",
                                            vector=min(each, 4),
                                            out=term[k : k + 4],
                                            pred=start + i < count,
                                        )
                                    terms.append(term)
                                for i, term in enumerate(terms):
                                    factor = ptx.warp.shfl_idx(weight, some + i)
                                    for value, other in zip(out, term, strict=True):
                                        ptx.inst.fma.rn.f32(value, other, factor, value)
                        top.set(new)
                    store(part, mine, top, whole, out)

            def store(part, mine, top, whole, out):
                """Store a row of O, divided by its sum, and its log-sum-exp."""
                empty = whole == 0.0
                inverse = ptx.selp(0.0, ptx.rcp(whole, rounding="approx", ftz=True), empty)
                lse = ptx.lg2(whole, ftz=True) * math.log(2)
                ptx.inst.fma.rn.f32(lse, top, scale, lse)
                lse = ptx.selp(-math.inf, lse, empty)
                position, member = kit.fast_divmod(mine, packed)
                with ptx.if_(member < members):
                    head = part.head * members + member
                    words = reg.array(b32, each // 2)
                    convert = ptx.inst.cvt.rn
                    round_pair = convert.bf16x2.f32 if dtype is bf16 else convert.f16x2.f32
                    for i, word in enumerate(words):
                        low, high = (out[2 * i + k] * inverse for k in range(2))
                        round_pair(word, high, low)  # the first source is the upper half
                    at = (part.batch, position, head) if order == "bshd" else (part.batch, head, position)
                    stored = words if len(words) > 1 else words[0]
                    ptx.store(O.at(*at, lane * each), stored, space="global")
                    ptx.store(LSE.at(part.batch, head, position), lse, space="global", pred=lane == 0)

            parts_of_heads(compute)
        ptx.ret()

    if page is None:

        def decode(Q, K, V, lengths, O, LSE, parts, sums, flags):  # noqa: E741
            attention(Q, K, V, {"lengths": lengths}, O, LSE, parts, sums, flags)
    else:

        def decode(Q, K, V, lengths, table, O, LSE, parts, sums, flags):  # noqa: E741
            attention(Q, K, V, {"lengths": lengths, "table": table}, O, LSE, parts, sums, flags)

    return kernel(
        in_specs=(load_q.spec(B, Sq, H), cache, cache, *where.specs),
        out_specs=(Tile(*shape, dtype), Tile(B, H, Sq, f32)),
        workspaces=(
            Workspace(2 * ctas * rows * D * 4, f32),
            Workspace(2 * ctas * rows * 2 * 4, f32),
            Workspace(ctas * 4, u32, zeroed=True),
        ),
        grid=(shares * together,),
        block=(THREADS,),
        arch="sm_90a",
        extern_smem=True,
        cooperative=True,
    )(decode)


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------

#: Small problems: several CTAs of a head, heads that end within a CTA, pages, several queries, no keys.
CASES = [
    ((1, 4, 200, 64), {"Hk": 1}, {"ctas": 3, "block": 32}),
    ((3, 2, 96, 128), {"Hk": 1, "lengths": (96, 0, 33)}, {"ctas": 5, "block": 32}),
    ((2, 6, 160, 64), {"Hk": 2, "Sq": 3, "dtype": f16, "lengths": (160, 77)}, {"ctas": 4, "block": 32}),
    ((2, 2, 128, 64), {"lengths": (128, 50), "page": 16, "pages": 19}, {"ctas": 3, "block": 32}),
]


def measure(torch, B, H, Sk, D, Hk, protocol="burst", **options):
    """Time the kernel beside torch's attention; the work is to read K and V once."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from pyptx import bench

    decode = build_decode(B, H, Sk, D, Hk=Hk, **options)
    lengths = torch.full((B,), Sk, dtype=torch.int32, device="cuda")

    def inputs(copy):
        heads = ((1, H), (Sk, Hk), (Sk, Hk))
        return tuple(torch.randn(B, *shape, D, device="cuda", dtype=torch.bfloat16) for shape in heads)

    def library(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                parts = (x.transpose(1, 2) for x in (q, k, v))
                found = torch.nn.functional.scaled_dot_product_attention(*parts, enable_gqa=True)
                return found.transpose(1, 2)

        return run

    result = bench(
        {
            "cuDNN": library(SDPBackend.CUDNN_ATTENTION),
            "torch": library(SDPBackend.FLASH_ATTENTION),
            "pyptx": lambda q, k, v: decode(q, k, v, lengths)[0],
        },
        inputs,
        reference=library(SDPBackend.FLASH_ATTENTION),
        rtol=2.0**-6,
        atol=2.0**-9,
        bytes=4 * B * Sk * Hk * D,
        protocol=protocol,
    )
    print(f"\nB{B}, {H} heads on {Hk}, {Sk} keys, D{D}")
    result.show()
    return result


def main():
    good = verify(build_decode, CASES, make_inputs, reference)
    torch = hopper()
    if torch is None:
        print("\nThe kernel was not launched: no GPU that runs sm_90a. The simulator has run all of it.")
    else:
        measure(torch, 64, 32, 8192, 128, 8)
        measure(torch, 1, 32, 131072, 128, 8)
    if not good:
        sys.exit("some results are wrong")
    print("All results are right.")


if __name__ == "__main__":
    main()
