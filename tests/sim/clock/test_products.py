"""Products of warpgroups in flight: how many the tensor core takes before a warpgroup waits to issue one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.sim.clock.figures import WARP_ROWS, WARPGROUP, Figures
from pyptx.sim.clock.products import Products
from pyptx.sim.clock.units import PLACES, Contention, Units
from pyptx.sim.engine.work import Product
from pyptx.timing.constants import gpu

H200 = gpu("h200")
CTA = (0, 0)
COLUMNS = 128


class _Operation:
    """What products ask of an operation."""

    def __init__(self, issuer: object) -> None:
        self.cta_key, self.issuer, self.observed = CTA, issuer, None


def issue(products: Products, units: Units, warpgroup: int, time: float) -> None:
    """Let the four warps of a warpgroup issue one product of N = 128."""
    product = Product(WARP_ROWS, COLUMNS, COLUMNS, 32, 1, True, 16)
    for warp in range(WARPGROUP * warpgroup, WARPGROUP * (warpgroup + 1)):
        issuer = SimpleNamespace(warp=warp)
        operation: Any = _Operation(issuer)
        step: Any = SimpleNamespace(operation=operation)
        products.gather(step, time, product, units)


@pytest.mark.parametrize("warpgroups", [1, 2])
def test_a_warpgroup_waits_for_a_place_for_its_last_product(warpgroups: int) -> None:
    figures = Figures(H200, 1000.0)
    products, units = Products(figures), Units(figures, Contention(sharers=1))
    start, more = figures.start, 4
    for number in range(PLACES + more):
        issue(products, units, number % warpgroups, start)
    last = (PLACES + more - 1) % warpgroups
    interval = H200.value("wgmma.interval.per_n_clk") * COLUMNS
    # The fourth product has left its place.
    refilled = warpgroups * H200.value("wgmma.refill_clk")
    assert products.held(CTA, WARPGROUP * last) == pytest.approx(
        start + more * interval / 0.975, abs=2 * refilled
    )
    assert products.held(CTA, WARPGROUP * last) == products.held(CTA, WARPGROUP * last + 3)


def test_few_products_hold_up_no_warp() -> None:
    figures = Figures(H200, 1000.0)
    products, units = Products(figures), Units(figures, Contention(sharers=1))
    for _ in range(PLACES):
        issue(products, units, 0, figures.start)
    assert products.held(CTA, 0) == 0.0
