"""Python's collector has its own thresholds again when the last run has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyptx.sim.sanitizer.garbage import fewer_collections


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield (700, 10, 10)
    gc.set_threshold(*before)


def test_runs_that_overlap(thresholds: tuple[int, int, int]) -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(fewer_collections())
    inside = gc.get_threshold()
    assert inside[0] > thresholds[0] and inside[1:] == thresholds[1:]
    second.enter_context(fewer_collections())
    first.close()
    assert gc.get_threshold() == inside
    second.close()
    assert gc.get_threshold() == thresholds


def test_a_run_that_fails(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError), fewer_collections():
        raise ValueError
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("own", [0, 1_000_000])
def test_a_collector_that_runs_seldom_stays_so(own: int, thresholds: tuple[int, int, int]) -> None:
    gc.set_threshold(own, 10, 10)
    with fewer_collections():
        assert gc.get_threshold()[0] == own
    assert gc.get_threshold()[0] == own
