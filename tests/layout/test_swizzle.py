"""The swizzle is the permutation of 16-byte chunks that TMA was measured to apply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.layout import SWIZZLE_BYTES, SWIZZLE_PERIOD, swizzle


def test_128_byte_rows_permute_their_chunks_by_the_row() -> None:
    for row in range(8):
        for chunk in range(8):
            assert (
                swizzle(0x400 + row * 128 + chunk * 16 + 5, "128B")
                == 0x400 + row * 128 + (chunk ^ row) * 16 + 5
            )


def test_64_and_32_byte_modes_by_hand() -> None:
    # 64B: two 64-byte rows share a 128-byte line, so the phase changes with every second row.
    assert [swizzle(row * 64, "64B") for row in range(9)] == [0, 64, 144, 208, 288, 352, 432, 496, 512]
    # 32B: four rows share a line, and only bit 4 ever flips.
    assert [swizzle(row * 32, "32B") for row in range(9)] == [0, 32, 64, 96, 144, 176, 208, 240, 256]
    assert swizzle(0x1234, "none") == 0x1234


@pytest.mark.parametrize("mode", SWIZZLE_BYTES)
def test_one_period_is_permuted_onto_itself_chunk_by_chunk(mode: str) -> None:
    period = SWIZZLE_PERIOD[mode]
    addresses = np.arange(3 * period, 4 * period)
    moved = swizzle(addresses, mode)
    assert sorted(moved) == list(addresses)
    assert (moved % 16 == addresses % 16).all()
    assert (moved // (SWIZZLE_BYTES[mode] or 1) == addresses // (SWIZZLE_BYTES[mode] or 1)).all()
    assert (swizzle(addresses + period, mode) == moved + period).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(SWIZZLE_BYTES)))
def test_twice_is_once_and_arrays_are_numbers(address: int, mode: str) -> None:
    assert swizzle(swizzle(address, mode), mode) == address
    assert swizzle(np.array([address]), mode)[0] == swizzle(address, mode)


def test_unknown_modes() -> None:
    with pytest.raises(SpecError, match="'256B'.*none, 32B, 64B, 128B"):
        swizzle(0, "256B")
    with pytest.raises(UnsupportedError, match="96B"):
        swizzle(0, "96B")


#: Where the manual's tables put each 16 bytes of a row, row by row until the pattern repeats.
LARGER_ATOMS = {
    "128B_ATOM_32B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_ATOM_64B": ["01234567", "45670123"],
}


@pytest.mark.parametrize("mode", LARGER_ATOMS)
def test_larger_atoms_by_the_tables(mode: str) -> None:
    rows = LARGER_ATOMS[mode]
    for row in range(16):
        for chunk, place in enumerate(rows[row % len(rows)]):
            for byte in range(16):
                assert swizzle(row * 128 + chunk * 16 + byte, mode) == row * 128 + int(place) * 16 + byte


def test_the_flip_exchanges_halves_in_every_second_row() -> None:
    addresses = np.arange(2048)
    plain = swizzle(addresses, "128B_ATOM_32B")
    flipped = swizzle(addresses, "128B_ATOM_32B_FLIP_8B")
    assert np.array_equal(flipped, np.where(addresses // 128 % 2, plain ^ 8, plain))
