"""One scheduler of a multiprocessor: how fast the blocks of several warps go on together.

A block that runs alone takes its cycles, in which it needs a part of the issue slots and of each pipe, spread
evenly. Blocks of several warps go on at that speed as long as no unit is asked for more than it has; from
there on those that ask for it slow down alike, and the others take what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ...core.records import dataclass
from .beside import MUFU

__all__ = ["ISSUE", "Request", "Scheduler"]

#: The name of the issue slots among the units.
ISSUE = "issue"
#: What is left of MUFU, however many other instructions there are.
_LEAST = 0.25
#: Cycles of a block that are as good as none.
_NONE = 1e-6


@dataclass(frozen=True, slots=True)
class Request:
    """What a block asks for.

    Attributes:
        cycles: what it takes alone.
        issues: issue slots.
        pipes: cycles of each pipe.
        run: issue slots in a row behind which another warp that is ready goes on.
        disturbed: cycles of MUFU that it takes from others, without a need for it.
    """

    cycles: float
    issues: float
    pipes: Mapping[str, float]
    run: float
    disturbed: float = 0.0


@dataclass(slots=True)
class _Running:
    """A block of a warp.

    Attributes:
        left: cycles that it would still take alone.
        rates: the share of each unit that it needs alone.
        disturbed: the share of MUFU that others lose to it.
        run: issue slots in a row that its warp does not give away.
        held: until when another warp keeps it from its first slot.
    """

    left: float
    rates: Mapping[str, float]
    disturbed: float
    run: float
    held: float

    def copy(self) -> _Running:
        return _Running(self.left, self.rates, self.disturbed, self.run, self.held)


class Scheduler:
    """The issue slots and pipes of one scheduler, which its warps share.

    The end of a block is known when it begins, so what it loses to blocks that begin later, its warp pays
    with its next one.

    Attributes:
        busy: for how long each unit has worked.
    """

    def __init__(self) -> None:
        self.busy: dict[str, float] = {}
        self._running: dict[object, _Running] = {}
        self._time = 0.0

    def take(self, warp: object, now: float, begin: float, request: Request) -> float:
        """Return when a warp is through a block that it begins at ``begin``.

        Args:
            warp: the warp.
            now: the time of the call, not before that of the call before, nor behind ``begin``.
            begin: when the warp can issue the first instruction.
            request: what the block asks for.
        """
        busy, cycles, issues, pipes = self.busy, request.cycles, request.issues, request.pipes
        busy[ISSUE] = busy.get(ISSUE, 0.0) + issues
        cycles = max(cycles, issues)
        for name, duration in pipes.items():
            busy[name] = busy.get(name, 0.0) + duration
            cycles = max(cycles, duration)
        if now > self._time:
            if self._running:
                _advance(self._running, self._time, now)
            self._time = now
        if cycles <= 0:
            return begin
        running, owed = self._running, self._running.pop(warp, None)
        left, disturbed, asked = cycles, request.disturbed, {**pipes, ISSUE: issues}
        if owed is not None:
            left += owed.left
            disturbed += owed.left * owed.disturbed
            for name, rate in owed.rates.items():
                asked[name] = asked.get(name, 0.0) + owed.left * rate
        rates = {name: time / left for name, time in asked.items()}
        ahead = [each for each in running.values() if each.held <= begin]
        kept = min(
            max((each.left * each.rates[ISSUE] for each in ahead), default=0.0),
            max((each.run for each in ahead), default=0.0),
        )
        running[warp] = _Running(left, rates, disturbed / left, request.run, begin + kept)
        if len(running) == 1 or (not kept and _fits(running.values())):
            return begin + left
        copies = {key: each.copy() for key, each in running.items()}
        return _advance(copies, self._time, None, warp)


def _asked(blocks: Iterable[_Running]) -> dict[str, float]:
    """Return what the blocks need of each unit together at full speed."""
    asked: dict[str, float] = {}
    for each in blocks:
        for name, rate in each.rates.items():
            asked[name] = asked.get(name, 0.0) + rate
    return asked


def _fits(blocks: Collection[_Running]) -> bool:
    """True if the blocks ask for no more of any unit than it has."""
    asked = _asked(blocks)
    if MUFU in asked:
        asked[MUFU] += sum(each.disturbed for each in blocks)
    return max(asked.values(), default=0.0) <= 1


def _advance(running: dict[object, _Running], time: float, until: float | None, last: object = None) -> float:
    """Let blocks go on from ``time`` to ``until``, or to the end of that of ``last``. Return the time."""
    while running:
        active = [(key, each) for key, each in running.items() if each.held <= time]
        speeds = _speeds([each for _, each in active])
        step = min(
            [
                *(each.left / speed for (_, each), speed in zip(active, speeds, strict=True)),
                *(each.held - time for each in running.values() if each.held > time),
            ]
        )
        if until is not None and time + step >= until:
            step = until - time
        time += step
        for (key, each), speed in zip(active, speeds, strict=True):
            each.left -= step * speed
            if each.left <= _NONE:
                del running[key]
        if until is not None and time >= until:
            return until
        if last is not None and last not in running:
            return time
    return time if until is None else until


def _speeds(blocks: Sequence[_Running]) -> list[float]:
    """Return the speed of each block, 1 for that alone: all slow down alike, but for those who can go on."""
    if len(blocks) <= 1 or _fits(blocks):
        return [1.0] * len(blocks)
    speeds = [0.0] * len(blocks)
    free = list(range(len(blocks)))
    left: dict[str, float] = {name: 1.0 for each in blocks for name in each.rates}
    left[MUFU] = max(_LEAST, 1.0 - sum(each.disturbed for each in blocks))
    while free:
        asked = _asked(blocks[place] for place in free)
        bounds = ((left[name] / rate, name) for name, rate in asked.items() if rate > 0)
        speed, scarce = min(bounds, default=(1.0, ""))
        if speed >= 1:
            for place in free:
                speeds[place] = 1.0
            return speeds
        bound = [place for place in free if blocks[place].rates.get(scarce, 0.0) > 0]
        for place in bound:
            speeds[place] = max(speed, _NONE)
            for name, rate in blocks[place].rates.items():
                left[name] = max(0.0, left[name] - rate * speed)
        free = [place for place in free if place not in bound]
    return speeds
