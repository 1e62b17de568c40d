"""Which registers an instruction reads and writes, and which reads may come before any write."""

from __future__ import annotations

from ..ir import Function, Instruction, Register, registers_of
from ..isa import Binding, bind_instruction
from .graph import Graph

__all__ = ["accesses", "maybe_undefined"]


def accesses(
    instruction: Instruction, binding: Binding | None = None
) -> tuple[list[Register], list[Register]]:
    """Registers that ``instruction`` reads (its guard included) and registers that it writes."""
    binding = binding if binding is not None else bind_instruction(instruction)
    reads = [instruction.guard.register] if instruction.guard is not None else []
    writes: list[Register] = []
    for name, operand in binding.operands.items():
        access = binding.specs[name].access
        found = registers_of(operand)
        if access in ("w", "rw"):
            writes += found
        if access != "w":
            reads += found
    return reads, writes


def maybe_undefined(function: Function, graph: Graph) -> dict[int, set[str]]:
    """Reads that some path reaches without a write: statement index -> register names.

    A guarded write does not count as a write here, so the answer is an upper bound that a run-time
    check makes exact.
    """
    everything = {register.name for register in function.registers}
    entry_defined: list[set[str]] = [set(everything) for _ in graph.blocks]
    if graph.blocks:
        entry_defined[0] = set()
    effects = [
        [(index, instruction, *accesses(instruction)) for index, instruction in block.instructions]
        for block in graph.blocks
    ]

    def leave(number: int) -> set[str]:
        defined = set(entry_defined[number])
        for _, instruction, _, writes in effects[number]:
            if instruction.guard is None:
                defined.update(register.name for register in writes)
        return defined

    pending = list(range(len(graph.blocks)))[::-1]
    visited: set[int] = set()
    while pending:
        number = pending.pop()
        visited.add(number)
        defined = leave(number)
        for successor in graph.blocks[number].successors:
            if successor < 0:
                continue
            narrowed = entry_defined[successor] & defined
            if narrowed != entry_defined[successor] or successor not in visited:
                entry_defined[successor] = narrowed
                pending.append(successor)
    found: dict[int, set[str]] = {}
    for number, rows in enumerate(effects):
        defined = set(entry_defined[number])
        for index, instruction, reads, writes in rows:
            missing = {register.name for register in reads} - defined
            if missing:
                found[index] = missing
            if instruction.guard is None:
                defined.update(register.name for register in writes)
    return found
