"""What the benchmark programs do around a measurement: intervals, results that outlive a process, time limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load_module(BENCHMARKS / "_rows.py")


class Kernel:
    def __init__(self, text: str) -> None:
        self.text = text

    def ptx(self, **dims: int) -> str:
        return self.text + json.dumps(dims)


def row(rows: ModuleType, name: str, text: str = "a", **options: Any) -> Any:
    return rows.Row(
        name=name,
        group="group",
        ours=lambda: Kernel(text),
        rivals=lambda torch: {},
        inputs=lambda torch, copy: (),
        reference=lambda: None,
        rtol=0.0,
        atol=0.0,
        flops=2e9,
        **options,
    )


def speed(rows: ModuleType, *times: float) -> Any:
    return rows.Speed(float(np.median(times)), min(times), max(times), times)


def test_the_interval_of_a_ratio(rows: ModuleType) -> None:
    assert rows.ratio_interval((2.0, 4.0, 8.0), (2.0, 4.0, 8.0)) == (1.0, 1.0, 1.0)
    # Drift that both share does not widen it; noise does.
    drift = 1 + np.arange(100) / 50
    assert rows.ratio_interval(drift, 1.5 * drift) == pytest.approx((1.5, 1.5, 1.5))
    noise = np.random.default_rng(1).normal(1.0, 0.1, 400)
    middle, low, high = rows.ratio_interval(np.ones(400), 1.5 * noise)
    assert low < middle < high and low < 1.5 < high
    # The standard error of a median is 1.25 sigma / sqrt(n); the interval is 3.9 of them wide.
    assert high - low == pytest.approx(3.92 * 1.25 * 0.15 / 20, rel=0.4)


def test_results_outlive_the_process(rows: ModuleType, tmp_path: Path) -> None:
    results = rows.Results(tmp_path / "new" / "results.jsonl")
    first = rows.Measured("a", "burst", "H200", "t", {"pyptx": speed(rows, 1.0, 2.0)}, ("pyptx",))
    second = replace(first, text="u", speeds={"pyptx": speed(rows, 3.0)})
    for measured in (first, second):
        results.add(measured)
    assert rows.Results(results.path).known == {("a", "burst"): second}


def test_a_hash_covers_all_kernels_and_sizes(rows: ModuleType) -> None:
    one, other = Kernel("a"), Kernel("b")
    plain = row(rows, "r")
    composed = replace(plain, ours=lambda: rows.Composed(print, [(one, {}), (other, {"M": 3})]))
    more = replace(plain, candidates=lambda: {"other": other})
    sized = replace(plain, dims={"M": 3})
    hashes = [rows.text_of(each, False) for each in (plain, composed, sized)]
    hashes += [rows.text_of(more, True)]
    assert len(set(hashes)) == 4
    assert rows.text_of(more, False) == hashes[0]


def _program(rows: ModuleType, path: Path, body: str) -> list[str]:
    """A program that measures the rows whose names it reads."""
    text = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\nfrom _rows import *\nfrom pathlib import Path\n"
    text += f"results = Results(Path({str(path)!r}))\nfor name in map(str.strip, sys.stdin):\n"
    text += "".join(f"    {line}\n" for line in [*body.splitlines(), "print(name, flush=True)"])
    return [sys.executable, "-c", text]


DONE = "results.add(Measured(name, 'burst', 'H200', {text!r}, {{'pyptx': Speed(2.0, 1.0, 3.0, (2.0,))}}, ('pyptx',)))"


@pytest.fixture
def run(rows: ModuleType, tmp_path: Path) -> Callable[..., Any]:
    path = tmp_path / "results.jsonl"

    def run(body: str, *given: Any, budget: float = 100.0, limit: float = 50.0) -> Any:
        limits = {"budget": budget, "limit": limit}
        program = _program(rows, path, body)
        rows.run_rows(program, given, rows.Results(path), "burst", candidates=False, **limits)
        return rows.Results(path).known

    return run


def test_a_measured_row_is_not_run_again(
    rows: ModuleType, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    given = row(rows, "r")
    body = DONE.format(text=rows.text_of(given, False))
    assert run(body, given)["r", "burst"].speeds["pyptx"].median == 2.0
    assert "r " in capsys.readouterr().out
    run("raise SystemExit('run again')", given)
    assert "2.0 us" in (shown := capsys.readouterr().out) and "1000.0 TFLOP/s" in shown
    changed = run("raise SystemExit('run again')", row(rows, "r", "changed"))
    assert changed["r", "burst"].fault == "run again"


@pytest.mark.full
def test_a_row_that_hangs_or_fails_costs_itself_alone(
    rows: ModuleType, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    body = "import time\nif name == 'hangs': time.sleep(60)\nif name == 'fails': raise ValueError('wrong sums\\n  hint: add')\n"
    given = [row(rows, name) for name in ("hangs", "fails", "works")]
    body += DONE.format(text=rows.text_of(given[0], False))
    known = run(body, *given, limit=1.5)
    faults = [known[name, "burst"].fault for name in ("hangs", "fails", "works")]
    assert faults == ["no end after 2 s", "ValueError: wrong sums", ""]
    assert "wrong sums" in capsys.readouterr().out


def test_no_row_begins_when_the_time_is_over(
    rows: ModuleType, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("", row(rows, "r"), budget=3.0) == {}
    assert "not begun" in capsys.readouterr().out


def test_the_page_says_what_was_missed(rows: ModuleType, tmp_path: Path) -> None:
    results = rows.Results(tmp_path / "results.jsonl")
    speeds = {"pyptx": speed(rows, 100.0, 100.0), "library": speed(rows, 101.0, 101.0)}
    given = [
        row(rows, "near", target=1.02),
        row(rows, "far", target=1.0),
        row(rows, "broken"),
        row(rows, "new"),
    ]
    for name in ("near", "far"):
        results.add(rows.Measured(name, "burst", "H200", "", speeds, ("pyptx",)))
    results.add(rows.Measured("broken", "burst", "H200", "", {}, (), "no end after 90 s"))
    lines = rows.page(given, results).splitlines()
    assert lines[0] == "## group, burst"
    near, far, broken = lines[-3:]
    expected = "| near | 100.0 us | 20.0 TFLOP/s | library 101.0 us | 1.010 (1.010 to 1.010) | 1.02, missed | normal |"
    assert near == expected
    assert "| 1 | normal |" in far
    assert "not measured: no end after 90 s" in broken
    assert "MISSED 1.02" in rows.lines_of(given[0], results.known["near", "burst"])


@pytest.mark.slow
@pytest.mark.full
def test_every_row_of_the_hopper_benchmark_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    hopper = load_module(BENCHMARKS / "hopper.py")
    assert len({row.name for row in hopper.ROWS}) == len(hopper.ROWS)
    for row in hopper.ROWS:
        for kernel, dims in hopper.kernels_of(row):
            assert kernel.specialize(**dims).module.functions, row.name
