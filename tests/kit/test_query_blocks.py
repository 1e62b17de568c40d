"""Blocks of queries that see keys, and masks of transposed scores, against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import SpecError, Tile, f32, kernel, kit, ptx, u32

ROWS, COLUMNS = 64, 24


@pytest.mark.sample(4)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys"), [(48, 128), (50, 70), (100, 30), (24, 64), (1, 200), (200, 1), (70, 140)]
)
def test_ranges_and_masks(queries: int, keys: int, causal: bool) -> None:
    blocks = kit.QueryBlocks(queries, keys, block=COLUMNS, key_block=ROWS, causal=causal)
    count, key_count = -(-queries // COLUMNS), -(-keys // ROWS)
    assert (blocks.count, blocks.key_count) == (count, key_count)

    @kernel(
        out_specs=(Tile(key_count, 2, u32), Tile(key_count * ROWS, count * COLUMNS, f32)),
        grid=key_count,
        block=128,
        arch="sm_90a",
    )
    def ranges(R, P):  # type: ignore[no-untyped-def]
        number = ptx.special.ctaid.x()
        found = blocks.of(number)
        for i, bound in enumerate((found.first, found.whole)):
            ptx.store(R.at(number, i), bound, u32, space="global", pred=ptx.special.tid.x() == 0)
        p = ptx.wgmma.accumulator(n=COLUMNS)
        origin = p.origin()
        key = number * ROWS + origin.row
        with ptx.for_(0, count) as block:
            query = block * COLUMNS + origin.column
            for value in p:
                value.set(1.0)
            blocks.mask(p, key, query)
            for i, value in enumerate(p):
                ptx.inst.st.global_.f32(P.at(key + p.row(i), query + p.column(i)), value)

    report = ranges.simulate()
    assert report.verdict == "clean", str(report)
    found, p = report.outputs
    query, key = np.arange(count * COLUMNS)[None], np.arange(key_count * ROWS)[:, None]
    seen = (key < keys) & ((query + keys - queries >= key) | (not causal))
    assert np.array_equal(p, seen.astype(np.float32))
    assert blocks.masked == (not seen.all() or causal)
    by_block = seen.reshape(key_count, ROWS, count, COLUMNS)
    assert blocks.lengths() == [count - first for first, _ in found]
    for number, (first, whole) in enumerate(found):
        some, every = by_block[number].any((0, 2)), by_block[number].all((0, 2))
        assert not some[:first].any()
        assert some[first] or first == count - 1
        assert np.array_equal(np.flatnonzero(every), np.arange(min(whole, count), count))


def test_what_is_refused() -> None:
    with pytest.raises(SpecError, match="queries is 0"):
        kit.QueryBlocks(0, 1, block=8, key_block=8)

    @kernel(out_specs=(Tile(1, f32),), block=128, arch="sm_90a")
    def other(Y):  # type: ignore[no-untyped-def]
        lane = ptx.special.laneid()
        kit.QueryBlocks(8, 8, block=8, key_block=8).mask(ptx.wgmma.accumulator(n=16), lane, lane)

    with pytest.raises(SpecError, match="16 columns: expected 8"):
        other.ptx()
