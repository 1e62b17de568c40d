"""Reads of registers: a scheduler's part reads two in a cycle.

Of one warp, a multiply-add that reads three takes a cycle longer; what several warps read fills all cycles.
What the instruction before has kept in the reuse cache of the same operand need not be read again, nor a
register that stands twice.

Measured on an H200, 2026-11-30: loops of 64 and 128 multiply-adds, of which 0, 12, 13, 18, 24 and 26 read
three registers, take 0, 12, 15, 14, 20 and 24 cycles longer than their number. Of 14 warps of a scheduler,
each multiply-add that reads three registers takes 1.57 cycles.
"""

from __future__ import annotations

import re

from ..nvdisasm import MachineInstruction

__all__ = ["Reused", "late_reads", "read_cycles", "reused"]

#: The registers that an instruction has kept for the next one, by the place of the operand.
Reused = dict[int, str]

_OPERAND = re.compile(r"-?\|?(?P<name>R\d+)(?P<reuse>\.reuse)?\|?")
#: Registers that can be read in a cycle.
_READS = 2


def _sources(instruction: MachineInstruction) -> list[re.Match[str] | None]:
    """Return the operands of an arithmetic instruction behind its result; None for what is no register."""
    _, _, operands = instruction.text.partition(instruction.opcode)
    return [_OPERAND.fullmatch(each.strip(" ;")) for each in operands.split(",")[1:]]


def _read(instruction: MachineInstruction, kept: Reused) -> int:
    """Return how many registers an arithmetic instruction reads that the one before has not ``kept``."""
    sources = enumerate(_sources(instruction))
    return len({each["name"] for n, each in sources if each is not None and kept.get(n) != each["name"]})


def late_reads(instruction: MachineInstruction, kept: Reused) -> int:
    """Return how many cycles longer an arithmetic instruction takes to read its registers.

    Args:
        instruction: the instruction.
        kept: what :func:`reused` gave for the instruction before.
    """
    return int(_read(instruction, kept) > _READS)


def read_cycles(instruction: MachineInstruction, kept: Reused) -> float:
    """Return how many cycles of its scheduler's part an arithmetic instruction reads registers; see above."""
    return _read(instruction, kept) / _READS


def reused(instruction: MachineInstruction) -> Reused:
    """Return the registers that an instruction keeps for the next one."""
    return {
        place: source["name"]
        for place, source in enumerate(_sources(instruction))
        if source is not None and source["reuse"]
    }
