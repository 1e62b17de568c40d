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


def test_exact_periods_suffice_behind_all_that_is_new() -> None:
    times, amounts = bursts(5, period=60_000, parts=16, noise=30)
    assert find_period(times, amounts) is None
    found = find_period(times, amounts, known=5000)
    assert found is not None and found.exact
    assert found.duration == pytest.approx(60_000, rel=0.001)
    # Something was done for the first time within the periods.
    assert find_period(times, amounts, known=70_000) is None


def test_periods_that_differ_a_little_are_not_exact() -> None:
    times, amounts = bursts(5, period=60_000, parts=16, noise=600)
    assert find_period(times, amounts, known=0) is None
    found = find_period(*bursts(9, period=60_000, parts=16, noise=600), known=0)
    assert found is not None and not found.exact


def test_bytes_before_bursts_of_another_size() -> None:
    times, amounts = bursts(9, period=60_000, parts=16)
    even = find_period(times, amounts, known=0)
    assert even is not None and even.base == 0
    amounts[: 3 * 16] = [8192] * (3 * 16)
    mixed = find_period(times, amounts, known=0)
    assert mixed is not None and mixed.base == mixed.stored == 3 * 16 * 8192 + 5 * 16 * 4096


def test_the_stores_of_one_tile_are_no_bursts_where_those_before_are_not_looked_at() -> None:
    tile = [500.0 * part + warp for part in range(24) for warp in range(4)]
    times = [100_000 + each for each in tile] + [300_000 + each for each in tile]
    assert find_period(times, [2048] * len(times), since=200_000, known=0) is None
    assert find_period(times[:96], [2048] * 96, known=0) is None


def test_pairs_of_a_long_and_a_short_tile_are_no_periods_while_they_become_alike() -> None:
    """A causal mask: both together always take 80,000 cycles."""
    tiles = [time for n in range(7) for time in (80_000 * n + 70_000 - 2000 * n, 80_000 * (n + 1))]
    times = [float(time + 20 * part) for time in tiles for part in range(16)]
    assert find_period(times, [4096] * len(times), known=0) is None
