"""Puts the overlapping events of one track into rows, so that no two events of a row overlap."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from .schema import Event

__all__ = ["rows_of"]


def rows_of(events: Sequence[tuple[int, Event]]) -> dict[int, int]:
    """Return the row of each event of one track, by the event's index: the lowest row that is free."""
    rows: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    used = 0
    for index, event in sorted(events, key=lambda each: (each[1].begin, -each[1].end)):
        while busy and busy[0][0] <= event.begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, used = used, used + 1
        rows[index] = row
        heapq.heappush(busy, (event.end, row))
    return rows
