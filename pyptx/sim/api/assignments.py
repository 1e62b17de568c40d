"""``launch_control="every"``: runs a launch with cluster launch control once for each assignment.

Each run begins with the same memory and is given its :class:`~..threads.assignment.Assignment`. If each of
them claims every schedule, and all leave the same memory, the launch holds for every schedule: the argument
is in docs/every-schedule.md. Afterwards the memory holds the results of the first assignment.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from ...core.findings import RULES, Finding
from ..claims.competing import EVERY_SCHEDULE, THIS_SCHEDULE, Claim, Competing
from ..threads.assignment import MANY, Assignment, number_of_assignments
from .every_schedule import Contents, LaunchBuffer, Outcome, Results, complete
from .report import Assignments, Report

__all__ = ["EVERY_ASSIGNMENT", "refused", "run_every_assignment", "too_many"]

#: The value of ``launch_control`` that asks for every assignment.
EVERY_ASSIGNMENT = "every"


class RunAssignment(Protocol):
    """A function that runs the launches with one assignment.

    It calls ``begin`` with the buffers in memory before any thread runs.
    """

    def __call__(
        self,
        assignment: Assignment,
        timeout: float | None,
        begin: Callable[[list[LaunchBuffer]], None],
    ) -> Outcome: ...


def too_many(clusters: int, max_runs: int) -> str:
    """Say that a grid has more assignments than may be run; "" if it has not."""
    number = number_of_assignments(clusters)
    if number <= max_runs:
        return ""
    count = f"more than {MANY:.0e}" if number == MANY else f"{number:,}"
    return f"launch control: {clusters:,} clusters have {count} assignments, and max_runs is {max_runs:,}"


def refused(reports: Iterable[Report], why: str) -> list[Report]:
    """Return the reports of a plain run, with the reason why its assignments were not run."""
    return [
        report
        if report.claim is None
        else replace(report, claim=_claim([*report.competing, Competing(why)], report.assumptions))
        for report in reports
    ]


def run_every_assignment(
    run_one: RunAssignment, clusters: int, name: str, *, max_runs: int, timeout: float | None
) -> list[Report]:
    """Run each assignment, and merge what the runs have shown into one report for each launch.

    The first one cancels no cluster. Each run shows requests that were refused; in others they get clusters.

    Args:
        run_one: runs the launches once.
        clusters: number of clusters of the launch that cancels them.
        name: the name of the schedule in the reports.
        max_runs: number of runs after which the rest is left out.
        timeout: seconds for all runs together.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    memory = Contents()
    results = Results(memory)
    shown = _Shown(clusters)
    left = timeout
    pending = deque([Assignment.none_canceled(clusters)])
    known = set(pending)
    while pending:
        if shown.ran >= max_runs:
            shown.bound = f"max_runs={max_runs}"
            break
        if deadline is not None and shown.ran:
            left = round(deadline - time.monotonic(), 3)
            if left <= 0:
                shown.bound = f"timeout={timeout} s"
                break
        assignment = pending.popleft()
        outcome = run_one(assignment, left, memory.begin)
        if not shown.ran:
            first = memory.contents()
        shown.add(assignment, outcome)
        if not outcome.impossible and all(map(complete, outcome.reports)):
            results.add(outcome.reports[0].schedule)
        for request, got in sorted(outcome.answers.items()):
            if got is None:
                new = [each for each in assignment.granting(*request) if each not in known]
                known.update(new)
                pending += new
    memory.restore(first)
    return shown.reports(name, results.findings())


class _Shown:
    """What the runs so far have shown."""

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters
        self.ran = 0
        #: The bound that ended the runs, or "".
        self.bound = ""
        self._failed: list[Assignment] = []
        self._first: Sequence[Report] = ()
        self._findings: list[dict[tuple[object, ...], Finding]] = []
        self._steps: list[int] = []
        self._events: list[int] = []
        self._seconds: list[float] = []
        #: True if a run has no claim: it had no sanitizer, or no thread ran.
        self._unclaimed = False
        self._competing: dict[Competing, Competing] = {}
        self._assumptions: dict[str, None] = {}
        #: What the first complete run printed, by launch, in sorted lines, and its assignment.
        self._printed: tuple[list[list[str]], Assignment] | None = None
        self._prints_differ = False

    def add(self, assignment: Assignment, outcome: Outcome) -> None:
        """Add one run."""
        reports = outcome.reports
        if not self.ran:
            self._first = reports
            self._findings = [{} for _ in reports]
            self._steps, self._events = [0] * len(reports), [0] * len(reports)
            self._seconds = [0.0] * len(reports)
        self.ran += 1
        failed = not all(map(complete, reports))
        if failed:
            self._failed.append(assignment)
        elif outcome.impossible:
            # The run before, in which the request was refused, would then not hold for every schedule either.
            self._compete(f"launch control: no request asks for a cluster of the assignment {assignment}")
        else:
            self._print(assignment, reports)
        for number, report in enumerate(reports):
            self._steps[number] += report.steps
            self._events[number] += report.events
            self._seconds[number] += report.seconds
            for finding in report.findings:
                named = replace(finding, schedules=(report.schedule,))
                self._findings[number].setdefault((finding.rule.name, finding.location), named)
        claim = reports[0].claim
        if claim is None:
            self._unclaimed = True
            return
        self._assumptions |= dict.fromkeys(claim.assumptions)
        for each in claim.competing:
            if not each.assigned:
                self._competing.setdefault(
                    each, replace(each, what=f"{each.what}; launch control {assignment}")
                )

    def _print(self, assignment: Assignment, reports: Sequence[Report]) -> None:
        lines = [sorted(report.printed.splitlines()) for report in reports]
        if self._printed is None:
            self._printed = lines, assignment
        elif lines != self._printed[0] and not self._prints_differ:
            self._prints_differ = True
            self._compete(f"launch control: {self._printed[1]} and {assignment} print different lines")

    def _compete(self, what: str) -> None:
        self._competing.setdefault(Competing(what), Competing(what))

    def reports(self, name: str, differences: list[Finding]) -> list[Report]:
        """Return a report for each launch. ``differences`` are those between what the runs have left."""
        differences = [replace(each, schedules=each.schedules[:1]) for each in differences]
        for each in differences:
            self._compete(f"launch control: results depend on the assignment: {each.message}")
        if self.bound:
            self._compete(
                f"launch control: after {self.ran:,} assignments the bound {self.bound} was reached"
            )
        claim = None if self._unclaimed else _claim(self._competing.values(), self._assumptions)
        worst = self._failed[0] if self._failed else None
        assignments = Assignments(
            self.clusters,
            self.ran,
            not self.bound,
            self.bound,
            len(self._failed),
            "" if worst is None else str(worst),
            "" if worst is None else worst.described(),
        )
        merged = [
            replace(
                report,
                schedule=name,
                findings=list(self._findings[number].values()),
                steps=self._steps[number],
                events=self._events[number],
                seconds=self._seconds[number],
                claim=claim,
                assignments=assignments,
            )
            for number, report in enumerate(self._first)
        ]
        merged[-1].findings += differences
        if self.bound:
            why = f"stopped at {self.bound}, after {self.ran:,} assignments: others did not run"
            merged[-1].findings.append(Finding(RULES["step-limit"], why))
        return merged


def _claim(competing: Iterable[Competing], assumptions: Iterable[str]) -> Claim:
    listed = tuple(competing)
    return Claim(THIS_SCHEDULE if listed else EVERY_SCHEDULE, listed, tuple(assumptions))
