"""Counts over many random programs: how many race, by which rules, and which entries of the table decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .edges import TABLE
from .generate import generate

__all__ = ["Census", "census"]


@dataclass
class Census:
    """What the programs showed.

    Attributes:
        programs: how many there were.
        racing: programs with at least one finding.
        rules: programs with a finding of each rule.
        decisive: programs in which each entry of the table decides.
    """

    programs: int = 0
    racing: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    decisive: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"{self.programs} programs, {self.racing / max(1, self.programs):.0%} with findings", ""]
        lines += [f"{count:7} {rule}" for rule, count in self.rules.most_common()]
        lines += ["", "programs in which the entry decides:"]
        lines += [f"{self.decisive[name]:7} {entry.kind:6} {name}" for name, entry in TABLE.items()]
        return "\n".join(lines)


def census(seeds: Iterable[int]) -> Census:
    """Judge the programs of ``seeds``, with and without each entry of the table."""
    result = Census()
    for seed in seeds:
        judge = generate(seed)
        findings = judge.findings()
        result.programs += 1
        result.racing += bool(findings)
        result.rules.update({rule for rule, *_ in findings})
        result.decisive.update(judge.decisive())
    return result
