"""Which loads ptxas puts in front of instructions that precede them in PTX.

A warp waits for a loaded register where the machine code reads it first. ptxas often moves several loads to
the front of a block, so that their latencies overlap, although PTX uses the result of each before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...flow import accesses, control_flow
from ...flow.loops import innermost, natural_loops
from ...ir import Function, Instruction
from .graph import base_of

__all__ = ["FIXED", "Place", "is_access", "passed_by_loads"]

#: Where a statement lies in machine code: a block of all of it, and the position in the block.
Place = tuple[int, int]

#: Machine opcodes that access memory.
_ACCESSES = frozenset({"LD", "LDG", "LDS", "LDSM", "LDL", "ST", "STG", "STS", "STSM"})
_LOADS = frozenset({"ld", "ldu", "ldmatrix"})
#: PTX opcodes that no wait is moved across: barriers, fences, engines, products, and what threads add.
FIXED = frozenset(
    (
        *("atom", "bar", "barrier", "call", "clusterlaunchcontrol", "cp", "elect", "exit", "fence"),
        *("griddepcontrol", "mbarrier", "membar", "mma", "multimem", "nanosleep", "red", "setmaxnreg"),
        *("tcgen05", "tensormap", "trap", "wgmma"),
    )
)
#: State spaces whose loads take no time in the timed machine.
_ELSEWHERE = frozenset({"param", "const"})


def is_access(opcode: str) -> bool:
    """True if a machine opcode accesses memory."""
    return base_of(opcode) in _ACCESSES


def passed_by_loads(function: Function, places: Mapping[int, Place]) -> dict[int, int]:
    """Return the statements that later loads pass, and for each the last load up to which all do.

    Args:
        function: the PTX function.
        places: where the statements lie that have machine code, by their numbers.
    """
    found: dict[int, int] = {}
    for instructions in _rows(function):
        placed = _placed(instructions, places)
        loads: list[tuple[int, Place]] = []  # those behind a statement, the nearest one last
        for number, instruction in reversed(instructions):
            here = placed.get(number)
            for load, place in reversed(loads):
                if here is None or place[0] != here[0] or place > here:
                    break
                found[number] = load
            if instruction.opcode in FIXED:
                loads.clear()
            elif instruction.opcode in _LOADS and _ELSEWHERE.isdisjoint(instruction.modifiers):
                if here is None:
                    loads.clear()
                else:
                    loads.append((number, here))
    return found


def _rows(function: Function) -> Iterator[list[tuple[int, Instruction]]]:
    """Yield the instructions of blocks in a row of one loop, but for its first: they may branch.

    ptxas may make one block of machine code of them, with predicates for the branch.
    """
    graph = control_flow(function)
    loop_of = innermost(natural_loops(graph.edges))
    again = {target for index, targets in enumerate(graph.edges) for target in targets if target <= index}
    row: list[tuple[int, Instruction]] = []
    for block in graph.blocks:
        if block.index in again or loop_of.get(block.index) != loop_of.get(block.index - 1):
            yield row
            row = []
        row.extend(block.instructions)
    yield row


def _placed(instructions: Sequence[tuple[int, Instruction]], places: Mapping[int, Place]) -> dict[int, Place]:
    """Return where the statements of a block lie.

    One without machine code lies where the first one does that reads what it writes.
    """
    found: dict[int, Place] = {}
    readers: dict[str, Place] = {}
    for number, instruction in reversed(instructions):
        read, written = accesses(instruction)
        place = places.get(number)
        if place is None:
            place = min((readers[each.name] for each in written if each.name in readers), default=None)
        for each in written:
            readers.pop(each.name, None)
        if place is not None:
            found[number] = place
            for each in read:
                readers[each.name] = min(place, readers.get(each.name, place))
    return found
