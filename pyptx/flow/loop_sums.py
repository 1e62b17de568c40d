"""Registers that grow by a bounded step in each iteration of a loop whose iterations are bounded, too.

A comparison bounds the counter of a loop, but not a sum such as ``offset += stride``. The counter's interval
and step bound the iterations; with the sum's own step and its value before the loop, they bound the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..core.records import dataclass
from ..ir import Instruction, Register
from ..isa import Binding
from .graph import Graph
from .intervals import UNKNOWN, Interval, hull, is_finite, negate
from .ranges import Ranges, State
from .registers import accesses

__all__ = ["loop_sums"]


@dataclass(frozen=True)
class _Loop:
    """A natural loop: its first block, all its blocks, and those that lead back to the first one."""

    head: int
    blocks: frozenset[int]
    latches: frozenset[int]


@dataclass(frozen=True)
class _Step:
    """The only instruction of a loop that writes a register: it adds ``by`` to the register."""

    block: int
    by: Interval
    guarded: bool


def loop_sums(ranges: Ranges) -> dict[int, dict[str, Interval]]:
    """Return, for the first block of each loop, the values of the sums that the loop makes."""
    found: dict[int, dict[str, Interval]] = {}
    for loop in _loops(ranges.graph):
        if loop.head not in ranges.inputs:
            continue
        steps = _steps(ranges, loop)
        trips = _trips(ranges, loop, steps)
        if math.isinf(trips):
            continue
        for name, step in steps.items():
            before = _before(ranges, loop, name)
            if is_finite(before) and is_finite(step.by) and _is_once(ranges.graph, loop, step.block):
                least = before[0] + trips * min(0, step.by[0])
                most = before[1] + trips * max(0, step.by[1])
                found.setdefault(loop.head, {})[name] = least, most
    return found


def _loops(graph: Graph) -> Iterator[_Loop]:
    """Yield the loops whose first block every path into the loop goes through."""
    before: dict[int, list[int]] = {block.index: [] for block in graph.blocks}
    for block in graph.blocks:
        for successor in block.successors:
            if successor >= 0:
                before[successor].append(block.index)
    for head, sources in before.items():
        back = [source for source in sources if source >= head]
        if not back:
            continue
        outside = _reached(graph, 0, without=head) if head else set()
        latches = frozenset(source for source in back if source not in outside)
        blocks = {head}
        pending = list(latches)
        while pending:
            number = pending.pop()
            if number not in blocks:
                blocks.add(number)
                pending += before[number]
        if latches and blocks.isdisjoint(outside):
            yield _Loop(head, frozenset(blocks), latches)


def _reached(graph: Graph, start: int, *, without: int, within: frozenset[int] | None = None) -> set[int]:
    """Return the blocks that paths from ``start`` reach, which do not go through the block ``without``."""
    found = {start} - {without}
    pending = list(found)
    while pending:
        for successor in graph.blocks[pending.pop()].successors:
            inside = successor >= 0 and successor != without and (within is None or successor in within)
            if inside and successor not in found:
                found.add(successor)
                pending.append(successor)
    return found


def _steps(ranges: Ranges, loop: _Loop) -> dict[str, _Step]:
    """Return the registers that one instruction of the loop changes, by adding a number to them."""
    found: dict[str, _Step] = {}
    writes: dict[str, int] = {}
    for block in sorted(loop.blocks & ranges.inputs.keys()):
        for _, instruction, binding, state in ranges.states(block):
            for register in accesses(instruction, binding)[1]:
                writes[register.name] = writes.get(register.name, 0) + 1
            step = _added(ranges, instruction, binding, state)
            if step is not None:
                found[step[0]] = _Step(block, step[1], instruction.guard is not None)
    return {name: step for name, step in found.items() if writes[name] == 1}


def _added(
    ranges: Ranges, instruction: Instruction, binding: Binding, state: State
) -> tuple[str, Interval] | None:
    """Return the register that the instruction adds to, and what it adds."""
    if binding.form_id not in ("add.int", "sub.int") or "sat" in binding.chosen:
        return None
    result, a, b = (binding.operands[name] for name in ("d", "a", "b"))
    if binding.form_id == "add.int" and b == result:
        a, b = b, a
    if not isinstance(result, Register) or a != result or b == result:
        return None
    by = ranges.value(b, state)
    return result.name, by if binding.form_id == "add.int" else negate(by)


def _trips(ranges: Ranges, loop: _Loop, steps: dict[str, _Step]) -> float:
    """Return a bound of the iterations that are complete when the head of the loop begins."""
    least = math.inf
    for name, step in steps.items():
        values = ranges.inputs[loop.head].values.get(name, UNKNOWN)
        size = max(step.by[0], -step.by[1])
        if is_finite(values) and size > 0 and not step.guarded and _is_always(ranges.graph, loop, step.block):
            least = min(least, (values[1] - values[0]) // size)
    return least


def _is_always(graph: Graph, loop: _Loop, block: int) -> bool:
    """True if every iteration executes the block."""
    if block == loop.head:
        return True
    reached = _reached(graph, loop.head, without=block, within=loop.blocks)
    return loop.latches.isdisjoint(reached)


def _is_once(graph: Graph, loop: _Loop, block: int) -> bool:
    """True if no iteration executes the block twice: the block is in no inner loop."""
    return not any(
        block in _reached(graph, successor, without=loop.head, within=loop.blocks)
        for successor in graph.blocks[block].successors
        if successor in loop.blocks and successor != loop.head
    )


def _before(ranges: Ranges, loop: _Loop, name: str) -> Interval:
    """Return the values of a register where the loop begins."""
    found: Interval | None = None
    for block in ranges.graph.blocks:
        if block.index in loop.blocks or block.index not in ranges.inputs:
            continue
        if loop.head in block.successors:
            for successor, after in ranges.following(block, ranges.inputs[block.index]):
                if successor == loop.head:
                    value = after.values.get(name, UNKNOWN)
                    found = value if found is None else hull(found, value)
    return UNKNOWN if found is None else found
