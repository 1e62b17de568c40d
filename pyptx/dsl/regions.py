"""Regions of structured control flow, and the check that a register made in one has a value where it is read.

Owns :class:`Region` (the kernel, a loop, a branch of an ``if_``) and :func:`check_defined`.  A register that
is made in a region and read after the region must have a value there on every path.  It has a value in three
cases: the instruction that makes it dominates the end of the region, an instruction after the region writes
it, or the read is in an ``if_`` on the same predicate.  Python does not reveal the mistake: ``x = x + 1`` in
an ``if_`` makes a new register and binds ``x`` to it, whether the threads execute the block or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..core.errors import TraceError
from ..core.source import SourceLocation
from ..core.tuples import NamedTuple
from ..core.types import ScalarType
from ..ir import Guard, Instruction, Raw, registers_of

__all__ = ["Made", "Region", "check_defined", "dominates", "mentions"]

#: The statement of a recording at an index, as an instruction or raw text; None for any other.
Reader = Callable[[int], "Instruction | Raw | None"]


class Region:
    """A part of the recording that threads execute or skip as a whole: the kernel, a loop, an ``if_`` branch.

    Attributes:
        kind: name of the DSL's block, such as ``if_``.
        source: the line of the block.
        parent: the region around it; None for the kernel.
        begin: number of statements when it began.
        end: number of statements when it ended.
        open: True while it is being recorded.
        certain: a register that was made when the recording had at most this many statements has a value at
            the end of the region. It is the index of the first branch to the end; -1 for an ``if_``.
        condition: for a branch of an ``if_``, the guard under which threads run it.
    """

    __slots__ = ("begin", "certain", "condition", "end", "kind", "open", "parent", "seen", "source")

    def __init__(
        self, kind: str, source: SourceLocation | None, parent: Region | None = None, begin: int = 0
    ) -> None:
        self.kind = kind
        self.source = source
        self.parent = parent
        self.begin = begin
        self.end = begin
        self.open = True
        self.certain = sys.maxsize
        self.condition: Guard | None = None
        #: No statement from ``begin`` up to this one writes the predicate of the condition.
        self.seen = begin

    def may_end(self, statements: int) -> None:
        """Note that statement number ``statements``, recorded now, branches to the end of the region."""
        self.certain = min(self.certain, statements)

    def close(self, statements: int) -> None:
        self.open = False
        self.end = statements


class Made(NamedTuple):
    """A register, and where the author made it: in ``region``, when ``position`` statements were recorded."""

    name: str
    type: ScalarType
    region: Region
    position: int
    source: SourceLocation | None


def dominates(region: Region | None, position: int) -> bool:
    """True if every path to the current statement writes a register made at ``position`` in ``region``."""
    while region is not None and not region.open:
        if position > region.certain:
            return False
        region = region.parent
    return True


def mentions(statement: Instruction | Raw, name: str) -> bool:
    """True if the register ``name`` occurs in a statement; raw text is searched for its name."""
    if isinstance(statement, Raw):
        return f"%{name}" in statement.text
    if statement.guard is not None and statement.guard.register.name == name:
        return True
    return any(register.name == name for operand in statement.operands for register in registers_of(operand))


def _writes(statement: Instruction | Raw | None, name: str) -> bool:
    if statement is None or not mentions(statement, name):
        return False
    if isinstance(statement, Raw):
        return True
    from ..flow.registers import accesses

    return any(register.name == name for register in accesses(statement)[1])


def check_defined(made: Made, regions: Sequence[Region], read: Reader, count: int) -> None:
    """Raise :class:`TraceError` if a register that is read now may have no value.

    Args:
        made: the register.
        regions: the open regions, outermost first.
        read: returns a statement of the recording by index.
        count: number of statements of the recording.
    """
    fault: Region | None = None
    outermost: Region | None = None
    region: Region | None = made.region
    while region is not None and not region.open:
        if made.position > region.certain:
            outermost = region
            if not _same_condition(region, regions, read, count):
                fault = fault or region
        region = region.parent
    if fault is None or outermost is None:
        return
    if any(_writes(read(index), made.name) for index in range(outermost.end, count)):
        return
    raise TraceError(
        f"%{made.name} is read here, and may have no value: it was made {_at(made.source)} inside the "
        f"{fault.kind} {_at(fault.source)}, {_WHY.get(fault.kind, _LEFT)}",
        hint=f"make the register before the block and write it inside: x = reg.scalar({made.type}, init=...) "
        "before, x.set(...) or x += ... inside; x = x + 1 would make a new register",
    )


_LEFT = "which may end before that line"
_WHY = {
    "if_": "which threads may pass by",
    "else_": "which threads may pass by",
    "for_": "which may run no pass, or end before that line",
    "while_": "which may run no pass, or end before that line",
}


def _at(source: SourceLocation | None) -> str:
    return f"at {source.short}" if source is not None else "in the prologue"


def _same_condition(region: Region, regions: Sequence[Region], read: Reader, count: int) -> bool:
    """True if an open region has the condition of ``region``, and no statement since wrote its predicate."""
    condition = region.condition
    if condition is None or all(around.condition != condition for around in regions):
        return False
    name = condition.register.name
    for index in range(min(region.seen, count), count):
        if _writes(read(index), name):
            return False
    region.seen = count
    return True
