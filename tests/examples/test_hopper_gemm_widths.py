"""Tiles of two widths: they cover a matrix, and their balance is the one that was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, Tile, kernel, kit, ptx, u32

from .loading import load_example

widths = load_example("hopper/gemm_widths.py")

CLUSTERS = 66


def _busiest(given: Any, clusters: int) -> int:
    """The columns of the busiest cluster, by going through all tiles."""
    columns = [0] * clusters
    for tile in range(given.tiles):
        columns[tile % clusters] += given.wide if tile < given.wide_tiles else given.narrow
    return max(columns)


@pytest.mark.parametrize("clusters", [1, 7, 66, 1000])
@pytest.mark.parametrize(
    "given", [(4096, 256, 232, 8, 8, 7), (4096, 256, 232, 12, 4, 0), (520, 128, 72, 0, 3, 2)]
)
def test_the_busiest_cluster(given: tuple[int, ...], clusters: int) -> None:
    tiles = widths.Widths(*given)
    assert tiles.busiest(clusters) == _busiest(tiles, clusters)


@pytest.mark.parametrize(("N", "strips"), [(4096, 16), (6144, 24), (8192, 32), (16384, 64), (28672, 4)])
def test_balanced_widths_come_close_to_equal_shares(N: int, strips: int) -> None:
    narrow, below, leading = widths.balanced(N, strips, 256, CLUSTERS)
    tiles = widths.Widths(N, 256, narrow, strips - below, below, leading)
    uniform = widths.Widths(N, 256, 256, strips, 0, 0)
    assert tiles.busiest(CLUSTERS) == _busiest(tiles, CLUSTERS) < uniform.busiest(CLUSTERS)
    assert tiles.busiest(CLUSTERS) <= 1.02 * N * strips / CLUSTERS
    assert widths.widths_of(N, strips, 256, (narrow, below, leading)) == tiles


def test_one_width_that_fills_all_rounds_is_left_alone() -> None:
    assert widths.balanced(256 * 11, 6, 256, CLUSTERS) is None


@pytest.mark.parametrize("given", [(520, 128, 72, 1, 2, 1), (520, 128, 72, 0, 3, 0), (256, 64, 56, 2, 1, 3)])
def test_tiles_cover_the_matrix(given: tuple[int, ...]) -> None:
    tiles = widths.Widths(*given)

    @kernel(out_specs=(Tile(tiles.tiles, 2, u32),), block=1, arch="sm_90a")
    def places(out):  # type: ignore[no-untyped-def]
        with ptx.for_(0, tiles.tiles) as tile:
            for i, value in enumerate(tiles.place(tile, kit.tile_order.boustrophedon)):
                ptx.inst.st.global_.u32(out.at(tile, i), value)

    found = places.simulate().outputs[0]
    covered = np.zeros((tiles.above + tiles.below, tiles.columns), int)
    for tile, (strip, first) in enumerate(found.tolist()):
        covered[strip, first : first + (tiles.wide if tile < tiles.wide_tiles else tiles.narrow)] += 1
    assert (covered == 1).all()


@pytest.mark.parametrize(
    "given", [(256, 1, 0), (232, 0, 0), (232, 17, 0), (232, 1, 16), (230, 1, 0), (232, 1, -1)]
)
def test_refusals(given: tuple[int, int, int]) -> None:
    with pytest.raises(SpecError, match="expected the columns of a narrow tile"):
        widths.widths_of(4096, 16, 256, given)
