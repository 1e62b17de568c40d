"""Whether a program ends under every schedule, with every wait waiting for the same things.

The races of a program can only be judged if it synchronizes alike in every run.  A few executions with different
schedules show most differences, and the order of execution shows the rest: whatever counts for a phase of an mbarrier
must come after the phase before, no wait may be lapped, and no flag may be overwritten before it is read.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from .execution import Barrier, Execution, Illegal, Instance, execute
from .program import Program
from .reference import Judge

__all__ = ["legal"]

_SCHEDULES = 3


def legal(program: Program) -> Judge | None:
    """The judge of ``program``, or None if runs of it could differ or not end."""
    try:
        executions = [execute(program, seed) for seed in range(_SCHEDULES)]
    except Illegal:
        return None
    first = executions[0]
    if any(other.answers() != first.answers() for other in executions):
        return None
    judge = Judge(program, first)
    checks = (_phases, _initialized, _rounds, _flags, _chains)
    return judge if all(check(judge, first) for check in checks) else None


def _ordered(judge: Judge, first: int, second: int) -> bool:
    return bool(judge.executed[first] >> second & 1)


def _phases(judge: Judge, execution: Execution) -> bool:
    """Each phase of an mbarrier counts the same arrivals in every run, and no wait is lapped."""
    graph = judge.graph
    by_phase: dict[tuple[Barrier, int], list[Instance]] = defaultdict(list)
    waits: dict[tuple[Barrier, int], list[Instance]] = defaultdict(list)
    for one, phases in execution.phases.items():
        for barrier, phase in phases.items():
            group = waits if one.instruction.op == "mbarrier.wait" else by_phase
            group[barrier, phase].append(one)
    for (barrier, phase), members in by_phase.items():
        ends = [
            graph.completed(one, barrier) for one in members if one.instruction.op != "mbarrier.expect_tx"
        ]
        later = by_phase.get((barrier, phase + 1), [])
        for end in ends:
            if not all(_ordered(judge, end, graph.enter[one]) for one in later):
                return False
            if not all(_ordered(judge, end, graph.leave[w]) for w in waits.get((barrier, phase + 1), ())):
                return False
        for wait in waits.get((barrier, phase - 1), ()):
            if not any(_ordered(judge, graph.leave[wait], end) for end in ends):
                return False
        if not _announced(judge, members, barrier):
            return False
    return True


def _announced(judge: Judge, members: list[Instance], barrier: Barrier) -> bool:
    """Bytes and further arrivals are announced before the last arrival of their phase."""
    arrivals = [
        one for one in members if one.instruction.op in ("mbarrier.arrive", "mbarrier.arrive.expect_tx")
    ]
    for one in members:
        later = one.instruction.op == "mbarrier.expect_tx"
        later = later or (one.instruction.op == "cp.async.arrive" and not one.instruction.qualifier)
        enter = judge.graph.enter
        if later and not any(_ordered(judge, enter[one], enter[arrival]) for arrival in arrivals):
            return False
    return True


def _initialized(judge: Judge, execution: Execution) -> bool:
    """An mbarrier is used after its initialization has been executed, and before it is invalidated."""
    by_place: dict[Barrier, list[tuple[str, int, int]]] = defaultdict(list)
    for access in judge.graph.accesses:
        if access.role != "data":
            by_place[access.place].append((access.role, access.source, access.target))
    for accesses in by_place.values():
        for role, source, target in accesses:
            for other, source2, target2 in accesses:
                if role == "use" and other in ("init", "inval"):
                    before, after = _ordered(judge, source2, target), _ordered(judge, source, target2)
                    if not (before or after):
                        return False
    return True


def _rounds(judge: Judge, execution: Execution) -> bool:
    """The arrivals of one round of a named barrier come after those of the round before."""
    rounds: dict[tuple[object, ...], list[Instance]] = defaultdict(list)
    for one, round_ in execution.rounds.items():
        rounds[round_].append(one)
    enter = judge.graph.enter
    for round_, members in rounds.items():
        if len(round_) == 3:
            cta, number, turn = round_
            assert isinstance(turn, int)
            later = rounds.get((cta, number, turn + 1), [])
            if not all(_ordered(judge, enter[a], enter[b]) for a in members for b in later):
                return False
    return True


def _flags(judge: Judge, execution: Execution) -> bool:
    """No write may replace the value that a thread polls for before the thread has seen it."""
    graph = judge.graph
    writes: dict[tuple[int, str], list[Instance]] = defaultdict(list)
    for access in graph.accesses:
        if access.write and access.role == "data":
            writes[access.place].append(access.instance)
    for poll, seen in execution.observed.items():
        assert poll.instruction.to is not None
        place = poll.location(poll.instruction.to, execution.program)[:2]
        for write in writes[place]:
            if write in seen or write is poll:
                continue
            before = any(_ordered(judge, graph.enter[write], graph.enter[one]) for one in seen)
            if not before and not _ordered(judge, graph.leave[poll], graph.enter[write]):
                return False
    return True


def _chains(judge: Judge, execution: Execution) -> bool:
    """Atomics that count a flag up in an open order form the same chain in each order."""
    graph = judge.graph
    for poll, writers in execution.observed.items():
        for first, second in combinations(writers, 2):
            alike = graph.strong_pair(first, poll) == graph.strong_pair(second, poll)
            alike = alike and graph.strong_pair(first, second)
            if not alike and not _ordered(judge, graph.enter[first], graph.enter[second]):
                return False
    return True
