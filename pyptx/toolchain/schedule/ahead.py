"""By how many rounds of a loop ptxas issues a load ahead, where it has unrolled the loop.

The copies of a load stand in front of the code that uses them: the load of a later round is issued in an
earlier one, and one wide load may serve several rounds. Its latency then passes once for all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from ...flow import accesses, control_flow
from ...ir import Function, Instruction
from ...timing.access_order import Ahead
from .costs import StatementCost

__all__ = ["loads_ahead", "uses"]


def loads_ahead(function: Function, code: Mapping[int, StatementCost]) -> dict[int, Ahead]:
    """Return the loads of a function that are issued before their rounds, or for several rounds.

    Args:
        function: the PTX function.
        code: the machine code of its statements, by their numbers.
    """
    found: dict[int, Ahead] = {}
    for block in control_flow(function).blocks:
        for place, (number, instruction) in enumerate(block.instructions):
            own = code.get(number)
            if instruction.opcode != "ld" or own is None or own.copies < 2 or not own.accessed:
                continue
            used = next(uses(block.instructions[place:], code), ())
            loads = own.positions[own.home]
            if not used or not len(loads) <= own.copies:
                continue
            # How many rounds have begun to use what they loaded when each load is issued.
            begun = [bisect_left(used, loads[copy * len(loads) // own.copies]) for copy in range(own.copies)]
            rounds = tuple(max(0, copy - before) for copy, before in enumerate(begun))
            part = len(loads) / own.copies
            if part < 1 or any(rounds):
                found[number] = Ahead(rounds, part, own.accessed)
    return found


def uses(
    instructions: Sequence[tuple[int, Instruction]], code: Mapping[int, StatementCost]
) -> Iterator[Sequence[int]]:
    """Yield where the copies stand of each statement that reads what the first of the instructions writes.

    They are those in the block of machine code that has most copies of the first.
    """
    number, instruction = instructions[0]
    home, copies = code[number].home, code[number].copies
    _, written = accesses(instruction)
    names = {register.name for register in written}
    for number, instruction in instructions[1:]:
        read, overwritten = accesses(instruction)
        own = code.get(number)
        if own is not None and any(register.name in names for register in read):
            positions = own.positions.get(home, ())
            if len(positions) >= copies and len(positions) % copies == 0:
                yield positions[:: len(positions) // copies]
        names -= {register.name for register in overwritten}
