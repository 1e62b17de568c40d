"""Servers and shares: when requests are served, by arithmetic."""

from __future__ import annotations

import math

import pytest

from pyptx.sim.clock.servers import Duty, GappedServer, Server, Share


def test_a_server_serves_one_request_after_the_other() -> None:
    server = Server()
    assert [server.serve(0, 10), server.serve(0, 10), server.serve(50, 10)] == [10, 20, 60]
    assert server.busy == 30


def test_a_request_that_is_known_late_fills_a_gap() -> None:
    server = GappedServer()
    assert [server.serve(100, 10), server.serve(200, 10)] == [110, 210]
    # It comes while the server has nothing to do, and so do those behind it, until the gap is full.
    assert [server.serve(120, 30), server.serve(120, 50), server.serve(110, 10)] == [150, 200, 120]
    assert [server.serve(120, 10), server.serve(0, 60)] == [220, 60]
    assert server.busy == 180


def test_a_gapped_server_serves_what_comes_in_order_like_any_other() -> None:
    gapped, usual = GappedServer(), Server()
    for time in (0, 0, 50, 55, 300):
        assert gapped.serve(time, 10) == usual.serve(time, 10)


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


def test_a_duty_counts_what_is_long_ago_less() -> None:
    duty = Duty(1000.0)
    assert duty.at(0.0) == 0
    for n in range(40):
        duty.work(200.0 * n, 150)
    assert duty.at(8000.0) == pytest.approx(0.75, abs=0.05)
    assert duty.at(9000.0) == pytest.approx(duty.at(8000.0) / math.e, rel=0.01)


def test_work_that_comes_early_counts_behind_the_work_before() -> None:
    early, behind = Duty(1000.0), Duty(1000.0)
    for duty, times in ((early, (100, 110)), (behind, (100, 300))):
        for time in times:
            duty.work(time, 200)
    assert early.at(500.0) == behind.at(500.0) == pytest.approx(1 - math.exp(-0.4))
