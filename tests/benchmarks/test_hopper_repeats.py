"""``benchmarks/hopper_repeats.py``: runs that give other bits are counted, backwards run in the bit-equal mode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.tools.load import load_module
from tests.benchmarks.test_rows import BENCHMARKS

torch = pytest.importorskip("torch")


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load_module(BENCHMARKS / "hopper_repeats.py")


def test_runs_with_other_bits_are_counted(repeats: Any) -> None:
    row = SimpleNamespace(inputs=lambda torch, copy: (torch.arange(5.0),))
    numbers = iter(range(100))

    def unequal(x: Any) -> Any:
        # 0.0 and -0.0 are equal numbers and other bits, in the last of two outputs.
        return x * 2, torch.tensor([0.0 if next(numbers) % 3 else -0.0])

    # Runs 0, 3, 6 and 9 give -0.0.
    assert repeats.differing_runs(torch, row, unequal, 10, 60.0) == (10, 6)
    assert repeats.differing_runs(torch, row, lambda x: x + 1, 10, 60.0) == (10, 0)


def test_words_that_a_run_leaves_out_differ(repeats: Any) -> None:
    row = SimpleNamespace(inputs=lambda torch, copy: (torch.zeros(1),))
    kept = torch.zeros(4)

    def leaves_out(x: Any) -> Any:
        kept[:3] = 7.0
        return kept

    assert repeats.differing_runs(torch, row, leaves_out, 5, 60.0) == (5, 4)


def test_a_run_stops_at_its_limit(repeats: Any) -> None:
    row = SimpleNamespace(inputs=lambda torch, copy: ())
    assert repeats.differing_runs(torch, row, lambda: torch.zeros(1), 10, 0.0) == (1, 0)


def test_backwards_run_in_the_bit_equal_mode(repeats: Any) -> None:
    modes = {
        row.name: repeats.function_of(row)[1] for row in repeats.chosen(["attention-backward", "decode"])
    }
    assert {mode for name, mode in modes.items() if "backward" in name} == {"deterministic"}
    assert {mode for name, mode in modes.items() if "backward" not in name} == {"as timed"}
    assert len(modes) == 10
