"""Rung v2a: rows of 128 bytes, swizzled.  Published: 681.20 TFLOP/s.

A copy takes 64 columns, 128 bytes of each row, and four copies fill a tile.  The core matrices of eight
rows lie in 1024 bytes now, and TMA permutes the 16-byte chunks of each row, so that eight rows of one
chunk lie in different banks::

    row r, chunk c (16 bytes)  ->  chunk c ^ (r % 8) of row r

The kernel computes no swizzle.  The tensor map says ``128B``, the descriptor says 2 in bits 61 to 63, and
the tensor core undoes what TMA did.  Of the offsets only the SBO counts, 8 rows of 128 bytes; the next 16
columns of a row are 32 bytes further, as if there were no swizzle, since it is a function of the
address.  After 64 columns the next slab begins, ``rows * 128`` bytes further.

What it buys is the rate of TMA: a row of a box per clock, now of 128 bytes.

Run it: ``python examples/blackwell/ladder/v2a.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, bf16, smem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import MMA_K, SLAB, check_sizes, operand_2d, program
from ladder.v1a import BK, BM, BN, load, one_stage

PUBLISHED = 681.20  # TFLOP/s for M = N = K = 4096 on a B200

#: For each product, the bytes to its slab and, within the slab, to its 16 columns, in A and in B.
STEPS = [
    (slab * BM * 128 + column * 2, slab * BN * 128 + column * 2)
    for slab in range(BK // SLAB)
    for column in range(0, SLAB, MMA_K)
]


def operand(rows, K, box_rows):
    """Describe A or B, for copies of 64 columns."""
    return operand_2d(rows, K, box_rows, SLAB, Layout.TMA_128B)


def tile(rows):
    """Allocate a tile of A or B: a stage for each copy."""
    return smem.alloc((rows, SLAB), bf16, swizzle="128B", stages=BK // SLAB)


def fields(rows):
    """Return the descriptor of a tile of A or B, without its address; it does not depend on the rows."""
    sbo = 8 * 128  # to the core matrices 8 rows further
    return 2 << 61 | 1 << 46 | sbo >> 4 << 32 | 1 << 16  # 128-byte swizzle, version 1, the LBO is not used


def build_v2a(M, N, K, *, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and K.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, 8, "rows of A and B must be multiples of 16 bytes")
    return one_stage(
        "v2a", M, N, K, operand=operand, tile=tile, load=load, fields=fields, steps=STEPS, arch=arch
    )


SHAPES = [(128, 256, 256), (200, 136, 264)]

if __name__ == "__main__":
    program(build_v2a, PUBLISHED, SHAPES)
