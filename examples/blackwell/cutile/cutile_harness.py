"""What the matmuls of this folder share: inputs, the error bound, verification in the simulator."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np

from pyptx import bf16, f16, f32

KINDS = {f16: np.float16, bf16: ml_dtypes.bfloat16, f32: np.float32}


def make_inputs(M, N, K, dtype=f16, seed=0):
    """Return A[M, K] and B[K, N] with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    shapes = (M, K), (K, N)
    return tuple(rng.standard_normal(shape, np.float32).astype(KINDS[dtype]) for shape in shapes)


def worst_error(a, b, c, tf32):
    """Return the largest error against float64, as a fraction of the bound.

    The sum over K in f32 is wrong by at most ``K * 2**-23 * (|A| @ |B|)``: Hopper's tensor core cuts each
    addend below 2**-25 of the largest one and cuts each sum to f32, Blackwell's is in that bound too. An
    output of 16 bits is rounded once more. f32 inputs become tf32, each with a relative error of up to
    ``tf32``.
    """
    kind, K = c.dtype, a.shape[1]
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact, magnitude = a @ b, np.abs(a) @ np.abs(b)
    bound = K * 2.0**-23 * magnitude
    if kind == np.float32:
        bound += (2 * tf32 + tf32**2) * magnitude
    else:
        half, least = (2.0**-11, 2.0**-25) if kind == np.float16 else (2.0**-8, 2.0**-134)
        bound += np.maximum(half * (np.abs(exact) + bound), least)
    error = np.abs(c.astype(np.float64) - exact)
    return np.inf if np.isnan(error).any() else float(np.max(error / bound))


def simulated(kernel, M, N, K, dtype, tf32, seed=0, **options):
    """Run the kernel in the simulator. Return the report, and the error as a fraction of the bound."""
    a, b = make_inputs(M, N, K, dtype, seed)
    c = np.full((M, N), np.nan, a.dtype)  # elements that are not written stay NaN
    report = kernel.simulate(a, b, out=c, **options)
    return report, worst_error(a, b, c, tf32)


def verify(build, shapes, targets, tf32):
    """Assemble and simulate the kernel for each type and size. Print a table; return True if all is right."""
    print(f"{'type':<5} {'M x N x K':>15}  {'PTX':>5}  registers  error/bound  seconds  holds")
    good = True
    for dtype, sizes in shapes.items():
        for M, N, K in sizes:
            kernels = [build(N, K, dtype, arch=arch) for arch in targets]
            assemblies = [kernel.assemble(M=M) for kernel in kernels]
            clean = not any(each.spills or each.warnings or each.notes for each in assemblies)
            registers = "/".join(str(each.resources[0].registers) for each in assemblies)
            lines = kernels[0].ptx(M=M).count("\n")
            started = time.perf_counter()
            report, error = simulated(kernels[0], M, N, K, dtype, tf32, sanitize="strict")
            seconds = time.perf_counter() - started
            right = clean and report.verdict == "clean" and report.holds == "every schedule" and error <= 1
            good &= right
            print(
                f"{dtype!s:<5} {f'{M} x {N} x {K}':>15}  {lines:>5}  {registers:>9}  {error:>11.4f}  "
                f"{seconds:>7.2f}  {report.holds}{'' if right else '  WRONG'}"
            )
            if report.verdict != "clean":
                print(report)
    return good
