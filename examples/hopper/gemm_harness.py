"""What the Hopper GEMMs' programs share: inputs, the expected product, runs in the simulator and on a GPU."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np

from pyptx import bf16, e4m3, e5m2, f16, f32

NUMPY = {
    f32: np.float32,
    bf16: ml_dtypes.bfloat16,
    f16: np.float16,
    e4m3: ml_dtypes.float8_e4m3fn,
    e5m2: ml_dtypes.float8_e5m2,
}
#: Relative error of rounding to a type of D, and half of its smallest number.
ROUNDING = {NUMPY[bf16]: (2.0**-8, 2.0**-134), np.float16: (2.0**-11, 2.0**-25)}


def make_inputs(M, N, K, seed=0, *, a_type=bf16, b_type=None, a_major="K", b_major="K", batch=None):
    """Return A and B of a type, with random, normally distributed numbers; for f32, ones that tf32 holds."""
    rng = np.random.default_rng(seed)
    front = () if batch is None else (batch,)
    shapes = [(rows, K) if major == "K" else (K, rows) for rows, major in ((M, a_major), (N, b_major))]
    numbers = [rng.standard_normal((*front, *shape), np.float32) for shape in shapes]
    types = (a_type, a_type if b_type is None else b_type)
    return tuple(
        (x.astype(np.float16) if kind is f32 else x).astype(NUMPY[kind])
        for x, kind in zip(numbers, types, strict=True)
    )


def reference(a, b, *, a_major="K", b_major="K"):
    """Return ``A @ B.T`` and ``|A| @ |B|.T`` in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    a = a if a_major == "K" else a.swapaxes(-1, -2)
    b = b.swapaxes(-1, -2) if b_major == "K" else b
    return a @ b, np.abs(a) @ np.abs(b)


def bound(magnitude, K, kind):
    """Return the largest error of a sum over K, for ``|A| @ |B|.T`` and the numpy type of A.

    The tensor core cuts each addend below 2**-25 of the largest addend, and cuts each sum to f32: at most
    2**-23 of the sum of magnitudes for each element of K.  For 8-bit floats it keeps 13 bits below the
    largest addend of 32 of K, so each step of 32 adds 33 errors of 2**-13 at most.
    """
    if np.dtype(kind).itemsize == 1:
        return -(-K // 32) * 33 * 2.0**-13 * magnitude
    return K * 2.0**-23 * magnitude


def worst_error(exact, error, d):
    """Return the largest error of D against float64, as a fraction of the bound, rounding to D included."""
    relative, least = ROUNDING.get(d.dtype.type, (2.0**-23, 2.0**-149))
    error = error + relative * (np.abs(exact) + error) + least
    found = np.abs(d.astype(np.float64) - exact)
    return np.inf if np.isnan(found).any() else float(np.max(found / error))


INPUT_OPTIONS = ("a_type", "b_type", "a_major", "b_major", "batch")


def simulated(kernel, shape, options, schedule="eager", seed=0):
    """Run A @ B.T in the simulator; return the report and the error as a fraction of the bound."""
    M, N, K = shape
    kinds = {name: options[name] for name in INPUT_OPTIONS if name in options}
    a, b = make_inputs(M, N, K, seed, **kinds)
    front = () if options.get("batch") is None else (options["batch"],)
    d = np.full((*front, M, N), np.nan, NUMPY[options.get("out_type", bf16)])
    report = kernel.simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize="strict")
    majors = {name: kinds[name] for name in ("a_major", "b_major") if name in kinds}
    exact, magnitude = reference(a, b, **majors)
    return report, worst_error(exact, bound(magnitude, K, a.dtype), d)


def verify(build, cases, schedule="eager"):
    """Assemble and simulate each case, a shape and options. Print a table; return True if all is right."""
    print(f"{'M x N x K':>17}  {'PTX':>5}  registers  {'seconds':>7}  error/bound  holds")
    good = True
    for (M, N, K), options in cases:
        kernel = build(M, N, K, **options)
        assembly = kernel.assemble()
        # If ptxas ignored setmaxnreg or serialized wgmma, its notes say so.
        clean = not (assembly.spills or assembly.warnings or assembly.notes)
        registers = assembly.resources[0].registers
        started = time.perf_counter()
        report, error = simulated(kernel, (M, N, K), options, schedule)
        seconds = time.perf_counter() - started
        right = clean and report.verdict == "clean" and report.holds == "every schedule" and error <= 1
        good &= right
        shown = " ".join(f"{name}={value}" for name, value in options.items())
        print(
            f"{f'{M} x {N} x {K}':>17}  {kernel.ptx().count(chr(10)):>5}  {registers:>9}"
            f"  {seconds:>7.2f}  {error:>11.4f}  {report.holds}  {'' if right else 'WRONG '}{shown}"
        )
        if not right:
            print(report, *assembly.notes, *assembly.warnings, sep="\n")
    return good


def hopper():
    """Return torch and an empty text if torch sees a GPU that runs sm_90a; else None and the reason."""
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    capability = torch.cuda.get_device_capability()
    if capability != (9, 0):
        name = torch.cuda.get_device_name()
        return None, f"{name} has compute capability {capability[0]}.{capability[1]}, sm_90a needs 9.0"
    return torch, ""


def to_gpu(torch, array):
    """Return a numpy array of any of the types on the GPU."""
    kinds = {
        NUMPY[bf16]: (np.uint16, torch.bfloat16),
        NUMPY[e4m3]: (np.uint8, torch.float8_e4m3fn),
        NUMPY[e5m2]: (np.uint8, torch.float8_e5m2),
    }
    if array.dtype.type not in kinds:
        return torch.from_numpy(array).cuda()
    words, kind = kinds[array.dtype.type]
    return torch.from_numpy(array.view(words)).view(kind).cuda()


def words_of(torch, tensor):
    """Return the bits of a tensor of 16 or 32 bits as a numpy array."""
    kind = torch.uint32 if tensor.element_size() == 4 else torch.uint16
    return tensor.view(kind).cpu().numpy()


def compare(torch, build, cases):
    """Launch on the GPU and compare: every output must equal the simulator's, which models wgmma exactly."""
    good = True
    for (M, N, K), options in cases:
        kinds = {name: options[name] for name in INPUT_OPTIONS if name in options}
        a, b = make_inputs(M, N, K, seed=M, **kinds)
        kernel = build(M, N, K, **options)
        there = kernel(to_gpu(torch, a), to_gpu(torch, b))
        here = kernel(a, b)
        kind = np.uint32 if here.dtype.itemsize == 4 else np.uint16
        same = np.array_equal(words_of(torch, there), here.view(kind))
        good &= same
        print(f"{f'{M} x {N} x {K}':>17}  GPU = simulator, word for word: {'ok' if same else 'WRONG'}")
    return good


def measure(torch, build, shape, protocol="burst", **options):
    """Time the kernel and ``torch.matmul`` on normally distributed bf16 inputs; check the outputs."""
    from pyptx import bench

    M, N, K = shape

    def inputs(copy):
        return tuple(torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))

    result = bench(
        {"torch": lambda a, b: torch.matmul(a, b.T), "pyptx": build(M, N, K, **options)},
        inputs,
        reference=lambda a, b: a.float() @ b.float().T,
        rtol=2.0**-7,
        atol=1e-5 * K,
        flops=2 * M * N * K,
        protocol=protocol,
    )
    print(f"\nD[{M}, {N}] = A[{M}, {K}] @ B[{N}, {K}].T in bf16")
    result.show()
    return result
