"""Tile orders, block tiling and pairs: the figures have the tiles, blocks and halves that the kit and the layouts have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import OperandError, SpecError, layout, viz
from pyptx.sim import Observer
from pyptx.sim.engine.events import AsyncOperation
from pyptx.sim.memory.access import Access, StateSpace
from tests.examples.loading import load_example
from tests.viz.reading import Cell, cells, groups, positions, texts


def visited(panel: object) -> list[tuple[int, int]]:
    """Row and column of each tile of C, by index; checks that the place in the figure agrees."""
    tiles = sorted(cells(panel, matrix="C"), key=lambda each: each.number("index"))
    assert [each.text for each in tiles] == [str(number) for number in range(len(tiles))]
    for name, axis in (("row", "y"), ("column", "x")):
        places = positions(tiles, name, axis)
        in_order = [min(places[number]) for number in sorted(places)]
        assert in_order == sorted(set(in_order)) and all(len(each) == 1 for each in places.values())
    return [(each.number("row"), each.number("column")) for each in tiles]


def test_the_counts_of_a_linear_and_a_swizzled_wave() -> None:
    """Four tiles of four by four: 4 + 16 blocks in linear order, 8 + 8 in squares of two by two."""
    figure = viz.tile_order(("row_major", "swizzle_2d"), 4, 4, 4, wave=4, group=2)
    panels = groups(figure, "order")
    assert visited(panels["row_major"])[:4] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert visited(panels["swizzle_2d"])[:4] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    read = {
        name: [sum(each.number("read") for each in cells(panel, matrix=matrix)) for matrix in "AB"]
        for name, panel in panels.items()
    }
    assert read == {"row_major": [4, 16], "swizzle_2d": [8, 8]}
    assert "first wave reads 4 blocks of A + 16 of B = 20" in texts(figure)
    assert "first wave reads 8 blocks of A + 8 of B = 16" in texts(figure)


@pytest.mark.parametrize("name", ["row_major", "snake", "grouped", "boustrophedon", "hilbert", "swizzle_2d"])
@pytest.mark.sample(2)
def test_every_order(name: str) -> None:
    m, n, group, wave = 6, 4, 4, 5
    (panel,) = groups(viz.tile_order(name, m, n, 1, wave, group), "order").values()
    tiles = visited(panel)
    assert sorted(tiles) == [(row, column) for row in range(m) for column in range(n)]
    expected = {
        "row_major": [(i // n, i % n) for i in range(m * n)],
        "snake": [(i // n, i % n if i // n % 2 == 0 else n - 1 - i % n) for i in range(m * n)],
        "grouped": [(r, c) for band in (range(4), range(4, 6)) for c in range(n) for r in band],
    }
    if name in expected:
        assert tiles == expected[name]
    colored = {each.number("index") for each in cells(panel, matrix="C") if each.fill != "none"}
    assert colored == set(range(wave))
    for matrix, which in (("A", "row"), ("B", "column")):
        needed = {tile["AB".index(matrix)] for tile in tiles[:wave]}
        assert {each.number(which) for each in cells(panel, matrix=matrix, read=1)} == needed


def covered(found: list[Cell], rows: str, columns: str, shape: tuple[int, int]) -> bool:
    """True if the cells cover each element of a matrix once."""
    times = np.zeros(shape, int)
    for each in found:
        row, column = each.number(rows), each.number(columns)
        times[row : row + each.number("rows"), column : column + each.number("columns")] += 1
    return bool((times == 1).all())


def test_block_tiling_with_a_tail() -> None:
    figure = viz.block_tiling(300, 500, 200, tile=(128, 256, 64), at=(2, 1))
    a, b, c = (cells(figure, matrix=name) for name in "ABC")
    assert (len(a), len(b), len(c)) == (3 * 4, 2 * 4, 3 * 2)
    assert covered(a, "m", "k", (300, 200))
    assert covered(b, "k", "n", (200, 500))
    assert covered(c, "m", "n", (300, 500))
    (shown,) = cells(figure, matrix="C", read=1)
    read_a, read_b = cells(figure, matrix="A", read=1), cells(figure, matrix="B", read=1)
    assert {(e.number("m"), e.number("rows")) for e in read_a} == {(shown.number("m"), shown.number("rows"))}
    assert {(e.number("n"), e.number("columns")) for e in read_b} == {
        (shown.number("n"), shown.number("columns"))
    }
    # The tile stands in line with its rows of A and its columns of B.
    assert {(e.y, e.height) for e in read_a} == {(shown.y, shown.height)}
    assert {(e.x, e.width) for e in read_b} == {(shown.x, shown.width)}


@pytest.mark.parametrize(("m", "n"), [(256, 256), (128, 128)])
def test_pair(m: int, n: int) -> None:
    figure = viz.pair(m, n, 64)
    lane, column = layout.accumulator(m, n, cta_group=2)
    for rank in range(2):
        (a,), (b,), (d,) = (cells(figure, matrix=name, cta=rank) for name in "ABD")
        assert a.number("row") == d.number("row") == rank * len(lane)
        assert a.number("rows") == d.number("rows") == len(lane)
        assert (b.number("column"), b.number("columns")) == (rank * n // 2, n // 2)
        assert (d.number("lanes"), d.number("cells")) == (int(lane.max()) + 1, int(column.max()) + 1)
        assert (a.y, a.height) == (d.y, d.height)


def test_errors_have_the_line_of_the_call() -> None:
    for call, error in (
        (lambda: viz.tile_order("zigzag"), SpecError),
        (lambda: viz.tile_order([]), SpecError),
        (lambda: viz.tile_order("snake", 0), SpecError),
        (lambda: viz.tile_order("snake", 100, 100), SpecError),
        (lambda: viz.tile_order("snake", 4.5), OperandError),
        (lambda: viz.block_tiling(tile=(128, 256)), SpecError),
        (lambda: viz.block_tiling(at=(9, 0)), SpecError),
        (lambda: viz.block_tiling(M=0), SpecError),
        (lambda: viz.pair(64), SpecError),
        (lambda: viz.pair(k=0), SpecError),
    ):
        with pytest.raises(error) as caught:
            call()
        location = caught.value.location  # type: ignore[attr-defined]
        assert location is not None and location.file == __file__, caught.value


class _Loads(Observer):
    """The global addresses that each CTA's copies read."""

    def __init__(self) -> None:
        self.read: dict[tuple[int, object], set[int]] = {}

    def access(self, access: Access) -> None:
        actor = access.actor
        if isinstance(actor, AsyncOperation) and access.space is StateSpace.GLOBAL:
            key = actor.cta_key[1], access.segment
            self.read.setdefault(key, set()).update(access.footprint.offsets().tolist())


@pytest.mark.full
def test_pair_is_what_a_kernel_loads() -> None:
    """The two-CTA kernel of the ladder loads the rows of A and of B that the figure gives to each CTA."""
    v5 = load_example("blackwell/ladder/v5.py")
    k = 64
    loads = _Loads()
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((256, k), np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    assert v5.build_v5(256, 256, k).simulate(a, b, observers=[loads]).verdict == "clean"
    rows = {
        (cta, segment): sorted({offset // (2 * k) for offset in offsets})
        for (cta, segment), offsets in loads.read.items()
    }
    assert len(rows) == 4
    segments = list(dict.fromkeys(segment for _, segment in rows))
    figure = viz.pair(256, 256, k)
    for matrix, segment in zip("AB", segments, strict=True):
        for rank in range(2):
            (cell,) = cells(figure, matrix=matrix, cta=rank)
            first, count = ("row", "rows") if matrix == "A" else ("column", "columns")
            drawn = range(cell.number(first), cell.number(first) + cell.number(count))
            assert rows[rank, segment] == list(drawn)
