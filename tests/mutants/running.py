"""Running a mutant under a schedule, and saying how it was seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyptx import PyptxError, sim
from pyptx.core.findings import Finding
from pyptx.ir import Instruction
from pyptx.sim import Report

from .expected import Expectation
from .kernels import subject
from .mutants import Mutant

__all__ = ["OUTCOMES", "Outcome", "classify", "limits", "run_mutant", "run_original", "schedule_options"]

#: How a mutant was seen, best first. ``refused``: the checker did not load it.
OUTCOMES = ("named", "otherwise", "refused", "values", "unseen")
#: Warp-instructions of a run beyond those of the original, as a factor, and at least.
_FACTOR, _LEAST = 20, 20_000
_SECONDS = 30.0
#: A rule and a line: what tells findings apart.
_Key = tuple[str, int]


@dataclass(frozen=True)
class Outcome:
    """How a mutant was seen under one schedule.

    Attributes:
        how: one of :data:`OUTCOMES`.
        right: whether its outputs were right.
        found: rule, severity and lines of each finding that the original has not.
    """

    how: str
    right: bool = True
    found: tuple[str, ...] = ()


def schedule_options(text: str) -> dict[str, object]:
    """``random:3`` as the options of a run."""
    kind, _, seed = text.partition(":")
    if kind == "starve":
        return {"schedule": text}
    return {"schedule": kind, "seed": int(seed or 0)}


def _line(finding: Finding) -> int:
    return finding.location.line if finding.location is not None else 0


def _lines(finding: Finding) -> set[int]:
    others = {location.line for _, location in finding.other if location is not None}
    return {_line(finding)} | others


def classify(
    findings: Iterable[Finding],
    right: bool,
    expected: Expectation,
    line: int,
    accesses: frozenset[int],
    known: frozenset[_Key] = frozenset(),
) -> Outcome:
    """How a run was seen.

    ``named`` is a finding of an expected rule, as severe as the expectation, which names the mutated line or one that
    accesses memory or waits. Findings in ``known``, which the original has too, do not count.

    Args:
        findings: of the run.
        right: whether its outputs were right.
        line: of the mutated statement.
        accesses: lines of the statements that access memory or synchronize.
    """
    new = [f for f in findings if (f.rule.name, _line(f)) not in known]
    found = tuple(sorted({f"{f.rule.name} ({f.severity}) {sorted(_lines(f))}" for f in new}))
    wanted = {"error"} if expected.kind == "error" else {"error", "review"}
    for finding in new:
        severe = str(finding.severity) in wanted
        placed = bool(_lines(finding) & (accesses | {line}))
        if finding.rule.name in expected.rules and severe and placed:
            return Outcome("named", right, found)
    if new:
        return Outcome("otherwise", right, found)
    return Outcome("unseen" if right else "values", right)


_OPCODES = {"ld", "st", "ldmatrix", "stmatrix", "atom", "red", "cp", "tcgen05", "wgmma"}
_OPCODES |= {"mbarrier", "bar", "barrier", "setmaxnreg", "ret", "exit"}


def accesses_of(kernel: str) -> frozenset[int]:
    """Lines of the original's statements that access memory, wait or end a thread."""
    return frozenset(
        s.source.line
        for s in subject(kernel).function.body
        if isinstance(s, Instruction) and s.opcode in _OPCODES and s.source is not None
    )


def run_original(kernel: str, schedule: str = "eager") -> tuple[Report, bool]:
    """The report of the unchanged kernel, and whether its outputs are right."""
    original = subject(kernel)
    return original.launch(sim.load(original.module), **schedule_options(schedule))


def limits(report: Report) -> dict[str, float]:
    """The limits of a mutant's run, by the report of the original."""
    return {"max_steps": max(_FACTOR * report.steps, _LEAST), "timeout": _SECONDS}


def run_mutant(mutant: Mutant, schedule: str, report: Report) -> Outcome:
    """Run one mutant. ``report`` is the original's under the same schedule: it gives the limit of steps."""
    known = frozenset((f.rule.name, _line(f)) for f in report.findings)
    try:
        loaded = sim.load(mutant.module)
        options = {**limits(report), **schedule_options(schedule)}
        found, right = subject(mutant.kernel).launch(loaded, **options)
    except PyptxError as error:
        return Outcome("refused", found=(type(error).__name__,))
    return classify(found.findings, right, mutant.expected, mutant.line, accesses_of(mutant.kernel), known)
