"""Which registers some path still reads, for each block of a function."""

from __future__ import annotations

from ...flow import accesses
from ...ir import Register, registers_of
from .function import CodeBlock, FunctionCode
from .propagation import Rule
from .semantic import RegisterPlace

__all__ = ["CARRY", "live_registers"]

#: Stands for the carry flag where registers are named by their index.
CARRY = RegisterPlace("16", 0, -1)


def live_registers(code: FunctionCode) -> dict[int, frozenset[int]]:
    """Return, for each block of a function, the registers that some path from the block's start reads.

    A path reads a register if an instruction reads it before the path has overwritten it. Registers are named
    by their indices, blocks by their numbers in the program. The result is computed once.
    """
    if code.live is not None:
        return code.live
    blocks = [block for block in code.program.blocks if block.code is code]
    effects = {block.index: _effect(block) for block in blocks}
    live: dict[int, frozenset[int]] = {block.index: frozenset() for block in blocks}
    before: dict[int, list[int]] = {block.index: [] for block in blocks}
    for block in blocks:
        for successor in _successors(block):
            if successor in before:
                before[successor].append(block.index)
    by_number = {block.index: block for block in blocks}
    pending = [block.index for block in blocks]
    while pending:
        number = pending.pop()
        reads, writes = effects[number]
        after = frozenset().union(*(live.get(each, frozenset()) for each in _successors(by_number[number])))
        found = reads | (after - writes)
        if found != live[number]:
            live[number] = found
            pending += before[number]
    code.live = live
    return live


def _successors(block: CodeBlock) -> tuple[int, ...]:
    return tuple(s for s in (block.taken, block.next, *block.table) if s is not None)


def _effect(block: CodeBlock) -> tuple[frozenset[int], frozenset[int]]:
    """Return the registers that a block reads before it writes them, and those that it surely writes."""
    code = block.code
    reads: set[int] = set()
    writes: set[int] = set()

    def note(read: list[Register] | set[int], written: list[Register] | set[int], *, sure: bool) -> None:
        reads.update(_indices(code, read) - writes)
        if sure:
            writes.update(_indices(code, written))

    for instruction, op in block.ops:
        read, written = accesses(instruction, op.binding)
        if op.semantic.undefined.rule is Rule.CARRY:
            note({CARRY.index} if op.semantic.undefined.reads_carry else set(), set(), sure=False)
        note(read, written, sure=instruction.guard is None)
        if "cc" in op.chosen and instruction.guard is None:
            writes.add(CARRY.index)
    if block.guard is not None:
        note({block.guard[0].index}, set(), sure=False)
    if block.selector is not None:
        note({block.selector[1].index}, set(), sure=False)
    if block.call is not None:
        passed = [r for argument in block.call.arguments for r in registers_of(argument)]
        note(passed, [], sure=False)
        if isinstance(block.call.callee, RegisterPlace):
            note({block.call.callee.index}, set(), sure=False)
        results = [r for result in block.call.results for r in registers_of(result)]
        note([], results, sure=True)
    if block.returns:
        note(
            {code.places[p.name].index for p in code.function.returns if p.space == "reg"}, set(), sure=False
        )
    return frozenset(reads), frozenset(writes)


def _indices(code: FunctionCode, registers: list[Register] | set[int]) -> set[int]:
    places = code.places
    names = {each.name for each in registers if isinstance(each, Register)} & places.keys()
    return {places[name].index for name in names} | {each for each in registers if isinstance(each, int)}
