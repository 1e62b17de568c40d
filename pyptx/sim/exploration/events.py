"""What one transition of a thread or an engine does to shared state, and which transitions commute.

A transition is one visible instruction of a split of a warp, one step of an asynchronous operation, or the
end of a wait. Its :class:`Touch` es say which objects it reads or changes. Two transitions commute if no
touch of one conflicts with a touch of the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.source import SourceLocation

__all__ = [
    "FENCES",
    "Act",
    "Agent",
    "Alternatives",
    "Choice",
    "Event",
    "Meeting",
    "Role",
    "Touch",
    "agent_of",
    "chosen",
    "conflict",
    "conflicts",
    "ordered",
]

#: Name of a thread group or an engine's step, equal in all runs: see :mod:`.stepwise`.
Agent = str
#: An agent, and what it chooses: see :func:`chosen`.
Choice = str
#: The key by which fences of kind ``sc`` count as contended: then their order matters.
FENCES = ("fence.sc",)


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
class Alternatives:
    """What a transition may choose whose strong accesses have several writes to choose from.

    Attributes:
        number: of what it has chosen; 0 is the last write of each word.
        count: how many possibilities there are.
        words: number of words with several writes.
        others: for each possibility of a word but the first: the transition whose write it follows, and
            those whose writes come later, by identity.
        fenced: True if fences of kind ``sc`` leave out possibilities.
    """

    number: int
    count: int = 1
    words: int = 0
    others: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    fenced: bool = False


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
        weak: for a strong access that may choose among writes: what it may choose; else None.
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
    weak: Alternatives | None = None
    failed: bool = False
    location: SourceLocation | None = None

    @property
    def choice(self) -> Choice:
        """The choice of a run that leads to this event."""
        return chosen(self.agent, 0 if self.weak is None else self.weak.number)


def chosen(agent: Agent, number: int) -> Choice:
    """Return the choice that ``agent`` acts, and chooses possibility ``number`` (:class:`Alternatives`)."""
    return f"{agent}@{number}" if number else agent


def agent_of(choice: Choice) -> tuple[Agent, int]:
    """Return the agent of a choice, and the number of what it chooses."""
    agent, _, number = choice.partition("@")
    return agent, int(number or 0)


def commute(one: str, other: str) -> bool:
    """True if touches of these kinds commute, at whatever bytes."""
    return one == other and one != Act.CHANGE


def ordered(object: Hashable) -> Hashable:
    """Return the key by which all writes of an object count as contended: then those that commute do not."""
    return ("ordered", object)


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
