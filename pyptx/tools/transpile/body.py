"""A function's statements made ready to be written down: what says nothing to a thread is set aside.

Owns :class:`StatementStep`, a statement in canonical form with what it reads and writes, and :func:`steps`,
which leaves out what records no instruction and changes none: ``.loc``, labels that nothing jumps to, and
braces that bound no variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...core.errors import UnsupportedError
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
    """A statement that the program records.

    Attributes:
        index: its place in the function's body.
        statement: an instruction is in canonical form: modifiers in the table's order, constants as the form
            takes them.
        binding: of an instruction.
        reads, writes: registers, guard included, in the order of the operands.
        locs: the ``.loc`` before it that changes the line.
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
        """The label of a ``bra``."""
        found = self.instruction
        if found is not None and found.opcode == "bra" and isinstance(found.operands[0], BranchTarget):
            return found.operands[0].name
        return None


def canonical(instruction: Instruction) -> tuple[Instruction, Binding]:
    """The instruction as a recording of it has it, and its binding."""
    binding = bind_instruction(instruction)
    match = binding.match
    spelled = replace(
        instruction, opcode=match.form.opcode, modifiers=match.spelling, operands=binding.fitted
    )
    return spelled, binding


def targets_of(body: tuple[Statement, ...]) -> set[str]:
    """Labels that something jumps to."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, Instruction):
            found.update(o.name for o in statement.operands if isinstance(o, BranchTarget))
        elif isinstance(statement, TargetList) and statement.kind == "branchtargets":
            found.update(statement.targets)
    return found


def _idle_marks(body: tuple[Statement, ...]) -> set[int]:
    """Braces without a variable directly between them."""
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
    """The steps of ``function``.

    Raises:
        InstructionError, OperandError: an instruction that the table does not have, at its line.
        UnsupportedError: raw text, which was never read.
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
