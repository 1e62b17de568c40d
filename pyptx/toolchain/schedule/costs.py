"""What an execution of each PTX statement costs, by ptxas's schedule."""

from __future__ import annotations

from dataclasses import field

from ...core.records import dataclass
from ...ir import Module
from ...timing.opcodes import Pipes
from .graph import machine_graph, split_functions
from .products import locate_products
from .shares import PtxFlow, shares
from .statements import StatementCode
from .tries import locate_tries
from .warp import issue_costs

__all__ = ["StatementCost", "statement_costs"]

#: Bytes of a line of the instruction cache.
_LINE = 128
#: From one function to the next, in lines: functions lie apart.
_APART = 1 << 24


@dataclass(slots=True)
class StatementCost:
    """What one execution of a statement costs a warp.

    Attributes:
        cycles: cycles of the warp alone.
        stalled: of these, the ones behind the issue of its last instruction.
        issues: machine instructions that are issued.
        pauses: of these, behind how many another warp that is ready goes on.
        pipes: cycles of each pipe of the warp's sub-partition.
        dense: of these, the ones that follow the instruction before in the pipe at once.
        lines: the numbers of the lines of code that its instructions lie in, of all of the kernel's code.
    """

    cycles: float = 0.0
    stalled: float = 0.0
    issues: float = 0.0
    pauses: float = 0.0
    pipes: dict[str, float] = field(default_factory=dict)
    dense: dict[str, float] = field(default_factory=dict)
    lines: set[int] = field(default_factory=set)


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
    names = [function.name for function in module.functions]
    functions = [
        each
        for section in locate_tries(locate_products(code, module), module).values()
        for each in split_functions(section, names)
    ]
    for number, instructions in enumerate(functions):
        graph = machine_graph(instructions)
        costs = issue_costs(graph, pipes)
        for index, each in shares(graph, flow).items():
            block = graph.blocks[index].instructions
            for instruction, cost, share in zip(block, costs[index], each, strict=True):
                if share is None:
                    continue
                total = found.setdefault(share.statement, StatementCost())
                total.cycles += cost.cycles * share.part
                total.stalled = cost.stalled * share.part
                total.issues += cost.issues * share.part
                total.pauses += cost.pauses * share.part
                total.lines.add(number * _APART + instruction.address // _LINE)
                for sums, more in ((total.pipes, cost.pipes), (total.dense, cost.dense)):
                    for name, cycles in more.items():
                        sums[name] = sums.get(name, 0.0) + cycles * share.part
    return found
