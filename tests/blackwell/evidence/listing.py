"""Prints which facts of kernels are unproven and why they should be right, and what proves the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .facts import Fact
from .proof import grade, nearest, proofs, unproven
from .references import Grade
from .unproven import REASONS

__all__ = ["listing"]


def _kernels(fact: Fact, facts: Mapping[str, Iterable[Fact]]) -> str:
    return ", ".join(name for name, has in facts.items() if fact in has)


def listing(facts: Mapping[str, frozenset[Fact]], every: bool = False) -> Iterator[str]:
    """Yield a line for each unproven fact of the kernels, by name; with ``every``, one for each fact, by grade."""
    found = sorted(frozenset[Fact]().union(*facts.values()), key=str)
    missing = unproven(found)
    yield f"\n{len(found)} forms and fields, of which {len(missing)} are unproven"
    for fact in missing:
        yield f"- {fact} ({_kernels(fact, facts)})"
        yield f"  {REASONS.get(fact, 'NO REASON IS LISTED')}"
        near = nearest(fact)
        if near is not None:
            known, other = near
            yield f"  nearest: {', '.join(other)} ({', '.join(use.project for use in proofs(known))})"
    if not every:
        return
    for each in Grade:
        graded = [fact for fact in found if grade(fact) is each]
        yield f"\n{len(graded)} {each.words}:"
        for fact in graded:
            yield f"- {fact} ({', '.join(f'{use.project} {use.kernel}' for use in proofs(fact))})"
