"""Tracks the phases of an mbarrier that waiting lanes have seen, and whether other threads lapped them.

A wait names only the parity of a phase, so it confuses phases n and n + 2. If two phases complete between two
tests of the lanes, the lanes wait for a phase that never comes: other threads have lapped them.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`_.
"""

from __future__ import annotations

__all__ = ["PhaseWatch"]


class PhaseWatch:
    """The phases of one mbarrier that some lanes of a warp have seen.

    Attributes:
        seen: number of phases that the lanes know to be complete, or -1 if they have seen none complete.
        asked: the phase for which the lanes wait and which they have not seen complete, or -1.
        missed: number of phases that the lanes did not see, between two phases that they took for neighbors.
    """

    __slots__ = ("asked", "missed", "seen")

    def __init__(self) -> None:
        self.seen = self.asked = -1
        self.missed = 0

    def complete(self, phase: int) -> None:
        """Record that the lanes have seen their phase complete, after ``phase`` completed phases."""
        self._see(self.asked + 1 if self.asked >= 0 else phase)

    def _see(self, known: int) -> None:
        passed = known - max(self.seen, 0)
        if passed >= 3 and passed % 2:
            self.missed += passed - 1
        self.seen, self.asked = known, -1

    def lapped(self, phase: int) -> bool:
        """Handle a test of the incomplete ``phase``. Return True if the lanes were lapped.

        They were lapped if they already waited for an earlier phase of the same parity, which is now
        complete. Then the lanes see that earlier phase complete.
        """
        if self.asked >= 0 and phase > self.asked and (phase - self.asked) % 2 == 0:
            self._see(self.asked + 1)
            return True
        self.asked = phase
        return False

    def may_be_lapped(self, phase: int) -> bool:
        """True if lanes that wait for ``phase`` may mean an earlier one: they missed two phases or more."""
        return self.missed > 0 or phase - max(self.seen, 0) >= 2

    def let_pass(self, phase: int) -> None:
        """Treat the next test as a test of phase ``phase`` - 2, which is complete, so that it succeeds."""
        self.missed = max(0, self.missed - 2)
        self.asked = phase - 2
