"""Who wins, who leaves when, and what a mishap costs."""

from __future__ import annotations

import random
from typing import Any

from pyptx.tools.autotune.candidates import Candidate, State
from pyptx.tools.autotune.race import race
from tests.tools.autotune.fakes import FakePlace


def _candidates(count: int) -> list[Candidate]:
    return [Candidate(number, {"n": number}) for number in range(count)]


def _ignore(_: Candidate) -> None:
    pass


def test_the_fastest_wins_though_the_clock_drifts() -> None:
    """Candidate 3 is 2 percent faster; noise of 1 percent and a drift of the clock of 30 percent."""
    noise, clock = random.Random(1), [1.0]

    def us(candidate: Candidate, _: int) -> float:
        clock[0] *= 1.002
        return (98.0 if candidate.number == 3 else 100.0) * clock[0] * noise.gauss(1, 0.01)

    candidates = _candidates(6)
    best = race(candidates, FakePlace(us), _ignore)
    assert best is candidates[3] and best.state is State.BEST
    assert [each.state for each in candidates if each is not best] == [State.SLOWER] * 5


def test_clearly_slower_ones_leave_early() -> None:
    place = FakePlace(lambda candidate, _: (10.0, 11.0, 30.0)[candidate.number])
    candidates = _candidates(3)
    assert race(candidates, place, _ignore) is candidates[0]
    asked = [sum(each is candidate for each in place.asked) for candidate in candidates]
    assert asked == [7, 7, 2], "a launch, a warm-up and five rounds; three times as slow: no round"
    assert candidates[2].reason == "3.0 times the best one's time in the first interval"
    assert candidates[1].reason == "10.0 percent slower"


def test_equals_end_after_all_rounds() -> None:
    place = FakePlace(lambda candidate, _: 10.0)
    candidates = _candidates(2)
    assert race(candidates, place, _ignore, rounds=8) in candidates
    assert len(place.asked) == 2 * (2 + 8)


def test_mishaps_cost_their_own_candidate_alone() -> None:
    """At the first launch, in the warm-up, and in the third round, when it leads."""
    ends = {0: (State.HUNG, -1), 1: (State.FAILED, 0), 2: (State.CRASHED, 3)}

    def us(candidate: Candidate, interval: int) -> Any:
        state, when = ends.get(candidate.number, (None, 0))
        return state if state is not None and interval == when else 10.0 + candidate.number

    candidates = _candidates(5)
    told: list[Candidate] = []
    assert race(candidates, FakePlace(us), told.append) is candidates[3]
    assert [each.state.value for each in candidates] == ["hung", "failed", "crashed", "best", "slower"]
    assert candidates[2].reason == "said to be crashed"
    assert [each.number for each in told[:7]] == [0, 1, 2, 3, 4, 1, 2]


def test_outputs_that_most_do_not_have() -> None:
    candidates = _candidates(4)
    place = FakePlace(lambda candidate, _: 1.0 + candidate.number, group=lambda each: int(each.number > 0))
    assert race(candidates, place, _ignore) is candidates[1]
    assert candidates[0].state is State.WRONG
    assert candidates[0].reason == "its outputs are not those that 3 candidates agree on"
    assert place.asked.count(candidates[0]) == 1, "it is not timed"


def test_nothing_can_be_measured() -> None:
    assert race(_candidates(2), FakePlace(lambda *_: State.FAILED), _ignore) is None


def test_one_candidate_alone() -> None:
    candidates = _candidates(1)
    assert race(candidates, FakePlace(lambda *_: 5.0), _ignore) is candidates[0]
    assert candidates[0].us == 5.0
