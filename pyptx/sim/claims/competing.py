"""The claim about a run: whether it holds for every schedule, what it assumes, and what competes."""

from __future__ import annotations

from dataclasses import field

from ...core.records import dataclass
from ...core.source import SourceLocation

__all__ = ["EVERY_SCHEDULE", "THIS_SCHEDULE", "Claim", "Competing", "Ledger"]

EVERY_SCHEDULE = "every schedule"
THIS_SCHEDULE = "this schedule"


@dataclass(frozen=True, slots=True)
class Competing:
    """Something that another schedule may decide in another way.

    Attributes:
        what: what competes, and with what.
        location: the line of the instruction.
        other: the line of the instruction that it competes with, if there is one.
        assigned: True if nothing of it is open in a run that was given its :class:`~.assignment.Assignment`.
    """

    what: str
    location: SourceLocation | None = None
    other: SourceLocation | None = None
    assigned: bool = False

    def __str__(self) -> str:
        where = "" if self.location is None else f" at {self.location}"
        also = "" if self.other is None or self.other == self.location else f" (and {self.other})"
        return f"{self.what}{where}{also}"


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether a run holds for every schedule: ``holds`` names the schedules for which it does."""

    holds: str
    competing: tuple[Competing, ...] = ()
    assumptions: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Ledger:
    """Collects what competes and what is assumed, each thing once."""

    competing: dict[Competing, None] = field(default_factory=dict)
    assumptions: dict[str, None] = field(default_factory=dict)

    def competes(
        self,
        what: str,
        location: SourceLocation | None = None,
        other: SourceLocation | None = None,
        *,
        assigned: bool = False,
    ) -> None:
        """Record that something competes."""
        self.competing[Competing(what, location, other, assigned)] = None

    def assume(self, what: str, location: SourceLocation | None = None) -> None:
        """Record an assumption without which the claim would not hold."""
        self.assumptions[what if location is None else f"{what} ({location})"] = None

    def add(self, other: Ledger) -> None:
        """Record everything that another ledger has."""
        self.competing |= other.competing
        self.assumptions |= other.assumptions

    def claim(self) -> Claim:
        """Return the claim."""
        holds = THIS_SCHEDULE if self.competing else EVERY_SCHEDULE
        return Claim(holds, tuple(self.competing), tuple(self.assumptions))
