"""Which loaded bytes come from memory: shared ones once, those that L2 keeps once, others each time."""

from __future__ import annotations

import math

import pytest

from pyptx.sim.clock.placement import Placement
from pyptx.sim.clock.traffic import Traffic, alike_of, merged_of, traffic_of
from pyptx.sim.engine.work import Copy

MIB = 1 << 20


def load(base: int, part: int) -> Copy:
    return Copy(MIB, 1, (base, part), (0,), loads=True)


def test_what_a_wave_shares_is_fetched_once() -> None:
    # Four positions load the same rows of A, and each its own of B, in two waves.
    placement = Placement(clusters=8, positions=4, together=1, size=1)
    first = [copy for position in range(4) for copy in (load(0, 0), load(1 << 40, position))]
    own = [(copy, 1.0) for copy in (load(0, 0), load(1 << 40, 0), load(0, 1), load(1 << 40, 4))]
    sizes = {0: 2 * MIB, 1 << 40: 8 * MIB}
    large = traffic_of(first, own, placement, sizes, capacity=1e12)
    assert large.loaded == 16 * MIB
    assert large.fetched == pytest.approx(10 * MIB)
    # L2 that holds nothing from one wave to the next: the same here, since no wave loads a byte again.
    assert traffic_of(first, own, placement, sizes, capacity=0.05 * MIB).fetched == pytest.approx(10 * MIB)


def test_what_l2_does_not_keep_is_fetched_for_each_wave() -> None:
    placement = Placement(clusters=8, positions=4, together=1, size=1)
    first = [load(0, position) for position in range(4)]
    own = [(load(0, 0), 2.0)]
    assert traffic_of(first, own, placement, {0: 4 * MIB}, capacity=1e12).fetched == pytest.approx(4 * MIB)
    assert traffic_of(first, own, placement, {0: 4 * MIB}, capacity=0.05 * MIB).fetched == pytest.approx(
        8 * MIB
    )


@pytest.mark.parametrize("capacity", [16.0, 5.0, 3.0, 1.0])
def test_l2_keeps_what_is_used_again_soon(capacity: float) -> None:
    # A is used again and again, B once: 4 MiB and a little pass L2 between two uses of a part of A.
    placement = Placement(clusters=4, positions=4, together=1, size=1)
    first = [copy for position in range(4) for copy in (load(0, position), load(1 << 40, position))]
    own = [(load(0, 0), 100.0), (load(1 << 40, 0), 1.0)]
    sizes = {0: 4 * MIB, 1 << 40: 4 * MIB}
    found = traffic_of(first, own, placement, sizes, capacity * MIB)
    assert found.loaded == 404 * MIB
    share = (found.fetched / MIB - 8) / 396
    # Random replacement: what is left of a part is what the misses of one turn have not replaced.
    assert 1 - share == pytest.approx(math.exp(-share * 4.04 / capacity), abs=1e-3)
    assert share < 1e-3 if capacity > 4.04 else share > 0.3


def test_clusters_that_load_the_same_and_drift_apart_load_it_from_memory_more_than_once() -> None:
    # Four positions load all of A together, once; L2 holds an eighth of it.
    placement = Placement(clusters=4, positions=4, together=1, size=1)
    first, own = [load(0, 0) for _ in range(4)], [(load(0, part), 1.0) for part in range(16)]
    sizes = {0: 16 * MIB}
    fetched = [
        traffic_of(first, own, placement, sizes, 2 * MIB, drift).fetched / MIB
        for drift in (0, 0.01, 0.2, 1.0)
    ]
    assert fetched[:2] == pytest.approx([16, 16])
    assert 16 < fetched[2] < fetched[3] < 64
    # What all fits into L2 is never loaded again.
    assert traffic_of(first, own, placement, sizes, 20 * MIB, 1.0).fetched == pytest.approx(16 * MIB)


@pytest.mark.parametrize(
    ("loaders", "share"),
    [((0, 1), 1 / 2), ((1, 2), 0.0), ((0, 0), 0.0), ((2, 3, 3, 2), 1 / 2), ((2, 3, 2), 1 / 3)],
)
def test_equal_loads_of_a_tpc(loaders: tuple[int, ...], share: float) -> None:
    assert merged_of([load(0, 7)] * len(loaders), loaders, [2, 2]) == pytest.approx(share)


def test_equal_loads_of_a_group_are_asked_for_once() -> None:
    # Three groups of four: in the first all load the same, in the second two and two, in the last each its own.
    parts = [7, 7, 7, 7, 1, 2, 2, 1, 3, 4, 5, 6]
    loads = [load(0, part) for part in parts]
    assert merged_of(loads, range(12), [4, 4, 4]) == pytest.approx(5 / 12)
    assert merged_of(loads, range(12), [12]) == pytest.approx(5 / 12)
    assert merged_of(loads, range(12), [1] * 12) == 0


def test_those_that_load_all_the_same_are_told_from_those_that_share_a_part() -> None:
    # Of four, the first two load two equal boxes, the others one of these and one of their own.
    loads = [load(0, part) for part in (1, 1, 1, 1, 2, 2, 3, 4)]
    loaders = [0, 1, 2, 3, 0, 1, 2, 3]
    assert merged_of(loads, loaders, [4]) == pytest.approx(4 / 8)
    assert alike_of(loads, loaders, [4]) == pytest.approx(2 / 8)
    assert alike_of(loads, loaders, [1, 3]) == 0
    assert alike_of([], [], [4]) == 0


def test_a_launch_on_the_same_arrays_finds_in_l2_what_fits() -> None:
    # 4 MiB are read and 4 MiB stored; where the latter are read, too, they count once.
    placement = Placement(clusters=4, positions=4, together=1, size=1)
    first = [load(0, position) for position in range(4)]
    own, sizes, stored = [(load(0, 0), 1.0)], {0: 4 * MIB, 1 << 40: 4 * MIB}, [(1 << 40) + 64]
    assert traffic_of(first, own, placement, sizes, 9.0 * MIB).fetched == 4 * MIB
    fits = traffic_of(first, own, placement, sizes, 9.0 * MIB, stored=stored)
    assert fits.fetched == 0 and fits.kept == 1
    assert traffic_of(first, own, placement, sizes, 5.0 * MIB, stored=[64]).fetched == 0
    some, few = (traffic_of(first, own, placement, sizes, n * MIB, stored=stored) for n in (6.0, 1.0))
    # Random replacement, as above.
    assert 1 - some.kept == pytest.approx(1 - math.exp(-(1 - some.kept) * 8 / 6), abs=1e-3)
    assert some.fetched == pytest.approx((1 - some.kept) * 4 * MIB, rel=1e-3)
    assert few.kept < 0.01


def test_waves_behind_the_first_fetch_what_no_earlier_one_has_loaded() -> None:
    # Two waves of four CTAs that all ask for the same: each byte comes from memory in the first wave.
    once = Traffic(loaded=8 * MIB, fetched=MIB, asked=2 * MIB)
    assert once.later(waves=2.0, in_step=True) == once.later(waves=2.0, in_step=False) == 0.0
    # The second wave loads other bytes: those in step all wait for memory, of the others the first of four.
    new = Traffic(loaded=8 * MIB, fetched=2 * MIB, asked=2 * MIB)
    assert new.later(waves=2.0, in_step=True) == 1.0
    assert new.later(waves=2.0, in_step=False) == 0.25
    # One wave is the first.
    assert new.later(waves=0.5, in_step=False) == 1.0
