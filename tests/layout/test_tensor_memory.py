"""Fragments against CUTLASS's copy traits, accumulators cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.layout import COLUMNS, LANES, accumulator, fragment, pack_address, unpack_address

# (thread, value) -> bit of one .x1 access, as CUTLASS's Copy_Traits<SM100_TMEM_LOAD_...1x>::DstLayout
# gives it: thread modes, value modes (each extent: stride in bits), bits per lane.
TRAITS = {
    "32x32b": (((32, 32),), ((32, 1),), 32),
    "16x64b": (((2, 512), (2, 32), (8, 64)), ((32, 1),), 64),
    "16x128b": (((4, 32), (8, 128)), ((32, 1), (2, 1024)), 128),
    "16x256b": (((4, 64), (8, 256)), ((64, 1), (2, 2048)), 256),
}


def offset(index: int, modes: tuple[tuple[int, int], ...]) -> int:
    """A CuTe layout's value: ``index`` decomposed over the extents, leftmost fastest."""
    total = 0
    for extent, stride in modes:
        total += index % extent * stride
        index //= extent
    return total


@pytest.mark.parametrize("shape", TRAITS)
@pytest.mark.parametrize("num", [1, 2, 8, 32])
def test_fragments_are_cutlasss(shape: str, num: int) -> None:
    threads, values, bits_per_lane = TRAITS[shape]
    per_access = int(np.prod([extent for extent, _ in values])) // 32
    lane, column = fragment(shape, num)
    assert lane.shape == column.shape == (per_access * num, 32)
    for register in range(per_access * num):
        access, within = divmod(register, per_access)
        for thread in range(32):
            bit = offset(thread, threads) + offset(within * 32, values)
            assert lane[register, thread] == bit // bits_per_lane
            assert column[register, thread] == bit % bits_per_lane // 32 + access * bits_per_lane // 32


@pytest.mark.parametrize(("shape", "lanes", "largest"), [
    ("32x32b", 32, 128), ("16x64b", 16, 128), ("16x128b", 16, 64), ("16x256b", 16, 32),
])  # fmt: skip
def test_each_cell_of_the_block_is_in_one_register(shape: str, lanes: int, largest: int) -> None:
    lane, column = fragment(shape, largest)
    cells = set(zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True))
    assert len(cells) == lane.size
    assert cells == {(i, j) for i in range(lanes) for j in range(lane.size // lanes)}
    with pytest.raises(SpecError, match=f".x{2 * largest} does not exist .*{largest}"):
        fragment(shape, 2 * largest)


def test_16x32bx2_has_two_halves() -> None:
    lane, column = fragment("16x32bx2", 4, 100)
    for register in range(4):
        for thread in range(32):
            assert lane[register, thread] == thread % 16
            assert column[register, thread] == register + (100 if thread >= 16 else 0)


def test_fragments_are_shared_and_read_only() -> None:
    first, second = fragment("16x256b", 4), fragment("16x256b", 4)
    assert first[0] is second[0]
    with pytest.raises(ValueError, match="read-only"):
        first[0][0, 0] = 1


def test_fragment_refusals() -> None:
    with pytest.raises(SpecError, match="'64x32b'"):
        fragment("64x32b", 1)
    for num in (0, 3, -1):
        with pytest.raises(SpecError, match=f"x{num} does not exist"):
            fragment("32x32b", num)
    with pytest.raises(SpecError, match="half_split_offset = 8 with .32x32b"):
        fragment("32x32b", 1, 8)
    with pytest.raises(SpecError, match="half_split_offset = None with .16x32bx2"):
        fragment("16x32bx2", 1)


def test_accumulator_of_128_rows_is_the_identity() -> None:
    lane, column = accumulator(128, 48, cta_group=1)
    assert lane.shape == column.shape == (128, 48)
    for row in range(128):
        assert (lane[row] == row).all() and (column[row] == range(48)).all()


def test_accumulator_of_64_rows_takes_16_lanes_of_each_warp() -> None:
    lane, column = accumulator(64, 8, cta_group=1)
    assert [int(v) for v in lane[:, 0]] == [
        *range(0, 16), *range(32, 48), *range(64, 80), *range(96, 112)
    ]  # fmt: skip
    assert (column == np.arange(8)).all()
    assert not lane.flags.writeable


def test_accumulator_refusals() -> None:
    with pytest.raises(SpecError, match="N = 12"):
        accumulator(128, 12, cta_group=1)
    with pytest.raises(SpecError, match="M = 256 with cta_group::1"):
        accumulator(256, 64, cta_group=1)
    with pytest.raises(UnsupportedError, match="cta_group::2"):
        accumulator(256, 64, cta_group=2)
    with pytest.raises(UnsupportedError, match=".ws"):
        accumulator(64, 64, cta_group=1, ws=True)


def test_addresses() -> None:
    assert pack_address(0, 0) == 0
    assert pack_address(96, 0x1F0) == 0x006001F0
    assert unpack_address(0x006001F0) == (96, 0x1F0)
    assert unpack_address(pack_address(LANES - 1, COLUMNS - 1)) == (127, 511)
    for lane, column in ((128, 0), (0, 512), (-1, 0)):
        with pytest.raises(SpecError, match=f"lane {lane}, column {column}"):
            pack_address(lane, column)
