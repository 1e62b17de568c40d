"""What the rungs of the ladder share: sizes, tensor maps, the wait, the epilogue, the program.

Every rung computes ``D[M, N] = A[M, K] @ B[N, K].T``, bf16 in and out, with f32 sums.  A and B are
K-major: K is contiguous, as in a linear layer of torch, ``Y = X @ W.T``.
"""

from __future__ import annotations

import argparse
import sys
import time

import ml_dtypes
import numpy as np

from pyptx import SpecError, Tile, b32, bf16, f32, kit, ptx, reg, u64

MMA_K = 16  # K of one tcgen05.mma on 16-bit operands: 32 bytes
SLAB = 64  # columns of a swizzled slab, from rung v2 on: 128 bytes, the widest row that TMA swizzles
#: Why K must be a multiple of a slab where a tensor map has three dimensions.
WHOLE_SLABS = "the 3-D tensor map has whole slabs of 64 columns (v2a takes multiples of 8)"
#: How long a try_wait may suspend its thread, in nanoseconds: 10 ms. Then the wait asks again.
WAIT_HINT = 0x989680


# --- sizes -----------------------------------------------------------------------------------------


def check_sizes(M, N, K, unit_k, why):
    """Raise an error for sizes that a rung cannot compute; tiles may hang over each edge of D.

    Args:
        unit_k: what K must be a multiple of.
        why: the reason, for the message.
    """
    pitch = "the rows of D must be multiples of 16 bytes"
    for name, size, unit, reason in (("M", M, 1, ""), ("N", N, 8, pitch), ("K", K, unit_k, why)):
        if not isinstance(size, int) or size <= 0 or size % unit:
            raise SpecError(
                f"{name} = {size!r} is not a positive multiple of {unit}" + (f": {reason}" if reason else ""),
                hint=f"pad {name} with zeros to the next multiple of {unit}" if unit > 1 else "",
            )


def tiles_of(size, tile):
    """Return the number of tiles along an axis; the last one may hang over the edge."""
    return -(-size // tile)


# --- tensor maps -----------------------------------------------------------------------------------


def operand(rows, K, layout, global_dim, global_strides, box_dim):
    """Return the spec of an operand, from the arguments of ``cuTensorMapEncodeTiled`` as CUDA orders them.

    The driver counts dimensions from the innermost one, the reverse of numpy's and torch's order.
    Strides are bytes; the innermost dimension has none, since its elements are adjacent.
    """
    return Tile(
        rows,
        K,
        bf16,
        layout,
        tma_shape=global_dim[::-1],
        tma_strides=(*global_strides[::-1], bf16.nbytes),
        tma_box=box_dim[::-1],
    )


def operand_2d(rows, K, box_rows, columns, layout):
    """Describe an operand as the matrix that it is. A copy loads ``columns`` columns of ``box_rows`` rows."""
    return operand(
        rows,
        K,
        layout,
        global_dim=(K, rows),
        global_strides=(K * bf16.nbytes,),
        box_dim=(columns, box_rows),
    )


def operand_3d(rows, K, box_rows, box_k, columns, layout):
    """Describe an operand as ``K / columns`` slabs of ``columns`` columns; a copy loads several slabs.

    ::

        [rows, K]                       strides  2 * K, 2                    the matrix
        [rows, K / columns, columns]    strides  2 * K, 2 * columns, 2       a row as pieces of `columns`
        [K / columns, rows, columns]    strides  2 * columns, 2 * K, 2       the slab outermost
    """
    return operand(
        rows,
        K,
        layout,
        global_dim=(columns, rows, K // columns),
        global_strides=(K * bf16.nbytes, columns * bf16.nbytes),
        box_dim=(columns, box_rows, box_k // columns),
    )


# --- in the kernel -----------------------------------------------------------------------------------


def wait(mbar, parity):
    """Wait for the phase of this parity. Records a try_wait with the hint, and a branch back to it."""
    ptx.mbarrier.wait(mbar, parity, WAIT_HINT, sem="acquire", scope="cta")


def store_tile(tmem, warp, D, m_base, n_base, columns):
    """Record the epilogue of one warp: 32 rows of the accumulator to D, rounded to bf16.

    A warp reaches the 32 lanes of tensor memory that its number (modulo 4) selects, and lane ``i`` of the
    accumulator is row ``i`` of the tile, so thread ``i`` of the warp holds a row.
    ``tcgen05.ld.32x32b.x8`` loads eight columns of it. As bf16 they are 16 bytes, one store.  Neighboring
    threads store to different rows, so the stores are not coalesced.

    Args:
        tmem: tensor-memory address of the accumulator, a register.
        warp: number of the warp in the quarter of the accumulator, 0 to 3.
        m_base, n_base: row and column of D where the tile begins; rows and columns beyond D are not stored.
        columns: number of columns of the tile.
    """
    M, N = D.shape
    row = m_base + warp * 32 + ptx.special.laneid()
    inside = row < M
    place = reg.scalar(u64)
    ptx.inst.mad.wide.u32(place, row, N * bf16.nbytes, D.ptr)
    ptx.inst.mad.wide.u32(place, n_base, bf16.nbytes, place)
    source = tmem + (warp << 21)  # the lane, 32 * warp, is in the upper half of the address
    count = columns if N % columns == 0 else ptx.min(N - n_base, columns)
    with ptx.for_(0, count, 8):
        words = reg.array(b32, 8)
        ptx.tcgen05.ld(words, source, shape="32x32b", count=8)
        ptx.tcgen05.wait_ld()
        packed = reg.array(b32, 4)
        for i in range(4):
            low, high = words[2 * i].view(f32), words[2 * i + 1].view(f32)
            ptx.inst.cvt.rn.bf16x2.f32(packed[i], high, low)
        ptx.inst.st.global_.v4.b32(ptx.addr(place), packed, pred=inside)
        source += 8
        place += 16


# --- the program: verify anywhere, measure on a B200 ---------------------------------------------------


def make_inputs(M, N, K, seed=0):
    """Return A[M, K] and B[N, K] in bf16 with random, normally distributed numbers."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((rows, K), np.float32).astype(ml_dtypes.bfloat16) for rows in (M, N))


def worst_error(a, b, d):
    """Return the largest error against float64, as a fraction of the bound.

    A sum of K products in f32 is off by at most ``K * 2**-23 * (|A| @ |B|.T)``; rounding it to bf16 adds
    ``2**-8`` of it.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact = a @ b.T
    bound = a.shape[1] * 2.0**-23 * (np.abs(a) @ np.abs(b).T)
    bound += 2.0**-8 * (np.abs(exact) + bound)
    error = np.abs(d.astype(np.float64) - exact)
    return np.inf if np.isnan(error).any() else float(np.max(error / bound))


def simulate(gemm, shape, schedule="eager", seed=0, **options):
    """Run a kernel in the simulator. Return the report and the error as a fraction of the bound."""
    a, b = make_inputs(*shape, seed)
    d = np.full(shape[:2], np.nan, ml_dtypes.bfloat16)  # elements that are not written stay NaN
    report = gemm.simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize="strict", **options)
    return report, worst_error(a, b, d)


def verify(build, shapes, options):
    """Assemble and simulate a kernel for each shape. Print a table; return True if all is right."""
    print(f"{'M x N x K':>18}  {'PTX':>5}  {'ptxas':<22} {'holds':<15} {'seconds':>7}  {'error/bound':>11}")
    good = True
    for shape in shapes:
        gemm = build(*shape, **options)
        assembly = gemm.assemble()
        ptxas = f"{assembly.resources[0].registers} regs, {assembly.spills} B spilled"
        started = time.perf_counter()
        report, error = simulate(gemm, shape)
        seconds = time.perf_counter() - started
        right = report.verdict == "clean" and error <= 1 and report.holds == "every schedule"
        right &= not (assembly.spills or assembly.warnings or assembly.notes)
        good &= right
        name = " x ".join(map(str, shape))
        print(
            f"{name:>18}  {gemm.ptx().count(chr(10)):>5}  {ptxas:<22} {report.holds:<15} "
            f"{seconds:>7.2f}  {error:>11.4f}  {'ok' if right else 'WRONG'}"
        )
        if report.verdict != "clean" or report.holds != "every schedule":
            print(report)
    return good


def blackwell():
    """Return torch and an empty text if torch sees a GPU that runs sm_100a; else None and the reason."""
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    capability = torch.cuda.get_device_capability()
    if capability != (10, 0):
        name = torch.cuda.get_device_name()
        return None, f"{name} has compute capability {capability[0]}.{capability[1]}, sm_100a needs 10.0"
    return torch, ""


def launch(torch, gemm, shape, device="cuda"):
    """Launch a kernel on the GPU. Return the error as a fraction of the bound."""
    a, b = make_inputs(*shape)
    there = [torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16).to(device) for x in (a, b)]
    d = torch.full(shape[:2], float("nan"), device=device, dtype=torch.bfloat16)
    gemm(*there, out=d)
    return worst_error(a, b, d.float().cpu().numpy())


def measure(torch, build, shape, published, protocol="burst"):
    """Time a kernel and torch's product on the GPU, after a check of the outputs; print TFLOP/s."""
    from pyptx import bench

    M, N, K = shape

    def inputs(copy):
        return tuple(torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))

    result = bench(
        {"torch": lambda a, b: torch.matmul(a, b.T), build.__name__.removeprefix("build_"): build(M, N, K)},
        inputs,
        reference=lambda a, b: a.float() @ b.float().T,
        rtol=2.0**-7,
        atol=1e-5 * K,
        flops=2 * M * N * K,
        protocol=protocol,
    )
    print(
        f"\nD[{M}, {N}] = A[{M}, {K}] @ B[{N}, {K}].T in bf16; published for 4096 x 4096 x 4096: {published}"
    )
    result.show()
    return result


def program(build, published, shapes, *, trace=None, simulated=None):
    """Run a rung as a program.

    Args:
        build: the rung's builder.
        published: what its author measured, in TFLOP/s for M = N = K = 4096; None if nothing was published.
        shapes: what the simulator runs.
        trace: for a rung with marks: a function of what the builder gets that returns how many CTAs and warps
            a launch has.
        simulated: options of the builder for the simulator.
    """
    simulated = simulated or {}
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", metavar="MxNxK", help="print the PTX of one size and stop")
    parser.add_argument("--protocol", choices=("burst", "sustained"), default="burst", help="how to measure")
    if trace is not None:
        parser.add_argument(
            "--profile", metavar="HTML", help="write a timeline of each warp's marks and stop"
        )
    options = parser.parse_args()
    if options.emit:
        print(build(*map(int, options.emit.split("x"))).ptx(), end="")
        return
    torch, why = blackwell()
    if trace is not None and options.profile:
        given = {} if torch else simulated
        profile(build, trace, torch, (4096,) * 3 if torch else shapes[-1], given, options.profile)
        return
    good = verify(build, shapes, simulated)
    if torch is not None:
        errors = [launch(torch, build(*shape), shape) for shape in shapes]
        good &= max(errors) <= 1
        print(f"on the GPU: error/bound {max(errors):.4f}  {'ok' if max(errors) <= 1 else 'WRONG'}")
        measure(torch, build, (4096, 4096, 4096), published, options.protocol)
    else:
        print(f"\nThe kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


def profile(build, launch_of, torch, shape, options, path):
    """Run a kernel with marks, on the GPU or in the simulator, and write their timeline as a page."""
    ctas, warps = launch_of(*shape, **options)
    trace = kit.Trace(ctas=ctas, warps=warps, events=1024)
    gemm = build(*shape, trace=trace, **options)
    if torch is None:
        buffers = trace.buffers()
        gemm.simulate(*buffers, *make_inputs(*shape))
    else:
        buffers = trace.buffers("cuda")
        a, b = (torch.randn(rows, shape[2], device="cuda", dtype=torch.bfloat16) for rows in shape[:2])
        gemm(*buffers, a, b)
        torch.cuda.synchronize()
    title = f"{build.__name__.removeprefix('build_')}, {' x '.join(map(str, shape))}"
    trace.timeline(buffers, title=title, simulated=torch is None).html(path)
    print(f"{path}: the marks of {title}")
