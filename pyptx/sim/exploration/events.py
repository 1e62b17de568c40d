"""What one transition of a thread or an engine does to shared state, and which transitions commute.

A transition is one visible instruction of a split of a warp, one step of an asynchronous operation, or the
end of a wait. Its :class:`Touch` es say which objects it reads or changes. Two transitions commute if no
touch of one conflicts with a touch of the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation

__all__ = ["Act", "Event", "Meeting", "Role", "Touch", "conflict", "conflicts"]

#: Name of a thread group or an engine's step, equal in all runs: see :mod:`.stepwise`.
Agent = str


class Act:
    """The kinds of a touch that several objects have. Other kinds commute with themselves only.

    ``READ`` changes nothing. ``CHANGE`` commutes with nothing. ``USE`` is an operation on an mbarrier, which
    conflicts with the barrier's initialization and its end.
    """

    READ, CHANGE, USE = "read", "change", "use"


@dataclass(frozen=True, slots=True)
class Touch:
    """One access to an object that several agents can reach.

    Attributes:
        object: key of a segment of memory or of a synchronization object, equal in all runs.
        kind: a kind of :class:`Act`, or a text: touches of one such kind commute.
        starts: for memory: offsets of the pieces, each of ``size`` bytes; None for other objects.
        size: bytes of a piece.
    """

    object: Hashable
    kind: str
    starts: tuple[int, ...] | None = None
    size: int = 0

    def offsets(self) -> NDArray[np.int64]:
        """Return the offsets of all bytes, ascending and without repetition."""
        return np.unique(np.array(self.starts, np.int64)[:, None] + np.arange(self.size))


class Role:
    """What an agent does at a meeting: the phase of an mbarrier, or the round of a barrier.

    ``ARRIVE`` is an arrival of threads, ``SIGNAL`` one of an engine. ``INCREMENT`` adds to the arrivals that
    a phase expects. ``ASK`` is a test of an mbarrier whose answer is "not yet".
    """

    ARRIVE, SIGNAL, EXPECT, INCREMENT = "arrive", "signal", "expect", "increment"
    COMPLETE, WAIT, ASK = "complete", "wait", "ask"


@dataclass(frozen=True, slots=True)
class Meeting:
    """An agent takes part in a phase of a synchronization object; ``amount`` of bytes or arrivals."""

    object: Hashable
    phase: int
    role: str
    amount: int = 0


@dataclass(eq=False, slots=True)
class Event:
    """One transition of a run.

    Attributes:
        agent: who acts.
        warp: the warp of a split, as (launch, CTA, warp); None for a step.
        mask: the lanes of a split.
        touches: what it reads and changes.
        meetings: the synchronization in which it takes part.
        after: numbers of earlier events that it follows for another reason: the issue of a step, say.
        ends: the CTAs that end by it.
        effect: False if the agent only reads, so that a polling loop may repeat it.
        sleeps: False if it is a read in a pass of a loop that reads again: only the whole pass decides.
        poll: if it is the first of a pass of a loop: what the pass depends on, apart from shared objects.
        amount: what it adds to one word, if it is such an atomic operation; else None.
        failed: True if it ended the run with a fault.
        location: the line.
    """

    agent: Agent
    warp: tuple[int, int, int] | None
    mask: int
    touches: list[Touch] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    after: set[int] = field(default_factory=set)
    ends: list[tuple[int, int]] = field(default_factory=list)
    effect: bool = False
    sleeps: bool = True
    poll: Hashable = None
    amount: int | None = None
    failed: bool = False
    location: SourceLocation | None = None


def commute(one: str, other: str) -> bool:
    """True if touches of these kinds commute, at whatever bytes."""
    return one == other and one != Act.CHANGE


def conflict(one: Touch, other: Touch) -> bool:
    """True if the order of two touches matters."""
    if one.object != other.object or commute(one.kind, other.kind):
        return False
    if one.starts is None or other.starts is None:
        return True
    if len(one.starts) == len(other.starts) == 1:
        return one.starts[0] < other.starts[0] + other.size and other.starts[0] < one.starts[0] + one.size
    return bool(np.intersect1d(one.offsets(), other.offsets(), assume_unique=True).size)


def conflicts(some: Iterable[Touch], others: Iterable[Touch]) -> bool:
    """True if a touch of ``some`` conflicts with one of ``others``."""
    others = list(others)
    return any(conflict(one, other) for one in some for other in others)
