"""``schedule="sampled"``: runs the launches of a stream under several schedules, each from the same memory.

The schedules are eager, late, a starving schedule for each engine that the launches use, and random with
several seeds. Memory means the bytes that outlive a run: the launches' arrays and the module's variables.
Afterwards the memory holds the results of the eager run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding, Verdict, verdict_of
from ...core.records import dataclass
from ..engine.events import Engine
from .report import Report

__all__ = [
    "EVERY_SCHEDULE",
    "Contents",
    "LaunchBuffer",
    "Outcome",
    "Results",
    "complete",
    "run_every_schedule",
]

#: The name that asks for a sample of the schedules.
EVERY_SCHEDULE = "sampled"

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class LaunchBuffer:
    """Memory that outlives a run: a view of its bytes, and the size of one element in bytes."""

    name: str
    data: Bytes
    element_bytes: int


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run under one schedule.

    Attributes:
        reports: a report for each launch.
        engines: the engines that acted.
        impossible: True if the run was given an assignment that no schedule has: it has a cluster that no
            request asked for.
        answers: what each request of cluster launch control got, by the cluster and the request's position.
    """

    reports: list[Report]
    engines: frozenset[Engine]
    impossible: bool = False
    answers: Mapping[tuple[int, int], int | None] = field(default_factory=dict)


class RunOne(Protocol):
    """A function that runs the launches under one schedule.

    It calls ``begin`` with the buffers in memory before any thread runs.
    """

    def __call__(
        self,
        schedule: str,
        seed: int,
        timeout: float | None,
        begin: Callable[[list[LaunchBuffer]], None],
    ) -> Outcome: ...


@dataclass
class Contents:
    """The buffers of a stream, their contents before the first run, and methods to copy and restore them."""

    buffers: list[LaunchBuffer] = field(default_factory=list)
    initial: list[Bytes] | None = None

    def begin(self, buffers: list[LaunchBuffer]) -> None:
        """Save the contents before the first run. Before each other run, restore them."""
        self.buffers = buffers
        if self.initial is None:
            self.initial = self.contents()
        else:
            self.restore(self.initial)

    def contents(self) -> list[Bytes]:
        return [buffer.data.copy() for buffer in self.buffers]

    def restore(self, contents: list[Bytes]) -> None:
        for buffer, data in zip(self.buffers, contents, strict=True):
            buffer.data[...] = data


class Results:
    """Compares the memory after each complete run with the memory after the first complete run."""

    def __init__(self, memory: Contents) -> None:
        self.memory = memory
        self.first = ""
        self.contents: list[Bytes] = []
        #: For each buffer number: flags of the elements that differ in some run, and the schedules of those
        #: runs.
        self.differing: dict[int, tuple[NDArray[np.bool_], list[str]]] = {}

    def add(self, schedule: str) -> None:
        if not self.first:
            self.first, self.contents = schedule, self.memory.contents()
            return
        for number, (buffer, data) in enumerate(zip(self.memory.buffers, self.contents, strict=True)):
            places = np.flatnonzero(buffer.data != data)
            if not len(places):
                continue
            elements = -(-buffer.data.size // buffer.element_bytes)
            flags, schedules = self.differing.setdefault(number, (np.zeros(elements, np.bool_), []))
            flags[places // buffer.element_bytes] = True
            schedules.append(schedule)

    def findings(self) -> list[Finding]:
        return [
            Finding(
                RULES["schedule-dependent"],
                f"{self.memory.buffers[number].name}: {np.count_nonzero(flags)} of {flags.size} elements "
                f"differ from the run under {self.first}, the first at index {int(np.argmax(flags))}",
                schedules=tuple(schedules),
            )
            for number, (flags, schedules) in self.differing.items()
        ]


def run_every_schedule(run_one: RunOne, *, seed: int, seeds: int, timeout: float | None) -> list[Report]:
    """Run under each schedule and merge the findings into one report for each launch.

    Args:
        run_one: runs the launches once.
        seed: seed of the first run under ``random``.
        seeds: number of runs under ``random``.
        timeout: seconds for all runs together.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    memory = Contents()
    results = Results(memory)
    runs: list[list[Report]] = []
    left_out: list[str] = []
    eager: list[Bytes] = []
    engines: set[Engine] = set()
    for schedule, number in _schedules(seed, seeds, engines):
        left = timeout
        if deadline is not None and runs:
            left = round(deadline - time.monotonic(), 3)
            if left <= 0:
                left_out.append(f"random (seed {number})" if schedule == "random" else schedule)
                continue
        outcome = run_one(schedule, number, left, memory.begin)
        engines |= outcome.engines
        if not runs:
            eager = memory.contents()
        runs.append(outcome.reports)
        if all(complete(report) for report in outcome.reports):
            results.add(outcome.reports[0].schedule)
    memory.restore(eager)
    merged = [_merged(reports) for reports in zip(*runs, strict=True)]
    merged[-1].findings += results.findings()
    if left_out:
        why = f"stopped after timeout={timeout} s: nothing ran under {', '.join(left_out)}"
        merged[-1].findings.append(Finding(RULES["step-limit"], why))
    return merged


def _schedules(seed: int, seeds: int, engines: set[Engine]) -> Iterator[tuple[str, int]]:
    """Yield the schedules with their seeds: eager, late, ``starve`` for each of ``engines``, random.

    The caller adds the engines that act to ``engines`` while it runs the schedules before ``starve``.
    """
    yield "eager", seed
    yield "late", seed
    for engine in Engine:
        if engine in engines:
            yield f"starve:{engine}", seed
    for number in range(seed, seed + seeds):
        yield "random", number


def complete(report: Report) -> bool:
    """True if a run went to its end without an error."""
    return verdict_of(report.findings) in (Verdict.CLEAN, Verdict.REVIEW)


def _merged(reports: Sequence[Report]) -> Report:
    """Merge the reports of one launch under several schedules; the first report is of the eager run.

    Findings of the same rule at the same line become one finding.
    """
    found: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for report in reports:
        for finding in report.findings:
            what = finding.message if finding.location is None else ""
            key = (finding.rule.name, finding.location, what)
            found.setdefault(key, (finding, []))[1].append(report.schedule)
    first = reports[0]
    return replace(
        first,
        schedule=f"{EVERY_SCHEDULE} ({', '.join(report.schedule for report in reports)})",
        findings=[replace(finding, schedules=tuple(schedules)) for finding, schedules in found.values()],
        steps=sum(report.steps for report in reports),
        events=sum(report.events for report in reports),
        seconds=sum(report.seconds for report in reports),
        runs=tuple(reports),
    )
