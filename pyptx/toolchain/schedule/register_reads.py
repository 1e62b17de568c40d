"""Reads of registers: a scheduler's part reads two in a cycle.

Of one warp, a multiply-add that reads three takes a cycle longer; what several warps read fills all cycles.
What the instruction before has kept in the reuse cache of the same operand need not be read again, nor a
register that stands twice.

Measured on an H200, 2026-11-30: loops of 64 and 128 multiply-adds, of which 0, 12, 13, 18, 24 and 26 read
three registers, take 0, 12, 15, 14, 20 and 24 cycles longer than their number. Of 14 warps of a scheduler,
each further multiply-add that reads three registers takes 1.49 cycles.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..nvdisasm import MachineInstruction

__all__ = ["Reused", "late_reads", "read_cycles", "reused"]

#: The registers that an instruction has kept for the next one, by the place of the operand.
Reused = dict[int, str]

_OPERAND = re.compile(r"-?\|?(?P<name>R\d+)(?P<reuse>\.reuse)?\|?")
#: Registers that can be read in a cycle.
_READS = 2


@lru_cache(maxsize=1 << 14)
def _sources(opcode: str, text: str) -> tuple[tuple[int, str, bool], ...]:
    """Return the registers behind an arithmetic instruction's result: place, name, and whether it is kept."""
    _, _, operands = text.partition(opcode)
    found = ((n, _OPERAND.fullmatch(each.strip(" ;"))) for n, each in enumerate(operands.split(",")[1:]))
    return tuple((n, each["name"], each["reuse"] is not None) for n, each in found if each is not None)


def _read(instruction: MachineInstruction, kept: Reused) -> int:
    """Return how many registers an arithmetic instruction reads that the one before has not ``kept``."""
    sources = _sources(instruction.opcode, instruction.text)
    return len({name for place, name, _ in sources if kept.get(place) != name})


def late_reads(instruction: MachineInstruction, kept: Reused) -> int:
    """Return how many cycles longer an arithmetic instruction takes to read its registers.

    Args:
        instruction: the instruction.
        kept: what :func:`reused` gave for the instruction before.
    """
    return int(_read(instruction, kept) > _READS)


def read_cycles(instruction: MachineInstruction, kept: Reused) -> float:
    """Return how many cycles of its scheduler's part an arithmetic instruction reads registers."""
    return _read(instruction, kept) / _READS


def reused(instruction: MachineInstruction) -> Reused:
    """Return the registers that an instruction keeps for the next one."""
    return {place: name for place, name, keeps in _sources(instruction.opcode, instruction.text) if keeps}
