"""RMSNorm of rows, a memory-bound kernel: ``y = x / sqrt(mean(x**2) + epsilon) * weight``; f32, f16, bf16.

A team of threads normalizes one row; by default a CTA is one team.  Each load and store moves a piece of 16
bytes, which is 4 elements of f32 or 8 of bf16.  A thread takes every ``threads``-th piece::

    row      | 16 bytes | 16 bytes | ...            | 16 bytes | ...            |
    thread     0          1          ... threads-1    0          1 ...
               `- step 0 ------------------------'    `- step 1 --------- ...

    memory -> registers      all steps at once, many loads in flight        16 bytes each
    sum of squares           each thread sums its own elements, in f32, in the order of the row
       warp                  5 x (shfl.bfly, add): every lane gets the sum of its warp
       team                  lane 0 of each warp -> shared memory -> barrier -> every thread adds these sums:
                             chain i % 4 those of warp i in order, then the chains in order
    scale                    rsqrt(sum / N + epsilon)
    registers -> memory      x * scale * weight

So the kernel reads a row from memory once.  ``pyptx.kit.row_stream`` has the designs to choose from: one row
for each CTA, or persistent CTAs whose rows arrive in registers or in a ring of shared memory, ahead of the
arithmetic.  A row that does not fit the registers of a CTA may be shared by the CTAs of a cluster
(``cluster=``); otherwise the kernel reads it a second time, from the ring or from L2.

Rows may have any width.  A width that is not a multiple of 16 bytes makes pieces smaller: 8, 4 or 2 bytes.

With ``residual=True`` the kernel first adds a second matrix: ``s = x + residual``, rounded to the type, is
stored too, and y is the norm of this s.

The backward needs ``1 / sqrt(mean(x**2) + epsilon)`` of each row, which ``statistics=True`` stores.  With
``h = dy * weight`` and ``c = mean(h * x * rstd)`` of a row::

    dx       = (h - x * rstd * c) * rstd  (+ the gradient that arrives at s, with residual=True)
    dweight  = the sum over rows of dy * x * rstd

It takes two kernels.  In the first, persistent, each team adds up its own rows of dweight in registers, in
their order, and stores one row of partial sums.  The second adds these rows (``kit.column_sums``).  Both
orders are fixed by the number of CTAs and teams, so the result is the same in every run.

``python examples/hopper/rmsnorm.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pyptx import Tile, bench, bf16, f16, f32, kernel, kit, ptx, reg

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from rows_harness import hopper, one_row_ahead, queued, simulated, type_of

KEPT = 8  # pieces of a row that a thread keeps in registers


def sizes(N, dtype, tuning, inputs=1):
    """Return the options of the plan: the caller's, or else those that were fastest, a CTA for each row."""
    tuning = queued(dtype, tuning)
    prefer = one_row_ahead(N, dtype) or {"threads": 256 * dtype.nbytes}
    if inputs > 1 and dtype is f32 and "prefetch" in prefer:
        prefer["prefetch"] //= 2  # twice as many bytes in each row
    elif inputs > 1 and prefer["threads"] < 512 and N * dtype.nbytes > 12 * 1024:
        prefer |= {"threads": 512, "resident": 2}
    return {"held": KEPT // inputs, **(tuning or {"prefer": prefer})}


def build_rmsnorm(N, *, dtype=f32, epsilon=1e-5, residual=False, statistics=False, **tuning):
    """Build the kernel for rows of ``N`` elements; call it with x[M, N] (, residual[M, N]) and weight[N].

    The outputs are y[M, N], with ``residual`` s[M, N], and with ``statistics`` rstd[M] in f32.

    Args:
        N: elements of a row, any number.
        dtype: type of x, residual, weight and the results: f32, f16 or bf16. Sums are f32.
        epsilon: number that the kernel adds to the mean of the squares.
        residual: add a second matrix to x first.
        statistics: store the factor of each row, which the backward needs.
        tuning: design and sizes, as for ``kit.RowPlan.make``: ``threads``, ``teams``, ``cluster``,
            ``design``, ``stages``, ``store``, ``ctas``, ``ahead``, ``held``, ``resident``, ``load_hint``,
            ``store_hint``, ``keep``, ``prefetch``, ``prefetch_from``, ``queue`` (without residual and
            statistics).
    """
    matrices = [dtype] * (2 if residual else 1)
    plan = kit.RowPlan.make(N, matrices, matrices, **sizes(N, dtype, tuning, len(matrices)))
    rows = Tile("M", N, dtype)

    def norm(inputs, weight, outputs, factors, queue=None):
        stream = kit.RowStream(plan, inputs[0].extent(0), inputs, outputs, queue=queue)
        weights = stream.vector(weight)

        def words(piece):
            """Return the piece of x, or of s."""
            if not residual:
                return piece.words(0)
            return kit.from_f32([x + r for x, r in zip(*map(piece.values, (0, 1)), strict=True)], dtype)

        with stream.rows() as row:
            normed = row.derive(words)
            total = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                if residual:
                    piece.store_words(1, normed(piece))
                for x in kit.to_f32(normed(piece), dtype):
                    ptx.inst.fma.rn.f32(total, x, x, total)
            total = stream.team.reduce(total, "add")
            scale = reg.scalar(f32)
            ptx.inst.fma.rn.f32(scale, total, 1 / N, epsilon)
            ptx.inst.rsqrt.approx.f32(scale, scale)
            if factors is not None:
                row.store(factors, scale)
            for piece in row.pieces():
                factor = piece.vector(weights)
                values = kit.to_f32(normed(piece), dtype)
                piece.store(0, [x * scale * w for x, w in zip(values, factor, strict=True)])
        ptx.ret()

    options = {
        "in_specs": (*[rows] * len(matrices), Tile(N, dtype)),
        "out_specs": (*[rows] * len(matrices), *[Tile("M", f32)] * statistics),
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "rms_norm",
        **plan.options(),
    }
    if residual and statistics:
        return kernel(**options)(lambda X, R, weight, Y, S, rstd: norm([X, R], weight, [Y, S], rstd))
    if residual:
        return kernel(**options)(lambda X, R, weight, Y, S: norm([X, R], weight, [Y, S], None))
    if statistics:
        return kernel(**options)(lambda X, weight, Y, rstd: norm([X], weight, [Y], rstd))
    if plan.queue:
        return kernel(**options)(lambda X, weight, Y, queue: norm([X], weight, [Y], None, queue))
    return kernel(**options)(lambda X, weight, Y: norm([X], weight, [Y], None))


def backward_sizes(N, matrices, tuning):
    """Return the options of the backward's plan: the caller's, or else those that were fastest."""
    return {**kit.column_tuning(N), **(tuning or {"prefer": kit.column_ring(N, matrices)})}


def build_rmsnorm_backward(N, *, dtype=f32, residual=False, **tuning):
    """Build the first kernel of the backward.

    Call it with x[M, N], dy[M, N] (, ds[M, N]), weight[N] and rstd[M].  The outputs are dx[M, N], and the
    partial sums of dweight, one row for each team: [ctas * teams, N] in f32. With ``residual``, x is the
    stored s, ds is the gradient that arrives at it, and dx is the gradient of both x and residual.

    Args:
        N, dtype, tuning: as for :func:`build_rmsnorm`; ``kit.column_ring`` and ``kit.column_tuning`` have the
            defaults.

    Raises:
        SpecError: a thread would have more columns than registers for their sums; by default, more than
            65,536 elements in a row.
    """
    matrices = [dtype] * (3 if residual else 2)
    plan = kit.RowPlan.make(N, matrices, [dtype], **backward_sizes(N, matrices, tuning))
    rows = Tile("M", N, dtype)

    def backward(inputs, weight, rstd, dX, partial):
        stream = kit.RowStream(plan, inputs[0].extent(0), inputs, [dX])
        weights, factors = stream.vector(weight), stream.numbers(rstd)
        sums = kit.column_registers(plan)
        ptx.griddepcontrol.launch_dependents()
        with stream.rows() as row:
            scale = row.number(factors)
            total = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                terms = zip(*map(piece.values, (0, 1)), piece.vector(weights), sums[piece.step], strict=True)
                for x, dy, w, sum in terms:
                    product = x * dy
                    ptx.inst.fma.rn.f32(total, product, w, total)
                    # A team whose row is past the last one has another team's row.
                    ptx.inst.fma.rn.f32(sum, product, scale, sum, pred=row.inside)
            total = stream.team.reduce(total, "add")
            # x * rstd * c = x * shift, where c = total * rstd / N
            shift = total * scale * scale * (-1 / N)
            for piece in row.pieces():
                results = []
                for x, dy, w in zip(*map(piece.values, (0, 1)), piece.vector(weights), strict=True):
                    h = dy * w
                    ptx.inst.fma.rn.f32(h, x, shift, h)
                    results.append(h * scale)
                if residual:
                    results = [dx + ds for dx, ds in zip(results, piece.values(2), strict=True)]
                piece.store(0, results)
        kit.store_column_parts(stream, sums, partial)
        ptx.ret()

    options = {
        "in_specs": (*[rows] * len(matrices), Tile(N, dtype), Tile("M", f32)),
        "out_specs": (rows, Tile(plan.part_rows, N, f32)),
        "grid": (plan.ctas * plan.cluster,),
        "arch": "sm_90a",
        "name": "rms_norm_backward",
        **plan.options(),
    }
    if residual:
        return kernel(**options)(
            lambda X, dY, dS, weight, rstd, dX, parts: backward([X, dY, dS], weight, rstd, dX, parts)
        )
    return kernel(**options)(
        lambda X, dY, weight, rstd, dX, parts: backward([X, dY], weight, rstd, dX, parts)
    )


def build_weight_gradient(rows, N, *, dtype=f32, warps=16):
    """Build the second kernel of the backward: call it with parts[rows, N] in f32; it adds up each column.

    Args:
        rows: number of rows of partial sums: ``ctas * teams`` of the first kernel.
        N: number of columns.
        dtype: type of the gradient: f32, f16 or bf16.
        warps: number of warps that share the rows.
    """

    @kernel(
        in_specs=(Tile(rows, N, f32),),
        out_specs=(Tile(N, dtype),),
        grid=(-(-N // 32),),
        block=(32 * warps,),
        arch="sm_90a",
        dependent=True,
    )
    def weight_gradient(parts, gradient):
        kit.column_sums(parts, gradient, warps=warps)
        ptx.ret()

    return weight_gradient


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, seed=0, *, dtype=f32, residual=False):
    """Return x[M, N] (, residual[M, N]) and weight[N] with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    shapes = [(M, N)] * (2 if residual else 1) + [(N,)]
    return tuple(rng.standard_normal(shape, np.float32).astype(dtype.dtype) for shape in shapes)


def reference(x, weight, epsilon=1e-5):
    """Return the norm in float64."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + epsilon) * weight


def reference_backward(x, dy, weight, epsilon=1e-5, ds=0.0):
    """Return dx and dweight in float64."""
    x, dy, weight = (each.astype(np.float64) for each in (x, dy, weight))
    rstd = 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + epsilon)
    h, normal = dy * weight, x * rstd
    dx = (h - normal * np.mean(h * normal, axis=1, keepdims=True)) * rstd + np.asarray(ds, np.float64)
    return dx, np.sum(dy * normal, axis=0)


def rounding(dtype):
    """Return the relative error of a rounding to a type."""
    return {f32: 2.0**-24, f16: 2.0**-11, bf16: 2.0**-8}[dtype]


def worst_error(x, weight, y, **tuning):
    """Return the largest error against float64, as a fraction of the bound.

    A term of the sum of squares takes part in the additions of its thread, of the butterfly and of the warps'
    sums (``RowPlan.additions``); its own square is rounded too.  No term is negative, so each rounding adds
    at most 2**-24 of the sum to the error, and the square root halves this relative error.  rsqrt.approx adds
    2**-22.9; the mean, epsilon and both products add 2**-24 each.  Then the result is rounded to its type;
    f16 has numbers only down to 2**-24.
    """
    exact, dtype = reference(x, weight), type_of(y)
    plan = kit.RowPlan.make(x.shape[1], [dtype], [dtype], **sizes(x.shape[1], dtype, tuning))
    relative = (plan.additions() / 2 + 4) * 2.0**-24 + 2.0**-22.9
    if dtype is not f32:
        relative += rounding(dtype)
    error = np.abs(y.astype(np.float64) - exact)
    tiny = 2.0**-24 if dtype is f16 else 2.0**-126
    return np.inf if np.isnan(error).any() else float(np.max(error / (relative * np.abs(exact) + tiny)))


def worst_gradient_error(x, dy, weight, dx, dweight, ds=None, **tuning):
    """Return the largest error of both gradients against float64, as a fraction of the bound.

    With u = 2**-24: the factor of a row has a relative error of at most u, as :func:`backward` passes it.
    The sum of ``h * x`` has one of ``(additions + 2) * u`` of the sum of magnitudes, each other operation one
    of u of its result.  A term of dweight takes part in at most M additions, and one for each CTA.
    """
    u = 2.0**-24
    dtype, (M, N) = type_of(dx), x.shape
    exact, exact_weight = reference_backward(x, dy, weight, ds=0.0 if ds is None else ds)
    x, dy, weight = (each.astype(np.float64) for each in (x, dy, weight))
    rstd = 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-5)
    matrices = [dtype] * (2 if ds is None else 3)
    plan = kit.RowPlan.make(N, matrices, [dtype], **backward_sizes(N, matrices, tuning))
    h = np.abs(dy * weight)
    sums = np.sum(h * np.abs(x), axis=1, keepdims=True)
    bound = rstd * (4 * u * h + (plan.additions() + 12) * u * np.abs(x) * rstd**2 / N * sums)
    bound += (2 * u if dtype is f32 else rounding(dtype)) * np.abs(exact) + 2.0**-126
    if ds is not None:
        bound += u * (np.abs(exact) + np.abs(ds.astype(np.float64)))
    errors = np.abs(dx.astype(np.float64) - exact) / bound
    terms = np.sum(np.abs(dy * x * rstd), axis=0)
    bound = (M + plan.ctas * plan.teams + 4) * u * terms + rounding(dtype) * np.abs(exact_weight) + 2.0**-126
    errors_weight = np.abs(dweight.astype(np.float64) - exact_weight) / bound
    worst = max(np.max(errors), np.max(errors_weight))
    return np.inf if np.isnan(worst) else float(worst)


def backward(x, dy, weight, rstd, ds=None, *, run, dtype=f32, **tuning):
    """Run both kernels of the backward; ``run(kernel, *inputs)`` returns the outputs. Returns dx, dweight."""
    N = x.shape[1]
    first = build_rmsnorm_backward(N, dtype=dtype, residual=ds is not None, **tuning)
    dx, parts = run(first, *(each for each in (x, dy, ds, weight, rstd) if each is not None))
    (dweight,) = run(build_weight_gradient(parts.shape[0], N, dtype=dtype), parts)
    return dx, dweight


def measure(torch, M, N, dtype=f32, **tuning):
    """Time the kernel and torch's rms_norm. The work is to read and write every row once."""
    kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]

    def inputs(copy):
        return torch.randn(M, N, device="cuda", dtype=kind), torch.randn(N, device="cuda", dtype=kind)

    def library(x, weight):
        return torch.nn.functional.rms_norm(x, (N,), weight, eps=1e-5)

    result = bench(
        {"torch": library, "pyptx": build_rmsnorm(N, dtype=dtype, **tuning)},
        inputs,
        reference=lambda x, weight: library(x.double(), weight.double()),
        rtol=1e-5 if dtype is f32 else 2 * rounding(dtype),
        bytes=2 * M * N * dtype.nbytes,
    )
    print(f"\n{M} rows of {N} {dtype} {tuning}")
    result.show()
    return result


#: Rows, width, type and tuning: whole and ragged steps, odd widths, rows that are read twice, a ring, a
#: cluster.
CASES = (
    (3, 2048, f32, {}),
    (2, 1500, f32, {}),
    (3, 1032, bf16, {}),
    (3, 333, f16, {}),
    (1, 40004, f32, {}),
    (5, 1024, f32, {"threads": 64, "teams": 2, "ctas": 1, "ahead": True}),
    (9, 1024, bf16, {"threads": 32, "teams": 2, "ctas": 2, "design": "ring", "stages": 2, "store": "bulk"}),
    (2, 2048, bf16, {"threads": 64, "cluster": 2}),
)


def main():
    for M, N, dtype, tuning in CASES:
        x, weight = make_inputs(M, N, dtype=dtype)
        rms_norm = build_rmsnorm(N, dtype=dtype, **tuning)
        assembly = rms_norm.assemble(M=M)
        assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
        worst = max(
            worst_error(x, weight, *simulated(rms_norm, x, weight, schedule=schedule), **tuning)
            for schedule in ("eager", "random")
        )
        verdict = "right" if worst <= 1 else "WRONG"
        print(f"simulator, {M} x {N} {dtype} {tuning or ''}: error/bound {worst:.3f}, {verdict}")
        assert worst <= 1
    x, dy, weight = make_inputs(6, 256, residual=True)
    rstd = (1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1) + 1e-5)).astype(np.float32)
    dx, dweight = backward(x, dy, weight, rstd, run=simulated, ctas=2)
    worst = worst_gradient_error(x, dy, weight, dx, dweight, ctas=2)
    print(
        f"simulator, backward of 6 x 256 f32: error/bound {worst:.3f}, {'right' if worst <= 1 else 'WRONG'}"
    )
    assert worst <= 1
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    for dtype in (f32, bf16):
        measure(torch, 8192, 8192, dtype)
    print("right")


if __name__ == "__main__":
    main()
