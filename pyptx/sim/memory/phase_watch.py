"""Tracks what waiting lanes know of an mbarrier's phases, and whether other threads may have lapped them.

A wait names the parity of a phase, so it cannot tell a phase from the next but one. If two phases complete
before the lanes look again, the lanes wait for a phase that never comes.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`_.
"""

from __future__ import annotations

__all__ = ["PhaseWatch"]


class PhaseWatch:
    """What some lanes of a warp know of one mbarrier.

    Attributes:
        seen: number of phases that the lanes know to be complete, or -1 if they have seen none complete.
        asked: the phase that the lanes ask for and have not seen complete, or -1.
        missed: number of phases that passed between two that the lanes saw and took for neighbors.
    """

    __slots__ = ("asked", "missed", "seen")

    def __init__(self) -> None:
        self.seen = self.asked = -1
        self.missed = 0

    def complete(self, phase: int) -> None:
        """Note that the lanes see the phase that they ask for complete; ``phase`` phases are."""
        self._see(self.asked + 1 if self.asked >= 0 else phase)

    def _see(self, known: int) -> None:
        passed = known - max(self.seen, 0)
        if passed >= 3 and passed % 2:
            self.missed += passed - 1
        self.seen, self.asked = known, -1

    def lapped(self, phase: int) -> bool:
        """Handle a question for the incomplete ``phase``. Return True if the lanes were lapped.

        That is so if they have asked for an earlier phase of the same parity, which is complete by now. The
        lanes then see that phase complete.
        """
        if self.asked >= 0 and phase > self.asked and (phase - self.asked) % 2 == 0:
            self._see(self.asked + 1)
            return True
        self.asked = phase
        return False

    def may_be_lapped(self, phase: int) -> bool:
        """True if the lanes that wait for ``phase`` may mean an earlier one: two or more passed unseen."""
        return self.missed > 0 or phase - max(self.seen, 0) >= 2

    def let_pass(self, phase: int) -> None:
        """Make the next question count as one for the phase two before ``phase``, so that it succeeds."""
        self.missed = max(0, self.missed - 2)
        self.asked = phase - 2
