"""Reads of registers: a scheduler's part reads one with an even number and one with an odd number in a cycle.

All of its warps share these two banks. A few reads may wait for a bank while others go on: of a warp, too,
instructions that need one bank twice lose nothing beside others that need it less. What the instruction
before has kept in the reuse cache of the same operand need not be read again, nor a register that stands
twice.

Measured on an H200, 2026-11-30: loops of 32 to 128 multiply-adds of three registers, 1, 4 and 8 warps of each
scheduler. 128 of them that read 161 even and 224 odd registers take 224.1 cycles of the scheduler, 225 even
and 160 odd ones 224.9 to 225.4, 192 of each 193.1; of two registers, 129 of each, the loop's 131 slots.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..nvdisasm import MachineInstruction

__all__ = ["Reused", "bank_reads", "reused"]

#: The registers that an instruction has kept for the next one, by the place of the operand.
Reused = dict[int, str]

_OPERAND = re.compile(r"-?\|?(?P<name>R\d+)(?P<reuse>\.reuse)?\|?")


@lru_cache(maxsize=1 << 14)
def _sources(opcode: str, text: str) -> tuple[tuple[int, str, bool], ...]:
    """Return the registers behind an arithmetic instruction's result: place, name, and whether it is kept."""
    _, _, operands = text.partition(opcode)
    found = ((n, _OPERAND.fullmatch(each.strip(" ;"))) for n, each in enumerate(operands.split(",")[1:]))
    return tuple((n, each["name"], each["reuse"] is not None) for n, each in found if each is not None)


def bank_reads(instruction: MachineInstruction, kept: Reused) -> tuple[int, int]:
    """Return how many registers with even and with odd numbers an arithmetic instruction reads.

    Args:
        instruction: the instruction.
        kept: what :func:`reused` gave for the instruction before.
    """
    sources = _sources(instruction.opcode, instruction.text)
    names = {name for place, name, _ in sources if kept.get(place) != name}
    odd = sum(int(name[1:]) % 2 for name in names)
    return len(names) - odd, odd


def reused(instruction: MachineInstruction) -> Reused:
    """Return the registers that an instruction keeps for the next one."""
    return {place: name for place, name, keeps in _sources(instruction.opcode, instruction.text) if keeps}
