"""Predicts patterns of threads' code and prints them beside what an H200 took.

``patterns.cu`` has the patterns: loads and stores of all widths, with and without conflicts of banks, chains,
reductions, products of ``mma.sync``, atomics, branches, divisions, tiles that are loaded a turn ahead. Each
is a loop with the clock around it. ``patterns_h200.txt`` has what they took on an H200 on 2026-11-30, at the
clock of a chip that is nearly idle, 1980 MHz.

    python benchmarks/patterns.py                  predict all with one CTA
    python benchmarks/patterns.py way red_         those with such names
    python benchmarks/patterns.py --threads 256    those with so many threads
    python benchmarks/patterns.py --measure        measure all on the GPU of this machine
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rivals.build import toolkit

import pyptx
from pyptx import sim
from pyptx.core.errors import PyptxError

HERE = Path(__file__).parent
SOURCE, MEASURED = HERE / "patterns.cu", HERE / "patterns_h200.txt"
MHZ = 1980.0
#: Elements of the arrays of a CTA: more than any pattern touches.
READ, WRITTEN = 1 << 16, 1 << 20


def compiled(folder: Path, *flags: str) -> Path:
    """Return the file that nvcc makes of the patterns."""
    out = Path(tempfile.mkdtemp()) / "patterns"
    command = [folder / "bin" / "nvcc", "-w", "-O3", "-std=c++17", "-arch=sm_90a", *flags, "-o", out, SOURCE]
    subprocess.run([str(each) for each in command], check=True)
    return out


def predict(loaded: sim.LoadedModule, name: str, ctas: int, threads: int, shared: int, rounds: int) -> float:
    """Return the cycles that the pattern's own clock shows, of the CTAs that run."""
    cycles = np.zeros(ctas, np.int64)
    arrays = [np.zeros(READ * ctas, np.float32), np.zeros(WRITTEN + READ * ctas, np.float32), cycles]
    pyptx.predict(
        loaded,
        name,
        grid=ctas,
        block=threads,
        dynamic_smem=shared,
        args=[*arrays, rounds],
        gpu="h200",
        clock=MHZ,
        l2="warm",
    )
    return float(np.median(cycles[cycles > 0]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of names; without any, all")
    parser.add_argument("--cuda", type=Path, help="the CUDA toolkit; the wheels' by default")
    parser.add_argument("--threads", type=int, choices=(32, 128, 256, 512))
    parser.add_argument("--ctas", type=int, default=1, choices=(1, 132))
    parser.add_argument("--measure", action="store_true", help="run them on the GPU of this machine")
    given = parser.parse_args()
    if given.measure:
        sys.exit(subprocess.run([str(compiled(toolkit(given.cuda), "-DMEASURE"))], check=False).returncode)
    loaded = sim.load(compiled(toolkit(given.cuda), "-ptx").read_text("utf-8"))
    errors = []
    for line in MEASURED.read_text("utf-8").splitlines():
        name, *numbers, cycles = line.split()
        ctas, threads, shared, rounds = map(int, numbers)
        if ctas != given.ctas or given.threads not in (None, threads):
            continue
        if given.names and not any(each in name for each in given.names):
            continue
        try:
            predicted = predict(loaded, name, ctas, threads, shared, rounds)
        except PyptxError as error:
            print(f"{name} {threads}: {str(error).splitlines()[0]}", flush=True)
            continue
        errors.append(predicted / float(cycles) - 1)
        print(
            f"{name:16} {threads:4} threads: measured {float(cycles):8.0f}, predicted {predicted:8.0f}, "
            f"{errors[-1]:+6.1%}",
            flush=True,
        )
    if errors:
        sizes = [abs(each) for each in errors]
        print(f"{len(errors)}: mean {statistics.mean(sizes):.1%}, median {statistics.median(sizes):.1%}")


if __name__ == "__main__":
    main()
