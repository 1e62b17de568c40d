"""Where warps wait, for what, and what the awaited operation did meanwhile.

Owns :class:`StallLog`, which a timed machine fills, and its rows, :class:`Stall`. A wait is divided by what
held up the operation that ended it: the operation had not been issued yet, a unit was serving it or others
before it, or its result was on the way (latency).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...core.tuples import NamedTuple
from ...ir import RingSide
from ...timeline import Cause
from ..engine.causes import cause_of_operation, cause_of_wait
from ..engine.events import AsyncOperation
from ..engine.waits import BarrierPhase, Wait
from ..threads.warp import Split

__all__ = ["LATENCY", "NOT_ISSUED", "Passage", "Place", "Stall", "StallLog", "WarpGroup", "grouped", "merged"]

#: Parts of a wait beside those that a unit causes.
NOT_ISSUED, LATENCY = "not issued", "latency"

_ROLES = {RingSide.FULL: "consumer", RingSide.EMPTY: "producer"}
#: Warps whose waits have the same keys, leaving out those below this share of their time, form a group.
_NOTABLE = 0.1


class Passage(NamedTuple):
    """When an operation could begin, until when a unit served it, and which unit that was."""

    begun: float
    served: float
    unit: str


class Place(NamedTuple):
    """A warp of each cluster: the rank of its CTA, and its number in the CTA."""

    rank: int
    warp: int


@dataclass(frozen=True, slots=True)
class Stall:
    """Waits of warps at one line for one thing.

    Attributes:
        name: the instruction that waits.
        location: its line.
        cause: what it waits for.
        barrier: name of the buffer that holds the mbarrier, ``barrier 1``, ``cluster barrier``, or empty.
        role: ``consumer`` or ``producer`` if the mbarrier belongs to a ring, or empty.
        ended_by: the instruction and the line that ended most of these cycles; ``("", None)`` if unknown.
        warps: the warps.
        count: number of waits.
        cycles: cycles of all of them together.
        lived: cycles that the warps lived, waiting or not.
        within: of ``cycles``, for how many the awaited operation was ``"not issued"``, in which unit it was,
            and how long its result was on the way (``"latency"``). Empty for waits for other warps.
    """

    name: str
    location: SourceLocation | None
    cause: Cause
    barrier: str
    role: str
    ended_by: tuple[str, SourceLocation | None]
    warps: tuple[Place, ...]
    count: int
    cycles: float
    lived: float
    within: Mapping[str, float]

    @property
    def share(self) -> float:
        """Share of the warps' time."""
        return self.cycles / self.lived if self.lived else 0.0

    @property
    def key(self) -> tuple[Any, ...]:
        """What waits of different warps have in common: line, instruction, barrier and cause."""
        return self.location, self.name, self.barrier, self.role, self.cause


@dataclass(frozen=True, slots=True)
class WarpGroup:
    """Warps that wait at the same lines for the same things.

    Attributes:
        warps: the warps.
        lived: cycles that they lived in all.
        stalls: where they wait, longest first.
    """

    warps: tuple[Place, ...]
    lived: float
    stalls: tuple[Stall, ...]

    @property
    def running(self) -> float:
        """Share of the time in which they do not wait."""
        return max(0.0, 1.0 - sum(each.share for each in self.stalls))


class _Row:
    """What a log knows of the waits with one key."""

    __slots__ = ("count", "cycles", "enders", "within")

    def __init__(self) -> None:
        self.count, self.cycles = 0, 0.0
        self.within: dict[str, float] = {}
        self.enders: dict[tuple[str, SourceLocation | None], float] = {}


class StallLog:
    """The waits of the warps of a run, in cycles.

    ``told``, if set, is called with each stall that no wait of the machine shows: the split, the instruction
    and its line, the cause, begin and end.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[Any, ...], _Row] = {}
        #: When each CTA began, and until when each of its warps has lived.
        self._begun: dict[tuple[int, int], float] = {}
        self._ends: dict[tuple[tuple[int, int], int], float] = {}
        self._places: dict[tuple[tuple[int, int], int], Place] = {}
        self.told: Callable[[Split, str, SourceLocation | None, Cause, float, float], None] | None = None

    def begins(self, cta: tuple[int, int], time: float) -> None:
        """Note when the first warp of a CTA becomes ready."""
        self._begun[cta] = time

    def lived(self, s: Split, end: float) -> None:
        """Note that a warp lives at ``end``."""
        warp = s.warp
        key = warp.cta.key, warp.index
        if end > self._ends.get(key, 0.0):
            self._ends[key] = end
            self._places[key] = Place(warp.cta.rank, warp.index)

    def held(
        self, s: Split, name: str, location: SourceLocation | None, cause: Cause, begin: float, end: float
    ) -> None:
        """Note that a warp could not go on from ``begin`` to ``end`` without waiting for an object."""
        if end <= begin:
            return
        row = self._row(s, (name, location, cause, "", ""))
        row.count += 1
        row.cycles += end - begin
        if self.told is not None:
            self.told(s, name, location, cause, begin, end)

    def waited(self, s: Split, wait: Wait, ended_by: Any, begin: float, end: float) -> None:
        """Note a wait of the machine. ``ended_by`` is the thread or operation that ended it, or None."""
        barrier, role = wait.label, ""
        cause = cause_of_wait(wait.awaited)
        if isinstance(wait, BarrierPhase):
            barrier, role = _names(s, wait)
            if isinstance(ended_by, AsyncOperation):
                cause = cause_of_operation(ended_by)
            elif ended_by is not None:
                cause = Cause.WARPS if ended_by.cta_key == s.warp.cta.key else Cause.CLUSTER
        row = self._row(s, (s.op.name if s.op is not None else "", s.location, cause, barrier, role))
        row.count += 1
        row.cycles += end - begin
        if ended_by is None:
            return
        if isinstance(ended_by, AsyncOperation):
            name = ended_by.name
            if isinstance(ended_by.observed, Passage):
                for part, cycles in _parts(ended_by.observed, begin, end):
                    row.within[part] = row.within.get(part, 0.0) + cycles
        else:
            name = ended_by.op.name if ended_by.op is not None else ""
        ender = name, ended_by.location
        row.enders[ender] = row.enders.get(ender, 0.0) + end - begin

    def still_waits(self, s: Split, wait: Wait, begin: float, end: float) -> None:
        """Note a wait that had not ended when the run ended. Its cause is that of earlier ones like it."""
        barrier, role = _names(s, wait) if isinstance(wait, BarrierPhase) else (wait.label, "")
        own = s.warp.cta.rank, s.warp.index, s.op.name if s.op is not None else "", s.location
        like = [key for key in self._rows if (*key[:4], *key[5:]) == (*own, barrier, role)]
        cause = max(like, key=lambda key: self._rows[key].cycles)[4] if like else cause_of_wait(wait.awaited)
        row = self._row(s, (*own[2:], cause, barrier, role))
        row.count += 1
        row.cycles += end - begin
        self.lived(s, end)

    def _row(self, s: Split, what: tuple[Any, ...]) -> _Row:
        key = s.warp.cta.rank, s.warp.index, *what
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row()
        return row

    # --- results ----------------------------------------------------------------------------------

    @property
    def lives(self) -> dict[Place, float]:
        """For how many cycles each warp lived, in all clusters of the run."""
        found: dict[Place, float] = {}
        for key, end in self._ends.items():
            place = self._places[key]
            found[place] = found.get(place, 0.0) + end - self._begun[key[0]]
        return found

    @property
    def lengths(self) -> dict[tuple[int, int], float]:
        """For how many cycles each CTA lived, by its key."""
        found: dict[tuple[int, int], float] = {}
        for (cta, _), end in self._ends.items():
            found[cta] = max(found.get(cta, 0.0), end - self._begun[cta])
        return found

    def stalls(self) -> tuple[Stall, ...]:
        """Return where each warp waits, longest first."""
        lives = self.lives
        found = []
        for (rank, warp, name, location, cause, barrier, role), row in self._rows.items():
            place = Place(rank, warp)
            ender = max(row.enders, key=lambda each: row.enders[each], default=("", None))
            what = name, location, cause, barrier, role, ender, (place,)
            found.append(Stall(*what, row.count, row.cycles, lives.get(place, 0.0), row.within))
        found.sort(key=lambda each: -each.cycles)
        return tuple(found)


def _names(s: Split, wait: BarrierPhase) -> tuple[str, str]:
    """Return the name of the buffer with the mbarrier, and the role of a thread that waits for it."""
    shared = s.warp.cta.shared
    part = None if shared.parts is None else shared.parts.at(wait.barrier.address - shared.base)
    if part is None:
        return wait.barrier.name, ""
    return part.name, "" if part.ring is None else _ROLES[part.ring.side]


def _parts(passage: Passage, begin: float, end: float) -> Iterable[tuple[str, float]]:
    """Yield in which part of an operation's passage the time from ``begin`` to ``end`` was spent."""
    issued = min(max(passage.begun, begin), end)
    served = min(max(passage.served, issued), end)
    for part, cycles in (
        (NOT_ISSUED, issued - begin),
        (passage.unit, served - issued),
        (LATENCY, end - served),
    ):
        if cycles > 0:
            yield part, cycles


def merged(stalls: Iterable[Stall]) -> tuple[Stall, ...]:
    """Return stalls with those of equal keys as one, longest first. Each warp has one stall of a key."""
    found: dict[tuple[Any, ...], Stall] = {}
    heaviest: dict[tuple[Any, ...], float] = {}
    for each in stalls:
        known = found.get(each.key)
        if known is None:
            found[each.key], heaviest[each.key] = each, each.cycles
            continue
        within = dict(known.within)
        for part, cycles in each.within.items():
            within[part] = within.get(part, 0.0) + cycles
        if each.cycles > heaviest[each.key]:
            heaviest[each.key] = each.cycles
            known = replace(known, ended_by=each.ended_by)
        found[each.key] = replace(
            known,
            warps=tuple(sorted({*known.warps, *each.warps})),
            count=known.count + each.count,
            cycles=known.cycles + each.cycles,
            lived=known.lived + each.lived,
            within=within,
        )
    return tuple(sorted(found.values(), key=lambda each: -each.cycles))


def grouped(stalls: Iterable[Stall], lives: Mapping[Place, float]) -> tuple[WarpGroup, ...]:
    """Return the warps in groups that wait at the same lines for the same things, in order of the warps."""
    own: dict[Place, list[Stall]] = {place: [] for place in lives}
    for each in stalls:
        own.setdefault(each.warps[0], []).append(each)
    groups: dict[frozenset[Any], list[Place]] = {}
    for place in sorted(own):
        keys = frozenset(each.key for each in own[place] if each.share >= _NOTABLE)
        groups.setdefault(keys, []).append(place)
    found = []
    for places in groups.values():
        lived = sum(lives.get(place, 0.0) for place in places)
        rows = merged(each for place in places for each in own[place])
        # A warp that never waits at a line of its group lived as well.
        stalls_ = tuple(replace(each, lived=lived) for each in rows)
        found.append(WarpGroup(tuple(places), lived, stalls_))
    return tuple(found)
