"""What a run is like without a unit: figures and costs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.sim.clock.figures import Figures
from pyptx.sim.clock.freed import PIPES, UNITS, costs_without, figures_without
from pyptx.sim.engine.work import Product
from pyptx.timing.access_order import AccessOrder
from pyptx.timing.constants import gpu
from pyptx.timing.tensor import mma_port_bytes

B200 = gpu("b200")
PRODUCT = Product(rows=128, columns=64, columns_read=32, depth=32, ctas=2, a_in_shared=True, elements=16)
COST = SimpleNamespace(
    cycles=9.0,
    issues=4.0,
    runs=0.0,
    pipes={"fma": 2.0, "mufu": 8.0},
    dense={"fma": 1.0, "mufu": 8.0},
    behind={0: 3.0},
    order=AccessOrder({1: 2}),
    lines=(0, 1),
    serialized=False,
)


def changed(unit: str) -> set[str]:
    """Return the names of the figures that differ without a unit."""
    usual, freed = vars(Figures(B200, 1300.0)), vars(figures_without(B200, 1300.0, unit))
    return {name for name, value in usual.items() if not name.startswith("_") and freed[name] != value}


@pytest.mark.parametrize(
    ("unit", "figures"),
    [
        ("link", {"link", "link_received", "load_link"}),
        ("L2", {"l2", "l2_write", "atomics", "atomic_word", "atomic_sector"}),
        ("fabric", {"fabric"}),
        ("HBM", {"memory"}),
        ("copy engine", {"copy_issue", "copy_row", "store", "reduce", "store_issue"}),
        ("tensor memory", {"tensor_load", "tensor_store"}),
        ("shared memory", {"bank"}),
        ("ramp", {"ramp"}),
        ("port", {"port"}),
        ("issue", set()),
        ("launch", {"start", "finish", "turnaround"}),
    ],
)
def test_the_figures_of_a_unit_alone_change(unit: str, figures: set[str]) -> None:
    assert changed(unit) == figures


def test_every_unit_changes_something() -> None:
    usual = Figures(B200, 1300.0)
    for unit in UNITS:
        if unit not in ("issue", *PIPES):
            freed = figures_without(B200, 1300.0, unit)
            assert changed(unit) or freed.product(PRODUCT) != usual.product(PRODUCT), unit


def test_products_without_multipliers_port_or_latency() -> None:
    usual = Figures(B200, 1300.0).product(PRODUCT)
    rest = usual[1]
    port = mma_port_bytes(B200, 2, 256, 64) / B200.value("mma.port_bytes_per_clk")
    extra = B200.value("mma.interval.g2_m256_ss.extra_clk")
    compute = 64 * B200.value("mma.interval.g2_m256.per_n_clk")
    assert usual[0] == max(port + extra, compute)
    assert figures_without(B200, 1300.0, "tensor").product(PRODUCT) == (port + extra, rest)
    assert figures_without(B200, 1300.0, "port").product(PRODUCT) == (compute, rest)
    assert figures_without(B200, 1300.0, "latency").product(PRODUCT) == (usual[0], 0.0)
    assert rest > 0


def block(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def test_costs_without_a_pipe_and_without_any() -> None:
    straight, loop = block(taken=None, index=3), block(taken=3, index=3)
    assert costs_without(lambda _: COST, "link")(straight) is COST
    assert costs_without(lambda _: COST, "alu")(straight) is COST
    freed = costs_without(lambda _: COST, "mufu")(straight)
    assert (freed.cycles, freed.issues, freed.pipes) == (9.0, 4.0, {"fma": 2.0})
    assert (freed.dense, freed.behind, freed.lines) == ({"fma": 1.0}, COST.behind, COST.lines)
    assert (freed.order, freed.serialized) == (COST.order, False)
    for each, cycles in ((straight, 0.0), (loop, 1.0)):
        free = costs_without(lambda _: COST, "issue")(each)
        assert (free.cycles, free.issues, dict(free.pipes)) == (cycles, 0.0, {})


def test_rates_are_endless() -> None:
    assert figures_without(B200, 1300.0, "fabric").fabric == math.inf
    assert figures_without(B200, 1300.0, None).fabric == Figures(B200, 1300.0).fabric
