"""The analysis of the values of a whole function: an abstract interpretation over the control-flow graph.

Loops are widened until nothing changes, then narrowed; sums of loops are bounded by the number of iterations.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from ..ir import Function
from .graph import Graph
from .intervals import UNKNOWN, Interval
from .loop_sums import loop_sums
from .ranges import Ranges, State

__all__ = ["value_ranges"]

#: Number of times that the state before a block may grow before its bounds become infinite.
_PATIENCE = 3
#: Number of passes that narrow the result.
_NARROWING = 2


def value_ranges(
    function: Function,
    graph: Graph,
    specials: Mapping[str, Interval],
    params: Mapping[str, Interval] | None = None,
) -> Ranges:
    """Return the values that the integer registers of ``function`` can have.

    Args:
        function, graph: the function, and its control-flow graph.
        specials: intervals of special registers, such as ``tid.x``; the others are unknown.
        params: intervals of parameters; the others are unknown.
    """
    inputs: dict[int, State] = {0: State()} if graph.blocks else {}
    ranges = Ranges(graph, inputs, specials, params or {})
    grown: dict[int, int] = {}
    pending = [0] if graph.blocks else []
    while pending:
        number = heapq.heappop(pending)
        for successor, after in ranges.following(graph.blocks[number], inputs[number]):
            old = inputs.get(successor)
            new = after.copy() if old is None else old.joined(after)
            if old is not None:
                if new.same(old):
                    continue
                grown[successor] = grown.get(successor, 0) + 1
                if grown[successor] > _PATIENCE:
                    new = old.widened(new)
            inputs[successor] = new
            if successor not in pending:
                heapq.heappush(pending, successor)
    for _ in range(_NARROWING):
        _narrow(ranges, inputs, {})
    sums = loop_sums(ranges)
    if sums:
        for _ in range(_NARROWING):
            _narrow(ranges, inputs, sums)
    return ranges


def _narrow(ranges: Ranges, inputs: dict[int, State], sums: Mapping[int, Mapping[str, Interval]]) -> None:
    """Compute the state before each block once more: from those of its predecessors, and from ``sums``.

    Blocks are in the order of the text: a predecessor in front of the block has its new state already.
    """
    found: dict[int, State] = {0: State()} if inputs else {}
    _flow(ranges, inputs, found, sorted(inputs), back=True)
    for number in sorted(inputs):
        if number not in found:
            del inputs[number]
            continue
        state = inputs[number] = found[number]
        for name, (least, most) in sums.get(number, {}).items():
            known = state.values.get(name, UNKNOWN)
            state.values[name] = max(known[0], least), min(known[1], most)
        _flow(ranges, inputs, found, [number], back=False)


def _flow(
    ranges: Ranges, inputs: Mapping[int, State], found: dict[int, State], blocks: list[int], *, back: bool
) -> None:
    """Join what follows ``blocks`` with ``found``: along edges back in the text, or along the others."""
    for number in blocks:
        for successor, after in ranges.following(ranges.graph.blocks[number], inputs[number]):
            if (successor <= number) == back:
                old = found.get(successor)
                found[successor] = after.copy() if old is None else old.joined(after)
