"""Reads the buffer of a :class:`~pyptx.kit.trace.Trace`: the records of each warp as a timeline.

:mod:`.trace_records` says how the buffer is laid out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ..core.records import dataclass
from ..timeline import Event, EventKind, Timeline, Track, TrackKind
from ..timeline.schema import Lines
from .trace_records import BEGIN, END, HEADER_WORDS, MAGIC, RECORD_WORDS, MarkName

__all__ = ["timeline_of"]

_NO_VALUE = 0xFFFFFFFF


@dataclass
class _Warp:
    """What one warp has stored: its header, and its records from the oldest kept to the newest."""

    cta: int
    sm: int
    index: int
    clocks: list[tuple[int, int]]
    records: NDArray[np.uint32]
    dropped: int
    ended: bool

    def times(self) -> NDArray[np.float64]:
        words = self.records.astype(np.uint64)
        return (words[:, 0] | (words[:, 1] & np.uint64(0xFFFF)) << np.uint64(32)).astype(np.float64)


def timeline_of(
    words: NDArray[np.uint32],
    names: Sequence[MarkName],
    title: str,
    *,
    simulated: bool = False,
    aligned: bool = True,
) -> Timeline:
    """Return the timeline of a buffer of shape [CTAs, warps, words of a warp].

    With ``aligned`` the clocks of multiprocessors are aligned by the timer, if that is possible.
    """
    warps = [_read(cta, index, words[cta, index]) for cta, index in np.ndindex(*words.shape[:2])]
    started = [warp for warp in warps if warp is not None]
    unit, rate, starts = _scale(started, simulated=simulated, aligned=aligned)
    reader = _Reader(names)
    for warp in started:
        reader.add(warp, (warp.times() - starts[warp.sm]) * rate)
    notes = []
    if len(started) < len(warps):
        notes.append(f"{len(warps) - len(started)} of {len(warps)} warps have not started")
    late = sum(not warp.ended for warp in started)
    if late:
        notes.append(f"{late} of {len(started)} warps did not reach trace.finish()")
    reader.shift()
    dropped = sum(warp.dropped for warp in started)
    return Timeline(title, unit, reader.tracks, reader.events, reader.lines.found, dropped, notes)


def _read(cta: int, index: int, words: NDArray[np.uint32]) -> _Warp | None:
    header, records = words[:HEADER_WORDS], words[HEADER_WORDS:].reshape(-1, RECORD_WORDS)
    if header[0] != MAGIC:
        return None
    kept = records[records[:, 2] != 0]
    kept = kept[np.argsort(kept[:, 2], kind="stable")]
    newest = int(kept[-1, 2]) if len(kept) else 0
    ended = bool(header[13])
    pairs = header[4:12].view(np.uint64).tolist()
    clocks = [(pairs[0], pairs[1]), (pairs[2], pairs[3])] if ended else [(pairs[0], pairs[1])]
    return _Warp(cta, int(header[1]), index, clocks, kept, newest - len(kept), ended)


def _scale(warps: Sequence[_Warp], *, simulated: bool, aligned: bool) -> tuple[str, float, dict[int, float]]:
    """Return the unit, the length of a cycle in it, and for each multiprocessor the clock at time 0."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    for warp in warps:
        pairs.setdefault(warp.sm, []).extend(warp.clocks)
    if simulated:
        first = min((clock for its in pairs.values() for clock, _ in its), default=0)
        return "order", 1.0, dict.fromkeys(pairs, float(first))
    spans = [(max(its)[0] - min(its)[0], max(its)[1] - min(its)[1]) for its in pairs.values()]
    cycles, nanoseconds = sum(span[0] for span in spans), sum(span[1] for span in spans)
    if not aligned or not cycles or not nanoseconds or not any(warp.ended for warp in warps):
        return "cycles", 1.0, {sm: float(min(its)[0]) for sm, its in pairs.items()}
    rate = nanoseconds / cycles
    zero = min(timer for its in pairs.values() for _, timer in its)
    # The timer advances in steps: the median of all pairs of a multiprocessor is less off than one pair.
    starts = {
        sm: float(np.median([clock - (timer - zero) / rate for clock, timer in its]))
        for sm, its in pairs.items()
    }
    return "ns", rate, starts


@dataclass
class _Reader:
    """Makes tracks and events of the records of warps."""

    names: Sequence[MarkName]
    tracks: list[Track] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    lines: Lines = field(default_factory=Lines)

    def add(self, warp: _Warp, times: NDArray[np.float64]) -> None:
        """Add the track of a warp with its events; a warp without marks has no track."""
        if not len(times):
            return
        track = len(self.tracks)
        group = f"CTA {warp.cta} (SM {warp.sm})"
        self.tracks.append(Track(TrackKind.WARP, f"warp {warp.index}", group, warp.cta, warp.sm))
        begun: list[Event] = []
        first, last = float(times[0]), float(times[-1])
        for time, (_, upper, _, value) in zip(times.tolist(), warp.records.tolist(), strict=True):
            kind, number = upper >> 16 & 3, upper >> 18
            name = self.names[number]
            if kind == END:
                # Spans nest, so the end belongs to the innermost open span of its name. If there is none,
                # the record of the beginning was overwritten.
                opened = next((each for each in reversed(begun) if each.name == name.name), None)
                if opened is not None:
                    del begun[begun.index(opened) :]
                    opened.end, opened.open = time, False
                    continue
            event = self._event(track, name, value, time)
            if kind == END:
                event.begin, event.kind = first, EventKind.SPAN
                event.detail += " (its beginning was overwritten)"
            elif kind == BEGIN:
                event.kind, event.open = EventKind.SPAN, True
                begun.append(event)
            self.events.append(event)
        for event in self.events:
            if event.track == track and event.open:
                event.end = last

    def _event(self, track: int, name: MarkName, value: int, time: float) -> Event:
        event = Event(track, EventKind.INSTANT, time, time, name.name, line=self.lines.add(name.location))
        if value != _NO_VALUE and name.is_stage:
            event.stage = value
        elif value != _NO_VALUE:
            event.detail = f"value {value}"
        return event

    def shift(self) -> None:
        """Let the first event begin at 0, and round to a hundredth."""
        zero = min((event.begin for event in self.events), default=0.0)
        for event in self.events:
            event.begin, event.end = round(event.begin - zero, 2), round(event.end - zero, 2)
