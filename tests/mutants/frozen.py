"""The list of mutants as it was when it was frozen, in ``frozen.tsv``: a line for sites that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from .mutants import Mutant

__all__ = ["FILE", "lines", "read"]

FILE = Path(__file__).parent / "frozen.tsv"
_HEAD = "kernel\toperator\tsites\tinstruction\tclass\texpected rules\tanchor"


def _alike(mutant: Mutant) -> tuple[str, ...]:
    expected = mutant.expected
    rules = " ".join(expected.rules)
    return mutant.kernel, mutant.operator, mutant.statement, expected.kind, rules, expected.anchor


def lines(found: Iterable[Mutant]) -> list[str]:
    """The list as text. ``sites`` are the first and the last number of sites that are alike."""
    listed = [_HEAD]
    for (kernel, operator, *rest), group in groupby(found, _alike):
        numbers = [mutant.number for mutant in group]
        sites = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        listed.append("\t".join((kernel, operator, sites, *rest)).rstrip())
    return listed


def read() -> list[str]:
    return FILE.read_text().splitlines()
