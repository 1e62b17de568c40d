"""Step 1, naive: a thread computes one element of D, with the multiplications of ordinary floats.

::

    thread (x, y) of CTA (X, Y)     D[16 Y + y, 16 X + x] = sum over k of A[row, k] * B[column, k]

Each product of two numbers takes two loads of 2 bytes, two conversions and one fused multiply-add.  The 16
threads of a row of the block read the same element of A; those of a column the same element of B.  The caches
hold what the CTA reads, 16 rows of A and 16 of B, so memory is not what bounds it: instructions are.  An SM
does 128 multiply-adds of floats per clock, its tensor cores 2048 of bf16.

Order of sums: k = 0, 1, ... in f32, each product exact, each sum rounded to nearest.

Run it: ``python examples/hopper/ladder/step1_naive.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import Tile, b16, bf16, f32, kernel, ptx, reg, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ladder_parts import check_tiles, program

SIDE = 16  # rows and columns of D of a CTA


def build_naive(M, N, K):
    """Build the kernel: M and N are multiples of 16, K is any number."""
    check_tiles(M, N, K, SIDE, SIDE, 1)

    @kernel(
        in_specs=(Tile(M, K, bf16), Tile(N, K, bf16)),
        out_specs=(Tile(M, N, bf16),),
        grid=(N // SIDE, M // SIDE),
        block=(SIDE, SIDE),
        arch="sm_90a",
    )
    def naive(A, B, D):
        row = ptx.special.ctaid.y() * SIDE + ptx.special.tid.y()
        column = ptx.special.ctaid.x() * SIDE + ptx.special.tid.x()
        from_a, from_b, place = (reg.scalar(u64) for _ in range(3))
        ptx.inst.mad.wide.u32(from_a, row, K * bf16.nbytes, A.ptr)
        ptx.inst.mad.wide.u32(from_b, column, K * bf16.nbytes, B.ptr)
        total = reg.scalar(f32, init=0.0)
        with ptx.for_(0, K):
            factors = []
            for source in (from_a, from_b):
                bits, value = reg.scalar(b16), reg.scalar(f32)
                ptx.inst.ld.global_.b16(bits, ptx.addr(source))
                ptx.inst.cvt.f32.bf16(value, bits)
                factors.append(value)
                source += bf16.nbytes
            ptx.inst.fma.rn.f32(total, *factors, total)
        rounded = reg.scalar(b16)
        ptx.inst.cvt.rn.bf16.f32(rounded, total)
        ptx.inst.mad.wide.u32(place, row, N * bf16.nbytes, D.ptr)
        ptx.inst.mad.wide.u32(place, column, bf16.nbytes, place)
        ptx.inst.st.global_.b16(ptx.addr(place), rounded)
        ptx.ret()

    return naive


SHAPES = [(16, 16, 24), (48, 32, 65)]

if __name__ == "__main__":
    program(build_naive, SHAPES)
