"""The Hopper GEMM: right under every schedule and on an H200, assembled as it was meant, of constant length, and
what bugs planted in it look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, PyptxError, ScalarType, TensorMap, bf16, f32, kit, sim
from pyptx.ir import Immediate, Instruction, Module
from pyptx.toolchain import Tool

from .loading import load_example

gemm = load_example("hopper/gemm_highperf_hopper.py")
NUMPY = {kind: kind.dtype for kind in (f32, bf16)}
SEEDS = [("eager", 0), ("late", 0), ("starve:tma", 0), ("starve:mma", 0), *(("random", n) for n in range(10))]
#: One slice of K; one tile more than clusters, and more slices than stages.
SHAPES = [(256, 256, 64), (768, 256, 192)]


def _wrong(
    shape: tuple[int, int, int], schedule: str, seed: int = 0, dtype: ScalarType = f32, **options: Any
) -> str:
    """What is wrong with the product of random numbers; empty if nothing."""
    M, N, K = shape
    a, b = gemm.make_inputs(M, N, K, seed)
    d = np.full((M, N), np.nan, NUMPY[dtype])
    kernel: Kernel = gemm.build_gemm(M, N, K, out_dtype=dtype, **options)
    report = kernel.simulate(a, b, out=d, schedule=schedule, seed=seed, sanitize="strict")
    if report.verdict != "clean":
        return str(report)
    error = gemm.worst_error(a, b, d)
    return "" if error <= 1 else f"{error} times the bound"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("shape", "schedule", "seed"), [(SHAPES[0], "eager", 0), (SHAPES[0], "random", 7), (SHAPES[1], "late", 0)]
)
def test_right(shape: tuple[int, int, int], schedule: str, seed: int) -> None:
    assert not _wrong(shape, schedule, seed, clusters=2)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("schedule", "seed"), SEEDS)
@pytest.mark.parametrize("shape", [*SHAPES, (512, 512, 512), (256, 1280, 64), (1280, 256, 704)])
def test_right_under_every_schedule(shape: tuple[int, int, int], schedule: str, seed: int) -> None:
    assert not _wrong(shape, schedule, seed, clusters=2)


@pytest.mark.full
@pytest.mark.parametrize(
    ("K", "dtype", "options"),
    [
        (192, bf16, {"stages": 2}),
        (64, bf16, {"epilogue": "direct"}),
        (64, f32, {"epilogue": "direct"}),
    ],
)
def test_options(K: int, dtype: ScalarType, options: dict[str, Any]) -> None:
    assert not _wrong((256, 256, K), "late", dtype=dtype, **options)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize(
    "options",
    [
        {"stages": 2},
        {"stages": 3, "epilogue": "direct"},
        {"clusters": 1},
        {"clusters": 5},
        {"order": kit.tile_order.hilbert},
        {"order": partial(kit.tile_order.grouped, group=2)},
    ],
)
def test_every_option(options: dict[str, Any], dtype: ScalarType, schedule: str) -> None:
    assert not _wrong((1280, 512, 192), schedule, dtype=dtype, **options)


def test_an_all_zero_output_is_wrong() -> None:
    a, b = gemm.make_inputs(256, 256, 64)
    assert gemm.worst_error(a, b, np.zeros((256, 256), np.float32)) > 1e4


# --- what is recorded and assembled ---------------------------------------------------------------


def test_assembles_as_it_was_meant(ptxas: Tool, nvdisasm: Tool) -> None:
    kernel = gemm.build_gemm(8192, 8192, 8192)
    assembly = kernel.assemble()
    # Notes would say that setmaxnreg was dropped (C7508) or wgmma serialized (C7510 and others).
    assert not assembly.spills and not assembly.warnings and not assembly.notes
    sass = kernel.sass()
    assert sass.count("USETMAXREG") == 2
    # Four products of a stage, the first stage of a tile apart; no loop over lanes around a copy.
    assert sass.count("HGMMA.64x256x16") == 8
    assert sass.count("UTMALDG.2D") == 2 and sass.count("UTMALDG.2D.MULTICAST") == 1
    assert "BRA.U.ANY" not in sass


@pytest.mark.full
@pytest.mark.parametrize(("epilogue", "dtype"), [("direct", f32), ("direct", bf16), ("tma", bf16)])
def test_every_epilogue_assembles(epilogue: str, dtype: ScalarType, ptxas: Tool) -> None:
    assembly = gemm.build_gemm(1024, 1024, 1024, epilogue=epilogue, out_dtype=dtype).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_text_does_not_grow_with_the_problem() -> None:
    sizes = [(256, 256, 128), (8192, 8192, 8192), (65536, 1024, 65536)]
    (lines,) = {gemm.build_gemm(*size).ptx().count("\n") for size in sizes}
    assert lines < 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((128, 256, 64), ("M = 128", "256", "the rows of a cluster of two CTAs", "pad M to 256")),
        ((256, 128, 64), ("N = 128", "256")),
        ((256, 256, 100), ("K = 100", "64", "pad K to 128")),
        ((256, 256, 0), ("K = 0",)),
    ],
)
def test_sizes_that_do_not_fill_a_cluster(arguments: tuple[int, ...], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        gemm.build_gemm(*arguments)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("options", [{"stages": 5}, {"stages": 1}, {"clusters": 0}, {"epilogue": "fast"}])
def test_options_that_do_not_exist(options: dict[str, Any]) -> None:
    with pytest.raises(PyptxError, match=next(iter(options))):
        gemm.build_gemm(256, 256, 64, **options)


# --- planted bugs ---------------------------------------------------------------------------------

Change = Callable[[Instruction], Instruction | None]


def _changed(change: Change) -> Module:
    """The module of 256x256x320 with each instruction replaced by what ``change`` makes of it."""
    module = gemm.build_gemm(256, 256, 320).module()
    function = module.functions[0]
    body = [change(s) if isinstance(s, Instruction) else s for s in function.body]
    assert any(new is not old for new, old in zip(body, function.body, strict=True))
    kept = tuple(s for s in body if s is not None)
    return replace(module, functions=(replace(function, body=kept),))


def _is(s: Instruction, opcode: str, *words: str) -> bool:
    return s.opcode == opcode and set(words) <= set(s.modifiers)


def _outcome(module: Module, schedule: str) -> tuple[sim.Report, bool]:
    """The report, and whether the product is right."""
    a, b = gemm.make_inputs(256, 256, 320)
    d = np.full((256, 256), np.nan, np.float32)
    boxes = [(a, (128, 64)), (b, (128, 64)), (d, (16, 32))]
    report = sim.load(module).launch(
        grid=2,
        block=384,
        cluster=2,
        dynamic_smem=232_448,
        args=[TensorMap.tiled(array, box=box, swizzle="128B") for array, box in boxes],
        schedule=schedule,
    )
    return report, gemm.worst_error(a, b, d) <= 1


@pytest.mark.full
def test_a_stage_handed_back_to_the_own_producer_alone() -> None:
    """The producer does not wait for the peer's readers, and its half of B overwrites what they still read."""

    def own(s: Instruction) -> Instruction:
        if _is(s, "mapa"):
            return Instruction("mov", ("u32",), s.operands[:2], guard=s.guard)
        return s

    report, right = _outcome(_changed(own), "late")
    assert report.verdict != "clean" or not right


@pytest.mark.full
def test_a_stage_handed_back_before_its_products_are_done() -> None:
    def early(s: Instruction) -> Instruction:
        if _is(s, "wgmma", "wait_group") and s.operands == (Immediate(1),):
            return replace(s, operands=(Immediate(7),))
        return s

    _, right = _outcome(_changed(early), "late")
    assert not right


@pytest.mark.full
@pytest.mark.parametrize("which", ["first", "last"])
def test_a_cluster_barrier_left_out(which: str) -> None:
    """Without the first, a CTA signals barriers that do not exist yet; without the last, ones that are gone."""
    module = gemm.build_gemm(256, 256, 320).module()
    barriers = [i for i in module.functions[0].instructions() if _is(i, "barrier", "cluster")]
    assert len(barriers) == 4
    dropped = [str(s.source) for s in (barriers[:2] if which == "first" else barriers[2:])]

    def without(s: Instruction) -> Instruction | None:
        return None if _is(s, "barrier", "cluster") and str(s.source) in dropped else s

    report, _ = _outcome(_changed(without), "eager")
    assert report.verdict == "error"
    rules = {finding.rule.name for finding in report.findings}
    assert rules & ({"mbarrier-misuse"} if which == "first" else {"cluster-lifetime", "exit-in-flight"})


def _counting(count: int) -> Module:
    """``empty`` completes after ``count`` arrivals instead of 16."""

    def counted(s: Instruction) -> Instruction:
        if _is(s, "mbarrier", "init") and s.operands[1] == Immediate(16):
            return replace(s, operands=(s.operands[0], Immediate(count)))
        return s

    return _changed(counted)


def test_an_arrival_too_many_expected_is_a_deadlock() -> None:
    report, _ = _outcome(_counting(17), "eager")
    (finding,) = report.findings
    assert finding.rule.name == "deadlock"
    assert "mbarrier empty" in str(finding) and "1 of 17 arrivals pending" in str(finding)
    # The producer waits, at its line.
    assert any("producer.acquire()" in location.text for _, location in finding.other if location)


@pytest.mark.full
def test_the_peer_s_arrivals_not_counted() -> None:
    report, right = _outcome(_counting(8), "late")
    assert report.verdict == "error" or not right


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("epilogue", ["tma", "direct"])
@pytest.mark.parametrize("shape", [(256, 256, 64), (768, 1280, 192)])
def test_words_of_the_gpu_are_the_simulator_s(
    shape: tuple[int, int, int], epilogue: str, dtype: ScalarType, torch: Any
) -> None:
    a, b = gemm.make_inputs(*shape, seed=3)
    kernel = gemm.build_gemm(*shape, epilogue=epilogue, out_dtype=dtype)
    there = [torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16).cuda() for x in (a, b)]
    bits, kind = (torch.uint32, np.uint32) if dtype is f32 else (torch.uint16, np.uint16)
    found = kernel(*there).view(bits).cpu().numpy()
    assert np.array_equal(found, kernel(a, b).view(kind))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(512, 512, 512), (256, 17152, 64), (16384, 512, 4096), (4096, 4096, 4096), (8192, 8192, 8192)]
)
def test_right_on_the_gpu_every_time(shape: tuple[int, int, int], torch: Any) -> None:
    M, N, K = shape
    a, b = (torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))
    kernel = gemm.build_gemm(M, N, K)
    d = torch.full((M, N), float("nan"), device="cuda")
    kernel(a, b, out=d)
    wide_a, wide_b = a.double(), b.double()
    bound = K * 2.0**-23 * (wide_a.abs() @ wide_b.abs().T)
    assert bool(((d.double() - wide_a @ wide_b.T).abs() <= bound).all())
    for _ in range(10):
        again = torch.full((M, N), float("nan"), device="cuda")
        kernel(a, b, out=again)
        assert torch.equal(again, d)
