"""Intervals of 80% from few scored launches, and how they were chosen.

A ratio is measured over predicted time.  The ends of the interval of ``n`` ratios are their order statistics
at the ranks 10% and 90% of ``n + 1``, so that one more launch of their kind is inside with a probability of
80%, whatever the distribution is; quantiles of the ratios themselves are too narrow for few of them.  Below
:data:`LEAST` launches of a stratum all strata together count.  :func:`left_out` tells how many launches lie
in the interval that the others of their half give: it decides between ways to make intervals without a look
at launches that are held out.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from pyptx.timing.scores import STRATA

__all__ = ["LEAST", "described", "interval", "left_out"]

LEAST = 6
SHARE = 0.8

#: The stratum and the ratio of a launch.
Ratios = Sequence[tuple[str, float]]


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the interval, which includes 1."""
    ordered, outside = sorted(ratios), (1 - SHARE) / 2

    def at(share: float) -> float:
        rank = min(max(share * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
        below = int(rank)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)

    return min(1.0, at(outside)), max(1.0, at(1 - outside))


def chosen(launches: Ratios, stratum: str) -> list[float]:
    """Return the ratios from which the interval of a stratum is made."""
    own = [ratio for name, ratio in launches if name == stratum]
    return own if len(own) >= LEAST else [ratio for _, ratio in launches]


def left_out(launches: Ratios) -> list[bool]:
    """Return for each launch whether it lies in the interval that the others give."""
    found = []
    for number, (stratum, ratio) in enumerate(launches):
        others = [each for place, each in enumerate(launches) if place != number]
        low, high = interval(chosen(others, stratum))
        found.append(low <= ratio <= high)
    return found


def described(fitted: Ratios, held_out: Ratios) -> Iterator[str]:
    """Yield the intervals of the fitted launches, and how many of both halves lie within, as lines."""
    ends = {name: interval(chosen(fitted, name)) for name in STRATA}
    for name, (low, high) in ends.items():
        yield f"{name:<8} {low:.3f} to {high:.3f}, of {len(chosen(fitted, name))} fitted launches"
    inside = left_out(fitted)
    yield f"fitted: {sum(inside)} of {len(inside)} lie in the interval of the others"
    within = [ends[name][0] <= ratio <= ends[name][1] for name, ratio in held_out]
    half = [(ends[name][1] - ends[name][0]) / 2 for name, _ in held_out]
    if half:
        yield f"held out: {sum(within)} of {len(within)}; median half-width {statistics.median(half):.1%}"
