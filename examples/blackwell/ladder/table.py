"""All rungs in one table: what each kernel takes for M = N = K = 4096, and what arithmetic allows it.

The columns:

- tile: rows and columns of D of a CTA, or of a pair of CTAs from v5 on;
- K, stages: columns of A and B in a stage of shared memory, and how many stages there are;
- KiB: shared memory of a CTA;
- loads GB: bytes of A and B that the copies load in all, from L2 or from memory;
- rounds: tiles that a multiprocessor (a pair of them) computes one after the other, with 148 of them;
- at most: the share of time in which a tensor core can have work, by the rounds alone;
- published: TFLOP/s that the author of the text measured on a B200;
- lines: lines of PTX, which do not depend on M, N and K;
- regs: registers of a thread, by ptxas.

Run it: ``python examples/blackwell/ladder/table.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bounds
from ladder import v1a, v1b, v2a, v2b, v3, v4, v5, v6, v7

SIZE = 4096

#: Technique, builder, published figure.
RUNGS = {
    "v1a": ("2-D maps, 16-byte boxes", v1a.build_v1a, v1a.PUBLISHED),
    "v1b": ("3-D maps, 16-byte boxes", v1b.build_v1b, v1b.PUBLISHED),
    "v2a": ("2-D maps, 128-byte swizzle", v2a.build_v2a, v2a.PUBLISHED),
    "v2b": ("3-D maps, 128-byte swizzle", v2b.build_v2b, v2b.PUBLISHED),
    "v3": ("pipelining", v3.build_v3, v3.PUBLISHED),
    "v4": ("warp specialization", v4.build_v4, v4.PUBLISHED),
    "v5": ("pairs of CTAs", v5.build_v5, v5.PUBLISHED),
    "v6": ("persistent, two accumulators", v6.build_v6, v6.PUBLISHED),
    "v7": ("even waves, launch control", v7.build_v7, None),
}


def row(name):
    """Return the cells of a rung, as texts."""
    technique, build, published = RUNGS[name]
    tiling = bounds.KERNELS[name]
    bound = bounds.bound(tiling, SIZE, SIZE, SIZE)
    gemm = build(SIZE, SIZE, SIZE)
    assembly = gemm.assemble()
    return (
        name,
        technique,
        f"{tiling.rows}x{tiling.columns}",
        f"{tiling.depth} x {tiling.stages}",
        f"{gemm.specialize().launch.dynamic_smem / 1024:.1f}",
        f"{bound.loads / 1e9:.2f}",
        f"{bound.rounds:g}",
        f"{bound.even:.1%}",
        "-" if published is None else f"{published:.2f}",
        str(gemm.ptx().count("\n")),
        str(assembly.resources[0].registers),
    )


HEADS = ("", "", "tile", "K, stages", "KiB", "loads GB", "rounds", "at most", "published", "lines", "regs")


def main():
    rows = [HEADS, *map(row, RUNGS)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(HEADS))]
    for cells in rows:
        aligned = (
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        print("  ".join(aligned).rstrip())


if __name__ == "__main__":
    main()
