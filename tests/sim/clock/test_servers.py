"""Servers and shares: when requests are served, by arithmetic."""

from __future__ import annotations

from pyptx.sim.clock.servers import Server, Share


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
