"""A GPU that is none, a folder of its own for results, and no ptxas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyptx.tools.autotune import tuning
from pyptx.tools.autotune.candidates import Candidate
from tests.tools.autotune.fakes import FakePlace


class Gpu:
    """The GPU of a test: its facts, and what it measures. ``places`` are those that were made."""

    def __init__(self) -> None:
        self.facts = ("Fake", "1.0")
        self.us: Callable[[Candidate, int], Any] = lambda candidate, _: 10.0 + candidate.number
        self.group: Callable[[Candidate], int] = lambda _: 0
        self.places: list[FakePlace] = []

    def place(self, *_: Any) -> FakePlace:
        self.places.append(FakePlace(self.us, self.group))
        return self.places[-1]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Measures what the test says; nothing is assembled."""
    found = Gpu()
    monkeypatch.setattr(tuning, "_facts", lambda _: found.facts)
    monkeypatch.setattr(tuning, "place_of", found.place)
    monkeypatch.setattr(tuning, "assemble_all", lambda candidates, step: False)
    return found
