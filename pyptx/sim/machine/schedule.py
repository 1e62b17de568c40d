"""Schedules: each one is a policy that decides what happens next. No other module decides this.

A policy chooses which split runs, and when each event of the engines happens. The only order that it must
keep is that of the steps' order edges.
"""

from __future__ import annotations

import math
import random
from collections.abc import MutableSequence, Sequence
from typing import TYPE_CHECKING

from ...core.errors import SpecError
from ..engine.events import Engine, Step
from ..threads.choices import ScheduleChoices

if TYPE_CHECKING:
    from ..threads.warp import Split
    from .machine import Machine

__all__ = ["Policy", "make_policy"]


class Policy(ScheduleChoices):
    """A schedule; this base class is ``eager``.

    An operation's events happen as soon as they can; the newest ready split runs.
    """

    name = "eager"

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        """Called when new steps have been issued."""
        for step in steps:
            if not step.done and step.ready:
                machine.engines.execute(step)

    def split(self, machine: Machine) -> Split:
        """Remove the split that runs next from ``machine.ready``, which is not empty, and return it."""
        return machine.ready.pop()

    def before_split(self, machine: Machine) -> None:
        """Called before each turn of a split. A policy may let events happen here."""

    def turn(self) -> int:
        """Return the number of blocks after which the chosen split, unless it parks first, gives way."""
        return self.quantum

    def idle(self, machine: Machine) -> bool:
        """Let events happen when no thread can run. Return False if there are no events."""
        return self._any_ready(machine)

    @staticmethod
    def _any_ready(machine: Machine) -> bool:
        for step in list(machine.engines.pending.values()):
            if step.ready:
                machine.engines.execute(step)
                return True
        return False


class Late(Policy):
    """``late``: events happen only when no thread can run, and then the fewest that let one thread run."""

    name = "late"

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        pass

    def starts(self) -> bool:
        return False

    def idle(self, machine: Machine) -> bool:
        for wait in reversed(machine.parked.values()):
            steps = wait.unblocking()
            if steps:
                for step in steps:
                    if not step.done:
                        machine.engines.force(step)
                return True
        return self._newest_step(machine)

    @staticmethod
    def _newest_step(machine: Machine) -> bool:
        """Let the newest step in flight happen. Used if no set of events ends a wait, or no thread waits."""
        if not machine.engines.pending:
            return False
        machine.engines.force(next(reversed(machine.engines.pending.values())))
        return True


class Random(Policy):
    """``random``: any legal choice of events, of the order of splits, and of spurious time-outs of waits.

    The elected lane stays the lowest: CUTLASS issues copies under ``elect.sync`` and has thread 0 expect
    their bytes, which breaks if the two are not one thread.
    """

    name = "random"
    warp_teams = False
    interleaves = True
    starves_threads = True
    #: Chance that an event happens before a split's turn, and chance that a try_wait times out.
    event_chance = 0.5
    give_up_chance = 0.05
    #: Chance that parked threads whose wait is over are woken while other threads can run.
    poll_chance = 0.3
    #: Chance that a warp which is held back gets its turn anyway.
    held_turn_chance = 0.005

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        # The starts have their own generator, and their chance is random, too: early and late starts both
        # find faults.
        self._starts = random.Random(seed)
        self._start_chance = self._starts.choice((0.02, 0.2, 0.6))
        # Under some seeds one warp, or one CTA of each cluster, rarely gets a turn while others can run. So
        # its first actions come late.
        self._pace = random.Random(seed)
        holds = self._pace.random() < 0.5
        self._held_rank = self._pace.choice((None, 0, 1)) if holds else None
        self._held_warp = self._pace.choice((None, *range(4))) if holds else None
        self._holds = self._held_rank is not None or self._held_warp is not None
        #: Splits that can run but are held back.
        self._held: list[Split] = []
        # Long and short turns both find faults: a race may need many other splits to run in between, or none.
        self._turns = random.Random(f"{seed}: turns")
        self._turn_chance = self._turns.choice((0.5, 0.2, 0.06))

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        pass

    def split(self, machine: Machine) -> Split:
        ready, held = machine.ready, self._held
        s = self._unheld(ready, held) if self._holds else self._take(ready)
        if held and not ready:
            # The machine tests ``ready`` to find out whether any thread can run.
            ready.append(self._take(held))
        return s

    def _unheld(self, ready: MutableSequence[Split], held: list[Split]) -> Split:
        """Return the split that runs next: one that is not held back, if there is one.

        Rarely, by chance, a split that is held back runs instead.
        """
        if held and self._pace.random() * (len(ready) + len(held)) < self.held_turn_chance * len(held):
            return self._take(held)
        while ready:
            s = self._take(ready)
            if not self._is_held(s):
                return s
            held.append(s)
        return self._take(held)

    def _take(self, splits: MutableSequence[Split]) -> Split:
        """Remove one of ``splits`` at random and return it."""
        position = self._random.randrange(len(splits))
        splits[position], splits[-1] = splits[-1], splits[position]
        return splits.pop()

    def _is_held(self, s: Split) -> bool:
        cta, number, rank = s.warp.cta, self._held_warp, self._held_rank
        held = number is None or s.warp.index == number % len(cta.warps)
        return held and (rank is None or cta.rank == rank)

    def turn(self) -> int:
        """Return a random length of a turn: after each block, the turn ends with the same probability."""
        return 1 + int(math.log(1 - self._turns.random()) / math.log(1 - self._turn_chance))

    def before_split(self, machine: Machine) -> None:
        if self._pace.random() < self.poll_chance:
            machine.poll()
        while machine.engines.pending and self._random.random() < self.event_chance:
            if not self._one(machine):
                return

    def idle(self, machine: Machine) -> bool:
        return self._one(machine)

    def _one(self, machine: Machine) -> bool:
        pool = machine.engines.pool
        if not pool:
            return False
        step = pool[self._random.randrange(len(pool))]
        while not step.ready:
            # Steps that this one is ordered after come first: follow them to a step that may happen now.
            step = self._random.choice(step.after)
        machine.engines.execute(step)
        return True

    def gives_up(self) -> bool:
        return self._random.random() < self.give_up_chance

    def starts(self) -> bool:
        return self._starts.random() < self._start_chance


class Weak(Random):
    """``weak``: like ``random``, and strong accesses choose among the writes that the memory model allows."""

    name = "weak"
    weak_reads = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._positions = random.Random(f"{seed}: positions")
        #: Chance that an access does not choose the last position.
        self._older_chance = self._positions.choice((0.1, 0.5, 0.8))

    def position(self, positions: Sequence[int]) -> int:
        if len(positions) == 1 or self._positions.random() >= self._older_chance:
            return positions[0]
        return self._positions.choice(positions[1:])


class Starve(Late):
    """``starve:ENGINE``: the events of this engine are late, and those of the other engines are eager."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name = f"starve:{engine}"

    def starts(self) -> bool:
        return True

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        self._drain(machine)

    def _drain(self, machine: Machine) -> bool:
        progress, again = False, True
        while again:
            again = False
            for step in list(machine.engines.pending.values()):
                if not step.done and step.ready and step.operation.engine is not self.engine:
                    machine.engines.execute(step)
                    progress = again = True
        return progress

    def idle(self, machine: Machine) -> bool:
        return self._drain(machine) or super().idle(machine)


def make_policy(schedule: str, seed: int) -> Policy:
    """Return the policy named ``schedule``.

    Raise :class:`SpecError`, listing the names, for any other name.
    """
    if schedule == "eager":
        return Policy()
    if schedule == "late":
        return Late()
    if schedule == "random":
        return Random(seed)
    if schedule == "weak":
        return Weak(seed)
    starved = {f"starve:{engine}": engine for engine in Engine}
    if schedule in starved:
        return Starve(starved[schedule])
    raise SpecError(
        f"unknown schedule {schedule!r}",
        hint=f"use all, sampled, eager, late, random or weak (with seed=), or one of {', '.join(starved)}",
    )
