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
#: The rules whose findings are for review; those of the others are errors.
_REVIEW = ("proxy-fence-open", "relaxed-handover", "store-collision")
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
        """``agree``, or how the two differ: the worst of ``extra``, ``missed``, ``other rules`` and ``fewer pairs``.

        ``extra`` means a finding that the reference does not have, ``missed`` a better verdict, ``other rules`` that
        a rule was not found, and ``fewer pairs`` that of some rule not all pairs were found.
        """
        if self.expected == self.found:
            return "agree"
        if self.found - self.expected:
            return "extra"
        rules = {rule for rule, *_ in self.expected}, {rule for rule, *_ in self.found}
        if _severity(rules[0]) > _severity(rules[1]):
            return "missed"
        return "other rules" if rules[0] != rules[1] else "fewer pairs"


def _severity(rules: set[str]) -> int:
    """0 for clean, 1 for review, 2 for an error."""
    return max((1 if rule in _REVIEW else 2 for rule in rules), default=0)


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
    return Comparison(printed, expected, found, others, report)  # type: ignore[arg-type]


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
            if name == "cluster-lifetime":
                found.add((name, line, line))
            else:
                found.add((name, *sorted((line, other))))  # type: ignore[arg-type]
    return found, others
