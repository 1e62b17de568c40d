"""What ncu has measured: parses its CSV and shows a short table for each kernel.

Owns the reading of two pages: ``details``, one row for each metric of each launch, and ``source`` with
``cuda,sass``, one row for each Python line and for each machine instruction below it. Source: Nsight Compute
CLI documentation, "Page output" and "--print-source".
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from ...core.records import dataclass

__all__ = ["HotLine", "NcuReport", "ProfiledKernel", "join", "read_details", "read_source"]

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
        note: why there are no Python lines, or empty.
    """

    kernels: tuple[ProfiledKernel, ...]
    path: Path | None = None
    note: str = ""

    def __str__(self) -> str:
        shown = [str(kernel) for kernel in self.kernels] or ["no kernel was measured"]
        return "\n\n".join([*shown, self.note] if self.note else shown)

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
        if not row[0].isdigit() or len(row) > len(head):
            continue
        # Where a rule adds columns to the head, the rows of metrics end before them.
        cells = dict(zip(head, row, strict=False))
        kernel = found.setdefault(
            cells["ID"],
            ProfiledKernel(cells["Kernel Name"], cells.get("Grid Size", ""), cells.get("Block Size", "")),
        )
        if cells.get("Metric Name"):
            kernel.metrics[cells["Metric Name"]] = (
                _number(cells["Metric Value"]),
                cells.get("Metric Unit", ""),
            )
    return list(found.values())


@dataclass
class _Part:
    """The rows of one file in the source page of one launch."""

    function: str
    file: str
    weighed_by: str = ""
    lines: list[HotLine] = field(default_factory=list)


def _parts(text: str) -> Iterator[_Part]:
    """Yield the parts of the page ``source``: rows that name file and function, a head, then the lines."""
    part: _Part | None = None
    file, function, head, column = "", "", [""], 0
    for row in _rows(text):
        if row[0] == "File Path":
            file = row[1] if len(row) > 1 else ""
        elif row[0] in ("Function Name", "Kernel Name"):
            function = row[1] if len(row) > 1 else ""
        elif row[0] == "Line No":
            if part is not None:
                yield part
            head = row
            column = next((head.index(name) for name in _WEIGHTS if name in head), 0)
            part = _Part(function, file, head[column] if column else "")
        elif part is not None and column and len(row) == len(head) and row[0].isdigit():
            # The rows of machine instructions have no line number; a line's row is their sum.
            weight = _number(row[column])
            if isinstance(weight, float) and weight > 0:
                part.lines.append(HotLine(file, int(row[0]), row[1].strip(), weight, 0.0))
    if part is not None:
        yield part


def read_source(text: str) -> list[ProfiledKernel]:
    """Parse the page ``source`` with ``cuda,sass`` in CSV: for each launch the name and the lines by weight.

    A launch has a part for each file. The next launch begins with another function, or with a file that the
    launch already has.
    """
    found: list[ProfiledKernel] = []
    files: set[str] = set()
    for part in _parts(text):
        if not found or part.function != found[-1].name or part.file in files:
            found.append(ProfiledKernel(part.function, "", ""))
            files = set()
        files.add(part.file)
        found[-1].lines += part.lines
        found[-1].weighed_by = part.weighed_by
    for kernel in found:
        kernel.lines = _shares(kernel.lines)
    return found


def join(kernels: list[ProfiledKernel], source: list[ProfiledKernel]) -> str:
    """Give the launches their lines. Returns why not, if the pages do not show the same launches."""
    named = [(a.name, b.name) for a, b in zip(kernels, source, strict=False)]
    if len(kernels) != len(source) or any(a.split("(")[0] != b.split("(")[0] for a, b in named):
        return (
            f"no Python lines: the launches in ncu's page of sources ({len(source)}) are not those of "
            f"its page of figures ({len(kernels)})"
        )
    for kernel, lines in zip(kernels, source, strict=True):
        kernel.lines, kernel.weighed_by = lines.lines, lines.weighed_by
    return ""


def _shares(lines: list[HotLine]) -> list[HotLine]:
    whole = sum(line.weight for line in lines)
    order = sorted(lines, key=lambda line: -line.weight)
    return [HotLine(line.file, line.line, line.text, line.weight, line.weight / whole) for line in order]
