"""Multiprocessors: the resources of each one, and the placement of clusters of CTAs.

These are the hardware's rules as far as programs can observe them. A CTA stays on one multiprocessor for its
life. Several CTAs share a multiprocessor as long as threads, shared memory, CTA slots and (if the kernel
states them) registers suffice. All CTAs of a cluster are on one group of multiprocessors, and the CTAs with
ranks 2i and 2i + 1 are on the two multiprocessors of a pair. The hardware may choose any multiprocessor that
has room. This module chooses the one with the fewest CTAs, so that it uses empty multiprocessors first.

Source: PTX ISA, `#cluster-of-cooperative-thread-arrays`_ and ``#tcgen05-cta-pair``; CUDA C++ Programming
Guide, compute capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.records import dataclass
from ...isa import Target
from ..code.program import SHARED_START

if TYPE_CHECKING:
    from .cta import CTA

__all__ = ["REGISTERS", "Demand", "Multiprocessor", "Multiprocessors"]

Unit = TypeVar("Unit")

#: 32-bit registers of a multiprocessor.
REGISTERS = 1 << 16
#: Least number of multiprocessors of a group: a cluster of the largest size has one for each of its CTAs.
_GROUP_SIZE = 16
#: Number of CTAs that have their place on a multiprocessor or in a group.
_HELD = attrgetter("held")


@dataclass(frozen=True, slots=True)
class Demand:
    """Resources that a CTA needs, or that a multiprocessor has: threads (whole warps), memory, registers."""

    threads: int
    shared: int
    registers: int = 0


class Multiprocessor:
    """One multiprocessor: its free resources, its CTAs and its units. ``number`` is the value of %smid."""

    def __init__(self, number: int, most: int, room: Demand) -> None:
        self.number, self.most = number, most
        self.ctas: list[CTA] = []
        self._units: dict[Any, Any] = {}
        #: Number of CTAs that are placed here, including CTAs that have not been created yet.
        self.held = 0
        self.threads, self.shared, self.registers = room.threads, room.shared, room.registers
        #: The group that the multiprocessor belongs to, once a cluster has asked for a place.
        self.group: _Group | None = None

    def unit(self, kind: Callable[[], Unit]) -> Unit:
        """Return the state that a unit of the hardware holds here for all CTAs. The first call creates it."""
        found: Unit | None = self._units.get(kind)
        if found is None:
            found = self._units[kind] = kind()
        return found

    def fits(self, demand: Demand) -> bool:
        """True if there is room for one more CTA with this demand. A CTA always fits if no other is here."""
        return not self.held or (
            self.held < self.most
            and self.threads >= demand.threads
            and self.shared >= demand.shared
            and self.registers >= demand.registers
        )

    def take(self, demand: Demand, count: int = 1) -> None:
        """Reserve what ``count`` CTAs with this demand need. A negative count frees it."""
        self.held += count
        if self.group is not None:
            self.group.held += count
        self.threads -= count * demand.threads
        self.shared -= count * demand.shared
        self.registers -= count * demand.registers


class _Group:
    """Multiprocessors on which the CTAs of one cluster may be placed together, in pairs."""

    def __init__(self, pairs: Sequence[tuple[Multiprocessor, Multiprocessor]]) -> None:
        self.pairs = pairs
        self.all = [one for pair in pairs for one in pair]
        #: Number of CTAs that have their place here.
        self.held = sum(one.held for one in self.all)
        for one in self.all:
            one.group = self

    def place(self, demand: Demand, size: int) -> list[Multiprocessor] | None:
        """Place a cluster of ``size`` such CTAs here. Return None if there is no room."""
        chosen: list[Multiprocessor] = []
        options: list[tuple[Multiprocessor, ...]]
        while len(chosen) < size:
            if size - len(chosen) == 1:
                options = [(one,) for one in self.all if one.fits(demand)]
            else:
                options = [pair for pair in self.pairs if pair[0].fits(demand) and pair[1].fits(demand)]
            if not options:
                for one in chosen:
                    one.take(demand, -1)
                return None
            for one in min(options, key=lambda several: sum(one.held for one in several)):
                one.take(demand)
                chosen.append(one)
        return chosen


class Multiprocessors:
    """All multiprocessors of the largest part of a target."""

    def __init__(self, target: Target) -> None:
        # The system takes 1 KiB of shared memory for each CTA, also for the largest one.
        room = self._room = Demand(target.threads_per_sm, target.shared_limit + SHARED_START, REGISTERS)
        most = self._most = target.ctas_per_sm
        self.all = [Multiprocessor(number, most, room) for number in range(target.multiprocessors)]
        #: For each demand, the multiprocessors that may have room for one CTA.
        self._open: dict[Demand, dict[Multiprocessor, None]] = {}
        #: For each demand and cluster size, the groups that may have room.
        self._open_groups: dict[tuple[Demand, int], dict[_Group, None]] = {}

    @cached_property
    def _groups(self) -> list[_Group]:
        pairs = list(zip(self.all[::2], self.all[1::2], strict=True))
        count = max(1, len(self.all) // _GROUP_SIZE)
        return [_Group(pairs[len(pairs) * i // count : len(pairs) * (i + 1) // count]) for i in range(count)]

    def at_once(self, demand: Demand) -> int:
        """Return how many CTAs with this demand can be on one multiprocessor at the same time."""
        one, count = Multiprocessor(0, self._most, self._room), 0
        while one.fits(demand):
            one.take(demand)
            count += 1
        return count

    def place(self, demand: Demand, size: int) -> list[Multiprocessor] | None:
        """Place a cluster of ``size`` such CTAs.

        Return the multiprocessor of each rank, or None if there is no room.
        """
        if size == 1:
            return self._place_one(demand)
        key = demand, size
        groups = self._open_groups.get(key)
        if groups is None:
            groups = self._open_groups[key] = dict.fromkeys(self._groups)
        while groups:
            # Choose the first of the groups with the fewest CTAs.
            group = min(groups, key=_HELD)
            found = group.place(demand, size)
            if found is not None:
                return found
            # The group stays full until a CTA leaves it.
            del groups[group]
        return None

    def _place_one(self, demand: Demand) -> list[Multiprocessor] | None:
        """Place one CTA on the first of the multiprocessors with the fewest CTAs that have room for it."""
        places = self._open.get(demand)
        if places is None:
            places = self._open[demand] = dict.fromkeys(self.all)
        while places:
            one = min(places, key=_HELD)
            if one.fits(demand):
                one.take(demand)
                return [one]
            del places[one]
        return None

    def free(self, multiprocessor: Multiprocessor, demand: Demand) -> None:
        """Free the resources of a CTA that has ended, so that others can take its place."""
        multiprocessor.take(demand, -1)
        for places in self._open.values():
            places[multiprocessor] = None
        for groups in self._open_groups.values():
            assert multiprocessor.group is not None
            groups[multiprocessor.group] = None
