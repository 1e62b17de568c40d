"""What the matmuls of this folder share as programs: inputs, the error bound, verification, the table of
times.

``verify`` assembles every configuration for both targets and runs it in the simulator.  ``tabulate``
launches a tuned kernel on a Blackwell GPU, checks it against torch and measures both, 5 runs to warm up and
100 that count.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

import pyptx

#: Targets that have tcgen05: B200 and B300.
TARGETS = ("sm_100a", "sm_103a")
WARMUP, REPEATS = 5, 100
COOL_DOWN = 3.0  # seconds between two functions, so that a hot GPU does not slow the second one down
HEADERS = ("m", "n", "k", "name", "latency (ms)", "tflops")


def make_inputs(M, N, K, seed=0):
    """Return A[M, K] and B[N, K] in f16 with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((rows, K), np.float32).astype(np.float16) for rows in (M, N))


def worst_error(a, b, c):
    """Return the largest error against float64, as a fraction of the bound.

    The sum over K in f32 is wrong by at most ``K * 2**-23 * (|A| @ |B|.T)``. The rounding to f16 adds a
    relative error of 2**-11, or 2**-25 where the result is subnormal.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact = a @ b.T
    bound = a.shape[1] * 2.0**-23 * (np.abs(a) @ np.abs(b).T)
    bound += np.maximum(2.0**-11 * (np.abs(exact) + bound), 2.0**-25)
    error = np.abs(c.astype(np.float64) - exact)
    return np.inf if np.isnan(error).any() else float(np.max(error / bound))


def configurations(build):
    """Return the keywords of all configurations of a tuned builder: the product of its decorators' rows."""
    rows = itertools.product(*(axis.rows for axis in build.axes))
    names = [name for axis in build.axes for name in axis.names]
    return [dict(zip(names, itertools.chain(*row), strict=True)) for row in rows]


def simulated(kernel, M, N, K, seed=0, **options):
    """Run the kernel in the simulator. Return the report, and the error as a fraction of the bound."""
    a, b = make_inputs(M, N, K, seed)
    c = np.full((M, N), np.nan, np.float16)  # elements that are not written stay NaN
    report = kernel.simulate(a, b, out=c, **options)
    return report, worst_error(a, b, c)


def verify(build, shapes, chosen=None, schedules=("eager",)):
    """Assemble each configuration and simulate it with one of the shapes. Print a table; True if all is
    right.

    Args:
        build: a tuned builder.
        shapes: M, N, K, in turns.
        chosen: configurations to verify, by default the builder's whole space.
        schedules: one run for each. A single run must hold for every schedule.
    """
    print(f"{'configuration':<34}  {'m x n x k':>16}  {'PTX':>5}  registers  error/bound  holds")
    good = True
    for number, options in enumerate(configurations(build) if chosen is None else chosen):
        M, N, K = shapes[number % len(shapes)]
        kernels = [build.what(N, K, arch=arch, **options) for arch in TARGETS]
        assemblies = [kernel.assemble(M=M) for kernel in kernels]
        registers = "/".join(str(each.resources[0].registers) for each in assemblies)
        clean = not any(each.spills or each.warnings or each.notes for each in assemblies)
        runs = [simulated(kernels[0], M, N, K, sanitize="strict", schedule=each) for each in schedules]
        error = max(error for _, error in runs)
        right = clean and error <= 1 and all(report.verdict == "clean" for report, _ in runs)
        right &= len(runs) > 1 or runs[0][0].holds == "every schedule"
        holds = runs[0][0].holds if len(runs) == 1 else ", ".join(schedules)
        good &= right
        name = " ".join(f"{value}" for value in options.values())
        lines = kernels[0].ptx(M=M).count("\n")
        print(
            f"{name:<34}  {f'{M} x {N} x {K}':>16}  {lines:>5}  {registers:>9}  {error:>11.4f}  {holds}"
            f"{'' if right else '  WRONG'}"
        )
        for report, _ in runs:
            if report.verdict != "clean":
                print(report)
    return good


def blackwell():
    """Return torch and an empty text if torch sees a GPU that runs these kernels; else None and the
    reason."""
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    major, minor = torch.cuda.get_device_capability()
    if f"sm_{major}{minor}a" not in TARGETS:
        return (
            None,
            f"{torch.cuda.get_device_name()} has compute capability {major}.{minor}, not 10.0 or 10.3",
        )
    return torch, ""


def tabulate(torch, build, name, shapes, bench=True):
    """Launch the tuned kernel for each shape and check it; with ``bench`` measure it and torch, and print."""
    major, minor = torch.cuda.get_device_capability()
    rows = []
    for M, N, K in shapes:
        print(f"Running with m={M}, n={N}, k={K}")
        matmul = build(N, K, arch=f"sm_{major}{minor}a")
        a = torch.randn(M, K, dtype=torch.float16, device="cuda")
        b = torch.randn(N, K, dtype=torch.float16, device="cuda")
        c = torch.empty(M, N, dtype=torch.float16, device="cuda")
        matmul(a, b, out=c)
        torch.testing.assert_close(c, a @ b.T, atol=1e-2, rtol=1e-2)
        if not bench:
            continue
        functions = {
            "torch": lambda a, b, c: torch.matmul(a, b.T, out=c),
            name: lambda a, b, c, matmul=matmul: matmul(a, b, out=c),
        }
        for each, function in functions.items():
            result = pyptx.bench(
                {each: function},
                (a, b, c),
                reference=lambda a, b, c: a @ b.T,
                rtol=1e-2,
                atol=1e-2,
                flops=2 * M * N * K,
                warmup=WARMUP,
                repeats=REPEATS,
            )
            rows.append((M, N, K, each, result[each].median / 1e3, result[each].tflops))
            time.sleep(COOL_DOWN)
    if bench:
        print("".join(f"{head:>14}" for head in HEADERS))
        for M, N, K, each, latency, tflops in rows:
            print(f"{M:>14}{N:>14}{K:>14}{each:>14}{latency:>14.4f}{tflops:>14.1f}")
