"""Runs kernels that claim to hold for every schedule under many schedules, and compares what each thread did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim
from pyptx.layout import TensorMap
from tests.sanitizer.reference.generate import generate
from tests.sanitizer.reference.printing import to_ptx

from .preempting import preempting
from .rings import random_ring
from .stealing import Stealing, every_assignment, random_stealing
from .trace import Trace
from .waiting import random_waiting

__all__ = [
    "Kernel",
    "Run",
    "claiming",
    "claims",
    "first_untrue",
    "first_untrue_assignment",
    "kernel_of",
    "kernels",
    "untrue",
    "untrue_assignment",
]

#: Runs a kernel with fresh arguments under options of a run; returns the report and the arrays afterwards.
Launch = Callable[..., tuple[sim.Report, list[NDArray[Any]]]]


@dataclass(frozen=True)
class Kernel:
    """A random kernel: its name, and the function that runs it."""

    name: str
    launch: Launch


def _ring(seed: int) -> Kernel:
    ring = random_ring(Random(seed))
    loaded = sim.load(ring.text())

    def launch(**how: Any) -> tuple[sim.Report, list[NDArray[Any]]]:
        report, out = ring.launch(loaded, **how)
        return report, [out]

    return Kernel(f"ring {seed} ({ring.name})", launch)


def _waiting(seed: int) -> Kernel:
    waiting = random_waiting(seed)
    loaded = sim.load(waiting.text())
    return Kernel(f"waiting {seed} ({waiting.name})", lambda **how: waiting.launch(loaded, **how))


def _program(seed: int) -> Kernel:
    """A program of the reference checker's generator: every kind of synchronization, right or wrong."""
    program = generate(seed).program
    printed = to_ptx(program)
    loaded = sim.load(printed.text)

    def launch(**how: Any) -> tuple[sim.Report, list[NDArray[Any]]]:
        arrays = {
            b.name: np.zeros(b.size // 4, np.uint32) for b in program.buffers.values() if b.space == "global"
        }
        maps = [TensorMap.tiled(arrays[name], box=(4,)) for name in printed.maps]
        report = loaded.launch(
            grid=program.ctas,
            block=32 * program.warps,
            cluster=1 if program.apart else program.ctas,
            args=[*arrays.values(), *maps],
            timeout=20.0,
            **how,
        )
        return report, list(arrays.values())

    return Kernel(f"program {seed}", launch)


@dataclass(frozen=True)
class Run:
    """One run of a kernel: what its threads did, and the arrays afterwards."""

    trace: Trace
    arrays: list[NDArray[Any]]


def kernel_of(seed: int) -> Kernel:
    """Return the random kernel of a seed: of four, one is a ring, and one waits for words of memory."""
    return (_ring, _waiting, _program, _program)[seed % 4](seed)


@lru_cache(maxsize=4)
def claiming(seed: int) -> tuple[Kernel, Run] | None:
    """Return the kernel of a seed with its run under eager, or None if this run does not claim every schedule."""
    kernel = kernel_of(seed)
    trace = Trace()
    report, arrays = kernel.launch(observers=[trace])
    return (kernel, Run(trace, arrays)) if report.holds == "every schedule" else None


def kernels(first: int) -> Iterator[tuple[Kernel, Run]]:
    """Yield random kernels that claim every schedule, each with its run under eager; ``first`` is a seed."""
    for seed in count(first):
        found = claiming(seed)
        if found is not None:
            yield found


def claims(seed: int) -> bool:
    """True if the kernel of a seed claims every schedule."""
    return claiming(seed) is not None


def first_untrue(seed: int, schedules: range) -> str:
    """Run the kernel of a seed, which claims, under schedules until one differs; return how, or ""."""
    found = claiming(seed)
    assert found is not None
    kernel, run = found
    for schedule in schedules:
        difference = untrue(kernel, run, schedule)
        if difference:
            return f"{kernel.name}, schedule {schedule}: {difference}"
    return ""


def untrue(kernel: Kernel, run: Run, seed: int) -> str:
    """Run a kernel under one schedule that preempts; return how it differs from ``run``, or ""."""
    other = Trace()
    with preempting():
        report, arrays = kernel.launch(observers=[other], schedule="random", seed=seed, sanitize=False)
    if report.verdict in ("error", "incomplete"):
        return str(report)
    if any(not np.array_equal(one, another) for one, another in zip(run.arrays, arrays, strict=True)):
        return "other outputs"
    return run.trace.difference(other)


@lru_cache(maxsize=100)
def _under_eager(one: Stealing, assignment: str) -> Trace:
    trace = Trace()
    one.launch(launch_control=assignment, observers=[trace])
    return trace


def untrue_assignment(one: Stealing, assignment: str, seed: int) -> str:
    """Run a kernel with launch control with one assignment under a schedule that preempts.

    Return how the run differs from that under eager, or from the result that the kernel should have; or "".
    """
    other = Trace()
    with preempting():
        report, out = one.launch(
            launch_control=assignment, observers=[other], schedule="random", seed=seed, sanitize=False
        )
    if report.verdict in ("error", "incomplete"):
        return str(report)
    if not one.right(out):
        return "other outputs"
    return _under_eager(one, assignment).difference(other)


def first_untrue_assignment(seed: int, schedules: range) -> str:
    """Run a random kernel with launch control with random assignments until a run differs; return how, or ""."""
    one = random_stealing(seed)
    assignments = [str(each) for each in every_assignment(one.clusters)]
    for schedule in schedules:
        assignment = Random(f"{seed} {schedule}").choice(assignments)
        difference = untrue_assignment(one, assignment, schedule)
        if difference:
            return f"{one.name}, launch control {assignment}, schedule {schedule}: {difference}"
    return ""
