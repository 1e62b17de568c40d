"""Which tiles of two widths the Hopper GEMM has: clusters come close to equal shares, and what is refused."""

from __future__ import annotations

import pytest

from pyptx import SpecError, kit

from .loading import load_example

widths = load_example("hopper/gemm_widths.py")

CLUSTERS = 66


@pytest.mark.parametrize(("N", "strips"), [(4096, 16), (6144, 24), (8192, 32), (16384, 64), (28672, 4)])
def test_balanced_widths_come_close_to_equal_shares(N: int, strips: int) -> None:
    narrow, below, leading = widths.balanced(N, strips, 256, CLUSTERS)
    tiles = kit.TwoWidths(N, 256, narrow, strips, below, leading)
    uniform = kit.TwoWidths(N, 256, 256, strips, 0, 0)
    assert tiles.busiest(CLUSTERS) < uniform.busiest(CLUSTERS)
    assert tiles.busiest(CLUSTERS) <= 1.02 * N * strips / CLUSTERS
    assert widths.widths_of(N, strips, 256, (narrow, below, leading)) == tiles


def test_one_width_that_fills_all_rounds_is_left_alone() -> None:
    assert widths.balanced(256 * 11, 6, 256, CLUSTERS) is None


@pytest.mark.parametrize(
    "given", [(256, 1, 0), (232, 0, 0), (232, 17, 0), (232, 1, 16), (230, 1, 0), (232, 1, -1)]
)
def test_refusals(given: tuple[int, int, int]) -> None:
    with pytest.raises(SpecError, match="expected the columns of a narrow tile"):
        widths.widths_of(4096, 16, 256, given)
