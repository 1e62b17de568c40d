"""The kernels without a change: right, and without an error."""

from __future__ import annotations

import pytest

from .kernels import KERNELS
from .running import run_original


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_right_under_eager(kernel: str) -> None:
    report, right = run_original(kernel)
    assert right and report.verdict == "clean", str(report)


@pytest.mark.one_in(27)
@pytest.mark.full
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("schedule", ["late", "random:3"])
def test_right_under_other_schedules(kernel: str, schedule: str) -> None:
    report, right = run_original(kernel, schedule)
    assert right and report.verdict == "clean", str(report)
