"""What products of ``wgmma`` take from the code of threads: both use the registers of the multiprocessor.

Owns what pipes take beside a tensor core that is busy. Sums of a ``wgmma`` lie in registers,
so that while it runs every pipe of threads' code takes longer, and MUFU loses some time to each other
instruction. Nothing of this holds on GPUs whose tensor core has its own memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.records import dataclass
from ...timing.constants import Gpu
from ...timing.opcodes import Pipes

__all__ = ["MUFU", "Beside"]

#: The pipe that loses time to all other instructions.
MUFU = "mufu"


@dataclass(frozen=True)
class Beside:
    """What pipes take more while products run all the time.

    Attributes:
        more: for each pipe, the share of its time.
        others: cycles of MUFU that each instruction of another pipe takes.
        mufu: cycles of MUFU for an instruction of its own.
    """

    more: Mapping[str, float]
    others: float
    mufu: float

    @classmethod
    def of(cls, gpu: Gpu) -> Beside | None:
        """Return that of a GPU; None where products take nothing from threads."""
        if gpu.target != "sm_90a":
            return None
        value = gpu.value
        alu = value("wgmma.alu_share")
        more = {"fma": value("wgmma.fma_share"), "alu": alu, "cvt": alu, MUFU: value("wgmma.mufu_share")}
        return cls(more, value("wgmma.others_clk"), Pipes(gpu).occupied("MUFU")[MUFU])

    def stretched(
        self, duty: float, cycles: float, issues: float, pipes: Mapping[str, float]
    ) -> tuple[float, Mapping[str, float], float]:
        """Return what a block takes beside products that run a share of the time, its ``duty``.

        Its cycles alone, those of its pipes, and those of MUFU that other warps lose to it, if it needs none.
        """
        if duty <= 0:
            return cycles, pipes, 0.0
        found = {name: time * (1 + self.more.get(name, 0.0) * duty) for name, time in pipes.items()}
        longer = max((found[name] - time for name, time in pipes.items()), default=0.0)
        if MUFU not in pipes:
            return cycles + longer, found, issues * self.others * duty
        found[MUFU] += max(0.0, issues - pipes[MUFU] / self.mufu) * self.others * duty
        return cycles + longer, found, 0.0
