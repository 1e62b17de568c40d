"""Accumulators and fragments: every part of the figures lies in the lanes and columns of the layout functions."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import OperandError, SpecError, layout, viz
from tests.viz.reading import cells, positions, texts

SHAPES = [
    (128, 256, 1, False, False),
    (128, 16, 1, False, False),
    (64, 64, 1, False, False),
    (64, 128, 1, True, False),
    (32, 64, 1, True, False),
    (128, 64, 1, True, False),
    (256, 256, 2, False, False),
    (128, 256, 2, False, False),
    (128, 64, 2, False, True),
]


@pytest.mark.parametrize(("m", "n", "group", "ws", "sparse"), SHAPES)
@pytest.mark.sample(4)
def test_accumulator(m: int, n: int, group: int, ws: bool, sparse: bool) -> None:
    figure = viz.accumulator(m, n, cta_group=group, ws=ws, sparse=sparse)
    lane, column = layout.accumulator(m, n, cta_group=group, ws=ws, sparse=sparse)
    for rank in range(group):
        parts = cells(figure, cta=rank)
        panel = cells(figure, panel="lanes")[rank]
        shown = np.zeros(lane.shape, int)
        for each in parts:
            row, rows = each.number("row") - rank * len(lane), each.number("rows")
            first, columns = each.number("n"), each.number("columns")
            part = np.s_[row : row + rows, first : first + columns]
            shown[part] += 1
            assert (lane[part] == each.number("lane") + np.arange(rows)[:, None]).all()
            assert (column[part] == each.number("column") + np.arange(columns)).all()
            # One warp can load the part, and its color says which.
            assert {int(v) // 32 for v in lane[part].flat} == {int(each.fill[1:])}
            assert each.text.startswith(f"rows {row + rank * len(lane)}–{row + rank * len(lane) + rows - 1}")
            # The part is drawn to scale.
            used = int(column.max()) + 1
            assert each.y - panel.y == pytest.approx(each.number("lane") * panel.height / 128, abs=0.02)
            assert each.height == pytest.approx(rows * panel.height / 128, abs=0.02)
            assert each.x - panel.x == pytest.approx(each.number("column") * panel.width / used, abs=0.02)
            assert each.width == pytest.approx(columns * panel.width / used, abs=0.02)
        assert (shown == 1).all()


@pytest.mark.parametrize(
    ("shape", "num", "split"),
    [
        ("32x32b", 8, None),
        ("16x64b", 4, None),
        ("16x128b", 2, None),
        ("16x256b", 2, None),
        ("16x32bx2", 4, 16),
    ],
)
@pytest.mark.sample(2)
def test_fragment(shape: str, num: int, split: int | None) -> None:
    found = cells(viz.fragment(shape, num, split), thread=...)
    lane, column = layout.fragment(shape, num, split)
    assert len(found) == lane.size
    for each in found:
        at = each.number("register"), each.number("thread")
        assert (each.number("lane"), each.number("column")) == (lane[at], column[at])
        assert each.text == f"t{at[1]} r{at[0]}"
    for name, axis in (("lane", "y"), ("column", "x")):
        places = positions(found, name, axis)
        assert all(len(each) == 1 for each in places.values())
        in_order = [min(places[number]) for number in sorted(places)]
        assert in_order == sorted(in_order) and len(set(in_order)) == len(in_order)


def test_tensor_memory() -> None:
    figure = viz.tensor_memory(128, 192, 2)
    (panel,) = cells(figure, panel="lanes")
    assert (panel.number("columns"), panel.number("lanes")) == (layout.COLUMNS, layout.LANES)
    parts = cells(figure, accumulator=...)
    assert {each.number("allocated") for each in parts} == {512}
    for each in parts:
        lane, column = layout.accumulator(128, 192, cta_group=1)
        assert each.number("column") == each.number("accumulator") * (int(column.max()) + 1)
        assert each.x - panel.x == pytest.approx(each.number("column") * panel.width / layout.COLUMNS)
        assert each.y - panel.y == pytest.approx(each.number("lane") * panel.height / layout.LANES)
    assert sum(each.number("lanes") * each.number("columns") for each in parts) == 2 * lane.size
    assert "allocated: 512 columns, 256 KiB" in texts(figure)


def test_errors_have_the_line_of_the_call() -> None:
    for call, error in (
        (lambda: viz.accumulator(96), SpecError),
        (lambda: viz.accumulator(m="128"), OperandError),
        (lambda: viz.fragment("32x32b", 64), SpecError),
        (lambda: viz.fragment("32x32b", 3), SpecError),
        (lambda: viz.tensor_memory(128, 256, 3), SpecError),
        (lambda: viz.tensor_memory(count=0), SpecError),
    ):
        with pytest.raises(error) as caught:
            call()
        location = caught.value.location  # type: ignore[attr-defined]
        assert location is not None and location.file == __file__, caught.value
