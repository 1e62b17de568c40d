"""The order of execution in the graph against executions under many schedules."""

from __future__ import annotations

from tests.sanitizer.reference.execution import execute
from tests.sanitizer.reference.generate import generate
from tests.sanitizer.reference.reference import Judge

_SCHEDULES = 6


def _times(judge: Judge, seed: int) -> list[int]:
    """When each instruction ended, by the number of the instance."""
    instances = execute(judge.program, seed).instances()
    return [one.time for one in sorted(instances, key=lambda one: one.number)]


def test_no_execution_contradicts_the_order() -> None:
    """What the graph orders happens in this order in every execution, and much of the rest in either order."""
    orders = either = 0
    for seed in range(30):
        judge = generate(seed)
        graph = judge.graph
        instances = judge.execution.instances()
        runs = [_times(judge, schedule) for schedule in range(_SCHEDULES)]
        for first in instances:
            after = judge.executed[graph.leave[first]]
            for second in instances:
                before = [run[first.number] < run[second.number] for run in runs]
                if first is not second and after >> graph.enter[second] & 1:
                    assert all(before), (seed, first.key, second.key)
                    orders += 1
                elif first.number < second.number and first.thread != second.thread:
                    either += any(before) and not all(before)
    assert orders > 5_000
    assert either > 1_000
