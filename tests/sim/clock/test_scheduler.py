"""How fast blocks of several warps go on together on one scheduler, by arithmetic."""

from __future__ import annotations

import pytest

from pyptx.sim.clock.scheduler import ISSUE, Request, Scheduler


def issues(count: float, run: float = 1.0) -> Request:
    """Return a block that does nothing but issue."""
    return Request(count, count, {}, run)


def exponentials(cycles: float, busy: float, run: float = 1.0) -> Request:
    """Return a block that takes so many cycles alone, for some of which MUFU works."""
    return Request(cycles, 0.1 * cycles, {"mufu": busy}, run)


def test_a_block_alone_takes_its_cycles() -> None:
    scheduler = Scheduler()
    assert scheduler.take("a", 0, 0, exponentials(400, 250)) == 400
    assert scheduler.take("a", 400, 450, exponentials(400, 250)) == 850
    assert scheduler.busy == {ISSUE: 80, "mufu": 500}


def test_a_block_takes_no_less_than_its_pipe() -> None:
    assert Scheduler().take("a", 0, 0, exponentials(100, 250)) == 250


def test_issue_slots_are_shared_alike() -> None:
    scheduler = Scheduler()
    assert scheduler.take(0, 0, 0, issues(100)) == 100
    # Each of them keeps the others from their first slot for the length of a run.
    assert scheduler.take(1, 10, 10, issues(100)) == pytest.approx(200, abs=2)
    assert scheduler.take(2, 20, 20, issues(100)) == pytest.approx(300, abs=3)
    assert scheduler.take(3, 30, 30, issues(5)) == pytest.approx(30 + 1 + 4 * 5, abs=2)
    assert scheduler.busy[ISSUE] == 305


def test_what_a_warp_has_lost_it_pays_later() -> None:
    scheduler = Scheduler()
    assert scheduler.take(0, 0, 0, issues(100)) == 100
    for n in range(8):
        assert scheduler.take(1, 12 * n, 12 * n, issues(5)) == pytest.approx(12 * n + 11, abs=1)
    # The first warp was through at 100, but lost the slots of the other.
    assert scheduler.take(0, 100, 100, issues(5)) == pytest.approx(145, abs=2)


def test_what_a_block_owes_of_a_pipe_goes_on_to_the_next_one() -> None:
    scheduler = Scheduler()
    times = [0.0, 0.0]
    for _ in range(20):
        for warp in (0, 1):
            times[warp] = scheduler.take(warp, times[warp], times[warp], exponentials(100, 100, run=0))
            times[warp] = scheduler.take(warp, times[warp], times[warp], Request(1, 1, {}, 0))
    # 4000 cycles of MUFU.
    assert min(times) == pytest.approx(4000, rel=0.1)


def test_a_warp_that_does_not_give_way_is_waited_for() -> None:
    scheduler = Scheduler()
    scheduler.take(0, 0, 0, issues(100, run=100))
    assert scheduler.take(1, 10, 10, issues(5)) == 105


def test_blocks_that_need_less_than_all_of_a_pipe_do_not_wait_for_each_other() -> None:
    scheduler = Scheduler()
    scheduler.take(0, 0, 0, exponentials(400, 160, run=0))
    assert scheduler.take(1, 100, 100, exponentials(400, 160, run=0)) == pytest.approx(500, rel=0.01)


def test_warps_that_are_ready_in_the_same_cycle_wait_for_each_other() -> None:
    # By ncu on an H200, four warps with an instruction in 4 cycles and 95% of the fifth take 5.7 for each.
    scheduler = Scheduler()
    times = [scheduler.take(warp, 0, 0, Request(1000, 1000 / 4.95, {}, 0)) for warp in range(4)]
    assert 4.95 * times[-1] / 1000 == pytest.approx(5.7, rel=0.05)
    # Few instructions hardly meet, and one warp alone waits for nobody.
    scheduler = Scheduler()
    times = [scheduler.take(warp, 0, 0, Request(1000, 20, {}, 0)) for warp in range(4)]
    assert times[0] == 1000 and times[-1] < 1005


def test_warps_that_wait_for_each_other_get_all_slots_if_they_are_many() -> None:
    scheduler = Scheduler()
    times = [scheduler.take(warp, 0, 0, Request(1000, 200, {}, 0)) for warp in range(16)]
    assert times[-1] == pytest.approx(3200, rel=0.03)


def test_a_pipe_slows_down_those_that_need_it() -> None:
    scheduler = Scheduler()
    scheduler.take(0, 0, 0, exponentials(400, 300, run=0))
    # Both need 3/4 of MUFU, and get half until the first one ends.
    assert scheduler.take(1, 0, 0, exponentials(400, 300, run=0)) == pytest.approx(600)
    assert scheduler.take(2, 0, 0, Request(50, 5, {"alu": 40}, 0)) == pytest.approx(50, rel=0.01)


def test_others_take_from_a_pipe_that_they_do_not_need() -> None:
    scheduler = Scheduler()
    scheduler.take(0, 0, 0, Request(400, 40, {}, 0, disturbed=200))
    # The block needs 3/4 of MUFU and gets half for 400 cycles.
    assert scheduler.take(1, 0, 0, exponentials(400, 300, run=0)) == pytest.approx(
        400 + (300 - 200) / 0.75, rel=0.01
    )


def test_a_block_that_begins_later_takes_nothing_before() -> None:
    scheduler = Scheduler()
    scheduler.take(0, 0, 1000, exponentials(400, 400, run=0))
    assert scheduler.take(1, 10, 10, exponentials(400, 400, run=0)) == 410
