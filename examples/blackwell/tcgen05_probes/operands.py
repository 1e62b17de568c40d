"""How A and B are stored, and what mma does with D: majors, swizzles, A from tensor memory, the options.

The 64-bit descriptor says how a tile lies in shared memory: swizzle, and two distances.  pyptx derives both
from the tile (rows, K, element, major, swizzle); the text of each probe says what they come out as.
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
    """Swizzle none, 32B, 64B and 128B: K-major tiles as TMA leaves them.

    With a swizzle a box is as wide as its span, rows of 8 make a pattern, and the descriptor's stride is 8
    rows: 256, 512 or 1024 bytes; a step of K within a row is 32 bytes. Without one a tile is columns of 16
    bytes (core matrices of 8 rows): the stride is 128 bytes, the leading offset leads to the next column, and
    a step of K is two columns. A and B may differ.
    """
    for a, b in (("none", "none"), ("32B", "32B"), ("64B", "64B"), ("128B", "128B"), ("none", "128B")):
        left, right = integers(1, 128, 64, "bf16"), integers(2, 64, 64, "bf16")
        idesc = InstructionDescriptor("f16", 128, 64, "bf16", "bf16", "f32")
        yield product(f"A {a}, B {b}", idesc, left, right, swizzles=(a, b))


@probe
def mma_majors() -> Iterator[Case]:
    """K-major and MN-major operands: either may lie with K, or with M (or N), innermost.

    An MN-major A is the matrix stored as [K, M]: the instruction descriptor's transpose bit. Its boxes have
    all of K and a swizzle's width of M; the leading offset leads to the next box, the stride 8 steps of K
    further. All combinations with 16-bit types, and with bytes, which TMA and the tensor core transpose as
    well.
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
    """MN-major with every swizzle: none, 32B, 64B, 128B.

    Without a swizzle the 8 x 8 core matrices have K as their rows; what is leading offset and stride exchange
    their roles: leading leads to the next 8 of K, stride to the next 16 bytes of M or N.
    """
    for swizzle in ("none", "32B", "64B", "128B"):
        left, right = integers(3, 128, 32, "f16"), integers(4, 64, 32, "f16")
        idesc = InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32", a_major="MN", b_major="MN")
        yield product(swizzle, idesc, left, right, swizzles=(swizzle, swizzle))


@probe
def mma_tf32_transposed() -> Iterator[Case]:
    """MN-major tf32, stored by the threads themselves: 32-byte atoms, and fence.proxy.async.

    Elements of 32 bits are transposed in atoms of 32 bytes: rows of 128 bytes, four to a pattern, in which
    bits 7 and 8 of the address are XORed onto bits 5 and 6. The threads write the tiles with ordinary stores.
    The tensor core reads them through the async proxy, so every writing thread executes fence.proxy.async
    before the barrier behind which the mma is issued. (A load by TMA needs no such fence.)
    """
    m, n, k = 128, 64, 16
    swizzle = "128B_ATOM_32B"
    tiles = {"A": OperandTile(m, k, 32, "MN", swizzle), "B": OperandTile(n, k, 32, "MN", swizzle)}
    idesc = InstructionDescriptor("tf32", m, n, "tf32", "tf32", "f32", a_major="MN", b_major="MN")

    def stage_by_hand(tid: Any, matrix: Any, tile: OperandTile) -> Any:
        """[K, rows] from global memory: each thread 4 elements, 16 bytes, at a time."""
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
    """A from tensor memory: packed along K into the cells of its row's lane.

    Two 16-bit elements or four bytes share a cell, so K = 16 of f16 or K = 32 of a byte is 8 columns; e2m1
    takes the middle of a byte, 00SEEM00. Row m is where row m of D is, so the threads that would hold D can
    write A (the P of an attention kernel). They store, wait (wait::st), and hand over to the thread that
    issues: a fence on both sides of the barrier.
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
        at_a = 64  # its first column: D has the 64 before
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
    """.ashift: mma reads A from tensor memory, and its rows move down by one afterwards.

    In each quarter of the lanes every row but the last then holds what the next one held, in the 8 columns
    that the instruction has read: a shift for free, as sliding windows want it. The next mma of the same
    thread is ordered behind it. Here it multiplies the same columns with the same B into another accumulator.
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
    """enable-input-d: whether D is added to, known when the kernel is written or when it runs.

    False ignores what D holds, so nothing is ever zeroed: the first step of a loop over K passes the
    predicate k != 0. Here the accumulator holds numbers, and the predicate comes from a register.
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

    An immediate of kinds f16 and tf32: a running sum is scaled down on its way into the next step. All
    numbers here are multiples of 2**15, so no bit is lost.
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
    """disable-output-lane: a bit set for each lane of D that is not written.

    Four registers, bit 0 of the first is lane 0 (eight for a pair of CTAs). Rows that are masked, of a causal
    attention for instance, keep what they hold.
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
    """collector::a: the tensor core may keep A for the next mma.

    fill keeps A, use takes it from there and keeps it, lastuse takes it for the last time, discard (the
    default) does not keep it. It saves reading A again; results never change, and A must lie unchanged in
    shared memory all the same. Three products of one A go to three accumulators.
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
