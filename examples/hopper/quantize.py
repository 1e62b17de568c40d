"""Quantization to 8-bit floats, a memory-bound kernel: ``q = x / scale`` in e4m3 or e5m2, and the scales.

x is f32, f16 or bf16.  A scale belongs to a row, or to a block of 128 neighboring elements of a row (1x128),
and maps the largest magnitude of its elements to the largest number of the type, 448 for e4m3::

    per row      memory -> registers; maximum of the magnitudes of thread, warp, team -> scale -> registers
                 -> memory
    per block    the same, but a block belongs to neighboring lanes of one warp: 16 lanes of 8 elements
                 (bf16), or 32 lanes of 4 (f32). So no thread waits for another warp:

                 lane     0 ... 15 | 16 ... 31           bf16, one step of a warp
                 block       0     |     1

If the width makes pieces smaller than 4 elements, a team is one warp, and a block is 2 or 4 steps of it::

    amax    = max(largest magnitude, least)
    scale   = amax * (1 / 448)            stored, f32: q * scale is x again, but for the rounding
    q       = round(x * (448 / amax))     the division is rounded to nearest

Every bit is that of the same formula in numpy.  ``least`` keeps rows of zeros from a division by zero.  NaN
gives NaN and does not count as a magnitude.  A block with an infinity gets the scale infinity; its infinities
become NaN and its other elements 0.

Rounding has no gradient of its own: training passes the gradient of q straight through to x, so there is no
kernel for it.

``python examples/hopper/quantize.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np

from pyptx import SpecError, Tile, bench, bf16, e4m3, e5m2, f16, f32, kernel, kit, ptx, reg, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from rows_harness import hopper, one_row, simulated

LARGEST = {e4m3: 448.0, e5m2: 57344.0}
LEAST = 1e-10
LANES = 32


def build_quantize(N, *, dtype=bf16, out_dtype=e4m3, block=128, transposed=False, least=LEAST, **tuning):
    """Build the kernel for rows of ``N`` elements; call it with x[M, N], it returns q[M, N] and the scales.

    The scales are f32: scales[M] per row; scales[M, B] for B = ceil(N / block) blocks; transposed scales[B,
    M].

    Args:
        N: elements of a row, any number; the last block may be shorter.
        dtype: type of x: f32, f16 or bf16.
        out_dtype: type of q: e4m3 or e5m2.
        block: 32, 64 or 128 elements that share a scale, or None for a row.
        transposed: store the scales of a block in a row, as a product with TMA loads of scales wants them.
        least: smallest magnitude that counts, 1e-30 to 1e30.
        tuning: design and sizes, as for ``kit.RowPlan.make``. With blocks a team has whole warps.
    """
    if out_dtype not in LARGEST:
        raise SpecError(f"out_dtype is {out_dtype!r}: expected e4m3 or e5m2")
    if block not in (None, 32, 64, 128):
        raise SpecError(f"block is {block!r}: expected 32, 64 or 128 elements, or None for a row")
    if not 1e-30 <= least <= 1e30:
        raise SpecError(f"least is {least!r}: expected 1e-30 to 1e30")
    most, blocks = LARGEST[out_dtype], 1 if block is None else -(-N // block)
    plan = plan_for(N, dtype, out_dtype, block, tuning)

    def factors(amax):
        """Return the scale and its inverse."""
        ptx.inst.max.f32(amax, amax, least)
        return amax * (1 / most), quotient(most, amax)

    def by_rows(stream, scales):
        with stream.rows() as row:
            amax = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                add_magnitudes(amax, piece.values(0))
            scale, inverse = factors(stream.team.reduce(amax, "max"))
            row.store(scales, scale)
            for piece in row.pieces():
                piece.store(0, [x * inverse for x in piece.values(0)])

    def by_blocks(stream, scales):
        lanes = min(LANES, block // plan.vector)
        first = (stream.team.lane & (lanes - 1)) == 0
        with stream.rows() as row:
            pieces = row.pieces()
            while some := list(islice(pieces, steps_of(plan, block))):
                amax = reg.scalar(f32, init=0.0)
                for piece in some:
                    add_magnitudes(amax, piece.values(0))
                scale, inverse = factors(ptx.warp.reduce(amax, "max", width=lanes))
                inside = first if some[0].inside is None else first & some[0].inside
                if row.inside is not None:
                    inside = inside & row.inside
                place = scale_place(scales, row.index, some[0].column() >> (block.bit_length() - 1))
                ptx.store(place, scale, space="global", pred=inside)
                for piece in some:
                    piece.store(0, [x * inverse for x in piece.values(0)])

    def scale_place(scales, row, number):
        if not transposed:
            return scales.at(row, number)
        at, place = reg.scalar(u64), reg.scalar(u64)
        ptx.inst.cvt.u64.u32(at, row)
        ptx.inst.mad.wide.u32(at, number, scales.extent(1), at)
        ptx.inst.mad.lo.u64(place, at, 4, scales.ptr)
        return ptx.addr(place)

    shape = ("M",) if block is None else (blocks, "M") if transposed else ("M", blocks)

    @kernel(
        in_specs=(Tile("M", N, dtype),),
        out_specs=(Tile("M", N, out_dtype), Tile(*shape, f32)),
        grid=lambda M: plan.grid(M),
        arch="sm_90a",
        **plan.options(),
    )
    def quantize(X, Q, scales):
        (by_rows if block is None else by_blocks)(kit.RowStream(plan, X.extent(0), [X], [Q]), scales)
        ptx.ret()

    return quantize


def quotient(most, amax):
    """Compute ``most / amax``, rounded to nearest, for a magnitude of at least 1e-30 or infinity.

    Records 16 instructions, without the call of ``div.rn`` for numbers near the ends of the range: a
    reciprocal, its error, the quotient, and two corrections by its remainder, each by one fma.  Magnitudes
    above 2**100 are divided by 2**60 first, and so is the quotient.
    """
    huge = amax > 2.0**100
    b, y, error, q = reg.array(f32, 4)
    ptx.inst.selp.f32(b, amax * 2.0**-60, amax, huge)
    minus = -b
    ptx.inst.rcp.approx.ftz.f32(y, b)
    ptx.inst.fma.rn.f32(error, minus, y, 1.0)
    ptx.inst.fma.rn.f32(y, y, error, y)
    ptx.inst.mul.rn.f32(q, y, most)
    for _ in range(2):
        ptx.inst.fma.rn.f32(error, minus, q, most)
        ptx.inst.fma.rn.f32(q, y, error, q)
    ptx.inst.mul.rn.f32(q, q, 2.0**-60, pred=huge)
    ptx.inst.mov.f32(q, 0.0, pred=amax == float("inf"))
    return q


def steps_of(plan, block):
    """Return the steps of a warp that a block takes: more than one if its pieces are small."""
    return max(1, block // (LANES * plan.vector))


def one_row_of(N, dtype, block):
    """Return the options that were fastest for wide rows: a CTA for each, four pieces for each thread.

    Rows of 12 to 16 KiB of 16-bit types have two pieces for each, and those with one scale wait in
    registers.
    """
    pieces = -(-N * dtype.nbytes // 16)
    if dtype.nbytes == 2 and 768 < pieces <= 1024:
        full = {"threads": 512, "resident": 4}
        return full if block is None else {**one_row(512), **full, "store": "direct"}
    threads = max(128 * dtype.nbytes, LANES * -(-pieces // (4 * LANES)))
    return {**one_row(threads), "store": "direct"} if threads <= 1024 else {}


def plan_for(N, dtype, out_dtype, block, tuning):
    """Return the plan; with blocks, teams are whole warps, and one warp if a block is several steps of it."""
    tuning = tuning or {"prefer": one_row_of(N, dtype, block)}
    if block is None:
        return kit.RowPlan.make(N, [dtype], [out_dtype], **tuning)
    plan = kit.RowPlan.make(N, [dtype], [out_dtype], **{"threads": LANES, **tuning})
    steps = steps_of(plan, block)
    if "threads" not in tuning and steps == 1:
        threads = LANES * max(1, min(8, -(-plan.steps // 4)))
        plan = kit.RowPlan.make(N, [dtype], [out_dtype], **{"threads": threads, **tuning})
    elif steps > 1 and "teams" not in tuning and plan.design == "registers" and plan.cluster == 1:
        plan = kit.RowPlan.make(N, [dtype], [out_dtype], **{"threads": LANES, "teams": 4, **tuning})
    if plan.threads % LANES or (steps > 1 and plan.threads != LANES) or plan.at_once % steps:
        raise SpecError(
            f"threads = {plan.threads} and at_once = {plan.at_once} for blocks of {steps} steps of a warp: "
            "expected " + ("one warp, and a multiple of these steps" if steps > 1 else "whole warps")
        )
    if plan.cluster > 1 and plan.slice * plan.vector % block:
        raise SpecError(
            f"{plan.slice * plan.vector} elements of each CTA of a cluster are no whole blocks of {block}"
        )
    return plan


def add_magnitudes(amax, values):
    """Raise ``amax`` to the largest magnitude of some values. Records ``abs`` and ``max`` for each."""
    for x in values:
        magnitude = reg.scalar(f32)
        ptx.inst.abs.f32(magnitude, x)
        ptx.inst.max.f32(amax, amax, magnitude)


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, seed=0, *, dtype=bf16):
    """Return x[M, N] with random, normally distributed numbers; each row has a size of its own."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((M, N), np.float32) * np.exp2(rng.integers(-6, 7, (M, 1))).astype(np.float32)
    return (x.astype(dtype.dtype),)


def reference(x, *, out_dtype=e4m3, block=128, least=LEAST):
    """Return q and the scales [M, B], computed in f32 as the docstring of this file says."""
    M, N = x.shape
    block = N if block is None else block
    most, wide = np.float32(LARGEST[out_dtype]), np.zeros((M, -(-N // block) * block), np.float32)
    wide[:, :N] = x
    blocks = wide.reshape(M, -1, block)
    with np.errstate(invalid="ignore"):
        amax = np.fmax(np.fmax.reduce(np.abs(blocks), axis=2, keepdims=True), np.float32(least))
        q = np.clip(blocks * (most / amax), -most, most).astype(out_dtype.dtype)
    return q.reshape(M, -1)[:, :N], (amax * (1 / most))[:, :, 0]


def is_right(x, q, scales, **options):
    """Return True if every bit of q and of the scales is that of the reference. NaNs are equal."""
    right, right_scales = reference(x, **options)
    none = np.isnan(q.astype(np.float32)) & np.isnan(right.astype(np.float32))
    same = (q.view(np.uint8) == right.view(np.uint8)) | none
    scales = scales[:, None] if scales.ndim == 1 else scales
    return bool(same.all() and np.array_equal(scales, right_scales, equal_nan=True))


def measure(torch, M, N, dtype=bf16, block=128, **tuning):
    """Time the kernel and the same in torch. The work is to read x and to write q and the scales once."""
    kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]

    def library(x):
        blocks = x.float().view(M, -1, block or N)
        amax = blocks.abs().amax(dim=2, keepdim=True).clamp(min=LEAST)
        scales = (amax / 448).view(M, -1) if block else (amax / 448).view(M)
        return (blocks * (448 / amax)).to(torch.float8_e4m3fn).view(M, N), scales

    result = bench(
        {"torch": library, "pyptx": build_quantize(N, dtype=dtype, block=block, **tuning)},
        lambda copy: (torch.randn(M, N, device="cuda", dtype=kind),),
        bytes=M * N * (dtype.nbytes + 1) + 4 * M * (-(-N // block) if block else 1),
    )
    print(f"\n{M} rows of {N} {dtype}, blocks of {block or N} {tuning}")
    result.show()
    return result


#: Rows, width, types, block and tuning: whole and ragged blocks, odd widths, a ring or a cluster.
CASES = (
    (3, 2048, bf16, e4m3, 128, {}),
    (3, 1500, f32, e4m3, 128, {}),
    (3, 333, f16, e5m2, 128, {}),
    (3, 2048, bf16, e4m3, None, {}),
    (2, 40004, f32, e4m3, None, {}),
    (9, 1024, bf16, e4m3, 128, {"threads": 32, "teams": 2, "ctas": 2, "design": "ring", "store": "bulk"}),
    (2, 2048, f32, e4m3, None, {"threads": 64, "cluster": 2}),
)


def main():
    for M, N, dtype, out_dtype, block, tuning in CASES:
        (x,) = make_inputs(M, N, dtype=dtype)
        quantize = build_quantize(N, dtype=dtype, out_dtype=out_dtype, block=block, **tuning)
        assembly = quantize.assemble(M=M)
        assert not (assembly.spills or assembly.warnings or assembly.notes), assembly
        right = is_right(x, *simulated(quantize, x), out_dtype=out_dtype, block=block)
        what = f"{M} x {N} {dtype} to {out_dtype}, blocks of {block or N} {tuning or ''}"
        print(f"simulator, {what}: {'right' if right else 'WRONG'}")
        assert right
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    for block in (128, None):
        measure(torch, 8192, 8192, bf16, block)
    print("right")


if __name__ == "__main__":
    main()
