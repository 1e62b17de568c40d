"""What a launch can be: the one check for the simulator and the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.ir import Launch


def test_extents_by_any_integers() -> None:
    assert Launch.extent(3) == Launch.extent((3,)) == Launch.extent(np.int64(3)) == (3, 1, 1)
    assert Launch.extent([3, 2]) == Launch.extent(np.array([3, 2])) == (3, 2, 1)
    assert Launch.of((2, 3, 4), 128, 2, np.int32(16)) == Launch((2, 3, 4), (128, 1, 1), (2, 1, 1), 16)


@pytest.mark.parametrize("value", [2.5, (2.5,), None, "3", (1, None), (), (1, 1, 1, 1), 0, (1, 0), object()])
def test_what_is_no_extent(value: Any) -> None:
    with pytest.raises(ValueError, match="one to three positive integers"):
        Launch.extent(value)
    with pytest.raises(SpecError, match="block: expected one to three"):
        Launch.of(1, value)


@pytest.mark.parametrize(("fits", "refused", "message"), [
    ((2**31 - 1, 1), (2**31, 1), "grid .* is outside 1"),
    (((1, 65_535), 1), ((1, 65_536), 1), "grid .* is outside 1"),
    (((1, 1, 65_535), 1), ((1, 1, 65_536), 1), "grid .* is outside 1"),
    ((1, 1024), (1, 1025), "block .* is outside 1"),
    ((1, (1, 1024)), (1, (1, 1025)), "block .* is outside 1"),
    ((1, (1, 1, 64)), (1, (1, 1, 65)), "block .* is outside 1"),
    ((1, (16, 1, 64)), (1, (17, 1, 64)), "1088 threads; a CTA has at most 1024"),
    (((16, 1), 1, (16, 1)), ((17, 1), 1, (17, 1)), "17 CTAs; at most 16"),
    (((4, 4), 1, (2, 4)), ((4, 4), 1, (2, 3)), "whole clusters"),
    ((1, 1, 1, 0), (1, 1, 1, -1), "dynamic_smem is -1: expected a number of bytes"),
    ((1, 1, 1, 1), (1, 1, 1, 1.5), "dynamic_smem is 1.5"),
])  # fmt: skip
def test_limits_of_the_hardware(fits: tuple[Any, ...], refused: tuple[Any, ...], message: str) -> None:
    Launch.of(*fits)
    with pytest.raises(SpecError, match=message):
        Launch.of(*refused)
