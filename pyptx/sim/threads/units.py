"""State that units of the hardware attach to a CTA, a warp or a multiprocessor.

Threads know no unit by name: a unit is made when an instruction first asks its owner for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..engine.events import Engines, Step

if TYPE_CHECKING:
    from ...core.source import SourceLocation
    from .cta import CTA
    from .warp import Split

__all__ = ["CtaUnit", "RegisterOwner"]


class CtaUnit:
    """What a unit holds for one CTA."""

    #: At the end of a CTA its units are called in this order.
    exit_order: ClassVar[int]

    def __init__(self, cta: CTA) -> None:
        self.cta = cta

    def leave(self) -> None:
        """All threads of the CTA have ended; what they left in flight has not happened yet."""

    def at_exit(self) -> None:
        """What the CTA's threads left in flight has happened; its memory is still there."""


class RegisterOwner:
    """A unit that has registers of a warp from its instruction on until a step has happened."""

    def __init__(self) -> None:
        #: Steps in flight that write the registers, some of them perhaps done.
        self.steps: list[Step] = []

    def own(self, step: Step) -> None:
        """``step`` will write registers of the warp."""
        self.steps = [earlier for earlier in self.steps if not earlier.done]
        self.steps.append(step)

    def complete(self, engines: Engines) -> None:
        """Let every step in flight write the registers."""
        steps, self.steps = self.steps, []
        for step in steps:
            if not step.done:
                engines.force(step)

    def touch(self, s: Split, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        """An ordinary instruction of ``s`` reads or writes rows of 32-bit registers that some unit owns at
        times."""
        raise NotImplementedError
