"""Moves of data into and within tensor memory by one thread: tcgen05.cp of every shape, and tcgen05.shift.

tcgen05.cp copies a K-major tile from shared memory to lanes and columns of tensor memory.  A descriptor
describes the tile, as for an operand of mma.  Kernels bring scale factors to tensor memory with tcgen05.cp.
A copy is ordered before a later mma of the same thread without a wait.  Before any other use of the cells the
thread must commit and wait; these probes do so before the threads load the copied cells.
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

#: The value of the cells before a copy; no copy here writes it.
UNTOUCHED = 0xDEADBEEF

#: (shape, multicast) -> rows of the source tile, bytes of each row, and the row that lane l receives (None:
#: the copy does not write the lane).
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
    """Return the 32 columns of cells that result from a copy of ``rows`` to column 8."""
    found = np.full((128, 32), UNTOUCHED, np.uint32)
    for lane in range(128):
        if row_of(lane) is not None:
            words = np.ascontiguousarray(rows[row_of(lane)]).view("<u4")
            found[lane, 8 : 8 + words.size] = words
    return found


def _copy(tile: OperandTile, shape: str, multicast: str | None, decompress: str | None = None):
    """Return a kernel: load a tile with TMA, copy it to column 8 with one tcgen05.cp, store all cells."""

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
    """tcgen05.cp of every shape: the row of the tile that each lane receives.

    128x256b and 128x128b write one row to each lane. 64x128b writes each row to two quarters of the lanes:
    with warpx2::02_13 to quarters 0 and 2, or 1 and 3; with warpx2::01_23 to quarters 0 and 1, or 2 and 3.
    32x128b.warpx4 writes its 32 rows to all four quarters. 4x256b writes the first lane of each quarter. The
    descriptor of the tile is that of an mma operand: without a swizzle the tile consists of columns of 16
    bytes; with a swizzle it has the layout in which TMA writes it.
    """
    for (shape, multicast), (rows, width, row_of) in SHAPES.items():
        for swizzle in ("none", "32B") if width == 32 else ("none",):
            tile = OperandTile(rows, width, 8, "K", swizzle)
            source = _bytes(rows, rows, width)
            name = f"{shape}{'.' + multicast if multicast else ''} {swizzle}"
            yield Case(name, _copy(tile, shape, multicast), (source,), copied(source, row_of))


def _copy_and_multiply(tile_a: OperandTile, tile_b: OperandTile, idesc: InstructionDescriptor, packing: str):
    """Return a kernel that copies A to column 64 with tcgen05.cp, and then multiplies with A from there."""

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
    """tcgen05.cp that widens elements: 4 or 6 bits in shared memory become one byte each in tensor memory.

    In shared memory, 16 elements of 4 bits take 8 bytes and 8 bytes of padding (b4x16_p64); 16 elements of 6
    bits take 12 bytes and 4 bytes of padding (b6x16_p32). TMA's packed types write this layout. The copy
    gives each element a byte of its own, in the form in which mma reads A from tensor memory; an element of 4
    bits is in the middle of its byte, 00SEEM00, as the first case shows. In the other cases, the mma that
    follows the copy reads A from tensor memory. It is ordered after the copy without a wait.
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
    """Copies from a larger tile: the kernel advances the descriptor as for mma.

    Four copies of shape 128x128b move a tile of 128 rows x 64 bytes, with swizzle 64B, into 16 columns. Each
    copies the next 16 bytes of every row. One commit covers all four.
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
    """tcgen05.shift.down: the rows of a quarter of the lanes move down by one lane, in 8 columns.

    In the 32 lanes that begin at the address, every lane but the last receives the 8 columns of the next
    lane. The last lane keeps its cells; a cp.4x256b can refresh them. A shift is ordered after earlier mma of
    its thread, and before later mma and cp.4x256b. It is not ordered after another shift or before a load:
    there the thread must commit and wait. Here the rows of quarter 1 move once, and those of quarter 3 twice.
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
