"""Softmax of rows, a memory-bound kernel: ``y = exp(x - max) / sum(exp(x - max))``, in f32, f16 or bf16.

A team of threads has one row, which it reads from memory once and keeps in registers::

    memory -> registers      all pieces of the row, 16 bytes each, before the first use
    maximum                  of each thread, warp and team
    exponentials             e = 2**((x - max) * log2(e)), in f32, instead of x
    sum                      each thread its own, in the order of the row; then warp and team
    (``kit.RowTeam``) registers -> memory      e * (1 / sum)

A row that is too long for the registers of a CTA, or of a cluster (``cluster=``), is read twice.  The first
pass keeps a maximum and a sum in each thread: where a piece has a larger maximum, the sum so far is
multiplied by ``exp(old - new)``.  The second pass computes the exponentials again.  The design, registers or
a ring of shared memory that the copy engine fills, is a choice: ``pyptx.kit.row_stream``.

The maximum begins with the lowest finite number, so rows whose elements are all minus infinity give NaN, as
the definition does: 0 / 0.  Plus infinity and NaN make the whole row NaN.  Exponentials below 2**-126 are 0.

The backward reads y and dy: ``dx = y * (dy - sum(y * dy))``.

``python examples/hopper/softmax.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pyptx import Tile, bench, bf16, f16, f32, kernel, kit, ptx, reg

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from rows_harness import hopper, one_row, one_row_ahead, simulated, type_of


def reciprocal(x):
    found = reg.scalar(f32)
    ptx.inst.rcp.approx.ftz.f32(found, x)
    return found


#: What an H200 was fastest with for the backward, by the bytes of an element: a CTA for each row, whose
#: threads store the result.
FASTEST_BACKWARD = {size: {**one_row(threads), "store": "direct"} for size, threads in ((4, 512), (2, 256))}


def forward_sizes(N, dtype, tuning):
    """Return the options of the forward's plan: the caller's, or else what an H200 was fastest with.

    That is a CTA for each row, with more pieces for each of fewer threads where rows are very long.
    """
    return {"held": 2 * dtype.nbytes, **(tuning or {"prefer": one_row_ahead(N, dtype) or one_row(256)})}


def build_softmax(N, *, dtype=f32, **tuning):
    """Build the kernel for rows of ``N`` elements; call it with x[M, N].

    Args:
        N: elements of a row, any number.
        dtype: type of x and the result: f32, f16 or bf16.
        tuning: design and sizes, as for ``kit.RowPlan.make``; ``held`` is 8 for f32 and 4 for 16 bits, so
            that a thread keeps at most 32 exponentials.
    """
    plan = kit.RowPlan.make(N, [dtype], [dtype], **forward_sizes(N, dtype, tuning))

    def softmax(X, Y, queue=None):
        stream = kit.RowStream(plan, X.extent(0), [X], [Y], fill=float("-inf"), queue=queue)
        with stream.rows() as row:
            _, total, exponentials = kit.row_exponentials(row)
            factor = reciprocal(total)
            for piece in row.pieces():
                piece.store(0, [e * factor for e in exponentials(piece)])
        ptx.ret()

    options = {
        "in_specs": (Tile("M", N, dtype),),
        "out_specs": (Tile("M", N, dtype),),
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "softmax",
        **plan.options(),
    }
    if plan.queue:
        return kernel(**options)(lambda X, Y, queue: softmax(X, Y, queue))
    return kernel(**options)(lambda X, Y: softmax(X, Y))


def backward_sizes(dtype, tuning):
    """Return the options of the backward's plan: the caller's, or else what an H200 was fastest with."""
    return {"held": 4, **(tuning or {"prefer": FASTEST_BACKWARD[dtype.nbytes]})}


def build_softmax_backward(N, *, dtype=f32, **tuning):
    """Build the backward; call it with y[M, N] and dy[M, N], it returns dx[M, N]."""
    plan = kit.RowPlan.make(N, [dtype, dtype], [dtype], **backward_sizes(dtype, tuning))
    rows = Tile("M", N, dtype)

    def backward(Y, dY, dX, queue=None):
        stream = kit.RowStream(plan, Y.extent(0), [Y, dY], [dX], queue=queue)
        with stream.rows() as row:
            total = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                for y, dy in zip(piece.values(0), piece.values(1), strict=True):
                    ptx.inst.fma.rn.f32(total, y, dy, total)
            total = stream.team.reduce(total, "add")
            for piece in row.pieces():
                terms = zip(piece.values(0), piece.values(1), strict=True)
                piece.store(0, [y * (dy - total) for y, dy in terms])
        ptx.ret()

    options = {
        "in_specs": (rows, rows),
        "out_specs": (rows,),
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "softmax_backward",
        **plan.options(),
    }
    if plan.queue:
        return kernel(**options)(lambda Y, dY, dX, queue: backward(Y, dY, dX, queue))
    return kernel(**options)(lambda Y, dY, dX: backward(Y, dY, dX))


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, seed=0, *, dtype=f32):
    """Return x[M, N] and dy[M, N] with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((M, N), np.float32).astype(dtype.dtype) for _ in range(2))


def reference(x):
    """Return the softmax in float64."""
    x = x.astype(np.float64)
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def reference_backward(y, dy):
    """Return dx in float64."""
    y, dy = y.astype(np.float64), dy.astype(np.float64)
    return y * (dy - np.sum(y * dy, axis=1, keepdims=True))


def rounding(array):
    """Return the relative error of a rounding to an array's type, and its smallest number."""
    return {f32.dtype: (0.0, 2.0**-126), f16.dtype: (2.0**-11, 2.0**-25), bf16.dtype: (2.0**-8, 2.0**-126)}[
        array.dtype
    ]


def worst_error(x, y, **tuning):
    """Return the largest error against float64, as a fraction of the bound.

    With u = 2**-24 and d = max - x: the power of 2 has three roundings, which change the exponential by
    ``3 * u * d`` of itself, and ex2.approx adds 2**-22.  The sum has the mean of these errors, weighted by
    the exponentials, and a rounding for each addition (twice as many roundings where the row is read twice:
    the sum is multiplied, too).  rcp.approx adds 2**-23, the product u.
    """
    exact, (relative, tiny) = reference(x), rounding(y)
    dtype = type_of(y)
    plan = kit.RowPlan.make(x.shape[1], [dtype], [dtype], **forward_sizes(x.shape[1], dtype, tuning))
    wide = x.astype(np.float64)
    d = np.max(wide, axis=1, keepdims=True) - wide
    u, additions = 2.0**-24, plan.additions()
    if not plan.held:
        # Each piece multiplies the sum by an exponential, whose distance is at most that of the row's maxima.
        additions += plan.steps * (2 + 2.0**2 + 3 * np.max(d))
    errors = 3 * u * (d + np.sum(exact * d, axis=1, keepdims=True)) + 2 * 2.0**-22 + 2.0**-23
    bound = (errors + (additions + 2) * u + relative) * exact + 2 * tiny
    return np.nanmax(np.abs(y.astype(np.float64) - exact) / bound) if not np.isnan(y).any() else np.inf


def worst_gradient_error(y, dy, dx, **tuning):
    """Return the largest error of dx against float64, as a fraction of the bound."""
    exact, (relative, tiny) = reference_backward(y, dy), rounding(dx)
    dtype = type_of(dx)
    plan = kit.RowPlan.make(y.shape[1], [dtype] * 2, [dtype], **backward_sizes(dtype, tuning))
    y, dy = y.astype(np.float64), dy.astype(np.float64)
    u, sums = 2.0**-24, np.sum(np.abs(y * dy), axis=1, keepdims=True)
    bound = np.abs(y) * (plan.additions() + 1) * u * sums + (2 * u + relative) * np.abs(exact) + tiny
    return np.max(np.abs(dx.astype(np.float64) - exact) / bound) if not np.isnan(dx).any() else np.inf


def measure(torch, M, N, dtype=f32, **tuning):
    """Time the kernel and torch's softmax. The work is to read and write every row once."""
    kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]

    def library(x):
        return torch.softmax(x, dim=1)

    result = bench(
        {"torch": library, "pyptx": build_softmax(N, dtype=dtype, **tuning)},
        lambda copy: (torch.randn(M, N, device="cuda", dtype=kind),),
        reference=lambda x: library(x.double()),
        rtol=1e-5 if dtype is f32 else 2.0**-7,
        bytes=2 * M * N * dtype.nbytes,
    )
    print(f"\n{M} rows of {N} {dtype} {tuning}")
    result.show()
    return result


#: Rows, width, type and tuning: whole and ragged steps, odd widths, rows that are read twice, a ring or a
# cluster.
CASES = (
    (3, 2048, f32, {}),
    (3, 1500, bf16, {}),
    (3, 333, f16, {}),
    (1, 40004, f32, {}),
    (9, 1024, bf16, {"threads": 32, "teams": 2, "ctas": 2, "design": "ring", "stages": 2, "store": "bulk"}),
    (2, 2048, f32, {"threads": 64, "cluster": 2}),
)


def main():
    for M, N, dtype, tuning in CASES:
        x, dy = make_inputs(M, N, dtype=dtype)
        softmax, backward = (
            build_softmax(N, dtype=dtype, **tuning),
            build_softmax_backward(N, dtype=dtype, **tuning),
        )
        for each in (softmax, backward):
            assembly = each.assemble(M=M)
            assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
        (y,) = simulated(softmax, x)
        (dx,) = simulated(backward, y, dy)
        worst = worst_error(x, y, **tuning), worst_gradient_error(y, dy, dx, **tuning)
        verdict = "right" if max(worst) <= 1 else "WRONG"
        errors = f"error/bound {worst[0]:.3f}, backward {worst[1]:.3f}"
        print(f"simulator, {M} x {N} {dtype} {tuning or ''}: {errors}, {verdict}")
        assert max(worst) <= 1
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    for dtype in (f32, bf16):
        measure(torch, 8192, 8192, dtype)
    print("right")


if __name__ == "__main__":
    main()
