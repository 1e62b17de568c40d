"""The timeline of one run: its events, and the files that it can be written to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.errors import SpecError
from ..core.records import dataclass
from .chrome import trace_events
from .html import page_of
from .schema import Event, EventKind, Line, Track, from_object, to_object

__all__ = ["Timeline"]

#: Unit of ``begin`` and ``end``: what the page says about the axis.
UNITS: Mapping[str, str] = {
    "order": "simulated order, not time: each step is one event of the simulator",
    "cycles": "clock cycles of each multiprocessor, whose clocks are not aligned",
    "ns": "nanoseconds",
}


@dataclass(repr=False)
class Timeline:
    """What happened in one run, on tracks: warps, engines, barriers, stages of rings.

    Attributes:
        title: what ran, for people.
        unit: ``"order"`` in the simulator, which has no time; ``"ns"`` or ``"cycles"`` on a GPU.
        tracks: the tracks, in the order in which the page shows them.
        events: the events; their ``track``, ``line`` and ``by`` are indices.
        lines: the source lines that the events name, with their callers.
        dropped: number of events that were not kept, because there was no room for them.
        notes: what the reader must know, such as findings of the run.
        sources: text of files that cannot be read from disk, by name: a PTX text, for example.
        hangs: True if the run ended because no thread could run any more: open waits never end.
    """

    title: str
    unit: str
    tracks: Sequence[Track]
    events: Sequence[Event]
    lines: Sequence[Line] = ()
    dropped: int = 0
    notes: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise SpecError(f"unit is {self.unit!r}: expected {', '.join(map(repr, UNITS))}")

    def __repr__(self) -> str:
        lost = f", {self.dropped} dropped" if self.dropped else ""
        return f"<timeline of {self.title}: {len(self.events)} events on {len(self.tracks)} tracks{lost}>"

    def open_waits(self) -> list[Event]:
        """Return the waits that had not ended when the run ended. If it :attr:`hangs`, they never end."""
        return [event for event in self.events if event.open and event.kind is EventKind.WAIT]

    # --- files ------------------------------------------------------------------------------------

    def to_object(self) -> dict[str, Any]:
        """Return the JSON form as Python objects; docs/timeline.md describes it."""
        head = {
            "title": self.title,
            "unit": self.unit,
            "dropped": self.dropped,
            "notes": list(self.notes),
            "sources": dict(self.sources),
            "hangs": self.hangs,
        }
        return to_object(head, self.tracks, self.lines, self.events)

    def json(self, path: str | PathLike[str]) -> None:
        """Write the JSON form, which :meth:`read` reads."""
        _write(path, json.dumps(self.to_object(), separators=(",", ":")))

    def chrome(self, path: str | PathLike[str]) -> None:
        """Write trace events in JSON, which Perfetto and ``chrome://tracing`` open.

        One unit of the timeline is one microsecond there, except for nanoseconds.
        """
        scale = 1e-3 if self.unit == "ns" else 1.0
        events = trace_events(self.tracks, self.events, self.lines, scale)
        other = {"title": self.title, "unit": UNITS[self.unit], "dropped": self.dropped}
        _write(path, json.dumps({"traceEvents": events, "otherData": other}, separators=(",", ":")))

    def html(self, path: str | PathLike[str]) -> None:
        """Write one page that shows the timeline in a browser. It needs no network and no other file.

        The page has the source lines around every line that an event names, as far as their files can be
        read now.
        """
        _write(path, page_of(self.to_object(), self.title, UNITS[self.unit], self.lines, self.sources))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Timeline:
        """Return the timeline that :meth:`json` wrote.

        Raises:
            SpecError: the file cannot be read, or is not a timeline.
        """
        try:
            value = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise SpecError(f"{path} cannot be read as a timeline: {error}") from None
        head, tracks, lines, events = from_object(value)
        known = {"title", "unit", "dropped", "notes", "sources", "hangs"}
        if not {"title", "unit"} <= set(head) <= known:
            raise SpecError(f"{path} has the fields {', '.join(head) or 'none'}: expected {', '.join(known)}")
        return cls(tracks=tracks, lines=lines, events=events, **head)


def _write(path: str | PathLike[str], text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")
