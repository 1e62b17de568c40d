"""Measure the wall time of the Blackwell GEMM in the simulator, and check each result against float64.

Targets on 2 cores: 128x256x64 in under 0.5 s, 512^3 in under 2 s, 1024^3 in under 10 s, under every schedule.

    python benchmarks/simulate_gemm.py [MxNxK ...]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from _examples import load_example

TARGETS = {(128, 256, 64): 0.5, (512, 512, 512): 2.0, (1024, 1024, 1024): 10.0}
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("random", 3)]


def main() -> None:
    example = load_example("blackwell/gemm_highperf_blackwell.py")
    asked = [tuple(map(int, word.split("x"))) for word in sys.argv[1:]]
    heads = f"{'schedule':<9} {'seconds':>8}  {'target':>6}  {'verdict':<8} {'error/bound':>11}"
    print(f"{'M x N x K':>18}  {heads}")
    for shape in asked or list(TARGETS):
        M, N, K = shape
        gemm = example.build_gemm(M, N, K)
        a, b = example.make_inputs(M, N, K)
        for schedule, seed in SCHEDULES:
            d = np.full((M, N), np.nan, np.float32)
            started = time.perf_counter()
            report = gemm.simulate(a, b, out=d, schedule=schedule, seed=seed)
            seconds = time.perf_counter() - started
            error = example.worst_error(a, b, d)
            target = TARGETS.get(shape)
            name = f"{schedule}#{seed}" if schedule == "random" else schedule
            shown = "" if target is None else f"{target:g}"
            print(
                f"{f'{M} x {N} x {K}':>18}  {name:<9} {seconds:>8.3f}  {shown:>6}  "
                f"{report.verdict!s:<8} {error:>11.4f}"
            )
            if report.verdict != "clean" or error > 1:
                sys.exit("wrong")


if __name__ == "__main__":
    main()
