"""What products of ``wgmma`` take from the code of threads: both use the registers of the multiprocessor.

Owns for which share of its time a block of code runs beside products, and what pipes take then. Sums of a
``wgmma`` lie in registers, so that while it runs every pipe of threads' code takes longer, and MUFU loses
some time to each other instruction. Nothing of this holds on GPUs whose tensor core has its own memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.records import dataclass
from ...timing.constants import Gpu
from ...timing.opcodes import Pipes
from .servers import Duty

__all__ = ["MUFU", "Beside", "Multiplying", "Warpgroup"]

#: The pipe that loses time to all other instructions.
MUFU = "mufu"
#: How far back products of other warpgroups count, in cycles: about a round of those of all.
_ROUND = 1000.0
#: Share of the time from which on a warpgroup counts as one that multiplies.
_LEAST = 1e-3

#: A warpgroup: its CTA, and its number there.
Warpgroup = tuple[tuple[int, int], int]


class Multiplying:
    """What the tensor core of a multiprocessor has to do for warpgroups."""

    def __init__(self) -> None:
        self._queued = self._ends = 0.0
        self._shares: dict[Warpgroup, Duty] = {}

    def issued(self, duration: float) -> None:
        """Take a product of so many cycles that does not run yet."""
        self._queued += duration

    def runs(self, warpgroup: Warpgroup, begin: float, end: float, duration: float) -> None:
        """Note when such a product runs."""
        self._queued, self._ends = self._queued - duration, end
        share = self._shares.get(warpgroup)
        if share is None:
            some = {each: duty for each, duty in self._shares.items() if duty.at(begin) > _LEAST}
            share = some[warpgroup] = Duty(_ROUND)
            self._shares = some
        share.work(begin, end - begin)

    def expected(self, warpgroup: Warpgroup, time: float, cycles: float) -> float:
        """Return for which share of a block the tensor core will run.

        The block takes ``cycles`` from ``time`` on. The tensor core works off what it has, and behind that
        what others will issue: its own warpgroup issues nothing while the block runs.
        """
        if not self._shares or cycles <= 0:
            return 0.0
        known = min(cycles, max(0.0, self._ends - time) + self._queued)
        others = sum(share.at(time) for each, share in self._shares.items() if each != warpgroup)
        return (known + (cycles - known) * min(1.0, others)) / cycles


@dataclass(frozen=True)
class Beside:
    """What products take from pipes.

    Attributes:
        taken: for each pipe, the share that products which run all the time take.
        others: cycles of MUFU that each instruction of another pipe takes.
        mufu: cycles of MUFU for an instruction of its own.
    """

    taken: Mapping[str, float]
    others: float
    mufu: float

    @classmethod
    def of(cls, gpu: Gpu) -> Beside | None:
        """Return that of a GPU; None where products take nothing from threads."""
        if gpu.target != "sm_90a":
            return None
        value = gpu.value
        alu = value("wgmma.alu_share")
        taken = {"fma": value("wgmma.fma_share"), "alu": alu, "cvt": alu, MUFU: value("wgmma.mufu_share")}
        return cls(taken, value("wgmma.others_clk"), Pipes(gpu).occupied("MUFU")[MUFU])

    def stretched(
        self,
        duty: float,
        cycles: float,
        issues: float,
        pipes: Mapping[str, float],
        dense: Mapping[str, float],
    ) -> tuple[float, Mapping[str, float], float]:
        """Return what a block takes beside products that run a share of the time, its ``duty``.

        Its cycles alone, those of its pipes, and those of MUFU that other warps lose to it, if it needs none.
        Alone it loses only where instructions are ``dense`` in a pipe: others wait for something else anyway.
        """
        if duty <= 0:
            return cycles, pipes, 0.0
        left = {name: 1 - share * duty for name, share in self.taken.items()}
        found = {name: time / left.get(name, 1.0) for name, time in pipes.items()}
        longer = max((time / left.get(name, 1.0) - time for name, time in dense.items()), default=0.0)
        if MUFU not in pipes:
            return cycles + longer, found, issues * self.others * duty
        found[MUFU] += max(0.0, issues - pipes[MUFU] / self.mufu) * self.others * duty
        return cycles + longer, found, 0.0
