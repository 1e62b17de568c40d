"""The result of a measurement: times, rates and clocks, as a table and as plain values."""

from __future__ import annotations

import statistics
import sys
from dataclasses import asdict, field
from typing import Any

import numpy as np

from ...core.records import dataclass
from .readings import Readings

__all__ = ["BenchResult", "Draw", "Timing"]


@dataclass(frozen=True)
class Draw:
    """What one function drew in the second halves of its windows, under the sustained protocol.

    Attributes:
        watts: mean power; from the energy counter, or else the median of the readings; None without both.
        sm_mhz: median SM clock, or None.
        joules: energy of one launch, what the idle GPU draws included; None without an energy counter.
        beginning: median time of a launch in the first 5 percent of the windows, in microseconds.
        windows: median time of a launch in the second half of each window, in microseconds.
    """

    watts: float | None
    sm_mhz: float | None
    joules: float | None
    beginning: float
    windows: tuple[float, ...]


@dataclass(frozen=True)
class Timing:
    """The times of one function.

    Attributes:
        name: name of the function.
        times: microseconds of each run, in the order of the runs; under the sustained protocol of one launch,
            the mean of some launches each.
        host: the least time in microseconds that the host needed for a launch.
        flops: number of operations of one run, or None.
        bytes: number of bytes that one run moves, or None.
        draw: clocks and energy under the sustained protocol; None under the burst protocol.
    """

    name: str
    times: tuple[float, ...]
    host: float
    flops: float | None = None
    bytes: float | None = None
    draw: Draw | None = None

    @property
    def median(self) -> float:
        """Median time of a run in microseconds."""
        return statistics.median(self.times)

    @property
    def min(self) -> float:
        return min(self.times)

    @property
    def count(self) -> int:
        return len(self.times)

    def quantile(self, q: float) -> float:
        """Return the quantile ``q`` (0 to 1) of the times in microseconds, interpolated."""
        return float(np.quantile(self.times, q))

    @property
    def tflops(self) -> float | None:
        """Rate in 10**12 operations per second, from the median time; None without ``flops``."""
        return None if self.flops is None else self.flops / self.median / 1e6

    @property
    def gbps(self) -> float | None:
        """Rate in 10**9 bytes per second, from the median time; None without ``bytes``."""
        return None if self.bytes is None else self.bytes / self.median / 1e3

    @property
    def pj_per_flop(self) -> float | None:
        """Energy of one operation in 10**-12 joules; None without ``flops`` or without an energy counter."""
        if self.flops is None or self.draw is None or self.draw.joules is None:
            return None
        return self.draw.joules / self.flops * 1e12


@dataclass(frozen=True)
class BenchResult:
    """The measurement of several functions.

    Attributes:
        device: name of the GPU.
        timings: the times of each function, in the order of the functions.
        readings: clocks and power during the measurement.
        copies: number of copies of the inputs that the runs took in turns.
        flushed: whether the L2 cache was flushed before each run.
        notes: reasons why a number may be wrong.
        protocol: ``"burst"`` or ``"sustained"``.
    """

    device: str
    timings: tuple[Timing, ...]
    readings: Readings
    copies: int
    flushed: bool
    notes: tuple[str, ...] = field(default=())
    protocol: str = "burst"

    def __getitem__(self, name: str) -> Timing:
        for timing in self.timings:
            if timing.name == name:
                return timing
        raise KeyError(f"no function {name!r}; measured were {', '.join(t.name for t in self.timings)}")

    def speedup(self, name: str) -> float:
        """Return how many times as fast as the first function the function ``name`` is."""
        return self.timings[0].median / self[name].median

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as values that JSON can hold. Times are microseconds."""
        return {
            "device": self.device,
            "protocol": self.protocol,
            "copies": self.copies,
            "flushed": self.flushed,
            "readings": self.readings.summary(),
            "notes": list(self.notes),
            "functions": [
                {
                    "name": t.name,
                    "median_us": t.median,
                    "p10_us": t.quantile(0.1),
                    "p90_us": t.quantile(0.9),
                    "min_us": t.min,
                    "count": t.count,
                    "host_us": t.host,
                    "tflops": t.tflops,
                    "gbps": t.gbps,
                    "speedup": self.speedup(t.name),
                    "draw": None if t.draw is None else asdict(t.draw),
                    "pj_per_flop": t.pj_per_flop,
                    "times_us": list(t.times),
                }
                for t in self.timings
            ],
        }

    def rows(self) -> list[list[str]]:
        """Return the table: the heading, then a row for each function.

        A column of rates is left out if no function has a value for it.
        """
        head = ["function", "median us", "p10", "p90", "min", "runs"]
        draws = [t.draw for t in self.timings]
        columns: dict[str, tuple[str, list[float | None]]] = {
            "TFLOP/s": (".1f", [t.tflops for t in self.timings]),
            "GB/s": (".1f", [t.gbps for t in self.timings]),
            "first 5%": (".2f", [None if d is None else d.beginning for d in draws]),
            "MHz": (".0f", [None if d is None else d.sm_mhz for d in draws]),
            "W": (".0f", [None if d is None else d.watts for d in draws]),
            "mJ": (".3f", [None if d is None or d.joules is None else d.joules * 1e3 for d in draws]),
            "pJ/FLOP": (".3f", [t.pj_per_flop for t in self.timings]),
        }
        rated = {title: held for title, held in columns.items() if held[1].count(None) < len(draws)}
        several = len(self.timings) > 1
        rows = [[*head, *rated, *(["speedup"] if several else [])]]
        for number, t in enumerate(self.timings):
            times = [f"{us:.2f}" for us in (t.median, t.quantile(0.1), t.quantile(0.9), t.min)]
            rates = [
                "" if (rate := column[number]) is None else format(rate, form)
                for form, column in rated.values()
            ]
            ratio = [f"{self.speedup(t.name):.3f}"] if several else []
            rows.append([t.name, *times, str(t.count), *rates, *ratio])
        return rows

    def _foot(self) -> list[str]:
        cache = "L2 flushed before each" if self.flushed else "L2 not flushed"
        if self.protocol == "sustained":
            cache = "sustained, back to back, second halves of two windows each (ABBA)"
        return [f"{cache}; {self.copies} copies of the inputs", str(self.readings), *self.notes]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if n == 0 else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.device, *lines, *self._foot()])

    def show(self) -> None:
        """Print the result: as a table of rich on a terminal, as plain text elsewhere."""
        if not sys.stdout.isatty():
            print(self)
            return
        from rich.console import Console
        from rich.table import Table

        head, *rows = self.rows()
        table = Table(title=self.device, caption="\n".join(self._foot()), caption_justify="left")
        for n, title in enumerate(head):
            table.add_column(title, justify="left" if n == 0 else "right")
        fastest = min(range(len(rows)), key=lambda n: self.timings[n].median)
        for n, row in enumerate(rows):
            table.add_row(*row, style="green" if n == fastest and len(rows) > 1 else "")
        Console().print(table)
