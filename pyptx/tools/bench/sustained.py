"""The sustained protocol: each function runs back to back for seconds, as in training or serving.

A GPU at its power limit lowers its clock after some tenths of a second, so a burst and a sustained run are
different measurements.  Owns the windows, their order, and what is read in their second halves.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.records import dataclass
from .device import Device
from .readings import Reading, Readings, watch
from .result import Draw, Timing

__all__ = ["measure_sustained"]

Function = Callable[..., Any]
#: Microseconds that the launches between two events take about, and the most launches between them.
_CHUNK, _MOST = 5000.0, 1000
#: Chunks that the host enqueues ahead of the GPU.
_AHEAD = 3
#: Share of a window that counts as its beginning.
_BEGINNING = 0.05


@dataclass(frozen=True)
class _Window:
    """One window of one function: microseconds of a launch, in each chunk of its beginning and second half.

    ``seconds``, ``launches``, ``joules`` and ``readings`` are those of the second half.
    """

    beginning: list[float]
    second_half: list[float]
    seconds: float
    launches: int
    joules: float | None
    readings: list[Reading]


def measure_sustained(
    device: Device,
    named: Mapping[str, Function],
    turns: Sequence[Sequence[Any]],
    seconds: float,
    flops: Mapping[str, float],
    nbytes: Mapping[str, float],
) -> tuple[list[Timing], Readings, list[str]]:
    """Run each function for two windows of ``seconds``: all in order, then all in the opposite order (ABBA).

    Launches are replayed from a CUDA graph, so that the host does not slow them down. Returns the times of
    the second halves of the windows, all readings, and notes.
    """
    notes: list[str] = []
    chunks: dict[str, tuple[Callable[[], Any], int]] = {}
    for name, function in named.items():
        chunks[name] = _chunk(device, name, function, turns, notes)
    counter = device.energy()
    if counter is None:
        notes.append("energy is not read: it needs NVML (pip install nvidia-ml-py) on a GPU that counts it")
    windows: dict[str, list[_Window]] = {name: [] for name in named}
    everything = Readings()
    for name in (*named, *reversed(list(named))):
        run, launches = chunks[name]
        with watch(device.reader()) as readings:
            window, taken = _window(device, run, launches, seconds, counter, readings)
        windows[name].append(replace(window, readings=readings.taken[taken:]))
        everything.taken += readings.taken
    timings = [
        _timing(name, windows[name], flops.get(name), nbytes.get(name), device.host_of(named[name], turns[0]))
        for name in named
    ]
    return timings, everything, notes


def _chunk(
    device: Device, name: str, function: Function, turns: Sequence[Sequence[Any]], notes: list[str]
) -> tuple[Callable[[], Any], int]:
    """Return a function that enqueues a chunk of launches, and their number."""

    def launches(count: int) -> Callable[[], None]:
        def run() -> None:
            for number in range(count):
                function(*turns[number % len(turns)])

        return run

    once = launches(len(turns))
    once()
    start = device.mark()
    once()
    end = device.mark()
    device.synchronize()
    us = max(device.between(start, end), 1e-3)
    count = len(turns) * max(1, min(math.ceil(_CHUNK / us), _MOST // len(turns)))
    graph = device.graph(launches(count))
    if graph is None:
        notes.append(
            f"{name} cannot be captured in a CUDA graph: the host launches it, which may take longer"
        )
        return launches(count), count
    return graph, count


def _window(
    device: Device,
    run: Callable[[], Any],
    launches: int,
    seconds: float,
    counter: Callable[[], float | None] | None,
    readings: Readings,
) -> tuple[_Window, int]:
    """Run chunks for ``seconds``. Returns the window, and how many readings were taken before its half.

    The host stays only a few chunks ahead of the GPU, so that it reads in time.
    """
    device.synchronize()
    marks = [device.mark()]
    half, before, taken = 0, None, 0
    while True:
        run()
        marks.append(device.mark())
        ended = len(marks) - 1 - _AHEAD
        if ended < 1:
            continue
        device.wait(marks[ended])
        elapsed = device.between(marks[0], marks[ended])
        if not half and elapsed >= seconds * 0.5e6:
            half, taken = ended, len(readings.taken)
            before = None if counter is None else counter()
        elif half and elapsed >= seconds * 1e6:
            break
    device.synchronize()
    after = None if counter is None else counter()
    times = [device.between(a, b) / launches for a, b in itertools.pairwise(marks)]
    beginning = max(1, round(_BEGINNING * len(times)))
    window = _Window(
        beginning=times[:beginning],
        second_half=times[half:],
        seconds=device.between(marks[half], marks[-1]) / 1e6,
        launches=launches * (len(marks) - 1 - half),
        joules=None if before is None or after is None else after - before,
        readings=[],
    )
    return window, taken


def _timing(
    name: str, windows: Sequence[_Window], flops: float | None, nbytes: float | None, host: float
) -> Timing:
    """Join the windows of a function."""
    seconds = sum(window.seconds for window in windows)
    launches = sum(window.launches for window in windows)
    known = [window.joules for window in windows if window.joules is not None]
    joules = sum(known) if len(known) == len(windows) else None
    readings = [reading for window in windows for reading in window.readings]
    watts = [reading.watts for reading in readings if reading.watts is not None]
    mhz = [reading.sm_mhz for reading in readings if reading.sm_mhz is not None]
    drawn = joules / seconds if joules is not None else statistics.median(watts) if watts else None
    draw = Draw(
        watts=drawn,
        sm_mhz=statistics.median(mhz) if mhz else None,
        joules=None if joules is None else joules / launches,
        beginning=statistics.median(us for window in windows for us in window.beginning),
        windows=tuple(statistics.median(window.second_half) for window in windows),
    )
    times = tuple(us for window in windows for us in window.second_half)
    return Timing(name, times, host, flops, nbytes, draw)
