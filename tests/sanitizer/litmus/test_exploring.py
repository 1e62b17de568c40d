"""``schedule="all"`` finds exactly the outcomes that the model allows with an order in time."""

from __future__ import annotations

import pytest

from .exploring import explored, race_free, random_test
from .families import FAMILIES
from .model import allowed
from .program import Fence, Litmus, Load, Store

pytestmark = pytest.mark.full


@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_outcomes_are_those_of_the_model(family: str) -> None:
    tests = race_free(family)
    for test in tests[1 :: len(tests) // 2]:
        result = explored(test)
        assert not result.wrong and not result.missing and result.complete, (test.name, result)
        assert not result.timeless or family == "LB", test.name


@pytest.mark.parametrize("seed", [1, 2, 6, 1079])
def test_outcomes_of_random_tests_are_those_of_the_model(seed: int) -> None:
    """The last one needs an atomic operation that comes before a store that has happened earlier."""
    result = explored(random_test(seed))
    assert not result.wrong and not result.missing and result.complete, result


def test_load_buffering_is_what_a_cycle_of_program_order_and_reads_allows() -> None:
    test = Litmus("LB", ((Load("x"), Store("y", 1)), (Load("y"), Store("x", 1))), (0, 1))
    assert allowed(test) - allowed(test, in_order=True) == {(1, 1)}


def test_fences_are_in_the_order_in_which_they_happen() -> None:
    """The message goes from the first fence to the second one, and the second one is before the first."""
    fence = Fence("sc")
    test = Litmus(
        "ISA2",
        ((Store("x", 1), fence, Store("y", 1)), (Load("y"), Store("z", 1)), (Load("z"), fence, Load("x"))),
        (0, 1, 2),
    )
    result = explored(test)
    assert result.timeless == {(1, 1, 0)}
    assert not result.wrong and not result.missing
