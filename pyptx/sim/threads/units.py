"""State that units of the hardware attach to a CTA, a warp or a multiprocessor.

The code of threads names no unit. A unit is made when an instruction first asks its CTA, warp or
multiprocessor for it.
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
    """The state that a unit holds for one CTA."""

    #: Position in the order in which a CTA's units are called at its end.
    exit_order: ClassVar[int]

    def __init__(self, cta: CTA) -> None:
        self.cta = cta

    def leave(self) -> None:
        """Called when all threads of the CTA have ended. What they left in flight has not happened yet."""

    def at_exit(self) -> None:
        """Called when everything that the CTA's threads left in flight has happened.

        The CTA's memory still exists.
        """


class RegisterOwner:
    """A unit that owns registers of a warp from the time of an instruction until a step has happened."""

    def __init__(self) -> None:
        #: Steps that write the registers. Some of them may be done.
        self.steps: list[Step] = []

    def own(self, step: Step) -> None:
        """Note that ``step`` will write registers of the warp."""
        self.steps = [earlier for earlier in self.steps if not earlier.done]
        self.steps.append(step)

    def complete(self, engines: Engines) -> None:
        """Complete every step in flight that writes the registers."""
        steps, self.steps = self.steps, []
        for step in steps:
            if not step.done:
                engines.force(step)

    def touch(self, s: Split, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        """Called when ``s`` accesses rows of 32-bit registers that a unit owns at times."""
        raise NotImplementedError
