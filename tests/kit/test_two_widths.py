"""Tiles of two widths: every element of the matrix is in one tile, the numbers agree with a count, and what they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, Tile, kernel, kit, ptx, reg, s32
from pyptx.kit import TwoWidths

ORDERS = (kit.tile_order.row_major, kit.tile_order.boustrophedon, kit.tile_order.hilbert)
PLANS = (
    TwoWidths(1024, 256, 192, 3, 2, 1),
    TwoWidths(1000, 256, 224, 4, 4, 0),  # narrow ones alone, of which the last reaches beyond the matrix
    TwoWidths(256, 64, 48, 5, 1, 2),
    TwoWidths(300, 64, 64, 2, 0, 0),  # one width
)


def _places(plan: TwoWidths, order: Callable[..., Any]) -> list[tuple[int, int, bool]]:
    """What the recorded code says of each tile: strip, first column, whether it is narrow."""

    @kernel(in_specs=(), out_specs=(Tile(plan.tiles, 3, s32),), grid=1, block=plan.tiles, arch="sm_90a")
    def places(D: Any) -> None:
        tile = ptx.special.tid.x()
        strip, column, is_narrow = plan.place(tile, order)
        narrow = reg.scalar(s32)
        ptx.inst.selp.b32(narrow, 1, 0, is_narrow)
        for i, value in enumerate((strip, column, narrow)):
            ptx.inst.st.global_.b32(D.at(tile, i), value)
        ptx.ret()

    (out,) = places.simulate().outputs
    return [(int(strip), int(column), bool(narrow)) for strip, column, narrow in out]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.__name__)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_tiles_cover_the_matrix_once(plan: TwoWidths, order: Callable[..., Any]) -> None:
    covered = np.zeros((plan.strips, plan.columns), np.int32)
    places = _places(plan, order)
    for strip, column, is_narrow in places:
        covered[strip, column : column + (plan.narrow if is_narrow else plan.wide)] += 1
    assert (covered == 1).all()
    assert [is_narrow for *_, is_narrow in places] == [tile >= plan.wide_tiles for tile in range(plan.tiles)]


@pytest.mark.parametrize("clusters", [1, 3, 5, 100])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_loads_are_those_of_a_count(plan: TwoWidths, clusters: int) -> None:
    widths = [plan.wide] * plan.wide_tiles + [plan.narrow] * (plan.tiles - plan.wide_tiles)
    counted = Counter(
        (sum(widths[first::clusters]), len(widths[first::clusters])) for first in range(clusters)
    )
    loads: Counter[tuple[int, int]] = Counter()
    for columns, tiles, count in plan.loads(clusters):
        loads[columns, tiles] += count
    assert loads == counted
    assert plan.computed == sum(widths)
    assert plan.busiest(clusters) == max(counted)[0]
    # Two matrices, whose tiles follow each other.
    assert plan.busiest(clusters, 2) == max(sum((widths * 2)[first::clusters]) for first in range(clusters))


@pytest.mark.parametrize(
    ("columns", "strips", "clusters", "busiest"),
    [
        (4096, 16, 74, 896),  # instead of 4 x 256; a 74th of the matrix is 886
        (8192, 32, 74, 3552),  # instead of 14 x 256; 3542
        (2048, 8, 74, None),  # one round
        (4096, 37, 74, None),  # eight whole rounds
    ],
)
def test_choose(columns: int, strips: int, clusters: int, busiest: int | None) -> None:
    plan = TwoWidths.choose(columns, strips, 256, clusters=clusters, step=32)
    if busiest is None:
        assert plan is None
        return
    assert plan is not None and plan.busiest(clusters) == busiest
    assert plan.narrow % 32 == 0 and 192 <= plan.narrow < 256


def test_refusals() -> None:
    with pytest.raises(SpecError, match="clusters is 0: expected a positive number"):
        TwoWidths.choose(512, 2, 256, clusters=0, step=32)
    with pytest.raises(SpecError, match="wide is 0"):
        TwoWidths(512, 0, 0, 2, 0, 0)
    for wrong in ((512, 64, 96, 2, 1, 0), (512, 64, 48, 2, 3, 0), (512, 64, 48, 2, 1, 8)):
        with pytest.raises(SpecError, match="no wider than wide ones"):
            TwoWidths(*wrong)
