"""What an execution of each PTX statement costs, by ptxas's schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ...core.records import dataclass
from ...ir import Module
from ...timing.access_order import Spill
from ...timing.opcodes import Pipes
from ..nvdisasm import MachineInstruction
from .graph import machine_graph, split_functions
from .merged import width_of
from .order import Place, is_access
from .products import locate_products
from .shares import PtxFlow, Share, shares
from .spills import Refills, is_spill, local_accesses, spills_of
from .statements import Statement, StatementCode, statement_of
from .tries import locate_tries
from .warp import issue_costs

__all__ = ["StatementCost", "statement_costs"]

#: Bytes of a line of the instruction cache.
_LINE = 128
#: From one function to the next, in lines and in blocks: functions lie apart.
_APART = 1 << 24


@dataclass(slots=True)
class StatementCost:
    """What one execution of a statement costs a warp.

    Attributes:
        cycles: cycles of the warp alone.
        stalled: of these, the ones behind the issue of its last instruction.
        issues: machine instructions that are issued.
        runs: the sum over these of how many are issued in a row, with that one, before another warp that is
            ready goes on.
        pipes: cycles of each pipe of the warp's sub-partition.
        dense: of these, the ones that follow the instruction before in the pipe at once.
        lines: the numbers of the lines of code that its instructions lie in, of all of the kernel's code.
        place: where its access to memory lies in the machine code, or else its first instruction; None if
            it has none.
        accessed: bytes of a lane that the widest machine instruction of its own accesses in memory, or 0.
        copies: how many copies of it ptxas has made for rounds of a loop.
        spills: the registers that its machine instructions keep in local memory.
        refilled: whether one of them waits for registers that come from there.
        positions: where its accesses to memory stand, or else its instructions, by block of machine code.
    """

    cycles: float = 0.0
    stalled: float = 0.0
    issues: float = 0.0
    runs: float = 0.0
    pipes: dict[str, float] = field(default_factory=dict)
    dense: dict[str, float] = field(default_factory=dict)
    lines: set[int] = field(default_factory=set)
    place: Place | None = None
    accessed: int = 0
    copies: int = 1
    spills: list[Spill] = field(default_factory=list)
    refilled: bool = False
    positions: dict[int, list[int]] = field(default_factory=dict)

    @property
    def home(self) -> int:
        """The block of machine code that has most of its instructions in ``positions``."""
        return max(self.positions, key=lambda block: len(self.positions[block]))


def statement_costs(
    code: StatementCode, module: Module, pipes: Pipes
) -> dict[tuple[str, int], StatementCost]:
    """Return the cost of each statement that has machine code or pays for that of others: function, number.

    Args:
        code: the machine code of ``module``.
        module: the module.
        pipes: the pipes of the GPU.
    """
    flow = PtxFlow(module.functions)
    found: dict[tuple[str, int], StatementCost] = {}
    local = local_accesses(module)
    kept: dict[Statement, list[tuple[MachineInstruction, float]]] = {}
    names = [function.name for function in module.functions]
    places: dict[tuple[str, int], Place] = {}
    accessed: dict[tuple[str, int], Place] = {}
    functions = [
        each
        for section in locate_tries(locate_products(code, module), module).values()
        for each in split_functions(section, names)
    ]
    for number, instructions in enumerate(functions):
        graph = machine_graph(instructions)
        costs, refills = issue_costs(graph, pipes, local), Refills(local)
        for index, each in shares(graph, flow).items():
            block = graph.blocks[index].instructions
            paid = [(cost, share.part) for cost, share in zip(costs[index], each, strict=True) if share]
            pipes_of = _spread([(cost.spaced, cost.pipes, part) for cost, part in paid])
            dense_of = _spread([(cost.spaced, cost.dense, part) for cost, part in paid])
            for position, (instruction, cost, share, refilled) in enumerate(
                zip(block, costs[index], each, refills.waits(block), strict=True)
            ):
                if share is None:
                    continue
                own, spilled = statement_of(instruction), is_spill(instruction, local)
                if own is not None and own not in accessed:
                    places.setdefault(own, (number * _APART + index, position))
                    if is_access(instruction.opcode) and not spilled:
                        accessed[own] = number * _APART + index, position
                total = found.setdefault(share.statement, StatementCost())
                if own == share.statement and not spilled:
                    _note_copy(total, number * _APART + index, position, instruction, share)
                total.cycles += cost.cycles * share.part
                total.stalled = cost.stalled * share.part
                total.issues += cost.issues * share.part
                total.runs += cost.issues * cost.run * share.part
                total.refilled |= refilled
                if spilled:
                    kept.setdefault(share.statement, []).append((instruction, share.part))
                total.lines.add(number * _APART + instruction.address // _LINE)
                for sums, more in ((total.pipes, next(pipes_of)), (total.dense, next(dense_of))):
                    for name, time in more.items():
                        sums[name] = sums.get(name, 0.0) + time * share.part
    # Others pay for instructions of a branch that became predicates; where these stand still counts.
    for statement in {**found, **places}:
        total = found.setdefault(statement, StatementCost())
        total.spills = spills_of(kept.get(Statement(*statement), ()))
        total.place = accessed.get(statement, places.get(statement))
    return found


def _note_copy(
    total: StatementCost, block: int, position: int, instruction: MachineInstruction, share: Share
) -> None:
    """Note where an instruction of a statement's own stands; accesses to memory replace what is none."""
    width = width_of(instruction.opcode) if is_access(instruction.opcode) else 0
    if width and not total.accessed:
        total.positions.clear()
    if width or not total.accessed:
        total.copies = max(total.copies, round(1 / share.part)) if share.part else total.copies
        total.positions.setdefault(block, []).append(position)
        total.accessed = max(total.accessed, width)


def _spread(costs: Sequence[tuple[float, Mapping[str, float], float]]) -> Iterator[Mapping[str, float]]:
    """Yield what each instruction of a block of machine code pays of the pipes that all of them need.

    ptxas mixes the instructions of several statements, and spaces those of one so that a pipe has time for
    those of another. So instructions pay for the time of a pipe that they leave to others in the block, who
    need more of it than their own cycles.

    Args:
        costs: for each instruction its cycles without waits for barriers, those of each pipe, and its part.
    """
    keep: dict[str, float] = {}
    take: dict[str, float] = {}
    for name in {name for _, pipes, _ in costs for name in pipes}:
        missing = sum(max(0.0, pipes.get(name, 0.0) - cycles) * part for cycles, pipes, part in costs)
        left = sum(max(0.0, cycles - pipes.get(name, 0.0)) * part for cycles, pipes, part in costs)
        if missing > 0 and left > 0:
            moved = min(missing, left)
            keep[name], take[name] = 1 - moved / missing, moved / left
    for cycles, pipes, _ in costs:
        if not take:
            yield pipes
            continue
        paid = dict(pipes)
        for name, share in take.items():
            time = pipes.get(name, 0.0)
            paid[name] = cycles + (time - cycles) * (keep[name] if time > cycles else 1 - share)
        yield paid
