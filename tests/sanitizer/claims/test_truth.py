"""What a run claims for every schedule is true under schedules that preempt threads everywhere."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from pyptx import sim
from tests.sanitizer.unusual.running import run_unusual
from tests.sanitizer.unusual.unusuals import UNUSUAL

from .preempting import preempting
from .rings import Ring
from .trace import Trace
from .truth import Kernel, Run, kernels, untrue

pytestmark = pytest.mark.full


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_claims_are_true(first: int) -> None:
    for kernel, run in islice(kernels(first), 8):
        for seed in range(6):
            found = untrue(kernel, run, seed)
            assert not found, f"{kernel.name}, seed {seed}: {found}"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(UNUSUAL)[::3])
def test_claims_of_unusual_kernels_are_true(name: str) -> None:
    trace = Trace()
    if run_unusual(UNUSUAL[name], observers=[trace]).holds != "every schedule":
        return
    for seed in range(2):
        other = Trace()
        with preempting():
            result = run_unusual(UNUSUAL[name], f"random:{seed}", observers=[other], sanitize=False)
        assert result.right and not trace.difference(other), trace.difference(other)


@pytest.mark.parametrize("defect", ["counted", "peek"])
def test_the_comparison_shows_what_a_schedule_changes(defect: str) -> None:
    """It can fail: rings with a defect give other values, or read other bytes."""
    ring = Ring(2, 5, 2, bulk=True, defect=defect)
    loaded = sim.load(ring.text())
    trace = Trace()
    _, out = ring.launch(loaded, observers=[trace])
    kernel = Kernel(ring.name, lambda **how: _listed(ring.launch(loaded, **how)))
    assert any(untrue(kernel, Run(trace, [out]), seed) for seed in range(20))


def _listed(found: tuple[sim.Report, Any]) -> tuple[sim.Report, list[Any]]:
    return found[0], [found[1]]


def test_a_ring_claims_and_its_defect_does_not() -> None:
    for ring, holds in ((Ring(2, 3, 1), "every schedule"), (Ring(2, 3, 1, defect="peek"), "this schedule")):
        report, _ = ring.launch(sim.load(ring.text()))
        assert report.holds == holds, report
