"""What machine code has in front of a load, and PTX behind it: waits for others, and other instructions.

ptxas puts the first use of a value, and so the wait for it, in front of later loads where it has too few
registers, or in the rounds of an unrolled loop. It puts a load behind what PTX has behind the load.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from ...core.records import dataclass
from ...flow import control_flow
from ...ir import Function, Instruction
from ...timing.access_order import Awaited
from .ahead import uses
from .costs import StatementCost
from .order import Place

__all__ = ["awaited_loads", "sunk_loads"]

_LOADS = frozenset({"ld", "ldu", "ldmatrix"})


@dataclass(frozen=True, slots=True)
class _Load:
    """A load of a block, and where its copies stand and are used first, in one block of machine code.

    Attributes:
        number: the statement.
        home: the block of machine code.
        issued, used: the positions, by copy.
    """

    number: int
    home: int
    issued: Sequence[int]
    used: Sequence[int]


def awaited_loads(function: Function, code: Mapping[int, StatementCost]) -> dict[int, Awaited]:
    """Return the loads of a function in front of which its warps wait for others.

    Args:
        function: the PTX function.
        code: the machine code of its statements, by their numbers.
    """
    found: dict[int, Awaited] = {}
    for block in control_flow(function).blocks:
        loads = list(_loads(block.instructions, code))
        for place, load in enumerate(loads):
            others = [
                (other, own < place)
                for own, other in enumerate(loads)
                if other.home == load.home and len(other.issued) == len(load.issued)
            ]
            waits = tuple(tuple(_waits(position, copy, others)) for copy, position in enumerate(load.issued))
            if any(waits):
                found[load.number] = waits
                for copies in waits:
                    for number, _ in copies:
                        found.setdefault(number, ((),) * len(waits))
    return found


def sunk_loads(function: Function, code: Mapping[int, StatementCost]) -> dict[int, tuple[int, ...]]:
    """Return the loads that ptxas has put behind statements that follow them in PTX.

    Args:
        function: the PTX function.
        code: the machine code of its statements, by their numbers.

    Returns:
        for the last of such statements in machine code, the loads right behind it.
    """
    found: dict[int, tuple[int, ...]] = {}
    for block in control_flow(function).blocks:
        later: list[tuple[Place, int]] = []  # the statements behind, in the order of the machine code
        for number, instruction in reversed(block.instructions):
            own = code.get(number)
            if own is None or own.place is None or own.copies > 1:
                continue
            if instruction.opcode in _LOADS and own.accessed:
                before = bisect_left(later, (own.place, -1)) - 1
                if before >= 0 and later[before][0][0] == own.place[0]:
                    last = later[before][1]
                    found[last] = (number, *found.get(last, ()))
            insort(later, (own.place, number))
    return found


def _waits(position: int, copy: int, others: Sequence[tuple[_Load, bool]]) -> Sequence[tuple[int, int]]:
    """Return the loads that are used before a position, each with the last of its copies that is."""
    found = []
    for other, earlier in others:
        # In PTX, later rounds and what stands behind the load have not been issued.
        last = min(bisect_left(other.used, position) - 1, copy if earlier else copy - 1)
        if last >= 0 and other.used:
            found.append((other.number, last))
    return found


def _loads(
    instructions: Sequence[tuple[int, Instruction]], code: Mapping[int, StatementCost]
) -> Sequence[_Load]:
    found = []
    for place, (number, instruction) in enumerate(instructions):
        own = code.get(number)
        if instruction.opcode in _LOADS and own is not None and own.accessed:
            issued = own.positions[own.home]
            if len(issued) == own.copies:
                used = zip(*uses(instructions[place:], code), strict=True)
                found.append(_Load(number, own.home, issued, [min(copies) for copies in used]))
    return found
