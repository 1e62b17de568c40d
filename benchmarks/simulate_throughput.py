"""Measure the simulator's warp-instructions per second: four warps compute and branch, without loads.

Each round of the kernel's loop has f32 fma, mul and add, integer mad and logic, a comparison, and a branch
over a few instructions. In one kernel the whole warp takes the branch, in the other half of its lanes. Target
on 2 cores: 500,000 per second. A short run of each kernel is verified first.

    python benchmarks/simulate_throughput.py [ROUNDS]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from pyptx import Kernel, Tile, f32, kernel, ptx, reg, u32, u64

ROUNDS = 20_000
TARGET = 500_000
THREADS = 128
SCALE, SHIFT = 0.75, 0.125
FACTOR, STEP = 1664525, 1013904223


def build(rounds: int, divergent: bool) -> Kernel:
    @kernel(
        out_specs=(Tile(THREADS, u32), Tile(THREADS, f32)),
        grid=(1,),
        block=(THREADS,),
        arch="sm_90a",
    )
    def mixed(integers, floats):  # type: ignore[no-untyped-def]
        thread = ptx.special.tid.x()
        x, y, z = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32)
        ptx.inst.cvt.rn.f32.u32(x, thread)
        ptx.inst.mul.rn.f32(y, x, 0.5)
        n, bit = reg.scalar(u32, init=0), reg.scalar(u32)
        with ptx.for_(0, rounds, 1) as i:
            ptx.inst.mad.lo.u32(n, n, FACTOR, STEP)
            ptx.inst.fma.rn.f32(x, x, SCALE, y)
            ptx.inst.mul.rn.f32(z, x, SHIFT)
            ptx.inst.add.rn.f32(y, z, 1.0)
            if divergent:
                ptx.inst.add.u32(bit, i, thread)
            else:
                ptx.inst.mad.lo.u32(bit, i, FACTOR, STEP)
            ptx.inst.shr.u32(bit, bit, 1 if divergent else 31)
            bit &= 1
            with ptx.if_(bit == 1):
                n ^= i
                ptx.inst.fma.rn.f32(y, y, 0.5, z)
                ptx.inst.mad.lo.u32(n, n, 3, thread)
        place = reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, thread, 4, integers.ptr)
        ptx.inst.st.global_.u32(ptx.addr(place), n)
        ptx.inst.mad.wide.u32(place, thread, 4, floats.ptr)
        ptx.inst.st.global_.f32(ptx.addr(place), x)
        ptx.ret()

    return mixed


def expected(rounds: int, divergent: bool) -> tuple[np.ndarray, np.ndarray]:
    """Compute the expected integers exactly, and the floats in double precision.

    The loop shrinks rounding errors, so the f32 results stay close to the doubles.
    """
    thread = np.arange(THREADS, dtype=np.uint32)
    x = thread.astype(np.float64)
    y = x * 0.5
    n = np.zeros_like(thread)
    for i in range(rounds):
        n = n * np.uint32(FACTOR) + np.uint32(STEP)
        x = x * SCALE + y
        z = x * SHIFT
        y = z + 1.0
        count = np.full_like(thread, i)
        taken = (
            (count + thread) >> 1 & 1 if divergent else (count * np.uint32(FACTOR) + np.uint32(STEP)) >> 31
        ) == 1
        n = np.where(taken, (n ^ np.uint32(i)) * np.uint32(3) + thread, n)
        y = np.where(taken, y * 0.5 + z, y)
    return n, x


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for divergent in (False, True):
        for asked in (min(rounds, 300), rounds):
            integers, floats = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.float32)
            mixed = build(asked, divergent)
            started = time.perf_counter()
            report = mixed.simulate(out=(integers, floats))
            seconds = time.perf_counter() - started
            if asked != rounds or asked <= 300:
                n, x = expected(asked, divergent)
                if not (np.array_equal(n, integers) and np.allclose(x, floats, rtol=1e-5)):
                    sys.exit("wrong")
            if report.verdict != "clean":
                sys.exit(str(report))
        name = "half of the lanes branch" if divergent else "whole warps branch"
        print(
            f"{name:<25} {report.steps:>10,d} warp-instructions in {seconds:6.2f} s: "
            f"{report.steps / seconds:>10,.0f} per second  (target {TARGET:,d})"
        )


if __name__ == "__main__":
    main()
