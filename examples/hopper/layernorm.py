"""LayerNorm of rows, a memory-bound kernel: ``y = (x - mean) / sqrt(variance + epsilon) * weight + bias``.

A team of threads has one row, in f32, f16 or bf16, which it reads from memory once and keeps on the chip::

    memory -> registers      all pieces of the row, 16 bytes each, before the first use
    thread                   sum of its elements, in their order; sum of the squares of the differences from
                             their mean
    warp and team            both at once, groups of equal size in pairs (``kit.RowTeam.moments``)
    registers -> memory      (x - mean) * (1 / sqrt(variance + epsilon)) * weight + bias

Where a thread has many elements, some threads have fewer, or a row is not kept, the mean comes first, by a
reduction of its own, then the squares of the differences from it.  Either way the result is as exact for rows
whose mean is far larger than their deviation as the elements themselves are.
A row that is too long for the registers of a CTA, or of a cluster (``cluster=``), is read three times, from
the ring or from L2.  The design, registers or a ring of shared memory, is a choice: ``pyptx.kit.row_stream``.

With ``residual=True`` the kernel first adds a second matrix: ``s = x + residual``, rounded to the type, is
stored too, and y is the norm of this s.

The backward needs the mean and ``rstd = 1 / sqrt(variance + epsilon)`` of each row, which ``statistics=True``
stores.  With ``n = (x - mean) * rstd`` and ``h = dy * weight``::

    dx       = (h - mean(h) - n * mean(h * n)) * rstd  (+ the gradient that arrives at s, with residual=True)
    dweight  = the sum over rows of dy * n,   dbias = the sum over rows of dy

It takes two kernels.  In the first, persistent, each team adds up its own rows of both sums in registers, in
their order, and stores one row of partial sums.  The second adds these rows (``kit.column_sums``).  Both
orders are fixed by the number of CTAs and teams, so the result is the same in every run.

``python examples/hopper/layernorm.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pyptx import Tile, bench, bf16, f16, f32, kernel, kit, ptx, reg

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from rows_harness import hopper, one_row_ahead, queued, simulated, type_of

#: Elements of a thread up to which mean and variance take one reduction: with more of them, its third pass
#: over a thread's elements takes longer than another reduction.
AT_ONCE = 16
#: What an H200 was fastest with in 16-bit types: rows in a ring.
RING = {"design": "ring", "threads": 256, "ctas": 264, "stages": 4, "store": "bulk", "resident": None}


def sizes(N, dtype, tuning, inputs=1):
    """Return the options of the plan: the caller's, or else those that were fastest: in f32 one-row CTAs."""
    tuning = queued(dtype, tuning, **({} if dtype is f32 else {"prefetch": 33}))
    prefer = one_row_ahead(N, dtype) if dtype is f32 else RING
    return {"held": 2 * dtype.nbytes // inputs, **(tuning or {"prefer": prefer})}


def at_once(plan):
    """Return whether the mean and the variance of a row take one reduction."""
    return plan.paired and plan.steps * plan.vector <= AT_ONCE


def build_layernorm(N, *, dtype=f32, epsilon=1e-5, residual=False, statistics=False, **tuning):
    """Build the kernel for rows of ``N`` elements.

    Call it with x[M, N] (, residual[M, N]), weight[N] and bias[N].  The outputs are y[M, N], with
    ``residual`` s[M, N], and with ``statistics`` mean[M] and rstd[M] in f32.

    Args:
        N: elements of a row, any number.
        dtype: type of x, weight, bias and the result: f32, f16 or bf16. Sums are f32.
        epsilon: number that the kernel adds to the variance.
        residual: add a second matrix to x first.
        statistics: store what the backward needs.
        tuning: design and sizes, as for ``kit.RowPlan.make``; ``held`` is 8 for f32 and 4 for 16 bits, so
            that a thread keeps at most 32 differences.
    """
    matrices = [dtype] * (2 if residual else 1)
    # Without the hint ptxas gives up registers, and spills, for CTAs that it hopes to fit beside this one.
    resident = 1 if N * dtype.nbytes <= 512 * 64 else None
    options = {"resident": resident, **sizes(N, dtype, tuning, len(matrices))}
    plan = kit.RowPlan.make(N, matrices, matrices, **options)
    each, together = plan.steps * plan.vector, at_once(plan)

    def words(piece):
        """Return the piece of x, or of s."""
        if not residual:
            return piece.words(0)
        return kit.from_f32([x + r for x, r in zip(*map(piece.values, (0, 1)), strict=True)], dtype)

    def norm(inputs, weight, bias, outputs, mean=None, rstd=None, queue=None):
        stream = kit.RowStream(plan, inputs[0].extent(0), inputs, outputs, queue=queue, most=1 + together)
        weights, biases = stream.vector(weight), stream.vector(bias)
        with stream.rows() as row:
            normed = row.derive(words)
            total = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                if residual:
                    piece.store_words(1, normed(piece))
                for x in kit.to_f32(normed(piece), dtype):
                    total += x
            middle = total * (1 / each) if together else stream.team.reduce(total, "add") * (1 / N)
            # Elements outside the row were read as 0: their differences must not count.
            differences = row.derive(
                lambda piece: piece.keep([x - middle for x in kit.to_f32(normed(piece), dtype)]),
                keep=not together,
            )
            squares = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                for d in differences(piece):
                    ptx.inst.fma.rn.f32(squares, d, d, squares)
            if together:
                total, squares = stream.team.moments(total, squares, each)
                middle = total * (1 / N)
            else:
                squares = stream.team.reduce(squares, "add")
            scale = reg.scalar(f32)
            ptx.inst.fma.rn.f32(scale, squares, 1 / N, epsilon)
            ptx.inst.rsqrt.approx.f32(scale, scale)
            if mean is not None:
                row.store(mean, middle)
                row.store(rstd, scale)
            for piece in row.pieces():
                results = []
                for d, w, b in zip(
                    differences(piece), piece.vector(weights), piece.vector(biases), strict=True
                ):
                    result = d * scale
                    ptx.inst.fma.rn.f32(result, result, w, b)
                    results.append(result)
                piece.store(0, results)
        ptx.ret()

    rows = [Tile("M", N, dtype)] * len(matrices)
    options = {
        "in_specs": (*rows, Tile(N, dtype), Tile(N, dtype)),
        "out_specs": (*rows, *[Tile("M", f32)] * (2 * statistics)),
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "layer_norm",
        **plan.options(),
    }
    if residual and statistics:
        return kernel(**options)(lambda X, R, w, b, Y, S, mean, rstd: norm([X, R], w, b, [Y, S], mean, rstd))
    if residual:
        return kernel(**options)(lambda X, R, w, b, Y, S: norm([X, R], w, b, [Y, S]))
    if statistics:
        return kernel(**options)(lambda X, w, b, Y, mean, rstd: norm([X], w, b, [Y], mean, rstd))
    if plan.queue:
        return kernel(**options)(lambda X, w, b, Y, queue: norm([X], w, b, [Y], queue=queue))
    return kernel(**options)(lambda X, w, b, Y: norm([X], w, b, [Y]))


def backward_sizes(N, matrices, tuning):
    """Return the options of the backward's plan: the caller's, or else those that were fastest."""
    return {**kit.column_tuning(N), **(tuning or {"prefer": kit.column_ring(N, matrices)})}


def build_layernorm_backward(N, *, dtype=f32, residual=False, **tuning):
    """Build the first kernel of the backward.

    Call it with x[M, N], dy[M, N] (, ds[M, N]), weight[N], mean[M] and rstd[M]. With ``residual``, x is the
    stored s, ds is the gradient that arrives at it, and dx is the gradient of both x and residual.  The
    outputs are dx[M, N], and the partial sums of dweight and dbias, a row for each team: [ctas * teams, 2
    * N] in f32.

    Args:
        N, dtype, tuning: as for :func:`build_layernorm`; ``kit.column_ring`` and ``kit.column_tuning`` have
            the defaults.

    Raises:
        SpecError: a thread would have more columns than registers for their sums; by default, more than
            65,536 elements in a row.
    """
    matrices = [dtype] * (3 if residual else 2)
    plan = kit.RowPlan.make(N, matrices, [dtype], **backward_sizes(N, matrices, tuning))

    def backward(inputs, weight, mean, rstd, dX, parts):
        stream = kit.RowStream(plan, inputs[0].extent(0), inputs, [dX], most=2)
        weights, means, factors = stream.vector(weight), stream.numbers(mean), stream.numbers(rstd)
        weight_sums, bias_sums = kit.column_registers(plan), kit.column_registers(plan)
        ptx.griddepcontrol.launch_dependents()

        def normal(piece):
            """Compute n, the normalized elements."""
            return [(x - middle) * scale for x in piece.values(0)]

        with stream.rows() as row:
            middle, scale = row.number(means), row.number(factors)
            both = reg.array(f32, 2, init=0.0)  # of h and of h * n
            for piece in row.pieces():
                sums = zip(weight_sums[piece.step], bias_sums[piece.step], strict=True)
                terms = zip(normal(piece), piece.values(1), piece.vector(weights), sums, strict=True)
                for n, dy, w, (of_weight, of_bias) in terms:
                    h = dy * w
                    both[0] += h
                    ptx.inst.fma.rn.f32(both[1], h, n, both[1])
                    # A team whose row is past the last one has another team's row.
                    ptx.inst.fma.rn.f32(of_weight, dy, n, of_weight, pred=row.inside)
                    ptx.inst.add.rn.f32(of_bias, of_bias, dy, pred=row.inside)
            of_h, of_product = (total * (-1 / N) for total in stream.team.reduce(list(both), "add"))
            for piece in row.pieces():
                results = []
                for n, dy, w in zip(normal(piece), piece.values(1), piece.vector(weights), strict=True):
                    h = reg.scalar(f32)
                    ptx.inst.fma.rn.f32(h, dy, w, of_h)
                    ptx.inst.fma.rn.f32(h, n, of_product, h)
                    results.append(h * scale)
                if residual:
                    results = [dx + ds for dx, ds in zip(results, piece.values(2), strict=True)]
                piece.store(0, results)
        kit.store_column_parts(stream, weight_sums, parts)
        kit.store_column_parts(stream, bias_sums, parts, first=N)
        ptx.ret()

    rows, numbers = Tile("M", N, dtype), Tile("M", f32)
    options = {
        "in_specs": (*[rows] * len(matrices), Tile(N, dtype), numbers, numbers),
        "out_specs": (rows, Tile(plan.part_rows, 2 * N, f32)),
        "grid": (plan.ctas * plan.cluster,),
        "arch": "sm_90a",
        "name": "layer_norm_backward",
        **plan.options(),
    }
    if residual:
        return kernel(**options)(
            lambda X, dY, dS, w, mean, rstd, dX, parts: backward([X, dY, dS], w, mean, rstd, dX, parts)
        )
    return kernel(**options)(
        lambda X, dY, w, mean, rstd, dX, parts: backward([X, dY], w, mean, rstd, dX, parts)
    )


def build_weight_gradients(rows, N, *, dtype=f32, warps=16):
    """Build the second kernel of the backward: it adds up each column of parts[rows, 2 * N], in f32.

    The output has 2 * N elements: dweight, then dbias.

    Args:
        rows: number of rows of partial sums: ``ctas * teams`` of the first kernel.
        N: elements of a row.
        dtype: type of the gradients: f32, f16 or bf16.
        warps: number of warps that share the rows.
    """

    @kernel(
        in_specs=(Tile(rows, 2 * N, f32),),
        out_specs=(Tile(2 * N, dtype),),
        grid=(-(-2 * N // 32),),
        block=(32 * warps,),
        arch="sm_90a",
        dependent=True,
    )
    def weight_gradients(parts, gradients):
        kit.column_sums(parts, gradients, warps=warps)
        ptx.ret()

    return weight_gradients


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, seed=0, *, dtype=f32):
    """Return x[M, N], dy[M, N], weight[N] and bias[N]; each row of x has a mean of its own."""
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape, np.float32) for shape in ((M, N), (M, N), (N,), (N,))]
    arrays[0] += 4 * rng.standard_normal((M, 1), np.float32)
    return tuple(array.astype(dtype.dtype) for array in arrays)


def statistics_of(x, epsilon=1e-5):
    """Return mean and rstd of each row in float64, as columns."""
    x = x.astype(np.float64)
    return np.mean(x, axis=1, keepdims=True), 1 / np.sqrt(np.var(x, axis=1, keepdims=True) + epsilon)


def reference(x, weight, bias, epsilon=1e-5):
    """Return the norm in float64."""
    mean, rstd = statistics_of(x, epsilon)
    return (x.astype(np.float64) - mean) * rstd * weight.astype(np.float64) + bias.astype(np.float64)


def reference_backward(x, dy, weight, epsilon=1e-5, ds=0.0):
    """Return dx, dweight and dbias in float64."""
    mean, rstd = statistics_of(x, epsilon)
    n, dy = (x.astype(np.float64) - mean) * rstd, dy.astype(np.float64)
    h = dy * weight.astype(np.float64)
    dx = (h - np.mean(h, axis=1, keepdims=True) - n * np.mean(h * n, axis=1, keepdims=True)) * rstd
    return dx + np.asarray(ds, np.float64), np.sum(dy * n, axis=0), np.sum(dy, axis=0)


def rounding(array):
    """Return the relative error of a rounding to an array's type, and half of its smallest number."""
    return {f32: (0.0, 2.0**-126), f16: (2.0**-11, 2.0**-25), bf16: (2.0**-8, 2.0**-126)}[type_of(array)]


def worst_error(x, weight, bias, y, **tuning):
    """Return the largest error against float64, as a fraction of the bound.

    With u = 2**-24: the mean is wrong by at most ``shift``, ``(additions + 2) * u`` of the mean magnitude.  A
    difference is wrong by shift and its own rounding.  The sum of squares has a relative error of
    ``additions + 4`` roundings, and grows by N * shift**2; its root has half of both.  Sums of squares that
    threads combine in pairs are wrong by the errors of the sums, too: ``kit.RowTeam.moments``.  rsqrt.approx
    adds 2**-22.9.  Two products and the sum with the bias follow, then the rounding to the type.
    """
    exact, (relative, tiny) = reference(x, weight, bias), rounding(y)
    mean, rstd = statistics_of(x)
    dtype, u = type_of(y), 2.0**-24
    plan = kit.RowPlan.make(x.shape[1], [dtype], [dtype], **sizes(x.shape[1], dtype, tuning))
    x, weight, bias = (each.astype(np.float64) for each in (x, weight, bias))
    shift = (plan.additions() + 2) * u * np.mean(np.abs(x), axis=1, keepdims=True)
    normal = np.abs(x - mean) * rstd
    of_rstd = (plan.additions() / 2 + 4) * u + 2.0**-22.9 + (shift * rstd) ** 2 / 2
    if at_once(plan):
        levels = (plan.threads * plan.cluster).bit_length()
        size = np.sqrt(np.mean(x * x, axis=1, keepdims=True))
        of_rstd += (plan.additions() + 2) * u * np.sqrt(levels) * size * rstd
    bound = np.abs(weight) * (shift * rstd * 2 + normal * (of_rstd + 3 * u)) + (u + relative) * np.abs(exact)
    error = np.abs(y.astype(np.float64) - exact) / (bound + tiny)
    return np.inf if np.isnan(error).any() else float(np.max(error))


def worst_gradient_error(x, dy, weight, dx, dweight, dbias, ds=None, **tuning):
    """Return the largest error of the gradients against float64, as a fraction of the bound.

    With u = 2**-24: :func:`backward` passes mean and rstd with a relative error of at most u.  So n is wrong
    by ``u * (|mean| * rstd + 3 * |n|)``, and each sum by ``additions + 3`` roundings of its magnitudes and by
    the errors of n in it.  A term of dweight and dbias takes part in at most M additions, and one for each
    team.
    """
    exact = reference_backward(x, dy, weight, ds=0.0 if ds is None else ds)
    (relative, tiny), u, (M, N) = rounding(dx), 2.0**-24, x.shape
    mean, rstd = statistics_of(x)
    dtype = type_of(dx)
    matrices = [dtype] * (2 if ds is None else 3)
    plan = kit.RowPlan.make(N, matrices, [dtype], **backward_sizes(N, matrices, tuning))
    x, dy, weight = (each.astype(np.float64) for each in (x, dy, weight))
    n, h = np.abs(x - mean) * rstd, np.abs(dy * weight)
    of_n = u * (np.abs(mean) * rstd + 3 * n)
    many = (plan.additions() + 3) * u
    of_h = many * np.mean(h, axis=1, keepdims=True)
    of_product = np.mean(h * of_n, axis=1, keepdims=True) + many * np.mean(h * n, axis=1, keepdims=True)
    product = np.mean(h * n, axis=1, keepdims=True)
    bound = rstd * (3 * u * h + 2 * of_h + 2 * n * of_product + (of_n + 2 * u * n) * product)
    if ds is not None:
        bound += 3 * u * np.abs(ds.astype(np.float64))
    bounds = [bound + (3 * u + relative) * np.abs(exact[0]) + tiny]
    many = (M + plan.ctas * plan.teams + 4) * u
    of_terms = np.sum(np.abs(dy) * of_n, axis=0)
    for terms, sums in ((np.abs(dy) * n, exact[1]), (np.abs(dy), exact[2])):
        bounds.append(many * np.sum(terms, axis=0) + of_terms + relative * np.abs(sums) + tiny)
    pairs = zip((dx, dweight, dbias), exact, bounds, strict=True)
    worst = max(np.max(np.abs(found.astype(np.float64) - right) / bound) for found, right, bound in pairs)
    return np.inf if np.isnan(worst) else float(worst)


def backward(x, dy, weight, mean, rstd, ds=None, *, run, dtype=f32, **tuning):
    """Run both kernels of the backward; ``run(kernel, *inputs)`` returns the outputs."""
    N = x.shape[1]
    first = build_layernorm_backward(N, dtype=dtype, residual=ds is not None, **tuning)
    dx, parts = run(first, *(each for each in (x, dy, ds, weight, mean, rstd) if each is not None))
    (both,) = run(build_weight_gradients(parts.shape[0], N, dtype=dtype), parts)
    return dx, both[:N], both[N:]


def measure(torch, M, N, dtype=f32, **tuning):
    """Time the kernel and torch's layer_norm. The work is to read and write every row once."""
    kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]

    def library(x, weight, bias):
        return torch.nn.functional.layer_norm(x, (N,), weight, bias)

    result = bench(
        {"torch": library, "pyptx": build_layernorm(N, dtype=dtype, **tuning)},
        lambda copy: tuple(torch.randn(*shape, device="cuda", dtype=kind) for shape in ((M, N), (N,), (N,))),
        reference=lambda *given: library(*(each.double() for each in given)),
        rtol=1e-4 if dtype is f32 else 2.0**-7,
        atol=1e-5 if dtype is f32 else 2.0**-7,
        bytes=2 * M * N * dtype.nbytes,
    )
    print(f"\n{M} rows of {N} {dtype} {tuning}")
    result.show()
    return result


#: Rows, width, type and tuning: whole and ragged steps, odd widths, rows that are read again, a ring or a
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
        x, _, weight, bias = make_inputs(M, N, dtype=dtype)
        layer_norm = build_layernorm(N, dtype=dtype, **tuning)
        assembly = layer_norm.assemble(M=M)
        assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
        (y,) = simulated(layer_norm, x, weight, bias)
        worst = worst_error(x, weight, bias, y, **tuning)
        verdict = "right" if worst <= 1 else "WRONG"
        print(f"simulator, {M} x {N} {dtype} {tuning or ''}: error/bound {worst:.3f}, {verdict}")
        assert worst <= 1
    x, dy, weight, _ = make_inputs(6, 256)
    mean, rstd = (each[:, 0].astype(np.float32) for each in statistics_of(x))
    worst = worst_gradient_error(
        x, dy, weight, *backward(x, dy, weight, mean, rstd, run=simulated, ctas=2), ctas=2
    )
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
