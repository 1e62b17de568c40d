"""Orders of tiles of unequal work: every tile once, as the host computes it, and evenly divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, Tile, kernel, kit, ptx, u32


def _taken(order: kit.WorkOrder) -> list[list[tuple[int, int]]]:
    """The tiles of each CTA, (row, head), in the order in which it takes them."""

    @kernel(
        out_specs=(Tile(order.count, 2, u32), Tile(order.count, u32)),
        grid=order.ctas,
        block=1,
        arch="sm_90a",
    )
    def mark(places, takers):  # type: ignore[no-untyped-def]
        me = ptx.special.ctaid.x()
        with order.tiles(me).loop() as index:
            row, head = order.place(index)
            ptx.store(places.at(index, 0), row, space="global")
            ptx.store(places.at(index, 1), head, space="global")
            ptx.store(takers.at(index), me, space="global")

    report = mark.simulate(sanitize="strict")
    assert report.verdict == "clean", str(report)
    places, takers = report.outputs
    found: list[list[tuple[int, int]]] = [[] for _ in range(order.ctas)]
    for (row, head), cta in zip(places.tolist(), takers.tolist(), strict=True):
        found[cta].append((row, head))
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("rows", "heads", "options"),
    [
        (1, 1, {}),
        (4, 6, {"most": 6}),
        (5, 6, {"section": 2}),
        (5, 6, {"section": 3, "ctas": 4}),
        (3, 8, {"most": 8, "together": 4}),
        (7, 3, {"ctas": 100}),
        (5, 6, {"section": 2, "turns": False}),
    ],
)
@pytest.mark.parametrize("even", [False, True])
def test_every_tile_once_and_the_stated_balance(
    rows: int, heads: int, options: dict[str, Any], even: bool
) -> None:
    work = [2.0] * rows if even else [1.5 + row for row in range(rows)]
    order = kit.WorkOrder(work, heads, **{"ctas": 5, **options})
    taken = _taken(order)
    assert sorted(tile for each in taken for tile in each) == [
        (r, h) for r in range(rows) for h in range(heads)
    ]
    loads = [sum(work[row] for row, _ in each) for each in taken]
    assert order.balance == pytest.approx(np.mean(loads) / max(loads))
    together = options.get("together", 1)
    assert order.section % together == 0 and heads % order.section == 0


def test_the_last_section_ends_with_the_shortest_tiles() -> None:
    order = kit.WorkOrder([1, 2, 3], 4, ctas=1, section=2)
    (taken,) = _taken(order)
    assert [row for row, _ in taken] == [0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0]
    assert [head for _, head in taken] == [0, 1] * 3 + [2, 3] * 3


def test_one_direction_begins_with_the_longest_tiles() -> None:
    order = kit.WorkOrder([1, 2, 3], 4, ctas=1, section=2, turns=False)
    (taken,) = _taken(order)
    assert [row for row, _ in taken] == [2, 2, 1, 1, 0, 0] * 2


@pytest.mark.parametrize("rows", [16, 32, 64, 128])
def test_causal_attention_is_even(rows: int) -> None:
    """64 heads on 132 CTAs; an order in one direction is up to 20% worse."""
    work = [row + 2.5 for row in range(rows)]
    order = kit.WorkOrder(work, 64, ctas=132, most=512 // rows)
    assert order.balance >= (0.965 if rows == 16 else 0.99)
    assert order.section <= 512 // rows


def test_many_tiles_are_not_compared() -> None:
    order = kit.WorkOrder(range(1, 40_000), 64, ctas=132, most=8)
    assert order.section == 8 and not order.snake


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([], 4), {}, "0 rows"),
        (([1], 0), {}, "heads = 0"),
        (([1], 4), {"together": 3}, "together = 3"),
        (([1], 4), {"section": 3}, "section = 3"),
    ],
)
def test_what_is_refused(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        kit.WorkOrder(*arguments, **{"ctas": 4, **options})
