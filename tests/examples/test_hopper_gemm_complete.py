"""The complete Hopper GEMM: every option right for sizes that fill no tile, assembled as it was meant, refused
where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, TensorMap, bf16, e4m3, e5m2, f16, f32, kit, s32, sim
from pyptx.ir import Immediate, Instruction
from pyptx.toolchain import Tool

from .loading import load_example

gemm = load_example("hopper/gemm.py")
harness = load_example("hopper/gemm_harness.py")
options = load_example("hopper/gemm_options.py")

SMALL = {"tile": (64, 64), "cluster": (1, 1)}
Shape = tuple[int, int, int]


def _wrong(shape: Shape, chosen: dict[str, Any], schedule: str = "eager", seed: int = 0) -> str:
    """What is wrong with the product of random numbers; empty if nothing."""
    report, error = harness.simulated(gemm.build_gemm(*shape, **chosen), shape, chosen, schedule, seed)
    if report.verdict != "clean" or report.holds != "every schedule":
        return str(report)
    return "" if error <= 1 else f"{error} times the bound"


#: No extent is a multiple of its tile; several tiles for each CTA, and more stages of K than the ring has.
FAST = [
    ((72, 136, 136), SMALL),
    ((72, 136, 600), {**SMALL, "sms": 1}),
    ((72, 200, 136), {**SMALL, "sms": 1, "consumers": "pingpong"}),
    ((72, 200, 136), {**SMALL, "sms": 1, "deferred": True}),
    (
        (136, 200, 136),
        {"tile": (64, 96), "cluster": (1, 1), "sms": 2, "deferred": True, "widths": (72, 2, 1)},
    ),
    ((136, 136, 72), {**SMALL, "cluster": (2, 2), "out_type": f32}),
    ((72, 72, 264), {**SMALL, "split": 2}),
    ((60, 136, 600), {"tile": (64, 48), "cluster": (1, 1), "resident": 2, "sms": 1}),
    ((60, 104, 264), {"tile": (64, 32), "split": 2, "resident": 3}),
    ((72, 72, 72), {**SMALL, "batch": 2, "a_type": f16, "out_type": f16}),
    ((72, 72, 72), {**SMALL, "a_major": "MN", "b_major": "MN", "dependent": True}),
    ((72, 72, 80), {**SMALL, "a_type": f32, "out_type": f32}),
    (
        (72, 72, 272),
        {**SMALL, "a_type": e4m3, "b_type": e5m2, "hints": {"A": "evict_last", "D": "evict_first"}},
    ),
]


@pytest.mark.one_in(6)
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "chosen"), FAST)
def test_right(shape: Shape, chosen: dict[str, Any]) -> None:
    assert not _wrong(shape, chosen)


#: Tiles, clusters and roles of full size.
FULL = [
    ((200, 264, 328), {}),
    ((200, 264, 328), {"cluster": (1, 2), "out_type": f32}),
    ((264, 264, 72), {"cluster": (2, 2), "tile": (128, 128)}),
    ((264, 520, 72), {"cluster": (4, 2), "tile": (64, 64), "sms": 8}),
    ((264, 520, 72), {"cluster": (1, 4), "tile": (64, 128), "sms": 4}),
    ((264, 264, 200), {"tile": (256, 128), "cluster": (1, 2), "sms": 2}),
    ((264, 264, 200), {"tile": (256, 192), "cluster": (1, 1), "sms": 2, "out_type": f16}),
    ((200, 328, 200), {"tile": (192, 160), "cluster": (1, 1), "sms": 2}),
    ((264, 520, 392), {"consumers": "pingpong", "tile": (64, 256), "sms": 4}),
    ((264, 264, 200), {"consumers": "pingpong", "tile": (128, 128), "cluster": (1, 2), "sms": 2}),
    ((264, 264, 72), {"consumers": "pingpong", "tile": (64, 128), "cluster": (2, 2), "sms": 4, "batch": 2}),
    ((200, 520, 392), {"sms": 2, "deferred": True}),
    ((264, 264, 72), {"tile": (128, 64), "cluster": (1, 1), "sms": 2, "deferred": True, "batch": 2}),
    ((264, 264, 400), {"tile": (256, 128), "cluster": (1, 2), "sms": 2, "deferred": True, "a_type": e4m3}),
    ((520, 520, 200), {"sms": 4, "deferred": True, "widths": (232, 2, 1)}),
    (
        (200, 328, 200),
        {"tile": (64, 96), "cluster": (1, 1), "consumers": "pingpong", "widths": (72, 2, 1), "sms": 3},
    ),
    (
        (264, 264, 136),
        {"tile": (128, 128), "cluster": (1, 1), "widths": (120, 2, 0), "sms": 2, "out_type": f16},
    ),
    ((264, 400, 400), {"tile": (64, 80), "widths": (72, 1, 1), "deferred": True, "sms": 2, "a_type": e4m3}),
    (
        (264, 520, 136),
        {"tile": (128, 128), "cluster": (1, 2), "widths": (120, 2, 1), "deferred": True, "sms": 4},
    ),
    ((136, 264, 520), {"split": 4, "tile": (128, 128)}),
    ((136, 264, 520), {"split": 8, "tile": (64, 256), "out_type": f32}),
    ((136, 264, 264), {"split": 2, "tile": (192, 96), "batch": 2}),
    ((136, 264, 136), {"a_major": "MN", "b_major": "MN", "cluster": (2, 1)}),
    ((136, 264, 136), {"b_major": "MN", "tile": (256, 128), "cluster": (2, 1), "a_type": f16}),
    ((136, 264, 136), {"a_major": "MN", "tile": (128, 64), "cluster": (1, 2)}),
    ((136, 264, 136), {"a_type": f32, "tile": (128, 224), "cluster": (2, 1)}),
    ((136, 264, 400), {"a_type": e5m2, "tile": (128, 256), "cluster": (2, 1)}),
    (
        (264, 520, 400),
        {"a_type": e4m3, "consumers": "pingpong", "tile": (64, 256), "cluster": (1, 1), "sms": 3},
    ),
    ((264, 264, 136), {"order": kit.tile_order.hilbert, "sms": 2, "stages": 2, "staging": 1}),
]


@pytest.mark.full
@pytest.mark.one_in(15)
@pytest.mark.parametrize(("shape", "chosen"), FULL)
def test_right_at_full_size(shape: Shape, chosen: dict[str, Any]) -> None:
    assert not _wrong(shape, chosen)


@pytest.mark.full
@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    ("schedule", "seed"), [("late", 0), ("starve:tma", 0), ("starve:mma", 0), ("random", 5)]
)
@pytest.mark.parametrize(("shape", "chosen"), FAST[1:6])
def test_right_under_other_schedules(shape: Shape, chosen: dict[str, Any], schedule: str, seed: int) -> None:
    report, error = harness.simulated(gemm.build_gemm(*shape, **chosen), shape, chosen, schedule, seed)
    assert report.verdict == "clean" and error <= 1, str(report)


def _fused(shape: Shape, chosen: dict[str, Any], any_m: bool = False) -> str:
    """What is wrong with ``relu(scales * A @ B.T + beta * C + bias)``, where the options ask for each."""
    M, N, K = shape
    kind = chosen.get("a_type", bf16)
    a, b = harness.make_inputs(M, N, K, a_type=kind)
    rng = np.random.default_rng(1)
    exact, magnitude = harness.reference(a, b)
    error = harness.bound(magnitude, K, a.dtype)
    out = harness.NUMPY[chosen.get("out_type", bf16)]
    given: list[Any] = [a, b]
    if chosen.get("beta") is not None:
        c = rng.standard_normal((M, N)).astype(out)
        given.append(c)
    if chosen.get("scaled"):
        scales = [np.array([value], np.float32) for value in (1.5, -0.625)]
        given += scales
        factor = float(scales[0][0] * scales[1][0])
        exact, error = exact * factor, error * abs(factor) + 2.0**-23 * np.abs(exact * factor)
    if chosen.get("beta") is not None:
        exact = exact + chosen["beta"] * c.astype(np.float64)
        error = error + 2.0**-23 * (np.abs(exact) + error)
    if chosen.get("epilogue"):
        bias = rng.standard_normal(N).astype(np.float32)
        given.append(bias)
        exact = np.maximum(exact + bias, 0)
        error = error + 2.0**-23 * (np.abs(exact) + np.abs(bias) + error)
    d = np.full((M, N), np.nan, out)
    report = gemm.build_gemm(None if any_m else M, N, K, **chosen).simulate(*given, out=d, sanitize="strict")
    if report.verdict != "clean" or report.holds != "every schedule":
        return str(report)
    worst = harness.worst_error(exact, error, d)
    return "" if worst <= 1 else f"{worst} times the bound"


@pytest.mark.one_in(3)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        ((72, 136, 136), {**SMALL, "beta": 0.5, "sms": 1, "staging": 1}),
        ((72, 136, 136), {**SMALL, "tile": (64, 128), "a_type": f16, "out_type": f16, "beta": -1.0}),
        ((72, 136, 136), {**SMALL, "tile": (64, 192), "out_type": f32, "beta": 2.0, "staging": 2}),
        ((72, 136, 144), {**SMALL, "a_type": e4m3, "scaled": True, "beta": 0.25}),
        ((72, 136, 144), {**SMALL, "a_type": e4m3, "scaled": True, "deferred": True, "sms": 1}),
        ((72, 136, 136), {**SMALL, "epilogue": options.add_bias(136, options.relu), "scaled": True}),
        ((72, 136, 136), {**SMALL, "split": 2, "beta": 0.5, "epilogue": options.add_bias(136, options.relu)}),
        ((136, 136, 72), {**SMALL, "tile": (128, 64), "consumers": "pingpong", "beta": 1.0, "sms": 1}),
        ((264, 136, 72), {"tile": (256, 64), "cluster": (1, 1), "beta": 1.0}),
    ],
)
def test_fused(shape: Shape, chosen: dict[str, Any]) -> None:
    assert not _fused(shape, chosen)


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("M", "chosen"),
    [
        (1, {**SMALL, "cluster": (2, 1)}),
        (136, {**SMALL, "sms": 1, "consumers": "pingpong"}),
        (200, {**SMALL, "split": 2}),
        (136, {**SMALL, "cluster": (1, 2), "beta": 1.0}),
    ],
)
def test_any_m(M: int, chosen: dict[str, Any]) -> None:
    assert not _fused((M, 136, 136), chosen, any_m=True)


def test_special_values() -> None:
    """NaN and infinities go where IEEE sends them, zeros stay zeros, and subnormals count."""
    a, b = harness.make_inputs(72, 72, 72)
    a[:] = np.abs(a)
    a[3, 5], a[4, 6] = np.nan, np.inf
    a[5], b[7] = 0, 0
    a[6] = 2.0**-130  # a subnormal bf16
    b[:] = np.abs(b)
    report = gemm.build_gemm(72, 72, 72, out_type=f32, **SMALL).simulate(a, b)
    d = report.outputs[0]
    assert np.isnan(d[3]).all() and np.isinf(np.delete(d[4], 7)).all() and np.isnan(d[4, 7])
    assert not d[5].any() and not d[:3, 7].any()
    assert d[6, :7].all()


# --- what is assembled --------------------------------------------------------------------------------

#: What the benchmark will try.
TUNINGS = [
    {},
    {"cluster": (1, 2)},
    {"cluster": (2, 2)},
    {"tile": (256, 128)},
    {"tile": (128, 192)},
    {"tile": (128, 224)},
    {"tile": (256, 192), "cluster": (1, 1)},
    {"tile": (192, 192), "cluster": (1, 1)},
    {"tile": (256, 192), "cluster": (2, 2)},
    {"tile": (64, 256), "consumers": "pingpong", "cluster": (4, 1)},
    {"tile": (128, 128), "consumers": "pingpong"},
    {"tile": (128, 192), "consumers": "pingpong", "cluster": (2, 2)},
    {"tile": (64, 192), "consumers": "pingpong", "out_type": f32},
    {"tile": (128, 128), "split": 2},
    {"tile": (64, 192), "cluster": (1, 1), "resident": 2},
    {"tile": (64, 96), "split": 2, "resident": 3},
    {"tile": (64, 64), "cluster": (1, 1), "resident": 4, "hints": True},
    {"hints": True},
    {"deferred": True},
    {"deferred": True, "tile": (256, 128), "cluster": (2, 2), "a_type": e4m3, "scaled": True},
    {"deferred": True, "tile": (128, 192), "cluster": (1, 2), "dependent": True, "hints": True},
    {"a_type": e4m3, "scaled": True},
    {"a_type": f32, "out_type": f32},
    {"a_major": "MN", "b_major": "MN", "hints": {"B": "evict_last", "D": "evict_first"}, "dependent": True},
    {"beta": 1.0, "epilogue": options.add_bias(8192, options.relu)},
    {"batch": 2, "a_type": f16, "out_type": f16},
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chosen", TUNINGS)
def test_assembles_as_it_was_meant(chosen: dict[str, Any], ptxas: Tool) -> None:
    kernel = gemm.build_gemm(8192, 8192, 8192, **chosen)
    assembly = kernel.assemble()
    # Notes would say that setmaxnreg was dropped (C7508) or wgmma serialized (C7510 and others).
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
def test_the_loop_over_k(ptxas: Tool, nvdisasm: Tool) -> None:
    """Between two products of the steady loop there are a handful of instructions, most of them uniform."""
    lines = [
        line.split("*/", 1)[-1].strip() for line in gemm.build_gemm(8192, 8192, 8192).sass().splitlines()
    ]
    products = [i for i, line in enumerate(lines) if line.startswith("HGMMA")]
    assert len(products) == 8
    end = next(i for i in range(products[-1], len(lines)) if "BRA" in lines[i])
    head = max(i for i in range(products[4]) if "TRYWAIT" in lines[i])
    body = [line for line in lines[head : end + 1] if line and not line.startswith(".L")]
    assert len(body) <= 40
    assert not any(line.startswith(("MOV", "R2UR", "LDS", "STS", "BAR")) for line in body)
    text = "\n".join(lines)
    assert text.count("UTMALDG.2D") == 2 and text.count("UTMALDG.2D.MULTICAST") == 1
    assert "BRA.U.ANY" not in text


def test_policies_of_one_row_of_tiles() -> None:
    """Weights that are read once leave L2 first, unless other policies, or none, are asked for."""
    problem = {"tile": (64, 64), "cluster": (1, 1)}
    assert "evict_first" in gemm.build_gemm(64, 512, 512, **problem).ptx()
    assert "evict_" not in gemm.build_gemm(64, 512, 512, hints=False, **problem).ptx()
    assert "evict_" not in gemm.build_gemm(128, 512, 512, **problem).ptx()
    assert "evict_" not in gemm.build_gemm(None, 512, 512, **problem).ptx(M=64)


def test_text_does_not_grow_with_the_problem() -> None:
    sizes = [(256, 256, 128), (8192, 8192, 8192), (65536, 1024, 65536)]
    (lines,) = {gemm.build_gemm(*size).ptx().count("\n") for size in sizes}
    assert lines < 1000


@pytest.mark.parametrize(
    ("shape", "chosen", "words"),
    [
        ((64, 64, 0), {}, "K = 0"),
        ((64, 65, 64), {}, "N = 65: rows of D have 130 bytes"),
        ((64, 64, 65), {}, "K is 65"),
        ((64, 64, 64), {"a_type": s32}, "a_type"),
        ((64, 64, 64), {"a_type": bf16, "b_type": f16}, "mixes only e4m3 and e5m2"),
        ((64, 64, 64), {"a_type": e4m3, "a_major": "MN"}, "16 bits MN-major"),
        ((64, 64, 64), {"consumers": "both"}, "consumers"),
        ((64, 64, 64), {"tile": (96, 64)}, "multiples of 64 x 8"),
        ((64, 64, 64), {"tile": (256, 256)}, "needs 256 registers"),
        ((64, 64, 64), {"tile": (128, 72), "cluster": (1, 1)}, "multiple of 16"),
        ((64, 64, 64), {"stages": 9}, "9 stages"),
        ((64, 64, 64), {"staging": 3}, "staging = 3"),
        ((64, 64, 64), {"cluster": (3, 1)}, "a CTA of the cluster"),
        ((64, 64, 64), {"split": 2, "tile": (64, 64)}, "some part would be empty"),
        ((64, 64, 128), {"split": 2, "consumers": "pingpong"}, "use 'cooperative'"),
        ((64, 64, 64), {"warpgroups": 3}, "3 warpgroups cannot share"),
        ((64, 64, 64), {"sms": 1}, "sms = 1"),
        ((64, 64, 64), {"order": "rows"}, "tile_order"),
        ((64, 64, 64), {"deferred": True, "out_type": f32}, "deferred with"),
        ((64, 64, 64), {"deferred": True, "tile": (256, 192)}, "and 96 for a tile whose store is deferred"),
        ((64, 64, 64), {"widths": (64, 1, 0)}, "more than 192"),
        ((64, 64, 64), {"widths": (232, 2, 0)}, "1 to 1"),
        ((64, 64, 64), {"widths": (256, 1, 0)}, "below 256"),
        ((64, 64, 64), {"widths": (232, 1, 1)}, "which leave some of the 64 columns"),
        ((64, 64, 64), {"widths": (232, 1, 0), "out_type": f32}, "widths with any M"),
        ((64, 64, 64), {"widths": (232, 1, 0), "split": 2}, "widths with any M"),
        ((64, 64, 64), {"hints": {"C": "evict_last"}}, "hints"),
        ((64, 64, 64), {"resident": 2}, "one consumer warpgroup"),
        ((64, 64, 64), {"tile": (64, 64), "cluster": (1, 1), "resident": 5}, "resident = 5"),
        ((64, 64, 64), {"tile": (64, 224), "cluster": (1, 1), "resident": 2}, "has 128 registers"),
    ],
)
def test_refusals(shape: Shape, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        gemm.build_gemm(*shape, **chosen)
    assert words in str(caught.value)


# --- planted bugs ---------------------------------------------------------------------------------

Change = Callable[[Instruction], Instruction | None]


def _planted(
    shape: Shape, chosen: dict[str, Any], change: Change, schedule: str = "eager"
) -> tuple[Any, bool]:
    """The report on the kernel after ``change``, and whether its product is right. Its CTAs share one SM."""
    kernel = gemm.build_gemm(*shape, **chosen)
    module = kernel.module()
    function = module.functions[0]
    body = [change(s) if isinstance(s, Instruction) else s for s in function.body]
    assert any(new is not old for new, old in zip(body, function.body, strict=True))
    changed = replace(module, functions=(replace(function, body=tuple(s for s in body if s is not None)),))
    M, N, K = shape
    (BM, BN), (CM, CN) = chosen["tile"], chosen["cluster"]
    a, b = harness.make_inputs(*shape)
    d = np.full((M, N), np.nan, harness.NUMPY[bf16])
    boxes = [(a, (BM // CN, 64)), (b, (BN // CM, 64)), (d, (16, 64))]
    ctas = chosen.get("split", CM * CN)
    report = sim.load(changed).launch(
        grid=ctas * (-(-M // BM) * -(-N // BN) if "split" in chosen else 1),
        block=384 if chosen.get("consumers") == "pingpong" else 256,
        cluster=ctas,
        dynamic_smem=232_448,
        args=[TensorMap.tiled(array, box=box, swizzle="128B") for array, box in boxes],
        schedule=schedule,
    )
    exact, magnitude = harness.reference(a, b)
    return report, harness.worst_error(exact, harness.bound(magnitude, K, a.dtype), d) <= 1


def _seen(shape: Shape, chosen: dict[str, Any], change: Change) -> bool:
    """Whether a run under some schedule is not clean, does not hold for every schedule, or is wrong."""
    for schedule in ("eager", "late"):
        report, right = _planted(shape, chosen, change, schedule)
        if report.verdict != "clean" or report.holds != "every schedule" or not right:
            return True
    return False


PINGPONG = ((72, 200, 136), {**SMALL, "sms": 1, "consumers": "pingpong"})
SPLIT = ((72, 72, 264), {**SMALL, "split": 2, "tile": (64, 128)})
SQUARE = ((136, 72, 600), {**SMALL, "cluster": (2, 2), "sms": 4, "stages": 2})


@pytest.mark.full
@pytest.mark.parametrize(("shape", "chosen"), [PINGPONG, SPLIT, SQUARE])
def test_nothing_planted_is_clean(shape: Shape, chosen: dict[str, Any]) -> None:
    report, right = _planted(shape, chosen, replace)
    assert report.verdict == "clean" and report.holds == "every schedule" and right, str(report)


@pytest.mark.full
def test_warpgroups_that_do_not_take_turns() -> None:
    """A warpgroup waits for a stage of its tile while the other's stages are in the ring."""

    def hasty(s: Instruction) -> Instruction | None:
        numbered = s.opcode == "bar" and s.operands[:1] != (Immediate(0),) and "warp" not in s.modifiers
        return None if numbered else s

    assert _seen(*PINGPONG, hasty)


@pytest.mark.full
@pytest.mark.parametrize("which", [1, 2])
def test_sums_read_before_they_are_written_or_after_the_cta_is_gone(which: int) -> None:
    kernel = gemm.build_gemm(*SPLIT[0], **SPLIT[1])
    lines = [str(s.source) for s in kernel.module().functions[0].instructions() if "cluster" in s.modifiers]
    # Before the roles; of the producer and of the consumers between writing and reading; at the end.
    drop = {1: set(lines[2:6]), 2: set(lines[6:8])}[which]

    def without(s: Instruction) -> Instruction | None:
        return None if s.opcode == "barrier" and str(s.source) in drop else s

    assert _seen(*SPLIT, without)


@pytest.mark.full
def test_stages_handed_back_to_the_own_cta_alone() -> None:
    def own(s: Instruction) -> Instruction | None:
        return Instruction("mov", ("u32",), s.operands[:2], guard=s.guard) if s.opcode == "mapa" else s

    assert _seen(*SQUARE, own)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "chosen"), [*FAST, *FULL])
def test_words_of_the_gpu_are_the_simulator_s(shape: Shape, chosen: dict[str, Any], torch: Any) -> None:
    assert harness.compare(torch, gemm.build_gemm, [(shape, chosen)])


@pytest.mark.gpu
@pytest.mark.parametrize("size", [4096, 6144, 8192])
@pytest.mark.parametrize("chosen", [{}, {"cluster": (2, 2)}, {"tile": (64, 256), "consumers": "pingpong"}])
def test_right_on_the_gpu_every_time(size: int, chosen: dict[str, Any], torch: Any) -> None:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    kernel = gemm.build_gemm(size, size, size, out_type=f32, **chosen)
    d = torch.full((size, size), float("nan"), device="cuda")
    kernel(a, b, out=d)
    wide_a, wide_b = a.double(), b.double()
    bound = size * 2.0**-23 * (wide_a.abs() @ wide_b.abs().T)
    assert bool(((d.double() - wide_a @ wide_b.T).abs() <= bound).all())
    for _ in range(10):
        again = torch.full_like(d, float("nan"))
        kernel(a, b, out=again)
        assert torch.equal(again, d)
