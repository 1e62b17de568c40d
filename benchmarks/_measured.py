"""Reads from docs/performance.md what ``hopper.py`` and ``hopper_counters.py`` have measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COUNTED", "PAGE", "Counted", "Time", "counted_launches", "measured_times"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
_HEADING = re.compile(r"### (?P<group>\S+), (?P<protocol>burst|sustained)")
_COLUMNS = ("row", "ours")
#: The column of a sustained table that has power, clock and energy; ours are the first of its values.
_DRAWN = "ours, then rivals: W, MHz, pJ/FLOP"
#: The columns of the table of counters.
COUNTED = (
    *("row", "kernel", "cycles", "MHz", "active cycles", "tensor %", "issue %", "L2 %", "DRAM %"),
    *("MB read", "MB written", "MB of L2"),
)


@dataclass(frozen=True)
class Counted:
    """What ncu has counted in one launch.

    Attributes:
        row, kernel: the row of the page that the launch belongs to, and its kernel.
        cycles, mhz: from start to end, and at what clock.
        active: cycles in which an SM had a CTA, their mean.
        tensor, issue, l2, dram: percent of the peak: cycles of the tensor pipe, slots of the scheduler while
            an SM was active, L2 and memory.
        read, written, moved: MB from memory, to memory, and through L2.
    """

    row: str
    kernel: str
    cycles: float
    mhz: float
    active: float
    tensor: float
    issue: float
    l2: float
    dram: float
    read: float
    written: float
    moved: float


def counted_launches(page: Path = PAGE) -> list[Counted]:
    """Return the launches of the page's table of counters, in their order."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    found: list[Counted] = []
    for line in lines:
        if line == f"| {' | '.join(COUNTED)} |":
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    break
                name, kernel, *numbers = (cell.strip() for cell in row.strip("|").split("|"))
                found.append(Counted(name, kernel, *map(float, numbers)))
    return found


@dataclass(frozen=True)
class Time:
    """One measured row.

    Attributes:
        row: its name.
        group, protocol: of its table.
        us: time of our kernel in microseconds.
        mhz: clock of the multiprocessors that NVML gave, under the sustained protocol.
        watts: power of the board, likewise.
    """

    row: str
    group: str
    protocol: str
    us: float
    mhz: float | None = None
    watts: float | None = None


def measured_times(page: Path = PAGE) -> list[Time]:
    """Return the rows of all tables of a page that ``hopper.py --page`` printed, in their order.

    Raises:
        ValueError: a table of results without the columns that are read here.
    """
    found: list[Time] = []
    table: dict[str, str] | None = None
    columns: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            match = _HEADING.fullmatch(line)
            table, columns = (match.groupdict() if match else None), []
        if table is None or not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns = cells
            if tuple(columns[:2]) != _COLUMNS:
                raise ValueError(f"{page}: the table {table} begins with {columns[:2]}, not {_COLUMNS}")
        elif not set(cells[0]) <= set("-:"):
            given = dict(zip(columns, cells, strict=True))
            drawn = given.get(_DRAWN, "").split(";")[0].split(",")
            watts, mhz = (float(drawn[0]), float(drawn[1])) if len(drawn) == 3 else (None, None)
            us = float(given["ours"].removesuffix(" us"))
            found.append(Time(given["row"], table["group"], table["protocol"], us, mhz, watts))
    return found
