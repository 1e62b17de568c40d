"""trap. The machine itself executes branches, calls, returns and exits (:mod:`pyptx.sim.machine`)."""

from __future__ import annotations

from ..code.semantic import Control, Op, executed_by_the_machine, executes
from ..threads.warp import Split

executed_by_the_machine("bra", "brx.idx", "ret", "exit", control=Control.BRANCH)
executed_by_the_machine("call", "call.void", "call.indirect", "call.indirect.void", control=Control.CALL)


@executes("trap", per="lane")
def trap(s: Split, op: Op, lane: int) -> None:
    raise s.warp.cta.machine.fault("trap", "trap", s)
