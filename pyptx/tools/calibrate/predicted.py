"""The timed machine in the place of a GPU: it runs the microbenchmarks by the constants that it is given.

Owns :class:`PredictedDevice`. A calibration of it must give these constants back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import SpecError
from ...core.findings import Verdict
from ...core.version import VERSION
from ...dsl import Tile
from ...entry import Kernel
from ...timing.constants import Gpu
from .device import Launched
from .families.chip import TOLD

__all__ = ["PredictedDevice"]


class PredictedDevice:
    """A GPU that the timed machine plays, at a frequency.

    Args:
        gpu: its constants.
        mhz: the frequency of its multiprocessors; by default the maximum.
    """

    rounds, repeats, timer_ns = 3, 1, 1.0

    def __init__(self, gpu: Gpu, mhz: float | None = None) -> None:
        self._gpu = gpu
        self._mhz = gpu.value("sm.clock_max_mhz") if mhz is None else mhz
        self.title, self.target, self.driver = f"{gpu.title}, predicted", gpu.target, f"pyptx {VERSION}"

    def usable(self) -> bool:
        return True

    def facts(self) -> Mapping[str, float]:
        return {name: self._gpu.value(name) for name in TOLD}

    def run(
        self, kernel: Kernel, inputs: Sequence[Any] = (), *, cold: bool = False, cold_code: bool = False
    ) -> Launched:
        specs = kernel.options.specs[kernel.options.inputs :]
        outputs = [np.zeros(spec.shape({}), np.uint64) for spec in specs if isinstance(spec, Tile)]
        found = kernel.predict(
            *inputs,
            gpu=self._gpu,
            clock=self._mhz,
            data="zeros",
            out=outputs or None,
            # Of all states before a launch, only this one has empty caches of instructions.
            l2="cold" if cold_code else "rotating",
        )
        if found.verdict is not Verdict.CLEAN:
            raise SpecError(
                f"the timed machine does not run {kernel.options.entry}: {found.verdict}",
                details=[str(finding) for finding in found.findings],
            )
        output = outputs[0] if outputs else np.zeros(0, np.uint64)
        return Launched(output, found.timing.nanoseconds + self._gpu.value("launch.event_ns"))

    def stream(self, kernel: Kernel | None, count: int) -> float:
        if kernel is None:
            return self._gpu.value("launch.event_ns")
        value = self._gpu.value
        dependent = kernel.specialize().launch.dependent
        gap = value("launch.dependent_gap_ns" if dependent else "launch.gap_ns")
        # Behind the first, a launch adds what its threads do, and the gap.
        alone = self.run(kernel).ns
        return alone + (count - 1) * (alone - value("launch.event_ns") - value("launch.ns") + gap)

    def fitting(self, kernel: Kernel) -> int:
        size = math.prod(kernel.specialize().launch.cluster)
        return sum(int(group) // size for group in self._gpu.series("gpc.sizes"))
