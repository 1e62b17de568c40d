"""When CTAs start: at the begin of a launch one after the other, later in the place of others.

The chip starts the CTAs that have room from the beginning at one rate for each multiprocessor, and CTAs that
take the place of others at one rate for the whole chip. All CTAs of a cluster start together. The
multiprocessors that run here get their part of the chip's rate, and stand for those that come last.

Measured on an H200, 2026-11-30, by CTAs that write the clock and the timer: docs/clock.md, "Starts of CTAs".
"""

from __future__ import annotations

from ...core.records import dataclass
from ..threads.cta import CTA
from .figures import Figures

__all__ = ["Start", "Starts"]


@dataclass(frozen=True, slots=True)
class Start:
    """When a CTA started.

    Attributes:
        time: the cycle.
        wave: how many CTAs have had its place before it.
    """

    time: float
    wave: int


class Starts:
    """When the CTAs of a launch start.

    Args:
        figures: the figures of the GPU.
        sharers: multiprocessors that work.
    """

    def __init__(self, figures: Figures, sharers: int) -> None:
        self._figures, self._sharers = figures, sharers
        #: Until when each multiprocessor, by its number, is kept by the CTA that it was given last.
        self._given: dict[int, float] = {}

    def start(self, cta: CTA, time: float) -> float:
        """Return when a CTA runs its first instruction that can start at ``time``. Call it in their order."""
        figures, number = self._figures, cta.multiprocessor.number
        size, given = cta.grid.cluster_size, self._given.get(number)
        first = time <= figures.start
        apart = figures.start_apart(len(cta.warps), size, self._sharers, first=first)
        if given is None:
            # The last multiprocessor gets its first CTA when all others have theirs.
            started = time + apart * (self._sharers / figures.sms if size == 1 else 1.0)
        else:
            started = max(time if first else time + figures.turnaround, given + apart)
        self._given[number] = started
        return started
