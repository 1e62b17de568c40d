"""RMSNorm and the TMA store: right for every length and edge, 16 bytes at a time, and each barrier is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, TensorMap, bf16, f16, f32, sim, u8
from pyptx.ir import Instruction, Module
from pyptx.toolchain import Tool

from .loading import load_example
from .row_designs import BACKWARDS, DESIGNS, on_gpu

rmsnorm = load_example("hopper/rmsnorm.py")
tma_store = load_example("hopper/tma_store.py")
NUMPY = {dtype: dtype.dtype for dtype in (f32, f16, bf16)}
SCHEDULES = [("eager", 0), ("late", 0), *(("random", seed) for seed in range(10))]
#: Less than a warp has, uneven steps, whole steps, the longest in registers, and one that is read twice.
WIDTHS = {
    f32: (1, 4, 132, 1023, 4096, 1024 * 8 * 4, 1024 * 8 * 4 + 4),
    f16: (2, 1001, 2050),
    bf16: (1, 8, 1031, 1032, 8192, 1024 * 8 * 8 + 8),
}


def _rows(dtype: ScalarType, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of very different size, of which the smallest depends on epsilon."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, width)) * [[1e-3], [1.0], [1e4 if dtype is not f16 else 1e2]]
    return x.astype(NUMPY[dtype]), rng.standard_normal(width).astype(NUMPY[dtype])


def _normalized(x: np.ndarray, weight: np.ndarray, dtype: ScalarType, **schedule: Any) -> np.ndarray:
    y = np.full_like(x, np.nan)
    report = rmsnorm.build_rmsnorm(x.shape[1], dtype=dtype).simulate(x, weight, out=y, **schedule)
    assert report.verdict == "clean", str(report)
    return y


@pytest.mark.parametrize(
    ("dtype", "width"),
    [
        (f32, 132),
        (f32, 131),
        (f32, 1024 * 8 * 4),
        (f32, 1024 * 8 * 4 + 4),
        (f16, 1002),
        (bf16, 8),
        (bf16, 1032),
        (bf16, 1024 * 8 * 8 + 8),
    ],
)
def test_rows_of_any_length(dtype: ScalarType, width: int) -> None:
    x, weight = _rows(dtype, width, width)
    assert rmsnorm.worst_error(x, weight, _normalized(x, weight, dtype, schedule="late")) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_rows_under_every_schedule(dtype: ScalarType, schedule: str, seed: int) -> None:
    for width in WIDTHS[dtype]:
        x, weight = _rows(dtype, width, seed)
        y = _normalized(x, weight, dtype, schedule=schedule, seed=seed)
        assert rmsnorm.worst_error(x, weight, y) <= 1


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs(dtype: ScalarType, design: str) -> None:
    """Nine rows, so that every ring wraps around and a block of teams is not full."""
    tuning = DESIGNS[design]
    x, weight = rmsnorm.make_inputs(9, 1024, dtype=dtype)
    kernel = rmsnorm.build_rmsnorm(1024, dtype=dtype, **tuning)
    for schedule, seed in (("late", 0), ("random", 1)):
        (y,) = rmsnorm.simulated(kernel, x, weight, schedule=schedule, seed=seed)
        assert rmsnorm.worst_error(x, weight, y, **tuning) <= 1


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("design", DESIGNS)
def test_designs_assemble_without_spills(design: str, ptxas: Tool) -> None:
    for dtype in (f32, f16, bf16):
        for width in (1024, 8192) if "teams" not in DESIGNS[design] else (1024,):
            tuning = {**DESIGNS[design], "threads": 256} if width > 1024 else DESIGNS[design]
            assembly = rmsnorm.build_rmsnorm(width, dtype=dtype, **tuning).assemble(M=100)
            assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [bf16, f32, f16])
@pytest.mark.parametrize(
    "tuning", [{}, {"held": 1, "threads": 32}, {"threads": 32, "design": "ring", "ctas": 2}]
)
def test_norm_of_a_sum(dtype: ScalarType, tuning: dict[str, Any]) -> None:
    x, residual, weight = rmsnorm.make_inputs(5, 512, dtype=dtype, residual=True)
    kernel = rmsnorm.build_rmsnorm(512, dtype=dtype, residual=True, statistics=True, **tuning)
    y, s, rstd = rmsnorm.simulated(kernel, x, residual, weight)
    exact = (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype.dtype)
    assert np.array_equal(s, exact)
    assert rmsnorm.worst_error(exact, weight, y) <= 1
    assert np.allclose(rstd, 1 / np.sqrt(np.mean(exact.astype(np.float64) ** 2, axis=1) + 1e-5), rtol=1e-5)


@pytest.mark.one_in(8)
@pytest.mark.sample(1)
@pytest.mark.parametrize("design", BACKWARDS)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("residual", [False, True])
def test_backward(dtype: ScalarType, design: str, residual: bool) -> None:
    tuning = BACKWARDS[design]
    x, dy, weight = rmsnorm.make_inputs(7, 512, dtype=dtype, residual=True)
    ds = rmsnorm.make_inputs(7, 512, 1, dtype=dtype)[0] if residual else None
    rstd = (1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1) + 1e-5)).astype(np.float32)
    dx, dweight = rmsnorm.backward(x, dy, weight, rstd, ds, run=rmsnorm.simulated, dtype=dtype, **tuning)
    assert rmsnorm.worst_gradient_error(x, dy, weight, dx, dweight, ds, **tuning) <= 1
    again = rmsnorm.backward(x, dy, weight, rstd, ds, run=rmsnorm.simulated, dtype=dtype, **tuning)
    assert np.array_equal(dx, again[0]) and np.array_equal(dweight, again[1])


def test_backward_of_an_odd_width() -> None:
    x, dy, weight = rmsnorm.make_inputs(3, 331, dtype=bf16, residual=True)
    rstd = (1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1) + 1e-5)).astype(np.float32)
    dx, dweight = rmsnorm.backward(x, dy, weight, rstd, run=rmsnorm.simulated, dtype=bf16, ctas=2)
    assert rmsnorm.worst_gradient_error(x, dy, weight, dx, dweight, ctas=2) <= 1


def test_a_backward_with_too_many_columns_is_refused() -> None:
    with pytest.raises(PyptxError, match="sums of 8192 columns"):
        rmsnorm.build_rmsnorm_backward(65600).ptx(M=1)


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("width", [1000, 8192, 8191, 65536])
def test_backwards_assemble_without_spills(width: int, dtype: ScalarType, ptxas: Tool) -> None:
    for residual in (False, True):
        assembly = rmsnorm.build_rmsnorm_backward(width, dtype=dtype, residual=residual).assemble(M=100)
        assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_numbers_that_are_none() -> None:
    """NaN and infinities spread over their row, as in the reference; zeros and subnormal numbers give no NaN."""
    x, weight = rmsnorm.make_inputs(5, 256)
    x[0, 3], x[1, 5], x[2], x[3] = np.nan, np.inf, 0, 1e-40
    (y,) = rmsnorm.simulated(rmsnorm.build_rmsnorm(256), x, weight)
    with np.errstate(invalid="ignore"):
        exact = rmsnorm.reference(x, weight)
    assert np.array_equal(np.isnan(exact), np.isnan(y))
    assert rmsnorm.worst_error(x[2:], weight, y[2:]) <= 1


def test_a_wrong_normalization_is_seen() -> None:
    """The bound is tight: without epsilon, or with one element less in the mean, the result is outside."""
    x, weight = _rows(f32, 4096, 0)
    for epsilon, scale in ((0.0, 1.0), (1e-5, (4095 / 4096) ** 0.5)):
        near = (rmsnorm.reference(x, weight, epsilon) * scale).astype(np.float32)
        assert rmsnorm.worst_error(x, weight, near) > 1
    assert rmsnorm.worst_error(x, weight, rmsnorm.reference(x, weight).astype(np.float32)) <= 1


@pytest.mark.full
def test_memory_is_moved_16_bytes_at_a_time(ptxas: Tool, nvdisasm: Tool) -> None:
    steps = 4
    for dtype in (f32, bf16):
        kernel = rmsnorm.build_rmsnorm(8192, dtype=dtype)
        assembly = kernel.assemble(M=8192)
        assert not assembly.spills and not assembly.warnings and not assembly.notes
        sass = kernel.sass(M=8192)
        # The weights and the result; nothing narrower. A bulk copy brings the row, and L2 gets a later one.
        loads, stores = ([line for line in sass.splitlines() if name in line] for name in ("LDG.", "STG."))
        assert len(loads) == len(stores) == steps
        assert all(".128" in line for line in loads + stores)
        assert sass.count("UBLKCP") == sass.count("UBLKPF") == 1


def test_the_text_of_long_rows_is_constant() -> None:
    (lines,) = {
        rmsnorm.build_rmsnorm(width).ptx(M=1).count("\n")
        for width in ((1 << 17) + 4, (1 << 20) + 4, (1 << 28) + 4)
    }
    assert lines < 300


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (0, {}, ("width is 0", "positive")),
        (1024, {"threads": 48}, ("size is 48", "multiple of 32")),
        (1024, {"dtype": u8}, ("dtype", "expected f32, f16, bf16")),
        (1022, {"dtype": bf16, "design": "ring"}, ("2044 bytes", "multiples of 16", "design='registers'")),
        (65536, {"design": "ring", "threads": 512}, ("bytes of shared memory", "fewer stages")),
        (1024, {"cluster": 3}, ("cluster is 3",)),
    ],
)
def test_rows_that_do_not_fit(arguments: int, options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(PyptxError) as caught:
        rmsnorm.build_rmsnorm(arguments, **options)
    assert all(word in str(caught.value) for word in words)


# --- the TMA store --------------------------------------------------------------------------------


def _vectors(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    return rng.standard_normal(rows).astype(np.float32), rng.standard_normal(columns).astype(np.float32)


def _stored(rows: int, columns: int, **schedule: Any) -> bool:
    x, y = _vectors(rows, columns)
    d = np.full((rows, columns), np.nan, np.float32)
    report = tma_store.outer.simulate(x, y, rows, columns, out=d, **schedule)
    assert report.verdict == "clean", str(report)
    return np.array_equal(d, np.outer(x, y))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(1, 4), (64, 256), (63, 260), (130, 508)])
def test_boxes_and_edges(shape: tuple[int, int]) -> None:
    assert _stored(*shape, schedule="late") and _stored(*shape, schedule="random", seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, ("starve:tma", 0)])
@pytest.mark.parametrize("shape", [(1, 4), (64, 256), (63, 260), (200, 1100)])
def test_stores_under_every_schedule(shape: tuple[int, int], schedule: str, seed: int) -> None:
    assert _stored(*shape, schedule=schedule, seed=seed)


def test_rows_that_a_tensor_map_cannot_have() -> None:
    x, y = _vectors(8, 30)
    with pytest.raises(PyptxError, match="multiple of 16"):
        tma_store.outer.simulate(x, y, 8, 30)


def test_the_store_assembles_without_spills_or_warnings(ptxas: Tool) -> None:
    assembly = tma_store.outer.assemble(M=100, N=100)
    assert not assembly.spills and not assembly.warnings and not assembly.notes


# --- planted bugs ---------------------------------------------------------------------------------


def _without(module: Module, drop: Callable[[Instruction], bool]) -> Module:
    function = module.functions[0]
    body = tuple(s for s in function.body if not (isinstance(s, Instruction) and drop(s)))
    assert len(body) < len(function.body)
    return replace(module, functions=(replace(function, body=body),))


def test_a_stage_overwritten_before_it_was_read() -> None:
    """Without wait_group.read the engine stores what a later box has written."""
    module = _without(tma_store.outer.module(M=64, N=256), lambda s: "wait_group" in s.modifiers)
    x, y = _vectors(64, 256)
    d = np.full((64, 256), np.nan, np.float32)
    arguments = [x, y, 64, 256, TensorMap.tiled(d, box=(64, 32), swizzle="128B")]
    sim.load(module).launch(grid=1, block=128, args=arguments, schedule="late")
    assert not np.array_equal(d, np.outer(x, y))


def test_sums_read_before_they_were_written() -> None:
    """Without the barrier a warp adds up what others have not stored."""
    module = _without(rmsnorm.build_rmsnorm(4096, threads=256).module(M=1), lambda s: s.opcode == "bar")
    x, weight = _rows(f32, 4096, 0)
    y = np.full((1, 4096), np.nan, np.float32)
    report = sim.load(module).launch(grid=1, block=256, args=[x[:1], weight, y], schedule="random", seed=1)
    assert "uninitialized-read" in {finding.rule.name for finding in report.findings}


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_rows_on_the_gpu(dtype: ScalarType, torch: Any) -> None:
    for width in WIDTHS[dtype]:
        x, weight = _rows(dtype, width, width)
        kind = {f32: torch.float32, f16: torch.float16, bf16: torch.bfloat16}[dtype]
        there = [torch.from_numpy(v.astype(np.float32)).to(kind).cuda() for v in (x, weight)]
        y = rmsnorm.build_rmsnorm(width, dtype=dtype)(*there)
        assert rmsnorm.worst_error(x, weight, y.float().cpu().numpy().astype(NUMPY[dtype])) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_designs_on_the_gpu(dtype: ScalarType, design: str, torch: Any) -> None:
    tuning = DESIGNS[design]
    x, residual, weight = rmsnorm.make_inputs(333, 1024, dtype=dtype, residual=True)
    kernel = rmsnorm.build_rmsnorm(1024, dtype=dtype, **tuning)
    (y,) = on_gpu(torch, kernel, x, weight)
    assert rmsnorm.worst_error(x, weight, y, **tuning) <= 1
    assert all(np.array_equal(y, on_gpu(torch, kernel, x, weight)[0]) for _ in range(5))
    if "ahead" not in tuning:
        y, s = on_gpu(
            torch, rmsnorm.build_rmsnorm(1024, dtype=dtype, residual=True, **tuning), x, residual, weight
        )
        assert np.array_equal(s, (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype.dtype))
        assert rmsnorm.worst_error(s, weight, y, **tuning) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize(
    "tuning",
    [{}, {"design": "ring", "stages": 2}, {"design": "ring", "stages": 3, "store": "bulk", "cluster": 2}],
)
@pytest.mark.parametrize(("M", "N"), [(7, 1024), (2048, 8192)])
def test_backward_on_the_gpu(M: int, N: int, tuning: dict[str, Any], dtype: ScalarType, torch: Any) -> None:
    x, dy, weight = rmsnorm.make_inputs(M, N, dtype=dtype, residual=True)
    rstd = (1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1) + 1e-5)).astype(np.float32)

    def run() -> Any:
        return rmsnorm.backward(
            x, dy, weight, rstd, run=lambda *given: on_gpu(torch, *given), dtype=dtype, **tuning
        )

    dx, dweight = run()
    assert rmsnorm.worst_gradient_error(x, dy, weight, dx, dweight, **tuning) <= 1
    for _ in range(5):
        assert all(np.array_equal(a, b) for a, b in zip((dx, dweight), run(), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1, 4), (64, 256), (63, 260), (4001, 3004)])
def test_stores_on_the_gpu(shape: tuple[int, int], torch: Any) -> None:
    x, y = (torch.from_numpy(v).cuda() for v in _vectors(*shape))
    d = torch.full(shape, float("nan"), device="cuda")
    tma_store.outer(x, y, *shape, out=d)
    assert torch.equal(d, torch.outer(x, y))
