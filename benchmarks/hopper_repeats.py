"""Runs each row of ``hopper.py`` many times on the same inputs and says whether every run gave the same bits.

    python benchmarks/hopper_repeats.py [ROW|GROUP ...] [--runs 200] [--limit 20]

Each run's outputs are compared, bit by bit, with those of the first; ``hopper.py`` verifies the values.
Backwards of attention run in their deterministic mode, all other kernels as they are timed.  Between runs the
outputs of the run before are overwritten, so that words which a kernel leaves out differ.  The exit status is
1 if a row's bits differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _hopper_attention import deterministic_backward
from _rows import Row
from hopper import chosen


def function_of(row: Row) -> tuple[Callable[..., Any], str]:
    """Return what the row runs and in which mode: that of the row, or the deterministic one."""
    backward = deterministic_backward(row.name)
    return (row.ours(), "as timed") if backward is None else (backward(), "deterministic")


def words_of(torch: Any, outputs: Any) -> list[Any]:
    """Return the outputs as integers: one tensor of bytes for each."""
    several = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return [each.contiguous().view(torch.uint8) for each in several]


def differing_runs(
    torch: Any, row: Row, function: Callable[..., Any], runs: int, limit: float
) -> tuple[int, int]:
    """Return how many runs ended within ``limit`` seconds, and how many gave other bits than the first."""
    arguments = row.inputs(torch, 0)
    first: list[Any] = []
    different, begin, made = 0, time.monotonic(), 0
    while made < runs and (not made or time.monotonic() - begin < limit):
        found = words_of(torch, function(*arguments))
        first = first or [each.clone() for each in found]
        equal = [torch.equal(here, there) for here, there in zip(found, first, strict=True)]
        for each in found:
            each.fill_(1)
        different += not all(equal)
        made += 1
    return made, different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", metavar="ROW|GROUP")
    parser.add_argument("--runs", type=int, default=200, help="of each row; 200")
    parser.add_argument("--limit", type=float, default=20, help="seconds that a row may take; 20")
    options = parser.parse_args()
    import torch

    failed = False
    for row in chosen(options.rows):
        function, mode = function_of(row)
        made, different = differing_runs(torch, row, function, options.runs, options.limit)
        failed |= different > 0
        said = "the same bits" if not different else f"{different} DIFFERENT"
        print(f"{row.name:<48} {made:>4} runs, {mode}: {said}", flush=True)
        torch.cuda.empty_cache()
    sys.exit(failed)


if __name__ == "__main__":
    main()
