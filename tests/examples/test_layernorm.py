"""LayerNorm: right for every width, type and design, for rows with a large mean, and its backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, bf16, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example
from .row_designs import BACKWARDS, DESIGNS, GPU_SHAPES, on_gpu

layernorm = load_example("hopper/layernorm.py")


def right(M: int, N: int, dtype: ScalarType, schedule: str = "random", **tuning: Any) -> bool:
    x, _, weight, bias = layernorm.make_inputs(M, N, dtype=dtype)
    kernel = layernorm.build_layernorm(N, dtype=dtype, **tuning)
    (y,) = layernorm.simulated(kernel, x, weight, bias, schedule=schedule)
    return bool(layernorm.worst_error(x, weight, bias, y, **tuning) <= 1)


@pytest.mark.sample(3)
@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("width", [2, 8, 333, 1030, 2048])
def test_widths(width: int, dtype: ScalarType) -> None:
    assert right(3, width, dtype)


@pytest.mark.sample(1)
@pytest.mark.one_in(16)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs(dtype: ScalarType, design: str) -> None:
    assert right(5, 1024, dtype, "late", **DESIGNS[design])


def test_rows_that_are_read_again() -> None:
    assert right(2, 5000, f32, threads=32) and right(2, 1029, bf16, threads=32)


def test_a_mean_that_is_far_larger_than_the_deviation() -> None:
    """The differences of the sum of squares and the square of the sum would have no correct bit here."""
    x, _, weight, bias = layernorm.make_inputs(3, 1024)
    x = (x + np.float32(1e5)).astype(np.float32)
    (y,) = layernorm.simulated(layernorm.build_layernorm(1024), x, weight, bias)
    assert layernorm.worst_error(x, weight, bias, y) <= 1
    assert np.allclose(y, layernorm.reference(x, weight, bias), atol=0.05)


@pytest.mark.parametrize(("width", "threads", "barriers"), [(2048, 128, 1), (2048, 64, 2), (2040, 128, 2)])
def test_mean_and_variance_take_one_reduction(width: int, threads: int, barriers: int) -> None:
    """Up to 16 elements of a thread, the same number in each."""
    text = layernorm.build_layernorm(width, threads=threads).ptx(M=3)
    assert text.count("bar.sync") == barriers


def test_special_numbers() -> None:
    """NaN and infinities make their row NaN, as in the reference; equal elements give the bias."""
    x, _, weight, bias = layernorm.make_inputs(5, 256)
    x[0, 3], x[1, 5], x[2], x[3] = np.nan, np.inf, 7, 1e-40
    (y,) = layernorm.simulated(layernorm.build_layernorm(256), x, weight, bias)
    assert np.isnan(y[:2]).all() and np.array_equal(y[2], bias)
    assert layernorm.worst_error(x[2:], weight, bias, y[2:]) <= 1


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", [bf16, f32, f16])
@pytest.mark.parametrize(
    "tuning", [{}, {"held": 1, "threads": 32}, {"threads": 32, "design": "ring", "ctas": 2}]
)
def test_norm_of_a_sum(dtype: ScalarType, tuning: dict[str, Any]) -> None:
    x, residual, weight, bias = layernorm.make_inputs(5, 512, dtype=dtype)
    kernel = layernorm.build_layernorm(512, dtype=dtype, residual=True, statistics=True, **tuning)
    y, s, mean, _ = layernorm.simulated(kernel, x, residual, weight, bias)
    exact = (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype.dtype)
    assert np.array_equal(s, exact)
    assert layernorm.worst_error(exact, weight, bias, y, **tuning) <= 1
    assert np.allclose(mean, layernorm.statistics_of(exact)[0][:, 0], rtol=1e-4, atol=1e-5)


def test_statistics() -> None:
    x, _, weight, bias = layernorm.make_inputs(4, 500, dtype=bf16)
    kernel = layernorm.build_layernorm(500, dtype=bf16, statistics=True)
    _, mean, rstd = layernorm.simulated(kernel, x, weight, bias)
    exact = layernorm.statistics_of(x)
    assert np.allclose(mean, exact[0][:, 0], rtol=1e-5) and np.allclose(rstd, exact[1][:, 0], rtol=1e-5)


@pytest.mark.full
@pytest.mark.one_in(16)
@pytest.mark.sample(1)
@pytest.mark.parametrize("design", BACKWARDS)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("residual", [False, True])
def test_backward(dtype: ScalarType, design: str, residual: bool) -> None:
    gradients_are_right(7, 512, dtype, residual=residual, **BACKWARDS[design])


@pytest.mark.parametrize("dtype", [bf16, f32])
def test_backward_of_an_odd_width(dtype: ScalarType) -> None:
    gradients_are_right(3, 331, dtype, ctas=2)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [bf16, f32])
def test_backward_of_wide_rows(dtype: ScalarType) -> None:
    """Most of the 128 CTAs have no row, and store zeros."""
    gradients_are_right(5, 2056, dtype)


def gradients_are_right(M: int, N: int, dtype: ScalarType, *, residual: bool = False, **tuning: Any) -> None:
    x, dy, weight, _ = layernorm.make_inputs(M, N, dtype=dtype)
    ds = layernorm.make_inputs(M, N, 1, dtype=dtype)[1] if residual else None
    mean, rstd = (each[:, 0].astype(np.float32) for each in layernorm.statistics_of(x))
    run = lambda: layernorm.backward(  # noqa: E731
        x, dy, weight, mean, rstd, ds, run=layernorm.simulated, dtype=dtype, **tuning
    )
    gradients = run()
    assert layernorm.worst_gradient_error(x, dy, weight, *gradients, ds, **tuning) <= 1
    assert all(np.array_equal(a, b) for a, b in zip(gradients, run(), strict=True))


def test_a_backward_with_too_many_columns_is_refused() -> None:
    with pytest.raises(PyptxError, match="sums of 8192 columns"):
        layernorm.build_layernorm_backward(65600).ptx(M=1)


@pytest.mark.one_in(8)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("width", [1000, 8191, 8192, 32768, 65536])
def test_assembles_without_spills(width: int, dtype: ScalarType, ptxas: Tool) -> None:
    kernels = [
        build(width, dtype=dtype, residual=residual)
        for build in (layernorm.build_layernorm, layernorm.build_layernorm_backward)
        for residual in (False, True)
    ]
    if width == 8192:
        kernels.append(
            layernorm.build_layernorm(
                width, dtype=dtype, threads=256, design="ring", store="bulk", stages=2, statistics=True
            )
        )
    for kernel in kernels:
        assembly = kernel.assemble(M=100)
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize(("M", "N"), GPU_SHAPES)
def test_on_the_gpu(M: int, N: int, dtype: ScalarType) -> None:
    torch = pytest.importorskip("torch")
    x, dy, weight, bias = layernorm.make_inputs(M, N, dtype=dtype)
    (y,) = on_gpu(torch, layernorm.build_layernorm(N, dtype=dtype), x, weight, bias)
    assert layernorm.worst_error(x, weight, bias, y) <= 1
    mean, rstd = (each[:, 0].astype(np.float32) for each in layernorm.statistics_of(x))
    run = lambda kernel, *arrays: on_gpu(torch, kernel, *arrays)  # noqa: E731
    gradients = layernorm.backward(x, dy, weight, mean, rstd, run=run, dtype=dtype)
    assert layernorm.worst_gradient_error(x, dy, weight, *gradients) <= 1
