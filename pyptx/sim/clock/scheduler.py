"""One scheduler of a multiprocessor: how fast the blocks of several warps go on together.

A block that runs alone takes its cycles, in which it needs a part of the issue slots and of each pipe, spread
evenly. Blocks of several warps go on at that speed as long as no unit is asked for more than it has; from
there on those that ask for it slow down alike, and the others take what is left.

Instructions of several warps that are ready in the same cycle wait for each other, also where slots are
left: stalls differ from one instruction to the next, so that warps do not find a rhythm. A warp finds the
others in the queue as often as they are there on the mean (mean value analysis of a closed queue, in
Schweitzer's form), and the slot that is being used is over when it comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ...core.records import dataclass
from .beside import MUFU

__all__ = ["ISSUE", "Request", "Scheduler"]

#: The name of the issue slots among the units.
ISSUE = "issue"
#: What is left of MUFU, however many other instructions there are.
_LEAST = 0.25
#: Cycles of a block that are as good as none.
_NONE = 1e-6
#: Rounds in which the waits for slots settle, and the longest wait, as a share of a block, that is none.
_SETTLED, _SHORT = 6, 0.005


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


@dataclass(eq=False, slots=True)
class _Running:
    """A block of a warp.

    Attributes:
        warp: the warp.
        left: cycles that it would still take alone.
        rates: the share of each unit that it needs alone.
        disturbed: the share of MUFU that others lose to it.
        run: issue slots in a row that its warp does not give away.
        held: until when another warp keeps it from its first slot.
    """

    warp: object
    left: float
    rates: Mapping[str, float]
    disturbed: float
    run: float
    held: float


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
        #: The speeds of blocks that go on together, as far as they were needed since the last block began.
        self._known: dict[tuple[_Running, ...], list[float]] = {}

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
        if issues > cycles:
            cycles = issues
        for name, duration in pipes.items():
            busy[name] = busy.get(name, 0.0) + duration
            if duration > cycles:
                cycles = duration
        if now > self._time:
            if self._running:
                self._advance(now)
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
        kept = _kept(running.values(), begin)
        running[warp] = _Running(warp, left, rates, disturbed / left, request.run, begin + kept)
        self._known.clear()
        if len(running) == 1:
            return begin + left
        blocks = list(running.values())
        if not kept and not _meet(blocks) and _fits(_asked(blocks), blocks):
            return begin + left
        return self._go_on(blocks, [each.left for each in blocks], None, warp)

    def _advance(self, until: float) -> None:
        """Let all blocks go on to a time."""
        blocks = list(self._running.values())
        left = [each.left for each in blocks]
        self._go_on(blocks, left, until, None)
        for each, cycles in zip(blocks, left, strict=True):
            each.left = cycles
        self._running = {each.warp: each for each in blocks}

    def _go_on(self, blocks: list[_Running], left: list[float], until: float | None, last: object) -> float:
        """Let blocks go on to a time, or to the end of that of the warp ``last``. Return the time.

        ``left`` has the cycles that each block would still take alone. Blocks that end are removed.
        """
        time = self._time
        while blocks:
            active = [place for place, each in enumerate(blocks) if each.held <= time]
            speeds = self._speeds([blocks[place] for place in active])
            step = math.inf
            for place, speed in zip(active, speeds, strict=True):
                needed = left[place] / speed
                if needed < step:
                    step = needed
            if len(active) < len(blocks):
                step = min(step, *(each.held - time for each in blocks if each.held > time))
            if until is not None and time + step >= until:
                step = until - time
            time += step
            ended = []
            for place, speed in zip(active, speeds, strict=True):
                rest = left[place] = left[place] - step * speed
                if rest <= _NONE:
                    ended.append(place)
            over = until is not None and time >= until
            for place in reversed(ended):
                over |= blocks[place].warp is last
                del blocks[place], left[place]
            if over:
                break
        return time

    def _speeds(self, blocks: Sequence[_Running]) -> list[float]:
        """Return the speed of each block, 1 for that alone."""
        if len(blocks) <= 1:
            return [1.0] * len(blocks)
        key = tuple(blocks)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _speeds(blocks)
        return found


def _kept(running: Iterable[_Running], begin: float) -> float:
    """Return for how long the warps whose blocks run keep another one from its first slot."""
    most = run = 0.0
    for each in running:
        if each.held <= begin:
            most, run = max(most, each.left * each.rates[ISSUE]), max(run, each.run)
    return min(most, run)


def _asked(blocks: Iterable[_Running]) -> dict[str, float]:
    """Return what the blocks need of each unit together at full speed."""
    asked: dict[str, float] = {}
    for each in blocks:
        for name, rate in each.rates.items():
            if name in asked:
                asked[name] += rate
            else:
                asked[name] = rate
    return asked


def _fits(asked: Mapping[str, float], blocks: Iterable[_Running]) -> bool:
    """True if blocks, which ask for so much of each unit together, ask for no more than it has."""
    if max(asked.values(), default=0.0) > 1:
        return False
    return MUFU not in asked or asked[MUFU] + sum([each.disturbed for each in blocks]) <= 1


def _meet(blocks: Iterable[_Running]) -> bool:
    """True if instructions of several blocks are often ready in the same cycle."""
    most = total = 0.0
    for each in blocks:
        rate = each.rates[ISSUE]
        total += rate
        if rate > most:
            most = rate
    return most * (total - most) > 2 * _SHORT


def _speeds(blocks: Sequence[_Running]) -> list[float]:
    """Return the speed of each block, 1 for that alone."""
    speeds = _shares(blocks)
    if not _meet(blocks):
        return speeds
    rates = [each.rates[ISSUE] for each in blocks]
    found = list(speeds)
    queued = [rate * speed / 2 for rate, speed in zip(rates, speeds, strict=True)]
    for _ in range(_SETTLED):
        total = sum(queued)
        for place, rate in enumerate(rates):
            waits = total - queued[place]
            speed = min(speeds[place], 1 / (1 + rate * waits))
            found[place] = speed
            # On the mean it is ready for so many cycles of each, but for half of the slot that it uses.
            queued[place] = rate * speed * (waits + 0.5)
    return found


def _shares(blocks: Sequence[_Running]) -> list[float]:
    """Return the speed of each block by what units have: all slow down alike, but those who can go on."""
    asked = _asked(blocks)
    if _fits(asked, blocks):
        return [1.0] * len(blocks)
    speeds = [0.0] * len(blocks)
    free = list(range(len(blocks)))
    left = dict.fromkeys(asked, 1.0)
    left[MUFU] = max(_LEAST, 1.0 - sum([each.disturbed for each in blocks]))
    while free:
        bounds = [(left[name] / rate, name) for name, rate in asked.items() if rate > 0]
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
        asked = _asked(blocks[place] for place in free)
    return speeds
