"""The chooser of the Hopper GEMM: its choices exist, and its arithmetic goes in the right directions."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx import SpecError, bf16, e4m3, f32
from pyptx.toolchain import Tool

from .loading import load_example

gemm = load_example("hopper/gemm.py")
choice = load_example("hopper/gemm_choice.py")

SHAPES = [(1, 4096, 4096), (64, 6144, 4096), (1000, 10240, 8192), (4096, 4096, 4096), (512, 512, 16384)]


@pytest.mark.one_in(6)
@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("problem", [{}, {"sustained": True}, {"a_type": e4m3, "out_type": bf16}])
def test_the_first_choices_assemble(
    shape: tuple[int, int, int], problem: dict[str, Any], ptxas: Tool
) -> None:
    types = {name: kind for name, kind in problem.items() if name != "sustained"}
    for found in choice.candidates(*shape, **problem)[:3]:
        assembly = gemm.build_gemm(*shape, **types, **found.options).assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_candidate_is_one_that_the_kernel_has(shape: tuple[int, int, int]) -> None:
    found = choice.candidates(*shape, out_type=f32)
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    for candidate in found[:: max(1, len(found) // 8)]:
        gemm.build_gemm(*shape, out_type=f32, **candidate.options)


def test_no_prediction_is_faster_than_the_machine() -> None:
    for M, N, K in SHAPES:
        best = choice.candidates(M, N, K)[0].seconds
        assert best > 2 * M * N * K / (choice.SMS * 4096 * choice.CLOCK)
        assert best > 2 * (M * K + N * K + M * N) / choice.MEMORY_BYTES


def test_directions() -> None:
    def seconds(shape: tuple[int, int, int], **options: Any) -> float:
        return choice.predict(*shape, **options).seconds

    large = (8192, 8192, 8192)
    # Multicast saves power; a small tile asks L2 for too much; a tile of M = 64 with few columns is bound by reads.
    power = [
        choice.predict(*large, tile=(128, 256), cluster=c).bounds["power"] for c in ((1, 1), (2, 1), (2, 2))
    ]
    assert power == sorted(power, reverse=True)
    assert seconds(large, tile=(64, 64)) > seconds(large, tile=(128, 256))
    # Few tiles and a long K: parts of K in parallel are faster.
    few = (128, 128, 32768)
    assert seconds(few, tile=(128, 128), split=8) < seconds(few, tile=(128, 128)) / 3
    # A short K: the exchange costs more than it saves.
    assert seconds((128, 128, 128), tile=(128, 128), split=2) > seconds((128, 128, 128), tile=(128, 128))
    # One row of tiles: a cluster couples its CTAs, and few CTAs do not keep memory busy.
    row = (64, 6144, 4096)
    coupled = [seconds(row, tile=(64, 64), cluster=c) for c in ((1, 1), (1, 2), (1, 4))]
    assert coupled == sorted(coupled)
    assert seconds((64, 4096, 14336), tile=(64, 64)) > seconds((64, 4096, 14336), tile=(64, 64), split=2)
    assert choice.choose(*row)["tile"][1] <= 96 and choice.choose(*row).get("cluster", (1, 1)) == (1, 1)
    assert seconds(large, tile=(128, 256), sustained=True) >= seconds(large, tile=(128, 256))


#: Choices that were fastest on an H200, or within half a percent of that: size, whether the load lasts, then
#: tile, consumers and narrow width.
FASTEST = [
    (4096, False, (128, 256), "cooperative", 240),
    (6144, False, (128, 192), "pingpong", 176),
    (8192, False, (128, 192), "pingpong", 176),
    (16384, False, (128, 192), "pingpong", 176),
    (4096, True, (128, 256), "cooperative", 240),
    (6144, True, (256, 192), "cooperative", 176),
    (8192, True, (128, 256), "cooperative", 240),
    (16384, True, (256, 192), "cooperative", 176),
]


@pytest.mark.parametrize(("size", "sustained", "tile", "consumers", "narrow"), FASTEST)
def test_squares_get_two_widths(
    size: int, sustained: bool, tile: tuple[int, int], consumers: str, narrow: int
) -> None:
    chosen = choice.choose(size, size, size, sustained=sustained)
    assert (chosen["tile"], chosen["consumers"], chosen["widths"][0]) == (tile, consumers, narrow)
    uniform = {name: value for name, value in chosen.items() if name != "widths"}
    ours, before = (
        choice.predict(size, size, size, sustained=sustained, **options) for options in (chosen, uniform)
    )
    assert ours.seconds < before.seconds


def test_widths_are_for_matrices_of_several_rows_of_tiles() -> None:
    for shape in ((64, 6144, 4096), (64, 28672, 4096)):
        assert all("widths" not in each.options for each in choice.candidates(*shape))
    for problem in ({"batch": 4}, {"out_type": f32}, {"majors": ("K", "MN")}):
        found = choice.candidates(4096, 4096, 4096, **problem)
        assert all("widths" not in each.options for each in found)


def test_refusals() -> None:
    with pytest.raises(SpecError, match="M = 0"):
        choice.choose(0, 64, 64)
    with pytest.raises(SpecError, match="registers"):
        choice.predict(64, 64, 64, tile=(256, 256))
