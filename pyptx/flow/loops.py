"""Dominators and natural loops of any control-flow graph: of PTX, or of machine code.

A graph is the successors of each node; node 0 is the entry. Nodes that no path reaches are in no loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.records import dataclass
from .graph import EXIT, post_dominators

__all__ = ["Loop", "dominates", "dominators", "equally_often", "innermost", "natural_loops", "reachable"]


@dataclass(frozen=True)
class Loop:
    """A natural loop.

    Attributes:
        head: the node through which every path into the loop goes.
        nodes: all of its nodes, those of inner loops included.
        latches: the nodes from which an edge leads back to the head.
    """

    head: int
    nodes: frozenset[int]
    latches: frozenset[int]


def reachable(edges: Sequence[Sequence[int]], start: int = 0) -> set[int]:
    """Return the nodes that paths from ``start`` reach, ``start`` included."""
    found, pending = {start}, [start]
    while pending:
        for target in edges[pending.pop()]:
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


def _postorder(edges: Sequence[Sequence[int]]) -> list[int]:
    order: list[int] = []
    seen, stack = {0}, [(0, 0)]
    while stack:
        node, position = stack.pop()
        if position == len(edges[node]):
            order.append(node)
            continue
        stack.append((node, position + 1))
        target = edges[node][position]
        if target not in seen:
            seen.add(target)
            stack.append((target, 0))
    return order


def dominators(edges: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the immediate dominator of each node that the entry reaches; the entry's is the entry."""
    order = _postorder(edges)
    rank = {node: number for number, node in enumerate(order)}
    sources: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for target in edges[node]:
            sources[target].append(node)
    found = {0: 0}
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == 0:
                continue
            best: int | None = None
            for source in sources[node]:
                if source not in found:
                    continue
                if best is None:
                    best = source
                while best != source:
                    if rank[best] < rank[source]:
                        best = found[best]
                    else:
                        source = found[source]
            assert best is not None
            if found.get(node) != best:
                found[node], changed = best, True
    return found


def dominates(immediate: dict[int, int], a: int, b: int) -> bool:
    """True if every path from the entry to ``b`` goes through ``a``."""
    while b != a:
        above = immediate.get(b, b)
        if above == b:
            return False
        b = above
    return True


def natural_loops(edges: Sequence[Sequence[int]]) -> list[Loop]:
    """Return the loops with one head, outer loops before inner ones.

    Two loops of one head count as one. A circle that can be entered in several places is no loop.
    """
    immediate = dominators(edges)
    sources: dict[int, list[int]] = {node: [] for node in immediate}
    for node in immediate:
        for target in edges[node]:
            sources[target].append(node)
    found = []
    for head in immediate:
        latches = [source for source in sources[head] if dominates(immediate, head, source)]
        if not latches:
            continue
        nodes, pending = {head}, list(latches)
        while pending:
            node = pending.pop()
            if node not in nodes:
                nodes.add(node)
                pending += sources[node]
        found.append(Loop(head, frozenset(nodes), frozenset(latches)))
    return sorted(found, key=lambda loop: (-len(loop.nodes), loop.head))


def innermost(loops: Sequence[Loop]) -> dict[int, int]:
    """Return for each node in a loop the number of the innermost one; outer loops come first in ``loops``."""
    return {node: number for number, loop in enumerate(loops) for node in loop.nodes}


def equally_often(
    edges: Sequence[Sequence[int]], loops: Sequence[Loop], ends: frozenset[int]
) -> dict[int, int]:
    """Return for each node that the entry reaches the first of the nodes that run equally often.

    These are the nodes that every path comes to from one of them, within the same loops. A path that leaves
    the loop is no path: the test at a loop's head and the loop's body count as equal.

    Args:
        edges: the successors of each node.
        loops: its loops.
        ends: the nodes behind which a path may end, although they have successors; others need not be named.
    """
    immediate = dominators(edges)
    level = innermost(loops)
    meets: dict[int | None, tuple[int, ...]] = {None: _meets(edges, frozenset(immediate), None, ends)}
    for number, loop in enumerate(loops):
        meets[number] = _meets(edges, loop.nodes, loop.head, ends)
    found: dict[int, int] = {}
    for node in sorted(immediate, key=lambda each: _depth(immediate, each)):
        own, above = level.get(node), immediate[node]
        while level.get(above) != own and above != immediate[above]:
            above = immediate[above]
        found[node] = node
        if above != node and level.get(above) == own and _comes_to(meets[own], above, node):
            found[node] = found[above]
    return found


def _meets(
    edges: Sequence[Sequence[int]], nodes: frozenset[int], head: int | None, ends: frozenset[int]
) -> tuple[int, ...]:
    """Return the immediate post-dominators within a loop, whose rounds end before its head."""
    inside: list[tuple[int, ...]] = []
    for node, targets in enumerate(edges):
        if node not in nodes:
            inside.append(())
        elif head is None:
            inside.append((*targets, EXIT) if node in ends or not targets else tuple(targets))
        else:
            inside.append(tuple(EXIT if t == head else t for t in targets if t in nodes))
    return post_dominators(inside)


def _comes_to(meets: Sequence[int], start: int, end: int) -> bool:
    while start not in (end, EXIT):
        start = meets[start]
    return start == end


def _depth(immediate: dict[int, int], node: int) -> int:
    depth = 0
    while immediate[node] != node:
        node, depth = immediate[node], depth + 1
    return depth
