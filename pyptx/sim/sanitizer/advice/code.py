"""What findings read from a kernel's code: the instructions of a line, and where all threads pass.

Only the texts and the edits of findings come from here, and only once there is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from ....core.errors import TraceError
from ....core.source import SourceLocation
from ....flow.graph import EXIT, Graph, control_flow
from ....ir import Function, Instruction, Register

__all__ = ["Code"]


class Code:
    """The functions that an entry can reach; the first one is the entry."""

    def __init__(self, functions: list[Function]) -> None:
        self._functions = functions

    def instructions(self, location: SourceLocation | None) -> Iterator[Instruction]:
        """Yield the instructions of a line."""
        for function in self._functions if location is not None else ():
            for instruction in function.instructions():
                if instruction.source == location:
                    yield instruction

    def find(
        self, location: SourceLocation | None, opcode: str, wanted: Callable[[Instruction], bool]
    ) -> Instruction | None:
        """Return the instruction of a line with this opcode (any if empty); None if there are several."""
        found = [i for i in self.instructions(location) if opcode in ("", i.opcode) and wanted(i)]
        return found[0] if len(found) == 1 else None

    def tensor_fence(
        self, earlier: SourceLocation | None, later: SourceLocation | None
    ) -> SourceLocation | None:
        """Return the line of a ``tcgen05.fence::before_thread_sync`` between two lines of one text."""
        if earlier is None or later is None or earlier.file != later.file:
            return None
        for function in self._functions:
            for instruction in function.instructions():
                at = instruction.source
                if (
                    at is not None
                    and "fence::before_thread_sync" in instruction.modifiers
                    and at.file == earlier.file
                    and earlier.line < at.line < later.line
                ):
                    return at
        return None

    @cached_property
    def _graph(self) -> Graph | None:
        try:
            return control_flow(self._functions[0])
        except TraceError:
            return None

    def _block(self, location: SourceLocation | None) -> int | None:
        """Return the entry's block that has a line's first instruction."""
        for block in self._graph.blocks if self._graph is not None and location is not None else ():
            if any(instruction.source == location for _, instruction in block.instructions):
                return block.index
        return None

    def _passed(self, block: int) -> list[int]:
        """Return a block and those that all threads pass which pass this one, in order."""
        assert self._graph is not None
        passed = [block]
        while self._graph.ipdom[passed[-1]] != EXIT:
            passed.append(self._graph.ipdom[passed[-1]])
        return passed

    def all_reach(self, location: SourceLocation | None) -> bool:
        """True if every thread of the entry reaches a line, as far as the branches say."""
        block = self._block(location)
        return block is not None and block in self._passed(0)

    def all_pass(self, location: SourceLocation | None) -> bool:
        """True if every thread of the entry executes a line, as far as the branches and the guards say."""
        return self.all_reach(location) and all(i.guard is None for i in self.instructions(location))

    def parity(self, wait: SourceLocation | None) -> Register | None:
        """Return the register with the parity for which a line waits; None if it is a number."""
        for instruction in self.instructions(wait):
            if "parity" in instruction.modifiers:
                _, _, parity, *_ = instruction.operands
                return parity if isinstance(parity, Register) else None
        return None

    def meeting(self, earlier: SourceLocation | None, later: SourceLocation | None) -> SourceLocation | None:
        """Return the last line that all threads reach which executed the earlier line, before the later line.

        A barrier of these threads goes in before the instructions of this line. None if there is none.
        """
        first, last = self._block(earlier), self._block(later)
        if first is None or last is None or self._graph is None:
            return None
        end = self._first_statement(last, later)
        for block in reversed(self._passed(first)):
            if block == last:
                return later if self._first_statement(first, earlier) < end else None
            instructions = self._graph.blocks[block].instructions
            if instructions and instructions[-1][0] < end and block >= first:
                leaves = instructions[-1][1].opcode in ("bra", "brx")
                return instructions[-1][1].source if leaves else None
        return None

    def _first_statement(self, block: int, location: SourceLocation | None) -> int:
        assert self._graph is not None
        instructions = self._graph.blocks[block].instructions
        return next(number for number, instruction in instructions if instruction.source == location)
