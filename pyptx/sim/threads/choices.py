"""Choices that the ISA leaves open and the schedule makes, such as the lane that elect.sync picks.

Owns the default choices, which are those of ``eager``. The schedules in :mod:`pyptx.sim.machine.schedule`
derive from them; they also choose which thread or event is next.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

__all__ = ["ScheduleChoices"]


class ScheduleChoices:
    """The choices of ``eager``, as attributes and methods."""

    #: True if warps of a CTA that are at one place in the code may run together.
    warp_teams = True
    #: True if blocks of code end wherever other threads or engines can act, so that they may act there.
    interleaves = False
    #: True if a thread may be kept from running while other threads complete several phases of an mbarrier.
    starves_threads = False
    #: True if diverged lanes run together again from the branch's immediate post-dominator on. If not, they
    #: meet only at collective instructions.
    reconverges = True
    #: True if strong reads may take their values from other writes than the last one.
    weak_reads = False
    #: True if a CTA that allocates tensor memory keeps other CTAs of the multiprocessor from it until it
    #: relinquishes its permit or ends. The ISA leaves it open; hardware does.
    keeps_permits = False
    #: Blocks that a split runs before others get a turn, unless it parks first.
    quantum = 4096

    def elect(self, mask: int) -> int:
        """Return the lane that elect.sync picks: the lowest, as an H200 does.

        The ISA leaves the choice open.
        """
        return (mask & -mask).bit_length() - 1

    def position(self, positions: Sequence[int]) -> int:
        """Return one of the positions that a strong access may choose in the history of a word."""
        return positions[0]

    def gives_up(self) -> bool:
        """Return True to let a pending try_wait time out now and return false, instead of waiting longer."""
        return False

    def unanswered(self, barrier: Hashable, phase: int) -> None:
        """Called if the schedule starves threads and a test finds this phase of an mbarrier incomplete."""

    def starts(self) -> bool:
        """True if a launch that can start, or a cluster whose launch can still be canceled, starts now."""
        return True
