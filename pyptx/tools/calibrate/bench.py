"""Runs kernels for microbenchmarks, and turns what they read into values with intervals.

Owns :class:`Bench`, which a microbenchmark gets, and :class:`Microbenchmark`. Every reading is an array with
one number for each repetition. Arithmetic on such arrays keeps repetitions apart, so that a value's spread
shows how well it repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError
from ...core.records import dataclass
from ...entry import Kernel
from .device import Device
from .kernels import empty

__all__ = ["MHZ", "Bench", "Microbenchmark", "Readings", "Value"]

#: One number for each repetition.
Readings = NDArray[np.float64]

#: The name of the frequency of the multiprocessors, in MHz, among the values of a calibration.
MHZ = "mhz"
#: The share of repetitions that an interval leaves out at each end: it holds four of five.
_OUTSIDE = 10


@dataclass(frozen=True)
class Value:
    """What was measured.

    Attributes:
        value: the median of the repetitions.
        low, high: between them lie four of five repetitions.
    """

    value: float | tuple[float, ...]
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]

    @property
    def plausible(self) -> bool:
        """True if all numbers are finite and none is negative."""
        numbers = np.hstack([self.value, self.low, self.high])
        return bool(np.isfinite(numbers).all() and (numbers >= 0).all())

    @classmethod
    def of(cls, readings: Readings | float) -> Value:
        """Return the median and the interval of readings."""
        each = np.atleast_1d(np.asarray(readings, float))
        low, middle, high = np.percentile(each, (_OUTSIDE, 50, 100 - _OUTSIDE))
        return cls(float(middle), float(low), float(high))


class Bench:
    """What a microbenchmark uses: the device, and values that others have found.

    Args:
        device: the GPU, or what stands for it.
        values: constants by name: those that were measured before, and the base's.
    """

    def __init__(self, device: Device, values: Mapping[str, float]) -> None:
        self.device, self._values = device, values
        self._empty: float | None = None

    def value(self, name: str) -> float:
        """Return a constant, as it was measured, else the base's."""
        return self._values[name]

    @property
    def mhz(self) -> float:
        """Frequency of the multiprocessors while kernels ran."""
        return self._values[MHZ]

    @property
    def ghz(self) -> float:
        """The same in GHz: cycles of a ns."""
        return self.mhz / 1000

    @property
    def slowdown(self) -> float:
        """The frequency over the maximum one: what lies beyond the SM takes fewer cycles at a lower clock."""
        return self.mhz / self._values["sm.clock_max_mhz"]

    def output(self, kernel: Kernel, *inputs: Any, cold: bool = False) -> NDArray[np.float64]:
        """Return the output of one launch, without its first row: that round warmed up.

        Raises:
            SpecError: the kernel has not written all of it.
        """
        found = self.device.run(kernel, inputs, cold=cold).output
        rows = found.reshape(self.device.rounds, -1)
        if not rows[1:].all():
            raise SpecError(
                f"{kernel.options.entry}: {np.count_nonzero(rows[1:] == 0)} readings are 0",
                hint="the launch may have ended early, or a clock did not advance",
            )
        return rows[1:].astype(np.float64)

    def cycles(self, kernel: Kernel, *inputs: Any, cold: bool = False) -> Readings:
        """Return the cycles of a kernel's section in each round; the longest, where several threads read."""
        found: Readings = self.output(kernel, *inputs, cold=cold).max(axis=1)
        return found

    def latency(self, kernel: Kernel, *inputs: Any, cold: bool = False) -> Readings:
        """Return the cycles of a kernel's section in each round, without those of reading the clock."""
        return self.cycles(kernel, *inputs, cold=cold) - self.overhead

    @property
    def overhead(self) -> float:
        """Return the cycles between two reads of the clock with nothing between them."""
        if self._empty is None:
            self._empty = float(np.median(self.cycles(empty(self.device.target, self.device.rounds))))
        return self._empty

    def slope(self, build: Callable[[int], Kernel], few: int, many: int, *inputs: Any) -> Readings:
        """Return the cycles that one more repetition takes, between a kernel with few and one with many."""
        less, more = (self.cycles(build(count), *inputs) for count in (few, many))
        return (more - less) / (many - few)

    def first_pass(self, kernel: Kernel, *inputs: Any, cold_code: bool = False) -> NDArray[np.float64]:
        """Return what the first round takes beyond the later ones: a row for each launch.

        With ``cold_code`` the first round runs code that no cache holds; else a launch before has left it.
        """
        if not cold_code:
            self.device.run(kernel, inputs)
        found = []
        for _ in range(self.device.repeats):
            output = self.device.run(kernel, inputs, cold_code=cold_code).output
            rows = output.reshape(self.device.rounds, -1).astype(np.float64)
            found.append(rows[0] - np.median(rows[1:], axis=0))
        return np.array(found)

    def ns(self, kernel: Kernel, *inputs: Any, cold: bool = False) -> Readings:
        """Return the ns between events around each of several launches."""
        runs = range(self.device.repeats)
        return np.array([self.device.run(kernel, inputs, cold=cold).ns for _ in runs])


@dataclass(frozen=True, eq=False)
class Microbenchmark:
    """One microbenchmark.

    Attributes:
        name: its name, for progress and errors.
        constants: the constants that it may measure.
        measure: returns readings, or values, for all or some of them.
        targets: the targets that it runs on.
    """

    name: str
    constants: Sequence[str]
    measure: Callable[[Bench], Mapping[str, Readings | float | Value]]
    targets: Sequence[str] = ("sm_90a", "sm_100a")
