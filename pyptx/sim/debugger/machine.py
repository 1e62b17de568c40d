"""A machine that runs instruction by instruction and asks a debugger before each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...isa import Target
from ..code.function import CodeBlock
from ..machine.machine import Machine
from ..machine.schedule import Policy
from ..threads.limits import Limits, Progress
from ..threads.operations import run_operations
from ..threads.tracked import run_tracked
from ..threads.warp import Split
from .places import Place
from .stepper import Debugger
from .values import Written

__all__ = ["DebuggedMachine"]

#: Instructions that only direct control flow. The guard of any other one at the end of a block decides who
#: enters the next block, which has the instruction.
_BRANCHES = ("bra", "exit", "ret")


class DebuggedMachine(Machine):
    """A machine whose splits run alone, one instruction at a time. It computes what other machines do."""

    def __init__(
        self,
        target: Target,
        policy: Policy,
        limits: Limits,
        debugger: Debugger,
        *,
        progress: Callable[[Progress], None] | None = None,
        started: float | None = None,
    ) -> None:
        policy.warp_teams = False
        super().__init__(target, policy, limits, progress=progress, started=started)
        self.debugger = debugger
        #: The registers that threads have written.
        self.written = Written()
        self.operations = self._stepwise

    def run(self) -> None:
        with self.debugger.attached():
            super().run()

    def turn(self) -> bool:
        # The warp that the user steps goes first, if the schedule takes the newest split that can run.
        preferred = self.debugger.preferred(self.ready)
        if preferred is not None:
            self.ready.remove(preferred)
            self.ready.append(preferred)
        return super().turn()

    def _stepwise(self, s: Split, block: CodeBlock) -> Any:
        def before(position: int) -> None:
            self.debugger.reached(self, Place(s, block, position))
            if position < len(block.ops):
                self.written.note(s, *block.ops[position])

        outcome = run_tracked(s, block, before=before) if block.ops else run_operations(s, block)
        if block.branch is not None and block.branch.opcode in _BRANCHES:
            before(len(block.ops))
        return outcome
