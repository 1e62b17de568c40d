"""Periods of stores: bursts behind each tile, and even streams."""

from __future__ import annotations

import random

import pytest

from pyptx.sim.clock.steady import find_period


def bursts(count: int, *, period: float, parts: int, noise: float = 0.0) -> tuple[list[float], list[int]]:
    generator = random.Random(1)
    times = [
        5000 + period * tile + 20 * part + noise * generator.random()
        for tile in range(count)
        for part in range(parts)
    ]
    return times, [4096] * len(times)


def test_bursts() -> None:
    period = find_period(*bursts(9, period=60_000, parts=16, noise=30))
    assert period is not None
    assert period.duration == pytest.approx(60_000, rel=0.01)
    assert period.nbytes == 16 * 4096
    # The last burst may go on: the end is that of the one before.
    assert period.stored == 8 * 16 * 4096
    assert period.rate == pytest.approx(16 * 4096 / 60_000, rel=0.01)


def test_an_even_stream() -> None:
    period = find_period([10.0 * n for n in range(200)], [512] * 200)
    assert period is not None and period.nbytes == 0
    assert period.rate == pytest.approx(51.2)


def test_no_period_yet() -> None:
    assert find_period(*bursts(4, period=60_000, parts=16)) is None
    assert find_period([1.0, 2.0], [4, 4]) is None


def test_tiles_that_become_slower_have_no_period() -> None:
    times = [1000.0 * 1.2**tile + part for tile in range(10) for part in range(8)]
    assert find_period(times, [128] * len(times)) is None


def test_some_equal_bursts_that_are_smaller_than_usual_are_no_period() -> None:
    times, amounts = bursts(9, period=60_000, parts=16)
    late = [times[-1] + 60_000 * number for number in range(1, 6)]
    assert find_period([*times, *late], [*amounts, *[4096] * 5]) is None


def test_the_stores_of_one_tile_are_no_bursts() -> None:
    """Of two tiles, the second one long, as those of a causal mask."""
    tile = [500.0 * part + warp for part in range(24) for warp in range(4)]
    times = [10_000 + each for each in tile] + [150_000 + each for each in tile]
    assert find_period(times, [2048] * len(times)) is None


def test_stores_before_a_time_count_and_are_not_looked_at() -> None:
    times, amounts = bursts(9, period=60_000, parts=16)
    early = [100.0 + 10 * number for number in range(200)]
    found = find_period([*early, *times], [4096] * 200 + amounts, since=4000)
    alone = find_period(times, amounts)
    assert found is not None and alone is not None
    assert found.duration == alone.duration and found.stored == alone.stored + 200 * 4096
