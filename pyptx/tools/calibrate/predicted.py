"""The timed machine in the place of a GPU: it runs the microbenchmarks by the constants that it is given.

Owns :class:`PredictedDevice`. A calibration of it must give these constants back. Power and the clock under
power are those of the law of the clock, for what the timed machine says that a load does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError
from ...core.findings import Verdict
from ...core.version import VERSION
from ...dsl import Tile
from ...entry import Kernel
from ...entry.prediction import Prediction
from ...sim.clock.units import L2State
from ...timing.clock import Activity, frequency, power
from ...timing.constants import Gpu
from ...timing.tensor import tensor_pace, with_pace
from .device import Burst, Launched, Load, Sustained
from .families.chip import TOLD

__all__ = ["PredictedDevice"]

#: Sections of the two launches of a load whose difference is what it does in the long run.
_FEW, _MANY = 2, 4
#: The clock under power is found when two rounds differ by less than this share, or after so many rounds.
_CLOSE, _ROUNDS = 1e-4, 4
#: A burst lasts so many time constants of the governor, and has so many readings.
_LIVES, _READINGS = 6.0, 600


class PredictedDevice:
    """A GPU that the timed machine plays, at a frequency.

    Args:
        gpu: its constants.
        mhz: the frequency of its multiprocessors; by default the maximum.
    """

    rounds, repeats, timer_ns, passes = 3, 1, 1.0, 2
    #: Arrays are in the host's memory, of which only what kernels touch is taken.
    memory, visits = 4 << 30, 32

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
        # Of all states before a launch, only the cold one has empty caches of instructions.
        l2: L2State = "cold" if cold_code else "rotating"
        found, output = self._predicted(kernel, inputs, "zeros", self._mhz, l2)
        return Launched(output, found.timing.nanoseconds + self._gpu.value("launch.event_ns"))

    def _predicted(
        self, kernel: Kernel, inputs: Sequence[Any], data: str, mhz: float, l2: L2State = "rotating"
    ) -> tuple[Prediction, NDArray[np.uint64]]:
        specs = kernel.options.specs[kernel.options.inputs :]
        outputs = [np.zeros(spec.shape({}), np.uint64) for spec in specs if isinstance(spec, Tile)]
        found = kernel.predict(*inputs, gpu=self._gpu, clock=mhz, data=data, out=outputs or None, l2=l2)
        if found.verdict is not Verdict.CLEAN:
            raise SpecError(
                f"the timed machine does not run {kernel.options.entry}: {found.verdict}",
                details=[str(finding) for finding in found.findings],
            )
        return found, outputs[0] if outputs else np.zeros(0, np.uint64)

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

    # --- power ------------------------------------------------------------------------------------

    def power_limit(self) -> float:
        return self._gpu.value("power.limit_w")

    def sustained(self, load: Load, data: str) -> Sustained:
        mhz = self._gpu.value("sm.clock_max_mhz")
        for _ in range(_ROUNDS):
            cycles, activity = self._section(load, data, mhz)
            before, (mhz, _, _) = mhz, frequency(self._gpu, "sustained", activity)
            if abs(mhz / before - 1) < _CLOSE:
                break
        return Sustained(mhz, power(self._gpu, mhz, activity), cycles, cycles / mhz * 1000)

    def burst(self, load: Load, data: str) -> Burst:
        _, activity = self._section(load, data, self._gpu.value("sm.clock_max_mhz"))
        start, end = (
            frequency(self._gpu, protocol, activity)[0] / 1000 for protocol in ("burst", "sustained")
        )
        life = self._gpu.value("power.governor_ns")
        ns = np.linspace(0, _LIVES * life, _READINGS)
        return Burst(end * ns - (start - end) * life * np.expm1(-ns / life), ns)

    def _section(self, load: Load, data: str, mhz: float) -> tuple[float, Activity]:
        """Return the cycles of a section, and what happens in it, in a launch that does not end."""
        few, many = (self._total(load(sections), data, mhz) for sections in (_FEW, _MANY))
        cycles, tensor, operands, loaded, fetched, issue = many - few
        ns = cycles / mhz * 1000
        pace = tensor_pace(with_pace(self._gpu, Activity(data=data).toggling))
        activity = Activity(
            tensor=min(1.0, tensor / cycles * pace),
            port_bytes_per_clk=operands / cycles,
            l2_bytes_per_ns=loaded / ns,
            hbm_bytes_per_ns=fetched / ns,
            issue=min(1.0, issue / cycles),
            data=data,
        )
        return cycles / (_MANY - _FEW), activity

    def _total(self, kernel: Kernel, data: str, mhz: float) -> NDArray[np.float64]:
        """Return the cycles of a launch, and what it does in them."""
        specs = kernel.options.specs[: kernel.options.inputs]
        found, _ = self._predicted(
            kernel, [spec.shape({}) for spec in specs if isinstance(spec, Tile)], data, mhz
        )
        timing = found.timing
        each = timing.cycles
        return np.array(
            [
                each,
                timing.busy["tensor"] * each,
                timing.operands * each,
                timing.traffic.loaded,
                timing.traffic.fetched,
                timing.busy["issue"] * each,
            ]
        )
