"""Who waits for what: commit and its mbarrier, and the fences when several threads share the work.

mma, cp and shift only start when they are issued.  A commit makes an mbarrier tell when those that its thread
issued before are complete; the fences extend an order among threads to their tensor-memory operations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyptx import InstructionDescriptor, b32, f32, ptx, reg, u64

from .matrices import encoded, integers
from .product import tile_of
from .stage import (
    Case,
    Operand,
    barrier,
    begin,
    cell,
    cells,
    completed,
    end,
    hand_over,
    launched,
    load,
    load_cells,
    multiply,
    operand,
    probe,
    store_cells,
)

_TILE_A, _F16 = tile_of(128, 32, "f16", swizzle="64B")
_TILE_B, _ = tile_of(64, 32, "f16", swizzle="64B")
_IDESC = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32")
_A, _B = operand(_TILE_A, _F16), operand(_TILE_B, _F16)


def _inputs(*matrices: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(encoded(matrix, "f16") for matrix in matrices)


@probe
def commit_covers_all() -> Iterator[Case]:
    """One commit covers everything its thread issued before it: eight mma, on four accumulators.

    The mbarrier receives a single arrival when the last of them is complete. Nothing else is covered: not ld
    or st, and not what another thread issued, which is why the mma and the commit come from the same lane.
    """

    @launched(_A, _B, out=cells(256, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(256, loaded, done)
        a, b = Operand(_TILE_A, A), Operand(_TILE_B, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            for number in range(4):
                multiply(cell(t, column=64 * number), a, b, _IDESC)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(1, 128, 32), integers(2, 64, 32)
    yield Case("", kernel, _inputs(left, right), np.tile(left @ right.T, 4))


@probe
def commit_frees_a_stage() -> Iterator[Case]:
    """A stage of shared memory is handed back by commit: only then may TMA refill it.

    Four slices of K pass through one stage. The loop waits for the data (one phase of `loaded`), issues,
    commits to `read`, and waits for it before the next load: with an arrival instead of the commit TMA would
    overwrite what the mma still reads. Each barrier is used again and again, its phase's parity flips each
    time.
    """
    slices = 4
    tile_a, tile_b = _TILE_A, _TILE_B

    @launched(*(operand(tile, _F16, along=32 * slices) for tile in (tile_a, tile_b)), out=cells(64, f32))
    def kernel(A, B, D):
        loaded, read, done = barrier(), barrier(), barrier()
        t = begin(64, loaded, read, done)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            phase = reg.scalar(b32, init=0)
            with ptx.for_(0, 32 * slices, 32) as k:
                ptx.mbarrier.arrive_expect_tx(loaded, tile_a.nbytes + tile_b.nbytes)
                for matrix in (a, b):
                    matrix.load(loaded, column=k)
                ptx.mbarrier.wait(loaded, phase)
                multiply(t.base, a, b, _IDESC, add=k != 0)
                ptx.tcgen05.commit(read)
                ptx.mbarrier.wait(read, phase)
                phase ^= 1
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(3, 128, 32 * slices), integers(4, 64, 32 * slices)
    yield Case("", kernel, _inputs(left, right), left @ right.T)


@probe
def commit_generic() -> Iterator[Case]:
    """commit to a generic address: the state space is .shared::cluster, or none.

    A shared::cta address is a shared::cluster address too, so the usual form takes a barrier of this CTA as
    it is. Without a state space the operand is a generic 64-bit address.
    """

    @launched(_A, _B, out=cells(64, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(64, loaded, done)
        a, b = Operand(_TILE_A, A), Operand(_TILE_B, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            multiply(t.base, a, b, _IDESC)
            generic = ptx.cvta(ptx.cvt(done.addr, u64), "shared")
            ptx.tcgen05.commit(generic, space=None)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(1, 128, 32), integers(2, 64, 32)
    yield Case("", kernel, _inputs(left, right), left @ right.T)


@probe
def fence_st_to_mma() -> Iterator[Case]:
    """An accumulator written by the threads, added to by an mma of one of them.

    st is not ordered before mma, not even in the same thread. Every thread waits for its stores (wait::st),
    fences (before_thread_sync), meets the others at the barrier; behind it the issuing thread fences
    (after_thread_sync) and multiplies. The fences order, they never wait: it is wait::st that waits.
    """

    @launched(_A, _B, cells(64), out=cells(64, f32))
    def kernel(A, B, C, D):
        loaded, done = barrier(), barrier()
        t = begin(64, loaded, done)
        a, b = Operand(_TILE_A, A), Operand(_TILE_B, B)
        load_cells(t, C)  # ends with wait::st
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            multiply(t.base, a, b, _IDESC, add=True)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(1, 128, 32), integers(2, 64, 32)
    before = np.random.default_rng(3).integers(-99, 100, (128, 64)).astype(np.float32)
    inputs = (*_inputs(left, right), before.view(np.uint32))
    yield Case("", kernel, inputs, left @ right.T + before)


@probe
def fence_two_issuers() -> Iterator[Case]:
    """Two threads issue mma to one accumulator: fences on both sides of the barrier between them.

    Of one thread, mma of the same accumulator and shape run in order without a wait. Those of another thread
    follow them in the same way when it comes behind a synchronization with fences around it: no commit and no
    wait is due between. But each thread commits for itself, so the barrier expects two arrivals.
    """

    @launched(_A, _B, out=cells(64, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(64, loaded, done, arrivals=(1, 2))
        a, b = Operand(_TILE_A, A), Operand(_TILE_B, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            multiply(t.base, a, b, _IDESC)
            ptx.tcgen05.commit(done)
        hand_over()
        with ptx.if_(t.warp == 1), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.wait(loaded, 0)  # the operands are this thread's to read, too
            multiply(t.base, a, b, _IDESC, add=True)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(1, 128, 32), integers(2, 64, 32)
    yield Case("", kernel, _inputs(left, right), 2 * (left @ right.T))


@probe
def mma_to_ld_to_mma() -> Iterator[Case]:
    """Two products, one behind the other: D of the first becomes A of the second, as in attention.

    S = Q @ K.T is waited for (commit, mbarrier), loaded, turned into f16 in registers, stored as A of the
    next product (wait::st), and handed over to the issuing thread, which multiplies it with V. Every arrow
    between the tensor core and the threads has its wait, and its pair of fences.
    """
    tile_q, moved = tile_of(128, 16, "f16", swizzle="32B")
    tile_k, _ = tile_of(32, 16, "f16", swizzle="32B")
    tile_v, _ = tile_of(64, 32, "f16", "MN", "64B")
    first = InstructionDescriptor("f16", 128, 32, "f16", "f16", "f32")
    second = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32", b_major="MN", a_in_tensor_memory=True)
    specs = [operand(tile, moved) for tile in (tile_q, tile_k, tile_v)]

    @launched(*specs, out=cells(64, f32))
    def kernel(Q, K, V, D):
        loaded, scores, done = barrier(), barrier(), barrier()
        t = begin(128, loaded, scores, done)
        q, k, v = Operand(tile_q, Q), Operand(tile_k, K), Operand(tile_v, V)
        s_column, p_column = 64, 96  # D is columns 0 to 63
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, q, k, v)
            multiply(cell(t, column=s_column), q, k, first)
            ptx.tcgen05.commit(scores)
        completed(scores)
        row, halves = reg.array(b32, 32), reg.array(b32, 16)
        ptx.tcgen05.ld(row, ptx.addr(t.mine, s_column))
        for i in range(16):
            ptx.inst.cvt.rn.f16x2.f32(halves[i], row[2 * i + 1].view(f32), row[2 * i].view(f32))
        ptx.tcgen05.st(ptx.addr(t.mine, p_column), halves)
        ptx.tcgen05.wait_st()
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            desc_v = v.descriptor()
            for step in range(0, 32, second.k):
                p = ptx.addr(cell(t, column=p_column + step // 2))
                at_v = ptx.tcgen05.advance(desc_v, tile_v.k_offset(step))
                ptx.tcgen05.mma(t.base, p, at_v, second, pred_operand=step > 0)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    q, k, v = integers(1, 128, 16), integers(2, 32, 16), integers(3, 64, 32)
    inputs = (encoded(q, "f16"), encoded(k, "f16"), encoded(v, "f16", major="MN"))
    yield Case("", kernel, inputs, (q @ k.T).astype(np.float16).astype(np.float64) @ v.T)
