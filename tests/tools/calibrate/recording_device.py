"""A device that runs nothing: it keeps the kernels that it gets, and answers with made-up readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyptx import Tile
from pyptx.timing.constants import Gpu
from pyptx.tools.calibrate.device import Burst, Launched, Load, Sustained
from pyptx.tools.calibrate.families.chip import TOLD


class RecordingDevice:
    """A device of a GPU's target, with numbers that rise from launch to launch."""

    rounds, repeats, timer_ns, passes = 3, 2, 32.0, 1
    memory, visits = 1 << 26, 8

    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self._number = gpu, 0
        self.title, self.target, self.driver = "nothing", gpu.target, "no driver"
        self.kernels: dict[str, Any] = {}

    def usable(self) -> bool:
        return True

    def facts(self) -> Mapping[str, float]:
        return {name: self._gpu.value(name) for name in TOLD}

    def run(
        self, kernel: Any, inputs: Sequence[Any] = (), *, cold: bool = False, cold_code: bool = False
    ) -> Launched:
        self.kernels[kernel.options.entry] = kernel
        self._number += 1000
        specs = kernel.options.specs[kernel.options.inputs :]
        shape = specs[0].shape({}) if specs and isinstance(specs[0], Tile) else (0,)
        return Launched(np.full(shape, self._number, np.uint64), float(self._number))

    def stream(self, kernel: Any, count: int) -> float:
        if kernel is not None:
            self.kernels[kernel.options.entry] = kernel
        return 100.0 * (1 + count)

    def fitting(self, kernel: Any) -> int:
        self.kernels[kernel.options.entry] = kernel
        size = int(np.prod(kernel.specialize().launch.cluster))
        return sum(int(group) // size for group in self._gpu.series("gpc.sizes"))

    def power_limit(self) -> float:
        return 700.0

    def sustained(self, load: Load, data: str) -> Sustained:
        self._keep(load)
        self._number += 1000
        return Sustained(1500.0, 200 + self._number % 50_000 / 1000, 1e6, 1e6)

    def burst(self, load: Load, data: str) -> Burst:
        self._keep(load)
        ns = np.linspace(0, 1e7, 100)
        return Burst(1.5 * ns, ns)

    def _keep(self, load: Load) -> None:
        kernel = load(2)
        self.kernels[kernel.options.entry] = kernel
