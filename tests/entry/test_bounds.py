"""What bounds a launch, and its interval, by arithmetic on the shares of units and on constants."""

from __future__ import annotations

import math

import pytest

from pyptx.entry.bounds import Estimate, bound_of, interval_of, stratum_of
from pyptx.sim.api.timing import Timing
from pyptx.sim.clock.placement import Placement
from pyptx.sim.clock.traffic import Traffic
from pyptx.timing.constants import Constant, Gpu, gpu
from pyptx.timing.scores import Score

B200 = gpu("b200")


def timed(busy: dict[str, float], *, ns: float = 1e6, operands: float = 0.0, evenness: float = 1.0) -> Timing:
    """Return a launch of a million cycles at 1000 MHz in which units were so busy."""
    place = Placement(1, 1, 1, 1)
    return Timing(ns, 1000.0, place, Traffic(0, 0), 0.0, 0.0, operands, evenness, busy, (), {}, ())


@pytest.mark.parametrize(
    ("timing", "bound", "stratum"),
    [
        (timed({"tensor": 0.9, "link": 0.5}), "tensor", "tensor"),
        (timed({"tensor": 0.9, "link": 0.5}, operands=0.89 * 128), "port", "tensor"),
        (timed({"tensor": 0.76, "ramp": 0.95, "fabric": 0.8}), "ramp", "tensor"),
        (timed({"tensor": 0.9, "ramp": 0.91}), "tensor", "tensor"),
        (timed({"tensor": 0.6, "copy engine": 0.8}), "copy engine", "fabric"),
        (timed({"tensor": 0.6, "HBM": 0.8}), "HBM", "HBM"),
        (timed({"issue": 0.6, "HBM": 0.3}), "latency", "latency"),
        (timed({"issue": 0.6, "HBM": 0.3}, evenness=0.7), "tail", "issue"),
        (timed({"issue": 0.6}, ns=3000), "launch", "latency"),
        (timed({}), "", "latency"),
    ],
)
def test_what_bounds_a_launch(timing: Timing, bound: str, stratum: str) -> None:
    assert (bound_of(timing, B200), stratum_of(timing, B200)) == (bound, stratum)


def with_interval(name: str, value: float, low: float, high: float) -> Gpu:
    old = B200.constant(name)
    changed = Constant(value, low, high, old.unit, "a test", old.date, "D")
    return Gpu("b200", B200.title, B200.target, B200.date, {**B200.constants, name: changed})


def interval(
    monkeypatch: pytest.MonkeyPatch,
    timing: Timing,
    on: Gpu,
    mhz: tuple[float, float],
    covers: tuple[str, ...],
) -> tuple[float, float]:
    """Return the interval as shares of the time, if scored times are 0.9 to 1.2 times the predicted."""
    score = Score(0.9, 1.2, 10, None, covers, "a test", "2026-11-24")
    monkeypatch.setattr("pyptx.entry.bounds.score_of", lambda *_: score)
    low, high = interval_of(timing, on, mhz)
    return low / timing.nanoseconds, high / timing.nanoseconds


EVERY = ("mma.", "tma.", "l2.", "hbm.", "tmem.", "lds.", "issue.", "launch.")


def test_an_interval_is_that_of_the_scores_and_of_the_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = timed({"HBM": 0.9})
    low, high = interval(monkeypatch, timing, B200, (1000, 1000), EVERY)
    assert (low, high) == pytest.approx((0.9, 1.2))
    low, high = interval(monkeypatch, timing, B200, (800, 1250), EVERY)
    assert (low, high) == pytest.approx((1 - math.hypot(0.1, 0.2), 1 + math.hypot(0.2, 0.25)))


def test_constants_that_were_not_scored_widen_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = tuple(name for name in EVERY if name != "hbm.")
    on = with_interval("hbm.read_bytes_per_ns", 8000, 5000, 10000)
    low, high = interval(monkeypatch, timed({"HBM": 0.8, "link": 0.7}), on, (1000, 1000), rest)
    # Slower memory: 0.8 of the time grow by 8/5. Faster memory: the link is the next bound.
    assert high == pytest.approx(1 + math.hypot(0.2, 0.8 * (8 / 5 - 1)))
    assert low == pytest.approx(1 - math.hypot(0.1, 0.8 - 0.7))
    # Memory that works a third of the time does not matter.
    low, high = interval(monkeypatch, timed({"HBM": 0.33, "link": 0.8}), on, (1000, 1000), rest)
    assert (low, high) == pytest.approx((0.9, 1.2))


def test_short_launches_have_wide_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    on = with_interval("launch.ns", 2000, 1000, 4000)
    rest = tuple(name for name in EVERY if name != "launch.")
    low, high = interval(monkeypatch, timed({"issue": 0.3}, ns=10_000), on, (1000, 1000), rest)
    assert (low, high) == pytest.approx((1 - math.hypot(0.1, 0.1), 1 + math.hypot(0.2, 0.2)))


def estimate(us: float, low: float, high: float, apart: float | None = None, clock: float = 1300) -> Estimate:
    return Estimate(us, low, high, "tensor", apart, ("NVIDIA B200", clock))


def test_intervals_that_touch_are_not_told_apart() -> None:
    assert estimate(1, 0.9, 2).overlaps(estimate(2.5, 2, 3))
    assert estimate(2.5, 2, 3).overlaps(estimate(5, 0, 9))
    assert not estimate(1, 0.9, 2).overlaps(estimate(2.5, 2.1, 3))


def test_scored_pairs_decide_under_the_same_conditions() -> None:
    one, other = estimate(100, 80, 120, 0.06), estimate(107, 85, 130, 0.05)
    assert not one.overlaps(other) and not other.overlaps(one)  # 7% apart, and 6% suffice
    assert one.overlaps(estimate(105.5, 85, 130, 0.05))
    assert one.overlaps(estimate(107, 85, 130, 0.08))
    # Another frequency, or pairs that were not scored: the intervals decide.
    assert one.overlaps(estimate(107, 85, 130, 0.05, clock=1400)) and one.overlaps(estimate(107, 85, 130))
