"""RMSNorm of rows, a memory-bound kernel: ``y = x / sqrt(mean(x**2) + epsilon) * weight``, f32 or bf16.

A CTA normalizes one row.  Each load and store moves a piece of 16 bytes, which is 4 elements of f32 or 8 of
bf16.  A thread takes every ``threads``-th piece::

    row      | 16 bytes | 16 bytes | ...            | 16 bytes | ...            |
    thread     0          1          ... threads-1    0          1 ...
               `- step 0 ------------------------'    `- step 1 --------- ...

    global -> registers      all steps at once, many loads in flight        16 bytes each
    sum of squares           each thread sums its own elements, in f32
       warp                  5 x (shfl.bfly, add): every lane gets the sum of its warp
       CTA                   lane 0 of each warp -> shared memory -> barrier -> every thread adds these sums
    scale                    rsqrt(sum / N + epsilon)
    registers -> global      x * scale * weight

So the kernel reads a row from memory once.  A row of more than ``MAX_THREADS * KEPT`` pieces does not fit the
registers: the kernel sums it in a loop and reads it a second time, from L2.

The size of a row may be any multiple of 16 bytes.  A predicate guards the threads that have no piece in the
last step; their elements count as 0.

``python examples/hopper/rmsnorm.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pyptx import SpecError, Tile, b32, bench, bf16, f32, kernel, ptx, reg, smem, u64

PIECE = 16  # bytes of one load or store of a thread
KEPT = 8  # pieces of a row that a thread keeps in registers
MAX_THREADS = 1024


def default_threads(N, dtype):
    """Return a number of threads, in whole warps, that gives a thread at most four pieces, if possible."""
    return min(MAX_THREADS, 32 * -(-N * dtype.nbytes // (PIECE * 32 * 4)))


def build_rmsnorm(N, *, dtype=f32, epsilon=1e-5, threads=None):
    """Build the kernel for rows of ``N`` elements; call it with x[M, N] and weight[N].

    Args:
        N: elements of a row, a multiple of 4 (f32) or 8 (bf16).
        dtype: type of x, weight and the result: f32 or bf16. Sums are f32.
        epsilon: number that the kernel adds to the mean of the squares.
        threads: number of threads of a CTA, a multiple of 32 up to 1024; default: :func:`default_threads`.
    """
    if dtype not in (f32, bf16):
        raise SpecError(f"dtype is {dtype!r}: expected f32 or bf16")
    vector = PIECE // dtype.nbytes
    if N <= 0 or N % vector:
        raise SpecError(
            f"N = {N} is not a positive multiple of {vector}, the elements of {dtype} in {PIECE} bytes",
            hint=f"pad the rows to {max(1, -(-N // vector)) * vector}",
        )
    pieces = N // vector
    threads = threads or default_threads(N, dtype)
    if threads % 32 or not 32 <= threads <= MAX_THREADS:
        raise SpecError(f"threads = {threads}: expected a multiple of 32, up to {MAX_THREADS}")
    steps = -(-pieces // threads)
    kept = steps <= KEPT
    stride = threads * PIECE  # bytes from one step to the next

    @kernel(
        in_specs=(Tile("M", N, dtype), Tile(N, dtype)),
        out_specs=(Tile("M", N, dtype),),
        grid=lambda M: (M,),
        block=(threads,),
        arch="sm_90a",
    )
    def rms_norm(X, weight, Y):
        tid = ptx.special.tid.x()
        sums = smem.alloc(threads // 32, f32)
        offset, in_row = reg.scalar(u64), reg.scalar(u64)
        ptx.inst.mul.wide.u32(in_row, tid, PIECE)
        ptx.inst.mad.wide.u32(offset, ptx.special.ctaid.x(), N * dtype.nbytes, in_row)
        source, factors, target = X.ptr + offset, weight.ptr + in_row, Y.ptr + offset

        def loaded(place, at, inside=None):
            """Load 16 bytes at ``place + at``; the result is zeros in threads where ``inside`` is false."""
            words = reg.array(b32, 4)
            if inside is not None:
                for word in words:
                    word.set(0)
            ptx.inst.ld.global_.v4.b32(words, ptx.addr(place, at), pred=inside)
            return words

        def numbers(words):
            """Return the elements of 16 bytes as f32."""
            if dtype is f32:
                return [word.view(f32) for word in words]
            found = []
            for word in words:
                # A bf16 is the upper half of an f32.
                found += [(word << 16).view(f32), (word & 0xFFFF0000).view(f32)]
            return found

        def add_squares(total, words):
            for value in numbers(words):
                ptx.inst.fma.rn.f32(total, value, value, total)

        def normalized(words, weights, scale):
            """Compute 16 bytes of the result."""
            results = [x * scale * w for x, w in zip(numbers(words), numbers(weights), strict=True)]
            if dtype is f32:
                return results
            packed = reg.array(b32, 4)
            for word, low, high in zip(packed, results[::2], results[1::2], strict=True):
                ptx.inst.cvt.rn.bf16x2.f32(word, high, low)  # the first source is the upper half
            return packed

        # --- the row, and its sum of squares ---------------------------------------------------
        total = reg.scalar(f32, init=0.0)
        if kept:
            # Some threads may have no piece in the last step, and only there.
            guards = [None] * steps
            if pieces % threads:
                guards[-1] = tid < pieces - (steps - 1) * threads
            row = [loaded(source, step * stride, inside) for step, inside in enumerate(guards)]
            # These loads are in flight while the threads compute the sum.
            weights = [loaded(factors, step * stride, inside) for step, inside in enumerate(guards)]
            for words in row:
                add_squares(total, words)
        else:
            with ptx.for_(tid, pieces, threads):
                add_squares(total, loaded(source, 0))
                source += stride
        total = ptx.warp.reduce(total, "add")
        with ptx.if_(tid & 31 == 0):
            smem.store(sums.at(tid >> 5), total)
        ptx.bar.sync(0)
        whole = reg.scalar(f32, init=0.0)
        for warp in range(threads // 32):
            whole += smem.load(f32, sums.at(warp))
        scale = reg.scalar(f32)
        ptx.inst.fma.rn.f32(scale, whole, 1 / N, epsilon)
        ptx.inst.rsqrt.approx.f32(scale, scale)

        # --- the result ------------------------------------------------------------------------
        if kept:
            for step, inside in enumerate(guards):
                results = normalized(row[step], weights[step], scale)
                ptx.inst.st.global_.v4.b32(ptx.addr(target, step * stride), results, pred=inside)
        else:
            again = X.ptr + offset
            with ptx.for_(tid, pieces, threads):
                results = normalized(loaded(again, 0), loaded(factors, 0), scale)
                ptx.inst.st.global_.v4.b32(ptx.addr(target), results)
                for place in (again, factors, target):
                    place += stride
        ptx.ret()

    return rms_norm


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def expected(x, weight, epsilon=1e-5):
    """Return the expected result in float64."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + epsilon) * weight


def worst_error(x, weight, y):
    """Return the largest error against float64, as a fraction of the bound.

    A term of the sum of squares takes part in the additions of its thread, in five additions of the warp, and
    in one addition for each warp; its own square is rounded too.  No term is negative, so each rounding adds
    at most 2**-24 of the sum to the error, and the square root halves this relative error.  rsqrt.approx adds
    2**-22.9; the mean, epsilon and both products add 2**-24 each.  The rounding to a bf16 result adds 2**-8.
    """
    exact = expected(x, weight)
    dtype = f32 if y.dtype == np.float32 else bf16
    threads = default_threads(x.shape[1], dtype)
    additions = x.shape[1] / threads + PIECE + 5 + threads // 32
    relative = (additions / 2 + 4) * 2.0**-24 + 2.0**-22.9
    if dtype is bf16:
        relative += 2.0**-8
    error = np.abs(y.astype(np.float64) - exact)
    return np.inf if np.isnan(error).any() else float(np.max(error / (relative * np.abs(exact) + 2.0**-126)))


def hopper():
    """Return torch if it sees a GPU that runs sm_90a, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else None


def measure(torch, M, N, dtype=f32, **options):
    """Time the kernel and torch's rms_norm. The work is to read and write every row once."""
    kind = torch.float32 if dtype is f32 else torch.bfloat16

    def inputs(copy):
        return torch.randn(M, N, device="cuda", dtype=kind), torch.randn(N, device="cuda", dtype=kind)

    def library(x, weight):
        return torch.nn.functional.rms_norm(x, (N,), weight, eps=1e-5)

    result = bench(
        {"torch": library, "pyptx": build_rmsnorm(N, dtype=dtype, **options)},
        inputs,
        reference=lambda x, weight: library(x.double(), weight.double()),
        rtol=1e-5 if dtype is f32 else 2.0**-7,
        bytes=2 * M * N * dtype.nbytes,
    )
    print(f"\n{M} rows of {N} {dtype}")
    result.show()
    return result


def main():
    rng = np.random.default_rng(0)
    # Each thread has equally many pieces; some have none; some have one more; the last two read rows twice.
    for dtype, rows, width in (
        (f32, 3, 2048),
        (f32, 2, 4),
        (f32, 2, 1500),
        (bf16, 3, 1032),
        (f32, 1, 40004),
        (bf16, 1, 70000),
    ):
        kind = np.float32 if dtype is f32 else ml_dtypes.bfloat16
        x, weight = rng.standard_normal((rows, width)).astype(kind), rng.standard_normal(width).astype(kind)
        rms_norm = build_rmsnorm(width, dtype=dtype)
        worst = 0.0
        for schedule in ("eager", "random"):
            y = np.full_like(x, np.nan)
            report = rms_norm.simulate(x, weight, out=y, schedule=schedule)
            assert report.verdict == "clean", str(report)
            worst = max(worst, worst_error(x, weight, y))
        verdict = "right" if worst <= 1 else "WRONG"
        print(f"simulator, {rows} x {width} {dtype}: error/bound {worst:.3f}, {verdict}")
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
