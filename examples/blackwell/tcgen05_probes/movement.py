"""Data that one thread moves into and within tensor memory: tcgen05.cp of every shape, and tcgen05.shift.

A copy takes a K-major tile in shared memory, described as an operand of mma is, to lanes and columns of
tensor memory.  It is how scale factors get there.  It is ordered before a following mma of the same thread
without a wait; before anything else a commit and a wait are due, as here before the threads load what was
copied.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyptx import InstructionDescriptor, OperandTile, f32, ptx, u8

from .matrices import encoded, integers, packed
from .stage import (
    Case,
    Operand,
    barrier,
    begin,
    cell,
    cells,
    commit_and_wait,
    completed,
    end,
    fill,
    hand_over,
    launched,
    load,
    load_cells,
    operand,
    probe,
    store_cells,
)

#: Word that no copy here writes.
UNTOUCHED = 0xDEADBEEF

#: Rows of the source tile, bytes of each, and which of them lane l receives (None: it is left alone).
SHAPES = {
    ("128x256b", None): (128, 32, lambda lane: lane),
    ("128x128b", None): (128, 16, lambda lane: lane),
    ("64x128b", "warpx2::02_13"): (64, 16, lambda lane: lane % 64),
    ("64x128b", "warpx2::01_23"): (64, 16, lambda lane: lane // 64 * 32 + lane % 32),
    ("32x128b", "warpx4"): (32, 16, lambda lane: lane % 32),
    ("4x256b", None): (8, 32, lambda lane: lane // 32 if lane % 32 == 0 else None),
}


def _bytes(seed: int, rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, width)).astype(np.uint8)


def copied(rows: np.ndarray, row_of) -> np.ndarray:
    """32 columns of cells after a copy of ``rows`` to column 8."""
    found = np.full((128, 32), UNTOUCHED, np.uint32)
    for lane in range(128):
        if row_of(lane) is not None:
            words = np.ascontiguousarray(rows[row_of(lane)]).view("<u4")
            found[lane, 8 : 8 + words.size] = words
    return found


def _copy(tile: OperandTile, shape: str, multicast: str | None, decompress: str | None = None):
    """The kernel: TMA, one tcgen05.cp to column 8, commit, and all cells as they are then."""

    @launched(operand(tile, u8), out=cells(32))
    def kernel(S, D):
        loaded, done = barrier(), barrier()
        t = begin(32, loaded, done)
        source = Operand(tile, S)
        fill(t, UNTOUCHED)
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, source)
            where = cell(t, column=8)
            ptx.tcgen05.cp(where, source.descriptor(), shape, multicast, decompress=decompress)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    return kernel


@probe
def cp_shapes() -> Iterator[Case]:
    """tcgen05.cp of every shape: which row of the tile each lane receives.

    128x256b and 128x128b write every lane; 64x128b writes each row to two quarters of the lanes
    (warpx2::02_13: to quarters 0 and 2, or 1 and 3; warpx2::01_23: to 0 and 1, or 2 and 3); 32x128b.warpx4
    writes its 32 rows to all four; 4x256b writes the first lane of each quarter. The tile is described like
    an operand: without a swizzle as columns of 16 bytes, or swizzled as TMA left it.
    """
    for (shape, multicast), (rows, width, row_of) in SHAPES.items():
        for swizzle in ("none", "32B") if width == 32 else ("none",):
            tile = OperandTile(rows, width, 8, "K", swizzle)
            source = _bytes(rows, rows, width)
            name = f"{shape}{'.' + multicast if multicast else ''} {swizzle}"
            yield Case(name, _copy(tile, shape, multicast), (source,), copied(source, row_of))


def _copy_and_multiply(tile_a: OperandTile, tile_b: OperandTile, idesc: InstructionDescriptor, packing: str):
    """The kernel: A through tcgen05.cp to column 64, and right behind it the mma that takes it from there."""

    @launched(operand(tile_a, u8), operand(tile_b, u8), out=cells(64, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(128, loaded, done)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            inside = cell(t, column=64)
            ptx.tcgen05.cp(inside, a.descriptor(), "128x256b", decompress=packing)
            ptx.tcgen05.mma(t.base, ptx.addr(inside), b.descriptor(), idesc, idesc.kind, False)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    return kernel


@probe
def cp_decompress() -> Iterator[Case]:
    """tcgen05.cp that widens elements: 4 or 6 bits in shared memory, a byte each in tensor memory.

    Sixteen elements of 4 bits lie in 8 bytes with 8 bytes of padding behind them (b4x16_p64), of 6 bits in 12
    with 4 (b6x16_p32), as TMA's packed types lay them. On the way each gets a byte of its own, in the form in
    which mma takes A from tensor memory; 4 bits come into the middle, 00SEEM00, as the first case shows. In
    the others A goes through cp to the mma that follows, which is ordered behind it without a wait.
    """
    tile = OperandTile(128, 32, 8, "K", "32B")
    codes = np.random.default_rng(4).integers(0, 16, (128, 32)).astype(np.uint8)
    kernel = _copy(tile, "128x256b", None, "b4x16_p64")
    yield Case("b4x16_p64", kernel, (packed(codes, 4),), copied(codes << 2, lambda lane: lane))
    tile_b = OperandTile(64, 32, 8, "K", "32B")
    for element, packing in (("e2m1", "b4x16_p64"), ("e2m3", "b6x16_p32"), ("e3m2", "b6x16_p32")):
        left, right = integers(1, 128, 32, element), integers(2, 64, 32, "e4m3")
        idesc = InstructionDescriptor("f8f6f4", 128, 64, element, "e4m3", "f32", a_in_tensor_memory=True)
        kernel = _copy_and_multiply(tile, tile_b, idesc, packing)
        inputs = (encoded(left, element), encoded(right, "e4m3"))
        yield Case(f"{element} as A", kernel, inputs, left @ right.T)


@probe
def cp_several() -> Iterator[Case]:
    """Copies from a larger tile: the descriptor is advanced as it is for mma.

    Four copies of 128x128b bring a tile of 128 rows x 64 bytes, swizzled 64B, into 16 columns: each takes the
    next 16 bytes of every row. One commit covers all of them.
    """
    tile = OperandTile(128, 64, 8, "K", "64B")

    @launched(operand(tile, u8), out=cells(16))
    def kernel(S, D):
        loaded, done = barrier(), barrier()
        t = begin(32, loaded, done)
        source = Operand(tile, S)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, source)
            descriptor = source.descriptor()
            for k in range(0, 64, 16):
                step = ptx.tcgen05.advance(descriptor, tile.k_offset(k))
                ptx.tcgen05.cp(cell(t, column=k // 4), step, "128x128b")
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    source = _bytes(1, 128, 64)
    yield Case("", kernel, (source,), source.view("<u4"))


@probe
def shift() -> Iterator[Case]:
    """tcgen05.shift.down: the rows of a quarter move by one lane, in 32 bytes of columns.

    In the 32 lanes from its address on, every lane but the last receives the 8 columns of the next one; the
    last keeps what it has, for a cp.4x256b to refresh. shift is ordered behind earlier mma and before later
    mma and cp.4x256b of its thread, but not behind another shift or before a load: commit and wait. Here the
    rows of quarters 1 and 3 move, twice those of quarter 3.
    """

    @launched(cells(16), out=cells(16))
    def kernel(C, D):
        first, second = barrier(), barrier()
        t = begin(32, first, second)
        load_cells(t, C)
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            ptx.tcgen05.shift(cell(t, lane=32, column=4))
            ptx.tcgen05.shift(cell(t, lane=96, column=4))
            commit_and_wait(first)
            ptx.tcgen05.shift(cell(t, lane=96, column=4))
            ptx.tcgen05.commit(second)
        completed(second)
        store_cells(t, D)
        end(t)

    source = np.arange(128 * 16, dtype=np.uint32).reshape(128, 16)
    expected = source.copy()
    for lane, times in ((32, 1), (96, 2)):
        for _ in range(times):
            expected[lane : lane + 31, 4:12] = expected[lane + 1 : lane + 32, 4:12].copy()
    yield Case("", kernel, (source,), expected)
