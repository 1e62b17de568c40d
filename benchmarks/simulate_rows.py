"""Measure how long real kernels take in the simulator: RMSNorm or softmax of 2048 rows of 8192 f32 numbers.

Each CTA computes one row: it loads 128 bits at a time, reduces within each warp by shuffles and over the
warps through shared memory, and stores 128 bits at a time. Target on 2 cores: 20 s. The result is checked
against float64.

    python benchmarks/simulate_rows.py [rms_norm|softmax] [ROWSxWIDTH]
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np

from pyptx import Kernel, Tile, f32, kernel, ptx, reg, smem, u64

ROWS, WIDTH = 2048, 8192
TARGET = 20.0
THREADS = 256
WARPS = THREADS // 32
VECTOR = 4
EPSILON = 1e-5


def _whole(partial: Any, thread: Any, value: Any, operation: str) -> Any:
    """Record the reduction of one value per thread over the CTA; return it, the same in all threads."""
    value = ptx.warp.reduce(value, operation)
    with ptx.if_(thread % 32 == 0):
        smem.store(partial.addr + (thread >> 5) * 4, value)
    ptx.bar.sync(0)
    values = reg.array(f32, WARPS)
    for at in range(0, WARPS, VECTOR):
        ptx.inst.ld.shared.v4.f32(values[at : at + VECTOR], ptx.addr(partial.addr, at * 4))
    whole = values[0]
    for other in values[1:]:
        if operation == "add":
            whole = whole + other
        else:
            ptx.inst.max.f32(whole, whole, other)
    return whole


def _row(rows: int, width: int) -> int:
    assert rows > 0 and width % (THREADS * VECTOR) == 0
    return width // (THREADS * VECTOR)


def _loaded(row: Any, steps: int) -> list[Any]:
    """Record the loads of a thread's share of a row."""
    kept = [reg.array(f32, VECTOR) for _ in range(steps)]
    for step, x in enumerate(kept):
        ptx.inst.ld.global_.v4.f32(x, ptx.addr(row, step * THREADS * VECTOR * 4))
    return kept


def rms_norm(rows: int, width: int) -> Kernel:
    steps = _row(rows, width)

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

        kept = _loaded(X.ptr + first, steps)
        total = reg.scalar(f32, init=0.0)
        for x in kept:
            for value in x:
                ptx.inst.fma.rn.f32(total, value, value, total)
        whole = _whole(partial, thread, total, "add")
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


def softmax(rows: int, width: int) -> Kernel:
    steps = _row(rows, width)

    @kernel(
        in_specs=(Tile(rows, width, f32),),
        out_specs=(Tile(rows, width, f32),),
        grid=(rows,),
        block=(THREADS,),
        arch="sm_90a",
    )
    def softmax(X, out):  # type: ignore[no-untyped-def]
        thread = ptx.special.tid.x()
        first, offset = reg.scalar(u64), reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, thread, VECTOR * 4)
        ptx.inst.mad.wide.u32(first, ptx.special.ctaid.x(), width * 4, offset)
        greatest, sums = smem.alloc(WARPS, f32), smem.alloc(WARPS, f32)

        kept = _loaded(X.ptr + first, steps)
        most = reg.scalar(f32, init=-math.inf)
        for x in kept:
            for value in x:
                ptx.inst.max.f32(most, most, value)
        most = _whole(greatest, thread, most, "max")
        total = reg.scalar(f32, init=0.0)
        for x in kept:
            for value in x:
                ptx.inst.sub.f32(value, value, most)
                ptx.inst.mul.f32(value, value, math.log2(math.e))
                ptx.inst.ex2.approx.f32(value, value)
                ptx.inst.add.f32(total, total, value)
        whole = _whole(sums, thread, total, "add")
        scale = reg.scalar(f32)
        ptx.inst.rcp.approx.f32(scale, whole)
        for step, x in enumerate(kept):
            results = [value * scale for value in x]
            ptx.inst.st.global_.v4.f32(ptx.addr(out.ptr + first, step * THREADS * VECTOR * 4), results)
        ptx.ret()

    return softmax


def _expected(name: str, x: Any, weight: Any) -> Any:
    wide = x.astype(np.float64)
    if name == "rms_norm":
        return wide / np.sqrt(np.mean(wide * wide, axis=1, keepdims=True) + EPSILON) * weight
    raised = np.exp(wide - wide.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def main() -> None:
    words = sys.argv[1:]
    name = words.pop(0) if words and words[0] in ("rms_norm", "softmax") else "rms_norm"
    rows, width = map(int, words[0].split("x")) if words else (ROWS, WIDTH)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, width)).astype(np.float32)
    weight = rng.standard_normal(width).astype(np.float32)
    made = {"rms_norm": rms_norm, "softmax": softmax}[name](rows, width)
    out = np.full_like(x, np.nan)
    inputs = (x, weight) if name == "rms_norm" else (x,)
    started = time.perf_counter()
    report = made.simulate(*inputs, out=out)
    seconds = time.perf_counter() - started
    error = np.max(np.abs(out - _expected(name, x, weight)))
    target = f"(target {TARGET:g})" if (rows, width) == (ROWS, WIDTH) else ""
    print(f"{name} {rows} x {width}: {report.verdict}, largest error {error:.1e}")
    print(f"seconds                       {seconds:12.1f}  {target}")
    print(f"warp-instructions             {report.steps:12,d}")
    print(f"warp-instructions per second  {report.steps / seconds:12,.0f}")
    if report.verdict != "clean" or not error < 1e-4:
        sys.exit("wrong")


if __name__ == "__main__":
    main()
