"""What products of ``wgmma`` take from the code of threads: both use the registers of the multiprocessor.

Owns for which share of its time a block of code runs beside products, and what pipes take then. Sums of a
``wgmma`` lie in registers, so that while it runs the pipes of threads' code take longer, and MUFU loses some
time to each other instruction. Multiply-adds that follow each other at once lose nothing. Nothing of this
holds on GPUs whose tensor core has its own memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.records import dataclass
from ...timing.constants import Gpu
from ...timing.opcodes import FMA, HEAVY, Pipes
from .servers import Duty

__all__ = ["MUFU", "Beside", "Multiplying", "Warpgroup"]

#: The pipe that loses time to other instructions.
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
        mufu, fma: cycles of both pipes for an instruction of their own.
        alone: cycles that a warp alone loses to each instruction that is neither.
    """

    taken: Mapping[str, float]
    others: float
    mufu: float
    fma: float
    alone: float

    @classmethod
    def of(cls, gpu: Gpu) -> Beside | None:
        """Return that of a GPU; None where products take nothing from threads."""
        if gpu.target != "sm_90a":
            return None
        value = gpu.value
        alu = value("wgmma.alu_share")
        fma, mufu = value("wgmma.fma_share"), value("wgmma.mufu_share")
        taken = {FMA: fma, HEAVY: fma, "alu": alu, MUFU: mufu}
        pipes = Pipes(gpu)
        occupied = pipes.occupied("MUFU")[MUFU], pipes.occupied("FFMA")[FMA]
        return cls(taken, value("wgmma.others_clk"), *occupied, value("wgmma.alone_clk"))

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
        Alone it loses where instructions are ``dense`` in MUFU, and to each that is of no such pipe.
        """
        if duty <= 0:
            return cycles, pipes, 0.0
        left = {name: 1 - share * duty for name, share in self.taken.items()}
        found = {name: time / left.get(name, 1.0) for name, time in pipes.items()}
        in_a_row = min(dense.get(FMA, 0.0), pipes.get(FMA, 0.0))
        for name in (FMA, HEAVY):
            at_once = min(dense.get(name, 0.0), pipes.get(name, 0.0))
            if at_once:
                found[name] = at_once + (pipes[name] - at_once) / left[name]
        exponentials = pipes.get(MUFU, 0.0) / self.mufu
        longer = dense.get(MUFU, 0.0) * (1 / left[MUFU] - 1)
        longer += max(0.0, issues - exponentials - pipes.get(FMA, 0.0) / self.fma) * self.alone * duty
        others = max(0.0, issues - exponentials - in_a_row / self.fma) * self.others * duty
        if MUFU not in pipes:
            return cycles + longer, found, others
        found[MUFU] += others
        return cycles + longer, found, 0.0
