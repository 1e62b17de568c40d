"""The measurement of candidates against each other, in rounds, until one is ahead of all others.

Owns :func:`race`: what is asked of a place, in which order, and who leaves when.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from .candidates import Candidate, State
from .lab import Mishap, Place

__all__ = ["race"]

#: Microseconds that the launches of one interval take about, and the most launches of one.
_INTERVAL, _MOST = 2000.0, 100
#: A candidate whose first interval took this many times the best one's leaves at once.
_FAR = 2.0
#: Rounds before a candidate may leave by comparison, and rounds at most.
_LEAST, _ROUNDS = 5, 30
#: Standard errors by which a candidate must be behind to leave.
_ERRORS = 3.0


def race(
    candidates: Sequence[Candidate],
    place: Place,
    step: Callable[[Candidate], None],
    rounds: int = _ROUNDS,
    stage: Callable[[str, int], None] = lambda *_: None,
) -> Candidate | None:
    """Measure candidates and return the fastest; None if none could be measured.

    Each candidate is launched once, and those whose outputs differ from those of most candidates leave. Then
    all take turns, in a new order each round, so that a drifting clock affects all of them alike. The times
    of one round are compared in pairs: a candidate leaves when it is slower than the leader by more than
    three standard errors of the mean of its ratios to the leader. Candidates keep their times and get their
    states; a hang or a failure costs its own candidate alone. ``stage`` is told of the two parts.
    """
    stage("loading", len(candidates))
    running = _qualified(candidates, place, step)
    launches: dict[int, int] = {}
    for candidate, us in list(running.items()):
        launches[candidate.number] = min(max(1, math.ceil(_INTERVAL / max(us, 1e-3))), _MOST)
    left = list(running)
    stage("timing", len(left))
    _round(left, launches, place, step)  # warms up; its times count for the first choice alone
    left = [each for each in left if each.ready]
    if left:
        best = min(each.times[0] for each in left)
        for candidate in left:
            if candidate.times[0] > _FAR * best:
                behind = candidate.times[0] / best
                candidate.drop(State.SLOWER, f"{behind:.1f} times the best one's time in the first interval")
            else:
                candidate.times.clear()
        left = [each for each in left if each.ready]
    order = random.Random(0)
    for number in range(rounds if len(left) > 1 else 1):
        order.shuffle(left)
        _round(left, launches, place, step)
        left = [each for each in left if each.ready]
        if number + 1 >= _LEAST:
            left = _still(left, step)
        if len(left) < 2 and number + 1 >= _LEAST:
            break
    if not left:
        return None
    leader = min(left, key=lambda each: each.us or math.inf)
    for candidate in left:
        if candidate is not leader:
            ratio = _ratio(candidate, leader)[0]
            candidate.drop(State.SLOWER, f"{100 * math.expm1(ratio):.1f} percent slower, or as fast")
    leader.state = State.BEST
    return leader


def _qualified(
    candidates: Sequence[Candidate], place: Place, step: Callable[[Candidate], None]
) -> dict[Candidate, float]:
    """Launch each once. Return the time of each whose outputs are those of most."""
    found: dict[Candidate, float] = {}
    groups: dict[Candidate, int] = {}
    for candidate in candidates:
        try:
            found[candidate], groups[candidate] = place.first(candidate)
        except Mishap as mishap:
            candidate.drop(mishap.state, mishap.reason)
        step(candidate)
    if not groups:
        return found
    (most, size), *_ = Counter(groups.values()).most_common()
    for candidate, group in groups.items():
        if group != most:
            candidate.drop(State.WRONG, f"its outputs are not those that {size} candidates agree on")
            del found[candidate]
            step(candidate)
    return found


def _round(
    running: Sequence[Candidate], launches: dict[int, int], place: Place, step: Callable[[Candidate], None]
) -> None:
    for candidate in running:
        try:
            candidate.times.append(place.time(candidate, launches[candidate.number]))
        except Mishap as mishap:
            candidate.drop(mishap.state, mishap.reason)
            step(candidate)


def _ratio(candidate: Candidate, leader: Candidate) -> tuple[float, float]:
    """Return the mean of the logarithms of the ratios to the leader, round by round, and its error."""
    logs = [math.log(a / b) for a, b in zip(candidate.times, leader.times, strict=False)]
    spread = statistics.stdev(logs) if len(logs) > 1 else math.inf
    return statistics.fmean(logs), spread / math.sqrt(len(logs))


def _still(running: Sequence[Candidate], step: Callable[[Candidate], None]) -> list[Candidate]:
    """Return the candidates that may still be the fastest."""
    if not running:
        return []
    leader = min(running, key=lambda each: each.us or math.inf)
    found = []
    for candidate in running:
        mean, error = _ratio(candidate, leader)
        if candidate is leader or mean <= _ERRORS * error:
            found.append(candidate)
        else:
            candidate.drop(State.SLOWER, f"{100 * math.expm1(mean):.1f} percent slower")
            step(candidate)
    return found
