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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ...isa import Target
from ..code.program import SHARED_START

if TYPE_CHECKING:
    from .cta import CTA

__all__ = ["REGISTERS", "Demand", "Multiprocessor", "Multiprocessors"]

Unit = TypeVar("Unit")

#: 32-bit registers of a multiprocessor.
REGISTERS = 1 << 16
#: Least number of multiprocessors of a group: a cluster of the largest size has one for each of its CTAs.
_GROUP = 16


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
        """Take the resources of ``count`` such CTAs. A negative count frees them."""
        self.held += count
        self.threads -= count * demand.threads
        self.shared -= count * demand.shared
        self.registers -= count * demand.registers


#: Pairs of multiprocessors that form a group, on which CTAs of a cluster may be placed together.
_Pairs = Sequence[tuple[Multiprocessor, Multiprocessor]]


class Multiprocessors:
    """All multiprocessors of the largest part of a target."""

    def __init__(self, target: Target) -> None:
        # The system takes 1 KiB of shared memory for each CTA, also for the largest one.
        room = Demand(target.threads_per_sm, target.shared_limit + SHARED_START, REGISTERS)
        most = target.ctas_per_sm
        self.all = [Multiprocessor(number, most, room) for number in range(target.multiprocessors)]
        #: For each demand and cluster size, the places that may have room: multiprocessors or groups.
        self._open: dict[tuple[Demand, int], dict[int, None]] = {}

    @cached_property
    def _groups(self) -> list[_Pairs]:
        pairs = list(zip(self.all[::2], self.all[1::2], strict=True))
        count = max(1, len(self.all) // _GROUP)
        return [pairs[len(pairs) * i // count : len(pairs) * (i + 1) // count] for i in range(count)]

    @cached_property
    def _group_of(self) -> dict[int, int]:
        return {one.number: i for i, group in enumerate(self._groups) for one in _flat(group)}

    def place(self, demand: Demand, size: int) -> list[Multiprocessor] | None:
        """Place a cluster of ``size`` such CTAs.

        Return the multiprocessor of each rank, or None if there is no room.
        """
        units = range(len(self.all) if size == 1 else len(self._groups))
        open_ = self._open.setdefault((demand, size), dict.fromkeys(units))
        load = self._held if size == 1 else self._held_in_group
        while open_:
            # Choose the first of the places with the fewest CTAs.
            unit = min(open_, key=load)
            found = self._within(unit, demand, size)
            if found is not None:
                return found
            # The place stays full until a CTA leaves it.
            del open_[unit]
        return None

    def free(self, multiprocessor: Multiprocessor, demand: Demand) -> None:
        """Free the resources of a CTA that has ended, so that others can take its place."""
        multiprocessor.take(demand, -1)
        for (_, size), open_ in self._open.items():
            number = multiprocessor.number
            open_[number if size == 1 else self._group_of[number]] = None

    def _held(self, number: int) -> int:
        return self.all[number].held

    def _held_in_group(self, group: int) -> int:
        return sum(one.held for one in _flat(self._groups[group]))

    def _within(self, unit: int, demand: Demand, size: int) -> list[Multiprocessor] | None:
        if size == 1:
            one = self.all[unit]
            if not one.fits(demand):
                return None
            one.take(demand)
            return [one]
        chosen: list[Multiprocessor] = []
        options: list[tuple[Multiprocessor, ...]]
        while len(chosen) < size:
            group = self._groups[unit]
            if size - len(chosen) == 1:
                options = [(one,) for one in _flat(group) if one.fits(demand)]
            else:
                options = [pair for pair in group if pair[0].fits(demand) and pair[1].fits(demand)]
            if not options:
                for one in chosen:
                    one.take(demand, -1)
                return None
            for one in min(options, key=lambda several: sum(one.held for one in several)):
                one.take(demand)
                chosen.append(one)
        return chosen


def _flat(pairs: _Pairs) -> Iterable[Multiprocessor]:
    return (one for pair in pairs for one in pair)
