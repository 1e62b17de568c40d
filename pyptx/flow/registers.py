"""The registers that an instruction reads and writes, and the reads that may come before any write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir import Function, Instruction, Register, registers_of
from ..isa import Binding, bind_instruction
from .graph import EXIT, Block, Graph

__all__ = ["accesses", "maybe_undefined", "read_after", "read_from"]


def accesses(
    instruction: Instruction, binding: Binding | None = None
) -> tuple[list[Register], list[Register]]:
    """Return the registers that ``instruction`` reads (its guard included) and those that it writes."""
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


def read_after(graph: Graph, statement: int, names: frozenset[str]) -> bool:
    """True if some path after ``statement`` reads one of the registers before the path overwrites it.

    A guarded write does not count as an overwrite, since some lanes may keep the old value. A branch does not
    count as a read if it leads to the same place whether it is taken or not.
    """
    where = next(
        (block.index, position)
        for block in graph.blocks
        for position, (index, _) in enumerate(block.instructions)
        if index == statement
    )
    return read_from(graph, where[0], names, position=where[1] + 1)


def read_from(graph: Graph, block: int, names: frozenset[str], *, position: int = 0) -> bool:
    """True if some path from an instruction of a block on reads one of the registers, as :func:`read_after`.

    ``position`` is the instruction's number in the block.
    """
    if block == EXIT:
        return False
    pending = [(block, position, names)]
    seen: set[tuple[int, frozenset[str]]] = set()
    while pending:
        number, start, alive = pending.pop()
        for _, instruction in graph.blocks[number].instructions[start:]:
            reads, writes = accesses(instruction)
            if any(register.name in alive for register in reads) and not (
                instruction.opcode == "bra" and _is_idle(graph, graph.blocks[number])
            ):
                return True
            if instruction.guard is None:
                alive -= {register.name for register in writes}
        for successor in graph.blocks[number].successors:
            if alive and successor >= 0 and (successor, alive) not in seen:
                seen.add((successor, alive))
                pending.append((successor, 0, alive))
    return False


def _is_idle(graph: Graph, block: Block) -> bool:
    """True if the branch at the end of ``block`` leads to the same place whether it is taken or not."""
    if block.taken is None or block.fallthrough is None:
        return False
    return _landing(graph, block.taken) == _landing(graph, block.fallthrough)


def _landing(graph: Graph, number: int) -> int:
    """Return the first block from ``number`` on that does more than branch somewhere without a condition."""
    seen: set[int] = set()
    while number != EXIT and number not in seen:
        seen.add(number)
        block = graph.blocks[number]
        instructions = [instruction for _, instruction in block.instructions]
        if any(each.opcode != "bra" for each in instructions) or len(block.successors) != 1:
            break
        (number,) = block.successors
    return number


def maybe_undefined(
    function: Function, graph: Graph, bindings: Mapping[int, Binding] | None = None
) -> dict[int, set[str]]:
    """Return, for each statement index, the registers that it may read before any write of the register.

    A guarded write does not count as a write, so some of these reads may be harmless; the simulator checks
    them at run time.  Parameters that are registers count as written.  ``bindings`` maps statement indices to
    bindings that the caller already has.
    """
    bindings = bindings if bindings is not None else {}
    effects = [
        [
            (index, accesses(instruction, bindings.get(index)), instruction.guard is None)
            for index, instruction in block.instructions
        ]
        for block in graph.blocks
    ]
    exposed: set[str] = set()
    for rows in effects:
        local: set[str] = set()
        for _, (reads, writes), sure in rows:
            exposed.update(r.name for r in reads if r.name not in local)
            if sure:
                local.update(r.name for r in writes)
    # Only registers that some block reads before writing matter. A set of them is an integer with a bit each.
    bit = {name: 1 << number for number, name in enumerate(sorted(exposed))}
    given = sum(bit.get(p.name, 0) for p in function.params if p.space == "reg")
    written = [
        _union(bit, (register for _, (_, writes), sure in rows if sure for register in writes))
        for rows in effects
    ]
    defined = [-1] * len(graph.blocks)
    if defined:
        defined[0] = given
    pending = list(range(len(graph.blocks)))[::-1]
    visited: set[int] = set()
    while pending:
        number = pending.pop()
        visited.add(number)
        leaving = defined[number] | written[number]
        for successor in graph.blocks[number].successors:
            if successor < 0:
                continue
            narrowed = defined[successor] & leaving
            if narrowed != defined[successor] or successor not in visited:
                defined[successor] = narrowed
                pending.append(successor)
    found: dict[int, set[str]] = {}
    for number, rows in enumerate(effects):
        known = defined[number]
        for index, (reads, writes), sure in rows:
            missing = {r.name for r in reads if r.name in bit and not known & bit[r.name]}
            if missing:
                found[index] = missing
            if sure:
                known |= _union(bit, writes)
    return found


def _union(bit: dict[str, int], registers: Iterable[Register]) -> int:
    total = 0
    for register in registers:
        total |= bit.get(register.name, 0)
    return total
