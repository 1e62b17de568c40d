"""Descriptor words against constants of other compilers, layouts against memory filled as TMA fills it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.layout import TCGEN05_K_MAJOR_128B, Tcgen05SmemDescriptor, element_addresses, tile_offsets

ATOM_32B = "128B_ATOM_32B"
#: CuTe's Swizzle<B, M, S> of each mode: B bits from bit M + S are added onto those from bit M.
SWIZZLES = {
    "none": (0, 4, 3), "32B": (1, 4, 3), "64B": (2, 4, 3), "128B": (3, 4, 3), ATOM_32B: (2, 5, 2),
}  # fmt: skip
PHASE_BITS = {mode: bits for mode, (bits, _, _) in SWIZZLES.items() if mode != ATOM_32B}
SPANS = {"32B": 32, "64B": 64, "128B": 128}


def physical(address: int, mode: str) -> int:
    """The swizzle bit by bit."""
    bits, base, shift = SWIZZLES[mode]
    for i in range(bits):
        if address & (1 << (base + shift + i)):
            address ^= 1 << (base + i)
    return address


def filled(
    rows: int, k: int, element_bytes: int, mode: str, linear: Callable[[int, int], int]
) -> npt.NDArray[np.int64]:
    """Shared memory in which byte ``physical(linear(r, i))`` holds the number of element (r, i), else -1."""
    memory = np.full(1 << 18, -1, np.int64)
    for r in range(rows):
        for i in range(k):
            memory[physical(linear(r, i), mode)] = r * k + i
    return memory


# --- the word -----------------------------------------------------------------------------------


def test_known_words() -> None:
    assert Tcgen05SmemDescriptor(0, 16, 1024, "128B").encode() == TCGEN05_K_MAJOR_128B == 0x4000404000010000
    word = Tcgen05SmemDescriptor(0x12400, 0, 1024, "128B").encode()
    assert word == 2 << 61 | 1 << 46 | 64 << 32 | 0x1240
    assert Tcgen05SmemDescriptor(16, 32, 48, "none").encode() == 1 << 46 | 3 << 32 | 2 << 16 | 1
    assert Tcgen05SmemDescriptor(16, 32, 48, "128B", 0, 1).encode() == (
        2 << 61 | 1 << 52 | 1 << 46 | 3 << 32 | 2 << 16 | 1
    )
    assert Tcgen05SmemDescriptor(0, 0, 512, ATOM_32B).encode() == 1 << 61 | 1 << 46 | 32 << 32
    assert Tcgen05SmemDescriptor(0, 0, 0, "64B", 5).encode() == 4 << 61 | 5 << 49 | 1 << 46
    assert Tcgen05SmemDescriptor(0, 0, 0, "32B").encode() == 6 << 61 | 1 << 46


def test_the_rank_of_the_cta_is_dropped() -> None:
    assert Tcgen05SmemDescriptor(0x0100_0400, 16, 1024, "128B").encode() == TCGEN05_K_MAJOR_128B | 0x40


fields = st.integers(0, 0x3FFF).map(lambda v: v << 4)


@given(fields, fields, fields, st.sampled_from(list(SWIZZLES)), st.integers(0, 7), st.integers(0, 1))
def test_round_trip(address: int, leading: int, stride: int, mode: str, base: int, absolute: int) -> None:
    absolute = absolute if mode == "128B" else 0
    base = 0 if mode == "none" or absolute else base
    descriptor = Tcgen05SmemDescriptor(address, leading, stride, mode, base, absolute)
    word = descriptor.encode()
    assert 0 <= word < 1 << 64
    assert Tcgen05SmemDescriptor.decode(word) == descriptor


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": 8}, "0x8 is not a multiple of 16"),
        ({"address": 0x40000}, "0x40000 is not"),
        ({"address": -16}, "-0x10"),
        ({"leading_bytes": 24}, "leading_bytes = 24 .*multiple of 16 between 0 and 262128"),
        ({"stride_bytes": 1 << 18}, "stride_bytes = 262144"),
        ({"base_offset": 8}, "8 is outside 0..7"),
        ({"base_offset": 1, "swizzle": "none"}, "base_offset = 1 with swizzle 'none'"),
        ({"leading_mode": 2}, "leading_mode = 2"),
        ({"leading_mode": 1, "swizzle": "64B"}, "leading_mode = 1 with swizzle '64B'.*needs swizzle '128B'"),
        ({"leading_mode": 1, "base_offset": 2}, "base_offset = 2.*base offset 0"),
        ({"swizzle": "16B"}, "'16B'"),
    ],
)
def test_encode_refuses(change: dict[str, object], message: str) -> None:
    values: dict[str, object] = dict(address=0, leading_bytes=16, stride_bytes=1024, swizzle="128B")
    with pytest.raises(SpecError, match=message):
        Tcgen05SmemDescriptor(**(values | change)).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (TCGEN05_K_MAJOR_128B & ~(1 << 46), "bits 46-48 .* are 0b000, expected 0b001"),
        (TCGEN05_K_MAJOR_128B | 1 << 47, "0b011"),
        (TCGEN05_K_MAJOR_128B | 1 << 61, "swizzle code 3"),
        (1 << 46 | 5 << 61, "swizzle code 5"),
        (1 << 46 | 7 << 61, "swizzle code 7"),
        (TCGEN05_K_MAJOR_128B | 1 << 14, "reserved bits"),
        (TCGEN05_K_MAJOR_128B | 1 << 53, "reserved bits"),
        (1 << 46 | 4 << 61 | 1 << 52, "leading_mode = 1 with swizzle '64B'"),
        (1 << 64, "64-bit"),
    ],
)
def test_decode_refuses(word: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Tcgen05SmemDescriptor.decode(word)


def test_what_is_legal_but_not_modeled() -> None:
    with pytest.raises(UnsupportedError, match="K-major operand with swizzle '128B_ATOM_32B'"):
        tile_offsets(Tcgen05SmemDescriptor.decode(1 << 46 | 1 << 61), 8, 8, 4, "K")
    with pytest.raises(UnsupportedError, match="absolute"):
        tile_offsets(Tcgen05SmemDescriptor(0, 16, 1024, "128B", 0, 1), 8, 16, 2, "K")


# --- the layouts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", SPANS)
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("base", [0x400, 0x8C00])
def test_k_major_reads_what_tma_wrote_step_by_step(mode: str, element_bytes: int, base: int) -> None:
    """A TMA box of 24 rows x one span; each K step adds 32 bytes to the address and nothing else."""
    rows, span = 24, SPANS[mode]
    k = span // element_bytes
    memory = filled(rows, k, element_bytes, mode, lambda r, i: base + r * span + i * element_bytes)
    matrix = np.arange(rows * k).reshape(rows, k)
    step = 32 // element_bytes
    for first in range(0, k, step):
        descriptor = Tcgen05SmemDescriptor(base + first * element_bytes, 16, 8 * span, mode)
        assert Tcgen05SmemDescriptor.decode(descriptor.encode()) == descriptor
        found = memory[element_addresses(descriptor, rows, step, element_bytes, "K")]
        assert (found == matrix[:, first : first + step]).all()
    whole = element_addresses(Tcgen05SmemDescriptor(base, 16, 8 * span, mode), rows, k, element_bytes, "K")
    assert (memory[whole] == matrix).all()


@pytest.mark.parametrize("mode", SPANS)
@pytest.mark.parametrize("element_bytes", [1, 2])
def test_mn_major_reads_what_tma_wrote(mode: str, element_bytes: int) -> None:
    """Boxes of K rows x one span of M/N, side by side; each K step skips whole rows."""
    base, span = 0x1000, SPANS[mode]
    step = 32 // element_bytes
    total_k = 2 * step
    per_group = span // element_bytes
    rows = 3 * per_group

    def linear(r: int, i: int) -> int:
        return base + r // per_group * total_k * span + i * span + r % per_group * element_bytes

    memory = filled(rows, total_k, element_bytes, mode, linear)
    matrix = np.arange(rows * total_k).reshape(rows, total_k)
    for first in range(0, total_k, step):
        descriptor = Tcgen05SmemDescriptor(base + first * span, total_k * span, 8 * span, mode)
        found = memory[element_addresses(descriptor, rows, step, element_bytes, "MN")]
        assert (found == matrix[:, first : first + step]).all()


@pytest.mark.parametrize("base_offset", [0, 1, 6])
def test_mn_major_tf32_has_atoms_of_32_bytes(base_offset: int) -> None:
    """((T,8,m),(4,k)):((1,T,LBO),(8T,SBO)) behind Swizzle<2,5,2>, T = 4: 32 rows and 4 of K in an atom."""
    start, leading, stride = 0x2000 + 128 * base_offset, 0x1000, 512
    descriptor = Tcgen05SmemDescriptor(start, leading, stride, ATOM_32B, base_offset)
    addresses = element_addresses(descriptor, 64, 8, 4, "MN")
    for r in range(64):
        for i in range(8):
            offset = r % 32 * 4 + r // 32 * leading + i % 4 * 128 + i // 4 * stride
            assert addresses[r, i] == start + physical(offset, ATOM_32B)


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_k_major_without_swizzle_is_made_of_core_matrices(element_bytes: int) -> None:
    base, leading, stride = 0x410, 0x900, 0x200
    per_chunk = 16 // element_bytes

    def linear(r: int, i: int) -> int:
        core = base + r // 8 * stride + i // per_chunk * leading
        return core + r % 8 * 16 + i % per_chunk * element_bytes

    k = 2 * per_chunk
    memory = filled(16, k, element_bytes, "none", linear)
    descriptor = Tcgen05SmemDescriptor(base, leading, stride, "none")
    found = memory[element_addresses(descriptor, 16, k, element_bytes, "K")]
    assert (found == np.arange(16 * k).reshape(16, k)).all()


@pytest.mark.parametrize("element_bytes", [1, 2])
def test_mn_major_without_swizzle_is_made_of_core_matrices(element_bytes: int) -> None:
    base, leading, stride = 0x800, 0x1000, 0x80
    per_chunk = 16 // element_bytes

    def linear(r: int, i: int) -> int:
        core = base + i // 8 * leading + r // per_chunk * stride
        return core + i % 8 * 16 + r % per_chunk * element_bytes

    rows, k = 4 * per_chunk, 32 // element_bytes
    memory = filled(rows, k, element_bytes, "none", linear)
    descriptor = Tcgen05SmemDescriptor(base, leading, stride, "none")
    found = memory[element_addresses(descriptor, rows, k, element_bytes, "MN")]
    assert (found == np.arange(rows * k).reshape(rows, k)).all()


@pytest.mark.parametrize("base_offset", range(8))
def test_base_offset_moves_the_start_of_the_pattern(base_offset: int) -> None:
    """Row r of a pattern that starts at p has its chunks permuted by r, whatever p's own bits 7..9."""
    p = 0x2000 + base_offset * 128
    descriptor = Tcgen05SmemDescriptor(p, 16, 1024, "128B", base_offset)
    addresses = element_addresses(descriptor, 8, 64, 2, "K")
    for r in range(8):
        for i in range(64):
            assert addresses[r, i] == p + r * 128 + ((i // 8) ^ r) * 16 + i % 8 * 2


@given(
    st.integers(0, 63),
    st.integers(0, 200),
    st.sampled_from(list(PHASE_BITS)),
    st.sampled_from(["K", "MN"]),
    st.sampled_from([1, 2]),
)
def test_offsets_depend_on_the_low_address_bits_only(
    low: int, kib: int, mode: str, major: str, element_bytes: int
) -> None:
    k = 32 // element_bytes
    near = Tcgen05SmemDescriptor(low * 16, 0x1000, 0x400, mode)
    far = Tcgen05SmemDescriptor(low * 16 + kib * 1024, 0x1000, 0x400, mode)
    offsets = tile_offsets(near, 32, k, element_bytes, major)  # type: ignore[arg-type]
    assert tile_offsets(far, 32, k, element_bytes, major) is offsets  # type: ignore[arg-type]
    assert offsets.shape == (32, k) and offsets.dtype == np.int64 and not offsets.flags.writeable
    addresses = element_addresses(far, 32, k, element_bytes, major)  # type: ignore[arg-type]
    assert (addresses == offsets + kib * 1024).all()
    assert len(np.unique(addresses)) == addresses.size


@pytest.mark.parametrize(
    ("rows", "k", "element_bytes", "major", "mode", "message"),
    [
        (12, 16, 2, "K", "128B", "12 rows x 16 .*multiple of 8"),
        (8, 4, 2, "K", "128B", r"K \(8 bytes\)"),
        (8, 32, 2, "K", "32B", r"K \(64 bytes\) .* up to the swizzle's 32"),
        (8, 8, 4, "MN", "128B", "MN-major operand of 4-byte elements: expected '128B_ATOM_32B'"),
        (
            8,
            8,
            2,
            "MN",
            ATOM_32B,
            "swizzle '128B_ATOM_32B' does not fit .* 2-byte elements: expected a swizzle other than",
        ),
        (8, 8, 2, "K", "16B", "'16B'"),
        (4, 16, 2, "MN", "128B", r"rows \(8 bytes\)"),
        (8, 12, 2, "MN", "128B", "x 12 elements"),
        (8, 16, 3, "K", "none", "element_bytes = 3"),
        (8, 16, 2, "M", "none", "major = 'M'"),
    ],
)
def test_tiles_that_no_layout_expresses(
    rows: int, k: int, element_bytes: int, major: str, mode: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        tile_offsets(Tcgen05SmemDescriptor(0, 16, 1024, mode), rows, k, element_bytes, major)  # type: ignore[arg-type]
