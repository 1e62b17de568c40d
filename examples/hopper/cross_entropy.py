"""Cross-entropy of rows of logits, with the gradient in place of the logits, in one read of memory.

For a row x of V logits and its target t, with the factor that the mean over rows or a later loss has::

    loss     = log(sum(exp(x))) - x[t]
    gradient = (exp(x) / sum(exp(x)) - (1 at t, else 0)) * factor

A team of threads, or a cluster of CTAs for a large vocabulary, keeps the row on the chip. A short row, or
one of an odd width, stays in registers::

    memory -> registers      all pieces of the row, 16 bytes each, before the first use
    maximum                  of each thread, warp and team, and of the CTAs of the cluster; the thread that
    has x[t]
                             keeps it
    exponentials             e = 2**((x - max) * log2(e)), in f32, instead of x
    sum                      each thread its own, in the order of the row; then warp, team, cluster
    (``kit.RowTeam``) registers -> memory      the gradient, over the logits (``gradient="in place"``) or into
    a matrix of its own

A row of 32 KiB or more waits in shared memory instead, and is read from there twice: the first pass keeps a
maximum and a sum in each thread, the second computes the exponentials again.  That takes few registers, so
that two or three CTAs fit on an SM, and some load while others compute.

A row that is wider than shared memory has a CTA to itself, whose registers keep the rest of it:
``cross_entropy_wide``.

So memory reads a row once and writes it once, where torch reads logits three times and writes two matrices.
An odd row that is too long for the registers of the CTAs is read twice.

A row whose target is ``ignore_index`` has loss 0 and gradient 0, whatever its logits are.  Any other target
outside 0 .. V - 1 gives the loss NaN, and a gradient without the 1.  NaN and plus infinity in a row make its
loss and gradient NaN; so do rows that are minus infinity everywhere.

``python examples/hopper/cross_entropy.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pyptx import Scalar, SpecError, Tile, bench, bf16, f16, f32, kernel, kit, ptx, reg, s32, s64, u32

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import cross_entropy_wide as wide
import rows_harness as harness
from rows_harness import hopper, type_of

GRADIENTS = ("in place", "output", None)
#: Bytes of a row that a CTA keeps in registers, with the exponentials in f32; elements of an odd width.
CTA_BYTES, CTA_ODD_ELEMENTS = 64 * 1024, 12 * 1024
#: Bytes of a row, or a part of it, of which shared memory has two or three, and the least that gain by it.
SHARED_BYTES, LEAST_BYTES = 72 * 1024, 32 * 1024


def in_shared_memory(V, dtype):
    """Return options of CTAs that read their row, or part of it, from shared memory twice.

    Two or three of them fit on an SM, since no thread keeps more than a few elements: some load while
    others compute. The next rows arrive in L2 meanwhile. None are returned for rows that are too short.
    """
    nbytes = V * dtype.nbytes
    if nbytes < LEAST_BYTES:
        return {}
    one = {"design": "ring", "stages": 1, "teams": 1, "held": 1}
    if nbytes <= SHARED_BYTES:
        return {**one, "threads": 512, "resident": 2, "prefetch": 33}
    cluster = 2
    while cluster < 8 and cluster * SHARED_BYTES < nbytes:
        cluster *= 2
    return {**one, "threads": 256, "cluster": cluster, "resident": 3, "prefetch": 16}


def sizes(V, dtype, tuning):
    """Return the options of the plan: the caller's, or else those that were fastest.

    Rows that the copy engine cannot bring get up to 32 exponentials for each thread, and a cluster if they
    need it.
    """
    odd = V * dtype.nbytes % 16 != 0
    most = CTA_ODD_ELEMENTS if odd else CTA_BYTES // dtype.nbytes
    cluster = 1
    while cluster < 8 and cluster * most < V:
        cluster *= 2
    own = {"held": 2 * dtype.nbytes, "cluster": cluster, "resident": 1}
    return {**own, **(tuning or {"prefer": in_shared_memory(V, dtype)})}


def build_cross_entropy(V, *, dtype=bf16, gradient="in place", ignore_index=-100, target_dtype=s64, **tuning):
    """Build the kernel for rows of ``V`` logits; call it with x[M, V], target[M] and the factor.

    The outputs are loss[M] and the logarithm of the sum of exponentials, lse[M], in f32; before them, with
    ``gradient="output"``, the gradient [M, V].

    Args:
        V: logits of a row, any number.
        dtype: type of the logits and the gradient: f32, f16 or bf16.
        gradient: ``"in place"`` overwrites x; ``"output"``; None computes none, and the kernel has no factor.
        ignore_index: target of rows that do not count.
        target_dtype: type of the targets, s32 or s64.
        tuning: design and sizes, as for ``kit.RowPlan.make``; :func:`sizes` has the defaults, but for rows of
            ``cross_entropy_wide``.
    """
    if gradient not in GRADIENTS:
        raise SpecError(f"gradient is {gradient!r}: expected 'in place', 'output' or None")
    if target_dtype not in (s32, s64):
        raise SpecError(f"target_dtype is {target_dtype!r}: expected s32 or s64")
    if not tuning and wide.fits(V, dtype):
        return wide.build_wide(
            V, dtype=dtype, gradient=gradient, ignore_index=ignore_index, target_dtype=target_dtype
        )
    plan = kit.RowPlan.make(V, [dtype], [] if gradient is None else [dtype], **sizes(V, dtype, tuning))

    def entropy(X, target, factor, gradients, loss, lse):
        in_place = gradient == "in place"
        outputs = [X] if in_place else [] if gradient is None else [gradients]
        stream = kit.RowStream(
            plan, X.extent(0), [X], outputs, fill=float("-inf"), constant=not in_place, most=2
        )
        targets = stream.numbers(target)
        with stream.rows() as row:
            wanted = (
                ptx.cvt(row.number(targets), u32) if target_dtype is s64 else row.number(targets).view(u32)
            )
            counts = wanted != ignore_index & 0xFFFFFFFF
            logit = reg.scalar(f32, init=0.0)
            maximum, total, exponentials = kit.row_exponentials(
                row, visit=lambda piece: take_logit(piece, wanted, logit), more=logit
            )
            logarithm = reg.scalar(f32)
            ptx.inst.lg2.approx.ftz.f32(logarithm, total)
            ptx.inst.fma.rn.f32(logarithm, logarithm, wide.LN_2, maximum)
            row.store(lse, logarithm)
            value = logarithm - logit
            ptx.inst.selp.f32(value, value, float("nan"), wanted < V)
            ptx.inst.selp.f32(value, value, 0.0, counts)
            row.store(loss, value)
            if gradient is not None:
                store_gradient(row, wanted, counts, total, factor, exponentials)
        ptx.ret()

    def store_gradient(row, wanted, counts, total, factor, exponentials):
        scale, zero = reg.scalar(f32), reg.scalar(f32, init=0.0)
        ptx.inst.rcp.approx.ftz.f32(scale, total)
        scale *= factor
        # All threads of a team have the same target.
        with ptx.if_(counts):
            for piece in row.pieces():
                at = wanted - piece.column()
                results = [e * scale for e in exponentials(piece)]
                with ptx.if_(at < plan.vector):
                    for number, result in enumerate(results):
                        ptx.inst.sub.rn.f32(result, result, factor, pred=at == number)
                piece.store(0, results)
        with ptx.else_():
            for piece in row.pieces():
                piece.store(0, [zero] * plan.vector)

    def take_logit(piece, wanted, logit):
        """Take the logit of the target from the piece that has it; the other threads keep 0."""
        at = wanted - piece.column()
        here = at < plan.vector
        if piece.inside is not None:
            # Past the slice of a CTA of a cluster are columns of the next one, and here the fill.
            here &= piece.inside
        with ptx.if_(here):
            for number, x in enumerate(piece.values(0)):
                ptx.inst.mov.f32(logit, x, pred=at == number)

    numbers, rows = (Tile("M", f32), Tile("M", f32)), Tile("M", V, dtype)
    given = (rows, Tile("M", target_dtype))
    options = {
        "in_specs": given if gradient is None else (*given, Scalar(f32)),
        "out_specs": (rows, *numbers) if gradient == "output" else numbers,
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "cross_entropy",
        **plan.options(),
    }
    if gradient is None:
        return kernel(**options)(lambda X, target, loss, lse: entropy(X, target, None, None, loss, lse))
    if gradient == "output":
        return kernel(**options)(
            lambda X, target, factor, dX, loss, lse: entropy(X, target, factor, dX, loss, lse)
        )
    return kernel(**options)(lambda X, target, factor, loss, lse: entropy(X, target, factor, None, loss, lse))


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, V, seed=0, *, dtype=bf16):
    """Return x[M, V], target[M] in s64, and the factor of the mean over M rows."""
    rng = np.random.default_rng(seed)
    x = (4 * rng.standard_normal((M, V), np.float32)).astype(dtype.dtype)
    return x, rng.integers(0, V, M), np.float32(1 / M)


def reference(x, target, factor, ignore_index=-100):
    """Return gradient, loss and lse in float64."""
    x, rows = x.astype(np.float64), np.arange(len(x))
    maximum = np.max(x, axis=1, keepdims=True)
    e = np.exp(x - maximum)
    total = np.sum(e, axis=1, keepdims=True)
    lse = (np.log(total) + maximum)[:, 0]
    counts = target != ignore_index
    known = (target >= 0) & (target < x.shape[1])
    at = np.where(known, target, 0)
    loss = np.where(counts, lse - np.where(known, x[rows, at], np.nan), 0)
    gradient = e / total
    gradient[rows, at] -= known
    return np.where(counts[:, None], gradient * float(factor), 0), loss, lse


def worst_error(x, target, factor, gradient, loss, lse, **tuning):
    """Return the largest error against float64, as a fraction of the bound; gradient may be None.

    With u = 2**-24 and d = max - x: an exponential has a relative error of ``3 * u * d + 2**-22``, the sum
    the mean of these, weighted by the exponentials, and a rounding for each addition (more where the row is
    read
    twice: each piece multiplies the sum, too).  lg2.approx adds 2**-22 (absolute near 1), the sum with the
    maximum a rounding.  The gradient has besides those of rcp.approx, 2**-23, two products and a difference.
    """
    exact, exact_loss, exact_lse = reference(x, target, factor)
    dtype = type_of(x)
    relative, tiny = {f32: (0.0, 2.0**-126), f16: (2.0**-11, 2.0**-25), bf16: (2.0**-8, 2.0**-126)}[dtype]
    plan = kit.RowPlan.make(x.shape[1], [dtype], [dtype], **sizes(x.shape[1], dtype, tuning))
    wide, u = x.astype(np.float64), 2.0**-24
    d = np.max(wide, axis=1, keepdims=True) - wide
    p = np.exp(wide - exact_lse[:, None])
    additions = plan.additions()
    if not plan.held:
        additions += plan.steps * (6 + 3 * np.max(d))
    of_sum = 3 * u * np.sum(p * d, axis=1) + 2.0**-22 + (additions + 1) * u
    log_sum = np.abs(exact_lse - np.max(wide, axis=1))
    bound = of_sum + 2.0**-22 * (1 + log_sum) + 2 * u * (np.abs(exact_lse) + log_sum)
    known = np.where((target >= 0) & (target < x.shape[1]), target, 0)
    of_loss = bound + 2 * u * (np.abs(exact_lse) + np.abs(wide[np.arange(len(x)), known]))
    errors = [np.abs(lse - exact_lse) / bound, np.abs(loss - exact_loss) / of_loss]
    if gradient is not None:
        of_p = p * (3 * u * d + 2.0**-22 + of_sum[:, None] + 2.0**-23 + 3 * u)
        bound = float(abs(factor)) * of_p + (2 * u + relative) * np.abs(exact) + 2 * tiny
        errors.append(np.abs(gradient.astype(np.float64) - exact) / bound)
    worst = max(np.max(each) for each in errors)
    return np.inf if np.isnan(worst) else float(worst)


def simulated(kernel, x, *rest, schedule="random", seed=0):
    """Run a kernel on a copy of x in the simulator; the verdict must be clean for every schedule.

    Returns x, which the kernel may have overwritten, and the outputs.
    """
    x = x.copy()
    return x, *harness.simulated(kernel, x, *rest, schedule=schedule, seed=seed)


def measure(torch, M, V, dtype=bf16, **tuning):
    """Time the kernel with a gradient of its own, and torch's loss and gradient: one read, one write."""
    kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]

    def inputs(copy):
        x = torch.randn(M, V, device="cuda", dtype=kind)
        return x, torch.randint(0, V, (M,), device="cuda"), 1 / M

    def library(x, target, factor):
        x = x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
        (gradient,) = torch.autograd.grad(loss, x, torch.full_like(loss, factor))
        return gradient, loss.detach().float(), torch.logsumexp(x.detach().float(), dim=1)

    result = bench(
        {"torch": library, "pyptx": build_cross_entropy(V, dtype=dtype, gradient="output", **tuning)},
        inputs,
        rtol=1e-4 if dtype is f32 else 2.0**-6,
        atol=1e-6 if dtype is f32 else 2.0**-6,
        bytes=2 * M * V * dtype.nbytes,
    )
    print(f"\n{M} rows of {V} {dtype} {tuning}")
    result.show()
    return result


#: Rows, width, type and tuning: whole and ragged steps, odd widths, rows that are read twice, a ring or a
# cluster.
CASES = (
    (3, 2048, f32, {}),
    (3, 1500, bf16, {}),
    (3, 333, f16, {}),
    (1, 5000, f32, {"threads": 32}),
    (9, 1024, bf16, {"threads": 64, "ctas": 2, "design": "ring", "stages": 2, "store": "bulk"}),
    (2, 2048, bf16, {"threads": 32, "cluster": 4}),
)


def main():
    for M, V, dtype, tuning in CASES:
        inputs = make_inputs(M, V, dtype=dtype)
        cross_entropy = build_cross_entropy(V, dtype=dtype, **tuning)
        assembly = cross_entropy.assemble(M=M)
        assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
        worst = worst_error(*inputs, *simulated(cross_entropy, *inputs), **tuning)
        verdict = "right" if worst <= 1 else "WRONG"
        print(f"simulator, {M} x {V} {dtype} {tuning or ''}: error/bound {worst:.3f}, {verdict}")
        assert worst <= 1
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    for V in (32768, 128256):
        measure(torch, 4096, V)
    print("right")


if __name__ == "__main__":
    main()
