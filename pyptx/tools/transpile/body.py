"""Prepares the statements of a function for the writer, and leaves out statements that record nothing.

Owns :class:`StatementStep`, a statement in canonical form with the registers that it reads and writes, and
:func:`steps`. That function leaves out ``.loc``, labels that no branch names, and braces that contain no
variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from ...core.errors import UnsupportedError
from ...core.records import dataclass
from ...flow import accesses
from ...ir import (
    BranchTarget,
    Function,
    Instruction,
    LabelStatement,
    Loc,
    Raw,
    Register,
    ScopeMark,
    Statement,
    TargetList,
    Variable,
)
from ...isa import Binding, bind_instruction

__all__ = ["StatementStep", "canonical", "steps", "targets_of"]


@dataclass(eq=False, slots=True)
class StatementStep:
    """A PTX statement for which the Python program has a line.

    Attributes:
        index: index in the function's body.
        statement: the statement; an instruction is in canonical form, with modifiers in the table's order and
            constants as the instruction form takes them.
        binding: the binding of an instruction.
        reads, writes: registers, guard included, in the order of the operands.
        locs: the ``.loc`` directives before the statement that change the line.
    """

    index: int
    statement: Statement
    binding: Binding | None = None
    reads: list[Register] = field(default_factory=list)
    writes: list[Register] = field(default_factory=list)
    loc: Loc | None = None

    @property
    def instruction(self) -> Instruction | None:
        return self.statement if isinstance(self.statement, Instruction) else None

    @property
    def is_label(self) -> bool:
        return isinstance(self.statement, LabelStatement)

    @property
    def target(self) -> str | None:
        """The label that a ``bra`` names; None for any other statement."""
        found = self.instruction
        if found is not None and found.opcode == "bra" and isinstance(found.operands[0], BranchTarget):
            return found.operands[0].name
        return None


def canonical(instruction: Instruction) -> tuple[Instruction, Binding]:
    """Return the instruction as pyptx would emit it, and its binding."""
    binding = bind_instruction(instruction)
    match = binding.match
    spelled = replace(
        instruction, opcode=match.form.opcode, modifiers=match.spelling, operands=binding.fitted
    )
    return spelled, binding


def targets_of(body: tuple[Statement, ...]) -> set[str]:
    """Return the labels of ``body`` that a branch names."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, Instruction):
            found.update(o.name for o in statement.operands if isinstance(o, BranchTarget))
        elif isinstance(statement, TargetList) and statement.kind == "branchtargets":
            found.update(statement.targets)
    return found


def _idle_marks(body: tuple[Statement, ...]) -> set[int]:
    """Return the indices of braces that enclose no variable declaration of their own."""
    idle: set[int] = set()
    open_at: list[int] = []
    holds: list[bool] = []
    for index, statement in enumerate(body):
        if isinstance(statement, Variable) and holds:
            holds[-1] = True
        elif isinstance(statement, ScopeMark):
            if statement.opens:
                open_at.append(index)
                holds.append(False)
            else:
                start = open_at.pop()
                if not holds.pop():
                    idle.update((start, index))
    return idle


def steps(function: Function) -> Iterator[StatementStep]:
    """Yield the steps of ``function``.

    Raises:
        InstructionError, OperandError: the table does not have an instruction; the error names its line.
        UnsupportedError: the function has raw text, which the parser did not read.
    """
    wanted = targets_of(function.body)
    idle = _idle_marks(function.body)
    loc: Loc | None = None
    for index, statement in enumerate(function.body):
        if isinstance(statement, Loc):
            loc = statement
        elif isinstance(statement, Instruction):
            spelled, binding = canonical(statement)
            reads, writes = accesses(spelled, binding)
            yield StatementStep(index, spelled, binding, reads, writes, loc)
            loc = None
        elif isinstance(statement, LabelStatement):
            if statement.name in wanted:
                yield StatementStep(index, statement)
        elif isinstance(statement, Raw):
            raise UnsupportedError(
                f"raw text cannot be transpiled: {statement.text.strip()!r}", location=statement.source
            )
        elif index not in idle:
            yield StatementStep(index, statement)
