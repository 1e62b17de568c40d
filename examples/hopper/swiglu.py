"""SwiGLU, a memory-bound kernel: ``y = gate * sigmoid(gate) * up``, in f32, f16 or bf16, and its backward.

The gate and the up projection are two matrices, or the left and the right half of one (``packed=True``), as a
matrix product with both weights leaves them::

    X[M, 2 * N]  |  gate, N columns  |  up, N columns  |        Y[M, N]

No element depends on another one.  So the kernel only has to keep enough bytes in flight, and takes the rows
as the other kernels of its family do: each thread loads its pieces of 16 bytes of both before the first use,
or the copy engine fills a ring of shared memory with both rows (``pyptx.kit.row_stream``).  With ``parts=8``
eighths of rows are taken like rows, so that many small CTAs begin and end: the default, for wide rows.

    e = 2**(-gate * log2(e)),   sigmoid = 1 / (1 + e)             two approximations, in f32

Where e is above 2**126 the sigmoid is 0, so gates below -87.3 give 0 instead of numbers below 2**-119.  A
gate of minus infinity gives NaN, as -inf * 0 does.

The backward, with s = sigmoid(gate)::

    dup   = dy * gate * s
    dgate = dy * up * s * (1 + gate * (1 - s))

``python examples/hopper/swiglu.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from pyptx import Tile, bench, bf16, f16, f32, kernel, kit, ptx, reg

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from rows_harness import hopper, one_row, simulated

LOG2_E = 1.4426950408889634


PART = 4096  # least bytes of a part of a row of one matrix
#: What an H200 was fastest with: a CTA for each part of a row, which the copy engine brings and stores.
FASTEST = one_row(128)


def sizes(N, dtype, tuning):
    """Return the options of the plan: the caller's, or else those that were fastest.

    No thread waits for another one, so a row in registers needs no more than 256 of them.
    """
    wide = N // tuning.get("parts", 1) * dtype.nbytes > 256 * 4 * 16
    usual = {"held": 8, "threads": 256 if wide else None, "at_once": 2}
    parts = math.gcd(N, 1 << max(0, (N * dtype.nbytes // PART).bit_length() - 1))
    return usual | (tuning or {"prefer": {**FASTEST, "parts": parts}})


def sigmoid(x):
    """Compute ``1 / (1 + exp(-x))``. Records ``mul``, ``ex2.approx.ftz``, ``add`` and ``rcp.approx.ftz``."""
    result = reg.scalar(f32)
    ptx.inst.mul.rn.f32(result, x, -LOG2_E)
    ptx.inst.ex2.approx.ftz.f32(result, result)
    ptx.inst.add.rn.f32(result, result, 1.0)
    ptx.inst.rcp.approx.ftz.f32(result, result)
    return result


def build_swiglu(N, *, dtype=f32, packed=False, **tuning):
    """Build the kernel; call it with gate[M, N] and up[M, N], or packed with x[M, 2 * N].

    Args:
        N: elements of a row of the result, any number.
        dtype: type of all matrices: f32, f16 or bf16.
        packed: gate and up are the halves of one matrix.
        tuning: design and sizes, as for ``kit.RowPlan.make``.
    """
    multiples = (2 * N, N) * packed
    options = sizes(N, dtype, tuning)
    plan = kit.RowPlan.make(N, [dtype, dtype], [dtype], multiples=multiples, **options)

    def multiply(gate, up, Y, queue=None):
        with kit.RowStream(plan, Y.extent(0), [gate, up], [Y], queue=queue).rows() as row:
            for piece in row.pieces():
                piece.store(0, [g * sigmoid(g) * u for g, u in zip(*map(piece.values, (0, 1)), strict=True)])
        ptx.ret()

    options = {
        "in_specs": (Tile("M", 2 * N, dtype),) if packed else (Tile("M", N, dtype),) * 2,
        "out_specs": (Tile("M", N, dtype),),
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "swiglu",
        **plan.options(),
    }
    if packed:
        return kernel(**options)(lambda X, Y: multiply(X, kit.RowSlice(X, N), Y))
    if plan.queue:
        return kernel(**options)(lambda gate, up, Y, queue: multiply(gate, up, Y, queue))
    return kernel(**options)(lambda gate, up, Y: multiply(gate, up, Y))


def build_swiglu_backward(N, *, dtype=f32, packed=False, **tuning):
    """Build the backward; call it with gate, up and dy[M, N], or packed with x[M, 2 * N] and dy.

    The outputs are dgate[M, N] and dup[M, N], or packed dx[M, 2 * N]. Arguments as for :func:`build_swiglu`.
    """
    multiples = (2 * N, N) * packed
    options = sizes(N, dtype, tuning)
    plan = kit.RowPlan.make(N, [dtype] * 3, [dtype] * 2, multiples=multiples, **options)

    def backward(inputs, outputs, queue=None):
        with kit.RowStream(plan, inputs[-1].extent(0), inputs, outputs, queue=queue).rows() as row:
            for piece in row.pieces():
                gates, ups = [], []
                for g, u, dy in zip(*map(piece.values, range(3)), strict=True):
                    s = sigmoid(g)
                    slope, silu, rest = dy * s, g * s, reg.scalar(f32)
                    ptx.inst.sub.rn.f32(rest, 1.0, s)
                    ptx.inst.fma.rn.f32(rest, g, rest, 1.0)
                    gates.append(slope * rest * u)
                    ups.append(silu * dy)
                piece.store(0, gates)
                piece.store(1, ups)
        ptx.ret()

    narrow, wide = Tile("M", N, dtype), Tile("M", 2 * N, dtype)
    options = {
        "in_specs": (wide, narrow) if packed else (narrow,) * 3,
        "out_specs": (wide,) if packed else (narrow,) * 2,
        "grid": lambda M: plan.grid(M),
        "arch": "sm_90a",
        "name": "swiglu_backward",
        **plan.options(),
    }
    if packed:
        return kernel(**options)(
            lambda X, dY, dX: backward([X, kit.RowSlice(X, N), dY], [dX, kit.RowSlice(dX, N)])
        )
    if plan.queue:
        return kernel(**options)(
            lambda gate, up, dY, dgate, dup, queue: backward([gate, up, dY], [dgate, dup], queue)
        )
    return kernel(**options)(lambda gate, up, dY, dgate, dup: backward([gate, up, dY], [dgate, dup]))


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, seed=0, *, dtype=f32):
    """Return gate, up and dy[M, N] with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    return tuple((2 * rng.standard_normal((M, N), np.float32)).astype(dtype.dtype) for _ in range(3))


def reference(gate, up):
    """Return y in float64."""
    gate, up = gate.astype(np.float64), up.astype(np.float64)
    return gate / (1 + np.exp(-gate)) * up


def reference_backward(gate, up, dy):
    """Return dgate and dup in float64."""
    gate, up, dy = (each.astype(np.float64) for each in (gate, up, dy))
    s = 1 / (1 + np.exp(-gate))
    return dy * up * s * (1 + gate * (1 - s)), dy * gate * s


def rounding(array):
    """Return the relative error of a rounding to an array's type, and half of its smallest number."""
    return {f32.dtype: (0.0, 2.0**-126), f16.dtype: (2.0**-11, 2.0**-25), bf16.dtype: (2.0**-8, 2.0**-126)}[
        array.dtype
    ]


def of_sigmoid(gate):
    """Return the relative error of the sigmoid.

    With u = 2**-24: the power of 2 has two roundings, which change e by ``2 * u * |gate|`` of itself;
    ex2.approx adds 2**-22; 1 + e has the part 1 - s of the error of e, and a rounding; rcp.approx adds
    2**-23.
    """
    gate = gate.astype(np.float64)
    part = 1 / (1 + np.exp(gate))
    return part * (2 * 2.0**-24 * np.abs(gate) + 2.0**-22) + 2.0**-24 + 2.0**-23


def worst_error(gate, up, y):
    """Return the largest error against float64, as a fraction of the bound: the sigmoid, and two products."""
    exact, (relative, tiny) = reference(gate, up), rounding(y)
    # Sigmoids below 2**-126 are 0.
    least = 2.0**-125 * np.abs(gate.astype(np.float64) * up.astype(np.float64))
    bound = (of_sigmoid(gate) + 2 * 2.0**-24 + relative) * np.abs(exact) + tiny + least
    error = np.abs(y.astype(np.float64) - exact) / bound
    return np.inf if np.isnan(error).any() else float(np.max(error))


def worst_gradient_error(gate, up, dy, dgate, dup):
    """Return the largest error of both gradients against float64, as a fraction of the bound."""
    u, (relative, tiny) = 2.0**-24, rounding(dgate)
    of_gate, of_up = reference_backward(gate, up, dy)
    wide, sigma = gate.astype(np.float64), of_sigmoid(gate)
    s = 1 / (1 + np.exp(-wide))
    scale = np.abs(dy.astype(np.float64) * up.astype(np.float64)) * s
    # 1 - s is wrong by the error of s and a rounding; then its product with the gate, added to 1.
    rest = np.abs(wide) * (s * sigma + u * (1 - s)) + u * np.abs(1 + wide * (1 - s))
    least = (
        2.0**-125 * (1 + np.abs(wide)) * np.abs(dy.astype(np.float64)) * (1 + np.abs(up.astype(np.float64)))
    )
    bound = scale * rest + (sigma + 3 * u + relative) * np.abs(of_gate) + tiny + least
    errors = np.abs(dgate.astype(np.float64) - of_gate) / bound
    bound = (sigma + 2 * u + relative) * np.abs(of_up) + tiny + least
    errors_up = np.abs(dup.astype(np.float64) - of_up) / bound
    worst = max(np.max(errors), np.max(errors_up))
    return np.inf if np.isnan(worst) else float(worst)


def measure(torch, M, N, dtype=f32, **tuning):
    """Time the kernel and torch's silu and product. The work is to read two matrices and to write one."""
    kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]

    def library(gate, up):
        return torch.nn.functional.silu(gate) * up

    result = bench(
        {"torch": library, "pyptx": build_swiglu(N, dtype=dtype, **tuning)},
        lambda copy: tuple(torch.randn(M, N, device="cuda", dtype=kind) for _ in range(2)),
        reference=lambda gate, up: library(gate.double(), up.double()),
        rtol=1e-5 if dtype is f32 else 2.0**-7,
        bytes=3 * M * N * dtype.nbytes,
    )
    print(f"\n{M} rows of {N} {dtype} {tuning}")
    result.show()
    return result


#: Rows, width, type, packed and tuning: whole and ragged steps, odd widths, loops, a ring or a cluster.
CASES = (
    (3, 2048, f32, False, {}),
    (3, 1500, bf16, True, {}),
    (3, 333, f16, True, {}),
    (1, 40004, f32, False, {}),
    (
        9,
        1024,
        bf16,
        True,
        {"threads": 32, "teams": 2, "ctas": 2, "design": "ring", "stages": 2, "store": "bulk"},
    ),
)


def main():
    for M, N, dtype, packed, tuning in CASES:
        gate, up, dy = make_inputs(M, N, dtype=dtype)
        kernels = [
            build(N, dtype=dtype, packed=packed, **tuning) for build in (build_swiglu, build_swiglu_backward)
        ]
        for each in kernels:
            assembly = each.assemble(M=M)
            assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
        inputs = (np.concatenate([gate, up], axis=1),) if packed else (gate, up)
        (y,) = simulated(kernels[0], *inputs)
        gradients = simulated(kernels[1], *inputs, dy)
        dgate, dup = np.split(gradients[0], 2, axis=1) if packed else gradients
        worst = worst_error(gate, up, y), worst_gradient_error(gate, up, dy, dgate, dup)
        verdict = "right" if max(worst) <= 1 else "WRONG"
        errors = f"error/bound {worst[0]:.3f}, backward {worst[1]:.3f}"
        print(f"simulator, {M} x {N} {dtype}{' packed' * packed} {tuning or ''}: {errors}, {verdict}")
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
