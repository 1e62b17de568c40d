"""Pages of memory: the order of the chain, and the reach that follows from latencies."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pyptx.timing.constants import gpu
from pyptx.tools.calibrate.bench import Bench
from pyptx.tools.calibrate.families import pages
from pyptx.tools.calibrate.families.pages import reach
from pyptx.tools.calibrate.hardware import GpuDevice

from .recording_device import RecordingDevice

MIB = 1 << 20
SPANS = np.array([8.0 * MIB * 2**n for n in range(13)])


def law(span: float, miss: float) -> np.ndarray:
    return 145.0 + miss * np.maximum(0.0, 1 - span / SPANS)


@pytest.mark.parametrize("wanted", [20.0 * MIB, 64.0 * MIB, 5000.0 * MIB])
def test_the_reach_and_the_miss_follow_from_latencies(wanted: float) -> None:
    found = reach(SPANS, law(wanted, 300.0))
    assert found == (pytest.approx(wanted, rel=0.01), pytest.approx(300, rel=0.01))
    noise = np.random.default_rng(0).normal(0, 1.0, len(SPANS))
    found = reach(SPANS, law(wanted, 300.0) + noise)
    assert found == (pytest.approx(wanted, rel=0.1), pytest.approx(300, rel=0.05))


def test_of_two_steps_the_larger_one_is_found() -> None:
    found = reach(SPANS, law(40.0 * MIB, 30.0) + law(4000.0 * MIB, 400.0))
    assert found == (pytest.approx(4000 * MIB, rel=0.2), pytest.approx(400, rel=0.1))


def test_no_reach_follows_from_equal_latencies_or_from_one_longer_one() -> None:
    flat = law(np.inf, 0.0)
    assert reach(SPANS, flat) is None
    flat[-1] += 100
    assert reach(SPANS, flat) is None


def test_a_chain_comes_to_every_page_and_to_no_line_twice() -> None:
    visits, page = GpuDevice.visits, pages._PAGE
    place, line, seen, places = 0, 0, set[tuple[int, int]](), list[int]()
    for _ in range(visits):
        places.append(place)
        seen.add((place, line // 128))
        place = (place * pages._FACTOR + pages._MORE) % visits
        line = (line + pages._FURTHER) % page
    assert sorted(places) == list(range(visits)) and len(seen) == visits
    apart = np.abs(np.diff(places))
    assert np.mean(apart <= 16) < 0.01, "neighbors would share what translates 32 MiB"
    few = {(place % 4, number * pages._FURTHER % page) for number, place in enumerate(places)}
    assert len(few) == visits, "L2 holds as many lines of a short span"


def test_spans_are_as_long_as_half_of_the_memory() -> None:
    values = {"hbm.capacity_bytes": 80e9, "mhz": 1980.0}
    device = RecordingDevice(gpu("h200"))
    device.memory, device.visits = GpuDevice.memory, GpuDevice.visits
    spans = list(pages.latencies(Bench(device, values)))
    assert spans == [8 * MIB << n for n in range(13)] and spans[-1] == 32 << 30
    device.memory = 24 << 30
    assert max(pages.latencies(Bench(device, values))) == 16 << 30


def test_ptxas_leaves_one_load_to_the_loop_which_needs_the_one_before() -> None:
    sass = pages.chain("sm_90a", 16, 32 << 30, 1 << 14).sass()
    (load,) = re.finditer(r"LDG\.E\.64\S* R(\d+), desc\S*\[R(\d+)\.64\]", sass)
    loaded, address = load.groups()
    begin, end = (each.start() for each in re.finditer(r"\bCS2R\S* .*SR_CLOCKLO", sass))
    assert begin < load.start() < end
    assert re.search(rf"LOP3\.LUT R{address}, R{loaded}, ", sass[begin : load.start()])
