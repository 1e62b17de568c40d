"""Measure how long it takes to record and print every matrix product of ``examples/blackwell``.

Targets: 50 ms of processor time each (the fastest of some runs, warm import), and a text that does not grow
with K.  The first row has the first call of the process, which reads the instruction table.

    python benchmarks/record_gemm.py [runs]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.blackwell.registry import PRODUCTS, Product, run_time_sizes

SIZE = 8192


def _text(product: Product, K: int) -> str:
    kernel = product.build(SIZE, SIZE, K)
    return kernel.ptx(**run_time_sizes(kernel, SIZE))


def _milliseconds(product: Product) -> float:
    started = time.process_time()
    _text(product, SIZE)
    return 1e3 * (time.process_time() - started)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    print(f"first call of the process: {_milliseconds(PRODUCTS[0]):.0f} ms, with the instruction table")
    print(f"{'kernel':<20}{'ms, best':>10}{'median':>8}{'lines':>8}{'K = 65536':>11}")
    for product in PRODUCTS:
        times = sorted(_milliseconds(product) for _ in range(runs))
        lines = [_text(product, K).count("\n") for K in (SIZE, 65536)]
        print(f"{product.name:<20}{times[0]:>10.1f}{times[runs // 2]:>8.1f}{lines[0]:>8}{lines[1]:>11}")


if __name__ == "__main__":
    main()
