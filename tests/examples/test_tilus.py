"""The Tilus ladder: every configuration right for ragged sizes, for every schedule, assembled without
spills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyptx import SharedMemoryError, SpecError, TensorMap, autotune, sim
from pyptx.ir import Instruction, Module
from pyptx.toolchain import Tool
from tests.counting import calls_in

from .loading import load_example

v0 = load_example("blackwell/tilus/matmul_v0.py")
v1 = load_example("blackwell/tilus/matmul_v1.py")
later = load_example("blackwell/tilus/matmul.py")
harness = v0.harness

#: One tile; ragged in every dimension, where the pitch allows copies of 16, 4 and 2 bytes; several tiles.
SHAPES = [(128, 256, 64), (150, 104, 72), (129, 66, 38), (40, 33, 35), (300, 320, 144)]
#: The same, for TMA.
TMA_SHAPES = [(128, 256, 64), (150, 104, 72), (40, 40, 24), (300, 320, 144)]
V0 = harness.configurations(v0.build_matmul_v0)
V1 = harness.configurations(v1.build_matmul_v1)


def check(kernel: Any, M: int, N: int, K: int, **options: Any) -> None:
    report, error = harness.simulated(kernel, M, N, K, sanitize="strict", **options)
    assert report.verdict == "clean", str(report)
    assert report.holds == "every schedule", str(report)
    assert error <= 1


def name(chosen: dict[str, int]) -> str:
    return "-".join(map(str, chosen.values()))


def test_the_spaces_are_the_texts() -> None:
    assert len(V0) == 9
    assert {tuple(c[n] for n in ("block_m", "block_n")) for c in V0} == {(128, 64), (128, 128), (128, 256)}
    assert {c["block_k"] for c in V0} == {16, 32, 64} == {c["block_k"] for c in V1}
    assert len(V1) == 12
    strips = {tuple(c[n] for n in ("block_m", "block_n", "e_block_n")) for c in V1}
    assert strips == {(128, 64, 16), (128, 128, 16), (128, 256, 32), (128, 256, 64)}


@pytest.mark.full
@pytest.mark.one_in(14)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("chosen", V0, ids=name)
def test_v0_is_right(chosen: dict[str, int], shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    check(v0.build_matmul_v0.what(N, K, **chosen), M, N, K)


@pytest.mark.one_in(28)
@pytest.mark.parametrize("shape", TMA_SHAPES, ids=str)
@pytest.mark.parametrize("chosen", V1, ids=name)
def test_v1_is_right(chosen: dict[str, int], shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    check(v1.build_matmul_v1.what(N, K, **chosen), M, N, K)


@pytest.mark.full
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_under_other_schedules(schedule: str) -> None:
    check(
        v0.build_matmul_v0.what(72, 80, block_m=128, block_n=64, block_k=32), 130, 72, 80, schedule=schedule
    )


@pytest.mark.full
def test_m_is_a_run_time_size() -> None:
    chosen = {"block_m": 128, "block_n": 64, "block_k": 16}
    for kernel in (
        v0.build_matmul_v0.what(64, 32, **chosen),
        v1.build_matmul_v1.what(64, 32, e_block_n=32, **chosen),
    ):
        assert {kernel.ptx(M=M) for M in (1, 128, 4096)} == {kernel.ptx(M=7)}
        for M in (1, 129):
            check(kernel, M, 64, 32)


@pytest.mark.parametrize(
    ("N", "K", "words"), [(60, 64, "pad N to 64"), (64, 36, "pad K to 40"), (0, 8, "pad N")]
)
def test_v1_refuses_what_tma_cannot_load(N: int, K: int, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        v1.build_matmul_v1.what(N, K, block_m=128, block_n=64, block_k=16, e_block_n=16)


def test_an_all_zero_output_is_wrong() -> None:
    """The bound can fail."""
    a, b = harness.make_inputs(64, 64, 64)
    assert harness.worst_error(a, b, np.zeros((64, 64), np.float16)) > 100
    right = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)
    assert harness.worst_error(a, b, right) <= 1
    assert harness.worst_error(a, b, np.nextafter(np.nextafter(right, np.inf), np.inf)) > 1


# --- V2 to V6, options of one builder ----------------------------------------------------------------

#: From V5 on the hardware chooses which CTAs are canceled: a plain run holds for its own schedule.
SCHEDULES = {"v5": ("eager", "late", "random"), "v6": ("eager", "late", "random")}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("shape", [(300, 264, 136), (128, 128, 32), (40, 40, 24)], ids=str)
@pytest.mark.parametrize("version", later.VERSIONS)
def test_later_versions_are_right(version: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    kernel = later.tuned(version).what(N, K, **later.CHOSEN[version])
    for schedule in SCHEDULES.get(version, ("eager",)):
        report, error = harness.simulated(kernel, M, N, K, sanitize="strict", schedule=schedule)
        assert report.verdict == "clean", str(report)
        assert error <= 1
        assert version in SCHEDULES or report.holds == "every schedule"


@pytest.mark.full
@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    "options",
    [
        {"roles": False, "stages": 2, "block_n": 64, "in_flight": 1},
        {"stages": 6, "block_n": 256, "block_k": 16, "e_block_n": 64},
        {"swizzle_size": 1, "block_n": 64, "e_block_n": 32},
        {"swizzle_size": 16, "block_n": 64},
        {"swizzle_size": 2, "persistent": True, "block_n": 64, "mma_stages": 1},
        {"swizzle_size": 2, "persistent": True, "block_n": 64, "mma_stages": 4},
        {"swizzle_size": 2, "block_m": 256, "ctas": 2, "block_n": 128},
    ],
    ids=str,
)
def test_options_of_the_builder(options: dict[str, Any]) -> None:
    M, N, K = 400, 200, 200
    kernel = later.build_matmul(N, K, **{"stages": 3, "block_k": 32} | options)
    for schedule in ("eager", "late"):
        report, error = harness.simulated(kernel, M, N, K, sanitize="strict", schedule=schedule)
        assert report.verdict == "clean", str(report)
        assert error <= 1


def test_sizes_of_the_later_spaces() -> None:
    counts = {version: len(harness.configurations(later.tuned(version))) for version in later.VERSIONS}
    assert counts == {"v2": 27, "v3": 27, "v4": 81, "v5": 48, "v6": 12}


@pytest.mark.slow
@pytest.mark.parametrize("version", later.VERSIONS)
def test_later_spaces_assemble(version: str, ptxas: Tool) -> None:
    """Every configuration that fits into shared memory, without spills, warnings and notes."""
    build, fit = later.tuned(version), 0
    for chosen in harness.configurations(build):
        try:
            assembled(build, 8192, 8192, chosen)
        except SharedMemoryError:
            continue
        fit += 1
    assert fit >= len(harness.configurations(build)) * 3 // 4


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("pad N to 104", {"N": 100}),
        ("128 rows for each of 1 or 2 CTAs", {"block_m": 64}),
        ("128 rows for each of 1 or 2 CTAs", {"ctas": 2}),
        ("matmul_v1 has one", {"stages": 1}),
        ("expected 2, or 1 with roles=False", {"in_flight": 1}),
        ("build on roles=True", {"roles": False, "persistent": True}),
        ("build on swizzle_size", {"persistent": True}),
    ],
)
def test_what_the_builder_refuses(words: str, options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=words):
        later.build_matmul(**{"N": 128, "K": 128} | options)


# --- the text, and its machine code -----------------------------------------------------------------


def assembled(build: Any, N: int, K: int, chosen: dict[str, int]) -> None:
    for arch in harness.TARGETS:
        assembly = build.what(N, K, arch=arch, **chosen).assemble(M=8192)
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
@pytest.mark.one_in(9)
@pytest.mark.parametrize("chosen", V0, ids=name)
@pytest.mark.parametrize(("N", "K"), [(8192, 8192), (8105, 8131), (104, 72)])
def test_v0_assembles_without_spills_or_warnings(chosen: dict[str, int], N: int, K: int, ptxas: Tool) -> None:
    assembled(v0.build_matmul_v0, N, K, chosen)


@pytest.mark.full
@pytest.mark.one_in(9)
@pytest.mark.parametrize("chosen", V1, ids=name)
@pytest.mark.parametrize(("N", "K"), [(8192, 8192), (104, 72)])
def test_v1_assembles_without_spills_or_warnings(chosen: dict[str, int], N: int, K: int, ptxas: Tool) -> None:
    assembled(v1.build_matmul_v1, N, K, chosen)


@pytest.mark.full
def test_one_instruction_per_mma(ptxas: Tool, nvdisasm: Tool) -> None:
    """No loop over lanes around the products, as ptxas makes where a thread index guards them."""
    sass = v0.build_matmul_v0.what(256, 256, block_m=128, block_n=128, block_k=64).sass(M=256)
    assert sass.count("UTCHMMA") == 4
    assert "BRA.U.ANY" not in sass
    sass = v1.build_matmul_v1.what(256, 256, block_m=128, block_n=128, block_k=64, e_block_n=16).sass(M=256)
    assert (sass.count("UTCHMMA"), sass.count("UTMALDG"), sass.count("UTMASTG")) == (4, 2, 128 // 16)
    assert "BRA.U.ANY" not in sass


@pytest.mark.full
@pytest.mark.parametrize("tuned", [v0.build_matmul_v0, v1.build_matmul_v1], ids=["v0", "v1"])
def test_text_does_not_grow_with_the_problem(tuned: Any) -> None:
    """And recording takes as many calls of Python as some 25 ms have on the machine that these tests ran on."""
    chosen = harness.configurations(tuned)[-1]
    kernels = [tuned.what(8192, K, **chosen) for K in (512, 8192, 65536)]
    counts = [calls_in(lambda kernel=kernel: kernel.ptx(M=8192)) for kernel in kernels]  # type: ignore[misc]
    assert len({kernel.ptx(M=8192).count("\n") for kernel in kernels}) == 1
    assert counts[-1] < 180_000


# --- planted bugs -----------------------------------------------------------------------------------


def without(module: Module, *words: str) -> Module:
    """The module less the instructions that have all these words."""
    function = module.functions[0]
    gone = [s for s in function.body if isinstance(s, Instruction) and set(words) <= {s.opcode, *s.modifiers}]
    assert gone
    body = tuple(s for s in function.body if all(s is not each for each in gone))
    return replace(module, functions=(replace(function, body=body), *module.functions[1:]))


CHOSEN = {"block_m": 128, "block_n": 64, "block_k": 32}


def findings(module: Module, tma: bool) -> set[str]:
    """The rules that one tile of 128x64 with K = 64 breaks under ``late``, which gives waits their purpose."""
    a, b = harness.make_inputs(128, 64, 64)
    c = np.full((128, 64), np.nan, np.float16)
    arguments: list[Any] = [a, b, c, np.uint32(128)]
    if tma:
        boxes = ((128, 32), "64B"), ((64, 32), "64B"), ((128, 16), "32B")
        arguments = [
            TensorMap.tiled(x, box=box, swizzle=swizzle)
            for x, (box, swizzle) in zip((a, b, c), boxes, strict=True)
        ]
    report = sim.load(module).launch(grid=1, block=128, args=arguments, schedule="late")
    return {finding.rule.name for finding in report.findings}


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("fence", "proxy"), "proxy-fence-missing"),  # the fence that the published kernel leaves out
        (("cp", "wait_all"), "data-race"),
        (("tcgen05", "commit"), "deadlock"),
        (("tcgen05", "dealloc"), "tensor-memory"),
    ],
)
def test_an_instruction_missing_in_v0_is_found(words: tuple[str, ...], found: str) -> None:
    module = v0.build_matmul_v0.what(64, 64, **CHOSEN).specialize(M=128).module
    assert not findings(module, tma=False)
    assert found in findings(without(module, *words), tma=False)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("fence", "proxy"), "proxy-fence-missing"),
        (("cp", "bulk", "wait_group"), "data-race"),  # the strip's tile is written while the engine reads it
        (("mbarrier", "expect_tx"), "deadlock"),
        (("tcgen05", "wait::ld"), "tcgen05-wait-missing"),
    ],
)
def test_an_instruction_missing_in_v1_is_found(words: tuple[str, ...], found: str) -> None:
    module = v1.build_matmul_v1.what(64, 64, e_block_n=16, **CHOSEN).specialize(M=128).module
    assert not findings(module, tma=True)
    assert found in findings(without(module, *words), tma=True)


# --- the programs -------------------------------------------------------------------------------------


@pytest.mark.full
def test_tuning_chooses_one_of_the_space() -> None:
    """Arrays in host memory: candidates are ranked by what they need, and the best one runs in the simulator."""
    tiles = autotune("block_m, block_n", [[128, 64], [128, 128]])
    matmul = tiles(autotune("block_k", [32, 64])(v0.build_matmul_v0.what))(72, 64)
    a, b = harness.make_inputs(130, 72, 64)
    c = np.full((130, 72), np.nan, np.float16)
    with pytest.warns(UserWarning):
        matmul(a, b, out=c)
    assert harness.worst_error(a, b, c) <= 1
    assert matmul.tunings[0].configuration["block_m"] == 128


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("version", later.VERSIONS)
def test_later_texts_do_not_grow_with_the_problem(version: str) -> None:
    build, chosen = later.tuned(version).what, later.CHOSEN[version]
    kernels = [build(8192, K, **chosen) for K in (512, 65536)]
    counts = [calls_in(lambda kernel=kernel: kernel.ptx(M=8192)) for kernel in kernels]  # type: ignore[misc]
    assert len({kernel.ptx(M=8192).count("\n") for kernel in kernels}) == 1
    assert counts[-1] < 250_000
    for arch in harness.TARGETS:
        assembly = build(8192, 8192, arch=arch, **chosen).assemble(M=8192)
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.slow
def test_the_later_versions_as_a_program(capsys: pytest.CaptureFixture[str], ptxas: Tool) -> None:
    later.main(bench=True)
    out = capsys.readouterr().out
    assert "All products are right." in out and "WRONG" not in out


@pytest.mark.slow
@pytest.mark.parametrize(("module", "count"), [(v0, 9), (v1, 12)], ids=["v0", "v1"])
def test_as_a_program(module: Any, count: int, capsys: pytest.CaptureFixture[str], ptxas: Tool) -> None:
    module.main(bench=True)
    out = capsys.readouterr().out
    assert "All products are right." in out and "WRONG" not in out
    assert out.count("every schedule") == count
