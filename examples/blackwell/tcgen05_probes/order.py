"""Order and waits: commit with an mbarrier, and the fences between threads that share the work.

mma, cp and shift are asynchronous: they complete some time after their issue.  After a commit, an mbarrier
receives an arrival when all such operations that the thread issued before the commit are complete.  The
fences extend an order between threads to the threads' tensor-memory operations.
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
    """One commit covers all mma that its thread issued before: here eight mma, on four accumulators.

    The mbarrier receives a single arrival when the last of the mma is complete. The commit does not cover ld
    and st, and it does not cover operations of another thread. Therefore one lane issues both the mma and the
    commit.
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
    """A commit frees a stage of shared memory: after the commit's arrival, TMA may refill the stage.

    Four slices of K pass through one stage. Each iteration waits for the data (one phase of `loaded`), issues
    the mma, commits to `read`, and waits for `read` before the next load. With an ordinary arrival instead of
    the commit, TMA would overwrite data that the mma is still reading. Every iteration uses the same
    barriers, and the parity of their phases flips each time.
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
    """commit with a generic address: the instruction names .shared::cluster, or no state space.

    A shared::cta address is also a shared::cluster address, so the usual form takes the address of a barrier
    of this CTA without a conversion. Without a state space the operand is a generic 64-bit address.
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
    """st before mma: all threads write an accumulator, and an mma of one thread adds to it.

    st is not ordered before mma, not even in the same thread. Every thread waits for its stores (wait::st),
    executes fence::before_thread_sync, and waits at the barrier. After the barrier the issuing thread
    executes fence::after_thread_sync and issues the mma. The fences only establish an order; the instruction
    that waits is wait::st.
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
    """Two threads issue mma to one accumulator, with a barrier and fences between them.

    If one thread issues several mma of the same shape on one accumulator, they execute in order without a
    wait. The mma of another thread follow in order too, if the two threads synchronize in between with fences
    on both
    sides: the kernel needs no commit and no wait there. But a commit covers only its own thread, so each
        thread commits, and the mbarrier expects two arrivals.
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
            ptx.mbarrier.wait(loaded, 0)  # this thread's mma read the operands too
            multiply(t.base, a, b, _IDESC, add=True)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(1, 128, 32), integers(2, 64, 32)
    yield Case("", kernel, _inputs(left, right), 2 * (left @ right.T))


@probe
def mma_to_ld_to_mma() -> Iterator[Case]:
    """Two products in sequence: D of the first becomes A of the second, as in attention.

    The threads wait for S = Q @ K.T (commit, mbarrier), load it, convert it to f16 in registers, store it as
    A of the next product, and execute wait::st. Then they hand it over to the issuing thread, which
    multiplies it with V. Each time data passes between the tensor core and the threads, the kernel has a wait
    and a pair of fences.
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
