"""Products of warpgroups in flight: places, turns, what A from registers takes, by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.sim.clock.figures import WARP_ROWS, WARPGROUP, Figures
from pyptx.sim.clock.products import PLACES, Products
from pyptx.sim.clock.units import Contention, Units
from pyptx.sim.engine.work import Product
from pyptx.timing.constants import gpu
from pyptx.timing.tensor import wgmma_interval

H200 = gpu("h200")
CTA = (0, 0)
COLUMNS = 128


class Split:
    """A warp, as much of it as products ask for."""

    def __init__(self, warp: int) -> None:
        self.warp = SimpleNamespace(cta=SimpleNamespace(key=CTA), index=warp)


class Events:
    """What happens when, and the times at which products have read their operands and warps go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.read: list[tuple[int, float]] = []
        self.resumed: list[tuple[int, float, float]] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def call_at(self, time: float, call: Callable[[], None]) -> None:
        heappush(self._queue, (time, next(self._numbers), call))

    def happens_at(self, step: Any, due: float) -> None:
        if step.operation.issuer.warp % WARPGROUP == 0:
            self.read.append((step.operation.issuer.warp // WARPGROUP, due))

    def goes_on(self, s: Any, since: float) -> None:
        self.resumed.append((s.warp.index, since, self.now))

    def run(self) -> None:
        while self._queue:
            self.now, _, call = heappop(self._queue)
            call()


class Bench:
    """Products on one multiprocessor."""

    def __init__(self) -> None:
        self.figures, self.events = Figures(H200, 1000.0), Events()
        self.units = Units(self.figures, Contention(sharers=1))
        self.products = Products(self.figures, self.events)

    def issue(self, warpgroup: int, time: float, *, in_registers: bool = False) -> None:
        """Let the four warps of a warpgroup issue one product of N = 128."""
        product = Product(WARP_ROWS, COLUMNS, COLUMNS, 32, 1, not in_registers, 16)
        for warp in range(WARPGROUP * warpgroup, WARPGROUP * (warpgroup + 1)):
            issuer = SimpleNamespace(warp=warp)
            operation: Any = SimpleNamespace(cta_key=CTA, issuer=issuer)
            step: Any = SimpleNamespace(operation=_hashable(operation))
            self.products.issue(step, time, product, self.units)

    def hold(self, warp: int, time: float) -> None:
        """Let a warp go on at ``time`` behind its products, if it may."""
        split: Any = Split(warp)

        def asks() -> None:
            if not self.products.hold(split, self.units):
                self.events.resumed.append((warp, time, time))

        self.events.call_at(time, asks)


def _hashable(operation: SimpleNamespace) -> Any:
    return type("Operation", (), dict(vars(operation), observed=None))()


INTERVAL = wgmma_interval(H200, COLUMNS)
START = H200.value("wgmma.start_clk")
#: Behind the begin of the launch.
T = 5000.0


def test_a_warpgroup_waits_for_a_place_for_its_last_product() -> None:
    bench, more = Bench(), 4
    for _ in range(PLACES + more):
        bench.issue(0, T)
    bench.hold(2, T + 10)
    bench.events.run()
    # The fourth product has left its place.
    assert bench.events.resumed == [(2, T + 10, pytest.approx(T + START + more * INTERVAL))]
    last = T + START + (PLACES + more) * INTERVAL
    assert bench.events.read[-1] == (0, pytest.approx(last))


def test_few_products_hold_up_no_warp() -> None:
    bench = Bench()
    for _ in range(PLACES):
        bench.issue(0, T)
    bench.hold(0, T + 10)
    bench.hold(4, T + 10)  # of a warpgroup without products
    bench.events.run()
    assert bench.events.resumed == [(0, T + 10, T + 10), (4, T + 10, T + 10)]


def test_warpgroups_that_wait_for_places_take_turns() -> None:
    bench = Bench()
    for warpgroup in (0, 1):
        for _ in range(PLACES + 1):
            bench.issue(warpgroup, T + warpgroup)
    bench.events.run()
    order = [warpgroup for warpgroup, _ in bench.events.read]
    assert order == [0] * PLACES + [0] + [1] * (PLACES + 1)
    bench = Bench()
    for _ in range(PLACES + 4):
        bench.issue(0, T)
    for _ in range(4):
        bench.issue(1, T + 1)
    bench.events.run()
    assert [warpgroup for warpgroup, _ in bench.events.read] == [0] * PLACES + [0, 1] * 4


def test_the_start_of_a_product_is_hidden_behind_others() -> None:
    """On an H200 two warpgroups keep the tensor core busy without a gap (2026-11-29)."""
    bench = Bench()
    bench.issue(0, T)
    bench.issue(1, T + INTERVAL)  # while the tensor core works, but too late to be ready
    bench.issue(1, T + INTERVAL + START / 2)
    bench.events.run()
    first = T + START + INTERVAL
    expected = [first, first + INTERVAL, first + 2 * INTERVAL]
    assert [due for _, due in bench.events.read] == pytest.approx(expected)


def test_a_from_registers_takes_time_only_where_no_other_warpgroup_multiplies() -> None:
    own, beside = (wgmma_interval(H200, COLUMNS, True, beside_another=each) for each in (False, True))
    assert own == beside + H200.value("wgmma.interval.rs_clk")
    for warpgroups, interval in (((0, 0, 0), own), ((0, 1, 0), beside)):
        bench = Bench()
        for warpgroup in warpgroups:
            bench.issue(warpgroup, T, in_registers=True)
        bench.events.run()
        first, second, last = (due for _, due in bench.events.read)
        assert second - first == pytest.approx(interval)
        assert last - second == pytest.approx(own)  # the last one is alone
