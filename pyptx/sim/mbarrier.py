"""mbarrier objects: full phase, pending arrivals and transaction count, and who waits.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-mbarrier`.  The phase is kept
as a whole number, so that a wait two phases late is seen and not aliased by its parity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.findings import RULES, Finding
from ..core.source import SourceLocation
from .memory import Actor, Fault

if TYPE_CHECKING:
    from .events import Step

__all__ = ["MAX_COUNT", "MBarrier"]

#: Largest pending count and transaction count; both are 20-bit fields.
MAX_COUNT = (1 << 20) - 1


class MBarrier:
    """One live barrier at shared address ``address``.

    Attributes:
        expected: arrivals per phase.
        pending: arrivals missing in the current phase.
        tx: bytes expected minus bytes arrived in the current phase.
        phase: number of completed phases.
        signals: steps in flight that will arrive or complete bytes here, oldest first.
        waiters: called once, after the phase completed.
    """

    __slots__ = ("address", "expected", "location", "name", "pending", "phase", "signals", "tx", "waiters")

    def __init__(self, address: int, expected: int, name: str, location: SourceLocation | None) -> None:
        self.address, self.expected, self.name, self.location = address, expected, name, location
        self.pending = expected
        self.tx = 0
        self.phase = 0
        self.signals: dict[int, Step] = {}
        self.waiters: list[Callable[[], None]] = []

    def completed(self, parity: int) -> bool:
        """Whether the phase with this parity is the one before the current one."""
        return self.phase & 1 != parity

    def expect(self, count: int, actor: Actor) -> None:
        """expect-tx: ``count`` more bytes in this phase."""
        self.tx += count
        self._check_tx(actor)
        self._advance()

    def complete(self, count: int, actor: Actor) -> None:
        """complete-tx: ``count`` bytes have arrived."""
        self.tx -= count
        self._check_tx(actor)
        self._advance()

    def arrive(self, count: int, actor: Actor) -> None:
        """``count`` arrivals in the current phase."""
        if count > self.pending:
            raise Fault(
                Finding(
                    RULES["mbarrier-misuse"],
                    f"{count} arrival(s) on {self.describe()}: only {self.pending} are pending in this phase",
                    actor.location,
                    actor.who(),
                    (("initialised", self.location),),
                )
            )
        self.pending -= count
        self._advance()

    def _check_tx(self, actor: Actor) -> None:
        if abs(self.tx) > MAX_COUNT:
            raise Fault(
                Finding(
                    RULES["mbarrier-misuse"],
                    f"the tx-count of {self.describe()} leaves -{MAX_COUNT}..{MAX_COUNT}",
                    actor.location,
                    actor.who(),
                    (("initialised", self.location),),
                )
            )

    def _advance(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
            waiters, self.waiters = self.waiters, []
            for wake in waiters:
                wake()

    def describe(self) -> str:
        """Address, phase and counts, in words."""
        return (
            f"mbarrier {self.name} (shared {self.address:#x}): phase {self.phase} (parity {self.phase & 1}), "
            f"{self.pending} of {self.expected} arrivals pending, tx-count {self.tx}"
        )
