"""The page of predictions for a B200 has the rows that its SHA-256 says, and they agree with themselves."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import pytest

from pyptx.tools.load import load_module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return load_module(ROOT / "benchmarks/predict_blackwell.py")


@pytest.fixture(scope="module")
def page(program: ModuleType) -> str:
    return str(program.PAGE.read_text())


def test_the_hash_is_that_of_the_rows(program: ModuleType, page: str) -> None:
    rows, stated = program.rows_of(page)
    assert rows and program.digest(rows) == stated


def test_another_row_has_another_hash(program: ModuleType, page: str) -> None:
    rows, stated = program.rows_of(page)
    changed = page.replace(rows[0], rows[0].replace("0", "1"), 1)
    assert program.digest(program.rows_of(changed)[0]) != stated


def test_rows_agree_with_themselves(program: ModuleType, page: str) -> None:
    """Microseconds, cycles and MHz; TFLOP/s of the shape; the interval holds the time."""
    for row in program.rows_of(page)[0]:
        _, shape, _, us, interval, tflops, cycles, mhz, bound, _ = row.strip("| ").split(" | ")
        if bound == "none":
            continue
        assert float(cycles) / float(mhz) == pytest.approx(float(us), rel=1e-3, abs=2e-3)
        low, high = map(float, interval.split(" to "))
        assert low < float(us) < high
        flops = 2 * math.prod(map(int, shape.split("x")))
        # Microseconds are rounded to a thousandth, TFLOP/s to a whole number.
        rounded = 0.5 + float(tflops) * 0.00051 / float(us)
        assert flops / float(us) / 1e6 == pytest.approx(float(tflops), rel=0, abs=rounded)


def test_rows_that_have_no_prediction_say_why(program: ModuleType) -> None:
    made = program.predict("k", lambda M, N, K: _refuse(), (1, 1, 1), 1300.0, "b200")
    assert made["why"] == "no such size"
    row = program.cells(made)
    assert len(row) == len(program.HEADS) and row[-2:] == ("none", "no such size")


def _refuse() -> None:
    raise ValueError("no such size")
