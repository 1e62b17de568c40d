"""What predictions of the rows of ``hopper.py`` are given: shapes, numbers, and contents that decide the time."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {name: load_module(BENCHMARKS / f"{name}.py") for name in ("_row_inputs", "hopper")}


def inputs_of(benchmarks: dict[str, ModuleType], name: str) -> list[Any]:
    (row,) = (each for each in benchmarks["hopper"].ROWS if each.name == name)
    ((kernel, dims),) = benchmarks["hopper"].kernels_of(row)
    found: list[Any] = benchmarks["_row_inputs"].inputs_of(row, kernel, dims)
    return found


def test_cross_entropy_gets_targets_and_its_factor(benchmarks: dict[str, ModuleType]) -> None:
    logits, targets, factor = inputs_of(benchmarks, "cross-entropy bf16 4096x32768")
    assert logits == (4096, 32768) and factor == 1.0
    assert targets.shape == (4096,) and targets.min() >= 0 and targets.max() < 32768


def test_decoding_gets_whole_sequences(benchmarks: dict[str, ModuleType]) -> None:
    *shapes, lengths = inputs_of(benchmarks, "decode B1 keys 131072")
    assert all(isinstance(shape, tuple) for shape in shapes)
    np.testing.assert_array_equal(lengths, [131072])
