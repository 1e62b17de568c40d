"""Measure the Hopper examples: the GEMM in TFLOP/s beside torch.matmul, RMSNorm and the TMA store in GB/s.

The GEMM has bf16 inputs, and bf16 or f32 outputs; torch.matmul runs cuBLAS. `pyptx.bench` verifies each
kernel on random normal numbers, then times the kernels in turns and flushes the L2 cache before every run.
Target on an H200: 600 TFLOP/s for 8192^3. Without a Hopper GPU the program prints the reason and ends.

    python benchmarks/gemm_hopper.py [MxNxK ...]
    python benchmarks/gemm_hopper.py --sustained [MxNxK ...]

The second form runs the GEMM with bf16 outputs and torch.matmul for seconds back to back, and reads clocks
and energy.
"""

from __future__ import annotations

import sys

from _examples import load_example

from pyptx import bf16, f32

SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192)]
TARGET = {(8192, 8192, 8192): 600.0}


def main() -> None:
    gemm = load_example("hopper/gemm_highperf_hopper.py")
    torch, why = gemm.hopper()
    if torch is None:
        print(f"not measured: {why}")
        return
    words = sys.argv[1:]
    shapes = [tuple(map(int, word.split("x"))) for word in words if word != "--sustained"] or SHAPES
    if "--sustained" in words:
        gemm.measure(torch, shapes, protocol="sustained")
        return
    missed = False
    for dtype in (bf16, f32):
        for shape, result in zip(shapes, gemm.measure(torch, shapes, out_dtype=dtype), strict=True):
            target = TARGET.get(shape)
            if target is not None:
                reached = result["pyptx"].tflops
                print(f"{reached:.1f} TFLOP/s (target {target:g})")
                missed |= reached < target
    rmsnorm = load_example("hopper/rmsnorm.py")
    for dtype in (f32, bf16):
        rmsnorm.measure(torch, 8192, 8192, dtype)
    print("\nouter product of 16384 and 16384 numbers, f32")
    load_example("hopper/tma_store.py").measure(torch, 16384, 16384)
    if missed:
        sys.exit("slower than the target")


if __name__ == "__main__":
    main()
