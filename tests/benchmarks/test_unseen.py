"""Predictions that are committed before they are measured: rows, digest and score."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("_unseen", "hopper", "predict_unseen")
    return SimpleNamespace(**{name: load_module(BENCHMARKS / f"{name}.py") for name in names})


LINE = {
    "row": "unseen a", "kind": "burst", "text": "t", "value": 10.0, "low": 9.0, "high": 12.0, "mhz": 1980,
    "bound": "HBM", "roofline": 8.0, "closed form": None,
}  # fmt: skip


def test_unseen_rows_have_sizes_of_their_own_and_run_where_they_are_named(benchmarks: Any) -> None:
    rows, chosen = benchmarks.hopper.ROWS, benchmarks.hopper.chosen
    unseen = benchmarks._unseen.UNSEEN
    known = {row.name for row in rows}
    names = [row.name for row in unseen]
    assert len(set(names)) == len(names) >= 20
    assert not known & {name.removeprefix("unseen ") for name in names}
    assert chosen([]) == rows
    assert [row.name for row in chosen(["unseen"])] == names
    assert [row.name for row in chosen(names[:1])] == names[:1]
    assert [row.name for row in chosen(["unseen", rows[0].name])] == [*names, rows[0].name]


def test_the_digest_is_that_of_the_predictions_in_any_order(benchmarks: Any) -> None:
    digest = benchmarks.predict_unseen.digest
    other = {**LINE, "row": "unseen b"}
    assert digest([LINE, other]) == digest([other, dict(reversed(LINE.items()))])
    assert digest([LINE]) != digest([{**LINE, "value": 10.01}])


@pytest.mark.full
def test_a_prediction_of_a_row(benchmarks: Any) -> None:
    row = next(row for row in benchmarks._unseen.UNSEEN if row.name == "unseen swiglu bf16 3000x10240")
    found = {kind: benchmarks.predict_unseen.predict(row, kind, 250.0) for kind in ("cycles", "burst")}
    cycles, burst = found["cycles"], found["burst"]
    assert burst["low"] < burst["value"] < burst["high"] and burst["roofline"] < burst["value"]
    assert cycles["value"] == pytest.approx(burst["value"] * burst["mhz"], rel=0.15)
    assert cycles["text"] == burst["text"]
    json.dumps(found)


def test_the_score(benchmarks: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = benchmarks.predict_unseen
    times, counters = tmp_path / "times.jsonl", tmp_path / "counters.jsonl"
    speed: dict[str, Any] = {"median": 11.0, "low": 11.0, "high": 11.0, "times": [11.0]}
    result = {"row": "unseen a", "protocol": "burst", "device": "", "text": "t", "speeds": {"pyptx": speed}}
    times.write_text(json.dumps({**result, "ours": ["pyptx"], "fault": "", "when": ""}) + "\n")
    counters.write_text(
        json.dumps({"range": '1 "<default domain>:unseen a|pyptx:none" ', "kernel": "k", "cycles": 19000.0})
        + "\n"
    )
    measured = program.measured_of(times, counters)
    assert measured == {("unseen a", "burst"): (11.0, "t"), ("unseen a", "cycles"): (19000.0, "")}
    lines = [LINE, {**LINE, "kind": "cycles", "value": 20000.0, "low": 19500.0, "high": 21000.0}]
    program.score([*lines, {**LINE, "kind": "sustained"}], measured)
    shown = capsys.readouterr().out
    assert "| a | burst | 10.0 | 11.0 | -9.1% | yes | -27.3% |  |" in shown
    assert "| a | cycles | 20,000 | 19,000 | +5.3% | no |" in shown
    assert "sustained | not measured" in shown
    assert "cycles: 1 rows, mean 5.3%, bias +5.3%, worst 5.3%; 0 within their intervals" in shown
    with pytest.raises(AssertionError, match="not the one that was predicted"):
        program.score([{**LINE, "text": "another"}], measured)
