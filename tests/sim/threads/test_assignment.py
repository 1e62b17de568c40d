"""Assignments of clusters to requests: all of them, and their texts."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from pyptx.core.errors import SpecError
from pyptx.sim.threads.assignment import MANY, Assignment, every_assignment, number_of_assignments


@pytest.mark.parametrize("clusters", range(1, 6))
def test_every_assignment_is_there_once(clusters: int) -> None:
    """Against a search: each order of the clusters, cut at each set of places."""
    wanted = set()
    for order in permutations(range(clusters)):
        for cuts in product((False, True), repeat=clusters - 1):
            lists, one = [], [order[0]]
            for number, cut in zip(order[1:], cuts, strict=True):
                if cut:
                    lists.append(tuple(one))
                    one = []
                one.append(number)
            wanted.add(frozenset([*lists, tuple(one)]))
    found = list(every_assignment(clusters))
    assert len(found) == len({frozenset(each.lists) for each in found}) == number_of_assignments(clusters)
    assert {frozenset(each.lists) for each in found} == wanted
    assert found[0].starting == tuple(range(clusters))


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


@pytest.mark.parametrize("text", ["", "1", "0,0", "0,2", "0/1/1", "0,1/", "a", "0;1", "-1,0,1"])
def test_texts_of_no_assignment(text: str) -> None:
    with pytest.raises(SpecError, match="an assignment that has each cluster once"):
        Assignment.of(text)
