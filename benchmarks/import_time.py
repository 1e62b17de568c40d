"""Measure how long ``import pyptx`` takes in fresh processes, beyond the import of numpy.

Usage: ``python benchmarks/import_time.py [runs]``.  The program prints the best and the median of the runs in
milliseconds.  The project's target is at most 100 ms beyond numpy.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

PROBE = """
from time import perf_counter
start = perf_counter()
import numpy
middle = perf_counter()
import pyptx
face = perf_counter()
from pyptx import Tile, TensorMap, bf16, kernel, ptx, reg, sim, smem
print(middle - start, face - middle, perf_counter() - middle)
"""


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    times: list[tuple[float, ...]] = []
    for _ in range(runs + 1):
        printed = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
        ).stdout
        times.append(tuple(1e3 * float(word) for word in printed.split()))
    del times[0]  # the first process also compiles bytecode and warms the disk cache
    print(f"{runs} fresh processes, Python {sys.version.split()[0]}")
    rows = ("numpy", "import pyptx, beyond numpy", "and the names a kernel uses")
    for name, column in zip(rows, zip(*times, strict=True), strict=True):
        print(f"{name:<28} best {min(column):7.1f} ms   median {statistics.median(column):7.1f} ms")


if __name__ == "__main__":
    main()
