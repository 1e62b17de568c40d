"""What a near miss is: a kernel that nearly holds for every schedule, and how it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyptx import sim
from tests.conformance.case import ARCH, kernel

__all__ = ["BLACKWELL", "NearMiss", "near_miss"]

BLACKWELL = "sm_100a"
_SHARED = ".shared .align 16 .b8 room[512]; .shared .align 8 .b64 bar;"
_BEGIN = """
mad.wide.u32 %d2, %index, 4, %out;
setp.eq.u32 %p1, %thread, 0;
setp.eq.u32 %p5, %lane, 0;
"""


@dataclass(frozen=True)
class NearMiss:
    """One kernel: ``run`` executes it under options of a run and returns the report."""

    name: str
    run: Callable[..., sim.Report]


def near_miss(
    name: str,
    body: str,
    *,
    grid: int = 1,
    threads: int = 64,
    cluster: int = 1,
    shared: int = 0,
    steps: int = 100_000,
    arch: str = ARCH,
    directives: str = "",
) -> NearMiss:
    """Return a kernel with the arrays ``a`` and ``out``."""
    source = kernel(_BEGIN + body, "a:u64 out:u64", registers=_SHARED, arch=arch, directives=directives)

    def run(**how: Any) -> sim.Report:
        arrays = [np.zeros(256, np.uint32), np.zeros(grid * threads, np.uint32)]
        loaded = sim.load(source.text())
        return loaded.launch(
            grid=grid,
            block=threads,
            cluster=cluster,
            dynamic_smem=shared,
            args=arrays,
            max_steps=steps,
            **how,
        )

    return NearMiss(name, run)
