"""Measure how long a real kernel takes in the simulator: RMSNorm of 2048 rows of 8192 f32 numbers.

Each CTA normalizes one row: it loads 128 bits at a time, sums within each warp by shuffles and over the warps
through shared memory, and stores 128 bits at a time. Target on 2 cores: 20 s. The result is checked against
float64.

    python benchmarks/simulate_rmsnorm.py [ROWSxWIDTH]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from pyptx import Kernel, Tile, f32, kernel, ptx, reg, smem, u64

ROWS, WIDTH = 2048, 8192
TARGET = 20.0
THREADS = 256
WARPS = THREADS // 32
VECTOR = 4
EPSILON = 1e-5


def build(rows: int, width: int) -> Kernel:
    assert width % (THREADS * VECTOR) == 0
    steps = width // (THREADS * VECTOR)

    @kernel(
        in_specs=(Tile(rows, width, f32), Tile(width, f32)),
        out_specs=(Tile(rows, width, f32),),
        grid=(rows,),
        block=(THREADS,),
        arch="sm_90a",
    )
    def rms_norm(X, weight, out):  # type: ignore[no-untyped-def]
        thread = ptx.special.tid.x()
        first, offset = reg.scalar(u64), reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, thread, VECTOR * 4)
        ptx.inst.mad.wide.u32(first, ptx.special.ctaid.x(), width * 4, offset)
        partial = smem.alloc(WARPS, f32)

        row = X.ptr + first
        kept = [reg.array(f32, VECTOR) for _ in range(steps)]
        for step, x in enumerate(kept):
            ptx.inst.ld.global_.v4.f32(x, ptx.addr(row, step * THREADS * VECTOR * 4))
        total = reg.scalar(f32, init=0.0)
        for x in kept:
            for value in x:
                ptx.inst.fma.rn.f32(total, value, value, total)
        total = ptx.warp.reduce(total, "add")
        with ptx.if_(thread % 32 == 0):
            smem.store(partial.addr + (thread >> 5) * 4, total)
        ptx.bar.sync(0)
        sums = reg.array(f32, WARPS)
        for at in range(0, WARPS, VECTOR):
            ptx.inst.ld.shared.v4.f32(sums[at : at + VECTOR], ptx.addr(partial.addr, at * 4))
        whole = sums[0]
        for value in sums[1:]:
            whole = whole + value
        scale = reg.scalar(f32)
        ptx.inst.fma.rn.f32(scale, whole, 1 / width, EPSILON)
        ptx.inst.rsqrt.approx.f32(scale, scale)

        places, to = weight.ptr + offset, out.ptr + first
        for step, x in enumerate(kept):
            factors = reg.array(f32, VECTOR)
            ptx.inst.ld.global_.v4.f32(factors, ptx.addr(places, step * THREADS * VECTOR * 4))
            results = [value * scale * factor for value, factor in zip(x, factors, strict=True)]
            ptx.inst.st.global_.v4.f32(ptx.addr(to, step * THREADS * VECTOR * 4), results)
        ptx.ret()

    return rms_norm


def main() -> None:
    rows, width = map(int, sys.argv[1].split("x")) if len(sys.argv) > 1 else (ROWS, WIDTH)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, width)).astype(np.float32)
    weight = rng.standard_normal(width).astype(np.float32)
    rms_norm = build(rows, width)
    out = np.full_like(x, np.nan)
    started = time.perf_counter()
    report = rms_norm.simulate(x, weight, out=out)
    seconds = time.perf_counter() - started
    wide = x.astype(np.float64)
    expected = wide / np.sqrt(np.mean(wide * wide, axis=1, keepdims=True) + EPSILON) * weight
    error = np.max(np.abs(out - expected))
    target = f"(target {TARGET:g})" if (rows, width) == (ROWS, WIDTH) else ""
    print(f"{rows} x {width}: {report.verdict}, largest error {error:.1e}")
    print(f"seconds                       {seconds:12.1f}  {target}")
    print(f"warp-instructions             {report.steps:12,d}")
    print(f"warp-instructions per second  {report.steps / seconds:12,.0f}")
    if report.verdict != "clean" or not error < 1e-4:
        sys.exit("wrong")


if __name__ == "__main__":
    main()
