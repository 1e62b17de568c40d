"""The chooser of the Hopper GEMM with scales of blocks: its choices exist, and fill the machine."""

from __future__ import annotations

import pytest

from pyptx import SpecError
from pyptx.toolchain import Tool

from .loading import load_example

blockwise = load_example("hopper/gemm_blockwise.py")
choice = load_example("hopper/blockwise_choice.py")


@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "shape", [(64, 7168, 2048), (128, 4096, 7168), (4096, 7168, 2048), (8192, 8192, 8192)]
)
def test_the_first_choices_assemble(shape: tuple[int, int, int], ptxas: Tool) -> None:
    for found in choice.candidates(*shape)[:2]:
        chosen = {name: value for name, value in found._asdict().items() if name != "seconds"}
        kernel = blockwise.build_gemm_blockwise(*shape, **chosen)
        assembly = kernel.assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_no_prediction_is_faster_than_the_machine() -> None:
    for M, N, K in ((64, 7168, 2048), (4096, 7168, 2048), (4096, 4096, 7168)):
        best = choice.choose(M, N, K).seconds
        assert best > 2 * M * N * K / (choice.SMS * choice.machine.FLOPS_PER_CLOCK * choice.machine.CLOCK)
        assert best > (M * K + N * K + 2 * M * N) / choice.machine.MEMORY_BYTES


def test_directions() -> None:
    large = (4096, 7168, 16384)
    # L2 bounds 128 x 128; 256 x 128 asks it for less, and sharing A for less than sharing B.
    seconds = [
        choice.predict(*large, tile=tile, cluster=cluster).seconds
        for tile, cluster in (
            ((128, 128), (1, 1)),
            ((128, 128), (2, 1)),
            ((256, 128), (2, 1)),
            ((256, 128), (1, 2)),
        )
    ]
    assert seconds == sorted(seconds, reverse=True)
    # Three warpgroups hide promotions, where rows that fill no tile and the last round leave it worth it.
    assert choice.choose(8192, 8192, 8192).tile == (192, 128)
    assert choice.choose(4096, 4096, 7168).tile == (256, 128)
    # Few rows: tiles of few columns, for more CTAs.
    for shape in ((128, 4096, 7168), (128, 7168, 2048), (64, 4096, 7168), (64, 2112, 7168)):
        best = choice.choose(*shape)
        rows, columns = (-(-size // side) for size, side in zip(shape, best.tile, strict=False))
        assert 2 * rows * columns * best.split > choice.SMS, best
    best = choice.choose(128, 4096, 7168)
    assert 128 // best.tile[0] * (4096 // best.tile[1]) * best.split >= 128
    # A cluster couples its CTAs where memory is the bound; where there are too few tiles, parts of K fill the SMs.
    few = [
        choice.predict(128, 4096, 7168, tile=(64, 64), cluster=c).seconds for c in ((1, 1), (1, 2), (1, 4))
    ]
    assert few == sorted(few)
    short = (64, 1024, 16384)
    assert choice.choose(*short).split > 1
    assert choice.choose(*short, may_split=False).split == 1
    assert all(128 % found.tile[1] == 0 for found in choice.candidates(*large, one_block=True))


def test_refusals() -> None:
    with pytest.raises(SpecError, match="M = 0"):
        choice.choose(0, 128, 128)
