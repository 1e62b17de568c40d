"""Block-scaled kinds: mxf8f6f4, mxf4 and mxf4nvf4. tcgen05.cp copies the scale factors to tensor memory.

Each block of 16 or 32 elements along K of a row of A, or of a column of B, has a scale.  The instruction
multiplies (A * scales) with (B * scales).  The 1, 2 or 4 scales of a row for one instruction are bytes of one
cell: the cell of row r is in lane r % 32, column r // 32, and all four quarters of the lanes have a copy of
    it. In shared memory the scales of 128 rows are 32 rows of 16 bytes, and each of these holds the scales of
    four rows of the matrix.  One tcgen05.cp of shape 32x128b.warpx4 copies the scales of 128 rows.  The copy
    is ordered before the mma that follows it in the same thread, so the kernel needs no wait.
"""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from pyptx import InstructionDescriptor, OperandTile, f32, ptx

from .matrices import bound, encoded, integers, normal
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
    launched,
    load,
    multiply,
    operand,
    probe,
    store_cells,
)

#: The scales of 128 rows for one instruction: 32 rows of 16 bytes.
SCALES = OperandTile(32, 16, 8, "K", "none")
#: First columns of the scales of A and B in tensor memory, after the columns of D.
_AT_A, _AT_B = 128, 132


def scale_codes(seed: int, rows: int, count: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` random scales for each row: their codes, and the numbers that the codes represent."""
    generator = np.random.default_rng(seed)
    if kind == "ue8m0":  # powers of two
        codes = generator.integers(124, 131, (rows, count)).astype(np.uint8)
        return codes, 2.0 ** (codes.astype(int) - 127)
    numbers = generator.choice([0.25, 0.5, 0.75, 1, 1.25, 3, 28], (rows, count))
    return numbers.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), numbers


def laid_out(codes: np.ndarray, first: int) -> np.ndarray:
    """Return the 32 x 16 bytes that tcgen05.cp copies; row r begins at [r % 32, 4 * (r // 32) + first]."""
    found = np.zeros((32, 16), np.uint8)
    for row, line in enumerate(codes):
        at = 4 * (row // 32) + first
        found[row % 32, at : at + len(line)] = line
    return found


def scaled(label, idesc, count, scale_vec, ids, left, right, *, exact=True) -> Case:
    """Return the case of one block-scaled instruction.

    Each row has ``count`` scales. ``ids`` are the bytes of the cells at which the scales of A and B begin.
    """
    pairs = idesc.kind != "mxf8f6f4"
    tile_a, moved = tile_of(*left.shape, idesc.a_type, swizzle="32B", pairs=pairs)
    tile_b, _ = tile_of(*right.shape, idesc.b_type, swizzle="32B", pairs=pairs)
    specs = [operand(tile, moved) for tile in (tile_a, tile_b, SCALES, SCALES)]

    @launched(*specs, out=cells(idesc.n, f32))
    def kernel(A, B, SA, SB, D):
        loaded, done = barrier(), barrier()
        t = begin(256, loaded, done)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        scales_a, scales_b = Operand(SCALES, SA), Operand(SCALES, SB)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b, scales_a, scales_b)
            at_a, at_b = cell(t, column=_AT_A), cell(t, column=_AT_B)
            ptx.tcgen05.cp(at_a, scales_a.descriptor(), "32x128b", "warpx4")
            ptx.tcgen05.cp(at_b, scales_b.descriptor(), "32x128b", "warpx4")
            multiply(t.base, a, b, idesc, scale_a=at_a, scale_b=at_b, scale_vec=scale_vec)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    codes_a, factors_a = scale_codes(5, left.shape[0], count, idesc.scale_type)
    codes_b, factors_b = scale_codes(6, right.shape[0], count, idesc.scale_type)
    x = left * factors_a.repeat(left.shape[1] // count, 1)
    y = right * factors_b.repeat(right.shape[1] // count, 1)
    inputs = (
        encoded(left, idesc.a_type, pairs=pairs),
        encoded(right, idesc.b_type, pairs=pairs),
        laid_out(codes_a, ids[0]),
        laid_out(codes_b, ids[1]),
    )
    return Case(label, kernel, inputs, x @ y.T, 0.0 if exact else bound(x, y))


@probe
def mma_mxf8f6f4() -> Iterator[Case]:
    """kind::mxf8f6f4: any pair of the 8-, 6- and 4-bit floats, and one ue8m0 scale for 32 elements.

    An instruction with K = 32 uses one scale of each row, which is one byte of the row's cell. The scale ids
    of the instruction descriptor select the byte, so four instructions can use one copied column; the second
    case uses byte 1 for A and byte 2 for B. The last case has normally distributed numbers, and allows the
    error bound of f32 sums.
    """
    for a, b, ids in (("e4m3", "e5m2", (0, 0)), ("e2m3", "e2m1", (1, 2))):
        idesc = InstructionDescriptor(
            "mxf8f6f4", 128, 64, a, b, "f32", scale_type="ue8m0", scale_a_id=ids[0], scale_b_id=ids[1]
        )
        left, right = integers(1, 128, 32, a), integers(2, 64, 32, b)
        yield scaled(f"{a} x {b}, bytes {ids}", idesc, 1, None, ids, left, right)
    idesc = InstructionDescriptor("mxf8f6f4", 128, 64, "e4m3", "e4m3", "f32", scale_type="ue8m0")
    left, right = normal(1, 128, 32, "e4m3"), normal(2, 64, 32, "e4m3")
    yield scaled("normal numbers", idesc, 1, None, (0, 0), left, right, exact=False)


@probe
def mma_mxf4() -> Iterator[Case]:
    """kind::mxf4: e2m1 with two elements in each byte, and one ue8m0 scale for 32 elements.

    The elements have no padding, so 32 bytes hold K = 64, twice as many elements as with f8f6f4. A row has
    two
    scales: bytes 0 and 1 of its cell, or bytes 2 and 3.
    """
    for first in (0, 2):
        idesc = InstructionDescriptor(
            "mxf4", 128, 128, "e2m1", "e2m1", "f32", scale_type="ue8m0", scale_a_id=first, scale_b_id=first
        )
        left, right = integers(1, 128, 64, "e2m1"), integers(2, 128, 64, "e2m1")
        yield scaled(f"bytes {first}", idesc, 2, "2X", (first, first), left, right)


@probe
def mma_mxf4nvf4() -> Iterator[Case]:
    """kind::mxf4nvf4: e2m1 with one scale for 16 elements. A ue4m3 scale need not be a power of two.

    This is the format NVFP4. The four scales of a row fill its whole cell (scale_vec::4X, or block16). The
    kind also takes ue8m0 scales, for 16 or for 32 elements.
    """
    for scale, count, size in (("ue4m3", 4, "4X"), ("ue8m0", 4, "block16"), ("ue8m0", 2, "2X")):
        idesc = InstructionDescriptor("mxf4nvf4", 128, 64, "e2m1", "e2m1", "f32", scale_type=scale)
        left, right = integers(1, 128, 64, "e2m1"), integers(2, 64, 64, "e2m1")
        yield scaled(f"{scale} {size}", idesc, count, size, (0, 0), left, right)
