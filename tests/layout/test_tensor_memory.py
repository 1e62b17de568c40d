"""Fragments against CUTLASS's copy traits, accumulators cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.layout import (
    COLUMNS,
    LANES,
    a_operand,
    accumulator,
    fragment,
    pack_address,
    scale_factors,
    unpack_address,
)

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


# (M, N) -> bit of D's accumulator as CUTLASS's tmem_frg and tmem_frg_ws give it, with 1 for a lane and 128
# for a column: modes of M, modes of N.
ACCUMULATORS = [
    ({"m": 256, "cta_group": 2}, ((128, 1),), lambda n: ((n, 128),)),
    ({"m": 128, "cta_group": 2}, ((64, 1),), lambda n: ((n // 2, 128), (2, 64))),
    ({"m": 128, "cta_group": 1, "ws": True}, ((128, 1),), lambda n: ((n, 128),)),
    ({"m": 64, "cta_group": 1, "ws": True}, ((64, 1),), lambda n: ((n // 2, 128), (2, 64))),
    ({"m": 32, "cta_group": 1, "ws": True}, ((32, 1),), lambda n: ((n // 4, 128), (4, 32))),
    ({"m": 64, "cta_group": 1}, ((16, 1), (4, 32)), lambda n: ((n, 128),)),
    ({"m": 128, "cta_group": 1}, ((128, 1),), lambda n: ((n, 128),)),
]


@pytest.mark.parametrize(("what", "rows", "columns"), ACCUMULATORS)
@pytest.mark.parametrize("n", [64, 128, 256])
def test_accumulators_are_cutlasss(
    what: dict[str, Any], rows: tuple[tuple[int, int], ...], columns: Any, n: int
) -> None:
    lane, column = accumulator(n=n, **what)
    held = what["m"] // what["cta_group"]
    assert lane.shape == column.shape == (held, n) and not lane.flags.writeable
    for row in range(held):
        for j in range(n):
            cell = offset(row, rows) + offset(j, columns(n))
            assert (lane[row, j], column[row, j]) == (cell % 128, cell // 128)
    assert len(set(zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True))) == held * n


@pytest.mark.parametrize(
    ("m", "n", "options", "message"),
    [
        (128, 12, {"cta_group": 1}, "N = 12 with cta_group::1 is not a multiple of 8"),
        (128, 24, {"cta_group": 2}, "N = 24 with cta_group::2 is not a multiple of 16"),
        (256, 272, {"cta_group": 2}, "N = 272"),
        (256, 64, {"cta_group": 1}, "M = 256 with cta_group::1 is not 64 or 128"),
        (64, 64, {"cta_group": 2}, "M = 64 with cta_group::2 is not 128 or 256"),
        (256, 64, {"cta_group": 1, "ws": True}, "M = 256 with cta_group::1, .ws is not 32, 64 or 128"),
        (64, 32, {"cta_group": 1, "ws": True}, "N = 32 with .ws is not 64, 128 or 256"),
        (128, 64, {"cta_group": 2, "ws": True}, "cta_group::1 only"),
        (128, 64, {"cta_group": 3}, "cta_group = 3"),
    ],
)
def test_accumulator_refusals(m: int, n: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        accumulator(m, n, **options)


def test_sparse_accumulators() -> None:
    """Layout C alone, a pair's sparse M = 128, differs: it is that of 64 rows of one CTA."""
    lane, column = accumulator(128, 64, cta_group=2, sparse=True)
    assert lane.shape == (64, 64)
    for row in range(64):
        assert lane[row].tolist() == [row % 16 + 32 * (row // 16)] * 64
        assert column[row].tolist() == list(range(64))
    for m, options in ((256, {"cta_group": 2}), (64, {"cta_group": 1}), (32, {"cta_group": 1, "ws": True})):
        sparse = accumulator(m, 64, sparse=True, **options)  # type: ignore[arg-type]
        dense = accumulator(m, 64, **options)  # type: ignore[arg-type]
        assert all(np.array_equal(a, b) for a, b in zip(sparse, dense, strict=True))


# --- A and scale factors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "group", "rows"),
    [
        (128, 1, ((128, 1),)), (64, 1, ((16, 1), (4, 32))), (256, 2, ((128, 1),)), (128, 2, ((64, 1),)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("bits", "k"), [(32, 8), (16, 16), (8, 32), (4, 64)])
def test_a_is_packed_along_k(
    m: int, group: int, rows: tuple[tuple[int, int], ...], bits: int, k: int
) -> None:
    lane, column, bit = a_operand(m, k, container_bits=bits, cta_group=group)
    assert lane.shape == (m // group, k)
    for row in range(m // group):
        for j in range(k):
            assert lane[row, j] == offset(row, rows)
            assert 32 * column[row, j] + bit[row, j] == j * bits
            assert bit[row, j] + bits <= 32
    assert column.max() == 7  # 32 bytes
    assert not bit.flags.writeable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 32}, "M = 32 with cta_group::1 is not 64 or 128"),
        ({"cta_group": 2, "m": 64}, "M = 64 with cta_group::2"),
        ({"cta_group": 0}, "cta_group = 0"),
        ({"container_bits": 6}, "container_bits = 6"),
        ({"k": 3}, "K = 3 elements of 16 bits"),
        ({"k": 0}, "K = 0"),
    ],
)
def test_a_operand_refusals(arguments: dict[str, int], message: str) -> None:
    values: dict[str, Any] = {"m": 128, "k": 16, "container_bits": 16, "cta_group": 1} | arguments
    with pytest.raises(SpecError, match=message):
        a_operand(**values)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    ("matrix", "extent", "m", "group"),
    [
        ("A", 128, 128, 1), ("A", 128, 256, 2), ("B", 64, 128, 1), ("B", 256, 128, 1), ("B", 256, 256, 2),
    ],
)  # fmt: skip
def test_scale_factors_are_cutlasss(matrix: str, extent: int, m: int, group: int, count: int) -> None:
    """tmem_sf_frg, 4x1: ((32, rows/32), 4), (vector, count): ((1, 512), 32), (0, 128), bytes as columns."""
    lane, column, byte = scale_factors(matrix, extent, count, m=m, cta_group=group)
    assert lane.shape == (4, extent, count)
    for copy in range(4):
        for row in range(extent):
            for j in range(count):
                place = offset(row, ((32, 1), (extent // 32, 512))) + 32 * copy + 128 * j
                assert lane[copy, row, j] == place % 128
                assert 4 * column[copy, row, j] + byte[copy, row, j] == place // 128


@pytest.mark.parametrize("n", [64, 128, 256])
def test_scale_factors_of_b_in_two_halves_are_cutlasss(n: int) -> None:
    """tmem_sf_frg, 2x2: ((32, N/64), 2, 2), (vector, count): ((1, 512), 64, 32), (0, 128)."""
    lane, column, byte = scale_factors("B", n, 4, m=128, cta_group=2)
    assert lane.shape == (2, n, 4)
    for copy in range(2):
        for row in range(n):
            for j in range(4):
                place = offset(row, ((32, 1), (n // 64, 512), (2, 64))) + 32 * copy + 128 * j
                assert lane[copy, row, j] == place % 128
                assert 4 * column[copy, row, j] + byte[copy, row, j] == place // 128


@pytest.mark.parametrize(
    ("matrix", "extent", "blocks"), [("A", 128, 4), ("B", 64, 4), ("B", 144, 8), ("B", 256, 8)]
)
@pytest.mark.parametrize(("count", "scale_id"), [(3, 0), (3, 2), (3, 3), (6, 0), (6, 2)])
def test_scale_factors_of_k_96_are_cutlasss(
    matrix: str, extent: int, blocks: int, count: int, scale_id: int
) -> None:
    """tCtSFA_mma: ((32, blocks), scale): ((1, 512), (128 within a cell, 512 * blocks)), one scale after the other."""
    lane, column, byte = scale_factors(matrix, extent, count, scale_id=scale_id)
    for row in range(extent):
        for j in range(count):
            number = scale_id + j
            place = offset(row, ((32, 1), (blocks, 512))) + 128 * (number % 4) + 512 * blocks * (number // 4)
            assert lane[0, row, j] == place % 128
            assert 4 * column[0, row, j] + byte[0, row, j] == place // 128


def test_the_scale_id_is_the_first_byte() -> None:
    for count, scale_id in ((1, 3), (2, 2), (4, 0)):
        byte = scale_factors("A", 128, count, scale_id=scale_id)[2]
        assert byte[0, 0].tolist() == list(range(scale_id, scale_id + count))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": "D"}, "matrix = 'D'"),
        ({"extent": 64}, "extent = 64: one CTA holds 128 rows of A"),
        ({"matrix": "B", "extent": 12}, "N = 12"),
        ({"matrix": "B", "extent": 264}, "N = 264"),
        ({"count": 5}, "count = 5"),
        ({"count": 6, "scale_id": 1}, "scale_id = 1 with 6 scales of one row: expected 0, 2"),
        ({"count": 6, "extent": 64, "m": 128, "cta_group": 2}, "K = 96 needs M = 256"),
        ({"count": 2, "scale_id": 1}, "scale_id = 1 with 2 scales of one row: expected 0, 2"),
        ({"count": 4, "scale_id": 2}, "scale_id = 2 .*expected 0"),
        ({"m": 64}, "M = 64 with cta_group::1 and block scaling is not 128"),
        ({"m": 64, "cta_group": 2}, "is not 128 or 256"),
        ({"cta_group": 4}, "cta_group = 4"),
    ],
)
def test_scale_factor_refusals(arguments: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"matrix": "A", "extent": 128, "count": 1} | arguments
    with pytest.raises(SpecError, match=message):
        scale_factors(**values)


def test_scale_factors_of_a_pairs_64_rows() -> None:
    """Two columns for the rows of a CTA: CUTLASS's 2cta_mma_blockscale_m128.py packs two steps of K into four."""
    lane, column, byte = scale_factors("A", 64, 4, m=128, cta_group=2)
    assert lane.shape == (4, 64, 4)
    for copy in range(4):
        for row in range(64):
            for j in range(4):
                assert (lane[copy, row, j], column[copy, row, j], byte[copy, row, j]) == (
                    32 * copy + row % 32,
                    row // 32,
                    j,
                )
    with pytest.raises(SpecError, match="one CTA holds 64 rows of A"):
        scale_factors("A", 128, 4, m=128, cta_group=2)


def test_a_sparse_a_of_a_pairs_64_rows_lies_where_d_does() -> None:
    lane = a_operand(128, 16, container_bits=16, cta_group=2, sparse=True)[0]
    assert lane[:, 0].tolist() == [row % 16 + 32 * (row // 16) for row in range(64)]
    assert a_operand(128, 16, container_bits=16, cta_group=2)[0][:, 0].tolist() == list(range(64))


def test_addresses() -> None:
    assert pack_address(0, 0) == 0
    assert pack_address(96, 0x1F0) == 0x006001F0
    assert unpack_address(0x006001F0) == (96, 0x1F0)
    assert unpack_address(pack_address(LANES - 1, COLUMNS - 1)) == (127, 511)
    for lane, column in ((128, 0), (0, 512), (-1, 0)):
        with pytest.raises(SpecError, match=f"lane {lane}, column {column}"):
            pack_address(lane, column)
