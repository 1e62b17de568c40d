"""What all parts of the sanitizer share: the agents of the run, their keys in clocks, and the records."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import StateSpace
from ..memory.segments import Segment
from .agents import FULL_MASK, CtaAgent, WarpAgent
from .clocks import Clock, Level, Levels
from .operations import Chains
from .records import Records

if TYPE_CHECKING:
    from ..threads.machine_state import MachineState

__all__ = ["World", "mask_of"]


def mask_of(lanes: NDArray[Any]) -> int:
    """Return the bit mask of lane numbers below 32."""
    if len(lanes) == 32:
        return FULL_MASK
    if len(lanes) == 1:
        return 1 << int(lanes[0])
    return int(np.bitwise_or.reduce(np.left_shift(1, lanes.astype(np.int64))))


class World:
    """The agents of one run.

    Attributes:
        machine: the machine that is observed; it gets the findings.
        ctas: the CTAs that have started, by (launch, number).
        launches: for each launch, the key that stands for its completion.
    """

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine
        self.records = Records()
        self.chains = Chains()
        self.ctas: dict[tuple[int, int], CtaAgent] = {}
        self.launches: dict[int, int] = {}
        #: For each launch: the launches that are complete when it is.
        self.completes: dict[int, set[int]] = {}
        self._completed_before: dict[int, frozenset[int]] = {}
        self._barriers: dict[Hashable, int] = {}
        #: The CTAs of each cluster, by rank.
        self._clusters: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def begin_grid(self, number: int) -> None:
        """Begin a launch. One that depends on the previous launch knows only of the launches before that."""
        before = frozenset(range(number))
        if number and self.machine.grids[number].dependent:
            before = self._completed_before[number - 1]
        self._completed_before[number] = before
        self.completes[number] = set(before)
        self.launches[number] = self.chains.new_key()

    def begin_cta(self, key: tuple[int, int], threads: int) -> None:
        """Begin a CTA: its threads know of its start, and of the launches that were complete."""
        cta = self.machine.residency.live[key]
        agent = CtaAgent(key, self.chains.new_key(), (key[0], cta.cluster.number), cta.coordinates)
        self._clusters[agent.cluster] = [member.key for member in cta.cluster.ctas]
        clock: Clock = {agent.start: 1}
        for launch in self._completed_before[key[0]]:
            clock[self.launches[launch]] = 1
        levels: Levels = {Level.SYNC: clock, Level.WIDE: clock, Level.EXECUTION: clock}
        for index in range(-(-threads // 32)):
            full = (1 << min(32, threads - 32 * index)) - 1
            agent.warps.append(WarpAgent(agent, index, self.chains.new_key(), full, levels))
        self.ctas[key] = agent

    def owner_of(self, segment: Segment, accessing: tuple[int, int]) -> tuple[int, int] | None:
        """Return the CTA whose shared memory a segment is, for an access by a CTA of its cluster; or None.

        The accessing CTA may have ended.
        """
        if segment.space is not StateSpace.SHARED:
            return None
        return self._clusters[self.ctas[accessing].cluster][segment.base >> 24]

    def begin_barrier(self, barrier: Hashable) -> None:
        """Begin the life of an mbarrier: what was released into its memory before does not count."""
        self._barriers[barrier] = self.chains.new_key()

    def barrier_key(self, barrier: Hashable) -> int:
        """Return the key by which threads know the arrivals that they have observed.

        Its time is the phase plus 1. Each life of an mbarrier has its own.
        """
        if barrier not in self._barriers:
            self.begin_barrier(barrier)
        return self._barriers[barrier]

    def warps_of(self, cta: CtaAgent, threads: NDArray[np.int64]) -> list[tuple[WarpAgent, int]]:
        """Return the warps of some threads, each with the mask of its lanes among them."""
        if not len(threads):
            return []
        low, high = int(threads[0]) >> 5, int(threads[-1]) >> 5
        if low == high:
            return [(cta.warps[low], mask_of(threads & 31))]
        numbers = threads >> 5
        return [
            (cta.warps[number], mask_of(threads[numbers == number] & 31))
            for number in np.unique(numbers).tolist()
        ]
