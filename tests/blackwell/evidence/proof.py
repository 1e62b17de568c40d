"""Which facts of a kernel the committed table has, with which grade, and what comes nearest to the others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from .facts import Fact
from .references import REFERENCES, Grade
from .table import Table, Use

__all__ = ["grade", "nearest", "proofs", "unproven"]


def proofs(fact: Fact) -> tuple[Use, ...]:
    """Return the kernels that have a fact, those of the strongest grade first."""
    uses = Table.committed().uses.get(fact, ())
    return tuple(sorted(uses, key=lambda use: REFERENCES[use.project].grade))


def grade(fact: Fact) -> Grade | None:
    """Return the strongest grade of a fact; None if no kernel has it."""
    found = proofs(fact)
    return REFERENCES[found[0].project].grade if found else None


def unproven(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts that no kernel of the table has, sorted."""
    return sorted((fact for fact in facts if not proofs(fact)), key=str)


@cache
def nearest(fact: Fact) -> tuple[Fact, list[str]] | None:
    """Return the fact of the same kind and name with the fewest other fields, and what it has instead; None if none.

    Facts that kernels for Blackwell have come before those of an H200.
    """
    same = [known for known in Table.committed().uses if known.kind is fact.kind and known.name == fact.name]
    if not same:
        return None
    best = min(
        same, key=lambda known: (grade(known) is Grade.HOPPER, len(fact.differences(known)), known.text)
    )
    return best, fact.differences(best)
