"""The GEMM of many tiles: right in every configuration and for sizes that fill no tile, in the order and with the stages of
CuTe DSL's kernel, assembled as it was meant, and what is said of it when the hand-overs between two pairs are wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, TensorMap, bf16, e4m3, f32, sim
from pyptx.ir import Immediate, Instruction, Module
from pyptx.toolchain import Tool

from .loading import load_example

tiles = load_example("blackwell/gemm_tiles.py")
EVERY = "every schedule"


def _options(configuration: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("mma_m", "mma_n", "cluster_n"), configuration, strict=True))


def _right(shape: tuple[int, int, int], **options: Any) -> None:
    report, error = tiles.run(*shape, sanitize="strict", **options)
    assert report.verdict == "clean" and report.holds == EVERY, str(report)
    assert error <= 1


@pytest.mark.one_in(10)
@pytest.mark.parametrize("configuration", tiles.CONFIGURATIONS)
def test_every_configuration(configuration: tuple[int, int, int]) -> None:
    """Four tiles of one cluster, which use both accumulators twice; with two pairs the last tiles lie outside of D."""
    m, n, pairs = configuration
    _right((m + 4, n * pairs + 8, 72), clusters=1, **_options(configuration))


@pytest.mark.full
@pytest.mark.one_in(5)
@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("random", 1), ("starve:mma", 0)])
@pytest.mark.parametrize("configuration", tiles.CORNERS)
def test_right_under_every_schedule(configuration: tuple[int, int, int], schedule: str, seed: int) -> None:
    _right((100, 72, 136), schedule=schedule, seed=seed, **_options(configuration))


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((130, 72, 257), {"pitch": 264}),  # NaN between the rows of A and B is not read
        ((36, 192, 40), {"mma_m": 128, "mma_n": 128, "cluster_n": 2, "dtype": bf16, "out_dtype": bf16}),
        ((36, 36, 8), {"mma_m": 128, "mma_n": 192, "out_dtype": f32}),
    ],
)
def test_sizes_and_types(shape: tuple[int, int, int], options: dict[str, Any]) -> None:
    _right(shape, **options)


@pytest.mark.full
def test_rounds_of_the_ring() -> None:
    """17 stages are gone through more than once; one stage is filled again for each slice of K."""
    _right((36, 64, 64 * 18), mma_m=128, mma_n=64, cluster_n=2)
    _right((36, 64, 64 * 3), mma_m=128, mma_n=64, cluster_n=2, stages=1)


def test_tiles_are_numbered_down_the_columns() -> None:
    """Two of the four clusters run: they compute the first two tiles, which are below each other."""
    M, N, K = 256, 128, 64
    made = tiles.build_gemm_tiles(M, N, K, mma_m=128, mma_n=64)
    a, b = tiles.make_inputs(M, N, K)
    d = np.full((M, N), np.nan, np.float16)
    boxes = [(a, (64, 64), "128B"), (b, (32, 64), "128B"), (d, (64, 32), "64B")]
    config = made.specialize().launch
    report = sim.load(made.module()).launch(
        grid=(2, 1, 2),
        block=config.block,
        cluster=config.cluster,
        dynamic_smem=config.dynamic_smem,
        args=[TensorMap.tiled(array, box=box, swizzle=swizzle) for array, box, swizzle in boxes],
    )
    assert report.verdict == "clean", str(report)
    assert config.grid == (2, 1, 4)
    assert tiles.gemm.worst_error(a, b[:64], d[:, :64]) <= 1 and np.isnan(d[:, 64:]).all()


def test_stages_as_cute_dsl_has_them() -> None:
    """Read off the barriers and waits of what CuTe DSL 4.8.1 compiled for these tiles."""
    compiled = {
        (128, 64): (17, 2),
        (128, 128): (13, 2),
        (256, 64): (10, 3),
        (256, 128): (8, 4),
        (256, 256): (6, 4),
    }
    assert {tile: tiles.stages_of(*tile) for tile in compiled} == compiled


@pytest.mark.one_in(5)
@pytest.mark.parametrize("configuration", tiles.CONFIGURATIONS)
def test_assembles_without_spills_or_warnings(configuration: tuple[int, int, int], ptxas: Tool) -> None:
    assembly = tiles.build_gemm_tiles(4096, 4096, 4096, **_options(configuration)).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
def test_one_instruction_per_mma_and_copy(ptxas: Tool, nvdisasm: Tool) -> None:
    sass = tiles.build_gemm_tiles(4096, 4096, 4096, mma_m=128, mma_n=128, cluster_n=2).sass()
    assert sass.count("UTCHMMA") == sass.count("UTCHMMA.2CTA") == 4
    assert sass.count("UTMALDG.2D.MULTICAST.2CTA") == sass.count("UTMALDG.2D.2CTA") == 1
    assert sass.count("LDTM.x32") == 2 and sass.count("UTMASTG.2D") == 4
    assert "BRA.U.ANY" not in sass


def test_text_does_not_grow_with_the_problem() -> None:
    # Numbers of tiles that are no powers of two, by which the kernel divides.
    sizes = [(768, 768, 128), (128000, 7168, 128000)]
    least, most = sorted(tiles.build_gemm_tiles(*size).ptx().count("\n") for size in sizes)
    assert most < 750 and most - least < 4


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((0, 256, 64), {}, ("M = 0",)),
        ((256, 250, 64), {}, ("N = 250", "500 bytes", "pad N to 256")),
        ((256, 256, 257), {}, ("K = 257", "pitch=264", "A[M, pitch]")),
        ((256, 256, 257), {"pitch": 256}, ("pitch = 256",)),
        ((256, 256, 256), {"pitch": 260}, ("pitch = 260", "16 bytes")),
        ((256, 256, 64), {"mma_m": 64}, ("mma_m = 64", "128 or 256")),
        ((256, 256, 64), {"mma_n": 96}, ("mma_n = 96",)),
        ((256, 256, 64), {"cluster_m": 4}, ("cluster_m = 4", "expected 2")),
        ((256, 256, 64), {"cluster_n": 4}, ("cluster_n = 4", "1 or 2")),
        ((256, 256, 64), {"stages": 7}, ("stages = 7", "1 to 6")),
        ((256, 256, 64), {"clusters": 0}, ("clusters = 0",)),
        ((256, 256, 64), {"dtype": e4m3}, ("dtype = e4m3", "f16 or bf16")),
        ((256, 256, 64), {"out_dtype": e4m3}, ("out_dtype = e4m3",)),
    ],
)
def test_refusals(arguments: tuple[int, ...], options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        tiles.build_gemm_tiles(*arguments, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


# --- planted bugs --------------------------------------------------------------------------------

SHAPE = (100, 64, 256)  # two pairs, of which one multiplies zeros; four slices of K through two stages


def _outcomes(
    which: Callable[[Instruction], bool], change: Callable[[Instruction], Instruction | None]
) -> set[str]:
    """The rules that are named if each chosen instruction is replaced by what ``change`` makes of it."""
    made = tiles.build_gemm_tiles(*SHAPE, mma_m=128, mma_n=64, cluster_n=2, stages=2)
    module: Module = made.module()
    function = module.functions[0]
    body = [change(s) if isinstance(s, Instruction) and which(s) else s for s in function.body]
    assert any(new is not old for new, old in zip(body, function.body, strict=True))
    broken = sim.load(
        replace(module, functions=(replace(function, body=tuple(s for s in body if s is not None)),))
    )
    a, b = tiles.make_inputs(*SHAPE)
    d = np.full(SHAPE[:2], np.nan, np.float16)
    boxes = [(a, (32, 64), "128B"), (b, (32, 64), "128B"), (d, (64, 32), "64B")]
    config = made.specialize().launch
    found = set()
    for schedule in ("late", "random"):
        report = broken.launch(
            grid=config.grid,
            block=config.block,
            cluster=config.cluster,
            dynamic_smem=config.dynamic_smem,
            args=[TensorMap.tiled(array, box=box, swizzle=swizzle) for array, box, swizzle in boxes],
            schedule=schedule,
            seed=1,
        )
        found |= {finding.rule.name for finding in report.findings}
    return found


@pytest.mark.full
def test_a_stage_that_one_pair_gives_back() -> None:
    """The multicast of a pair overwrites rows of A that the other pair's products still read."""

    def once(s: Instruction) -> Instruction:
        return replace(s, operands=(s.operands[0], Immediate(1)))

    two = lambda s: s.modifiers[:1] == ("init",) and s.operands[-1] == Immediate(2)  # noqa: E731
    assert "data-race" in _outcomes(two, once)


@pytest.mark.full
def test_a_commit_that_does_not_reach_the_other_pair() -> None:
    """Each CTA's ``empty`` expects the commits of both pairs."""

    def own(s: Instruction) -> Instruction:
        return replace(s, operands=(s.operands[0], Immediate(3)))

    every = lambda s: s.opcode == "mov" and s.operands[-1] == Immediate(15)  # noqa: E731
    assert "deadlock" in _outcomes(every, own)


@pytest.mark.full
def test_a_chunk_that_is_stored_before_all_warps_have_filled_it() -> None:
    barriers = lambda s: s.opcode == "bar" and len(s.operands) == 2  # noqa: E731
    assert "data-race" in _outcomes(barriers, lambda s: None)
