"""Instructions that no path reaches, and instructions that no run executed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...core.findings import RULES, Finding
from ...flow import Block, Graph
from ...ir import Function, Instruction

__all__ = ["not_executed", "unreachable"]

#: Instructions that compilers leave behind paths that never return, and that do nothing but leave.
_LEAVING = frozenset({"bra", "ret", "exit", "trap", "brkpt"})


def unreachable(graph: Graph) -> list[Finding]:
    """Report the instructions that no path from the beginning of the function reaches.

    Branches and ends of threads alone are no finding: compilers put them behind endless loops.
    """
    reached = _reached(graph)
    findings = []
    for region in _regions(block for block in graph.blocks if block.index not in reached):
        instructions = [instruction for block in region for _, instruction in block.instructions]
        if any(instruction.opcode not in _LEAVING for instruction in instructions):
            findings.append(_finding("unreachable-code", "no path reaches", instructions, ""))
    return findings


def not_executed(function: Function, graph: Graph, executed: Mapping[str, set[int]]) -> list[Finding]:
    """Report the instructions on paths that no run took.

    ``executed`` has the statements that ran, of each function that an entry which ran can reach. Paths that
    end in a trap are left out: a right run does not take them.
    """
    if function.name not in executed:
        return []
    ran = executed[function.name]
    reached = _reached(graph)
    if not ran:
        instructions = list(function.instructions())
        return [_finding("not-executed", f"no run called {function.name}:", instructions, "")]
    findings = []
    for region in _regions(
        block
        for block in graph.blocks
        if block.index in reached
        and ran.isdisjoint(index for index, _ in block.instructions)
        and any(each.opcode not in _LEAVING and each.opcode != "call" for _, each in block.instructions)
    ):
        instructions = [instruction for block in region for _, instruction in block.instructions]
        if not any(instruction.opcode in ("trap", "brkpt") for instruction in instructions):
            findings.append(
                _finding("not-executed", "no run executed", instructions, "in no schedule so far")
            )
    return findings


def _finding(rule: str, text: str, instructions: list[Instruction], why: str) -> Finding:
    count = len(instructions)
    first, last = instructions[0], instructions[-1]
    message = f"{text} {'this instruction' if count == 1 else f'these {count} instructions'}: {first}"
    other = ((f"to {last}", last.source),) if count > 1 else ()
    return Finding(RULES[rule], message, first.source, other=other, why=why)


def _reached(graph: Graph) -> set[int]:
    found = {0} if graph.blocks else set()
    pending = list(found)
    while pending:
        for successor in graph.blocks[pending.pop()].successors:
            if successor >= 0 and successor not in found:
                found.add(successor)
                pending.append(successor)
    return found


def _regions(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield runs of blocks that follow each other in the text; empty blocks are left out."""
    region: list[Block] = []
    for block in blocks:
        if not block.instructions:
            continue
        if region and block.index != region[-1].index + 1:
            yield region
            region = []
        region.append(block)
    if region:
        yield region
