"""Softmax: right for every width, type and design, for special numbers, and its backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import ScalarType, bf16, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example
from .row_designs import DESIGNS, GPU_SHAPES, on_gpu

softmax = load_example("hopper/softmax.py")


def right(M: int, N: int, dtype: ScalarType, schedule: str = "random", **tuning: Any) -> bool:
    x, dy = softmax.make_inputs(M, N, dtype=dtype)
    x = (x * np.float32(8)).astype(dtype.dtype)
    (y,) = softmax.simulated(softmax.build_softmax(N, dtype=dtype, **tuning), x, schedule=schedule)
    (dx,) = softmax.simulated(
        softmax.build_softmax_backward(N, dtype=dtype, **tuning), y, dy, schedule=schedule
    )
    return bool(
        softmax.worst_error(x, y, **tuning) <= 1 and softmax.worst_gradient_error(y, dy, dx, **tuning) <= 1
    )


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("width", [1, 8, 333, 1030, 2048])
def test_widths(width: int, dtype: ScalarType) -> None:
    assert right(3, width, dtype)


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs(dtype: ScalarType, design: str) -> None:
    assert right(5, 1024, dtype, "late", **DESIGNS[design])


def test_rows_that_are_read_twice() -> None:
    assert right(2, 5000, f32, threads=32) and right(2, 1029, bf16, threads=32)


def test_special_numbers() -> None:
    """NaN and plus infinity make the row NaN, and so do rows of minus infinity; huge and tiny numbers do not."""
    for tuning in ({}, {"threads": 32, "held": 1}):
        x, _ = softmax.make_inputs(7, 256)
        x[0, 3], x[1, 5], x[2], x[3, 1:], x[4, 7] = np.nan, np.inf, -np.inf, -np.inf, 3e38
        x[5], x[6] = 1e-40, -3e38
        (y,) = softmax.simulated(softmax.build_softmax(256, **tuning), x)
        with np.errstate(invalid="ignore"):
            exact = softmax.reference(x)
        assert np.array_equal(np.isnan(y), np.isnan(exact)), tuning
        assert np.allclose(y[3:], exact[3:], rtol=1e-6)


def test_a_wrong_sum_is_seen() -> None:
    x, _ = softmax.make_inputs(2, 1024)
    y = softmax.reference(x).astype(np.float32)
    assert softmax.worst_error(x, y) <= 1 < softmax.worst_error(x, y * np.float32(1 + 2.0**-18))


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize(
    ("width", "tuning"),
    [
        (8192, {}),
        (32768, {}),
        (128256, {"cluster": 4}),
        (8192, {"threads": 256, "design": "ring", "store": "bulk", "stages": 2}),
        (8192, {"threads": 512, "ctas": 264, "ahead": True, "resident": 1}),
    ],
)
def test_assembles_without_spills(width: int, tuning: dict[str, Any], dtype: ScalarType, ptxas: Tool) -> None:
    for build in (softmax.build_softmax, softmax.build_softmax_backward):
        if build is softmax.build_softmax_backward and "design" in tuning:
            tuning = {**tuning, "store": "direct"}
        assembly = build(width, dtype=dtype, **tuning).assemble(M=100)
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize(("M", "N"), GPU_SHAPES)
def test_on_the_gpu(M: int, N: int, dtype: ScalarType) -> None:
    torch = pytest.importorskip("torch")
    x, dy = softmax.make_inputs(M, N, dtype=dtype)
    (y,) = on_gpu(torch, softmax.build_softmax(N, dtype=dtype), x)
    (dx,) = on_gpu(torch, softmax.build_softmax_backward(N, dtype=dtype), y, dy)
    assert softmax.worst_error(x, y) <= 1 and softmax.worst_gradient_error(y, dy, dx) <= 1
