"""The files of a timeline: its own JSON form, trace events, and what the page contains."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyptx import SpecError
from pyptx.timeline import Cause, Event, EventKind, Line, Timeline, Track, TrackKind
from pyptx.tools.cli import cli


def sample(**changes: Any) -> Timeline:
    """Return a timeline with an event of each kind, overlapping spans, a wait that ended and one that did not."""
    tracks = [
        Track(TrackKind.WARP, "warp 0", "CTA (0, 0, 0)", 0, 5),
        Track(TrackKind.ENGINE, "TMA, bulk copies", "CTA (0, 0, 0)", 0),
        Track(TrackKind.BARRIER, "full[1]", "CTA (1, 0, 0)", 1),
    ]
    lines = [Line(__file__, sample.__code__.co_firstlineno, "sample", 1), Line("<stdin>", 3)]
    events = [
        Event(0, EventKind.SPAN, 0, 4, "mbarrier.arrive", line=0),
        Event(0, EventKind.WAIT, 4, 9, "try_wait", Cause.BYTES, "full[1]", 0, 1, 0, "</script><b>", by=2),
        Event(1, EventKind.SPAN, 2, 8, "cp.async.bulk", line=1, detail="64 bytes"),
        Event(1, EventKind.SPAN, 3, 12, "cp.async.bulk"),
        Event(1, EventKind.SPAN, 8, 10, "cp.async.bulk"),
        Event(2, EventKind.INSTANT, 8, 8, "mbarrier.complete_tx", Cause.BYTES, "full[1]", 0, 1),
        Event(0, EventKind.WAIT, 10, 14, "try_wait", Cause.WARPS, "full[1]", 1, 1, open=True),
    ]
    sources = {"<stdin>": "one\ntwo\nthree\nfour"}
    given = {"dropped": 3, "notes": ["a note"], "sources": sources, "hangs": True, **changes}
    return Timeline("a <title> %DATA%", "order", tracks, events, lines, **given)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    sample().json(path)
    assert Timeline.read(path) == sample()
    assert [event.by for event in sample().open_waits()] == [-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not a timeline"),
        ({"version": 2}, "version 2"),
        ({"unit": "hours"}, "unit is 'hours'"),
        ({"tracks": []}, "does not exist"),
        ({"kinds": ["span", "wait", "pause"]}, "damaged"),
        ({"more": 1}, "has the fields"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps({**sample().to_object(), **change}))
    with pytest.raises(SpecError, match=message):
        Timeline.read(path)


def test_an_event_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    value = sample().to_object()
    value["events"]["end"][0] = -1
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(value))
    with pytest.raises(SpecError, match="before it begins"):
        Timeline.read(path)
    path.write_text("{")
    with pytest.raises(SpecError, match="cannot be read"):
        Timeline.read(path)


#: The fields that the Trace Event Format requires of each phase, and their types.
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "X": {
        "name": str,
        "cat": str,
        "pid": int,
        "tid": int,
        "ts": (int, float),
        "dur": (int, float),
        "args": dict,
    },
    "i": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "s": str, "args": dict},
    "s": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "id": int},
    "f": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "id": int, "bp": str},
}


def check_trace(path: Path) -> list[dict[str, Any]]:
    """Check a file of trace events: fields and types, spans of one thread that do not overlap, named threads."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    flows: dict[int, list[str]] = {}
    for event in events:
        for field, kind in FIELDS[event["ph"]].items():
            assert isinstance(event[field], kind), (field, event)
        if event["ph"] != "M":
            assert (event["pid"], event["tid"]) in named and event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            span = event["ts"], event["ts"] + event["dur"]
            spans.setdefault((event["pid"], event["tid"]), []).append(span)
        if event["ph"] in "sf":
            flows.setdefault(event["id"], []).append(event["ph"])
        if event["ph"] == "i":
            assert event["s"] in "gpt"
    assert all(found == ["s", "f"] for found in flows.values())
    for its in spans.values():
        its.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(its))
    return events


def test_trace_events_have_the_documented_form(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    sample().chrome(path)
    events = check_trace(path)
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == ["warp 0", "TMA, bulk copies", "TMA, bulk copies", "full[1]"]
    wait = next(event for event in events if event.get("cat") == "wait")
    assert wait["args"] == {
        "cause": "bytes of copies",
        "barrier": "full[1]",
        "phase": 0,
        "stage": 1,
        "detail": "</script><b>",
        "line": f"{__file__}:{sample.__code__.co_firstlineno}, called from <stdin>:3",
    }
    assert [event["ph"] for event in events if event.get("cat") == "ends"] == ["s", "f"]


def test_nanoseconds_are_microseconds_in_trace_events(tmp_path: Path) -> None:
    whole = sample()
    whole.unit = "ns"
    whole.chrome(tmp_path / "trace.json")
    spans = [event for event in check_trace(tmp_path / "trace.json") if event["ph"] == "X"]
    assert (spans[0]["ts"], spans[0]["dur"]) == (0, 0.004)


def test_the_page_needs_no_other_file_and_has_the_source_lines(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    sample().html(path)
    text = path.read_text()
    assert "http:" not in text and "https:" not in text and "src=" not in text and "@import" not in text
    assert "<title>a &lt;title&gt; %DATA%</title>" in text
    data = text.partition('<script id="data" type="application/json">')[2].partition("</script>")[0]
    shown = json.loads(data)
    assert shown["excerpts"]["<stdin>"] == {"1": "one", "2": "two", "3": "three", "4": "four"}
    own = shown["excerpts"][__file__]
    assert "def sample(**changes: Any)" in own[str(sample.__code__.co_firstlineno)]
    assert shown["texts"].count("</script><b>") == 1 and shown["notes"] == ["a note"]


def test_the_command_writes_other_forms_and_tells_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    sample().json(path)
    runner = CliRunner()
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    done = runner.invoke(cli, ["timeline", str(path), "--html", str(page), "--chrome", str(trace)])
    assert done.exit_code == 0 and page.exists() and check_trace(trace)
    done = runner.invoke(cli, ["timeline", str(path)])
    assert done.output.splitlines() == [
        "a <title> %DATA%: 7 events on 3 tracks",
        "3 events were dropped",
        "never ends: CTA (0, 0, 0) warp 0: try_wait",
    ]
