"""Reads clocks, power and temperature of a GPU during a measurement.

The readings come from NVML if its Python package (``nvidia-ml-py``) is installed, else from ``nvidia-smi``.
"""

from __future__ import annotations

import importlib
import shutil
import statistics
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ...core.records import dataclass

__all__ = ["Reading", "Readings", "energy_counter", "parse_smi", "power_limit", "reader", "watch"]

_QUERY = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
_SHOWN = (
    ("sm_mhz", "SM clock", "MHz"),
    ("memory_mhz", "memory clock", "MHz"),
    ("watts", "power", "W"),
    ("celsius", "temperature", "C"),
)
#: Seconds between two readings.
_INTERVAL = 0.05


@dataclass(frozen=True)
class Reading:
    """One reading: clocks in MHz, power in W, temperature in degrees Celsius; None for a missing value."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    watts: float | None = None
    celsius: float | None = None


@dataclass
class Readings:
    """The readings of a measurement, in order of time."""

    taken: list[Reading] = field(default_factory=list)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the minimum, median and maximum of each quantity that the GPU reported."""
        found: dict[str, dict[str, float]] = {}
        for name in ("sm_mhz", "memory_mhz", "watts", "celsius"):
            values = [value for r in self.taken if (value := getattr(r, name)) is not None]
            if values:
                found[name] = {"min": min(values), "median": statistics.median(values), "max": max(values)}
        return found

    def __str__(self) -> str:
        summary = self.summary()
        parts = []
        for name, title, unit in _SHOWN:
            if (found := summary.get(name)) is not None:
                low, high = f"{found['min']:.0f}", f"{found['max']:.0f}"
                parts.append(f"{title} {low if low == high else f'{low} to {high}'} {unit}")
        return ", ".join(parts) or "clocks and power: not read"


def reader(uuid: str) -> Callable[[], Reading | None] | None:
    """Return a function that reads the GPU with this UUID; None without NVML and ``nvidia-smi``."""
    return _nvml(uuid) or _smi(uuid)


def _handle(uuid: str) -> tuple[Any, Any]:
    """Return NVML's Python module and its handle of a GPU; (None, None) without them."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None, None
    try:
        nvml.nvmlInit()
        return nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        return None, None


def energy_counter(uuid: str) -> Callable[[], float | None] | None:
    """Return a function that reads the joules drawn so far, by the idle GPU too; None without NVML."""
    nvml, handle = _handle(uuid)
    if nvml is None:
        return None

    def read() -> float | None:
        try:
            return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000
        except nvml.NVMLError:
            return None

    return None if read() is None else read


def power_limit(uuid: str) -> float | None:
    """Return the W that the board may draw, as its settings are; None without NVML."""
    nvml, handle = _handle(uuid)
    if nvml is None:
        return None
    try:
        return float(nvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1000
    except nvml.NVMLError:
        return None


def _nvml(uuid: str) -> Callable[[], Reading | None] | None:
    nvml, handle = _handle(uuid)
    if nvml is None:
        return None

    def read() -> Reading | None:
        try:
            return Reading(
                nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
                nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            )
        except nvml.NVMLError:
            return None

    return read


def _smi(uuid: str) -> Callable[[], Reading | None] | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "-i", uuid, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]

    def read() -> Reading | None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return parse_smi(done.stdout) if done.returncode == 0 else None

    return read


def parse_smi(text: str) -> Reading | None:
    """Parse the output of ``nvidia-smi``, such as ``1980, 3201, 412.30, 45``.

    ``[N/A]`` stands for a quantity that the GPU does not report.
    """
    words = text.strip().split(",")
    if len(words) != len(_QUERY):
        return None

    def number(word: str) -> float | None:
        try:
            return float(word)
        except ValueError:
            return None

    return Reading(*map(number, words))


@contextmanager
def watch(read: Callable[[], Reading | None] | None) -> Iterator[Readings]:
    """Take readings while the block runs: at its beginning, then every 50 ms, and at its end."""
    found = Readings()
    if read is None:
        yield found
        return
    ended = threading.Event()

    def take() -> None:
        while True:
            last = ended.is_set()
            reading = read()
            if reading is not None:
                found.taken.append(reading)
            if last:
                return
            ended.wait(_INTERVAL)

    thread = threading.Thread(target=take, name="pyptx.bench readings", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
