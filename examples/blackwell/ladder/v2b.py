"""Rung v2b: the copies of v2a as one copy for each operand, by a 3-D tensor map.  Published: 695.43 TFLOP/s.

As in v1b, the matrix is described as slabs, now of 64 columns, and a box of four slabs is the whole tile.

The price is a rule for K: a slab must be whole, since the slab behind the last one would begin in the
next row. So K must be a multiple of 64, where v2a takes multiples of 8.  The loop may still end within a
tile: slabs beyond the last one are outside of the tensor, and TMA fills them with zeros.

Run it: ``python examples/blackwell/ladder/v2b.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Layout, bf16, smem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.parts import SLAB, WHOLE_SLABS, check_sizes, operand_3d, program
from ladder.v1a import BK, one_stage
from ladder.v1b import load
from ladder.v2a import STEPS, fields

PUBLISHED = 695.43  # TFLOP/s for M = N = K = 4096 on a B200


def operand(rows, K, box_rows):
    """Describe A or B as slabs of 64 columns, for copies of all slabs of a tile."""
    return operand_3d(rows, K, box_rows, BK, SLAB, Layout.TMA_128B)


def tile(rows):
    """Allocate a tile of A or B."""
    return smem.alloc((BK // SLAB, rows, SLAB), bf16, swizzle="128B")


def build_v2b(M, N, K, *, arch="sm_100a"):
    """Build the kernel for one problem size; call it with A[M, K] and B[N, K] in bf16.

    Args:
        M, N, K: any M; multiples of 8 for N and of 64 for K.
        arch: a target that has tcgen05.
    """
    check_sizes(M, N, K, SLAB, WHOLE_SLABS)
    return one_stage(
        "v2b", M, N, K, operand=operand, tile=tile, load=load, fields=fields, steps=STEPS, arch=arch
    )


SHAPES = [(128, 256, 256), (200, 136, 320)]

if __name__ == "__main__":
    program(build_v2b, PUBLISHED, SHAPES)
