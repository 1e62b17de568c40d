"""Compares the findings of the simulator's sanitizer with those of the reference, program by program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyptx import sim
from pyptx.layout import TensorMap
from pyptx.sim import Report

from .printing import Printed, to_ptx
from .program import Program
from .reference import Judge

__all__ = ["RULES", "Comparison", "compare", "launch", "named"]

#: The rules that both judge.
RULES = (
    "data-race",
    "proxy-fence-missing",
    "proxy-fence-open",
    "relaxed-handover",
    "cluster-lifetime",
    "store-collision",
)
_ERRORS = ("data-race", "proxy-fence-missing", "cluster-lifetime")
#: A rule and two lines.
Lines = tuple[str, int, int]


@dataclass
class Comparison:
    """What the two say about one program.

    Attributes:
        expected: the reference's findings, by lines.
        found: the simulator's.
        others: findings of rules that the reference does not judge.
    """

    printed: Printed
    expected: set[Lines]
    found: set[Lines]
    others: list[str]
    report: Report

    @property
    def kind(self) -> str:
        """``agree``, ``extra`` (a finding that the reference does not have), or ``missed``."""
        if self.found - self.expected:
            return "extra"
        return "missed" if self.unexplained else "agree"

    @property
    def unexplained(self) -> set[Lines]:
        """The reference's findings that none of the simulator's stands for.

        A report has one finding of each rule at a line: the later line of the two, with one of its partners. And a
        write that a later one has overwritten is forgotten: then a finding as severe names the later one.
        """
        heads = {(rule, last) for rule, _, last in self.found}
        errors = {line for rule, *lines in self.found if rule in _ERRORS for line in lines}
        lines = {line for _, *lines in self.found for line in lines}
        return {
            one
            for one in self.expected - self.found
            if (one[0], one[2]) not in heads and not set(one[1:]) & (errors if one[0] in _ERRORS else lines)
        }


def launch(program: Program, printed: Printed) -> Report:
    """Run ``program`` under eager, with the sanitizer on."""
    arrays = {
        b.name: np.zeros(b.size // 4, np.uint32) for b in program.buffers.values() if b.space == "global"
    }
    maps = [TensorMap.tiled(arrays[name], box=(4,)) for name in printed.maps]
    return sim.load(printed.text).launch(
        grid=program.ctas,
        block=32 * program.warps,
        cluster=1 if program.apart else program.ctas,
        args=[*arrays.values(), *maps],
        timeout=20.0,
    )


def compare(judge: Judge) -> Comparison:
    """Judge a program twice."""
    program = judge.program
    printed = to_ptx(program)
    expected = {(rule, *sorted((printed.lines[a], printed.lines[b]))) for rule, a, b in judge.findings()}
    report = launch(program, printed)
    found, others = named(report)
    found = {_collision(one, expected) for one in found}
    if any("has exited" in finding.message for finding in report.findings):
        # An access to a CTA that has ended ends the run: what comes later has not happened.
        expected &= found
    return Comparison(printed, expected, found, others, report)


def _collision(one: Lines, expected: set[Lines]) -> Lines:
    """Lanes that have not converged execute a store one after the other, so that their collision is a race."""
    rule, first, second = one
    collision = ("store-collision", first, second)
    return collision if rule == "data-race" and collision in expected else one


def _lines(rule: str, first: int, second: int) -> Lines:
    return rule, min(first, second), max(first, second)


def named(report: Report) -> tuple[set[Lines], list[str]]:
    """The findings of a report as (rule, line, line), and the texts of the other findings."""
    found: set[Lines] = set()
    others: list[str] = []
    for finding in report.findings:
        name = finding.rule if isinstance(finding.rule, str) else finding.rule.name
        line = finding.location.line if finding.location is not None else 0
        if name not in RULES:
            others.append(str(finding))
            continue
        lines = [location.line for _, location in finding.other] or [line]
        for other in lines:
            found.add(_lines(name, line, line if name == "cluster-lifetime" else other))
    return found, others
