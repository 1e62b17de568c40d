"""The control-flow graph of a function and its immediate post-dominators.

A block ends at a branch, before a label, and wherever the caller asks for a cut (the simulator cuts after
instructions that may wait).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ..core.errors import TraceError
from ..core.records import dataclass
from ..ir import Function, Instruction, LabelStatement, Raw, TargetList

__all__ = ["EXIT", "Block", "Graph", "control_flow", "post_dominators", "reconvergence"]

#: The number that stands for the end of the function in place of a block's index.
EXIT = -1
#: The largest number of blocks that end threads which :func:`reconvergence` examines one by one.
_MOST_SINKS = 8


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: its instructions with their statement indices, and its successors.

    ``taken`` is the target of a ``bra`` at the end (EXIT for ``ret`` and ``exit``), ``fallthrough`` the next
    block. A block that ends with a guarded branch has both; one that ends with an unguarded branch has only
    ``taken``; one without a branch has only ``fallthrough``. If a block ends with a ``brx.idx``, ``table``
    lists the targets, and ``taken`` is None.
    """

    index: int
    instructions: tuple[tuple[int, Instruction], ...]
    taken: int | None
    fallthrough: int | None
    table: tuple[int, ...] = ()

    @property
    def successors(self) -> tuple[int, ...]:
        """Indices of the blocks that may run next, without repetition."""
        return tuple(dict.fromkeys(s for s in (self.taken, self.fallthrough, *self.table) if s is not None))


@dataclass(frozen=True)
class Graph:
    """Blocks in program order; ``ipdom[i]`` is block i's immediate post-dominator, or EXIT if it has none."""

    blocks: tuple[Block, ...]
    ipdom: tuple[int, ...]

    @cached_property
    def edges(self) -> tuple[tuple[int, ...], ...]:
        """For each block, the blocks that may run next; the end of the function is none."""
        return tuple(tuple(s for s in block.successors if s != EXIT) for block in self.blocks)


def _ends_block(instruction: Instruction) -> bool:
    return instruction.opcode in ("bra", "brx", "ret", "exit")


def control_flow(
    function: Function,
    cut_before: Callable[[int], bool] | None = None,
    cut_after: Callable[[int], bool] | None = None,
) -> Graph:
    """Return the control-flow graph of ``function``.

    ``cut_before`` and ``cut_after`` get the index of a statement; where they return True, a block ends before
    or after that statement.

    Raises :class:`TraceError` for a branch to an unknown label, or for raw PTX.
    """
    groups: list[list[tuple[int, Instruction]]] = [[]]
    label_block: dict[str, int] = {}
    tables: dict[str, tuple[str, ...]] = {}
    for index, statement in enumerate(function.body):
        if isinstance(statement, LabelStatement):
            if groups[-1]:
                groups.append([])
            label_block[statement.name] = len(groups) - 1
        elif isinstance(statement, Instruction):
            if groups[-1] and cut_before is not None and cut_before(index):
                groups.append([])
            groups[-1].append((index, statement))
            if _ends_block(statement) or (cut_after is not None and cut_after(index)):
                groups.append([])
        elif isinstance(statement, TargetList):
            tables[statement.name] = statement.targets
        elif isinstance(statement, Raw):
            raise TraceError(
                "the function contains raw PTX, which pyptx does not parse and cannot analyze",
                location=statement.source,
                hint="write it with ptx.inst, so that pyptx can check and simulate it",
            )
    blocks = []
    last = len(groups) - 1
    for number, group in enumerate(groups):
        following = number + 1 if number < last else EXIT
        taken: int | None = None
        fallthrough: int | None = following
        table: tuple[int, ...] = ()
        if group and _ends_block(group[-1][1]):
            end = group[-1][1]
            if end.opcode == "brx":
                names = tables.get(str(end.operands[1]), ())
                table = tuple(_labeled(name, label_block, end) for name in names)
            elif end.opcode == "bra":
                taken = _labeled(str(end.operands[0]), label_block, end)
            else:
                taken = EXIT
            if end.guard is None:
                fallthrough = None
        blocks.append(Block(number, tuple(group), taken, fallthrough, table))
    return Graph(tuple(blocks), post_dominators([block.successors for block in blocks]))


def reconvergence(graph: Graph, ends: Callable[[Instruction], bool]) -> tuple[int, ...]:
    """Return, for each block, the block where threads that diverge at its end reconverge, or EXIT for none.

    These are the immediate post-dominators, except that no thread waits for threads that end on the way.
    ``ends`` is True for an instruction that ends a thread. A branch to a block that only ends threads counts
    as such an instruction.
    """
    blocks = graph.blocks
    last = [block.instructions[-1][1] if block.instructions else None for block in blocks]
    ending = [instruction is not None and ends(instruction) for instruction in last]
    final = {
        b.index for b in blocks if ending[b.index] and len(b.instructions) == 1 and b.fallthrough is None
    }
    staying: list[tuple[int, ...]] = []
    for block in blocks:
        stay = [t for t in block.successors if t not in final and not (t == EXIT and ending[block.index])]
        staying.append(tuple(stay) or block.successors)
    met = list(post_dominators(staying))
    sinks = [n for n, targets in enumerate(staying) if targets == (EXIT,) and ending[n]]
    for sink in sinks[: -_MOST_SINKS - 1 : -1]:
        if len(sinks) == 1 or all(met[n] != EXIT or len(staying[n]) == 1 for n in range(len(blocks))):
            break
        # Post-dominators of the graph without the other blocks that end threads.
        alone = [() if n in sinks and n != sink else targets for n, targets in enumerate(staying)]
        met = [a if a != EXIT else b for a, b in zip(met, post_dominators(alone), strict=True)]
    return tuple(a if a != EXIT else b for a, b in zip(met, graph.ipdom, strict=True))


def _labeled(name: str, labels: dict[str, int], instruction: Instruction) -> int:
    if name not in labels:
        raise TraceError(f"branch to unknown label {name}", location=instruction.source)
    return labels[name]


def post_dominators(edges: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return each block's immediate post-dominator, or EXIT: Cooper, Harvey and Kennedy, graph reversed.

    ``edges`` has the successors of each block, among them EXIT.
    """
    count = len(edges)
    end = count
    successors = [[end if s == EXIT else s for s in targets] for targets in edges]
    predecessors: list[list[int]] = [[] for _ in range(count + 1)]
    for number, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(number)
    order: list[int] = []
    seen = {end}
    stack: list[tuple[int, int]] = [(end, 0)]
    while stack:
        node, position = stack.pop()
        if position < len(predecessors[node]):
            stack.append((node, position + 1))
            child = predecessors[node][position]
            if child not in seen:
                seen.add(child)
                stack.append((child, 0))
        else:
            order.append(node)
    rank = {node: i for i, node in enumerate(order)}
    idom: dict[int, int] = {end: end}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = idom[a]
            while rank[b] < rank[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [s for s in successors[node] if s in idom]
            new = known[0]
            for other in known[1:]:
                new = meet(new, other)
            if idom.get(node) != new:
                idom[node] = new
                changed = True
    # A block that cannot reach the end (an endless loop) has no post-dominator.
    return tuple(EXIT if idom.get(n, end) == end else idom[n] for n in range(count))
