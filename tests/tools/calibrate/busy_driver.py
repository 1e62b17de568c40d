"""A driver on which loads last: launches end when the clock of the test has passed, and a meter counts energy.

Owns the clock, the meter in NVML's place, and :class:`BusyDriver`, whose launches write made-up clocks.
"""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from pyptx import Tile
from pyptx.timing.constants import Gpu

from .timed_driver import TimedDriver

UUID = uuid.UUID(int=7)
#: W of the idle board, and how often the meter's counter moves, in s.
IDLE, STEP = 100.0, 0.02


@dataclass
class Clock:
    """The time of a test in s: it passes when the program sleeps, or waits for the GPU."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class BusyDriver(TimedDriver):
    """Runs loads: kernels whose only output has the clock and the timer at the beginning of each section.

    Args:
        gpu: the constants.
        kernels: by the name of its entry, each kernel that may be loaded.
        clock: the time.

    Attributes:
        mhz, watts: while launches run.
        section: ns of a section; gap: ns between two launches.
        inputs: the bytes of the first input of the last launch.
        started: when each launch was enqueued, in s.
    """

    def __init__(self, gpu: Gpu, kernels: dict[str, Any], clock: Clock) -> None:
        super().__init__(gpu, kernels)
        self.time = clock
        self.mhz, self.watts, self.section, self.gap = 1500.0, 600.0, 5000.0, 1000.0
        self.inputs = b""
        self.started: list[float] = []
        #: When launches ran, in s; the last one ends there.
        self._ran: list[tuple[float, float]] = []

    @property
    def _free(self) -> float:
        return max(self.time.now, self._ran[-1][1] if self._ran else 0.0)

    def joules(self) -> float:
        """Return the energy that the board has drawn until the last step of the counter."""
        now = self.time.now // STEP * STEP
        ran = sum(max(0.0, min(end, now) - begin) for begin, end in self._ran)
        return IDLE * now + (self.watts - IDLE) * ran

    def _run(self, name: str, values: list[int]) -> None:
        specs = [spec for spec in self._kernels[name].options.specs if isinstance(spec, Tile)]
        rows, columns = specs[-1].shape({})
        assert columns == 2
        self.started.append(self.time.now)
        begin = self._free + self.gap * 1e-9
        ns = begin * 1e9 + self.section * np.arange(rows)
        output = np.stack([ns * self.mhz / 1000, ns], axis=1).astype(np.uint64)
        ctypes.memmove(values[-1], np.ascontiguousarray(output).ctypes.data, output.nbytes)
        if len(values) > 1:
            self.inputs = ctypes.string_at(
                values[0], int(np.prod(specs[0].shape({}))) * specs[0].dtype.nbytes
            )
        self._ran.append((begin, begin + (rows - 1) * self.section * 1e-9))

    def cuStreamSynchronize(self, stream: int) -> Any:
        self.time.now = self._free
        return (0,)

    def cuDeviceGetUuid(self, device: int) -> Any:
        return 0, type("Uuid", (), {"bytes": UUID.bytes})


def nvml(driver: BusyDriver) -> ModuleType:
    """Return what stands for NVML, which counts the energy of a driver's GPU in mJ."""
    found = ModuleType("pynvml")

    class Error(Exception):
        pass

    def handle(name: str) -> str:
        if name != f"GPU-{UUID}":
            raise Error
        return name

    vars(found).update(
        NVMLError=Error,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: 1000 * driver.joules(),
        nvmlDeviceGetEnforcedPowerLimit=lambda _: 700_000,
    )
    return found
