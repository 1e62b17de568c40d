"""What the code of a kernel costs on a GPU, block by block."""

from __future__ import annotations

from ..core.records import dataclass
from ..sim.clock.machine import Costs
from ..sim.code.function import CodeBlock
from ..timing.constants import Gpu
from .specialize import Specialization

__all__ = ["block_costs"]


@dataclass(frozen=True)
class _Cost:
    cycles: float
    issues: float
    pipes: dict[str, float]


def block_costs(special: Specialization, gpu: Gpu) -> Costs:
    """Return the cost of each block of a kernel's code."""
    known: dict[CodeBlock, _Cost] = {}

    def cost(block: CodeBlock) -> _Cost:
        found = known.get(block)
        if found is None:
            steps = max(1, block.steps)
            found = known[block] = _Cost(2.0 * steps, float(steps), {})
        return found

    return cost
