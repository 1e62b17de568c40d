"""Servers and shares: when requests are served, by arithmetic."""

from __future__ import annotations

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
    ends = [slots.take(0, 100, 1), slots.take(10, 100, 1), slots.take(20, 100, 1)]
    assert ends == [100, 200, 300]
    # A short one waits for the end of a run, then for a slot of each other between two of its own.
    assert slots.take(30, 5, 1) == 30 + 1 + 4 * 5
    assert slots.busy == 305


def test_a_warp_that_does_not_give_way_is_waited_for() -> None:
    slots = Slots()
    slots.take(0, 100, 100)
    assert slots.take(10, 5, 1) == 105
