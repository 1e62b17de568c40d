"""What ncu has measured: parses its CSV and shows a short table for each kernel.

Owns the reading of two pages: ``details``, one row for each metric of each launch, and ``source`` with
``cuda,sass``, one row for each Python line and for each machine instruction below it. Source: Nsight Compute
CLI documentation, "Page output" and "--print-source".
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["HotLine", "NcuReport", "ProfiledKernel", "read_details", "read_source"]

#: What the table shows: ncu's metric, and the title here.
_SHOWN = (
    ("Duration", "time"),
    ("SM Frequency", "SM clock"),
    ("Compute (SM) Throughput", "compute"),
    ("Memory Throughput", "memory"),
    ("DRAM Throughput", "DRAM"),
    ("Achieved Occupancy", "occupancy"),
    ("Registers Per Thread", "registers"),
)
#: Columns of the source page that weigh a line, the first one that is there.
_WEIGHTS = ("Warp Stall Sampling (All Samples)", "# Samples", "Samples", "Instructions Executed")
#: Lines that are shown of a kernel.
_LINES = 8


@dataclass(frozen=True)
class HotLine:
    """A Python line of a kernel.

    Attributes:
        file: path of the file, or empty if ncu does not say.
        line: number of the line.
        text: the line.
        weight: samples of warps at its instructions, or instructions if there are no samples.
        share: part of the kernel's weight, 0 to 1.
    """

    file: str
    line: int
    text: str
    weight: float
    share: float

    def __str__(self) -> str:
        where = f"{Path(self.file).name}:{self.line}" if self.file else f"line {self.line}"
        return f"{100 * self.share:5.1f}%  {where}: {self.text}"


@dataclass
class ProfiledKernel:
    """One launch that ncu has measured.

    Attributes:
        name: name of the kernel.
        grid, block: as ncu writes them.
        metrics: value and unit of each metric, by ncu's names; a value is a number where it is one.
        lines: the Python lines with the most samples, the first first.
        weighed_by: the column that ``lines`` are weighed by.
    """

    name: str
    grid: str
    block: str
    metrics: dict[str, tuple[Any, str]] = field(default_factory=dict)
    lines: list[HotLine] = field(default_factory=list)
    weighed_by: str = ""

    def __str__(self) -> str:
        head = f"{self.name}  grid {self.grid}, block {self.block}"
        shown = []
        for metric, title in _SHOWN:
            if metric in self.metrics:
                value, unit = self.metrics[metric]
                text = f"{value:g}" if isinstance(value, float) else str(value)
                plain = unit in ("", "register/thread")
                shown.append(f"{title} {text}" + ("" if plain else unit if unit == "%" else f" {unit}"))
        lines = [str(line) for line in self.lines[:_LINES]]
        if lines:
            lines.insert(0, f"by {self.weighed_by}:")
        return "\n  ".join([head, ", ".join(shown), *lines])


@dataclass(frozen=True)
class NcuReport:
    """What ncu has measured.

    Attributes:
        kernels: the launches, in their order.
        path: ncu's own file, for its window; None if it was not kept.
    """

    kernels: tuple[ProfiledKernel, ...]
    path: Path | None = None

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels)) or "no kernel was measured"

    def show(self) -> None:
        """Print the table of each kernel."""
        print(self)


def _number(text: str) -> Any:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the rows of ncu's CSV, without its own messages, which begin with ``==``."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("=="))
    yield from csv.reader(lines)


def read_details(text: str) -> list[ProfiledKernel]:
    """Parse the page ``details`` in CSV."""
    found: dict[str, ProfiledKernel] = {}
    head: list[str] = []
    for row in _rows(text):
        if "Metric Name" in row and "ID" in row:
            head = row
            continue
        if len(row) != len(head):
            continue
        cells = dict(zip(head, row, strict=True))
        kernel = found.setdefault(
            cells["ID"],
            ProfiledKernel(cells["Kernel Name"], cells.get("Grid Size", ""), cells.get("Block Size", "")),
        )
        if cells["Metric Name"]:
            kernel.metrics[cells["Metric Name"]] = (
                _number(cells["Metric Value"]),
                cells.get("Metric Unit", ""),
            )
    return list(found.values())


def read_source(text: str) -> list[tuple[str, list[HotLine]]]:
    """Parse the page ``source`` in CSV: for each kernel the weighing column, and its lines by weight."""
    found: list[tuple[str, list[HotLine]]] = []
    head: list[str] = []
    file, column, kernel = "", 0, False
    for row in _rows(text):
        if row[0] == "Kernel Name":
            found.append(("", []))
            kernel = True
        elif row[0] == "File Path":
            file = row[1] if len(row) > 1 else ""
        elif row[0] == "Line No":
            head = row
            if not kernel:
                found.append(("", []))
            kernel = False
            column = next((head.index(name) for name in _WEIGHTS if name in head), 0)
            if column:
                found[-1] = (head[column], found[-1][1])
        elif head and column and len(row) == len(head) and row[0].isdigit():
            weight = _number(row[column])
            if isinstance(weight, float) and weight > 0:
                found[-1][1].append(HotLine(file, int(row[0]), row[1].strip(), weight, 0.0))
    return [(weighed_by, _shares(lines)) for weighed_by, lines in found]


def _shares(lines: list[HotLine]) -> list[HotLine]:
    whole = sum(line.weight for line in lines)
    order = sorted(lines, key=lambda line: -line.weight)
    return [HotLine(line.file, line.line, line.text, line.weight, line.weight / whole) for line in order]
