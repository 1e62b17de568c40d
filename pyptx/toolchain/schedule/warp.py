"""When a warp that runs alone issues each machine instruction.

Owns the walk through the blocks of a function in which the stalls and scoreboard barriers of the control
codes decide: an instruction is issued when the stall of the one before is over, its barriers are free and its
pipe can take it. What is pending at the end of a block (barriers, busy pipes) goes on into the next one. At
the head of a loop, what the loop's own end left counts, not the way into the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...core.records import dataclass
from ...timing.opcodes import REGISTER_BANKS, Pipes, class_of
from .graph import MachineBlock, MachineGraph
from .register_reads import Reused, bank_reads, reused
from .spills import is_local
from .statements import Statement, statement_of

__all__ = ["IssueCost", "issue_costs"]

#: Among the barriers: when a fence finds all that the warp has stored to shared memory.
_STORES = -1
#: For how many cycles an instruction may be issued before the banks have its registers.
_AHEAD = 1
#: Walks through the blocks: what is pending settles after as many rounds as loops are nested.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class IssueCost:
    """What one machine instruction costs, a routine that it calls included.

    Attributes:
        cycles: from when the warp could issue it, but for barriers and pipes, to when it can issue the next.
        stalled: of these, the ones behind the issue.
        spaced: of these, all but waits for barriers: what control codes, or a busy pipe, put between two
            instructions.
        issues: issue slots.
        run: issue slots of the row of instructions that it lies in, behind which the scheduler takes another
            warp that is ready: the last one yields, or its warp waits.
        pipes: cycles of each pipe.
        dense: of these, the ones that begin as soon as the pipe has taken the instruction before.
    """

    cycles: float
    stalled: float
    spaced: float
    issues: float
    run: float
    pipes: Mapping[str, float]
    dense: Mapping[str, float]


class _Pending:
    """What a warp leaves behind: when barriers are free, and pipes, in cycles from the next issue on."""

    __slots__ = ("barriers", "pipes")

    def __init__(self, barriers: Mapping[int, float], pipes: Mapping[str, float]) -> None:
        self.barriers, self.pipes = barriers, pipes

    @staticmethod
    def latest(states: Iterable[_Pending]) -> _Pending:
        barriers: dict[int, float] = {}
        pipes: dict[str, float] = {}
        for state in states:
            for barrier, time in state.barriers.items():
                barriers[barrier] = max(time, barriers.get(barrier, 0.0))
            for pipe, time in state.pipes.items():
                pipes[pipe] = max(time, pipes.get(pipe, 0.0))
        return _Pending(barriers, pipes)


_NOTHING = _Pending({}, {})


def issue_costs(
    graph: MachineGraph, pipes: Pipes, local: frozenset[Statement] = frozenset()
) -> dict[int, tuple[IssueCost, ...]]:
    """Return the costs of the instructions of each active block.

    Args:
        graph: the machine code.
        pipes: the pipes of the GPU.
        local: statements that access local variables, whose waits the timed machine models.
    """
    routines: dict[int, IssueCost] = {}

    def routine(first: int) -> IssueCost:
        if first not in routines:
            routines[first] = IssueCost(0.0, 0.0, 0.0, 0.0, 0.0, {}, {})  # a routine that calls itself
            routines[first] = _routine(graph, first, pipes, routine)
        return routines[first]

    inside: dict[int, set[int]] = {loop.head: set(loop.latches) for loop in graph.loops}
    left: dict[int, _Pending] = {}
    found: dict[int, tuple[IssueCost, ...]] = {}
    order = sorted(graph.active)
    for _ in range(_ROUNDS):
        for index in order:
            sources = inside.get(index) or graph.sources[index]
            entered = _Pending.latest(left[source] for source in sources if source in left)
            found[index], left[index] = _walk(graph.blocks[index], entered, pipes, routine, local)
    return found


def _walk(
    block: MachineBlock,
    entered: _Pending,
    pipes: Pipes,
    routine: Callable[[int], IssueCost],
    local: frozenset[Statement] = frozenset(),
) -> tuple[tuple[IssueCost, ...], _Pending]:
    """Return the costs of a block's instructions, and what is pending behind it."""
    barriers, busy = dict(entered.barriers), dict(entered.pipes)
    calls = dict(block.calls)
    costs: list[IssueCost] = []
    ends: list[bool] = []
    ready = 0.0
    kept: Reused = {}
    for position, instruction in enumerate(block.instructions):
        control, opcode = instruction.control, instruction.opcode
        occupied = pipes.occupied(opcode)
        reads = dict(zip(REGISTER_BANKS, bank_reads(instruction, kept), strict=True))
        kept = reused(instruction) if control.reuse else {}
        issued = ready
        for barrier in control.waits:
            issued = max(issued, barriers.get(barrier, 0.0))
        waited = issued - ready
        for pipe in occupied:
            issued = max(issued, busy.get(pipe, 0.0))
        dense: Mapping[str, float] = {
            pipe: cycles for pipe, cycles in occupied.items() if issued - busy.get(pipe, -math.inf) < 1
        }
        ended = issued > ready
        # Other warps have the slots meanwhile; of this one, the next instruction of a pipe follows at once.
        issued = max(issued, *(busy.get(bank, 0.0) - _AHEAD for bank, number in reads.items() if number), 0.0)
        for pipe, cycles in occupied.items():
            busy[pipe] = issued + cycles
        for bank, number in reads.items():
            if number:
                busy[bank] = max(issued, busy.get(bank, 0.0)) + number
                occupied = {**occupied, bank: float(number)}
        modeled = is_local(instruction) and statement_of(instruction) in local
        if control.write_barrier is not None and not modeled:
            done = issued + pipes.latency(opcode)
            barriers[control.write_barrier] = max(done, barriers.get(control.write_barrier, 0.0))
        if pipes.storing(opcode):
            barriers[_STORES] = max(issued + pipes.storing(opcode), barriers.get(_STORES, 0.0))
        if control.read_barrier is not None:
            done = issued + pipes.reading(opcode)
            if class_of(opcode).fences:
                done = max(done, barriers.get(_STORES, 0.0))
            barriers[control.read_barrier] = max(done, barriers.get(control.read_barrier, 0.0))
        following = issued + max(1.0, control.stall, pipes.held(opcode))
        if ended and ends:
            ends[-1] = True
        ends.append(control.yields or following > issued + 1)
        issues, run = 1.0, 1.0
        if position in calls:
            called = routine(calls[position])
            following += called.cycles
            issues, run = issues + called.issues, called.run
            occupied, dense = _sum(occupied, called.pipes), _sum(dense, called.dense)
        cycles, stalled = following - ready, following - issued - 1.0
        costs.append(IssueCost(cycles, stalled, cycles - waited, issues, run, occupied, dense))
        ready = following
    return _in_rows(costs, ends), _Pending(
        {barrier: time - ready for barrier, time in barriers.items() if time > ready},
        {pipe: time - ready for pipe, time in busy.items() if time > ready},
    )


def _in_rows(costs: Sequence[IssueCost], ends: Sequence[bool]) -> tuple[IssueCost, ...]:
    """Return the costs with the lengths of the rows, which the instructions that are flagged end."""
    found: list[IssueCost] = []
    for number, end in enumerate(ends, 1):
        if end or number == len(ends):
            length = float(number - len(found))
            found += [replace(cost, run=max(cost.run, length)) for cost in costs[len(found) : number]]
    return tuple(found)


def _routine(graph: MachineGraph, first: int, pipes: Pipes, routine: Callable[[int], IssueCost]) -> IssueCost:
    """Return the cost of the path through a routine with the fewest instructions."""
    best: dict[int, tuple[int, tuple[int, ...]]] = {first: (len(graph.blocks[first].instructions), (first,))}
    pending = [first]
    ends: list[tuple[int, tuple[int, ...]]] = []
    while pending:
        index = pending.pop(0)
        length, path = best[index]
        if not graph.edges[index]:
            ends.append(best[index])
        for target in graph.edges[index]:
            longer = length + len(graph.blocks[target].instructions)
            if target not in best or longer < best[target][0]:
                best[target] = longer, (*path, target)
                pending.append(target)
    cycles = spaced = issues = runs = 0.0
    occupied: Mapping[str, float] = {}
    dense: Mapping[str, float] = {}
    state = _NOTHING
    for index in min(ends)[1] if ends else ():
        costs, state = _walk(graph.blocks[index], state, pipes, routine)
        for cost in costs:
            cycles, spaced = cycles + cost.cycles, spaced + cost.spaced
            issues, runs = issues + cost.issues, runs + cost.issues * cost.run
            occupied, dense = _sum(occupied, cost.pipes), _sum(dense, cost.dense)
    return IssueCost(cycles, 0.0, spaced, issues, runs / max(1.0, issues), occupied, dense)


def _sum(a: Mapping[str, float], b: Mapping[str, float]) -> Mapping[str, float]:
    return {name: a.get(name, 0.0) + b.get(name, 0.0) for name in {**a, **b}}
