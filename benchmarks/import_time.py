"""What ``import pyptx`` costs beyond numpy's own import, in fresh processes.

Usage: ``python benchmarks/import_time.py [runs]``.  Prints milliseconds, best and median of the runs; the
project's target is at most 100 ms beyond numpy.
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
print(middle - start, perf_counter() - middle)
"""


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    times: list[tuple[float, float]] = []
    for _ in range(runs + 1):
        printed = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
        ).stdout
        numpy_s, pyptx_s = map(float, printed.split())
        times.append((numpy_s * 1e3, pyptx_s * 1e3))
    del times[0]  # compiles bytecode and warms the disk cache
    print(f"{runs} fresh processes, Python {sys.version.split()[0]}")
    for name, column in zip(("numpy", "pyptx beyond numpy"), zip(*times, strict=True), strict=True):
        print(f"{name:<20} best {min(column):7.1f} ms   median {statistics.median(column):7.1f} ms")


if __name__ == "__main__":
    main()
