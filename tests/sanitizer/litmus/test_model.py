"""The axiomatic model gives what the PTX ISA says of its own litmus tests, and what is known of the classic ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .families import FAMILIES, members
from .model import allowed, forbidden, racy
from .program import Fence, Litmus, Load, Operation, Store, Update

APART, TOGETHER = (0, 1, 2, 3), (0, 0, 0, 0)


def litmus(*threads: Sequence[Operation], ctas: Sequence[int] = APART, finals: str = "") -> Litmus:
    return Litmus("test", tuple(map(tuple, threads)), tuple(ctas[: len(threads)]), tuple(finals))


def message(
    store: Sequence[Operation], load: Sequence[Operation], data: str = "weak", ctas: Sequence[int] = APART
) -> Litmus:
    """Message passing: ``store`` and ``load`` access the flag y, fences included; the data x is r1."""
    return litmus((Store("x", 1, data), *store), (*load, Load("x", data)), ctas=ctas)


def stored(order: str, scope: str = "gpu") -> tuple[Operation, ...]:
    return (Store("y", 1, order, scope),)


def loaded(order: str, scope: str = "gpu") -> tuple[Operation, ...]:
    return (Load("y", order, scope),)


STALE = (1, 0)


@pytest.mark.parametrize(("store", "load"), [
    (stored("release"), loaded("acquire")),
    ((Fence(), *stored("relaxed")), (*loaded("relaxed"), Fence())),
    ((Fence("release"), *stored("relaxed")), (*loaded("relaxed"), Fence("acquire"))),
    ((Fence("sc"), *stored("relaxed")), loaded("acquire")),
    ((*stored("release"), Store("y", 1)), loaded("acquire")),
    (stored("release"), (*loaded("relaxed"), Fence("acquire"))),
])  # fmt: skip
def test_message_passing_in_every_legal_spelling(
    store: Sequence[Operation], load: Sequence[Operation]
) -> None:
    test = message(store, load)
    assert STALE in forbidden(test)
    assert (1, 1) in allowed(test)
    assert (0, 0) in allowed(test)


@pytest.mark.parametrize(("store", "load"), [
    (stored("relaxed"), loaded("relaxed")),
    (stored("release"), loaded("relaxed")),
    (stored("relaxed"), loaded("acquire")),
    (stored("weak"), loaded("acquire")),
    (stored("release"), loaded("weak")),
    ((Fence(), *stored("weak")), (*loaded("relaxed"), Fence())),
    ((Fence("acquire"), *stored("relaxed")), (*loaded("relaxed"), Fence("acquire"))),
    (stored("release", "cta"), loaded("acquire", "gpu")),
    ((Fence("acq_rel", "cta"), *stored("relaxed")), (*loaded("relaxed"), Fence())),
])  # fmt: skip
def test_message_passing_that_fails(store: Sequence[Operation], load: Sequence[Operation]) -> None:
    test = message(store, load)
    assert STALE in allowed(test)
    assert racy(test)


def test_scope_cta_suffices_in_one_cta() -> None:
    test = message(stored("release", "cta"), loaded("acquire", "cta"), ctas=TOGETHER)
    assert STALE in forbidden(test)
    # The data is read even where the flag was not up yet: that load races.
    assert racy(test)


def test_relaxed_data_does_not_race() -> None:
    assert not racy(message(stored("release"), loaded("acquire"), "relaxed"))


@pytest.mark.parametrize(("fence", "both_stale"), [((), True), ((Fence(),), True), ((Fence("sc"),), False)])
def test_store_buffering_needs_fence_sc(fence: tuple[Operation, ...], both_stale: bool) -> None:
    test = litmus((Store("x", 1), *fence, Load("y")), (Store("y", 1), *fence, Load("x")))
    assert ((0, 0) in allowed(test)) is both_stale


def test_fence_sc_of_too_narrow_a_scope() -> None:
    fence = Fence("sc", "cta")
    test = litmus((Store("x", 1), fence, Load("y")), (Store("y", 1), fence, Load("x")))
    assert (0, 0) in allowed(test)


@pytest.mark.parametrize(("load", "store", "possible"), [
    ("weak", "weak", True), ("relaxed", "relaxed", True), ("relaxed", "release", True), ("acquire", "relaxed", True),
    ("acquire", "release", False),
])  # fmt: skip
def test_load_buffering(load: str, store: str, possible: bool) -> None:
    test = litmus((Load("x", load), Store("y", 1, store)), (Load("y", load), Store("x", 1, store)))
    assert ((1, 1) in allowed(test)) is possible


@pytest.mark.parametrize(("order", "possible"), [("weak", True), ("relaxed", False), ("acquire", False)])
def test_two_loads_of_one_location(order: str, possible: bool) -> None:
    """CoRR of #sc-per-loc-axiom."""
    test = litmus((Store("x", 1),), (Load("x", order), Load("x", order)))
    assert ((1, 0) in allowed(test)) is possible


@pytest.mark.parametrize(("order", "fence", "possible"), [
    ("relaxed", (), True), ("acquire", (), True), ("relaxed", (Fence(),), True), ("relaxed", (Fence("sc"),), False),
])  # fmt: skip
def test_independent_reads_of_independent_writes(
    order: str, fence: tuple[Operation, ...], possible: bool
) -> None:
    readers = [(Load(a, order), *fence, Load(b, order)) for a, b in ("xy", "yx")]
    assert ((1, 0, 1, 0) in allowed(litmus((Store("x", 1),), (Store("y", 1),), *readers))) is possible


@pytest.mark.parametrize(("first", "possible"), [("weak", True), ("relaxed", False), ("acquire", False)])
def test_write_to_read_causality(first: str, possible: bool) -> None:
    """The thread in the middle must see the first write by a strong read; it need not acquire it."""
    test = litmus(
        (Store("x", 1),), (Load("x", first), Store("y", 1, "release")), (Load("y", "acquire"), Load("x"))
    )
    assert ((1, 1, 0) in allowed(test)) is possible


@pytest.mark.parametrize(("middle", "possible"), [("acquire", False), ("relaxed", True)])
def test_transitive_release(middle: str, possible: bool) -> None:
    """ISA2: releases are cumulative if the thread in the middle acquires."""
    test = litmus(
        (Store("x", 1, "weak"), Store("y", 1, "release")),
        (Load("y", middle), Store("z", 1, "release")),
        (Load("z", "acquire"), Load("x", "weak")),
    )
    assert ((1, 1, 0) in allowed(test)) is possible


def test_release_across_scopes() -> None:
    """cta inside the CTA and gpu beyond: each edge has the scope that it needs."""
    test = litmus(
        (Store("x", 1, "weak"), Store("y", 1, "release", "cta")),
        (Load("y", "acquire", "cta"), Store("z", 1, "release", "gpu")),
        (Load("z", "acquire", "gpu"), Load("x", "weak")),
        ctas=(0, 0, 1),
    )
    assert (1, 1, 0) in forbidden(test)


def test_release_sequence_through_a_relaxed_update() -> None:
    """#observation-order, form 2."""
    sender = (Store("x", 1, "weak"), Store("y", 1, "release"))
    receiver = (Load("y", "acquire"), Load("x", "weak"))
    test = litmus(sender, (Update("y"),), receiver)
    assert (1, 2, 0) in forbidden(test)
    assert (1, 2, 1) in allowed(test)
    # Update first, then the store overwrites it.
    assert (0, 1, 1) in allowed(test)


def test_updates_are_atomic_where_they_are_morally_strong() -> None:
    """Litmus tests 1 and 2 of #atomicity-axiom."""
    strong = litmus((Update("x"),), (Update("x"),), finals="x")
    assert allowed(strong) == {(0, 1, 2), (1, 0, 2)}
    narrow = litmus((Update("x", scope="cta"),), (Update("x"),), finals="x")
    assert (0, 0, 1) in allowed(narrow)


@pytest.mark.parametrize(("fence", "possible"), [((), True), ((Fence(),), True), ((Fence("sc"),), False)])
def test_two_writers_of_two_locations(fence: tuple[Operation, ...], possible: bool) -> None:
    test = litmus((Store("x", 1), *fence, Store("y", 2)), (Store("y", 1), *fence, Store("x", 2)), finals="xy")
    assert ((1, 1) in allowed(test)) is possible


@pytest.mark.parametrize(("store", "load", "possible"), [
    ("release", "acquire", False), ("relaxed", "acquire", True), ("release", "relaxed", True),
])  # fmt: skip
def test_store_after_a_message(store: str, load: str, possible: bool) -> None:
    """S: the second store to x follows the first in coherence order."""
    test = litmus((Store("x", 2), Store("y", 1, store)), (Load("y", load), Store("x", 1)), finals="x")
    assert ((1, 2) in allowed(test)) is possible


@pytest.mark.parametrize(("fence", "possible"), [(Fence(), True), (Fence("sc"), False)])
def test_read_after_a_lost_write(fence: Operation, possible: bool) -> None:
    """R: the second thread's store won, yet it does not see the first thread's."""
    test = litmus((Store("x", 1), fence, Store("y", 1)), (Store("y", 2), fence, Load("x")), finals="y")
    assert ((0, 2) in allowed(test)) is possible


def test_weak_writes_leave_any_value() -> None:
    """Writes in a data race are unrelated in coherence order (#coherence-order)."""
    test = litmus((Store("x", 1, "weak"),), (Store("x", 2, "weak"),), finals="x")
    assert allowed(test) == {(1,), (2,)}
    assert racy(test)


@pytest.mark.parametrize("family", FAMILIES)
def test_stronger_operations_allow_less(family: str) -> None:
    """The outcomes of the strongest test are among those of the weakest, and every test allows one."""
    tests = members(family)
    weakest = allowed(tests[0])
    for test in tests[:: max(1, len(tests) // 12)]:
        assert allowed(test)
        assert allowed(test) <= weakest


@pytest.mark.full
def test_names_are_unique() -> None:
    names = [test.name for family in FAMILIES for test in members(family)]
    assert len(set(names)) == len(names)
