"""Compare the simulator with Triton's interpreter: both run the same GEMM.

Both kernels have the same tiles (128x256x64) and the same operands (bf16, f32 out), and each result is
checked against numpy.  There are two Triton kernels: one uses tensor descriptors, which correspond to the TMA
copies of the Blackwell GEMM, and one uses pointers.  Triton's interpreter multiplies the bit patterns of
bf16, so the kernels convert the operands before ``tl.dot``.  Targets of the simulator: 1024^3 in under 3 s,
4096^3 in under 60 s, and less time than Triton's interpreter.

    python benchmarks/simulate_beside_triton.py [MxNxK ...]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined

import numpy as np
import torch
import triton
import triton.language as tl
from _examples import load_example

EXAMPLE = load_example("blackwell/gemm_highperf_blackwell.py")
BM, BN, BK = 128, 256, 64


@triton.jit
def by_descriptors(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    of_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    of_d = tl.make_tensor_descriptor(d, [M, N], [N, 1], [BM, BN])
    tile = tl.program_id(0)
    m, n = tile // (N // BN) * BM, tile % (N // BN) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left, right = of_a.load([m, k]), of_b.load([n, k])
        total = tl.dot(left.to(tl.float32), right.to(tl.float32).T, total)
    of_d.store([m, n], total)


@triton.jit
def by_pointers(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    m = tile // (N // BN) * BM + tl.arange(0, BM)
    n = tile % (N // BN) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    from_a = a + m[:, None] * K + k[None, :]
    from_b = b + n[None, :] * K + k[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(from_a).to(tl.float32), tl.load(from_b).to(tl.float32), total)
        from_a += BK
        from_b += BK
    tl.store(d + m[:, None] * N + n[None, :], total)


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(shape: tuple[int, int, int]) -> list[float]:
    """Return the seconds of pyptx and of the two Triton kernels; end the program if a result is wrong."""
    M, N, K = shape
    a, b = EXAMPLE.make_inputs(M, N, K)
    wide = a.astype(np.float32), b.astype(np.float32)
    expected = wide[0] @ wide[1].T
    gemm = EXAMPLE.build_gemm(M, N, K)
    d = np.full((M, N), np.nan, np.float32)
    seconds, results = [timed(lambda: gemm.simulate(a, b, out=d))], [d]
    tensors = [torch.from_numpy(x).to(torch.bfloat16) for x in wide]
    for kernel in (by_descriptors, by_pointers):
        out = torch.full((M, N), float("nan"))
        launch = partial(kernel[(M // BM * (N // BN),)], *tensors, out, M, N, K, BM, BN, BK)
        seconds.append(timed(launch))
        results.append(out.numpy())
    errors = [float(np.abs(result - expected).max()) for result in results]
    if not max(errors) < 1e-4 * float(np.abs(expected).max()):
        sys.exit(f"wrong: errors {errors}")
    return seconds


def main() -> None:
    asked = [tuple(map(int, word.split("x"))) for word in sys.argv[1:]]
    measure((BM, BN, BK))  # an untimed run first: imports and tables that are read once count for no kernel
    print(f"{'M x N x K':>18}  {'pyptx':>8}  {'descriptors':>11}  {'pointers':>8}   seconds")
    for M, N, K in asked or [(1024, 1024, 1024), (4096, 4096, 4096)]:
        ours, descriptors, pointers = measure((M, N, K))
        print(f"{f'{M} x {N} x {K}':>18}  {ours:>8.2f}  {descriptors:>11.2f}  {pointers:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
