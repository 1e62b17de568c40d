"""Instructions that hardware may carry out twice because ptxas drops the predicate of ``elect.sync``.

An instruction of the copy engine or of the tensor core is one instruction for the whole warp in machine code.
If ``elect.sync`` made its predicate, ptxas leaves the predicate out: the instruction is carried out once for
each part of the warp that comes to it. Behind a loop in which the elected lane alone polls memory or a
barrier, the warp may be in two parts. ptxas puts a reconvergence point there, but not one that holds
(``BSSY`` without ``RECONVERGENT`` in code for sm_100a). An instruction that all lanes execute together brings
the warp together.

Seen on an H200: a bulk addition behind such a loop was carried out twice, and once with a ``bar.warp.sync``
between. Owns the search for such instructions.
"""

from __future__ import annotations

from ...core.findings import RULES, Finding
from ...flow import accesses
from ...flow.graph import EXIT
from ...ir import Instruction
from ...isa.table import chapter_of
from .function import CodeBlock, FunctionCode
from .semantic import Op, RegisterPlace

__all__ = ["repeated_if_apart"]

#: Chapters of the instructions that are one instruction for the whole warp in machine code.
_ENGINES = frozenset({"bulk_copy", "tcgen05_mma", "tensor_copy"})
_ATOMICS = "atomics"
_BARRIERS = frozenset({"cluster", "synchronization"})


def repeated_if_apart(code: FunctionCode) -> list[tuple[CodeBlock, Finding]]:
    """Return the instructions of a function that may be carried out twice, each with its block."""
    blocks = {block.index: block for block in code.program.blocks if block.code is code}
    elected = _elected(code, blocks)
    engines = [block for block in blocks.values() if any(_of_engine(op) for _, op in block.ops)]
    if not elected or not engines:
        return []
    # Blocks where the warp may be in two parts, and blocks that the elected lane alone runs, without a loop.
    apart: set[int] = set()
    alone: set[int] = set()
    for block in blocks.values():
        if block.guard is None or block.guard[0] not in elected or block.rpc == EXIT:
            continue
        region = _region(blocks, block.next if block.guard[1] else block.taken, block.rpc)
        loop = {number for number in region if number in _reached(blocks, number, region)}
        if any(_polls(op) for number in loop for _, op in blocks[number].ops):
            apart.add(block.rpc)
        elif not loop:
            alone |= region
    return _behind(blocks, elected, apart, alone)


def _behind(
    blocks: dict[int, CodeBlock], elected: set[RegisterPlace], apart: set[int], alone: set[int]
) -> list[tuple[CodeBlock, Finding]]:
    """Return the engines' instructions that are reached from ``apart`` with the warp still in two parts."""
    found: dict[tuple[int, int], tuple[CodeBlock, Finding]] = {}
    pending, seen = list(apart), set(apart)
    while pending:
        block = blocks[pending.pop()]
        together = False
        for instruction, op in block.ops:
            if _brings_together(op):
                together = True
                break
            guarded = instruction.guard is not None and not instruction.guard.negated
            by_lane = guarded and _place(block.code, instruction) in elected
            if _of_engine(op) and (by_lane or block.index in alone):
                found[block.index, op.statement] = block, _finding(op)
        if not together and not block.collective:
            for number in _successors(block):
                if number in blocks and number not in seen:
                    seen.add(number)
                    pending.append(number)
    return list(found.values())


def _finding(op: Op) -> Finding:
    return Finding(
        RULES["elected-twice"],
        f"{op.name} stands behind a loop in which the elected lane alone waits: ptxas drops the predicate of "
        "elect.sync, and each part of the warp that comes here carries the instruction out",
        op.location,
    )


def _elected(code: FunctionCode, blocks: dict[int, CodeBlock]) -> set[RegisterPlace]:
    """Return the predicates that only ``elect.sync`` writes."""
    chosen: set[str] = set()
    others: set[str] = set()
    for block in blocks.values():
        for instruction, op in block.ops:
            written = {register.name for register in accesses(instruction, op.binding)[1]}
            (chosen if op.semantic.varies == "lane" else others).update(written)
    places = (code.places[name] for name in chosen - others if name in code.places)
    return {place for place in places if place.cls == "p"}


def _place(code: FunctionCode, instruction: Instruction) -> RegisterPlace | None:
    guard = instruction.guard
    return None if guard is None else code.places.get(guard.register.name)


def _of_engine(op: Op) -> bool:
    """True if an engine carries the instruction out, and it does not only close or await a group."""
    operands = op.binding.operands
    return bool(operands) and not op.semantic.yields and chapter_of(op.binding.form_id) in _ENGINES


def _brings_together(op: Op) -> bool:
    """True if all lanes of the warp execute the instruction together, or leave its barrier together."""
    barrier = op.semantic.yields and chapter_of(op.binding.form_id) in _BARRIERS
    return barrier or bool(op.semantic.collective)


def _polls(op: Op) -> bool:
    """True if the instruction may see what other threads do."""
    return op.order is not None or op.semantic.yields or chapter_of(op.binding.form_id) == _ATOMICS


def _successors(block: CodeBlock) -> tuple[int, ...]:
    return tuple(
        each for each in (block.taken, block.next, *block.table) if each is not None and each != EXIT
    )


def _region(blocks: dict[int, CodeBlock], first: int | None, end: int) -> set[int]:
    """Return the blocks from ``first`` on, up to the block ``end``."""
    if first is None or first in (end, EXIT):
        return set()
    return {first, *_reached(blocks, first, blocks.keys() - {end})}


def _reached(blocks: dict[int, CodeBlock], start: int, within: set[int]) -> set[int]:
    """Return the blocks of ``within`` that a path of at least one step from ``start`` reaches inside it."""
    found: set[int] = set()
    pending = [start]
    while pending:
        for number in _successors(blocks[pending.pop()]):
            if number in within and number in blocks and number not in found:
                found.add(number)
                pending.append(number)
    return found
