"""Cross-entropy: loss and gradient for every width, type and design, in place and not, and special rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, bf16, f16, f32, s32, s64
from pyptx.toolchain import Tool

from .entropy_checks import check_rows_that_do_not_count
from .loading import load_example
from .row_designs import DESIGNS, GPU_SHAPES, on_gpu

entropy = load_example("hopper/cross_entropy.py")
#: Designs for a kernel that overwrites its rows: one team for each ring.
ONE_TEAM = [name for name, tuning in DESIGNS.items() if "design" not in tuning or tuning.get("teams", 1) == 1]


def right(
    M: int, V: int, dtype: ScalarType, how: str | None, schedule: str = "random", **tuning: Any
) -> bool:
    x, target, factor = entropy.make_inputs(M, V, dtype=dtype)
    kernel = entropy.build_cross_entropy(V, dtype=dtype, gradient=how, **tuning)
    given = (target,) if how is None else (target, factor)
    after, *outputs = entropy.simulated(kernel, x, *given, schedule=schedule)
    loss, lse = outputs[-2:]
    gradient = {"in place": after, "output": outputs[0], None: None}[how]
    if how != "in place" and not np.array_equal(after, x):
        return False
    return bool(entropy.worst_error(x, target, factor, gradient, loss, lse, **tuning) <= 1)


@pytest.mark.one_in(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize("how", entropy.GRADIENTS)
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("width", [2, 8, 333, 1030, 2048])
def test_widths(width: int, dtype: ScalarType, how: str | None) -> None:
    assert right(5, width, dtype, how)


@pytest.mark.one_in(3)
@pytest.mark.sample(4)
@pytest.mark.parametrize("design", ONE_TEAM)
@pytest.mark.parametrize("how", ["in place", "output"])
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs(dtype: ScalarType, how: str, design: str) -> None:
    assert right(5, 1024, dtype, how, "late", **DESIGNS[design])


@pytest.mark.parametrize("how", ["in place", "output"])
def test_rows_that_are_read_twice(how: str) -> None:
    assert right(2, 5000, f32, how, threads=32) and right(2, 1029, bf16, how, threads=32)


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize(("V", "dtype"), [(16384, bf16), (20480, f32)])
def test_wide_rows_wait_in_shared_memory(V: int, dtype: ScalarType) -> None:
    """In one CTA, and in a cluster."""
    assert entropy.in_shared_memory(V, dtype).get("cluster", 1) == (1 if dtype is bf16 else 2)
    assert right(2, V, dtype, "output")


@pytest.mark.full
@pytest.mark.parametrize(
    ("V", "dtype", "tuning"),
    [
        (40, bf16, {"threads": 32, "cluster": 2}),
        (40, f32, {"threads": 32, "cluster": 4}),
        (528, bf16, {"threads": 32, "cluster": 2, "held": 1}),
    ],
)
def test_every_target_of_a_row_in_a_cluster(V: int, dtype: ScalarType, tuning: dict[str, Any]) -> None:
    """Lanes past the slice of a CTA count as columns of the next CTA, and hold no logit."""
    x, _, factor = entropy.make_inputs(V, V, dtype=dtype)
    target = np.arange(V) if V < 100 else np.arange(0, V, 8)
    x = x[: len(target)]
    kernel = entropy.build_cross_entropy(V, dtype=dtype, gradient="output", **tuning)
    _, gradient, loss, lse = entropy.simulated(kernel, x, target, factor)
    assert entropy.worst_error(x, target, factor, gradient, loss, lse, **tuning) <= 1


@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("target_dtype", [s32, s64])
def test_rows_that_do_not_count(target_dtype: ScalarType, dtype: ScalarType) -> None:
    kernel = entropy.build_cross_entropy(256, dtype=dtype, target_dtype=target_dtype)
    check_rows_that_do_not_count(256, dtype, target_dtype, partial(entropy.simulated, kernel))


def test_special_numbers() -> None:
    x, target, factor = entropy.make_inputs(5, 256, dtype=f32)
    x[0, 3], x[1, 5], x[2], x[3, 1:], x[4, 7] = np.nan, np.inf, -np.inf, -np.inf, 3e38
    target[:] = 0, 0, 0, 0, 7
    gradient, loss, _ = entropy.simulated(entropy.build_cross_entropy(256, dtype=f32), x, target, factor)
    with np.errstate(invalid="ignore"):
        exact = entropy.reference(x, target, factor)
    assert np.array_equal(np.isnan(gradient), np.isnan(exact[0])) and np.isnan(loss[:3]).all()
    assert np.allclose(gradient[3:], exact[0][3:], rtol=1e-6) and np.allclose(
        loss[3:], exact[1][3:], atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"gradient": "inplace"}, "'in place'"),
        ({"target_dtype": f32}, "s32 or s64"),
        ({"design": "ring", "threads": 32, "teams": 2, "stages": 2}, "one team"),
    ],
)
def test_what_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(PyptxError) as caught:
        entropy.build_cross_entropy(1024, **options).ptx(M=4)
    assert word in str(caught.value)


@pytest.mark.one_in(5)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("how", entropy.GRADIENTS)
@pytest.mark.parametrize("width", [8192, 32768, 50257, 128256])
def test_assembles_without_spills(width: int, how: str | None, dtype: ScalarType, ptxas: Tool) -> None:
    assembly = entropy.build_cross_entropy(width, dtype=dtype, gradient=how).assemble(M=100)
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize(("M", "V"), [*GPU_SHAPES, (64, 128256)])
def test_on_the_gpu(M: int, V: int, dtype: ScalarType) -> None:
    torch = pytest.importorskip("torch")
    x, target, factor = entropy.make_inputs(M, V, dtype=dtype)
    kernel = entropy.build_cross_entropy(V, dtype=dtype, gradient="output")
    gradient, loss, lse = on_gpu(torch, lambda x, target: kernel(x, target, float(factor)), x, target)
    assert entropy.worst_error(x, target, factor, gradient, loss, lse) <= 1
