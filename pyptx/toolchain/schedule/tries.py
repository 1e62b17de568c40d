"""Which ``mbarrier.try_wait`` each first try in the machine code is.

Owns a correction: of a loop around a try, ptxas puts the first try in front of the loop, with the location of
the instruction before, and the loop itself far away.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

from ...core.source import SourceLocation
from ...ir import Function, Instruction, Module
from ..nvdisasm import MachineInstruction
from .graph import base_of, is_guarded, is_try
from .statements import StatementCode, statement_of

__all__ = ["locate_tries"]


def locate_tries(code: StatementCode, module: Module) -> StatementCode:
    """Return the machine code with each first try, and the branch behind it, at its own statement.

    Args:
        code: the machine code of ``module``, by function.
        module: the module.
    """
    tries = {function.name: _tries(function) for function in module.functions}
    if not any(tries.values()):
        return code
    return {name: _located(instructions, tries) for name, instructions in code.items()}


def _tries(function: Function) -> list[int]:
    """Return the numbers of the statements that try and have a branch behind them."""
    body = function.body
    found = []
    for number, (statement, following) in enumerate(pairwise(body)):
        if not isinstance(statement, Instruction) or not isinstance(following, Instruction):
            continue
        if "try_wait" in statement.modifiers and following.opcode == "bra":
            found.append(number)
    return found


def _located(instructions: list[MachineInstruction], tries: dict[str, list[int]]) -> list[MachineInstruction]:
    found: list[MachineInstruction] = []
    branch: SourceLocation | None = None
    for instruction in instructions:
        where = statement_of(instruction)
        if is_try(instruction):
            branch = None
            own = tries.get(where.function, []) if where is not None else []
            if where is not None and where.number not in own:
                place = bisect_right(own, where.number)
                if place < len(own):
                    instruction = replace(instruction, location=_location(where.function, own[place]))
                    branch = _location(where.function, own[place] + 1)
        elif base_of(instruction.opcode) == "BRA" and is_guarded(instruction) and branch is not None:
            instruction = replace(instruction, location=branch)
            branch = None
        found.append(instruction)
    return found


def _location(function: str, number: int) -> SourceLocation:
    return SourceLocation(function, number + 1)
