"""Loops that do nothing but ask for the phase of an mbarrier again, and questions right before such a loop.

A ``try_wait`` may answer "not yet" at any time. In a pure retry this has no effect: the thread asks again,
and no instruction sees how often. The same holds for a question whose answer "not yet" leads to a pure retry
for the same phase (a *peek*). Everything else that reads the answer lets hardware choose.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...core.records import dataclass
from ...flow import Block, Graph, accesses, read_from
from ...flow.graph import EXIT
from ...ir import Immediate, Instruction, Register, leaves, registers_of
from ..code.function import FunctionCode
from ..code.semantic import semantic_of
from ..code.translate import value_function

__all__ = ["PureRetries"]

#: Instructions that may compute a predicate from an answer.
_COPYING = frozenset({"mov", "selp", "setp", "and", "or", "xor", "not", "cvt"})


@dataclass(eq=False, slots=True)
class _Way:
    """What a thread executes behind a wait, given the answer.

    Attributes:
        first: the statements before the first branch that the answer decides.
        passed: all statements, branches left out, before the last one.
        end: the statement at which the way ends: another wait, an effect, or a branch that something else
            decides; -1 if there is none.
    """

    first: list[tuple[int, Instruction]] = field(default_factory=list)
    passed: list[tuple[int, Instruction]] = field(default_factory=list)
    end: int = -1


class PureRetries:
    """Finds the pure retries of one function."""

    def __init__(self, code: FunctionCode, graph: Graph) -> None:
        self._code, self._graph = code, graph
        self._places = {
            index: (block, position)
            for block in graph.blocks
            for position, (index, _) in enumerate(block.instructions)
        }
        self._ops = {
            op.statement: op for block in code.program.blocks if block.code is code for _, op in block.ops
        }

    def pure(self, index: int, instruction: Instruction) -> bool:
        """True if the answer "not yet" of the wait at statement ``index`` only leads to another question."""
        answer = self._answer(index, instruction)
        if answer is None:
            return False
        way = self._way(index, answer, over=False)
        if way.end == index:
            return self._repeats(way, index, answer)
        return self._peeks(way, index, instruction, answer)

    def _answer(self, index: int, instruction: Instruction) -> str | None:
        """Return the register with the answer of a wait that all lanes execute."""
        if index not in self._places or instruction.guard is not None:
            return None
        names = {register.name for register in accesses(instruction)[1]}
        return names.pop() if len(names) == 1 else None

    # --- ways -----------------------------------------------------------------------------------

    def _way(self, index: int, answer: str, *, over: bool) -> _Way:
        """Follow the way behind a wait; ``over`` is its answer."""
        way, decided = _Way(), False
        registers: list[Any] = [0] * len(self._code.places)
        registers[self._code.places[answer].index] = over
        known = {answer}
        block, position = self._places[index]
        position += 1
        for _ in range(2 * len(self._graph.blocks) + 2):
            following: int | None = block.fallthrough
            for number, instruction in block.instructions[position:]:
                if instruction.opcode == "bra":
                    guard = instruction.guard
                    if guard is not None and block.taken != block.fallthrough:
                        if guard.register.name not in known:
                            way.end = number
                            return way
                        decided = True
                    holds = guard is None or registers[self._index(guard.register)] is not guard.negated
                    following = block.taken if holds else block.fallthrough
                    continue
                if number == index or not self._plain(instruction):
                    way.end = number
                    return way
                self._compute(number, instruction, registers, known)
                way.passed.append((number, instruction))
                if not decided:
                    way.first.append((number, instruction))
            if following is None or following == EXIT:
                return way
            block, position = self._graph.blocks[following], 0
        return way

    def _index(self, register: Register) -> int:
        return self._code.places[register.name].index

    def _compute(self, number: int, instruction: Instruction, registers: list[Any], known: set[str]) -> None:
        """Compute what an instruction writes, if the answer and constants decide it."""
        reads, writes = accesses(instruction)
        names = {register.name for register in writes}
        plain = all(
            isinstance(each, Register | Immediate) for one in instruction.operands for each in leaves(one)
        )
        if plain and instruction.opcode in _COPYING and all(register.name in known for register in reads):
            value_function(self._code, [self._ops[number]])(None, registers)
            known |= names
        else:
            known -= names

    def _plain(self, instruction: Instruction) -> bool:
        """True if the instruction only computes registers of the thread."""
        meaning = semantic_of(self._code.program.image.bind(instruction).form_id)
        return meaning is not None and meaning.per == "value" and instruction.guard is None

    # --- retries --------------------------------------------------------------------------------

    def _repeats(self, way: _Way, index: int, answer: str) -> bool:
        """True if each pass computes the same registers, and only the loop reads what a retry changes."""
        where: Block = self._places[index][0]
        copies = {number for number, _ in way.first}
        written = {answer}
        rest = {r.name for _, instruction in way.passed for r in accesses(instruction)[1]}
        made: set[str] = set()
        for number, instruction in way.passed:
            reads, writes = accesses(instruction)
            names = {register.name for register in reads}
            # Registers that this pass has not computed yet would come from the pass before.
            if names & (rest - written):
                return False
            copied = number in copies
            # The others come before each try: nothing of the answer may reach them.
            if not copied and (names & (made | {answer}) or not self._leads(where, number, index)):
                return False
            written |= {register.name for register in writes}
            made |= {register.name for register in writes} if copied else set()
        own = rest - made
        inside = {number for number, _ in way.passed} | {index}
        return not any(
            register.name in own
            for block in self._graph.blocks
            for number, instruction in block.instructions
            if number not in inside
            for register in accesses(instruction)[0]
        )

    @staticmethod
    def _leads(block: Block, number: int, index: int) -> bool:
        """True if a statement stands in the block of the wait, before the wait: it comes before each try."""
        numbers = [each for each, _ in block.instructions]
        return number in numbers and numbers.index(number) < numbers.index(index)

    # --- peeks ----------------------------------------------------------------------------------

    def _peeks(self, way: _Way, index: int, instruction: Instruction, answer: str) -> bool:
        """True if the answer "not yet" leads to a pure retry for the same phase, and then to one place."""
        if way.end < 0 or way.end == index:
            return False
        again = self._code.function.body[way.end]
        assert isinstance(again, Instruction)
        other = self._answer(way.end, again)
        if other is None or not self._alike(index, way) or not self._retries(way.end, again, other):
            return False
        direct, late = self._way(index, answer, over=True), self._way(way.end, other, over=True)
        one = [*(number for number, _ in direct.passed), direct.end]
        two = [*(number for number, _ in late.passed), late.end]
        if direct.end < 0 or direct.end != late.end:
            return False
        same = 0
        while same < min(len(one), len(two)) and one[-1 - same] == two[-1 - same]:
            same += 1
        apart = [*direct.passed[: len(one) - same], *way.passed, *late.passed[: len(two) - same]]
        names = {answer, other} | {r.name for _, each in apart for r in accesses(each)[1]}
        join, position = self._places[one[-same]]
        return not read_from(self._graph, join.index, frozenset(names), position=position)

    def _retries(self, index: int, instruction: Instruction, answer: str) -> bool:
        """True if a statement is a wait that is retried until it is over."""
        meaning = semantic_of(self._code.program.image.bind(instruction).form_id)
        if meaning is None or meaning.varies != "answer":
            return False
        way = self._way(index, answer, over=False)
        return way.end == index and self._repeats(way, index, answer)

    def _alike(self, index: int, way: _Way) -> bool:
        """True if two waits, with only ``way`` between them, ask for the same phase in the same way."""
        one, two = self._ops[index], self._ops.get(way.end)
        if two is None or (one.order, one.scope, one.space) != (two.order, two.scope, two.space):
            return False
        changed = {r.name for _, instruction in way.passed for r in accesses(instruction)[1]}
        first, second = one.binding.operands, two.binding.operands
        asked = [name for name in ("addr", "phaseParity", "state") if name in first]
        if len(asked) != 2 or any(first[name] != second.get(name) for name in asked):
            return False
        return not any(r.name in changed for name in asked for r in registers_of(first[name]))
