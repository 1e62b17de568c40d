"""Assignments of clusters to requests: their texts, how one leads to others, and their number."""

from __future__ import annotations

import pytest

from pyptx.core.errors import SpecError
from pyptx.sim.threads.assignment import MANY, Assignment, number_of_assignments
from tests.sanitizer.claims.stealing import every_assignment


@pytest.mark.parametrize("clusters", range(1, 6))
def test_one_leads_to_all_others(clusters: int) -> None:
    """If the requests of each cluster end with the first refusal: each set of lists, once."""
    found = {Assignment.none_canceled(clusters)}
    pending = list(found)
    while pending:
        one = pending.pop()
        for first, *others in one.lists:
            assert first is not None
            new = set(one.granting(first, len(others))) - found
            found |= new
            pending += new
    assert found == set(every_assignment(clusters))
    assert len(found) == number_of_assignments(clusters)


def test_a_refusal_between_grants() -> None:
    one = Assignment.of("0,-,1/2")
    assert one.lists == ((0, None, 1), (2,)) and str(one) == "0,-,1/2" and one.clusters == 3
    assert one.grants == {(0, 1): 1} and one.starting == (0, 2)
    assert one.described() == "cluster 0 cancels none, then 1"
    assert [str(each) for each in one.granting(0, 0)] == ["0,2,1"]
    assert [str(each) for each in one.granting(0, 3)] == ["0,-,1,-,2"]
    # Cluster 0 starts, and requests others: no request gets it.
    assert one.granting(2, 0) == []
    assert Assignment.of("0,1,-,-") == Assignment.of("0,1")


def test_their_number_is_bounded() -> None:
    assert number_of_assignments(15) < MANY
    assert number_of_assignments(10**9) == MANY


def test_texts() -> None:
    given = Assignment.of("3/0,2,1")
    assert str(given) == "0,2,1/3" and given == Assignment(((0, 2, 1), (3,)))
    assert given.starting == (0, 3) and given.clusters == 4
    assert given.described() == "cluster 0 cancels 2, then 1"
    assert Assignment.of("0/1").described() == "no cluster is canceled"
    assert all(Assignment.of(str(each)) == each for each in every_assignment(4))


@pytest.mark.parametrize(
    "text", ["", "1", "0,0", "0,2", "0/1/1", "0,1/", "a", "0;1", "-1,0,1", "-", "-,0", "0/-,1"]
)
def test_texts_of_no_assignment(text: str) -> None:
    with pytest.raises(SpecError, match="an assignment that has each cluster once"):
        Assignment.of(text)
