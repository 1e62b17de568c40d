"""One row times a weight matrix, a memory-bound kernel: ``D[1, N] = X[1, K] @ W[N, K].T``.

``gemv.py`` and ``gemv_ring.py`` multiply up to 16 rows with ``mma``, which takes 8 rows of W at a time.  A
single row needs no ``mma``: an SM has four times the arithmetic that its share of the weights asks for, and
each row of W is a reduction, as in a norm.  So W streams through CTAs as rows do (``pyptx.kit.row_stream``)::

    CTA       one row of W; each thread loads 4 pieces of 16 bytes before the first use
    X         from L1, at the same columns
    sum       of each thread in f32, in the order of the row; then warp and CTA (``kit.RowTeam``)

An SM has registers for 1024 threads, 64 KiB in flight.  The hardware gives the rows out, so all SMs end
together, and a unit of work is as small as a row.  Short rows share a CTA, a team of threads for each.

Order of sums: that of ``kit.RowTeam.reduce``. Equal inputs give equal bits.

``python examples/hopper/gemv_rows.py`` assembles and simulates it anywhere, and measures it on a Hopper GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import SpecError, Tile, bf16, f16, f32, kernel, kit, ptx, reg

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from gemv import program

LEAST = 128  # threads of a CTA
REGISTERED = 1024  # threads for which an SM has registers
PIECES = 8  # most pieces of a thread, which it loads before the first use


def build_gemv_rows(N, K, *, dtype=bf16, out_type=None, **tuning):
    """Build the kernel; call it with X[1, K] and W[N, K].

    Args:
        N: any number.
        K: elements of a row, any number.
        dtype: type of X and W: bf16 or f16.
        out_type: type of D: f32, bf16 or f16; default: that of X.
        tuning: design and sizes, as for ``kit.RowPlan.make``.

    Raises:
        SpecError: an option out of range.
    """
    out_type = out_type or dtype
    for name, value, choices in (("dtype", dtype, (bf16, f16)), ("out_type", out_type, (f32, bf16, f16))):
        if value not in choices:
            raise SpecError(f"{name} = {value!r}: expected one of {', '.join(map(str, choices))}")
    plan = plan_of(K, dtype, tuning)

    def multiply(X, W, D, queue=None):
        stream = kit.RowStream(plan, N, [W], [], queue=queue)
        x = stream.vector(X)
        with stream.rows() as row:
            total = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                for w, factor in zip(piece.values(0), piece.vector(x), strict=True):
                    ptx.inst.fma.rn.f32(total, w, factor, total)
            total = stream.team.reduce(total, "add")
            value = total if out_type is f32 else ptx.cvt(total, out_type, rounding="rn")
            first = stream.team.lane == 0
            if row.inside is not None:
                first &= row.inside
            ptx.store(D.at(0, row.index), value, out_type, space="global", pred=first)
        ptx.ret()

    options = {
        "in_specs": (Tile(1, K, dtype), Tile(N, K, dtype)),
        "out_specs": (Tile(1, N, out_type),),
        "grid": (plan.grid(N),),
        "arch": "sm_90a",
        "name": "gemv_rows",
        **plan.options(),
    }
    if plan.queue:
        return kernel(**options)(lambda X, W, D, queue: multiply(X, W, D, queue))
    return kernel(**options)(lambda X, W, D: multiply(X, W, D))


def plan_of(K, dtype, tuning):
    """Return the plan of rows of K elements: the caller's options, or else those that were fastest."""
    options = {"held": PIECES, "keep": False, **tuning}
    if not tuning:
        threads = kit.RowPlan.make(K, [dtype], [], **options).threads
        teams = max(1, LEAST // threads)
        options |= {"threads": threads, "teams": teams, "resident": max(1, REGISTERED // (threads * teams))}
    return kit.RowPlan.make(K, [dtype], [], **options)


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def main():
    def build(M, N, K, **options):
        return build_gemv_rows(N, K, **options)

    program(
        build,
        [
            ((1, 40, 1032), {}),
            ((1, 17, 2600), {"dtype": f16, "out_type": f32}),
            ((1, 9, 333), {"threads": 64}),
        ],
        rows=(1,),
    )


if __name__ == "__main__":
    main()
