"""trap. Branches and exits end basic blocks: the machine executes them itself (see sim.machine)."""

from __future__ import annotations

from ..code.semantic import Op, executes
from ..threads.warp import Split


@executes("trap", per="lane")
def trap(s: Split, op: Op, lane: int) -> None:
    raise s.warp.cta.machine.fault("trap", "trap", s)
