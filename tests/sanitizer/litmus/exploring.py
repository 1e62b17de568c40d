"""``schedule="all"`` against the axiomatic model: the outcomes of race-free tests, and random tests."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .families import members
from .model import allowed, racy
from .program import Fence, Litmus, Load, Operation, Store, Update
from .running import explore

__all__ = ["Explored", "explored", "race_free", "random_test"]


@dataclass(frozen=True)
class Explored:
    """What an exploration has shown.

    Attributes:
        wrong: outcomes that the model forbids.
        missing: outcomes that it allows with an order in time, and that were not found.
        timeless: outcomes that need load buffering, or an order of fences against that in time.
        interleavings, runs: of the exploration.
        complete: whether it came to its end.
    """

    wrong: frozenset[tuple[int, ...]]
    missing: frozenset[tuple[int, ...]]
    timeless: frozenset[tuple[int, ...]]
    interleavings: int
    runs: int
    complete: bool


def race_free(family: str) -> list[Litmus]:
    """The tests of a family in which all operations are strong, with scopes that include each other."""
    return [test for test in members(family) if _is_strong(test)]


def _is_strong(test: Litmus) -> bool:
    operations = [each for thread in test.threads for each in thread if not isinstance(each, Fence)]
    together = len(set(test.ctas)) == 1
    return all(each.order != "weak" and (together or each.scope == "gpu") for each in operations)


def explored(test: Litmus) -> Explored:
    """Explore a race-free test, and compare the outcomes with those of the model."""
    assert _is_strong(test) or not racy(test), test.name
    found, report = explore(test)
    exploration = report.exploration
    assert exploration is not None
    every, in_order = allowed(test), allowed(test, in_order=True)
    return Explored(
        frozenset(found - every),
        frozenset(in_order - found),
        every - in_order,
        exploration.interleavings,
        exploration.runs,
        exploration.complete,
    )


def random_test(seed: int, operations: int = 7) -> Litmus:
    """Two or three threads with random strong operations on two locations."""
    rng = random.Random(seed)
    threads: list[list[Operation]] = [[] for _ in range(rng.choice((2, 3)))]
    for value in range(1, operations + 1):
        place, kind = rng.choice("xy"), rng.choice("RRRWWWUF")
        thread = rng.choice(threads)
        if kind == "R":
            thread.append(Load(place, rng.choice(("relaxed", "acquire"))))
        elif kind == "W":
            thread.append(Store(place, value, rng.choice(("relaxed", "release"))))
        elif kind == "U":
            thread.append(Update(place, rng.choice(("relaxed", "acquire", "release", "acq_rel"))))
        else:
            scope = rng.choice(("gpu", "gpu", "cta"))
            thread.append(Fence(rng.choice(("acq_rel", "sc", "sc", "acquire", "release")), scope))
    # Each location occurs, so that all tests have the same parameters.
    threads[0] += [Store("x", 8), Load("y")]
    ctas = [*range(len(threads))]
    if rng.random() < 0.3:
        ctas = [0] * len(threads)
    return Litmus(f"random {seed}", tuple(map(tuple, threads)), tuple(ctas), ("x", "y"))
