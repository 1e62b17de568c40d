"""Loops that do nothing but ask for the phase of an mbarrier again.

A ``try_wait`` may answer "not yet" at any time. In a pure retry this has no effect: the thread asks again,
and no instruction sees how often. Everything else that reads the answer lets hardware choose.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...flow import Block, Graph, accesses
from ...flow.graph import EXIT
from ...ir import Instruction
from ..code.function import FunctionCode
from ..code.semantic import semantic_of

__all__ = ["PureRetries"]


class PureRetries:
    """Finds the pure retries of one function."""

    def __init__(self, code: FunctionCode, graph: Graph) -> None:
        self._code, self._graph = code, graph
        self._places = {
            index: (block, position)
            for block in graph.blocks
            for position, (index, _) in enumerate(block.instructions)
        }

    def pure(self, index: int, instruction: Instruction) -> bool:
        """True if the answer "not yet" of the wait at statement ``index`` only leads back to the wait."""
        if index not in self._places or instruction.guard is not None:
            return False
        _, writes = accesses(instruction)
        answers = {register.name for register in writes}
        if len(answers) != 1:
            return False
        answer = answers.pop()
        again = self._way_back(index, answer)
        return again is not None and self._repeats(again, index, answer)

    def _way_back(self, index: int, answer: str) -> list[tuple[int, Instruction]] | None:
        """Return the instructions, branches left out, on the way back to the wait if it is not over.

        None if another instruction decides where the way leads, or if it does not lead back.
        """
        block, position = self._places[index]
        position += 1
        passed: list[tuple[int, Instruction]] = []
        for _ in range(2 * len(self._graph.blocks) + 2):
            following: int | None = block.fallthrough
            for number, instruction in block.instructions[position:]:
                if number == index:
                    return passed
                if instruction.opcode == "bra":
                    guard = instruction.guard
                    if guard is not None and guard.register.name != answer:
                        return None
                    # The answer is false here.
                    if guard is None or guard.negated:
                        following = block.taken
                    continue
                if not self._plain(instruction):
                    return None
                passed.append((number, instruction))
            if following is None or following == EXIT:
                return None
            block, position = self._graph.blocks[following], 0
        return None

    def _plain(self, instruction: Instruction) -> bool:
        """True if the instruction only computes registers of the thread."""
        meaning = semantic_of(self._code.program.image.bind(instruction).form_id)
        return meaning is not None and meaning.per == "value" and instruction.guard is None

    def _repeats(self, passed: list[tuple[int, Instruction]], index: int, answer: str) -> bool:
        """True if each pass computes the same registers, and only the loop reads them."""
        where: Block = self._places[index][0]
        written: set[str] = set()
        rest = {r.name for _, instruction in passed for r in accesses(instruction)[1]}
        for number, instruction in passed:
            reads, writes = accesses(instruction)
            names = {register.name for register in reads}
            # Registers that this pass has not computed yet would come from the pass before.
            if names & (rest - written) or answer in names or not self._leads(where, number, index):
                return False
            written |= {register.name for register in writes}
        if not written:
            return True
        inside = {number for number, _ in passed} | {index}
        return not any(
            register.name in written
            for number, instruction in self._statements()
            if number not in inside
            for register in accesses(instruction)[0]
        )

    @staticmethod
    def _leads(block: Block, number: int, index: int) -> bool:
        """True if a statement stands in the block of the wait, before the wait: it comes before each try."""
        numbers = [each for each, _ in block.instructions]
        return number in numbers and numbers.index(number) < numbers.index(index)

    def _statements(self) -> Iterator[tuple[int, Instruction]]:
        for block in self._graph.blocks:
            yield from block.instructions
