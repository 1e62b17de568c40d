"""Rung v1b: the copies of v1a as one copy for each operand, by a 3-D tensor map.  Published: 252.81 TFLOP/s.

The matrix is described as ``K / 8`` slabs of 8 columns (``operand_3d`` in ``parts.py``).  A box of 32
slabs is the whole tile, in the layout that v1a makes with 32 copies: TMA writes a box with its outermost
dimension slowest::

    box (8, 128, 32), innermost first:   for slab in 0..31, for row in 0..127: 16 bytes

What it buys is fewer instructions, 2 copies in a round instead of 64; shared memory, descriptors and products
are those of v1a.  The speed is the same: the engine still moves rows of 16 bytes.

Run it: ``python examples/blackwell/ladder/v1b.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, bf16, ptx, smem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import check_sizes, operand_3d, program
from ladder.v1a import BK, SLAB, STEPS, fields, one_stage

PUBLISHED = 252.81  # TFLOP/s for M = N = K = 4096 on a B200


def operand(rows, K, box_rows):
    """Describe A or B as slabs of 8 columns, for copies of all slabs of a tile."""
    return operand_3d(rows, K, box_rows, BK, SLAB, Layout.TMA_NONE)


def tile(rows):
    """Allocate a tile of A or B."""
    return smem.alloc((BK // SLAB, rows, SLAB), bf16, align=128)


def load(A, B, tile_a, tile_b, k, m_base, n_base, mbar):
    """Record the copies of a round, which signal ``mbar``. Slabs beyond K are filled with zeros."""
    slab = k >> tile_a.shape[-1].bit_length() - 1  # a shift, since ptxas makes a division of div.u32
    for tile, tensor, row in ((tile_a, A, m_base), (tile_b, B, n_base)):
        ptx.cp.async_.bulk.tensor_3d(
            dst=tile, src=tensor.tma_desc(), coord=(0, row, slab), mbar=mbar, cta_group=1
        )


def build_v1b(M, N, K, *, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and K.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, 8, "rows of A and B must be multiples of 16 bytes")
    return one_stage(
        "v1b", M, N, K, operand=operand, tile=tile, load=load, fields=fields, steps=STEPS, arch=arch
    )


SHAPES = [(128, 256, 256), (200, 136, 264)]

if __name__ == "__main__":
    program(build_v1b, PUBLISHED, SHAPES)
