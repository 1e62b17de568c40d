"""Loops, dominators and nodes that run equally often, on graphs whose answers a drawing shows."""

from __future__ import annotations

from pyptx.flow.loops import dominates, dominators, equally_often, natural_loops, reachable

#: 0 -> 1, a loop 1 -> 2 -> (3 or 4) -> 5 -> 1 with an inner loop 4 -> 4, and 1 -> 6. Node 7 is not reached.
NESTED = [(1,), (2, 6), (3, 4), (5,), (4, 5), (1,), (), (6,)]


def test_dominators() -> None:
    immediate = dominators(NESTED)
    assert immediate == {0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 2, 6: 1}
    assert dominates(immediate, 1, 5) and dominates(immediate, 5, 5)
    assert not dominates(immediate, 3, 5) and not dominates(immediate, 5, 1)


def test_loops_are_found_outer_ones_first() -> None:
    outer, inner = natural_loops(NESTED)
    assert (outer.head, outer.nodes, outer.latches) == (1, frozenset({1, 2, 3, 4, 5}), frozenset({5}))
    assert (inner.head, inner.nodes, inner.latches) == (4, frozenset({4}), frozenset({4}))


def test_unreached_nodes() -> None:
    assert reachable(NESTED) == {0, 1, 2, 3, 4, 5, 6}
    assert reachable(NESTED, 7) == {6, 7}
    assert 7 not in equally_often(NESTED, natural_loops(NESTED), frozenset())


def test_the_test_of_a_loop_and_its_body_run_equally_often() -> None:
    equal = equally_often(NESTED, natural_loops(NESTED), frozenset())
    # 6 comes behind the loop: as often as 0. 5 joins the two ways behind 2.
    assert equal == {0: 0, 6: 0, 1: 1, 2: 1, 5: 1, 3: 3, 4: 4}


def test_threads_that_end_early_do_not_come_to_the_rest() -> None:
    straight = [(1,), (2,), ()]
    assert equally_often(straight, [], frozenset()) == {0: 0, 1: 0, 2: 0}
    assert equally_often(straight, [], frozenset({1})) == {0: 0, 1: 0, 2: 2}
