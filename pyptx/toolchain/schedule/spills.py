"""Registers that ptxas keeps in local memory, since a thread has no more: stores, and loads that refill them.

Of what accesses local memory, spills are what no PTX instruction asks for. They have their places in the
stack, at constants from its begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...ir import Instruction, Module
from ...timing.access_order import Spill
from ..nvdisasm import MachineInstruction
from .graph import base_of
from .merged import width_of
from .statements import Statement, StatementCode, statement_of

__all__ = ["Refills", "is_local", "is_spill", "keeping_locals", "local_accesses", "spills_of"]

#: An operand in the stack, and how many bytes behind its begin it lies.
_PLACE = re.compile(r"\[R1(?:\+0x(?P<bytes>[0-9a-f]+))?\]")
_WORD = 4


def is_local(instruction: MachineInstruction) -> bool:
    """True if it accesses local memory."""
    return base_of(instruction.opcode) in ("LDL", "STL")


def local_accesses(module: Module) -> frozenset[Statement]:
    """Return the statements of a module that access local memory."""
    return frozenset(
        Statement(function.name, number)
        for function in module.functions
        for number, each in enumerate(function.body)
        if isinstance(each, Instruction) and "local" in each.modifiers
    )


def keeping_locals(code: StatementCode, module: Module) -> frozenset[str]:
    """Return the functions of a module whose machine code accesses local variables in memory."""
    local = local_accesses(module)
    found = {statement_of(each) for section in code.values() for each in section if is_local(each)}
    return frozenset(each.function for each in found if each in local and each is not None)


def is_spill(instruction: MachineInstruction, local: frozenset[Statement]) -> bool:
    """True if it keeps a register in local memory, or brings it back.

    Args:
        instruction: the machine instruction.
        local: the statements that access local memory.
    """
    place = is_local(instruction) and _PLACE.search(instruction.text)
    return bool(place) and statement_of(instruction) not in local


def spills_of(instructions: Iterable[tuple[MachineInstruction, float]]) -> list[Spill]:
    """Return what a statement's spills are.

    Args:
        instructions: those that the statement pays for, in the order of the code, and what part of each.
    """
    found = list(instructions)
    spills = []
    for number, (each, part) in enumerate(found):
        every = max(1, round(1 / part)) if part else 1
        stores = base_of(each.opcode) == "STL"
        spills.append(Spill(_words(each), stores, every, number * every // len(found)))
    return spills


def _words(instruction: MachineInstruction) -> range:
    """Return the words of the stack that a spill accesses."""
    place = _PLACE.search(instruction.text)
    assert place is not None, instruction.text
    first = int(place["bytes"] or "0", 16) // _WORD
    return range(first, first + max(1, width_of(instruction.opcode) // _WORD))


class Refills:
    """Which instructions wait for registers that come back from local memory, in the order of the code.

    Args:
        local: the statements that access local memory.
    """

    def __init__(self, local: frozenset[Statement]) -> None:
        self._local, self._pending = local, set[int]()

    def waits(self, instructions: Sequence[MachineInstruction]) -> list[bool]:
        """Return for each instruction of the next block of machine code whether it waits for one."""
        found = []
        for each in instructions:
            awaited = self._pending.intersection(each.control.waits)
            found.append(bool(awaited))
            self._pending -= awaited
            if each.control.write_barrier is not None and is_spill(each, self._local):
                self._pending.add(each.control.write_barrier)
        return found
