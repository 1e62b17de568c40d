"""Kernels that nearly hold for every schedule do not claim it."""

from __future__ import annotations

import pytest

from .near_misses import NEAR_MISSES

pytestmark = pytest.mark.full

#: The rest tier runs one in so many; ``python -m tests.sanitizer.claims near-misses`` runs all of them.
_SHARE = 4


def test_there_are_enough() -> None:
    assert len(NEAR_MISSES) >= 200


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(NEAR_MISSES)[::_SHARE])
def test_no_false_claim(name: str) -> None:
    report = NEAR_MISSES[name].run()
    assert report.holds == "this schedule", report
    assert report.competing
