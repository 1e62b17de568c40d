"""The sanitizer reports a data race in a litmus test where an execution has one, and nowhere else."""

from __future__ import annotations

import pytest

from .compare import compare
from .families import members

pytestmark = pytest.mark.full

#: Families of which all runs agree. Of the others, ``python -m tests.sanitizer.litmus compare`` shows the differences.
AGREE = ("MP", "SB", "LB", "S", "R", "2+2W", "CoWR", "ISA2", "IRIW", "MP-RMW")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", AGREE)
def test_races_are_those_of_the_model(family: str) -> None:
    tests = members(family)
    for test in tests[:: len(tests) // 6]:
        for result in compare(test, seeds=2):
            assert result.kind in ("agree", "open"), (test.name, result)


def test_a_run_with_a_race_is_told_from_one_without() -> None:
    """Both verdicts occur among the tests of one family."""
    found = {result.found for test in members("MP")[::60] for result in compare(test, seeds=1)}
    assert found == {False, True}
