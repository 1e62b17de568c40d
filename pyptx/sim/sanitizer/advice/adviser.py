"""Chooses the advice for two accesses by the rule that they break and by what the first one is."""

from __future__ import annotations

from dataclasses import replace

from .fences import assumed_order, by_chance, proxy_fence, tensor_fence, tensor_wait
from .flags import speculative_load
from .operations import after_operation
from .pair import Advice, Pair
from .threads import after_threads

__all__ = ["advise"]

_OF_RULES = {
    "proxy-fence-missing": proxy_fence,
    "proxy-fence-open": proxy_fence,
    "tcgen05-wait-missing": tensor_wait,
    "tcgen05-fence-missing": tensor_fence,
    "assumed-order": assumed_order,
    "ordered-by-chance": by_chance,
    "speculative-load": speculative_load,
}


def advise(rule: str, pair: Pair) -> Advice:
    """Return why two accesses break a rule, and what mends the kernel."""
    special = _OF_RULES.get(rule)
    if special is not None:
        return special(pair)
    if _reversed(pair):
        first = replace(pair.second, earlier=True)
        second = replace(pair.first, earlier=False)
        pair = replace(pair, first=first, second=second)
    if pair.first.issue is not None:
        return after_operation(pair, pair.first.issue)
    return after_threads(pair)


def _reversed(pair: Pair) -> bool:
    """True if the access that happened first stands later in the code, counted from the last common barrier.

    If only barriers order the threads, the order in the code is the one that was meant.
    """
    first, second = pair.first, pair.second
    if first.location is None or second.location is None or first.location.file != second.location.file:
        return False
    waited, other = first.waited(), second.waited()
    if (
        any(family == "mbarrier" for family, _, _ in (*waited, *other))
        or first.cta.launch != second.cta.launch
    ):
        return False
    common = [sync.location for signal, sync in waited.items() if signal in other]
    start = 0 if not common or common[-1] is None else common[-1].line
    ranks = [(line < start, line) for line in (first.location.line, second.location.line)]
    return ranks[1] < ranks[0]
