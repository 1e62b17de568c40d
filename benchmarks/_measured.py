"""Reads what ``hopper.py`` has measured from the tables of docs/performance.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "Time", "measured_times"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
_HEADING = re.compile(r"### (?P<group>\S+), (?P<protocol>burst|sustained)")
_COLUMNS = ("row", "ours")
#: The column of a sustained table that has power, clock and energy; ours are the first of its values.
_DRAWN = "ours, then rivals: W, MHz, pJ/FLOP"


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
