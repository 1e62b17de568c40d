"""Findings on kernels that are right: a row of a table for each corpus, and the rules, per 1,000 instructions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyptx.core.findings import RULES, Finding
from pyptx.ir import Instruction, Module

__all__ = ["Counted", "counted", "tables"]


class Counted(NamedTuple):
    """What the runs of one text gave: how many instructions it has, and rule and line of each finding."""

    corpus: str
    instructions: int
    reviews: frozenset[tuple[str, int]]
    errors: frozenset[tuple[str, int]]


def counted(corpus: str, module: Module, findings: Iterable[Finding]) -> Counted:
    """Count what the launches of a module reported; a line with several findings of one rule counts once."""
    size = sum(isinstance(s, Instruction) for function in module.functions for s in function.body)
    by_severity: dict[str, set[tuple[str, int]]] = {"review": set(), "error": set()}
    for finding in findings:
        line = finding.location.line if finding.location is not None else 0
        by_severity.setdefault(str(finding.severity), set()).add((finding.rule.name, line))
    return Counted(corpus, size, frozenset(by_severity["review"]), frozenset(by_severity["error"]))


def tables(rows: list[Counted]) -> Iterator[str]:
    """The lines of a table of the corpora and of a table of the rules, in Markdown."""
    yield "| corpus | kernels | with an error | with a review | median | mean | most |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for corpus in dict.fromkeys(one.corpus for one in rows):
        here = [one for one in rows if one.corpus == corpus]
        rates = [1000 * len(one.reviews) / max(1, one.instructions) for one in here]
        errors, reviews = sum(bool(one.errors) for one in here), sum(bool(one.reviews) for one in here)
        yield (
            f"| {corpus} | {len(here)} | {errors} | {reviews} | {statistics.median(rates):.1f} "
            f"| {statistics.mean(rates):.1f} | {max(rates):.1f} |"
        )
    yield "\n| rule | lines | anchor |\n|---|--:|---|"
    for name, lines in Counter(rule for one in rows for rule, _ in one.reviews).most_common():
        yield f"| {name} | {lines} | {RULES[name].anchor} |"
