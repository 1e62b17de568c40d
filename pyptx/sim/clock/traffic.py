"""What a launch reads from memory: the bytes that its clusters share, and those that L2 keeps.

All positions of a chip load at the same time what position 0 loads, for their own tiles. A probe runs every
cluster of the first wave up to its first loads and so finds how many of the loaded bytes are the same. What
several clusters load at about the same time comes from memory once. Later waves find in L2 what it can hold,
and the first one what a launch on the same arrays has left there.

Clusters that load the same do not stay together: nothing makes them wait for each other. How far they are
apart grows as the root of the time. When L2 has lost a byte before the next of them asks for it, memory
delivers it again. So long sums cost more bytes from memory than short ones.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from ...core.records import dataclass
from ..engine.work import Copy
from .placement import Placement

__all__ = ["Traffic", "alike_of", "equal_of", "merged_of", "traffic_of"]

#: Rounds in which what a cache loses settles.
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Traffic:
    """Loads of a launch.

    Attributes:
        loaded: bytes that all clusters load into shared memory.
        fetched: bytes of them that come from memory.
        kept: share of the arrays that L2 holds before the launch.
        again: bytes that threads load again while L2 has them still, beside those.
        asked: bytes of them that differ, of clusters of a wave that ask at the same time.
    """

    loaded: float
    fetched: float
    kept: float = 0.0
    again: float = 0.0
    asked: float = 0.0

    @property
    def missing(self) -> float:
        """Share of the loaded bytes that come from memory."""
        return self.fetched / self.loaded if self.loaded else 0.0

    def later(self, waves: float, *, in_step: bool) -> float:
        """Return the share of what CTAs load which start in the place of others that comes from memory.

        Args:
            waves: how many waves of CTAs there are.
            in_step: True if those that load the same ask for it at the same time, and all wait for memory.
        """
        first = self.asked / max(1.0, waves)
        asked = self.asked if in_step else self.loaded
        behind = asked - asked / max(1.0, waves)
        if behind <= 0:
            return 1.0
        return min(1.0, max(0.0, self.fetched - first) / behind)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a launch loads of one array: different bytes, what clusters in step ask L2 for, and all."""

    unique: float
    asked: float
    nbytes: float

    def fetched(self, lost: float, drift: float, passed: float, kept: float) -> float:
        """Return the bytes that come from memory.

        Args:
            lost: share of the array that L2 loses from one wave to the next.
            drift: by how much of the launch's time clusters that load the same are apart.
            passed: how often memory fills L2 during the launch.
            kept: share of the array that L2 holds before the launch.
        """
        unique = self.unique * (1 - kept)
        in_step = unique + (self.asked - self.unique) * lost
        # No cluster is further apart than the waves that load the same.
        filled = min(drift, self.unique / self.asked) * passed
        if filled <= 1.0:
            return in_step
        # Of those that load the same, spread over the drift, none came so lately that L2 has the bytes still.
        missed = min(lost, math.pow(1.0 - 1.0 / filled, self.nbytes / self.asked - 1.0))
        return max(in_step, unique + (self.nbytes - self.unique) * missed)


def traffic_of(
    first: Iterable[Copy],
    own: Iterable[tuple[Copy, float]],
    placement: Placement,
    sizes: Mapping[int, int],
    capacity: float,
    drift: float = 0.0,
    stored: Collection[int] | None = None,
    sweeps: Iterable[Copy] = (),
) -> Traffic:
    """Return the traffic of a launch.

    Args:
        first: the first loads of all clusters of a wave.
        own: the loads of the clusters of one position, and how often the position does each.
        placement: how the launch lies on the chip.
        sizes: bytes of each array, by its address.
        capacity: bytes that L2 keeps.
        drift: by how much of the launch's time clusters that load the same are apart when the launch ends.
        stored: places in the arrays that the launch stores, if the same launch has just been; None if L2
            holds none of the arrays.
        sweeps: what the clusters of a wave load one behind the other (:func:`.sharing.sweeps_of`). What L2
            can hold of it is fetched once.
    """
    bases = sorted(sizes)

    def array_at(place: int) -> int:
        at = bisect_right(bases, place) - 1
        return bases[at] if at >= 0 else -1

    def array_of(copy: Copy) -> int:
        assert copy.source is not None
        return array_at(copy.source[0])

    at_once, swept = _shared(first, array_of), _shared(sweeps, array_of)
    missed = _lost(sum(each.unique for each in swept.values()) / capacity)
    of_array: dict[int, float] = {}
    for copy, times in own:
        if copy.source is not None:
            base = array_of(copy)
            of_array[base] = of_array.get(base, 0.0) + copy.nbytes * times
    found: list[_Loaded] = []
    loaded = 0.0
    for base, of_position in of_array.items():
        nbytes = placement.times * of_position
        unique = min(nbytes, sizes.get(base, nbytes))
        once_of = at_once[base].once if base in at_once else unique / nbytes
        if base in swept:
            once_of = missed * once_of + (1 - missed) * min(once_of, swept[base].once)
        loaded += nbytes
        # A launch may load parts of an array only, which are no more than what its waves ask for in step.
        asked = nbytes * once_of
        found.append(_Loaded(min(unique, asked), asked, nbytes))
    once, asked = sum(each.unique for each in found), sum(each.asked for each in found)
    kept = 0.0
    if stored is not None:
        # Until the launch comes again to a byte, it has asked for all of its arrays.
        others = {array_at(place) for place in stored} - of_array.keys()
        more = sum(sizes.get(base, 0) for base in others)
        kept = 1.0 - _lost((once + more) / capacity)
    # L2 is asked for an array so many times, and for everything else in between.
    lost = [_lost(min(once, asked * each.unique / each.asked) / capacity) for each in found]
    fetched = loaded
    for _ in range(_ROUNDS):
        passed = fetched / capacity
        again = sum(each.fetched(part, drift, passed, kept) for each, part in zip(found, lost, strict=True))
        # What halves of halves leave is no byte.
        fetched = (fetched + again) / 2 if fetched + again > 2 else 0.0
    return Traffic(loaded, fetched, kept, asked=asked)


@dataclass(frozen=True, slots=True)
class _Shared:
    """Loads of one array: different bytes, and all."""

    unique: float
    nbytes: float

    @property
    def once(self) -> float:
        """The share that is left if equal loads count once."""
        return self.unique / self.nbytes


def _shared(loads: Iterable[Copy], array_of: Callable[[Copy], int]) -> dict[int, _Shared]:
    """Return what loads of each array have in common."""
    parts: dict[int, dict[Hashable, int]] = {}
    total: dict[int, int] = {}
    for copy in loads:
        if copy.source is not None:
            base = array_of(copy)
            parts.setdefault(base, {})[copy.source] = copy.nbytes
            total[base] = total.get(base, 0) + copy.nbytes
    return {base: _Shared(sum(some.values()), total[base]) for base, some in parts.items()}


def _lost(passed: float) -> float:
    """Return the share of a cache that is gone when ``passed`` times its capacity has been asked for.

    Each byte that misses replaces some other one: of what was there, ``exp(-misses)`` is left.
    """
    lost = 1.0 if passed > 1.0 else 0.0
    for _ in range(_ROUNDS):
        lost = 1.0 - math.exp(-lost * passed)
    return lost


def equal_of(loads: Iterable[Copy]) -> float:
    """Return how often the bytes of some loads are asked for, on average."""
    shared = _shared(loads, lambda copy: 0)
    return 1 / shared[0].once if shared and shared[0].unique else 1.0


def merged_of(loads: Iterable[Copy], loaders: Iterable[int], groups: Iterable[int]) -> float:
    """Return the share of the loaded bytes that another multiprocessor of the same group asks for, too.

    Of equal loads, all but one count.

    Args:
        loads: the first loads of all clusters.
        loaders: for each of them, the number of the multiprocessor.
        groups: how many multiprocessors each group has, in the order of their numbers.
    """
    ends = list(accumulate(groups))
    asked: Counter[tuple[int, Hashable]] = Counter()
    different: dict[tuple[int, Hashable, int], int] = {}
    total = 0
    for copy, number in zip(loads, loaders, strict=True):
        # A multiprocessor that loads the same again asks again.
        asked[number, copy.source] += 1
        different[bisect_right(ends, number), copy.source, asked[number, copy.source]] = copy.nbytes
        total += copy.nbytes
    return 1 - sum(different.values()) / total if total else 0.0


def alike_of(loads: Iterable[Copy], loaders: Iterable[int], groups: Iterable[int]) -> float:
    """Return the share of the loaded bytes that a group need not ask for, since all loads are equal.

    This is :func:`merged_of` where two multiprocessors load the same only if all that they load is the same.
    """
    pairs = list(zip(loads, loaders, strict=True))
    whole: dict[int, list[Hashable]] = {}
    for copy, number in pairs:
        whole.setdefault(number, []).append(copy.source)
    kinds = {number: tuple(sources) for number, sources in whole.items()}
    known: dict[Hashable, int] = {}
    places = {number: known.setdefault(kind, len(known)) for number, kind in kinds.items()}
    marked = [replace(copy, source=(places[number], copy.source)) for copy, number in pairs]
    return merged_of(marked, (number for _, number in pairs), groups)
