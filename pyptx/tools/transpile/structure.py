"""Converts labels and branches of a PTX function to blocks: ``if_``, ``else_``, loops and braces.

Owns :func:`structured`. A branch becomes a block only if the block emits exactly that branch at the same
place. Other branches and their labels stay. No statement moves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from ...core.records import dataclass
from ...ir import Guard, LabelStatement, ScopeMark, TargetList
from .body import StatementStep

__all__ = ["IfNode", "Jump", "LoopNode", "Node", "ScopeNode", "Structure", "structured", "uni", "walk"]

#: The largest depth of blocks. Python allows 20 nested blocks; the others are for loops over repetitions.
_DEPTH = 14


@dataclass(eq=False)
class IfNode:
    """A ``with ptx.if_(...)`` block, from a guarded branch over ``body``.

    If there is an ``orelse``, ``skip`` is the branch at the end of ``body`` over it.
    """

    branch: StatementStep
    body: list[Node]
    skip: StatementStep | None = None
    orelse: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class LoopNode:
    """A ``ptx.loop`` block, or a ``ptx.do_while`` if ``guard`` is set.

    ``back`` is the branch to the loop's head. ``named`` is true if a branch in the body leaves the loop or
    starts its next pass.
    """

    body: list[Node]
    back: StatementStep
    named: bool = False

    @property
    def guard(self) -> Guard | None:
        assert self.back.instruction is not None
        return self.back.instruction.guard


@dataclass(frozen=True)
class Jump:
    """A branch that Python writes as ``break_`` or ``continue_`` of a loop."""

    kind: str
    loop: LoopNode


@dataclass(eq=False)
class ScopeNode:
    """A ``with ptx.block()``: braces that limit the scope of variables."""

    body: list[Node]


Node: TypeAlias = "StatementStep | IfNode | LoopNode | ScopeNode"


@dataclass(frozen=True)
class Structure:
    """Finds the blocks of one PTX function."""

    nodes: list[Node]
    #: Index of a branch's statement -> the jump, for branches that leave a loop or start its next pass.
    jumps: dict[int, Jump]
    #: Labels that the program must write, because a branch names them.
    labels: frozenset[str]


def uni(step: StatementStep) -> bool:
    """True if the statement is a ``bra.uni``."""
    return step.instruction is not None and step.instruction.modifiers == ("uni",)


class _Builder:
    def __init__(self, steps: Sequence[StatementStep], flat: bool) -> None:
        self.steps = steps
        self.flat = flat
        #: For each step, the index of the first step from there on that is not a label.
        self.place = self._places()
        self.where = {
            s.statement.name: self.place[i]
            for i, s in enumerate(steps)
            if isinstance(s.statement, LabelStatement)
        }
        #: Index of a step -> the steps that jump to it, in order.
        self.sources: dict[int, list[int]] = {}
        self._find_sources()
        self.targets = sorted(self.sources)
        self.closing = self._closing()
        self.jumps: dict[int, Jump] = {}
        self.consumed: set[int] = set()

    def _places(self) -> list[int]:
        count = len(self.steps)
        place = list(range(count + 1))
        for at in range(count - 1, -1, -1):
            if self.steps[at].is_label:
                place[at] = place[at + 1]
        return place

    def _find_sources(self) -> None:
        tables = {
            s.statement.name: s.statement.targets
            for s in self.steps
            if isinstance(s.statement, TargetList) and s.statement.kind == "branchtargets"
        }
        for at, step in enumerate(self.steps):
            target = step.target
            if target is not None:
                self.sources.setdefault(self.where[target], []).append(at)
            elif step.instruction is not None and step.instruction.opcode == "brx":
                name = str(step.instruction.operands[-1])
                for label in tables.get(name, ()):
                    self.sources.setdefault(self.where[label], []).append(at)

    def _closing(self) -> dict[int, int]:
        """Return a map from the index of each opening brace to that of its closing brace."""
        found: dict[int, int] = {}
        stack: list[int] = []
        for at, step in enumerate(self.steps):
            if isinstance(step.statement, ScopeMark):
                if step.statement.opens:
                    stack.append(at)
                else:
                    found[stack.pop()] = at
        return found

    # --- what may be a block ------------------------------------------------------------------

    def _label_start(self, place: int) -> int:
        """Return the index of the first of the labels directly before ``place``."""
        at = place
        while at > 0 and self.steps[at - 1].is_label:
            at -= 1
        return at

    def _closed(self, low: int, high: int, entered: bool = False) -> bool:
        """True if no statement outside ``low..high`` jumps into this range, and its braces are in pairs.

        If ``entered``, jumps to ``low`` itself are allowed.
        """
        first = bisect_left(self.targets, low + entered)
        for place in self.targets[first:]:
            if place >= high:
                break
            sources = self.sources[place]
            if sources[0] < low or sources[-1] >= high:
                return False
        at = low
        while at < high:
            statement = self.steps[at].statement
            if isinstance(statement, ScopeMark):
                if not statement.opens or self.closing[at] >= high:
                    return False
                at = self.closing[at]
            at += 1
        return True

    def build(
        self, low: int, high: int, depth: int, loops: tuple[tuple[LoopNode, int, int], ...]
    ) -> list[Node]:
        """Return the statements ``low..high`` as nodes: statements and blocks.

        ``loops`` has the enclosing loops, with heads and ends.
        """
        found: list[Node] = []
        at = low
        while at < high:
            step = self.steps[at]
            if isinstance(step.statement, ScopeMark):
                end = self.closing[at]
                found.append(ScopeNode(self.build(at + 1, end, depth + 1, loops)))
                at = end + 1
                continue
            made = None if self.flat or depth >= _DEPTH else self._block(at, high, depth, loops)
            if made is None:
                self._leaves_loop(at, loops)
                found.append(step)
                at += 1
                continue
            if step.is_label:
                found.append(step)
            node, at = made
            found.append(node)
        return found

    def _block(
        self, at: int, high: int, depth: int, loops: tuple[tuple[LoopNode, int, int], ...]
    ) -> tuple[Node, int] | None:
        step = self.steps[at]
        if not step.is_label:
            return self._if(at, high, depth, loops) if step.target is not None else None
        if at + 1 < len(self.steps) and self.steps[at + 1].is_label:
            return None  # of several labels at this place, the last one is the loop's head
        return self._loop(at, high, depth, loops)

    def _loop(
        self, at: int, high: int, depth: int, loops: tuple[tuple[LoopNode, int, int], ...]
    ) -> tuple[Node, int] | None:
        head = self.place[at]
        back = [
            s for s in self.sources.get(head, ()) if head <= s < high and self.steps[s].target is not None
        ]
        if not back:
            return None
        last = back[-1]
        # If a branch before the loop jumps to the loop's head, the label is written in front of the loop.
        if not self._closed(head, last + 1, entered=True):
            return None
        node = LoopNode([], self.steps[last])
        self.consumed.add(last)
        node.body = self.build(head, last, depth + 1, (*loops, (node, head, self.place[last + 1])))
        return node, last + 1

    def _if(
        self, at: int, high: int, depth: int, loops: tuple[tuple[LoopNode, int, int], ...]
    ) -> tuple[Node, int] | None:
        step = self.steps[at]
        instruction = step.instruction
        assert instruction is not None and step.target is not None
        place = self.where[step.target]
        if instruction.guard is None or instruction.modifiers or place <= at:
            return None
        end = self._label_start(place)
        if not at + 1 < end <= high or not self._closed(at + 1, end):
            return None
        node = IfNode(step, [])
        self.consumed.add(at)
        otherwise = self._otherwise(at, place, end, high)
        if otherwise is None:
            node.body = self.build(at + 1, end, depth + 1, loops)
            return node, end
        skip, stop = otherwise
        node.skip = self.steps[skip]
        self.consumed.add(skip)
        node.body = self.build(at + 1, skip, depth + 1, loops)
        node.orelse = self.build(place, stop, depth + 1, loops)
        return node, stop

    def _otherwise(self, at: int, place: int, end: int, high: int) -> tuple[int, int] | None:
        """Return the branch over the ``else_`` block that begins at ``place``, and its end, or None."""
        skip = end - 1
        last = self.steps[skip]
        if last.target is None or last.instruction is None or last.instruction.guard is not None:
            return None
        stop = self._label_start(self.where[last.target])
        if (
            not place < stop <= high
            or self.sources[place] != [at]
            or not self._closed(place, stop, entered=True)
        ):
            return None
        return skip, stop

    def _leaves_loop(self, at: int, loops: tuple[tuple[LoopNode, int, int], ...]) -> None:
        """Record the branch as a :class:`Jump` if it is ``break_`` or ``continue_`` of an enclosing loop."""
        target = self.steps[at].target
        if target is None:
            return
        place = self.where[target]
        for loop, head, leave in reversed(loops):
            kind = "break_" if place == leave else "continue_" if place == head and loop.guard is None else ""
            if kind:
                self.jumps[at] = Jump(kind, loop)
                loop.named = True
                self.consumed.add(at)
                return


def structured(steps: Sequence[StatementStep], flat: bool = False) -> Structure:
    """Return a function's statements as a tree of blocks; if ``flat``, only braces become blocks."""
    builder = _Builder(steps, flat)
    nodes = builder.build(0, len(steps), 0, ())
    named: set[str] = set()
    for at, step in enumerate(steps):
        if step.target is not None and at not in builder.consumed:
            named.add(step.target)
        elif isinstance(step.statement, TargetList):
            named.update(step.statement.targets)
    jumps = {steps[at].index: jump for at, jump in builder.jumps.items()}
    return Structure(nodes, jumps, frozenset(named))


def walk(nodes: Sequence[Node]) -> Iterator[StatementStep]:
    """Yield the statements of ``nodes``, also of nested blocks, that Python writes as lines."""
    for node in nodes:
        if isinstance(node, StatementStep):
            yield node
        else:
            yield from walk(node.body)
            if isinstance(node, IfNode):
                yield from walk(node.orelse)
