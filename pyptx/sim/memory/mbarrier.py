"""mbarrier objects: number of the phase, pending arrivals, transaction count, and the waiting threads.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-mbarrier`. The phase is kept as a
whole number, so that the simulator detects a wait two phases late, which the parity alone would hide.

The bits of the object are undefined for a program, and so are those of the state that an arrival returns. But
a program can read the state, so the simulator uses the bits of an H200: the upper half of the object's 64
bits. It stores counts as negative numbers, so that the last arrival carries into the phase bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.source import SourceLocation
from .phase_watch import PhaseWatch
from .segments import Actor, Fault

__all__ = ["MAX_COUNT", "MBarrier", "Signal", "SignalOrigin", "parity_of", "pending_of"]

#: Largest pending count and transaction count; both are 20-bit fields.
MAX_COUNT = (1 << 20) - 1

#: Fields of the upper half of the object's 64 bits, which begins within the 21 bits of the tx-count.
_TX_BITS, _TX_BELOW = 21, 11
_PENDING_SHIFT = 11
_PHASE_SHIFT = 31


def pending_of(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the pending count that states hold: 1 to 2**20, as an H200 decodes it from any 64 bits."""
    return np.uint64(MAX_COUNT + 1) - (state >> np.uint64(32 + _PENDING_SHIFT) & np.uint64(MAX_COUNT))


def parity_of(state: int) -> int:
    """Return the parity of the phase to which a state belongs."""
    return state >> 32 + _PHASE_SHIFT


class SignalOrigin:
    """What a signal tells a thread that sees its phase complete, beyond the signal itself.

    ``reads_shared`` is True for the signal of a copy that reads the shared memory of the CTA that issued it.
    """

    def __init__(self, *, reads_shared: bool = False) -> None:
        self.reads_shared = reads_shared

    def see(self) -> None:
        """Record that a thread has seen the signal's phase complete."""

    @property
    def seen(self) -> bool:
        """True if a thread has seen the phase complete of a signal that comes after this one."""
        return False


#: The origin of a signal that tells nothing else.
_PLAIN = SignalOrigin()


@dataclass(frozen=True, slots=True)
class Signal:
    """The arrivals and completed bytes that an operation in flight will bring to an mbarrier."""

    barrier: MBarrier
    arrivals: int = 0
    nbytes: int = 0
    origin: SignalOrigin = _PLAIN


#: A signal that has counted: the phase, the operation that brought it, and the signal.
_Counted = tuple[int, Any, Signal]


class MBarrier:
    """One live barrier at shared address ``address``.

    Attributes:
        expected: arrivals per phase.
        layout: 0 or 1.
        pending: arrivals missing in the current phase.
        tx: bytes expected minus bytes arrived in the current phase.
        phase: number of completed phases.
        signals: signals in flight to this barrier, oldest first, by serial number of their step.
        waiters: functions to call once, when the phase completes.
        unseen: signals that have counted in phases that no thread has seen complete; of equal keys, such as
            several copies of one thread by one instruction, the newest.
        watches: (warp, mask) -> record of the phases that these lanes have seen, if the schedule may starve
            threads.
    """

    __slots__ = (
        "address",
        "completed_by",
        "earlier_states",
        "expected",
        "key",
        "layout",
        "location",
        "name",
        "pending",
        "phase",
        "signals",
        "states",
        "tx",
        "unseen",
        "waiters",
        "watches",
    )

    def __init__(
        self,
        address: int,
        expected: int,
        name: str,
        location: SourceLocation | None,
        layout: int = 0,
        *,
        key: Hashable = None,
        completed_by: Callable[[MBarrier, Any], None],
    ) -> None:
        #: For observers: a key that no other mbarrier of the run has.
        self.key = key
        self.address, self.expected, self.name, self.location = address, expected, name, location
        self.layout = layout
        #: Called with the barrier and the thread or the operation that has completed a phase.
        self.completed_by = completed_by
        self.pending = expected
        self.tx = 0
        self.phase = 0
        #: Upper halves of the states that arrivals returned in the current phase, and in the one before.
        self.states: set[int] = set()
        self.earlier_states: set[int] = set()
        self.signals: dict[int, Signal] = {}
        self.unseen: dict[Hashable, _Counted] = {}
        self.waiters: list[Callable[[], None]] = []
        self.watches: dict[tuple[object, int], PhaseWatch] = {}

    def state(self, arrived: int = 0) -> int:
        """Return the state that an arrival returns, after ``arrived`` arrivals by the same instruction.

        The lower half of the state is zero.
        """
        upper = (
            (self.phase & 1) << _PHASE_SHIFT
            | (-(self.pending - arrived) & MAX_COUNT) << _PENDING_SHIFT
            | (-self.tx & (1 << _TX_BITS) - 1) >> _TX_BELOW
        )
        return upper << 32

    def watch(self, warp: object, mask: int) -> PhaseWatch:
        """Return the :class:`PhaseWatch` that stores which phases some lanes of ``warp`` have seen complete.

        ``mask`` names the lanes. The first call for a warp and a mask creates the object.
        """
        return self.watches.setdefault((warp, mask), PhaseWatch())

    def lapped(self, actor: Actor) -> Finding:
        """Return the finding for ``actor``, whose awaited phase and the next one have both completed."""
        return Finding(
            RULES["lapped-wait"],
            f"{self.describe()}: a phase and the next one completed before a thread that waits for the first "
            "looked again; it goes on as if it had seen the first complete",
            actor.location,
            actor.description(),
            (("initialized", self.location),),
        )

    def gave(self, state: int) -> bool:
        """True if an arrival in the current phase, or in the phase before, returned this state.

        Only the upper half of the state is compared, as the hardware does.
        """
        return state >> 32 in self.states or state >> 32 in self.earlier_states

    def note_state(self, state: int) -> None:
        """Record that an arrival in the current phase has returned this state."""
        self.states.add(state >> 32)

    @property
    def at_rest(self) -> bool:
        """True if the phase has not begun, no thread waits, and no operation in flight signals here."""
        return self.pending == self.expected and not (self.tx or self.waiters or self.signals)

    def completed(self, parity: int) -> bool:
        """True if the phase with this parity is complete: it is the phase before the current one."""
        return self.phase & 1 != parity

    def count(self, signal: Signal, actor: Any, key: Hashable) -> None:
        """Count a signal that ``actor`` brings; remember it until a thread sees its phase complete."""
        self.unseen[key] = (self.phase, actor, signal)
        if signal.nbytes:
            self.complete(signal.nbytes, actor)
        if signal.arrivals:
            self.arrive(signal.arrivals, actor, lanes=signal.arrivals)

    def see(self) -> None:
        """Record that a thread has seen the phase before the current one complete."""
        if not self.unseen:
            return
        for key, (phase, _, signal) in list(self.unseen.items()):
            if phase < self.phase:
                del self.unseen[key]
                signal.origin.see()

    def expect(self, count: int, actor: Actor) -> None:
        """Perform expect-tx: expect ``count`` more bytes in this phase."""
        self.tx += count
        self._check_tx(actor)
        self._advance(actor)

    def complete(self, count: int, actor: Actor) -> None:
        """Perform complete-tx: count ``count`` bytes as arrived."""
        self.tx -= count
        self._check_tx(actor)
        self._advance(actor)

    def arrive(self, count: int, actor: Actor, *, lanes: int = 1) -> None:
        """Count ``count`` arrivals in the current phase. Raise a fault if fewer are pending.

        ``lanes`` of them are of one instruction: the ISA would count what is left in the next phase, but an
        H200 counts all of them in one phase, and ends the kernel if they are too many.
        """
        if not 1 <= count <= self.pending:
            together = f", and hardware counts the {lanes} lanes of one instruction in one phase"
            raise self._fault(
                actor,
                f"{count} arrival(s) on {self.describe()}: only {self.pending} are pending in this phase"
                + (together if lanes > 1 else ""),
            )
        self.pending -= count
        self._advance(actor)

    def arrive_incomplete(self, count: int, actor: Actor, *, lanes: int = 1) -> None:
        """Count ``count`` arrivals of ``lanes`` lanes. Raise a fault if they complete the phase."""
        if count == self.pending and not self.tx:
            raise self._fault(
                actor, f"{count} .noComplete arrival(s) would complete the phase of {self.describe()}"
            )
        self.arrive(count, actor, lanes=lanes)

    def drop(self, count: int, actor: Actor) -> None:
        """Expect ``count`` fewer arrivals from the next phase on.

        Raise a fault if that would be below zero.
        """
        if count > self.expected:
            raise self._fault(actor, f"{count} arrival(s) dropped from {self.describe()}")
        self.expected -= count

    def _check_tx(self, actor: Actor) -> None:
        if abs(self.tx) > MAX_COUNT:
            raise self._fault(
                actor, f"the tx-count of {self.describe()} leaves the range -{MAX_COUNT}..{MAX_COUNT}"
            )

    def _fault(self, actor: Actor, text: str) -> Fault:
        origin = (("initialized", self.location),)
        return Fault(Finding(RULES["mbarrier-misuse"], text, actor.location, actor.description(), origin))

    def _advance(self, actor: Actor) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.earlier_states, self.states = self.states, set()
            self.completed_by(self, actor)
            self.pending = self.expected
            waiters, self.waiters = self.waiters, []
            for wake in waiters:
                wake()

    def describe(self) -> str:
        """Return address, phase and counts for a message."""
        return (
            f"mbarrier {self.name} (shared {self.address:#x}): phase {self.phase} (parity {self.phase & 1}), "
            f"{self.pending} of {self.expected} arrivals pending, tx-count {self.tx}"
        )
