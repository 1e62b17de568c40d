"""The threads that share a row, and their reductions: lanes of a warp, several warps, or CTAs of a cluster.

Owns the order in which partial results are combined, and the memory and barriers of it.  A *team* is a fixed
number of neighboring threads; a CTA has one or more teams, each of which works on a row of its own::

    2, 4, 8, 16, 32 threads      shuffles only
    a multiple of 32             shuffles -> one number of each warp in shared memory -> barrier -> all read
    them CTAs of a cluster            the same, but each warp writes its number to the shared memory of every
    CTA
                                 (lane r to CTA r), and the barrier is the cluster's
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import SpecError
from ..core.types import f32, u32
from ..dsl import Reg, ptx, reg, smem

__all__ = ["RowTeam"]

_LANES = 32
_MOST_THREADS = 1024
#: Named barriers of a CTA.
_BARRIERS = 16
#: Chains in which partial results of warps are combined.
_WAYS = 4
_INSTRUCTIONS: dict[str, Any] = {
    "add": ptx.inst.add.rn.f32,
    "max": ptx.inst.max.f32,
    "min": ptx.inst.min.f32,
}


def check_team(size: int, teams: int, cluster: int) -> None:
    """Raise :class:`SpecError` for numbers that no team can have. Records nothing."""
    narrow = size in (2, 4, 8, 16, 32)
    if type(size) is not int or not (narrow or (size > 0 and size % _LANES == 0)):
        raise SpecError(f"size is {size!r}: expected 2, 4, 8, 16 or a multiple of 32 threads")
    if type(teams) is not int or teams < 1 or size * teams % _LANES or size * teams > _MOST_THREADS:
        raise SpecError(
            f"{teams!r} teams of {size} threads: expected whole warps, {_LANES} to {_MOST_THREADS} threads"
        )
    if size > _LANES and teams > _BARRIERS:
        raise SpecError(f"{teams} teams of several warps: a CTA has {_BARRIERS} barriers, one for each")
    if cluster not in (1, 2, 4, 8):
        raise SpecError(f"cluster is {cluster!r}: expected 1, 2, 4 or 8 CTAs")
    if cluster > 1 and (teams > 1 or size < _LANES):
        raise SpecError(
            f"{teams} teams of {size} threads in a cluster: expected one team of whole warps in each CTA"
        )


class RowTeam:
    """The team of this thread. The constructor records about 8 instructions. All threads of the CTA call it.

    ::

        team = kit.RowTeam(256)
        total = team.reduce(partial, "add")         # in all threads of the team

    Args:
        size: threads of a team in one CTA: 2, 4, 8, 16, or a multiple of 32.
        teams: number of teams of a CTA; ``size * teams`` threads are the whole CTA, of one dimension.
        cluster: number of CTAs that share a row: 1, 2, 4 or 8; above 1 the CTA has one team.
        most: largest number of values that one :meth:`reduce` combines.

    Attributes:
        lane: number of this thread in its team, within the CTA, u32.
        number: number of the team in the CTA: a u32 register, or 0 if there is one team.
        rank: number of the CTA in the cluster: a u32 register, or 0 without a cluster.
        whole: whether the team has a whole row; False refuses reductions.

    Watch out: with ``cluster`` above 1 the constructor ends with a barrier of the cluster, since other CTAs
    write to this CTA's memory.

    Raises:
        SpecError: numbers that do not fit a CTA.
    """

    def __init__(self, size: int, *, teams: int = 1, cluster: int = 1, most: int = 1) -> None:
        check_team(size, teams, cluster)
        self.size, self.teams, self.cluster, self.most = size, teams, cluster, most
        self.whole = True
        self.warps = max(1, size // _LANES)
        tid = ptx.special.tid.x()
        self.number: Reg | int = 0
        self.lane = tid
        if teams > 1:
            if size & (size - 1):
                self.number, self.lane = tid // size, tid % size
            else:
                self.number, self.lane = tid >> (size.bit_length() - 1), tid & (size - 1)
            if size >= _LANES:
                # A shuffle shows ptxas that the lanes of a warp agree.
                self.number = ptx.warp.shfl_idx(self.number, 0)
        self.rank: Reg | int = ptx.cluster.rank() if cluster > 1 else 0
        self._parts = self.warps * cluster
        if self._parts == 1:
            return
        # A number of each warp (and CTA), for each value; padded so that four are one load.
        self._stride = -(-self._parts // _WAYS) * _WAYS * 4
        half = teams * most * self._stride
        scratch = smem.alloc(2 * half, align=16, name="row_parts")
        self._half = reg.scalar(u32)
        ptx.inst.mov.u32(self._half, scratch.addr)
        if isinstance(self.number, Reg):
            ptx.inst.mad.lo.u32(self._half, self.number, most * self._stride, self._half)
        self._both = self._half * 2 + half
        warp = ptx.warp.shfl_idx(self.lane >> 5, 0)
        lane = ptx.special.laneid()
        if cluster > 1:
            # Lane r writes to CTA r: from an address here to the same one there is the same distance for all.
            there = ptx.cluster.map(scratch.addr, lane & (cluster - 1)) - scratch.addr
            self._own = there + (warp + self.rank * self.warps) * 4
            self._writes = lane < cluster
            # The other CTAs must run before this one writes to them; no memory needs an order here.
            ptx.cluster.arrive(sem="relaxed")
            ptx.cluster.wait()
        else:
            self._own = warp * 4
            self._writes = lane == 0

    def sync(self) -> None:
        """Wait for the threads of the team in this CTA. Records one ``bar.sync`` (``bar.warp.sync``)."""
        if self.size <= _LANES:
            ptx.warp.sync()
        elif self.teams == 1:
            ptx.bar.sync(0)
        else:
            ptx.bar.sync(self.number, self.size)

    def reduce(self, values: Reg | Sequence[Reg], operation: str, *, ways: bool = False) -> Any:
        """Combine a value over all threads of the team; every thread gets the result.

        The order is fixed: a butterfly over the lanes of a warp, from lanes 16 apart to neighbors; then chain
        ``i % 4`` combines the numbers of warp ``i`` (warp ``i % warps`` of CTA ``i // warps``) in order, and
        the chains are combined in order.

        Records for each value 10 instructions for a warp (2 for each halving of a smaller team). For several
        warps there are besides one ``st``, one barrier for all values, a ``ld`` for four warps and an
        operation for each warp.

        Args:
            values: f32 register, or a sequence of them.
            operation: ``"add"``, ``"max"`` or ``"min"``. ``max`` and ``min`` ignore NaN unless all are.
            ways: combine the values of the sequence with each other first, into one.

        Returns:
            an f32 register, or a list of them for a sequence (one register with ``ways``).

        Raises:
            SpecError: another operation, more values than the team has memory for, or parts of rows.
        """
        self._check_whole()
        if operation not in _INSTRUCTIONS:
            raise SpecError(f"operation is {operation!r}: expected {', '.join(map(repr, _INSTRUCTIONS))}")
        single = isinstance(values, Reg)
        given: list[Reg] = [values] if isinstance(values, Reg) else list(values)
        if ways:
            given, single = [_chained(given, operation)], True
        if len(given) > self.most:
            raise SpecError(f"{len(given)} values: the team has memory for {self.most}", hint="pass most=")
        results = [ptx.warp.reduce(value, operation, width=min(self.size, _LANES)) for value in given]
        if self._parts > 1:
            results = self._across_warps(results, operation)
        return results[0] if single else results

    def moments(self, total: Reg, squares: Reg, each: int) -> tuple[Reg, Reg]:
        """Combine sums, and sums of squared differences from the mean, in one reduction with one barrier.

        Two groups of n elements with the sums a and b have together the squared differences of both and
        ``(a - b)**2 / (2 * n)``.  The lanes of a warp combine theirs so in a butterfly, from lanes 16 apart
        to neighbors; then each warp does the same with one pair of numbers of each warp (and CTA).

        With u = 2**-24 and k additions of a term, the second result differs from that of exact sums by at
        most ``2 * (k + 2) * u * sqrt(levels * N * x2 * squares)``, where x2 is the mean square of all N
        elements, and ``levels = log2(threads of the row) + 1``; besides it has a rounding for each addition.

        Records 8 instructions for each halving of the team, two ``st`` and two ``ld``, and one barrier.

        Args:
            total: f32, the sum of a thread's elements.
            squares: f32, the sum of their squared differences from their mean.
            each: number of elements of a thread, the same in all threads of the team.

        Returns:
            both for the whole row, in all threads of the team.

        Raises:
            SpecError: the team's threads are no power of two, or more than 1024 in the cluster; it has memory
                for one value only; or parts of rows.
        """
        self._check_whole()
        threads = self.size * self.cluster
        if not paired(self.size, self.cluster):
            raise SpecError(f"moments of {threads} threads: expected a power of two, at most {_MOST_THREADS}")
        if self.most < 2:
            raise SpecError(f"moments are two values: the team has memory for {self.most}", hint="pass most=")
        lanes = min(self.size, _LANES)
        values = _paired(total, squares, each, lanes)
        if self._parts == 1:
            return values
        self._exchange(values)
        place = reg.scalar(u32)
        ptx.inst.mad.lo.u32(place, ptx.special.laneid() & (self._parts - 1), 4, self._half)
        total, squares = (
            ptx.load(f32, ptx.addr(place, number * self._stride), space="shared") for number in range(2)
        )
        ptx.inst.sub.u32(self._half, self._both, self._half)
        return _paired(total, squares, each * lanes, self._parts)

    def _check_whole(self) -> None:
        if not self.whole:
            raise SpecError("a reduction over a part of a row", hint="make the plan without parts=")

    def _exchange(self, values: Sequence[Reg]) -> None:
        """Store values of each warp where all warps (of all CTAs) read them. Records one barrier."""
        # Two halves of the memory take turns: a thread that writes a half has passed the barrier of the other
        # half, before which every thread had read this half.
        place = self._half + self._own
        for number, value in enumerate(values):
            at = ptx.addr(place, number * self._stride)
            space = "shared::cluster" if self.cluster > 1 else "shared"
            ptx.store(at, value, space=space, pred=self._writes)  # type: ignore[arg-type]
        if self.cluster > 1:
            ptx.cluster.sync()
        else:
            self.sync()

    def _across_warps(self, values: list[Reg], operation: str) -> list[Reg]:
        self._exchange(values)
        results = []
        for number in range(len(values)):
            parts: list[Reg] = []
            first = 0
            while first < self._parts:
                count = min(_WAYS, 1 << ((self._parts - first).bit_length() - 1))
                at = ptx.addr(self._half, number * self._stride + 4 * first)
                if count == 1:
                    parts.append(ptx.load(f32, at, space="shared"))
                else:
                    parts += ptx.load(f32, at, space="shared", vector=count)
                first += count
            results.append(_chained(parts, operation))
        ptx.inst.sub.u32(self._half, self._both, self._half)
        return results


def paired(size: int, cluster: int) -> bool:
    """Return whether :meth:`RowTeam.moments` combines a team's numbers. Records nothing."""
    threads = size * cluster
    return not threads & (threads - 1) and threads <= _MOST_THREADS


def _paired(total: Reg, squares: Reg, each: int, lanes: int) -> tuple[Reg, Reg]:
    """Combine sums and squared differences of groups of ``each`` elements over neighboring lanes."""
    while lanes > 1:
        lanes //= 2
        others = [ptx.warp.shfl_bfly(value, lanes) for value in (total, squares)]
        # The same bits in both lanes, since a square has no sign.
        difference = total - others[0]
        total, squares = total + others[0], squares + others[1]
        ptx.inst.fma.rn.f32(squares, difference * (1 / (2 * each)), difference, squares)
        each *= 2
    return total, squares


def _chained(parts: Sequence[Reg], operation: str) -> Reg:
    """Combine values in four chains, and the chains in order."""
    instruction = _INSTRUCTIONS[operation]

    def chain(some: Sequence[Reg]) -> Reg:
        if len(some) == 1:
            return some[0]
        found = reg.scalar(f32)
        instruction(found, some[0], some[1])
        for value in some[2:]:
            instruction(found, found, value)
        return found

    return chain([chain(parts[way::_WAYS]) for way in range(min(_WAYS, len(parts)))])
