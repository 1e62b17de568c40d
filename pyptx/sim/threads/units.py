"""Base classes for the state that units of the hardware hold for a CTA, a warp or a multiprocessor.

The code of this package does not name the units. The state of a unit is created when an instruction first
asks its CTA, warp or multiprocessor for it.
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
    """Base class for the state that one unit of the hardware, such as tensor memory, holds for one CTA."""

    #: Position in the order in which a CTA's units are called at its end.
    exit_order: ClassVar[int]

    def __init__(self, cta: CTA) -> None:
        self.cta = cta

    def leave(self) -> None:
        """Called when all threads of the CTA have ended. Their operations in flight have not happened yet."""

    def at_exit(self) -> None:
        """Called when all operations of the CTA's threads have happened. The CTA's memory still exists."""


class RegisterOwner:
    """A unit with steps in flight that will write registers of a warp, such as loads of tensor memory.

    The unit owns these registers from the issue of the instruction until the step has happened.
    """

    def __init__(self) -> None:
        #: Steps that write the registers. Some of them may be done.
        self.steps: list[Step] = []

    def own(self, step: Step) -> None:
        """Add a step in flight that will write registers of the warp."""
        self.steps = [earlier for earlier in self.steps if not earlier.done]
        self.steps.append(step)

    def complete(self, engines: Engines) -> None:
        """Complete every step in flight that writes the registers."""
        steps, self.steps = self.steps, []
        for step in steps:
            if not step.done:
                engines.force(step)

    def touch(self, s: Split, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        """Called before ``s`` accesses rows of 32-bit registers. The unit may own some of them now."""
        raise NotImplementedError
