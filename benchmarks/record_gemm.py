"""Measure how long it takes to record and print the Blackwell GEMM, and how many lines its text has.

Target: ``build_gemm(8192, 8192, 8192)`` recorded and printed in under 100 ms (median, warm import), under
1,500 lines, and the same number of lines for any K.

    python benchmarks/record_gemm.py
"""

from __future__ import annotations

import statistics
import time

from _examples import load_example

RUNS = 21


def main() -> None:
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")

    def record(M: int, N: int, K: int) -> tuple[float, int]:
        started = time.perf_counter()
        text = gemm.build_gemm(M, N, K).ptx()
        return 1e3 * (time.perf_counter() - started), text.count("\n")

    first, _ = record(8192, 8192, 8192)
    times = [record(8192, 8192, 8192)[0] for _ in range(RUNS)]
    print(f"first call       {first:8.1f} ms  (reads the instruction table)")
    print(f"median of {RUNS}     {statistics.median(times):8.1f} ms  (target 100)")
    print(f"lines            {record(8192, 8192, 8192)[1]:8d}     (target 1500)")
    print(f"lines, K = 512   {record(8192, 8192, 512)[1]:8d}")
    print(f"lines, K = 65536 {record(8192, 8192, 65536)[1]:8d}")


if __name__ == "__main__":
    main()
