"""The tables of a run, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from .mutants import Mutant
from .running import OUTCOMES, Outcome

__all__ = ["Record", "best", "by_kernel", "by_operator", "census"]

#: A mutant, a schedule, and how the mutant was seen under it.
Record = tuple[Mutant, str, Outcome]


def best(records: Sequence[Record]) -> list[tuple[Mutant, str]]:
    """Each mutant once, with the best way in which a schedule saw it."""
    seen: dict[str, tuple[Mutant, str]] = {}
    for mutant, _, outcome in records:
        before = seen.get(mutant.name)
        if before is None or OUTCOMES.index(outcome.how) < OUTCOMES.index(before[1]):
            seen[mutant.name] = (mutant, outcome.how)
    return list(seen.values())


def _rows(found: Sequence[tuple[Mutant, str]], label: Callable[[Mutant], str], head: str) -> str:
    lines = [
        f"| {head} | class | mutants | " + " | ".join(OUTCOMES) + " |",
        "|---|---|--:|" + "--:|" * len(OUTCOMES),
    ]
    for kind in ("error", "review", "harmless"):
        chosen = [(mutant, how) for mutant, how in found if mutant.expected.kind == kind]
        for name in dict.fromkeys(label(mutant) for mutant, _ in chosen):
            lines.append(_row(name, kind, [how for mutant, how in chosen if label(mutant) == name]))
        if chosen:
            lines.append(_row("**all**", kind, [how for _, how in chosen]))
    return "\n".join(lines) + "\n"


def _row(name: str, kind: str, ways: Sequence[str]) -> str:
    counts = Counter(ways)
    return f"| {name} | {kind} | {len(ways)} | " + " | ".join(str(counts[how]) for how in OUTCOMES) + " |"


def by_operator(records: Sequence[Record]) -> str:
    """One row for each operator and class."""
    return _rows(best(records), lambda mutant: mutant.operator, "operator")


def by_kernel(records: Sequence[Record]) -> str:
    """One row for each kernel and class."""
    return _rows(best(records), lambda mutant: mutant.kernel, "kernel")


def census(found: Sequence[Mutant]) -> str:
    """How many mutants there are: a row for each kernel, a column for each class."""
    kinds = ("error", "review", "harmless")
    lines = ["| kernel | " + " | ".join(kinds) + " | all |", "|---|" + "--:|" * (len(kinds) + 1)]
    for kernel in [*dict.fromkeys(m.kernel for m in found), "all"]:
        of = [m for m in found if kernel in (m.kernel, "all")]
        counts = Counter(m.expected.kind for m in of)
        lines.append(f"| {kernel} | " + " | ".join(str(counts[k]) for k in kinds) + f" | {len(of)} |")
    return "\n".join(lines) + "\n"
