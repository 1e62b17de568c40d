"""Grids of CTAs: places, masks and the CTAs to which a stage is handed back, against a list of the grid."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import SpecError, Tile, kernel, kit, ptx, reg, u32


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (2, 4), (1, 8), (8, 1)]
)
def test_every_cta_of_a_grid(rows: int, columns: int) -> None:
    grid = kit.ClusterGrid(rows, columns)

    @kernel(out_specs=(Tile(grid.size, 4 + grid.readers, u32),), block=1, grid=grid.size, arch="sm_90a")
    def places(out):  # type: ignore[no-untyped-def]
        rank = ptx.special.ctaid.x()

        def put(column: int, value: object) -> None:
            word = reg.scalar(u32)
            if value is None:
                value = 0xFFFF
            if isinstance(value, int):
                ptx.inst.mov.u32(word, value)
            elif value.type.bits == 16:  # type: ignore[attr-defined]
                ptx.inst.cvt.u32.u16(word, value)
            else:
                ptx.inst.mov.u32(word, value)
            ptx.inst.st.global_.u32(out.at(rank, column), word)

        row, column = grid.place(rank)
        for i, value in enumerate((row, column, grid.row_mask(row), grid.column_mask(column))):
            put(i, value)
        for i in range(grid.readers):
            put(4 + i, grid.peer(rank, reg.scalar(u32, init=i)))

    found = places.simulate(sanitize="strict").outputs[0].astype(np.int64)
    ranks = np.arange(grid.size).reshape(columns, rows).T  # rank of each place
    for row in range(rows):
        for column in range(columns):
            values = found[ranks[row, column]]
            assert tuple(values[:2]) == (row, column)
            in_row, in_column = set(ranks[row].tolist()), set(ranks[:, column].tolist())
            for mask, members in ((values[2], in_row), (values[3], in_column)):
                expected = 0xFFFF if len(members) == 1 else sum(1 << member for member in members)
                assert mask == expected
            assert values[4] == ranks[row, column]
            assert sorted(values[4:]) == sorted(in_row | in_column)


@pytest.mark.parametrize("extents", [(0, 1), (3, 1), (4, 8), (2.0, 1)])
def test_refusals(extents: tuple[int, int]) -> None:
    with pytest.raises(SpecError, match="powers of two"):
        kit.ClusterGrid(*extents)
