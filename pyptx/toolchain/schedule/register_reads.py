"""Multiply-adds that read three registers: they take a cycle longer.

A scheduler's part reads two registers for an instruction in a cycle. What the instruction before has kept in
the reuse cache of the same operand need not be read again, nor a register that stands twice.

Measured on an H200, 2026-11-30: loops of 64 and 128 multiply-adds, of which 0, 12, 13, 18, 24 and 26 read
three registers, take 0, 12, 15, 14, 20 and 24 cycles longer than their number.
"""

from __future__ import annotations

import re

from ..nvdisasm import MachineInstruction

__all__ = ["Reused", "late_reads", "reused"]

#: The registers that an instruction has kept for the next one, by the place of the operand.
Reused = dict[int, str]

_OPERAND = re.compile(r"-?\|?(?P<name>R\d+)(?P<reuse>\.reuse)?\|?")
#: Registers that can be read in a cycle.
_READS = 2


def _sources(instruction: MachineInstruction) -> list[re.Match[str] | None]:
    """Return the operands of an arithmetic instruction behind its result; None for what is no register."""
    _, _, operands = instruction.text.partition(instruction.opcode)
    return [_OPERAND.fullmatch(each.strip(" ;")) for each in operands.split(",")[1:]]


def late_reads(instruction: MachineInstruction, kept: Reused) -> int:
    """Return how many cycles longer an arithmetic instruction takes to read its registers.

    Args:
        instruction: the instruction.
        kept: what :func:`reused` gave for the instruction before.
    """
    read = {
        source["name"]
        for place, source in enumerate(_sources(instruction))
        if source is not None and kept.get(place) != source["name"]
    }
    return int(len(read) > _READS)


def reused(instruction: MachineInstruction) -> Reused:
    """Return the registers that an instruction keeps for the next one."""
    return {
        place: source["name"]
        for place, source in enumerate(_sources(instruction))
        if source is not None and source["reuse"]
    }
