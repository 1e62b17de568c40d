"""Tiles of operands: the descriptors that follow from them read what TMA boxes wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.layout import OperandTile, Tcgen05SmemDescriptor, element_addresses

ATOM_32B = "128B_ATOM_32B"
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, ATOM_32B: 128}
#: B, M, S of CuTe's swizzle.
SWIZZLES = {
    "none": (0, 4, 3), "32B": (1, 4, 3), "64B": (2, 4, 3), "128B": (3, 4, 3), ATOM_32B: (2, 5, 2),
}  # fmt: skip


def filled(tile: OperandTile, base: int) -> np.ndarray[Any, Any]:
    """Shared memory with the tile at ``base``: box behind box, each as wide as the swizzle."""
    bits, low, shift = SWIZZLES[tile.swizzle]
    span, nbytes = SPANS[tile.swizzle], tile.element_bits // 8
    memory = np.full(1 << 18, -1, np.int64)
    for r in range(tile.rows):
        for i in range(tile.k):
            along, across = (i, r) if tile.major == "K" else (r, i)
            box, byte = divmod(along * nbytes, span)
            height = tile.rows if tile.major == "K" else tile.k
            address = base + box * height * span + across * span + byte
            address ^= (address >> (low + shift) & ((1 << bits) - 1)) << low
            memory[address] = r * tile.k + i
    return memory


TILES = [
    OperandTile(24, 64, 16, "K", "128B"),
    OperandTile(16, 256, 8, "K", "128B"),  # two boxes
    OperandTile(16, 64, 32, "K", "64B"),  # four boxes
    OperandTile(8, 64, 16, "K", "32B"),
    OperandTile(24, 64, 16, "K", "none"),
    OperandTile(16, 32, 8, "K", "none"),
    OperandTile(128, 32, 16, "MN", "128B"),
    OperandTile(128, 64, 8, "MN", "64B"),
    OperandTile(48, 32, 16, "MN", "32B"),
    OperandTile(32, 64, 16, "MN", "none"),
    OperandTile(64, 16, 32, "MN", ATOM_32B),
]


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_descriptors_read_what_boxes_wrote(tile: OperandTile) -> None:
    """Every slice of K that one instruction takes, by the descriptor that the tile gives for it."""
    base, nbytes = 0x2000, tile.element_bits // 8
    memory = filled(tile, base)
    matrix = np.arange(tile.rows * tile.k).reshape(tile.rows, tile.k)
    step = 32 // nbytes
    for first in range(0, tile.k, step):
        word = tile.descriptor(base, first=first).encode()
        addresses = element_addresses(Tcgen05SmemDescriptor.decode(word), tile.rows, step, nbytes, tile.major)
        assert (memory[addresses] == matrix[:, first : first + step]).all(), first
    assert (memory >= 0).sum() == tile.rows * tile.k
    assert tile.nbytes == tile.rows * tile.k * nbytes


def test_offsets_of_k_major_tiles_are_those_of_the_manuals_examples() -> None:
    """#tcgen05-canonical-layouts, figures for tf32: 16 rows of 16 elements."""
    none = OperandTile(16, 16, 32, "K", "none")
    assert (none.leading_bytes, none.stride_bytes) == (64 * 4, 32 * 4)
    swizzled = OperandTile(16, 16, 32, "K", "32B")
    assert (swizzled.leading_bytes, swizzled.stride_bytes) == (16, 64 * 4)


@pytest.mark.parametrize(
    ("tile", "leading", "stride"),
    [
        (OperandTile(16, 16, 16, "MN", "none"), 8 * 16, 16 * 16),  # 8 of K; the next 16 bytes of M or N
        (OperandTile(32, 16, 16, "MN", "32B"), 16 * 32, 8 * 32),  # the next box; 8 of K
        (OperandTile(64, 16, 16, "MN", "64B"), 16 * 64, 8 * 64),
        (OperandTile(64, 16, 32, "MN", ATOM_32B), 16 * 128, 4 * 128),  # the next box; 4 of K
    ],
)
def test_offsets_of_mn_major_tiles(tile: OperandTile, leading: int, stride: int) -> None:
    assert (tile.leading_bytes, tile.stride_bytes) == (leading, stride)


def test_steps_along_k() -> None:
    tile = OperandTile(128, 128, 16)
    assert [tile.k_offset(k) for k in (0, 16, 48, 64, 80)] == [0, 32, 96, 16384, 16416]
    packed = OperandTile(128, 256, 4)
    assert [packed.k_offset(k) for k in (0, 64, 96, 192)] == [0, 32, 48, 96]
    across = OperandTile(128, 64, 16, "MN")
    assert [across.k_offset(k) for k in (0, 16, 48)] == [0, 2048, 6144]
    assert tile.descriptor(0x400, first=16) == Tcgen05SmemDescriptor(0x420, 16, 1024, "128B")
    assert tile.descriptor(0x480, base_offset=1) == Tcgen05SmemDescriptor(0x480, 16, 1024, "128B", 1)


def test_alignment_is_the_pattern() -> None:
    assert [OperandTile(8, 128, 8, "K", mode).alignment for mode in ("none", "32B", "64B", "128B")] == [
        16, 256, 512, 1024,
    ]  # fmt: skip
    assert OperandTile(32, 8, 32, "MN", ATOM_32B).alignment == 1024


@given(
    st.integers(1, 32),
    st.integers(1, 4),
    st.sampled_from([4, 8, 16, 32]),
    st.sampled_from(["none", "32B", "64B", "128B"]),
)
def test_every_tile_has_words(eights: int, boxes: int, bits: int, mode: str) -> None:
    tile = OperandTile(8 * eights, boxes * SPANS[mode] * 8 // bits, bits, "K", mode)
    for first in range(0, tile.k, 128 // bits):
        assert Tcgen05SmemDescriptor.decode(tile.descriptor(first=first).encode()) == tile.descriptor(
            first=first
        )
    assert tile.nbytes == 8 * eights * boxes * SPANS[mode]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((128, 32, 16), r"K = 32 elements of 16 bits are 64 bytes: .*'128B' needs a multiple of 128"),
        ((100, 64, 16), "rows = 100 .*multiple of 8"),
        ((0, 64, 16), "rows = 0"),
        ((128, 0, 16), "K = 0 elements"),
        ((32, 64, 16, "MN"), "rows = 32 elements .*64 bytes"),
        ((64, 60, 16, "MN"), "K = 60 of a MN-major"),
        ((32, 6, 32, "MN", ATOM_32B), "K = 6 .*multiple of 4"),
        ((32, 8, 32, "MN"), "32-bit elements with swizzle '128B': .*32 bits only"),
        ((64, 8, 16, "MN", ATOM_32B), "16-bit elements with swizzle '128B_ATOM_32B'"),
        ((256, 8, 4, "MN"), "4-bit elements .*4 bits must be K-major"),
        ((8, 64, 6), "element_bits = 6"),
        ((8, 64, 16, "M"), "major = 'M'"),
        ((8, 64, 16, "K", "96B"), "'96B'"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        OperandTile(*arguments)


def test_what_is_legal_but_not_modeled() -> None:
    with pytest.raises(UnsupportedError, match="K-major tile with swizzle '128B_ATOM_32B'"):
        OperandTile(8, 32, 32, "K", ATOM_32B)


@pytest.mark.parametrize(("first", "step"), [(4, 8), (-8, 8), (64, 8)])
def test_parts_that_no_descriptor_starts_at(first: int, step: int) -> None:
    with pytest.raises(SpecError, match=f"first = {first} is not a multiple of {step} .*below 64"):
        OperandTile(128, 64, 16).k_offset(first)
    with pytest.raises(SpecError, match=f"first = {first} "):
        OperandTile(128, 64, 16, "MN").descriptor(first=first)
