"""SwiGLU: right for every width, type and design, from two matrices and from one, and its backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, Tile, bf16, f16, f32, kernel, kit, ptx
from pyptx.toolchain import Tool

from .loading import load_example
from .row_designs import DESIGNS, GPU_SHAPES, on_gpu

swiglu = load_example("hopper/swiglu.py")


def right(
    M: int, N: int, dtype: ScalarType, *, packed: bool, schedule: str = "random", **tuning: Any
) -> bool:
    gate, up, dy = swiglu.make_inputs(M, N, dtype=dtype)
    inputs = (np.concatenate([gate, up], axis=1),) if packed else (gate, up)
    forward, backward = (
        build(N, dtype=dtype, packed=packed, **tuning)
        for build in (swiglu.build_swiglu, swiglu.build_swiglu_backward)
    )
    (y,) = swiglu.simulated(forward, *inputs, schedule=schedule)
    gradients = swiglu.simulated(backward, *inputs, dy, schedule=schedule)
    dgate, dup = np.split(gradients[0], 2, axis=1) if packed else gradients
    return bool(
        swiglu.worst_error(gate, up, y) <= 1 and swiglu.worst_gradient_error(gate, up, dy, dgate, dup) <= 1
    )


@pytest.mark.sample(3)
@pytest.mark.one_in(5)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("width", [1, 8, 333, 1030, 2048])
def test_widths(width: int, dtype: ScalarType, packed: bool) -> None:
    assert right(3, width, dtype, packed=packed)


@pytest.mark.sample(3)
@pytest.mark.one_in(10)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs(dtype: ScalarType, design: str, packed: bool) -> None:
    assert right(5, 1024, dtype, packed=packed, schedule="late", **DESIGNS[design])


@pytest.mark.one_in(3)
@pytest.mark.sample(4)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize(
    "tuning",
    [
        {"parts": 4, "threads": 64},
        {"parts": 2, "threads": 32, "teams": 2},
        {"parts": 2, "threads": 64, "ctas": 2, "ahead": True},
        {"parts": 4, "threads": 32, "ctas": 3, "design": "ring", "stages": 2, "store": "bulk"},
        {"parts": 2, "threads": 32, "ctas": 3, "design": "ring", "stages": 2},
        {"parts": 2, "threads": 32, "cluster": 2},
    ],
)
def test_parts_of_rows(dtype: ScalarType, packed: bool, tuning: dict[str, Any]) -> None:
    assert right(3, 1024, dtype, packed=packed, schedule="late", **tuning)


def test_wide_rows_are_divided() -> None:
    """Parts have 4 KiB of a matrix or more; odd and narrow rows stay whole."""
    for width, dtype, parts in (
        (8192, f32, 8),
        (8192, bf16, 4),
        (14336, f32, 8),
        (14336, bf16, 4),
        (2048, f32, 2),
        (333, f32, 1),
        (40004, f32, 1),
    ):
        plan = kit.RowPlan.make(width, [dtype] * 2, [dtype], **swiglu.sizes(width, dtype, {}))
        assert plan.parts == parts
        assert (plan.design == "ring") == (parts > 1)


def test_special_numbers() -> None:
    """NaN, infinities and gates far from zero give what the formula gives."""
    gate, up, _ = swiglu.make_inputs(1, 64)
    gate[0, :8] = np.nan, np.inf, -np.inf, -100, 100, 3e38, 0, 1e-40
    up[0, 3:8] = 1
    (y,) = swiglu.simulated(swiglu.build_swiglu(64), gate, up)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = swiglu.reference(gate, up)
    assert np.array_equal(np.isnan(y), np.isnan(exact))
    assert np.isinf(y[0, 1]) and np.allclose(y[0, 3:], exact[0, 3:], rtol=1e-6, atol=1e-36)


def test_halves_must_fit_the_pieces() -> None:
    """The right half of a matrix of 2 * 6 columns begins in the middle of a piece of a plan for 8 columns."""
    plan = kit.RowPlan.make(8, [f32], [f32])

    @kernel(in_specs=(Tile("M", 14, f32),), out_specs=(Tile("M", 8, f32),), block=32, arch="sm_90a")
    def half(X, Y):  # type: ignore[no-untyped-def]
        kit.RowStream(plan, X.extent(0), [kit.RowSlice(X, 6)], [Y])
        ptx.ret()

    with pytest.raises(PyptxError, match=r"multiples=\(14, 6\)"):
        half.ptx(M=1)


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize(
    ("width", "tuning"),
    [
        (8192, {}),
        (16384, {}),
        (32768, {}),
        (8192, {"threads": 512, "design": "ring", "stages": 2, "cluster": 2}),
    ],
)
def test_assembles_without_spills(width: int, tuning: dict[str, Any], dtype: ScalarType, ptxas: Tool) -> None:
    for build in (swiglu.build_swiglu, swiglu.build_swiglu_backward):
        for packed in (False, True):
            assembly = build(width, dtype=dtype, packed=packed, **tuning).assemble(M=100)
            assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize(("M", "N"), GPU_SHAPES)
def test_on_the_gpu(M: int, N: int, dtype: ScalarType) -> None:
    torch = pytest.importorskip("torch")
    gate, up, dy = swiglu.make_inputs(M, N, dtype=dtype)
    (y,) = on_gpu(torch, swiglu.build_swiglu(N, dtype=dtype), gate, up)
    gradients = on_gpu(torch, swiglu.build_swiglu_backward(N, dtype=dtype), gate, up, dy)
    assert swiglu.worst_error(gate, up, y) <= 1
    assert swiglu.worst_gradient_error(gate, up, dy, *gradients) <= 1
