"""Products of warpgroups in flight: where warps meet, places and turns, by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.sim.clock.figures import WARP_ROWS, WARPGROUP, Figures
from pyptx.sim.clock.products import PLACES, Products
from pyptx.sim.clock.units import Contention, Units
from pyptx.sim.engine.work import Product
from pyptx.timeline import Cause
from pyptx.timing.constants import gpu
from pyptx.timing.tensor import wgmma_interval

H200 = gpu("h200")
CTA = (0, 0)
COLUMNS = 128


class Split:
    """A warp, as much of it as products ask for."""

    def __init__(self, warp: int) -> None:
        self.warp: Any = SimpleNamespace(cta=SimpleNamespace(key=CTA), index=warp)


class Events:
    """What happens when, and the times at which products have read their operands and warps go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.read: list[tuple[int, float]] = []
        self.resumed: list[tuple[int, float, float]] = []
        self.causes: list[Cause] = []
        self.asks: Callable[[Any, float], None] = lambda s, since: None
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def call_at(self, time: float, call: Callable[[], None]) -> None:
        heappush(self._queue, (time, next(self._numbers), call))

    def happens_at(self, step: Any, due: float) -> None:
        if step.operation.issuer.warp % WARPGROUP == 0:
            self.read.append((step.operation.issuer.warp // WARPGROUP, due))

    def goes_on(self, s: Any, since: float, cause: Cause) -> None:
        self.causes.append(cause)
        self.asks(s, since)

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
        self.events.asks = self._asks

    def fence(self, warp: int, time: float) -> None:
        """Let a warp execute a ``wgmma.fence``."""
        self.products.fence(Split(warp).warp, time)

    def issue_quarter(
        self,
        warp: int,
        time: float,
        *,
        behind: float = 0.0,
        in_registers: bool = False,
        serialized: bool = False,
    ) -> None:
        """Let a warp issue its part of a product of N = 128, in code that goes on ``behind`` it."""
        product = Product(WARP_ROWS, COLUMNS, COLUMNS, 32, 1, not in_registers, 16)
        operation: Any = SimpleNamespace(cta_key=CTA, issuer=SimpleNamespace(warp=warp))
        step: Any = SimpleNamespace(operation=_hashable(operation))
        self.products.issue(step, time, behind, product, self.units, serialized=serialized)

    def issue(
        self, warpgroup: int, time: float, *, in_registers: bool = False, serialized: bool = False
    ) -> None:
        """Let the four warps of a warpgroup issue one product."""
        for warp in range(WARPGROUP * warpgroup, WARPGROUP * (warpgroup + 1)):
            self.issue_quarter(warp, time, in_registers=in_registers, serialized=serialized)

    def hold(self, warp: int, time: float) -> None:
        """Let a warp go on at ``time`` behind its products, if it may."""
        split: Any = Split(warp)
        self.events.call_at(time, partial(self._asks, split, time))

    def _asks(self, split: Any, since: float) -> None:
        if not self.products.hold(split, self.units):
            self.events.resumed.append((split.warp.index, since, self.events.now))


def _hashable(operation: SimpleNamespace) -> Any:
    return type("Operation", (), dict(vars(operation), observed=None))()


INTERVAL = wgmma_interval(H200, COLUMNS)
START = H200.value("wgmma.start_clk")
#: Behind the begin of the launch.
T = 5000.0


def test_the_first_warp_of_a_warpgroup_waits_for_a_place_for_its_last_product() -> None:
    bench, more = Bench(), 4
    for _ in range(PLACES + more):
        bench.issue(0, T)
    bench.hold(0, T + 10)
    bench.hold(2, T + 10)  # others do not wait
    bench.events.run()
    # The fourth product has left its place.
    first = 0, T + 10, pytest.approx(T + START + more * INTERVAL)
    assert bench.events.resumed == [(2, T + 10, T + 10), first]
    assert bench.events.causes == [Cause.MMA]
    last = T + START + (PLACES + more) * INTERVAL
    assert bench.events.read[-1] == (0, pytest.approx(last))


def test_a_product_has_its_place_from_its_issue_by_the_first_warp_on() -> None:
    """On an H200 the other warps of a warpgroup issue 12 products without a wait (2026-11-29)."""
    bench, late = Bench(), 500.0
    for _ in range(PLACES + 1):
        for warp in range(1, WARPGROUP):
            bench.issue_quarter(warp, T)
    bench.hold(1, T + 10)
    for number in range(PLACES + 1):
        bench.issue_quarter(0, T + late + number)
    bench.hold(0, T + late + 10)
    bench.events.run()
    began = T + late + START
    assert bench.events.resumed == [(1, T + 10, T + 10), (0, T + late + 10, pytest.approx(began + INTERVAL))]
    assert bench.events.read[0] == (0, pytest.approx(began + INTERVAL))


def test_warps_meet_at_their_first_product_behind_a_fence() -> None:
    """On an H200 all warps issue it 9 cycles behind the fence of the last one (2026-11-29)."""
    bench, late, behind = Bench(), 300.0, 5.0
    for warp in (1, 2, 3):
        bench.fence(warp, T)
        bench.issue_quarter(warp, T + 6, behind=behind)
        bench.hold(warp, T + 6 + behind)
    bench.events.call_at(T + late, lambda: bench.fence(0, T + late))
    bench.events.call_at(T + late + 6, lambda: bench.issue_quarter(0, T + late + 6, behind=behind))
    bench.hold(0, T + late + 6 + behind)
    bench.events.run()
    issued = T + late + H200.value("wgmma.fence_clk")
    assert {warp: time for warp, _, time in bench.events.resumed} == {
        warp: pytest.approx(issued + behind) for warp in range(WARPGROUP)
    }
    assert bench.events.causes.count(Cause.WARPS) == WARPGROUP - 1
    assert bench.events.read == [(0, pytest.approx(issued + START + INTERVAL))]


def test_a_product_long_behind_its_fence_waits_for_no_warp() -> None:
    bench, far = Bench(), 100.0
    for warp in range(WARPGROUP):
        bench.fence(warp, T)
        bench.issue_quarter(warp, T + far)
        bench.hold(warp, T + far)
    bench.events.run()
    assert bench.events.resumed == [(warp, T + far, T + far) for warp in range(WARPGROUP)]
    assert bench.events.read == [(0, pytest.approx(T + far + START + INTERVAL))]


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


def test_a_from_registers_takes_no_time_and_begins_earlier() -> None:
    start = H200.value("wgmma.start_rs_clk")
    assert start < START
    bench = Bench()
    for _ in range(3):
        bench.issue(0, T, in_registers=True)
    bench.events.run()
    expected = [T + start + number * INTERVAL for number in (1, 2, 3)]
    assert [due for _, due in bench.events.read] == pytest.approx(expected)


def test_serialized_products_wait_for_each_other_and_their_warps_for_the_last() -> None:
    bench, products = Bench(), 3
    for _ in range(products):
        bench.issue(0, T, serialized=True)
    bench.hold(1, T + 10)
    bench.events.run()
    rest = bench.figures.product(Product(WARP_ROWS, COLUMNS, COLUMNS, 32, 1, True, 16))[1]
    each = START + INTERVAL + rest
    ends = [T + number * (each + bench.figures.behind_fence) + START + INTERVAL for number in range(products)]
    assert bench.events.read == [(0, pytest.approx(end)) for end in ends]
    assert bench.events.resumed == [(1, T + 10, pytest.approx(ends[-1] + rest))]


def test_serialized_products_of_two_warpgroups_share_the_tensor_core() -> None:
    bench = Bench()
    for group in (0, 0, 1, 1):
        bench.issue(group, T, serialized=True)
    bench.events.run()
    assert [group for group, _ in bench.events.read] == [0, 1, 0, 1]
