"""Servers and shares: when requests are served, by arithmetic."""

from __future__ import annotations

import pytest

from pyptx.sim.clock.servers import Server, Share, Slots


def test_a_server_serves_one_request_after_the_other() -> None:
    server = Server()
    assert [server.serve(0, 10), server.serve(0, 10), server.serve(50, 10)] == [10, 20, 60]
    assert server.busy == 30


def test_a_share_saves_up_what_it_did_not_use() -> None:
    share = Share(2.0, credit=100)
    # 200 units are saved up in 100 cycles; what is beyond them takes its time.
    assert share.serve(1000, 200) == 1000
    assert share.serve(1000, 50) == 1025
    assert share.serve(1000, 50) == 1050


def test_a_share_saves_up_no_more_than_its_credit() -> None:
    share = Share(2.0, credit=100)
    share.serve(0, 200)
    assert share.serve(10_000, 400) == 10_100


def test_requests_of_several_warps_take_turns() -> None:
    slots = Slots()
    ends = [slots.take(n, 10 * n, 100, 1) for n in range(3)]
    assert ends == [100, 200, 300]
    # A short one waits for the end of a run, then for a slot of each other between two of its own.
    assert slots.take(3, 30, 5, 1) == 30 + 1 + 4 * 5
    assert slots.busy == 305


def test_what_a_warp_has_lost_it_pays_later() -> None:
    slots = Slots()
    assert slots.take(0, 0, 100, 1) == 100
    assert [slots.take(1, 10 * n, 5, 1) for n in range(10)] == [10 * n + 11 for n in range(10)]
    # The first warp was through at 100, but had only half of the slots since.
    assert slots.take(0, 100, 5, 1) == pytest.approx(155, abs=2)


def test_a_warp_that_does_not_give_way_is_waited_for() -> None:
    slots = Slots()
    slots.take(0, 0, 100, 100)
    assert slots.take(1, 10, 5, 1) == 105
