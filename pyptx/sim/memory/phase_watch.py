"""What the lanes that wait on an mbarrier know of its phases, and whether others may have lapped them.

A wait names the parity of a phase, so it cannot tell a phase from the next but one: where two phases complete
before the lanes look again, they wait for a phase that never comes.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait`_.
"""

from __future__ import annotations

__all__ = ["PhaseWatch"]


class PhaseWatch:
    """Some lanes of a warp and one mbarrier.

    Attributes:
        seen: phases that they know to be complete, or -1 if they have not seen any complete.
        asked: the phase that they ask for and have not seen complete, or -1.
        missed: phases that passed between two that they saw, where the parities are those of neighbors.
    """

    __slots__ = ("asked", "missed", "seen")

    def __init__(self) -> None:
        self.seen = self.asked = -1
        self.missed = 0

    def complete(self, phase: int) -> None:
        """``phase`` phases are complete, and the one that they ask for is among them."""
        self._see(self.asked + 1 if self.asked >= 0 else phase)

    def _see(self, known: int) -> None:
        passed = known - max(self.seen, 0)
        if passed >= 3 and passed % 2:
            self.missed += passed - 1
        self.seen, self.asked = known, -1

    def lapped(self, phase: int) -> bool:
        """They ask for ``phase``, which is not complete: whether they have asked for an earlier one of its
        parity, which is. Then they see that one complete.
        """
        if self.asked >= 0 and phase > self.asked and (phase - self.asked) % 2 == 0:
            self._see(self.asked + 1)
            return True
        self.asked = phase
        return False

    def may_be_lapped(self, phase: int) -> bool:
        """Whether, waiting for ``phase``, they may mean an earlier one: two or more passed unseen."""
        return self.missed > 0 or phase - max(self.seen, 0) >= 2

    def let_pass(self, phase: int) -> None:
        """When they ask again, it is as if they had asked for the phase but one before ``phase``."""
        self.missed = max(0, self.missed - 2)
        self.asked = phase - 2
