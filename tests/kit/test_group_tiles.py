"""Tiles of groups: every tile of every group exactly once, in order, whatever the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, kernel, kit, ptx, s32, u32
from tests.dsl.helpers import recorded

ROWS, TILES_N = 32, 3


def walked(groups: int, kind: str, clusters: int, narrow: int | None = None) -> Kernel:
    """For each tile of each CTA, its group, number, rows of tiles, first and last row, in a list of its own."""

    @kernel(
        in_specs=(Tile(groups, s32),),
        out_specs=(Tile(clusters, 200, 5, u32),),
        block=1,
        grid=clusters,
        arch="sm_90a",
    )
    def walk(sizes, out):  # type: ignore[no-untyped-def]
        mine = ptx.special.ctaid.x()
        tiles = kit.GroupTiles(
            sizes,
            groups=groups,
            rows=ROWS,
            tiles_n=TILES_N,
            first=mine,
            step=clusters,
            kind=kind,
            narrow=narrow,
        )
        count = ptx.special.tid.x() + 0
        with tiles.loop() as found:
            for i, value in enumerate(found[:5]):
                word = ptx.special.tid.x() + value
                ptx.inst.st.global_.u32(out.at(mine, count, i), word)
            if found.narrow is not None:
                ptx.inst.st.global_.u32(out.at(mine, count, 2), found.tiles_m + 100, pred=found.narrow)
            count += 1

    return walk


@pytest.mark.parametrize("kind", ["ends", "counts"])
@pytest.mark.parametrize("clusters", [1, 4, 50])
@pytest.mark.parametrize("counts", [(1,), (0, 0), (33, 0, 0, 64, 1), (0, 100, 32, 0), (5,) * 12])
def test_every_tile_once(counts: tuple[int, ...], clusters: int, kind: str) -> None:
    sizes = np.cumsum(counts) if kind == "ends" else np.array(counts)
    out = np.full((clusters, 200, 5), 0xFFFFFFFF, np.uint32)
    report = walked(len(counts), kind, clusters).simulate(sizes.astype(np.int32), out=out)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    expected = []
    begin = 0
    for group, count in enumerate(counts):
        tiles_m = -(-count // ROWS)
        first = begin if kind == "ends" else 0
        expected += [(group, i, tiles_m, first, first + count) for i in range(tiles_m * TILES_N)]
        begin += count
    for mine in range(clusters):
        own = expected[mine::clusters]
        assert np.array_equal(out[mine, : len(own)].reshape(-1, 5), np.array(own, np.uint32).reshape(-1, 5))
        assert (out[mine, len(own) :] == 0xFFFFFFFF).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["ends", "counts"])
@pytest.mark.parametrize("clusters", [1, 4, 7, 50])
@pytest.mark.parametrize("narrow", [TILES_N + 1, TILES_N + 3])
@pytest.mark.parametrize(
    "counts", [(1,), (0, 0), (33, 0, 0, 64, 1), (0, 100, 32, 0), (40, 70, 17, 16, 48, 200)]
)
def test_narrow_tiles_fill_the_last_round(
    counts: tuple[int, ...], narrow: int, clusters: int, kind: str
) -> None:
    sizes = np.cumsum(counts) if kind == "ends" else np.array(counts)
    out = np.full((clusters, 200, 5), 0xFFFFFFFF, np.uint32)
    report = walked(len(counts), kind, clusters, narrow).simulate(sizes.astype(np.int32), out=out)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    strips = sum(-(-count // ROWS) for count in counts)
    left = strips - min(strips, -strips * TILES_N % clusters // (narrow - TILES_N))  # strips of wide tiles
    expected = []
    begin = 0
    for group, count in enumerate(counts):
        tiles_m = -(-count // ROWS)
        wide = min(left, tiles_m)
        left -= wide
        first = begin if kind == "ends" else 0
        expected += [(group, i, wide, first, first + count) for i in range(wide * TILES_N)]
        place = first + wide * ROWS
        rest = tiles_m - wide
        expected += [(group, i, rest + 100, place, first + count) for i in range(rest * narrow)]
        begin += count
    assert -(-len(expected) // clusters) == -(-strips * TILES_N // clusters)
    for mine in range(clusters):
        own = expected[mine::clusters]
        assert np.array_equal(out[mine, : len(own)].reshape(-1, 5), np.array(own, np.uint32).reshape(-1, 5))
        assert (out[mine, len(own) :] == 0xFFFFFFFF).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": 0}, "groups is 0"),
        ({"groups": 3}, "expected 3 numbers"),
        ({"kind": "starts"}, "kind is 'starts'"),
        ({"rows": 0}, "rows is 0"),
        ({"narrow": 1}, "narrow is 1 with tiles_n = 1"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    def body(sizes: Any) -> None:
        with pytest.raises(SpecError, match=words):
            kit.GroupTiles(
                sizes,
                **{
                    "groups": 2,
                    "rows": 8,
                    "tiles_n": 1,
                    "first": ptx.special.ctaid.x(),
                    "step": 1,
                    **options,
                },
            )

    recorded(body, Tile(2, s32))
