"""Machine code in which each instruction has the PTX statement that it came from.

Owns the text that makes this possible: the kernel with a ``.loc`` of its own for each statement, whose file
is the function and whose line the statement's number. ``.loc`` does not change machine code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ...core.source import SourceLocation
from ...ir import Function, Instruction, Module, print_module
from ...ir.lines import without_lines
from ..cache import CubinSource, user_cache
from ..find import find_ptxas
from ..nvdisasm import MachineInstruction, machine_instructions
from ..ptxas import assemble

__all__ = ["Statement", "StatementCode", "code_of", "statement_cubin", "statement_of"]


class Statement(NamedTuple):
    """A statement of a PTX function, by its number in ``Function.body``."""

    function: str
    number: int


#: The machine instructions of each function of a cubin.
StatementCode = dict[str, list[MachineInstruction]]


def statement_of(instruction: MachineInstruction) -> Statement | None:
    """Return the statement that a machine instruction of :func:`code_of` came from, if ptxas says."""
    where = instruction.location
    return None if where is None else Statement(where.file, where.line - 1)


def _numbered(module: Module) -> Module:
    """Return the module with the number of each statement as its source."""

    def numbered(function: Function) -> Function:
        return replace(
            function,
            body=tuple(
                replace(statement, source=SourceLocation(function.name, number + 1))
                if isinstance(statement, Instruction)
                else statement
                for number, statement in enumerate(function.body)
            ),
        )

    return without_lines(replace(module, functions=tuple(map(numbered, module.functions))))


def statement_cubin(module: Module, target: str, entry: str) -> bytes:
    """Return the cubin of a module for a target whose instructions know their PTX statements.

    It comes from the user's cache, if ptxas made it before, and is kept there otherwise.

    Args:
        module: the module, with ``.loc`` or without.
        target: architecture of the machine code, such as ``sm_90a``.
        entry: name of a kernel in it.

    Raises:
        AssembleError: ptxas refuses the text for this target.
        ToolNotFoundError: there is no ptxas.
    """
    printed = print_module(_numbered(module), lines=True)
    tool = find_ptxas()
    cache = user_cache()
    source = CubinSource(entry, printed.text, target, ("statements",))
    kept = cache.find(source, tool.label) if cache is not None else None
    if kept is None:
        kept = assemble(printed, target, ptxas=tool).kept
        if cache is not None:
            cache.store(source, kept)
    return kept.image


def code_of(cubin: bytes) -> StatementCode:
    """Return the machine code of a cubin of :func:`statement_cubin`, by function.

    Raises:
        AssembleError: nvdisasm refuses the cubin.
        ToolNotFoundError: there is no nvdisasm.
    """
    found: StatementCode = {}
    for instruction in machine_instructions(cubin):
        found.setdefault(instruction.function, []).append(instruction)
    return found
