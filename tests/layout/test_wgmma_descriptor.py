"""The word against the bit fields of the manual and CUTLASS, distances against tiles placed byte by byte."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.layout import TCGEN05_K_MAJOR_128B, WgmmaDescriptor, box_strides, element_addresses, swizzle

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}

multiples = st.integers(0, 0x3FFF).map(lambda value: value << 4)


def test_known_words() -> None:
    # GmmaDescriptor of mma_sm90_desc.hpp: 14 bits at 0, 16 and 32, three at 49, the layout type in 62 and 63.
    assert WgmmaDescriptor(0x400, 16, 1024, "128B").encode() == 1 << 62 | 64 << 32 | 1 << 16 | 0x40
    assert WgmmaDescriptor(0, 0, 0, "64B").encode() == 2 << 62
    assert WgmmaDescriptor(0, 0, 0, "32B", 5).encode() == 3 << 62 | 5 << 49
    assert WgmmaDescriptor(0x3FFF0, 0x3FFF0, 0x3FFF0, "none").encode() == 0x3FFF_3FFF_3FFF
    assert WgmmaDescriptor(0x0100_0400, 0, 0, "none").encode() == 0x40  # the CTA's rank is dropped


@given(multiples, multiples, multiples, st.sampled_from(list(SPANS)), st.integers(0, 7))
def test_what_is_built_is_decoded(address: int, leading: int, stride: int, mode: str, base: int) -> None:
    built = WgmmaDescriptor(address, leading, stride, mode, base if mode != "none" else 0)
    word = built.encode()
    assert 0 <= word < 1 << 64
    assert WgmmaDescriptor.decode(word) == built
    assert built.operand().encode() & ~(7 << 61 | 1 << 46) == word & ~(3 << 62)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": 8}, "0x8 is not a multiple of 16"),
        ({"address": 1 << 18}, "0x40000 is not"),
        ({"leading_bytes": 24}, "leading_bytes = 24 .*multiple of 16 between 0 and 262128"),
        ({"stride_bytes": 1 << 18}, "stride_bytes = 262144"),
        ({"base_offset": 8}, "8 is outside 0..7"),
        ({"base_offset": 1, "swizzle": "none"}, "base_offset = 1 with swizzle 'none'"),
        ({"swizzle": "256B"}, "'256B'"),
    ],
)
def test_encode_refuses(change: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = dict(address=0, leading_bytes=16, stride_bytes=1024, swizzle="128B")
    with pytest.raises(SpecError, match=message):
        WgmmaDescriptor(**(values | change)).encode()


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 47, 48, *range(52, 62)])
def test_decode_refuses_reserved_bits(bit: int) -> None:
    with pytest.raises(SpecError, match="reserved bits"):
        WgmmaDescriptor.decode(1 << bit)


def test_decode_refuses_other_words() -> None:
    with pytest.raises(SpecError, match="64-bit"):
        WgmmaDescriptor.decode(1 << 64)
    with pytest.raises(SpecError, match="tcgen05"):
        WgmmaDescriptor.decode(TCGEN05_K_MAJOR_128B)
    with pytest.raises(UnsupportedError, match="128B_ATOM_32B"):
        WgmmaDescriptor(0, 0, 0, "128B_ATOM_32B").encode()


@pytest.mark.parametrize("base", [0, 0x2400])
@pytest.mark.parametrize(("mode", "major"), [*itertools.product(SPANS, ("K", "MN"))])
def test_boxes_lie_where_tma_puts_them(mode: str, major: Any, base: int) -> None:
    """Boxes of ``rows`` rows of one span each, one after the other, of 16-bit elements."""
    rows, span, boxes = 24, SPANS[mode], 3
    each = span // 2
    one_box = major == "K" and mode != "none"  # further boxes have descriptors of their own
    wide = each * (1 if one_box else boxes)
    leading, stride = box_strides(rows, span, mode, major)
    descriptor = WgmmaDescriptor(base, leading, stride, mode)
    extents = (rows, wide) if major == "K" else (wide, rows)
    found = element_addresses(descriptor.operand(), *extents, 2, major)
    for row, element in itertools.product(range(rows), range(wide)):
        linear = base + element // each * rows * span + row * span + element % each * 2
        at = found[row, element] if major == "K" else found[element, row]
        assert at == swizzle(linear, mode)
    assert len(np.unique(found)) == found.size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((64, 256, "128B", "K"), "rows of 256 bytes with swizzle '128B': .*rows of 128 bytes"),
        ((64, 64, "none", "K"), "rows of 64 bytes with swizzle 'none': .*rows of 16 bytes"),
        ((12, 64, "64B", "MN"), "12 rows: expected a multiple of 8.*512"),
        ((0, 16, "none", "K"), "0 rows"),
        ((8, 128, "128B", "M"), "major is 'M': expected 'K' or 'MN'"),
        ((8, 128, "100B", "K"), "'100B'"),
    ],
)
def test_boxes_that_no_descriptor_expresses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        box_strides(*arguments)
