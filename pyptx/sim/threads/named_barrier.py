"""The sixteen barriers of a CTA: arrivals of warps in the current round, and votes.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-bar`. A barrier counts whole warps:
a warp arrives once all of its live lanes have arrived, and counts as 32 threads. The barrier counts arrivals,
not different warps: a warp that arrived without a wait may arrive again in the same round. FlashAttention's
first warpgroup does this when it passes the turn to itself. If the instruction names no thread count, the
round waits for every warp that has not exited.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cta import CTA

__all__ = ["BARRIERS", "BarrierMisuse", "NamedBarrier", "Round", "RoundKind"]

#: Barriers of a CTA: 0 to 15.
BARRIERS = 16


class BarrierMisuse(Exception):
    """Raised for an illegal arrival. The text says what is wrong."""


class RoundKind(enum.Enum):
    """What the threads of a round do: only synchronize, ``SYNC``, or also combine votes.

    Arrivals that do not wait are ``SYNC``, too.
    """

    SYNC = "sync"
    POPC = "popc"
    AND = "and"
    OR = "or"


class Round:
    """One use of a barrier, from its first arrival until all threads have arrived.

    Attributes:
        number: number of the barrier's round, from 0.
        kind: what its threads do; the same for all of them.
        count: number of threads that the instructions name, or None for all.
        arrivals: number of arrivals of whole warps.
        partial: for warps of which only some lanes have arrived: mask of these lanes.
        places: for such warps, the .aligned instruction at which the lanes arrived.
        votes, voters: number of lanes whose predicate was true, and of lanes that voted.
        complete: True if all threads have arrived.
    """

    __slots__ = ("arrivals", "complete", "count", "kind", "number", "partial", "places", "voters", "votes")

    def __init__(self, kind: RoundKind, number: int) -> None:
        self.kind, self.number = kind, number
        self.count: int | None = None
        self.arrivals = 0
        self.partial: dict[int, int] = {}
        self.places: dict[int, int | None] = {}
        self.votes = self.voters = 0
        self.complete = False

    @property
    def result(self) -> int:
        """Result of a reduction: the number of true votes (popc), or 1 if all (and) or any (or) are true."""
        if self.kind is RoundKind.POPC:
            return self.votes
        return int(self.votes == self.voters if self.kind is RoundKind.AND else self.votes > 0)


class NamedBarrier:
    """Barrier ``number`` of a CTA."""

    __slots__ = ("cta", "key", "number", "round", "rounds")

    def __init__(self, cta: CTA, number: int) -> None:
        self.cta, self.number = cta, number
        #: For observers: a key that no other barrier of the run has at the same time.
        self.key = (*cta.key, number)
        self.round: Round | None = None
        #: Number of rounds that have begun.
        self.rounds = 0

    def expected(self, round_: Round) -> int:
        """Return how many threads must arrive to complete a round; a warp counts as 32."""
        return 32 * self.cta.live_warps if round_.count is None else round_.count

    def arrive(
        self,
        warp: int,
        lanes: int,
        kind: RoundKind,
        count: int | None,
        *,
        yes: int = 0,
        place: int | None = None,
    ) -> Round:
        """Count ``lanes`` of ``warp`` as arrived. ``yes`` is the mask of the lanes that vote yes.

        ``place`` is the statement of an .aligned instruction: all lanes of the warp must arrive at the same
        statement.

        Raises:
            BarrierMisuse: the arrival is illegal.
        """
        if count is not None:
            self._check_count(count)
        round_ = self.round
        if round_ is None:
            round_ = self.round = Round(kind, self.rounds)
            self.rounds += 1
            round_.count = count
        elif kind is not round_.kind:
            raise BarrierMisuse(
                f"{_in_words(kind)} arrives at barrier {self.number}, but its round began with "
                f"{_in_words(round_.kind)}"
            )
        elif count != round_.count:
            everyone = 32 * len(self.cta.warps)
            # A count of all threads means the same as no count, until some threads have exited.
            if {count, round_.count} != {None, everyone}:
                raise BarrierMisuse(
                    f"an arrival at barrier {self.number} has {_threads(count)}, but its round began with "
                    f"{_threads(round_.count)}"
                )
            round_.count = everyone
        if round_.places.setdefault(warp, place) != place:
            raise BarrierMisuse(
                f"lanes of warp {warp} arrive at barrier {self.number} at two places, one of them .aligned"
            )
        round_.votes += yes.bit_count()
        round_.voters += lanes.bit_count()
        round_.partial[warp] = round_.partial.get(warp, 0) | lanes
        self.advance(round_)
        return round_

    def _check_count(self, count: int) -> None:
        if count % 32 or count <= 0:
            raise BarrierMisuse(f"a thread count of {count}: it must be a multiple of 32, at least 32")
        if count > 32 * len(self.cta.warps):
            raise BarrierMisuse(f"a thread count of {count}, but the CTA has {self.cta.threads} threads")

    def advance(self, round_: Round) -> bool:
        """Complete the round if all threads have arrived; return True if it is complete.

        A warp whose missing lanes have exited counts as arrived.
        """
        if round_.complete:
            return True
        for warp, lanes in list(round_.partial.items()):
            if not self.cta.warps[warp].live & ~lanes:
                del round_.partial[warp], round_.places[warp]
                round_.arrivals += 1
        if 32 * round_.arrivals < self.expected(round_):
            return False
        round_.complete = True
        self.round = None
        self.cta.machine.memory.version += 1
        return True

    def progress(self, round_: Round) -> str:
        """Return text for messages that says how many threads have arrived."""
        return f"{32 * round_.arrivals} of {self.expected(round_)} threads have arrived"


def _threads(count: int | None) -> str:
    return "no thread count" if count is None else f"a thread count of {count}"


def _in_words(kind: RoundKind) -> str:
    return "a barrier without a reduction" if kind is RoundKind.SYNC else f"a reduction .{kind.value}"
