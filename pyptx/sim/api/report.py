"""The report of a simulated launch."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Any

from ...core.errors import SimulationError
from ...core.findings import Finding, Verdict, verdict_of
from ...core.records import dataclass
from ...core.waivers import Waiver
from ...timeline import Timeline
from ..claims.competing import Claim, Competing

__all__ = ["Assignments", "Exploration", "Report"]


@dataclass(frozen=True)
class Exploration:
    """What ``schedule="all"`` has explored.

    Attributes:
        interleavings: number of interleavings, no two of which are equivalent.
        runs: number of all runs: some end early, since they would repeat others.
        complete: whether these are all interleavings.
        bound: the bound that was reached, or "".
        outcomes: for each different contents of the memory at the end, the schedule of the first
            interleaving that leaves it, as a name to run again.
        failed: number of interleavings with an error, or that are incomplete.
        failing: the schedule of the first of them, as a name to run again, or "".
        weak_reads: whether strong accesses also chose among the writes that the memory model allows; without
            the sanitizer they did not.
    """

    interleavings: int
    runs: int
    complete: bool
    bound: str
    outcomes: tuple[str, ...]
    failed: int
    failing: str
    weak_reads: bool

    def __str__(self) -> str:
        many = "" if self.interleavings == 1 else "s"
        end = "complete" if self.complete else f"bound reached ({self.bound})"
        failed = f", {self.failed} of them failed" if self.failed else ""
        memory = "with weak reads" if self.weak_reads else "interleavings only"
        return f"explored: {self.interleavings} interleaving{many}{failed}, {end}; {memory}"


@dataclass(frozen=True)
class Assignments:
    """What ``launch_control="every"`` has run.

    Attributes:
        clusters: number of clusters of the launch.
        ran: number of assignments that were run.
        complete: whether these are all.
        bound: the bound that was reached, or "".
        failed: number of assignments with an error, or whose run is incomplete.
        failing: the first of them, as ``launch_control=`` takes it, or "".
        canceled: in words, which clusters cancel which in that one, or "".
    """

    clusters: int
    ran: int
    complete: bool
    bound: str
    failed: int
    failing: str
    canceled: str

    def __str__(self) -> str:
        many, clusters = ("" if number == 1 else "s" for number in (self.ran, self.clusters))
        end = "complete" if self.complete else f"bound reached ({self.bound})"
        text = f"launch control: {self.ran:,} assignment{many} of {self.clusters} cluster{clusters}, {end}"
        if self.failed:
            text += f"; {self.failed:,} failed, the first is {self.failing} ({self.canceled})"
        return text


#: Number of competing things that the text of a report lists.
_LISTED = 8


@dataclass(repr=False)
class Report:
    """The outcome of a launch.

    Attributes:
        entry: name of the kernel.
        schedule: the schedule that the launch ran under, with its seed.
        findings: all findings, in the order in which they occurred.
        steps: warp-instructions executed.
        events: steps of asynchronous operations that happened.
        seconds: wall time of the run.
        outputs: the kernel's output arrays, if the caller of the simulator named them.
        strict: whether findings for review count as errors.
        printed: the text that the kernel printed.
        runs: of a launch under several schedules (``schedule="sampled"``), the report under each. ``steps``,
            ``events`` and ``seconds`` are then sums over all runs, and ``printed`` is that of the first run.
        waived: findings that a waiver covers, each with its waiver. They are not in ``findings``.
        claim: whether the run holds for every schedule; None if it ran without the sanitizer.
        exploration: of a launch under ``schedule="all"``, what was explored; None under other schedules.
        assignments: of a launch under ``launch_control="every"`` that cancels clusters, what was run.
        timeline: what happened in the run, if it was asked for; all launches of a stream share one.
    """

    entry: str
    schedule: str
    findings: list[Finding]
    steps: int
    events: int
    seconds: float
    outputs: tuple[Any, ...] = field(default=(), repr=False)
    strict: bool = False
    printed: str = ""
    runs: tuple[Report, ...] = field(default=(), repr=False)
    claim: Claim | None = field(default=None, repr=False)
    exploration: Exploration | None = field(default=None, repr=False)
    assignments: Assignments | None = field(default=None, repr=False)
    timeline: Timeline | None = field(default=None, repr=False)
    waived: list[tuple[Finding, Waiver]] = field(default_factory=list, repr=False)

    @property
    def verdict(self) -> Verdict:
        """The verdict: ``clean``, ``review``, ``incomplete`` or ``error``."""
        return verdict_of(self.findings, strict=self.strict)

    @property
    def holds(self) -> str:
        """The schedules for which the run holds: ``every schedule``, ``this schedule``, or "" if unknown."""
        return "" if self.claim is None else self.claim.holds

    @property
    def competing(self) -> tuple[Competing, ...]:
        """What another schedule may decide in another way; empty if the run holds for every schedule."""
        return () if self.claim is None else self.claim.competing

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the claim of the run assumes."""
        return () if self.claim is None else self.claim.assumptions

    def check(self) -> Report:
        """Return the report. Raise a :class:`SimulationError` if the verdict is error or incomplete."""
        if self.verdict in (Verdict.ERROR, Verdict.INCOMPLETE):
            error = SimulationError(f"simulation of {self.entry} ended as {self.verdict}\n{self}")
            error.report = self  # type: ignore[attr-defined]
            raise error
        return self

    def __repr__(self) -> str:
        count = len(self.findings)
        findings = f"{count} finding{'' if count == 1 else 's'}"
        return f"<report of {self.entry} under {self.schedule}: {self.verdict}, {findings}>"

    def __str__(self) -> str:
        head = f"{self.entry} under {self.schedule}: {self.verdict} ({self.steps} warp-instructions)"
        explored = [str(each) for each in (self.exploration, self.assignments) if each is not None]
        found = [*map(str, self.findings), *self.waiver_lines()]
        return "\n".join([head, *explored, *found, *self.claim_lines()])

    def waiver_lines(self) -> list[str]:
        """Return a line that counts the waived findings, and one for each waiver."""
        if not self.waived:
            return []
        counts = Counter(waiver for _, waiver in self.waived)
        lines = [f"waived: {len(self.waived)} finding{'' if len(self.waived) == 1 else 's'}"]
        return lines + [f"  {count} x {waiver}" for waiver, count in counts.items()]

    def claim_lines(self) -> list[str]:
        """Return the lines that say for which schedules the run holds; none for a run that has failed."""
        if self.claim is None or self.verdict in (Verdict.ERROR, Verdict.INCOMPLETE):
            return []
        lines = [f"holds: {self.holds}"]
        lines += [f"  competes: {each}" for each in self.competing[:_LISTED]]
        if len(self.competing) > _LISTED:
            lines.append(f"  and {len(self.competing) - _LISTED} more")
        return lines + [f"  assumes: {each}" for each in self.assumptions]
