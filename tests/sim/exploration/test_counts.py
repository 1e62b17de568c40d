"""The number of interleavings that are explored is that of the classes of equivalent ones, exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel

from .kernels import (
    COUNTED,
    FLAG,
    GATHERED,
    LOCK,
    LOST_UPDATE,
    ONE_OF_MANY,
    REDUCED,
    SEPARATE,
    TICKETS,
    WRITERS,
    binomial,
    ring,
)


def explore(kernel: Kernel, *, grid: int = 1, block: int = 1, words: int = 8, **options: object) -> Report:
    return kernel.run(np.zeros(words, np.uint32), grid=grid, block=block, schedule="all", **options)


def interleavings(kernel: Kernel, *, grid: int = 1, block: int = 1, words: int = 8) -> int:
    found = explore(kernel, grid=grid, block=block, words=words).exploration
    assert found is not None and found.complete, found
    return found.interleavings


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_writers_of_one_word(n: int) -> None:
    assert interleavings(WRITERS, grid=n) == math.factorial(n)


@pytest.mark.parametrize("n", [2, 4])
def test_tickets(n: int) -> None:
    report = explore(TICKETS, grid=n)
    assert report.exploration is not None
    assert report.exploration.interleavings == len(report.exploration.outcomes) == math.factorial(n)


def test_atomics_that_commute_are_explored_once() -> None:
    assert interleavings(REDUCED, grid=6, block=32) == 1


def test_threads_that_share_nothing_are_explored_once() -> None:
    report = explore(SEPARATE, block=128, words=128)
    assert report.verdict == "clean", report
    assert report.exploration is not None
    assert (report.exploration.interleavings, report.exploration.runs) == (1, 1)


def test_polling_for_a_flag_is_waiting() -> None:
    report = explore(FLAG, grid=2)
    assert report.verdict == "clean", report
    assert report.exploration is not None
    assert (report.exploration.interleavings, report.exploration.runs) == (1, 1)


def test_waiting_for_a_count_is_waiting_for_all_that_count() -> None:
    report = explore(GATHERED, grid=5)
    assert report.verdict == "clean", report
    assert report.exploration is not None
    assert (report.exploration.interleavings, report.exploration.runs) == (1, 1)


@pytest.mark.parametrize("n", [2, 3])
def test_a_lock_is_taken_in_every_order(n: int) -> None:
    report = explore(LOCK, grid=n)
    assert report.exploration is not None and report.exploration.complete
    assert report.exploration.interleavings == len(report.exploration.outcomes) == math.factorial(n)


def test_two_operations_of_two_threads_on_one_word() -> None:
    """All merges of two sequences of two."""
    assert interleavings(COUNTED, grid=2) == binomial(4, 2)


def test_reads_and_writes_of_one_word() -> None:
    """One CTA after the other, or both read first: then they write the same value, and the order is one."""
    report = explore(LOST_UPDATE, grid=2)
    assert report.exploration is not None
    assert (report.exploration.interleavings, len(report.exploration.outcomes)) == (3, 2)


def test_one_interleaving_of_many_fails_and_is_found() -> None:
    report = explore(ONE_OF_MANY, grid=2)
    assert report.exploration is not None and report.exploration.complete
    assert (report.exploration.interleavings, report.exploration.failed) == (6, 1)
    (finding,) = [each for each in report.findings if each.rule.name == "trap"]
    assert finding.location is not None and finding.location.line == ONE_OF_MANY.line("bad")
    assert finding.schedules == (report.exploration.failing,)
    again = ONE_OF_MANY.run(np.zeros(8, np.uint32), grid=2, block=1, schedule=report.exploration.failing)
    assert again.verdict == "error" and [each.rule.name for each in again.findings] == ["trap"]


def test_a_ring_of_one_place_is_explored_once() -> None:
    """Producer and consumer wait for each other at two mbarriers."""
    report = explore(ring(), block=64)
    assert report.verdict == "clean", report
    assert report.exploration is not None
    assert (report.exploration.interleavings, report.exploration.runs) == (1, 1)


def test_a_place_given_back_too_early() -> None:
    """The producer may overwrite each of the first two places before they are read, or after."""
    report = explore(ring(early=True), block=64)
    assert report.exploration is not None
    assert report.exploration.interleavings == len(report.exploration.outcomes) == 4


def test_a_producer_that_does_not_wait() -> None:
    report = explore(ring(waits=False), block=64)
    assert report.exploration is not None and report.exploration.complete
    assert {"lapped-wait", "deadlock"} <= {finding.rule.name for finding in report.findings}
