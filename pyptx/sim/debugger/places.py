"""Where threads stand: an instruction of the IR, its author's line, and its line in the PTX text."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...ir import Instruction, LabelStatement, Module, print_module
from ..code.function import CodeBlock
from ..threads.warp import Split

__all__ = ["Listing", "Place"]


@dataclass(frozen=True, eq=False)
class Place:
    """A split that is about to execute an instruction.

    Attributes:
        split: the lanes.
        block: the block of code.
        position: number of the operation in the block; the number of operations means the final branch.
    """

    split: Split
    block: CodeBlock
    position: int

    @property
    def instruction(self) -> Instruction:
        """The instruction."""
        if self.position < len(self.block.ops):
            return self.block.ops[self.position][0]
        assert self.block.branch is not None
        return self.block.branch

    @property
    def source(self) -> SourceLocation | None:
        """The author's line."""
        return self.instruction.source

    @property
    def thread(self) -> tuple[int, int]:
        """What tells this split from others between two stops: its warp and its lanes."""
        return id(self.split.warp), self.split.mask


class Listing:
    """The printed text of a module, and the lines of its statements.

    Args:
        module: the module that runs.
    """

    def __init__(self, module: Module) -> None:
        printed = print_module(module)
        self.text = printed.text.splitlines()
        #: The line of each statement. Statements are kept alive by the module.
        self._lines = {id(statement): line for line, statement in printed.lines.items()}
        #: Labels of each function: name to the line of the text.
        self.labels: dict[str, int] = {
            statement.name: line
            for line, statement in printed.lines.items()
            if isinstance(statement, LabelStatement)
        }

    def line(self, instruction: Instruction) -> int | None:
        """Return the number of the instruction's line in the text, or None for one that is not printed."""
        return self._lines.get(id(instruction))

    def around(self, line: int, count: int = 4) -> Iterator[str]:
        """Yield the lines of the text around ``line``, which is marked."""
        for number in range(max(1, line - count), min(len(self.text), line + count) + 1):
            mark = "->" if number == line else "  "
            yield f"{mark} {number:5d}  {self.text[number - 1]}"


def in_file(source: SourceLocation, name: str) -> bool:
    """True if a line belongs to the file that a user calls ``name``: its path, or the end of its path."""
    return source.file == name or source.file.endswith(os.sep + name) or os.path.basename(source.file) == name
