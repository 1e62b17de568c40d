"""The persistent GEMM of pairs of CTAs: right under every schedule and for sizes that fill no tile, two tiles in tensor
memory at a time, assembled as it was meant, and what is said of it when one half of a hand-over is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, PyptxError, ScalarType, TensorMap, bf16, e4m3, e5m2, f16, f32, kit, ptx, sim, u8
from pyptx.ir import Immediate, Instruction, Module
from pyptx.toolchain import Tool

from .loading import load_example

pytestmark = pytest.mark.one_in(16)

gemm = load_example("blackwell/gemm_highperf_blackwell.py")
EVERY = "every schedule"
SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(3))]
SCHEDULES += [(f"starve:{engine}", 0) for engine in ("tma", "mma", "ld", "st")]


def _maps(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> list[TensorMap]:
    boxes = [(a, (128, 64)), (b, (128, 64)), (d, (32, 128 // d.itemsize))]
    return [TensorMap.tiled(array, box=box, swizzle="128B") for array, box in boxes]


def _run(shape: tuple[int, int, int], schedule: str, seed: int, **options: Any) -> sim.Report:
    """A clean run of random numbers whose product is within its bound."""
    kernel = gemm.build_gemm_persistent(*shape, **options)
    return _check(kernel, shape, schedule, seed, options)


def _check(
    kernel: Kernel, shape: tuple[int, int, int], schedule: str, seed: int, options: dict[str, Any]
) -> sim.Report:
    majors = {name: value for name, value in options.items() if name in ("a_major", "b_major")}
    batch = options.get("batch")
    a, b = gemm.make_inputs(*shape, seed, dtype=options.get("dtype", bf16), batch=batch, **majors)
    front = () if batch is None else (batch,)
    d = np.full((*front, *shape[:2]), np.nan, gemm.NUMPY[options.get("out_dtype", f32)])
    report = kernel.simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize="strict")
    assert report.verdict == "clean", str(report)
    assert gemm.worst_error(a, b, d, **majors) <= 1
    return report


@pytest.mark.one_in(20)
@pytest.mark.full
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("shape", "clusters"),
    [
        ((256, 256, 64), 1),  # one tile, one stage
        ((256, 256, 448), 74),  # the ring wraps around
        ((768, 256, 64), 1),  # one cluster, three tiles: the first accumulator is used again
        ((256, 1280, 128), 2),  # three tiles and two
    ],
)
def test_right_under_every_schedule(
    shape: tuple[int, int, int], clusters: int, schedule: str, seed: int
) -> None:
    assert _run(shape, schedule, seed, clusters=clusters).holds == EVERY


@pytest.mark.full
@pytest.mark.parametrize(("schedule", "seed"), [("late", 0), ("random", 1), ("starve:mma", 0)])
@pytest.mark.parametrize(
    "options", [{"stages": 2}, {"stages": 2, "ctas": 1}, {"stages": 2, "parts": 2}, {"stages": 4}], ids=str
)
@pytest.mark.parametrize("tiles", ["static", "clc"])
def test_turns_of_several_stages(tiles: str, options: dict[str, Any], schedule: str, seed: int) -> None:
    """Tiles of six stages: three whole rounds of a ring of two, turns of two stages of a ring of four."""
    shape = (256, 512, 384)
    kernel = gemm.build_gemm_persistent(*shape, clusters=1, schedule=tiles, **options)
    report = _check(kernel, shape, schedule, seed, options)
    assert tiles == "clc" or report.holds == EVERY


@pytest.mark.parametrize(
    "shape", [(1, 4, 8), (257, 260, 72), (300, 516, 200), (128, 8, 1000), (511, 252, 64)]
)
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_sizes_that_fill_no_tile(shape: tuple[int, int, int], schedule: str) -> None:
    assert _run(shape, schedule, 2, clusters=2).holds == EVERY


@pytest.mark.full
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("shape", [(260, 132, 7), (36, 516, 41), (4, 4, 1)])
def test_tf32_of_both_majors_with_any_k(shape: tuple[int, int, int], ctas: int) -> None:
    """K counts rows of A and B, and need not be a multiple of anything."""
    majors = {"a_major": "MN", "b_major": "MN", "dtype": f32}
    assert _run(shape, "late", 1, ctas=ctas, clusters=2, **majors).holds == EVERY


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"out_dtype": bf16},
        {"dtype": e4m3, "out_dtype": e4m3, "ctas": 1},
        {"order": kit.tile_order.hilbert, "epilogue": "direct"},
        {"epilogue": "direct", "out_dtype": f16, "ctas": 1},
        {"schedule": "clc", "narrow": True},
        {"batch": 2, "stages": 2},
    ],
    ids=lambda options: _named(options),
)
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_tiles_of_two_widths(options: dict[str, Any], schedule: str) -> None:
    """Four tiles of 256 columns for three clusters become one of 256 and four of 192; the last ones are clipped."""
    M, N = 256 if options.get("ctas", 2) == 2 else 128, 1008
    if "batch" in options:  # six tiles for four clusters
        M, N, options = 256, 752, {**options, "clusters": 4}
    options = {"clusters": 3, **options}
    kernel = gemm.build_gemm_persistent(M, N, 128, **options)
    assert kernel.ptx() != gemm.build_gemm_persistent(M, N, 128, **{**options, "narrow": False}).ptx()
    report = _check(kernel, (M, N, 128), schedule, 1, options)
    assert "schedule" in options or report.holds == EVERY


def test_one_width_where_two_do_not_help() -> None:
    def text(*shape: int, **options: Any) -> str:
        return gemm.build_gemm_persistent(*shape, **options).ptx()

    for shape, options in (
        ((256, 1024, 64), {"clusters": 4}),  # a round
        ((256, 2048, 64), {"clusters": 4}),  # two whole ones
        ((256, 1024, 64), {"clusters": 3, "parts": 2}),
        ((256, 1024, 64), {"clusters": 3, "b_major": "MN"}),
        ((256, 1024, 64), {"clusters": 3, "schedule": "clc"}),
    ):
        assert text(*shape, **options) == text(*shape, narrow=False, **options)
        if options.get("schedule") != "clc":
            with pytest.raises(PyptxError, match="narrow = True"):
                text(*shape, narrow=True, **options)


OPTIONS: list[dict[str, Any]] = [
    {"stages": 1},
    {"stages": 3, "order": kit.tile_order.hilbert},
    {"ctas": 1},
    {"parts": 2},
    {"parts": 4, "ctas": 1},
    {"dtype": f16, "out_dtype": f16},
    {"dtype": f32},
    {"dtype": f32, "a_major": "MN", "b_major": "MN"},
    {"dtype": f32, "b_major": "MN", "ctas": 1, "batch": 2},
    {"dtype": f32, "a_major": "MN", "parts": 4},
    {"dtype": e4m3, "out_dtype": bf16},
    {"dtype": e5m2, "out_dtype": e5m2},
    {"out_dtype": e4m3},
    {"a_major": "MN"},
    {"b_major": "MN"},
    {"a_major": "MN", "b_major": "MN", "dtype": e4m3},
    {"a_major": "MN", "ctas": 1, "parts": 2, "batch": 2, "out_dtype": bf16},
    {"batch": 3},
    {"epilogue": "direct"},
    {"epilogue": "direct", "out_dtype": e5m2, "batch": 2, "ctas": 1},
    {"dependent": True},
    {"answers": 4, "ahead": 3},
]


def _named(options: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in options.items() if name != "order")


@pytest.mark.one_in(32)
@pytest.mark.full
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("options", OPTIONS, ids=_named)
def test_options(options: dict[str, Any], schedule: str) -> None:
    assert _run((304, 528, 160), schedule, 4, clusters=2, **options).holds == EVERY


@pytest.mark.one_in(32)
@pytest.mark.full
@pytest.mark.parametrize("options", OPTIONS, ids=_named)
def test_every_option_assembles(options: dict[str, Any], ptxas: Tool) -> None:
    for arch in ("sm_100a", "sm_103a"):
        for tiles in ("static", "clc"):
            kernel = gemm.build_gemm_persistent(4096, 4096, 4096, arch=arch, schedule=tiles, **options)
            assembly = kernel.assemble()
            assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((77, 131, 40), {}),
        ((77, 131, 40), {"out_dtype": bf16}),
        ((130, 262, 8), {"out_dtype": f16, "batch": 2, "ctas": 1}),
        ((1, 12, 24), {"out_dtype": e4m3}),
        ((257, 1, 64), {}),
    ],
)
def test_rows_of_d_that_tma_does_not_store(shape: tuple[int, int, int], options: dict[str, Any]) -> None:
    assert _run(shape, "late", 0, clusters=2, epilogue="direct", **options).holds == EVERY


@pytest.mark.full
@pytest.mark.parametrize("tiles", ["static", "clc"])
def test_one_kernel_for_every_m(tiles: str) -> None:
    kernel = gemm.build_gemm_persistent(None, 264, 136, schedule=tiles)
    for M in (1, 300, 513):
        _check(kernel, (M, 264, 136), "late", M, {})
    assert kernel.ptx(M=100) == kernel.ptx(M=100_000)
    assert kernel.specialize(M=100).launch.grid == (4, 1, 1)
    assert kernel.specialize(M=100_000).launch.grid == ((2 * 391 * 2 if tiles == "clc" else 148), 1, 1)


@pytest.mark.full
def test_instructions_of_the_author_on_the_accumulator() -> None:
    """Twice the product, and the number of the row and the column added."""

    def apply(values: Any, row: Any, column: Any) -> None:
        add = ptx.cvt(row, f32, rounding="rn")
        for i, value in enumerate(values):
            ptx.inst.fma.rn.f32(value, value, 2.0, add)
            ptx.inst.add.rn.f32(value, value, ptx.cvt(column + i, f32, rounding="rn"))

    M, N, K = 200, 256, 64
    a, b = gemm.make_inputs(M, N, K)
    d = np.full((M, N), np.nan, np.float32)
    kernel = gemm.build_gemm_persistent(M, N, K, apply=apply)
    report = kernel.simulate(a, b, out=d, schedule="late", sanitize="strict")
    assert report.verdict == "clean" and report.holds == EVERY, str(report)
    wide = a.astype(np.float64), b.astype(np.float64)
    expected = 2 * (wide[0] @ wide[1].T) + np.arange(M)[:, None] + np.arange(N)[None, :]
    assert np.allclose(d, expected, rtol=1e-6, atol=1e-3)


@pytest.mark.full
def test_two_launches_that_overlap() -> None:
    """The second launch reads what the first one writes: its loads wait for the end of the first."""
    M = 256
    first = gemm.build_gemm_persistent(M, 256, 64, dependent=True, out_dtype=bf16)
    second = gemm.build_gemm_persistent(M, 256, 256, dependent=True)
    (a, b), (_, c) = gemm.make_inputs(M, 256, 64), gemm.make_inputs(M, 256, 256, 1)
    middle = np.zeros((M, 256), gemm.ml_dtypes.bfloat16)
    d = np.full((M, 256), np.nan, np.float32)
    stream = sim.Stream()
    for kernel, arrays in ((first, (a, b, middle)), (second, (middle, c, d))):
        config = kernel.specialize().launch
        stream.launch(
            sim.load(kernel.module()),
            grid=config.grid,
            block=config.block,
            cluster=config.cluster,
            dynamic_smem=config.dynamic_smem,
            args=_maps(*arrays),
            dependent=kernel is second,
        )
    for report in stream.run(schedule="eager"):
        assert report.verdict == "clean", str(report)
    assert gemm.worst_error(a, b, middle) <= 1 and gemm.worst_error(middle, c, d) <= 1


@pytest.mark.one_in(24)
@pytest.mark.full
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(("answers", "ahead"), [(3, 1), (3, 3), (2, 2)])
def test_clusters_that_cancel_others(answers: int, ahead: int, schedule: str, seed: int) -> None:
    """Eight clusters, of which two or three run at once and take the tiles of the others."""
    shape = (1000, 512, 72)
    a, b = gemm.make_inputs(*shape)
    d = np.full(shape[:2], np.nan, np.float32)
    kernel = gemm.build_gemm_persistent(*shape, schedule="clc", answers=answers, ahead=ahead)
    config = kernel.specialize().launch
    report = sim.load(kernel.module()).launch(
        grid=config.grid,
        block=config.block,
        cluster=config.cluster,
        dynamic_smem=config.dynamic_smem,
        args=_maps(a, b, d),
        schedule=schedule,
        seed=seed,
        memory=1 << 21,
        sanitize="strict",
    )
    assert report.verdict == "clean", str(report)
    assert gemm.worst_error(a, b, d) <= 1
    assert any("which clusters it cancels" in line for line in str(report).splitlines())


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("tiles", ["static", "clc"])
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_assembles_without_spills_or_warnings(dtype: ScalarType, tiles: str, arch: str, ptxas: Tool) -> None:
    kernel = gemm.build_gemm_persistent(8192, 8192, 8192, out_dtype=dtype, schedule=tiles, arch=arch)
    assembly = kernel.assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
def test_one_instruction_per_mma_and_copy(ptxas: Tool, nvdisasm: Tool) -> None:
    sass = gemm.build_gemm_persistent(4096, 4096, 4096).sass()
    # Two stages in a turn: as many as divide the six of the ring and the 64 of K.
    assert sass.count("UTCHMMA") == sass.count("UTCHMMA.2CTA") == 8
    assert sass.count("UTMALDG") == sass.count("UTMALDG.2D.2CTA") == 4
    assert sass.count("UTMASTG.2D") == 8  # 256 columns of f32, 128 bytes at a time
    assert sass.count("UTMACCTL.PF") == 3
    assert "BRA.U.ANY" not in sass


def test_text_does_not_grow_with_the_problem() -> None:
    sizes = [(256, 256, 128), (8192, 8192, 8192), (65536, 1024, 65536)]
    (lines,) = {gemm.build_gemm_persistent(*size, narrow=False).ptx().count("\n") for size in sizes}
    assert lines < 700
    assert gemm.build_gemm_persistent(*sizes[1]).ptx().count("\n") < 850  # tiles of two widths
    # K is a multiple of the four stages: a round of the ring stands in the text, however large K is.
    (rounds,) = {
        gemm.build_gemm_persistent(256, 256, k, ctas=1).ptx().count("\n") for k in (256, 4096, 65536)
    }
    assert lines < rounds < 900


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((0, 256, 64), {}, ("M = 0",)),
        ((256, 250, 64), {}, ("N = 250", "1000 bytes", 'epilogue="direct"')),
        ((256, 252, 64), {"out_dtype": bf16}, ("N = 252", "504 bytes")),
        ((256, 256, 100), {}, ("K is 100", "pad it to 104", "16 bytes")),
        ((260, 256, 64), {"a_major": "MN"}, ("rows is 260", "pad it to 264")),
        ((256, 256, 64), {"stages": 7}, ("stages = 7", "1 to 6", "32768 bytes")),
        ((256, 256, 64), {"stages": 5, "ctas": 1}, ("stages = 5", "1 to 4", "49152 bytes")),
        ((256, 256, 64), {"ctas": 4}, ("ctas = 4", "1 or 2")),
        ((256, 256, 64), {"parts": 3}, ("parts = 3",)),
        ((256, 256, 64), {"parts": 2, "b_major": "MN"}, ("parts is 2", "K-major")),
        ((258, 256, 64), {"dtype": f32, "a_major": "MN"}, ("rows is 258", "pad it to 260")),
        ((256, 256, 64), {"epilogue": "smem"}, ("'smem'",)),
        ((256, 256, 64), {"out_dtype": u8}, ("u8",)),
        ((256, 256, 64), {"out_dtype": "f32"}, ("out_dtype = 'f32'", "expected f32 or")),
        ((256, 256, 64), {"stages": 2.5}, ("stages = 2.5", "whole number")),
        ((256, 256, 64), {"order": 3}, ("order = 3", "a function")),
        ((256, 256, 64), {"a_major": "X"}, ("a_major = 'X'", "'K' or 'MN'")),
        ((256, 256, 64), {"batch": 0}, ("batch = 0",)),
        ((256, 256, 64), {"clusters": 0}, ("clusters = 0",)),
        ((256, 256, 64), {"schedule": "dynamic"}, ("'dynamic'", "'static' or 'clc'")),
        ((256, 256, 64), {"schedule": "clc", "ahead": 4}, ("ahead is 4", "1 to 3")),
    ],
)
def test_refusals(arguments: tuple[int, ...], options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        gemm.build_gemm_persistent(*arguments, **options).ptx()
    assert all(word in str(caught.value) for word in words)


# --- planted bugs --------------------------------------------------------------------------------

SHAPE = (768, 256, 64)  # three tiles of one cluster: tile 2 overwrites the accumulator of tile 0


def _module() -> Module:
    return gemm.build_gemm_persistent(*SHAPE, clusters=1).module()


def _changed(
    which: Callable[[Instruction], bool], change: Callable[[Instruction], Instruction | None]
) -> Module:
    """The kernel with each chosen instruction replaced by what ``change`` makes of it; None drops it."""
    module = _module()
    function = module.functions[0]
    body = [change(s) if isinstance(s, Instruction) and which(s) else s for s in function.body]
    assert any(new is not old for new, old in zip(body, function.body, strict=True))
    kept = tuple(s for s in body if s is not None)
    return replace(module, functions=(replace(function, body=kept),))


def _has(*words: str) -> Callable[[Instruction], bool]:
    return lambda s: all(word in (s.opcode, *s.modifiers) for word in words)


def _drop(_: Instruction) -> None:
    return None


def _outcomes(module: Module, *schedules: str) -> set[str]:
    """The rules that are named under the schedules, and "values" where a product is wrong."""
    found: set[str] = set()
    loaded = sim.load(module)
    for schedule in schedules:
        a, b = gemm.make_inputs(*SHAPE)
        d = np.full(SHAPE[:2], np.nan, np.float32)
        report = loaded.launch(
            grid=2,
            cluster=2,
            block=256,
            dynamic_smem=232_448,
            args=_maps(a, b, d),
            schedule=schedule,
            seed=1,
        )
        found |= {finding.rule.name for finding in report.findings}
        found |= set() if gemm.worst_error(a, b, d) <= 1 else {"values"}
    return found


@pytest.mark.full
def test_the_unchanged_kernel_is_clean() -> None:
    assert not _outcomes(_module(), "eager", "late")


@pytest.mark.full
def test_an_accumulator_that_is_overwritten_without_a_wait() -> None:
    """The thread that multiplies waits for ``acc_empty`` of a fresh barrier's phase, which is over, again and again."""
    module = _module()
    function = module.functions[0]
    waits = [s for s in function.instructions() if _has("try_wait")(s)]
    phases = [s.operands[-1] for s in waits]
    # Waits in the text: producer, its drain, writer, consumer, ...
    writer = waits[2]
    done = Instruction("mov", ("pred",), (writer.operands[0], Immediate(1)))
    assert len({str(phase) for phase in phases}) == 4  # of producer, consumer, writer and reader
    found = _outcomes(_changed(lambda s: s is writer or s == writer, lambda s: done), "late")
    assert {"data-race", "values"} <= found


@pytest.mark.full
def test_an_accumulator_handed_back_before_its_loads_are_done() -> None:
    assert "tcgen05-wait-missing" in _outcomes(_changed(_has("wait::ld"), _drop), "late")


@pytest.mark.full
def test_an_arrival_at_the_own_cta_starves_the_leader() -> None:
    """The arrivals of the odd CTA's warps never come to the even CTA, whose thread multiplies."""

    def own(s: Instruction) -> Instruction:
        return Instruction("mov", ("b32",), s.operands[:2])

    module = _module()
    masks = [s for s in module.functions[0].instructions() if Immediate(0xFEFFFFFF) in s.operands]
    assert len(masks) == 2  # of the copies' barrier and of the accumulator's
    found = _outcomes(_changed(lambda s: s is masks[1] or s == masks[1], own), "eager")
    assert "deadlock" in found


@pytest.mark.full
def test_half_of_the_arrivals_expected() -> None:
    """An accumulator is free when one CTA has read it."""

    def half(s: Instruction) -> Instruction:
        return replace(s, operands=(s.operands[0], Immediate(4)))

    found = _outcomes(
        _changed(lambda s: _has("mbarrier", "init")(s) and s.operands[1] == Immediate(8), half),
        "late",
        "random",
    )
    assert "data-race" in found


@pytest.mark.full
def test_a_staging_tile_that_is_written_while_it_is_read() -> None:
    assert {"data-race", "exit-in-flight"} <= _outcomes(_changed(_has("wait_group"), _drop), "late")


@pytest.mark.full
def test_no_cluster_barrier_at_the_end() -> None:
    """A CTA frees tensor memory that the pair still uses, or exits before arrivals reach it."""
    module = _module()
    barriers = [s for s in module.functions[0].instructions() if _has("barrier", "cluster")(s)]
    assert len(barriers) == 4
    last = {str(s.source) for s in barriers[2:]}
    found = _outcomes(
        _changed(lambda s: _has("barrier", "cluster")(s) and str(s.source) in last, _drop), "late"
    )
    assert {"data-race", "tensor-memory"} <= found
