"""What the steps of the ladder share: the check of sizes, and the program that verifies and measures a step.

Every step computes ``D[M, N] = A[M, K] @ B[N, K].T`` with bf16 in and out and f32 sums, for sizes that are
multiples of its tile.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyptx import SpecError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gemm_harness as harness


def check_tiles(M, N, K, BM, BN, BK):
    """Raise an error for sizes that are no positive multiples of the tile."""
    for name, size, tile in (("M", M, BM), ("N", N, BN), ("K", K, BK)):
        if type(size) is not int or size <= 0 or size % tile:
            raise SpecError(
                f"{name} = {size!r} is not a positive multiple of {tile}, the tile",
                hint=f"pad {name} with zeros to the next multiple of {tile}; gemm.py takes any size",
            )


def program(build, shapes, size=4096, simulated=None):
    """Run a step as a program: verify it anywhere, measure it on a Hopper GPU.

    Args:
        build: the step's builder.
        shapes: M, N and K of runs in the simulator.
        size: M = N = K of the measurement.
        simulated: options of the builder for the simulator.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", metavar="MxNxK", help="print the PTX of one size and stop")
    parser.add_argument("--protocol", choices=("burst", "sustained"), default="burst", help="how to measure")
    options = parser.parse_args()
    if options.emit:
        print(build(*map(int, options.emit.split("x"))).ptx(), end="")
        return
    cases = [(shape, simulated or {}) for shape in shapes]
    good = harness.verify(build, cases)
    torch, why = harness.hopper()
    if torch is None:
        print(f"\nThe kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    else:
        good &= harness.compare(torch, build, cases)
        harness.measure(torch, build, (size, size, size), options.protocol)
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")
