"""Moments of threads: the events that others must know of, and who knows of them.

The order is that of execution (:attr:`~..sanitizer.clocks.Level.EXECUTION`): relaxed operations order
execution, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.records import dataclass
from ...core.source import SourceLocation
from ..engine.stream import Threads
from ..sanitizer.agents import LaneGroup, WarpAgent, bits_of
from ..sanitizer.clocks import LANES_KEY, NO_CLOCK, Clock, Level
from ..sanitizer.world import World

__all__ = ["Moment", "causality", "execution", "groups_of", "known_lanes", "moment"]


@dataclass(eq=False, slots=True)
class Moment:
    """Something that lanes of one warp did.

    Attributes:
        key: key of the warp in clocks.
        time: the warp's time.
        mask: the lanes.
        launch: the key in clocks that stands for the completion of the launch.
        location: the line.
    """

    key: int
    time: int
    mask: int
    launch: int
    location: SourceLocation | None


def moment(world: World, warp: WarpAgent, mask: int, location: SourceLocation | None) -> Moment:
    """Return what the lanes of ``mask`` do now."""
    # What was released before now does not contain what the lanes do now.
    warp.advance()
    return Moment(warp.key, warp.time, mask, world.launches[warp.cta.launch], location)


def execution(group: LaneGroup) -> Clock:
    """Return what the lanes of a group know of others in the order of execution."""
    return group.levels.get(Level.EXECUTION, NO_CLOCK)


def causality(group: LaneGroup) -> Clock:
    """Return what the lanes of a group know of others in causality order."""
    return group.levels.get(Level.SYNC, NO_CLOCK)


def known_lanes(clock: Clock, then: Moment, key: int = 0, mask: int = 0) -> int:
    """Return those lanes of ``then`` that an agent knows of.

    ``key`` and ``mask`` name lanes of a warp that are the agent, and so know what they did themselves.
    """
    get = clock.get
    if get(then.key, 0) >= then.time or then.launch in clock:
        return then.mask
    known = mask & then.mask if key == then.key else 0
    if get(then.key + LANES_KEY, 0) >= then.time:
        for lane in bits_of(then.mask & ~known):
            if get(then.key + 1 + lane, 0) >= then.time:
                known |= 1 << lane
    return known


def groups_of(world: World, cta: tuple[int, int], threads: Threads) -> Iterator[tuple[LaneGroup, int]]:
    """Yield the groups of lanes among some threads, each with the mask of these lanes."""
    for warp, mask in world.warps_of(world.ctas[cta], threads):
        for group in warp.groups:
            both = group.mask & mask
            if both:
                yield group, both
