"""Each condition of the claim decides: a kernel that breaks it alone is refused, and one that keeps it claims."""

from __future__ import annotations

import pytest

from .conditions import CONDITIONS

_KEPT = [name for name, condition in CONDITIONS.items() if condition.kept]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CONDITIONS)
def test_broken_condition_refuses_the_claim(name: str) -> None:
    condition = CONDITIONS[name]
    report = condition.run(condition.broken)
    assert report.holds == "this schedule", report
    assert any(condition.competes in str(each) for each in report.competing), report


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", _KEPT)
def test_kept_condition_claims(name: str) -> None:
    condition = CONDITIONS[name]
    report = condition.run(condition.kept)
    assert report.holds == "every schedule", report
    assert not report.competing
    assert any(condition.assumes in each for each in report.assumptions) or not condition.assumes, report
