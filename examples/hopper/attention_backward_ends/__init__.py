"""What stands around the main kernel of attention's backward: checks, a kernel before it, one behind it.

Both are bound by memory. ``prepare`` reads O and dO once and writes two numbers for each query; ``finish``
reads the f32 sums of dQ in the order of registers and writes dQ through shared memory by TMA.  Sums: eight
neighbors of a row in order in each thread, then the threads of the row as a tree.
"""

from __future__ import annotations

import math

import numpy as np

from pyptx import SpecError, Tile, bf16, f16, f32, kernel, kit, ptx, reg, smem, u32

THREADS = 256
SHARED_BYTES = 226 << 10  # of tiles in a CTA; barriers and places have the rest
KEYS = 128  # of a block
SPREAD = 16  # queries whose numbers lie in the order in which lanes need them
VECTOR = 8  # elements of 16 bits in a load of 16 bytes
#: Head dim: blocks up to so many queries leave registers for an overlap.
MOST = {64: ((96, 3), (math.inf, 1)), 128: ((48, 4), (64, 3), (math.inf, 0))}
MINUS_INFINITY = float("-inf")


def choose(D, block, overlap, rounded, tight, staged):
    """Return what the backward was given, with defaults for None: block, overlap and whether P is rounded.

    ``tight`` says that registers are short: for sums in order, or for keys that end within a block.  Sums
    that warps add, not ``staged``, take some for addresses.

    Raises:
        SpecError: another head dim.
    """
    if D not in MOST:
        raise SpecError(f"D = {D}: expected 64 or 128")
    block = block or {64: 96, 128: 64}[D]
    if overlap is None:
        overlap = next(level for most, level in MOST[D] if block <= most)
        if tight:
            overlap = min(overlap, 1 if staged or D == 64 else 0)
    return block, overlap, overlap == 3 if rounded is None else rounded


def check_options(B, H, S, D, Sk, Hk, dtype, block, overlap, stages, ds_stages, store_at):
    """Raise SpecError for a combination of options of the backward that is not built."""
    if min(B, H, S, Sk, Hk) < 1 or H % Hk:
        raise SpecError(
            f"B, H, S, Sk, Hk = {(B, H, S, Sk, Hk)}: expected positive numbers, Hk a divisor of H"
        )
    if dtype not in (bf16, f16):
        raise SpecError(f"dtype is {dtype!r}: expected bf16 or f16")
    if block % (2048 // D) or not 0 < block <= 128:
        raise SpecError(f"block = {block}: expected a multiple of {2048 // D} queries, up to 128")
    if stages < 2 or ds_stages not in (1, stages):
        raise SpecError(f"stages = {stages}, ds_stages = {ds_stages}: expected at least 2, and 1 or as many")
    if overlap not in (0, 1, 2, 3, 4):
        raise SpecError(f"overlap = {overlap}: expected 0 to 4")
    if not 0 <= store_at <= 1:
        raise SpecError(f"store_at = {store_at}: expected a part, 0 to 1")


def most_ds_stages(D, block, stages):
    """Return ``stages`` if dS can have as many beside all other tiles in shared memory, else 1."""
    rows = 2 * KEYS + 2 * stages * block + 2 * block  # of D elements of 16 bits: K, V, Q, dO; dQ in f32
    more = stages * block * KEYS + KEYS * 64 + 4 * stages * block  # dS, staging of dK and dV, delta and LSE
    return stages if 2 * (rows * D + more) <= SHARED_BYTES else 1


def check_room(nbytes):
    """Raise SpecError if the tiles of the main kernel do not fit into shared memory."""
    if nbytes > SHARED_BYTES:
        raise SpecError(
            f"{nbytes} bytes of tiles in shared memory: expected up to {SHARED_BYTES}; take a smaller "
            "block, or fewer stages"
        )


class AttentionBackward:
    """The three kernels. Call it with Q, K, V, O, the log-sum-exp and dO; it returns dQ, dK and dV.

    Attributes:
        prepare, main, finish: the kernels, in this order.
    """

    def __init__(self, prepare, main, finish):
        self.prepare, self.main, self.finish = prepare, main, finish

    def __call__(self, q, k, v, o, lse, do):
        """Launch the kernels on tensors of torch."""
        minus_lse, minus_delta, sums, counts = self.prepare(o, do, lse)
        outputs = (k.new_empty(k.shape), v.new_empty(v.shape), sums, counts)
        dk, dv, *_ = self.main(q, k, v, do, minus_lse, minus_delta, out=outputs)
        return self.finish(sums), dk, dv

    def simulate(self, q, k, v, o, lse, do, **options):
        """Run the kernels in the simulator one after the other. Return the gradients, and three reports."""
        first = self.prepare.simulate(o, do, lse, **options)
        minus_lse, minus_delta, sums, counts = first.outputs
        outputs = (np.full_like(k, np.nan), np.full_like(v, np.nan), sums, counts)
        main = self.main.simulate(q, k, v, do, minus_lse, minus_delta, out=outputs, **options)
        last = self.finish.simulate(main.outputs[2], **options)
        return (last.outputs[0], *main.outputs[:2]), (first, main, last)

    def assemble(self):
        """Assemble the kernels. Return three reports of the assembler."""
        return [kernel.assemble() for kernel in (self.prepare, self.main, self.finish)]


def build_prepare(B, H, S, D, block, sums, *, dtype, order):
    """Build the first kernel: call it with O and dO, like Q, and lse[B, H, S] in f32.

    The outputs are, for whole blocks of queries, ``-lse * log2(e)`` (-infinity where lse is, and behind the
    end) and ``-sum(dO * O)`` (0 behind the end), then the sums of dQ and a counter for each part of them, all
    set to 0.  Of 16 queries a lane of the main kernel has numbers 2n, 2n + 1, 2n + 8 and 2n + 9, which lie
    one behind the other.
    """
    blocks = -(-S // block)
    threads = D // VECTOR  # of a row
    at_once = THREADS // threads
    given = Tile(B, S, H, D, dtype) if order == "bshd" else Tile(B, H, S, D, dtype)
    numbers = Tile(B, H, blocks * block, f32)

    @kernel(
        in_specs=(given, given, Tile(B, H, S, f32)),
        out_specs=(numbers, numbers, sums.spec(B, H, blocks), Tile(B, H, blocks, sums.warps, u32)),
        grid=(blocks, H, B),
        block=THREADS,
        arch="sm_90a",
    )
    def prepare(O, dO, LSE, NEG_LSE, NEG_DELTA, SUMS, COUNTS):  # noqa: E741
        tid = ptx.special.tid.x()
        number, head, batch = (ptx.special.ctaid.x(), ptx.special.ctaid.y(), ptx.special.ctaid.z())
        piece, first = tid % threads, tid // threads
        one, loaded = piece == 0, []
        own = first % SPREAD
        place = first - own + ((own & 7) >> 1) * 4 + (own >> 3) * 2 + (own & 1)
        for row in range(0, block, at_once):
            position = number * block + (first + row)
            inside = position < S
            outer = (position, head) if order == "bshd" else (head, position)
            words = [
                kit.load_words(x.at(batch, *outer, piece * VECTOR), VECTOR, dtype, inside=inside)
                for x in (O, dO)
            ]
            lse = reg.scalar(f32, init=MINUS_INFINITY)
            ptx.load(f32, LSE.at(batch, head, position), space="global", out=lse, pred=one & inside)
            loaded.append((number * block + (place + row), words, lse))
        zeros = [reg.scalar(u32, init=0) for _ in range(4)]
        for at in range(0, block * D, THREADS * 4):
            ptx.store(SUMS.at(batch, head, number, 0, tid * 4 + at), zeros, space="global")
        counter = COUNTS.at(batch, head, number, tid)
        ptx.store(counter, zeros[0], space="global", pred=tid < sums.warps)
        for position, words, lse in loaded:
            total = reg.scalar(f32, init=0.0)
            for x, y in zip(*(kit.to_f32(each, dtype) for each in words), strict=True):
                ptx.inst.fma.rn.f32(total, x, y, total)
            for step in (1 << i for i in range(threads.bit_length() - 1)):
                total += ptx.warp.shfl_bfly(total, step)
            scaled = reg.scalar(f32)
            ptx.inst.mul.rn.f32(scaled, lse, -math.log2(math.e))
            ptx.inst.mov.f32(scaled, MINUS_INFINITY, pred=lse == MINUS_INFINITY)
            ptx.store(NEG_LSE.at(batch, head, position), scaled, space="global", pred=one)
            ptx.store(NEG_DELTA.at(batch, head, position), -total, space="global", pred=one)
        ptx.ret()

    return prepare


def build_finish(B, H, S, D, block, sums, *, dtype, order, scale, turned):
    """Build the last kernel: call it with the sums of dQ; the output is dQ, scaled and rounded.

    A warpgroup has all of D = 64 for half of a block's queries, or half of D = 128 for all of them; the 64
    queries, or with ``turned`` the 64 elements, are the rows of its accumulator.
    """
    blocks = -(-S // block)
    load = kit.HeadOperand(block, D, dtype, order=order)
    rows = sums.columns if turned else kit.wgmma_epilogue.ROWS  # of a box

    @kernel(
        in_specs=(sums.spec(B, H, blocks),),
        out_specs=(load.stored(B, S, H, rows),),
        grid=(blocks, H, B),
        block=32 * sums.warps,
        arch="sm_90a",
    )
    def finish(SUMS, dQ):
        warp = kit.warp_index()
        number, head, batch = (ptx.special.ctaid.x(), ptx.special.ctaid.y(), ptx.special.ctaid.z())
        leader, half = ptx.warp.elect(), warp >> 2
        dq = sums.load(SUMS.at(batch, head, number, warp, 0).base)
        for value in dq:
            ptx.inst.mul.rn.f32(value, value, scale)
        column, row = (0, number * block + half * (block // 2)) if D == 64 else (half * 64, number * block)
        if turned:
            out = smem.alloc((rows, load.width), dtype, swizzle="128B", stages=2)[half]
            kit.TransposedStore(warp & 3).store(kit.a_fragments(dq, dtype), out)
            ptx.fence.proxy_async("shared::cta")
            ptx.bar.sync(half + 1, 128)
            with ptx.if_(warp & 3 == 0), ptx.if_(leader):
                ptx.cp.async_.bulk.tensor_4d(dst=dQ.tma_desc(), src=out, coord=(column, row, head, batch))
                ptx.cp.async_.bulk.commit_group()
        else:
            out = smem.alloc((sums.warps * rows, load.width), dtype, swizzle="128B", stages=1)
            kit.wgmma_epilogue.through_shared(
                dq,
                out,
                dQ.tma_desc(),
                (column, row),
                warp=warp,
                leader=leader,
                beyond=lambda at: (at, head, batch),
            )
        kit.wgmma_epilogue.settle(leader)
        ptx.ret()

    return finish
