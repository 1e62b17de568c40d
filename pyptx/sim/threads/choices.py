"""What threads and instructions leave to the schedule.

Owns the defaults, those of ``eager``.  The schedules themselves, which also choose what happens next, derive
from it in :mod:`pyptx.sim.machine.schedule`.
"""

from __future__ import annotations

__all__ = ["ScheduleChoices"]


class ScheduleChoices:
    """The questions that threads and instructions ask."""

    #: Whether warps of a CTA that are at one place in the code may run together.
    warp_teams = True
    #: Whether blocks of code end wherever others can act, so that others may run there.
    interleaves = False
    #: Whether a thread may be kept from running for so long that others complete several phases meanwhile.
    starves_threads = False
    #: Blocks that a split runs before others get a turn, unless it parks first.
    quantum = 4096

    def elect(self, mask: int) -> int:
        """The lane that elect.sync picks: the lowest, as an H200 does (the ISA leaves it open)."""
        return (mask & -mask).bit_length() - 1

    def gives_up(self) -> bool:
        """Whether a try_wait that could go on waiting answers false now."""
        return False

    def starts(self) -> bool:
        """Whether a launch, or a cluster that may still be canceled, starts now that it can."""
        return True
