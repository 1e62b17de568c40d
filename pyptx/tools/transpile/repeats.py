"""Converts repeated groups of instructions to Python loops.

Owns :func:`grouped`. At least four consecutive repetitions become a loop. Each operand must be the same in
all repetitions, or change by the same step from one repetition to the next. Registers that differ must be at
equal distances in an array, or be used in only one repetition. The loop emits the same instructions in the
same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ...core.records import dataclass
from ...ir import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Negated,
    Pair,
    Register,
    Symbol,
    Vector,
)
from .arrays import Pool
from .body import StatementStep
from .registers import Info
from .structure import IfNode, Node, walk
from .text import Formula

__all__ = ["Repeat", "grouped"]

_LEAST = 4
_LONGEST = 64
#: Instructions that are never part of a loop, because the writer writes them in a special way.
_APART = frozenset({"bra", "brx", "call"})

#: A part of an instruction that may differ between repetitions: a register or a number.
Slot: TypeAlias = "Register | int"


@dataclass(eq=False)
class Repeat:
    """A loop ``for i in range(count):`` over the statements of the first repetition.

    Attributes:
        count: number of repetitions.
        first: the statements of the first repetition.
        strides: for each register or number (slot) of each statement, the difference between two repetitions:
            of the number, or of the register's index in an array; None for a slot that does not change.
        indices: indices in the function's body of all statements that the loop emits.
        own: registers of the first repetition that are used in only one repetition.
    """

    count: int
    first: list[StatementStep]
    strides: list[list[int | None]]
    indices: list[int]
    own: frozenset[str]

    def template(self, pool: Pool, infos: dict[str, Info], index: str) -> Iterator[StatementStep]:
        """Yield the statements of the loop body; what changes becomes a formula of ``index``."""
        for step, strides in zip(self.first, self.strides, strict=True):
            assert step.instruction is not None
            given = iter(strides)

            def change(slot: Slot, given: Iterator[int | None] = given) -> Slot:
                stride = next(given)
                if stride is None:
                    return slot
                if isinstance(slot, int):
                    return Formula(slot, stride, index)
                array, place = pool.places[slot.name]
                made = Formula(place, stride, index)
                name = f"{array.name}[{made}]"
                pool.places[name] = (array, made)
                infos[name] = Info(slot, array.kind, reads=2, writes=2)
                return replace(slot, name=name)

            yield replace(step, statement=_rebuilt(step.instruction, change))


# --- what differs in an instruction ---------------------------------------------------------------


def _visit(operand: Any, slot: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return an operand without its registers and numbers, and the operand after applying ``slot`` to each.

    The first result (the shape) is equal for two operands that differ at most in registers and numbers.
    """
    if isinstance(operand, Register):
        return ("r", operand.type, operand.vector), slot(operand)
    if isinstance(operand, Immediate):
        if isinstance(operand.value, int):
            value = slot(operand.value)
            assert isinstance(value, int)
            return "n", replace(operand, value=value)
        return str(operand), operand
    if isinstance(operand, Address):
        base_shape, base = _visit(operand.base, slot)
        offset = slot(operand.offset)
        shapes, extra = _visit_all(operand.extra, slot)
        coordinates_shape, coordinates = (None, None)
        if operand.coordinates is not None:
            coordinates_shape, coordinates = _visit(operand.coordinates, slot)
        made = replace(operand, base=base, offset=offset, extra=extra, coordinates=coordinates)
        return ("a", base_shape, shapes, coordinates_shape, operand.suffix), made
    if isinstance(operand, Vector):
        shapes, elements = _visit_all(operand.elements, slot)
        return ("v", shapes), Vector(elements)
    if isinstance(operand, Negated):
        return "!", Negated(slot(operand.register))
    if isinstance(operand, Pair):
        shapes, (first, second) = _visit_all((operand.first, operand.second), slot)
        return ("p", shapes), Pair(first, second)
    if isinstance(operand, Symbol):
        return ("s", operand.name), replace(operand, offset=slot(operand.offset))
    return (type(operand).__name__, str(operand)), operand


def _visit_all(
    operands: Sequence[Any], slot: Callable[[Any], Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    found = [_visit(operand, slot) for operand in operands]
    return tuple(shape for shape, _ in found), tuple(made for _, made in found)


def _read(instruction: Instruction) -> tuple[Any, list[Slot]]:
    """Split an instruction into its shape, and its slots: the list of its registers and numbers in order.

    Two instructions of equal shape differ at most in their slots.
    """
    slots: list[Slot] = []

    def note(slot: Slot) -> Slot:
        slots.append(slot)
        return slot

    shapes, _ = _visit_all(instruction.operands, note)
    guard = instruction.guard
    if guard is not None:
        slots.append(guard.register)
    return (instruction.opcode, instruction.modifiers, shapes, guard and guard.negated), slots


def _vectors(step: StatementStep) -> list[int]:
    """Return a number for each register or number of an instruction.

    The registers of one vector operand get the same number.
    """
    found: list[int] = []
    assert step.instruction is not None
    for at, operand in enumerate(step.instruction.operands):

        def note(slot: Slot, at: int = at, vector: bool = isinstance(operand, Vector)) -> Slot:
            found.append(at if vector else -len(found) - 1)
            return slot

        _visit(operand, note)
    return [*found, -len(found) - 1]


def _rebuilt(instruction: Instruction, change: Callable[[Slot], Slot]) -> Instruction:
    _, operands = _visit_all(instruction.operands, change)
    guard = instruction.guard
    if guard is not None:
        register = change(guard.register)
        assert isinstance(register, Register)
        guard = Guard(register, guard.negated)
    return replace(instruction, operands=operands, guard=guard)


# --- finding repetitions --------------------------------------------------------------------------


class _Finder:
    def __init__(self, pool: Pool, infos: dict[str, Info]) -> None:
        self.pool = pool
        self.infos = infos
        self.shapes: dict[Any, int] = {}

    def nodes(self, nodes: Sequence[Node]) -> list[Any]:
        """Return ``nodes`` with loops in the place of repetitions, also inside nested blocks."""
        found: list[Any] = []
        run: list[StatementStep] = []
        for node in nodes:
            if (
                isinstance(node, StatementStep)
                and node.instruction is not None
                and node.instruction.opcode not in _APART
            ):
                run.append(node)
                continue
            found += self.run(run)
            run = []
            if not isinstance(node, StatementStep):
                node.body = self.nodes(node.body)
                if isinstance(node, IfNode):
                    node.orelse = self.nodes(node.orelse)
            found.append(node)
        return found + self.run(run)

    def run(self, steps: list[StatementStep]) -> list[Any]:
        """Return consecutive statements without branches, with loops in the place of repetitions."""
        if len(steps) < _LEAST:
            return list(steps)
        read = [_read(step.instruction) for step in steps if step.instruction is not None]
        shapes = [self.shapes.setdefault(shape, len(self.shapes)) for shape, _ in read]
        slots = [found for _, found in read]
        found: list[Any] = []
        at = 0
        while at < len(steps):
            made = self.best(steps, shapes, slots, at)
            if made is None:
                found.append(steps[at])
                at += 1
            else:
                found.append(made)
                at += made.count * len(made.first)
        return found

    def best(
        self, steps: list[StatementStep], shapes: list[int], slots: list[list[Slot]], at: int
    ) -> Repeat | None:
        """Return the loop from statement ``at`` on that saves the most lines, or None if there is none."""
        chosen: tuple[int, int, int, _Plan] | None = None
        longest = min(_LONGEST, (len(steps) - at) // _LEAST)
        for period in range(1, longest + 1):
            if shapes[at] != shapes[at + period] or shapes[at] != shapes[at + 3 * period]:
                continue
            count = _repetitions(shapes, at, period)
            if count < _LEAST or (chosen is not None and (count - 1) * period <= chosen[0]):
                continue
            plan = self.plan(steps, slots, at, period, count)
            if plan is None:
                continue
            saved = (plan.count - 1) * period - 1 - plan.lines
            if saved > 0 and (chosen is None or saved > chosen[0]):
                chosen = (saved, period, plan.count, plan)
        if chosen is None:
            return None
        _, period, count, plan = chosen
        for registers in plan.arrays:
            self.pool.add(registers)
        strides = plan.strides(self.pool)
        indices = [step.index for step in steps[at : at + period * count]]
        return Repeat(count, steps[at : at + period], strides, indices, frozenset(plan.own))

    def plan(
        self, steps: list[StatementStep], slots: list[list[Slot]], at: int, period: int, count: int
    ) -> _Plan | None:
        """Plan a loop for as many of the ``count`` repetitions, from the first on, as possible.

        Returns None if fewer than four remain.
        """
        while count >= _LEAST:
            rows = [[slots[at + n * period + p] for n in range(count)] for p in range(period)]
            found = self._registers(steps, rows, at, period, _stepping(rows, count))
            if isinstance(found, _Plan):
                return found
            count = min(found, count - 1)
        return None

    def _registers(
        self, steps: list[StatementStep], rows: list[list[list[Slot]]], at: int, period: int, count: int
    ) -> _Plan | int:
        """Return a plan for the first ``count`` repetitions, or a smaller number of repetitions to try."""
        if count < _LEAST:
            return 0
        plan = _Plan(count, rows)
        bounds = [
            (steps[at + n * period].index, steps[at + (n + 1) * period - 1].index) for n in range(count)
        ]
        same: list[dict[str, str]] = [{} for _ in range(count)]
        moving: list[list[list[Register]]] = []
        for place, row in enumerate(rows):
            groups: dict[int, list[list[Register]]] = {}
            vectors = _vectors(steps[at + place])
            for slot in range(len(row[0])):
                if not isinstance(row[0][slot], Register):
                    continue
                registers: list[Register] = [r[slot] for r in row[:count]]  # type: ignore[misc]
                equal = next((n for n, r in enumerate(registers) if r != registers[0]), count)
                if equal == count:
                    continue
                if equal > 1:
                    return equal
                local = self._local(registers, bounds)
                if local:
                    for n, register in enumerate(registers[:local]):
                        if same[n].setdefault(registers[0].name, register.name) != register.name:
                            return n
                    if local < count:
                        return local
                    continue
                kept = self._movable(registers)
                if kept < count:
                    return kept
                groups.setdefault(vectors[slot], []).append(registers)
            moving += groups.values()
        plan.own = set(same[0])
        return plan if self._arrays(plan, moving) else 0

    def _local(self, registers: list[Register], bounds: list[tuple[int, int]]) -> int:
        """Return how many of ``registers``, one per repetition, are used in no other repetition.

        Counts from the first register to the first one that fails.
        """
        for n, (register, (low, high)) in enumerate(zip(registers, bounds, strict=True)):
            info = self.infos.get(register.name)
            if info is None or register.name in self.pool.places or info.header:
                return n
            if not (low <= info.first and info.last <= high and info.fresh):
                return n
        return len(registers)

    def _movable(self, registers: list[Register]) -> int:
        """Return how many of ``registers``, one per repetition, can be elements of one array.

        Counts from the first register to the first one that fails. The registers are at equal distances in an
        existing array, or in no array yet.
        """
        first = self.pool.places.get(registers[0].name)
        if first is None:
            seen: set[str] = set()
            for n, register in enumerate(registers):
                if register.name in self.pool.places or register.name in seen:
                    return n
                seen.add(register.name)
            return len(registers)
        stride = 0
        for n, register in enumerate(registers[1:], 1):
            place = self.pool.places.get(register.name)
            if n == 1 and place is not None:
                stride = place[1] - first[1]
            if place is None or place[0] is not first[0] or stride == 0 or place[1] != first[1] + n * stride:
                return n
        return len(registers)

    def _arrays(self, plan: _Plan, moving: list[list[list[Register]]]) -> bool:
        """Choose an array, existing or new, for each register that changes between repetitions.

        Returns False if that is not possible.
        """
        fresh: dict[str, int] = {}

        def even(registers: list[Register]) -> bool:
            places = [self.pool.places.get(r.name) for r in registers]
            if all(p is not None for p in places):
                arrays = {id(p[0]) for p in places if p is not None}
                numbers = [p[1] for p in places if p is not None]
                return len(arrays) == 1 and _even(numbers)
            numbers = [fresh.get(r.name, -1) for r in registers]
            # Each new array has its own range of 2**20 numbers.
            return -1 not in numbers and len({n >> 20 for n in numbers}) == 1 and _even(numbers)

        def make(registers: list[Register]) -> bool:
            if any(r.name in fresh for r in registers) or not self.pool.may_hold(registers):
                return False
            base = (len(plan.arrays) + 1) << 20
            fresh.update((r.name, base + n) for n, r in enumerate(registers))
            plan.arrays.append(registers)
            return True

        columns = [registers for group in moving for registers in group]
        for group in moving:
            width = len(group)
            if (
                width > 1
                and len({(r[0].type, r[0].vector) for r in group}) == 1
                and not any(map(even, group))
            ):
                make([group[w][n] for n in range(plan.count) for w in range(width)])
            for registers in group:
                if even(registers):
                    continue
                ahead = next((c for c in columns if c is not registers and c[1:] == registers[:-1]), None)
                if ahead is not None and make([ahead[0], *registers]):
                    continue
                behind = next((c for c in columns if c is not registers and c[:-1] == registers[1:]), None)
                if behind is not None and make([*registers, behind[-1]]):
                    continue
                if not make(registers):
                    return False
        return all(map(even, columns))


@dataclass(eq=False)
class _Plan:
    """A loop that can be written once the register arrays in ``arrays`` exist."""

    count: int
    rows: list[list[list[Slot]]]

    def __post_init__(self) -> None:
        self.arrays: list[list[Register]] = []
        self.own: set[str] = set()

    @property
    def lines(self) -> int:
        return len(self.arrays)

    def strides(self, pool: Pool) -> list[list[int | None]]:
        """Return, for each statement, how much each register index or number grows per repetition.

        None stands for a register or number that does not change.
        """
        return [[self._stride(a, b, pool) for a, b in zip(row[0], row[1], strict=True)] for row in self.rows]

    def _stride(self, first: Slot, second: Slot, pool: Pool) -> int | None:
        if isinstance(first, int) and isinstance(second, int):
            return second - first or None
        assert isinstance(first, Register) and isinstance(second, Register)
        if first == second or first.name not in pool.places:
            return None
        return pool.places[second.name][1] - pool.places[first.name][1]


def _even(numbers: Sequence[int]) -> bool:
    stride = numbers[1] - numbers[0]
    return stride != 0 and all(b - a == stride for a, b in itertools.pairwise(numbers))


def _repetitions(shapes: list[int], at: int, period: int) -> int:
    """Return how often the ``period`` statements from index ``at`` on repeat, compared by their shapes."""
    end = at + period
    while end < len(shapes) and shapes[end] == shapes[end - period]:
        end += 1
    return (end - at) // period


def _stepping(rows: list[list[list[Slot]]], count: int) -> int:
    """Return how many repetitions, from the first on, have numbers that grow by a constant step."""
    for row in rows:
        for slot, first in enumerate(row[0]):
            if not isinstance(first, int):
                continue
            second = row[1][slot]
            assert isinstance(second, int)
            for n in range(2, count):
                value = row[n][slot]
                assert isinstance(value, int)
                if value != first + n * (second - first):
                    count = n
                    break
    return count


def grouped(nodes: Sequence[Node], pool: Pool, infos: dict[str, Info]) -> list[Any]:
    """Return ``nodes`` with Python loops in the place of repeated statements.

    Adds the arrays that the loops index to ``pool``.
    """
    steps = list(walk(nodes))
    pool.survey(steps)
    pool.products(steps)
    pool.long_vectors(steps)
    found = _Finder(pool, infos).nodes(nodes)
    pool.written_vectors(steps)
    return found
