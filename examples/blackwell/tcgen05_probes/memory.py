"""Tensor memory and registers: allocation, ld and st of every shape, and the purpose of the waits.

Tensor memory has 128 lanes and 512 columns of 32-bit cells; an address has the lane in its upper 16 bits and
the column in its lower 16 bits.  These probes do not multiply: threads write cells and read them back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyptx import Tile, b32, f32, ptx, reg, smem

from .stage import (
    Case,
    barrier,
    begin,
    cells,
    completed,
    end,
    hand_over,
    launched,
    load_cells,
    probe,
    store_cells,
    store_registers,
    store_row,
)

#: Shape -> function of (thread t of a warp, register i) that gives the cell of the register: its lane and
#: column, relative to the instruction's address.
PLACES = {
    "32x32b": lambda t, i: (t, i),
    "16x64b": lambda t, i: (t // 4 + 8 * (t % 2), 2 * i + t // 2 % 2),
    "16x128b": lambda t, i: (t // 4 + 8 * (i % 2), 4 * (i // 2) + t % 4),
    "16x256b": lambda t, i: (t // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2),
    "16x32bx2": lambda t, i: (t % 16, i + SPLIT * (t // 16)),
}
#: Columns between the two halves of 16x32bx2.
SPLIT = 20
_REGISTERS = 8


def numbered(columns: int) -> np.ndarray:
    """Return cells whose values encode their position: 1000 * lane + column."""
    return (1000 * np.arange(128)[:, None] + np.arange(columns)).astype(np.uint32)


def placed(shape: str, thread: int, register: int, part: int = 0, each: int = 1) -> tuple[int, int]:
    """Return the cell (lane, column) that a register of one of the CTA's 128 threads accesses.

    With ``each`` = 2 (pack::16b, unpack::16b) a register accesses two columns: ``part`` selects one.
    """
    lane, column = PLACES[shape](thread % 32, register)
    if shape == "16x32bx2":
        shift = SPLIT * (thread % 32 // 16)
        return lane + thread // 32 * 32, each * (column - shift) + part + shift
    return lane + thread // 32 * 32, each * column + part


@probe
def alloc() -> Iterator[Case]:
    """alloc, relinquish_alloc_permit, dealloc: five allocations share all 512 columns.

    One warp allocates 256, 128, 64, 32 and 32 columns. The manual requires powers of two, and no allocation
    larger than the one before it. The hardware chooses the columns of each allocation, so the kernel only
    checks that the allocations do not overlap: while all of them exist, it fills each with a number of its
    own, and then reads them back. After the last allocation the warp gives up the permit, so that another CTA
    of the multiprocessor can allocate; dealloc does not need the permit. A kernel must free all columns
    before it ends.
    """
    sizes = (256, 128, 64, 32, 32)

    @launched(out=cells(len(sizes) * 2))
    def kernel(D):
        tid = ptx.special.tid.x()
        warp = tid >> 5
        slots = smem.alloc(len(sizes), b32)
        with ptx.if_(warp == 0):
            for i, size in enumerate(sizes):
                ptx.tcgen05.alloc(slots.at(i), size)
            ptx.tcgen05.relinquish_alloc_permit()
        hand_over()
        found = [smem.load(b32, slots.at(i)) for i in range(len(sizes))]
        mine = [ptx.tcgen05.address(base, lane=warp << 5) for base in found]
        for i, size in enumerate(sizes):
            number = reg.scalar(b32, init=100 + i)
            for column in range(0, size, 16):
                ptx.tcgen05.st(ptx.addr(mine[i], column), [number] * 16)
            ptx.tcgen05.wait_st()
        row = D.ptr + 0
        ptx.inst.mad.wide.u32(row, tid, 4 * D.shape[1], row)
        for i, size in enumerate(sizes):
            ends = reg.array(b32, 2)
            ptx.tcgen05.ld(ends[:1], mine[i])
            ptx.tcgen05.ld(ends[1:], ptx.addr(mine[i], size - 1))
            ptx.tcgen05.wait_ld()
            store_row(row, ends, 2 * i)
        hand_over()
        with ptx.if_(warp == 0):
            for base, size in zip(found, sizes, strict=True):
                ptx.tcgen05.dealloc(base, size)

    yield Case("", kernel, (), np.tile(np.repeat(100 + np.arange(len(sizes)), 2), (128, 1)))


@probe
def alloc_again() -> Iterator[Case]:
    """dealloc and alloc in turn: a kernel can allocate columns again after it freed them.

    The kernel allocates, fills, reads and frees all 512 columns three times. A barrier with tcgen05 fences
    around it ends each round, because a warp may free columns only after all threads have completed their
    accesses to them. Each round uses the address that its own alloc returned. The warp keeps the permit,
    because it allocates again.
    """
    rounds = 3

    @launched(out=cells(rounds))
    def kernel(D):
        tid = ptx.special.tid.x()
        warp = tid >> 5
        slot = smem.alloc(1, b32)
        words = reg.array(b32, rounds)
        for number in range(rounds):
            with ptx.if_(warp == 0):
                ptx.tcgen05.alloc(slot, 512)
            hand_over()
            base = smem.load(b32, slot)
            mine = ptx.tcgen05.address(base, lane=warp << 5, column=511)
            ptx.tcgen05.st(mine, [tid * 10 + number])
            ptx.tcgen05.wait_st()
            ptx.tcgen05.ld(words[number : number + 1], mine)
            ptx.tcgen05.wait_ld()
            hand_over()
            with ptx.if_(warp == 0):
                ptx.tcgen05.dealloc(base, 512)
        row = D.ptr + 0
        ptx.inst.mad.wide.u32(row, tid, 4 * rounds, row)
        for number in range(rounds):
            ptx.store(ptx.addr(row, 4 * number), words[number], space="global")

    yield Case("", kernel, (), 10 * np.arange(128)[:, None] + np.arange(rounds))


def _registers(shape: str, count: int) -> int:
    """Return N of the modifier .xN with which an instruction of this shape has ``count`` registers."""
    return count // {"16x128b": 2, "16x256b": 4}.get(shape, 1)


@probe
def ld_shapes() -> Iterator[Case]:
    """tcgen05.ld of every shape: the cell that each register of each thread receives.

    With 32x32b, thread t reads lane t, one column for each register. The other shapes read 16 lanes. 16x256b
    gives the fragment of an mma accumulator, 16x128b the fragment of stmatrix. 16x64b divides a lane between
    two threads; odd threads have lanes 8 to 15. 16x32bx2 reads the same 16 lanes twice: the upper half of the
    warp reads a constant number of columns further on. Warp w can access only lanes 32w to 32w+31, and all
    its threads pass the same address.
    """
    for shape in PLACES:

        @launched(cells(64), out=cells(_REGISTERS))
        def kernel(C, D, *, shape=shape):
            t = begin(64)
            load_cells(t, C)
            words = reg.array(b32, _REGISTERS)
            split = SPLIT if shape == "16x32bx2" else None
            count = _registers(shape, _REGISTERS)
            ptx.tcgen05.ld(words, t.mine, shape=shape, count=count, half_split=split)
            ptx.tcgen05.wait_ld()
            store_registers(t, D, words)
            end(t)

        source = numbered(64)
        expected = [[source[placed(shape, t, i)] for i in range(_REGISTERS)] for t in range(128)]
        yield Case(shape, kernel, (source,), np.array(expected))


@probe
def ld_pack() -> Iterator[Case]:
    """tcgen05.ld.pack::16b: a register receives the low halves of two neighboring columns.

    Each element of a 16-bit D takes the low half of a whole cell. pack::16b halves the number of registers
    that a load of D needs: register i receives the columns that registers 2i and 2i+1 receive without
    pack::16b.
    """
    for shape in PLACES:

        @launched(cells(64), out=cells(_REGISTERS))
        def kernel(C, D, *, shape=shape):
            t = begin(64)
            load_cells(t, C)
            words = reg.array(b32, _REGISTERS)
            split = SPLIT if shape == "16x32bx2" else None
            count = _registers(shape, _REGISTERS)
            ptx.tcgen05.ld(words, t.mine, shape=shape, count=count, pack=True, half_split=split)
            ptx.tcgen05.wait_ld()
            store_registers(t, D, words)
            end(t)

        source = numbered(64)

        def packed(t: int, i: int, shape=shape, source=source) -> int:
            low, high = (int(source[placed(shape, t, i, part, 2)]) & 0xFFFF for part in (0, 1))
            return low | high << 16

        expected = [[packed(t, i) for i in range(_REGISTERS)] for t in range(128)]
        yield Case(shape, kernel, (source,), np.array(expected))


@probe
def st_shapes() -> Iterator[Case]:
    """tcgen05.st of every shape, and unpack::16b: a store writes its own cells and no others.

    st is the reverse of ld. Every thread stores eight registers, with the values 100 * thread + register,
    into cells that hold other values. With unpack::16b a register fills two neighboring columns: each cell
    gets 16 bits, and zeros in its upper half. The threads execute wait::st before they read, because only
    wait::st orders a later load after the store.
    """
    for shape in PLACES:
        for unpack in (False, True):

            @launched(cells(64), out=cells(64))
            def kernel(C, D, *, shape=shape, unpack=unpack):
                t = begin(64)
                load_cells(t, C)
                words = reg.array(b32, _REGISTERS)
                for i in range(_REGISTERS):
                    ptx.inst.mad.lo.u32(words[i], t.row, 100 + (100 << 16), i + (i << 16))
                split = SPLIT if shape == "16x32bx2" else None
                count = _registers(shape, _REGISTERS)
                ptx.tcgen05.st(t.mine, words, shape=shape, count=count, unpack=unpack, half_split=split)
                ptx.tcgen05.wait_st()
                store_cells(t, D)
                end(t)

            source = numbered(64)
            expected = source.copy()
            for thread in range(128):
                for i in range(_REGISTERS):
                    half = 100 * thread + i
                    if unpack:
                        for part in (0, 1):
                            expected[placed(shape, thread, i, part, 2)] = half
                    else:
                        expected[placed(shape, thread, i)] = half | half << 16
            label = f"{shape}{' unpack' if unpack else ''}"
            yield Case(label, kernel, (source,), expected)


@probe
def lane_quarters() -> Iterator[Case]:
    """The lanes that a warp can access: 32 * (warp % 4) to 32 * (warp % 4) + 31.

    Eight warps read tensor memory together. Warps w and w+4 can access the same quarter of the lanes, so each
    of the two reads half of the columns. An epilogue of two warpgroups shares one accumulator in this way.
    """

    @launched(cells(64), out=Tile(256, 32, b32), block=(256,))
    def kernel(C, D):
        t = begin(64)
        with ptx.if_(t.warp < 4):
            load_cells(t, C)
        hand_over()
        words = reg.array(b32, 32)
        half = t.warp >> 2
        ptx.tcgen05.ld(words, ptx.tcgen05.address(t.mine, column=half << 5))
        ptx.tcgen05.wait_ld()
        store_registers(t, D, words)
        end(t)

    source = numbered(64)
    yield Case("", kernel, (source,), np.concatenate([source[:, :32], source[:, 32:]]))


@probe
def wait_st() -> Iterator[Case]:
    """tcgen05.wait::st: a thread knows that a store is complete only after wait::st.

    st is asynchronous. Without wait::st, the hardware may execute two stores to the same cells and a load
    after them in any order. The kernel increments cells in place four times: load, add one, store, wait.
    """

    @launched(cells(8), out=cells(8))
    def kernel(C, D):
        t = begin(32)
        load_cells(t, C)
        words = reg.array(b32, 8)
        for _ in range(4):
            ptx.tcgen05.ld(words, t.mine)
            for word in words:
                word += 1  # in place: the same register
            ptx.tcgen05.st(t.mine, words)
            ptx.tcgen05.wait_st()
        store_cells(t, D)
        end(t)

    source = numbered(8)
    yield Case("", kernel, (source,), source + np.uint32(4))


@probe
def wait_ld() -> Iterator[Case]:
    """tcgen05.wait::ld: loads must be complete before another thread may overwrite or free the cells.

    A thread may use a loaded register without a wait, because the hardware waits for the register. But a
    thread that tells other threads that it has read the cells must execute wait::ld first. Warps 0 to 3 load
    their rows and then arrive on an mbarrier; warps 4 to 7 wait for the mbarrier and overwrite the cells.
    Without wait::ld before the arrival, the loads may return the new values instead of the old ones.
    """

    @launched(cells(32), out=cells(64), block=(256,))
    def kernel(C, D):
        taken = barrier()
        t = begin(32, taken, arrivals=128)
        with ptx.if_(t.warp < 4):
            load_cells(t, C)
        hand_over()
        words = reg.array(b32, 32)
        with ptx.if_(t.warp < 4):
            ptx.tcgen05.ld(words, t.mine)
            ptx.tcgen05.wait_ld()
            ptx.tcgen05.fence_before_thread_sync()
            ptx.mbarrier.arrive(taken)
        with ptx.if_(t.warp >= 4):
            completed(taken)
            new = reg.scalar(b32, init=7)
            ptx.tcgen05.st(t.mine, [new] * 32)
            ptx.tcgen05.wait_st()
        hand_over()
        with ptx.if_(t.warp < 4):
            row = D.ptr + 0
            ptx.inst.mad.wide.u32(row, t.row, 4 * 64, row)
            store_row(row, words)
            ptx.tcgen05.ld(words, t.mine)
            ptx.tcgen05.wait_ld()
            store_row(row, words, 32)
        end(t)

    source = numbered(32)
    yield Case("", kernel, (source,), np.concatenate([source, np.full((128, 32), 7, np.uint32)], axis=1))


@probe
def ld_red() -> Iterator[Case]:
    """tcgen05.ld.red: a load that also returns the smallest or largest value that each thread loaded.

    sm_103, sm_107 and sm_110 have this instruction, sm_100 does not: the case is assembled for sm_103a. Each
    thread loads one row of an accumulator, as a softmax does for its running maximum. With .abs the
    instruction compares absolute values.
    """
    values = np.random.default_rng(3).standard_normal((128, 32)).astype(np.float32)
    for op in ("max", "min"):
        for absolute in (False, True):

            @launched(cells(32), out=cells(36, f32), arch="sm_103a")
            def kernel(C, D, *, op=op, absolute=absolute):
                t = begin(32)
                load_cells(t, C)
                words, reduced = reg.array(b32, 36), reg.scalar(b32)
                ptx.tcgen05.ld_red(words[:32], reduced, t.mine, op, abs=absolute)
                ptx.tcgen05.wait_ld()
                for i in range(32, 36):
                    words[i].set(reduced)
                store_registers(t, D, words)
                end(t)

            counted = np.abs(values) if absolute else values
            row = counted.max(1) if op == "max" else counted.min(1)
            expected = np.concatenate([values, np.repeat(row[:, None], 4, 1)], axis=1)
            label = f"{op}{'.abs' if absolute else ''}"
            yield Case(label, kernel, (values.view(np.uint32),), expected)
