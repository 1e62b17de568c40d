"""Zero-column masks: the manual's examples bit by bit, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError
from pyptx.layout import ZeroColumnMask

#: #tcgen05-zero-column-mask-descriptor, skip span 2 and use span 3.
RUNS = ZeroColumnMask(used=4, skipped=3)


def bits(text: str) -> list[bool]:
    """The manual's notation: the first column stands last."""
    return [digit == "1" for digit in reversed(text.replace(" ", ""))]


def test_no_mask() -> None:
    assert not ZeroColumnMask(5, 4, enabled=False).zeros(128, 256).any()


def test_one_part() -> None:
    zeros = RUNS.zeros(128, 64)
    assert zeros[:14].tolist() == bits("111 0000 111 0000")
    assert np.array_equal(zeros[14:], zeros[:-14])


def test_two_parts() -> None:
    zeros = replace(RUNS, skip_first=(True, False, False, False)).zeros(64, 64)
    assert zeros[:17].tolist() == bits("111 0000 111 0000 111")
    assert zeros[32:49].tolist() == bits("000 111 0000 111 0000")


def test_four_parts() -> None:
    mask = replace(RUNS, start=(0, 1, 2, 1), skip_first=(True, True, False, False), shift=2)
    zeros = mask.zeros(32, 128)
    for part, text in enumerate(
        ("0000 111 0000 111", "0000 111 0000 11", "111 0000 111 00", "111 0000 111 000")
    ):
        expected = bits(text)
        assert zeros[32 * part :][: len(expected)].tolist() == expected, part


def test_the_word_by_hand() -> None:
    mask = ZeroColumnMask(4, 3, (1, 2, 3, 255), (True, False, True, False), 32)
    assert mask.encode() == (
        32 << 56 | 3 << 48 | 2 << 40 | 1 << 39 | 0b0101 << 32 | 255 << 24 | 3 << 16 | 2 << 8 | 1
    )
    assert ZeroColumnMask(enabled=False).encode() == 0


@given(
    st.integers(1, 256),
    st.integers(1, 256),
    st.tuples(*[st.integers(0, 255)] * 4),
    st.tuples(*[st.booleans()] * 4),
    st.integers(0, 32),
    st.booleans(),
)
def test_round_trip(
    used: int,
    skipped: int,
    start: tuple[int, int, int, int],
    skip_first: tuple[bool, bool, bool, bool],
    shift: int,
    enabled: bool,
) -> None:
    mask = ZeroColumnMask(used, skipped, start, skip_first, shift, enabled)
    word = mask.encode()
    assert 0 <= word < 1 << 64
    assert ZeroColumnMask.decode(word) == mask


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"used": 0}, r"used = 0 is outside 1\.\.256"),
        ({"skipped": 257}, "skipped = 257"),
        ({"start": (0, 0, 256, 0)}, r"start\[2\] = 256 is outside 0\.\.255"),
        ({"start": (0, 0)}, "start has 2 values"),
        ({"skip_first": (True,) * 5}, "skip_first has 5 values"),
        ({"shift": 33}, r"shift = 33 is outside 0\.\.32"),
    ],
)
def test_encode_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        replace(RUNS, **change).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (1 << 36, "bits 36-38 and 62-63"),
        (1 << 63, "0x8000000000000000"),
        (33 << 56, "shift = 33"),
        (1 << 64, "64-bit"),
    ],
)
def test_decode_refuses(word: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        ZeroColumnMask.decode(word)


def test_shapes() -> None:
    with pytest.raises(SpecError, match="M x N = 256 x 64"):
        RUNS.zeros(256, 64)
    with pytest.raises(SpecError, match="M x N = 64 x 32"):
        RUNS.zeros(64, 32)
    with pytest.raises(SpecError, match=r"shift = 17 with M = 32 is outside 0\.\.16"):
        replace(RUNS, shift=17).zeros(32, 64)
    assert replace(RUNS, shift=17).zeros(64, 64).any()
