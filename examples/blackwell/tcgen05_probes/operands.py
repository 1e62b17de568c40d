"""The layout of A and B, and the options of mma for D: majors, swizzles, A from tensor memory.

The 64-bit descriptor describes the layout of a tile in shared memory: the swizzle and two distances
(strides). pyptx computes them from the tile (rows, K, element, major, swizzle); each probe's text names the
result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pyptx import InstructionDescriptor, OperandTile, Tile, b32, f32, ptx, reg, smem

from .matrices import blank, encoded, in_cells, integers, lanes_of, placed
from .product import product, tile_of
from .stage import (
    Case,
    Operand,
    Stage,
    barrier,
    begin,
    cell,
    cells,
    completed,
    end,
    fill,
    hand_over,
    launched,
    load,
    load_cells,
    multiply,
    operand,
    probe,
    store_cells,
)


@probe
def mma_swizzles() -> Iterator[Case]:
    """Swizzle none, 32B, 64B and 128B: K-major tiles as TMA writes them.

    With a swizzle, a box is as wide as the swizzle's span, and the pattern repeats every 8 rows. The
    descriptor's stride is the size of 8 rows: 256, 512 or 1024 bytes. A step along K within a row is 32
    bytes. Without a swizzle, a tile consists of columns of 16 bytes (core matrices of 8 rows): the stride is
    128 bytes, the leading offset is the distance to the next column, and a step along K is two columns. A and
    B may have different swizzles.
    """
    for a, b in (("none", "none"), ("32B", "32B"), ("64B", "64B"), ("128B", "128B"), ("none", "128B")):
        left, right = integers(1, 128, 64, "bf16"), integers(2, 64, 64, "bf16")
        idesc = InstructionDescriptor("f16", 128, 64, "bf16", "bf16", "f32")
        yield product(f"A {a}, B {b}", idesc, left, right, swizzles=(a, b))


@probe
def mma_majors() -> Iterator[Case]:
    """K-major and MN-major operands: the innermost dimension of A or B is K, or it is M (or N).

    An MN-major A is stored as [K, M], and the instruction descriptor's transpose bit is set. Each of its
    boxes has all of K and a swizzle's width of M. The leading offset is the distance to the next box, and the
    stride is the distance to the next 8 elements along K. The cases cover all combinations with 16-bit types
    and with bytes, which the tensor core can transpose as well.
    """
    for kind, element, k in (("f16", "bf16", 32), ("f8f6f4", "e4m3", 64)):
        for a, b in (("K", "MN"), ("MN", "K"), ("MN", "MN")):
            left, right = integers(1, 128, k, element), integers(2, 128, k, element)
            idesc = InstructionDescriptor(kind, 128, 128, element, element, "f32", a_major=a, b_major=b)
            swizzles = ("64B" if a == "K" else "128B", "64B" if b == "K" else "128B")
            label = f"{element}: A {a}-major, B {b}-major"
            yield product(label, idesc, left, right, swizzles=swizzles)


@probe
def mma_majors_swizzled() -> Iterator[Case]:
    """MN-major operands with every swizzle: none, 32B, 64B, 128B.

    Without a swizzle, the rows of the 8 x 8 core matrices run along K, and the two distances exchange their
    roles: the leading offset is the distance to the next 8 elements along K, and the stride is the distance
        to the next 16 bytes along M or N.
    """
    for swizzle in ("none", "32B", "64B", "128B"):
        left, right = integers(3, 128, 32, "f16"), integers(4, 64, 32, "f16")
        idesc = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32", a_major="MN", b_major="MN")
        yield product(swizzle, idesc, left, right, swizzles=(swizzle, swizzle))


@probe
def mma_tf32_transposed() -> Iterator[Case]:
    """MN-major tf32, which the threads store to shared memory: 32-byte atoms, and fence.proxy.async.

    The tensor core transposes 32-bit elements in atoms of 32 bytes. A row has 128 bytes, and the pattern
    repeats every four rows: bits 7 and 8 of the address are XORed onto bits 5 and 6. The threads write the
    tiles with ordinary stores. The tensor core reads the tiles through the async proxy. Therefore every
    thread that writes executes fence.proxy.async before the barrier, and the mma follows the barrier. (A load
    by TMA needs no such fence.)
    """
    m, n, k = 128, 64, 16
    swizzle = "128B_ATOM_32B"
    tiles = {"A": OperandTile(m, k, 32, "MN", swizzle), "B": OperandTile(n, k, 32, "MN", swizzle)}
    idesc = InstructionDescriptor("tf32", m, n, "tf32", "tf32", "f32", a_major="MN", b_major="MN")

    def stage_by_hand(tid: Any, matrix: Any, tile: OperandTile) -> Any:
        """Copy [K, rows] from global to shared memory; a thread copies 4 elements (16 bytes) at a time."""
        shared = smem.alloc(tile.nbytes, align=1024, name=matrix.name.lower())
        quads = tile.rows // 4
        for first in range(0, tile.k * quads, 128):
            number = tid + first
            source = matrix.ptr + 0
            ptx.inst.mad.wide.u32(source, number, 16, source)
            words = ptx.load(b32, source, space="global", vector=4)
            row, quad = number // quads, number % quads  # K, and which 4 of M or N
            address = (quad >> 3) * tile.leading_bytes + (row << 7) + ((quad & 7) << 4)
            address ^= (row & 3) << 5
            ptx.store(ptx.addr(address + shared.addr), words, space="shared")
        ptx.fence.proxy_async("shared::cta")
        return shared

    @launched(Tile(k, m, f32), Tile(k, n, f32), out=cells(n, f32))
    def kernel(A, B, D):
        done = barrier()
        t = begin(64, done)
        a = stage_by_hand(t.row, A, tiles["A"])
        b = stage_by_hand(t.row, B, tiles["B"])
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            desc_a = ptx.tcgen05.smem_descriptor(a, tiles["A"])
            desc_b = ptx.tcgen05.smem_descriptor(b, tiles["B"])
            for step in range(0, k, idesc.k):
                at_a = ptx.tcgen05.advance(desc_a, tiles["A"].k_offset(step))
                at_b = ptx.tcgen05.advance(desc_b, tiles["B"].k_offset(step))
                ptx.tcgen05.mma(t.base, at_a, at_b, idesc, "tf32", pred_operand=step > 0)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(7, m, k), integers(8, n, k)
    inputs = tuple(np.ascontiguousarray(x.T.astype(np.float32)) for x in (left, right))
    yield Case("", kernel, inputs, left @ right.T)


@probe
def mma_a_in_tensor_memory() -> Iterator[Case]:
    """A from tensor memory: the elements of a row are packed along K into the cells of the row's lane.

    Two 16-bit elements or four bytes share a cell, so K = 16 of f16 and K = 32 of a byte type take 8 columns.
    An e2m1 is in the middle of a byte, 00SEEM00. Row m of A is in the same lane as row m of D. So the threads
    that read a row of one product can write the same row as A of the next product, such as P of an attention
    kernel. They store the row and execute wait::st. Then a barrier with a tcgen05 fence on both sides hands A
    over to the thread that issues the mma.
    """
    for kind, element, k, m in (
        ("f16", "bf16", 32, 128),
        ("f16", "f16", 32, 64),
        ("tf32", "tf32", 16, 128),
        ("f8f6f4", "e4m3", 64, 128),
        ("f8f6f4", "e2m1", 64, 128),
        ("i8", "s8", 64, 128),
    ):
        left, right = integers(1, m, k, element), integers(2, 64, k, element)
        tile, moved = tile_of(64, k, element, swizzle="64B")
        d_type = "s32" if kind == "i8" else "f32"
        idesc = InstructionDescriptor(kind, m, 64, element, element, d_type, a_in_tensor_memory=True)
        at_a = 64  # first column of A; D has columns 0 to 63
        width = 8 * k // idesc.k

        @launched(cells(width), operand(tile, moved), out=cells(64, b32 if kind == "i8" else f32))
        def kernel(A, B, D, *, tile=tile, idesc=idesc, k=k, at_a=at_a):
            loaded, done = barrier(), barrier()
            t = begin(128, loaded, done)
            b = Operand(tile, B)
            fill(t)
            load_cells(t, A, at_a)
            hand_over()
            with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
                load(loaded, b)
                desc_b = b.descriptor()
                for step in range(0, k, idesc.k):
                    a = ptx.addr(cell(t, column=at_a + 8 * step // idesc.k))
                    at_b = ptx.tcgen05.advance(desc_b, tile.k_offset(step))
                    ptx.tcgen05.mma(t.base, a, at_b, idesc, idesc.kind, pred_operand=step > 0)
                ptx.tcgen05.commit(done)
            completed(done)
            store_cells(t, D)
            end(t)

        lanes = np.zeros((128, width), np.uint32)
        lanes[lanes_of(m)] = in_cells(left, element)
        product_ = placed(left @ right.T)
        if kind == "i8":
            product_ = product_.astype(np.int64).astype(np.uint32)
        inputs = (lanes, encoded(right, element))
        yield Case(f"{element}, M = {m}", kernel, inputs, product_)


@probe
def mma_ashift() -> Iterator[Case]:
    """.ashift: mma reads A from tensor memory and then moves the rows of A down by one.

    In the 8 columns that the instruction read, every row of a quarter of the lanes but the last then holds
    the values of the next row. Sliding windows use this shift, which needs no instruction of its own. The
    next mma of the same thread is ordered after the shift. Here the next mma multiplies the same columns with
    the same B and writes another accumulator.
    """
    left, right = integers(1, 128, 16, "bf16"), integers(2, 64, 16, "bf16")
    tile, moved = tile_of(64, 16, "bf16", swizzle="32B")
    idesc = InstructionDescriptor("f16", 128, 64, "bf16", "bf16", "f32", a_in_tensor_memory=True)
    at_a = 128

    @launched(cells(8), operand(tile, moved), out=cells(128, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(256, loaded, done)
        b = Operand(tile, B)
        load_cells(t, A, at_a)
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, b)
            a, desc_b = ptx.addr(cell(t, column=at_a)), b.descriptor()
            ptx.tcgen05.mma(t.base, a, desc_b, idesc, pred_operand=False, ashift=True)
            ptx.tcgen05.mma(cell(t, column=64), a, desc_b, idesc, pred_operand=False)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    shifted = np.roll(left, -1, axis=0)
    shifted[31::32] = left[31::32]
    expected = np.concatenate([left @ right.T, shifted @ right.T], axis=1)
    yield Case("", kernel, (in_cells(left, "bf16"), encoded(right, "bf16")), expected)


@probe
def mma_enable_input_d() -> Iterator[Case]:
    """enable-input-d: a constant or a predicate register decides whether mma adds to D or overwrites D.

    With False, mma ignores the values in D, so a kernel need not zero D first: in a loop over K, the kernel
    passes the predicate k != 0. Here the accumulator holds numbers, and the predicate is in a register.
    """
    before = np.random.default_rng(9).integers(-64, 65, (128, 64)).astype(np.float32)
    left, right = integers(1, 128, 32), integers(2, 64, 32)
    idesc = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32")
    for add in (False, True):

        def issue(t: Stage, a: Operand, b: Operand, add: bool = add) -> None:
            one = reg.scalar(b32, init=int(add))
            multiply(t.base, a, b, idesc, add=one != 0)

        total = left @ right.T + add * before
        yield product(
            f"predicate {add}",
            idesc,
            left,
            right,
            swizzles=("64B", "64B"),
            before=before,
            expected=total,
            issue=issue,
        )


@probe
def mma_scale_input_d() -> Iterator[Case]:
    """scale-input-d: D = A @ B.T + D * 2**-n, with n from 0 to 15.

    n is an immediate operand of kinds f16 and tf32. It scales a running sum down before the next product is
    added. All numbers in D are multiples of 2**15 here, so the scaling is exact.
    """
    before = np.random.default_rng(9).integers(-64, 65, (128, 64)).astype(np.float32) * 2**15
    left, right = integers(1, 128, 16), integers(2, 64, 16)
    idesc = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32")
    for shift in (0, 3, 15):

        def issue(t: Stage, a: Operand, b: Operand, shift: int = shift) -> None:
            multiply(t.base, a, b, idesc, add=True, scale_input_d=shift)

        yield product(
            f"2**-{shift}",
            idesc,
            left,
            right,
            swizzles=("32B", "32B"),
            before=before,
            expected=left @ right.T + before * 2.0**-shift,
            issue=issue,
        )


@probe
def mma_disable_output_lane() -> Iterator[Case]:
    """disable-output-lane: a mask with a bit for each lane of D; mma does not write lanes with a 1 bit.

    The mask takes four registers (eight for a pair of CTAs); bit 0 of the first register is lane 0. The
    disabled rows of D, such as the masked rows of a causal attention, keep their values.
    """
    words = (0x00000001, 0xFFFFFFFF, 0xAAAAAAAA, 0x80000000)
    left, right = integers(1, 128, 16), integers(2, 64, 16)
    idesc = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32")

    def issue(t: Stage, a: Operand, b: Operand) -> None:
        lanes = [reg.scalar(b32, init=word) for word in words]
        multiply(t.base, a, b, idesc, disable_output_lane=lanes)

    expected = placed(left @ right.T)
    disabled = np.array([words[lane // 32] >> lane % 32 & 1 for lane in range(128)], bool)
    expected[disabled] = blank(64)[disabled]
    yield product("", idesc, left, right, swizzles=("32B", "32B"), expected=expected, issue=issue)


@probe
def mma_collector() -> Iterator[Case]:
    """collector::a: the tensor core may keep A in a buffer for the next mma.

    fill puts A into the buffer. use reads A from the buffer and keeps it there. lastuse reads A from the
    buffer for the last time. discard, the default, does not keep A. The buffer saves reads of A and never
    changes a result; A must still be in shared memory, unchanged. Three products of one A go to three
    accumulators.
    """
    left, right = integers(1, 128, 16), integers(2, 96, 16)
    idesc = InstructionDescriptor("f16", 128, 32, "f16", "f16", "f32")
    tile_a, moved = tile_of(128, 16, "f16", swizzle="32B")
    tile_b, _ = tile_of(96, 16, "f16", swizzle="32B")

    @launched(operand(tile_a, moved), operand(tile_b, moved), out=cells(96, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(128, loaded, done)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            desc_a, desc_b = a.descriptor(), b.descriptor()
            for i, use in enumerate(("fill", "use", "lastuse")):
                rows = ptx.tcgen05.advance(desc_b, i * 32 * tile_b.span)
                d = cell(t, column=32 * i)
                ptx.tcgen05.mma(d, desc_a, rows, idesc, pred_operand=False, collector_a=use)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    inputs = (encoded(left, "f16"), encoded(right, "f16"))
    yield Case("", kernel, inputs, left @ right.T)
