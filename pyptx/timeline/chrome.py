"""Writes a timeline as trace events, the JSON that Perfetto and Chrome open.

Each group (a CTA) is a process, each track a thread. Events of one track that overlap go to further threads
of the same name, since complete events of one thread must not overlap. A wait and the event that ended it
are joined by a flow. Source: the Trace Event Format document, and Perfetto's page on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .rows import rows_of
from .schema import Cause, Event, EventKind, Line, Track

__all__ = ["trace_events"]

#: Names of colors that chrome://tracing knows, for the causes of waits.
_COLORS = {
    Cause.BYTES: "thread_state_iowait",
    Cause.MMA: "rail_animation",
    Cause.WARPS: "thread_state_runnable",
    Cause.BARRIER: "thread_state_sleeping",
    Cause.CLUSTER: "terrible",
}


def trace_events(
    tracks: Sequence[Track], events: Sequence[Event], lines: Sequence[Line], scale: float
) -> list[dict[str, Any]]:
    """Return the trace events; ``scale`` is the number of microseconds of one unit."""
    processes = {group: number for number, group in enumerate(dict.fromkeys(t.group for t in tracks), 1)}
    by_track: list[list[tuple[int, Event]]] = [[] for _ in tracks]
    for index, event in enumerate(events):
        by_track[event.track].append((index, event))
    made: list[dict[str, Any]] = []
    for group, pid in processes.items():
        made.append(_metadata("process_name", pid, 0, name=group))
        made.append(_metadata("process_sort_index", pid, 0, sort_index=pid))
    threads: dict[int, tuple[int, int]] = {}
    tid = 0
    for track, its in zip(tracks, by_track, strict=True):
        pid, rows = processes[track.group], rows_of(its)
        for row in range(max(rows.values(), default=0) + 1):
            tid += 1
            made.append(_metadata("thread_name", pid, tid, name=track.name))
            made.append(_metadata("thread_sort_index", pid, tid, sort_index=tid))
            for index, event in its:
                if rows[index] == row:
                    threads[index] = pid, tid
                    made.append(_one(event, pid, tid, lines, scale))
    for index, event in enumerate(events):
        if event.by >= 0:
            made += _flow(index, event, events[event.by], threads[index], threads[event.by], scale)
    return made


def _metadata(what: str, pid: int, tid: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": arguments}


def _one(event: Event, pid: int, tid: int, lines: Sequence[Line], scale: float) -> dict[str, Any]:
    known: dict[str, Any] = {
        "cause": event.cause.value,
        "barrier": event.barrier,
        "phase": event.phase if event.phase >= 0 else "",
        "stage": event.stage if event.stage >= 0 else "",
        "detail": event.detail,
        "line": _chain(event.line, lines),
        "never ended": event.open or "",
    }
    found: dict[str, Any] = {
        "name": event.name,
        "cat": event.kind.value,
        "pid": pid,
        "tid": tid,
        "ts": event.begin * scale,
        "args": {key: value for key, value in known.items() if value != ""},
    }
    if event.kind is EventKind.INSTANT:
        found |= {"ph": "i", "s": "t"}
    else:
        found |= {"ph": "X", "dur": (event.end - event.begin) * scale}
    if event.kind is EventKind.WAIT and event.cause in _COLORS:
        found["cname"] = _COLORS[event.cause]
    return found


def _chain(line: int, lines: Sequence[Line]) -> str:
    """Return the line and its callers, innermost first."""
    found = []
    while line >= 0:
        found.append(f"{lines[line].file}:{lines[line].line}")
        line = lines[line].caller
    return ", called from ".join(found)


def _flow(
    number: int, wait: Event, by: Event, waits: tuple[int, int], ended: tuple[int, int], scale: float
) -> list[dict[str, Any]]:
    """Return the two ends of an arrow from the event that ended a wait to the wait's end."""
    common = {"name": "ends", "cat": "ends", "id": number}
    start = {**common, "ph": "s", "pid": ended[0], "tid": ended[1], "ts": by.begin * scale}
    end = {**common, "ph": "f", "bp": "e", "pid": waits[0], "tid": waits[1], "ts": wait.end * scale}
    return [start, end]
