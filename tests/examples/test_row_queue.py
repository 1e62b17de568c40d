"""Kernels on rows whose CTAs take rows from a queue: right under several schedules, without spills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import ScalarType, bf16, f32, kit
from pyptx.toolchain import Tool

from .loading import load_example
from .row_designs import on_gpu

rmsnorm, layernorm, softmax, swiglu = (
    load_example(f"hopper/{name}.py") for name in ("rmsnorm", "layernorm", "softmax", "swiglu")
)
QUEUE: dict[str, Any] = {"threads": 64, "ctas": 3, "design": "ring", "stages": 2, "queue": True}
STORES = ("direct", "bulk")
#: Builders, by name.
BUILDERS = {
    "rmsnorm": rmsnorm.build_rmsnorm,
    "layernorm": layernorm.build_layernorm,
    "softmax": softmax.build_softmax,
    "swiglu": swiglu.build_swiglu,
    "softmax backward": softmax.build_softmax_backward,
    "swiglu backward": swiglu.build_swiglu_backward,
}


def inputs(name: str, rows: int, width: int, dtype: ScalarType) -> tuple[np.ndarray, ...]:
    if name == "softmax backward":
        x, dy = softmax.make_inputs(rows, width, dtype=dtype)
        return softmax.reference(x).astype(dtype.dtype), dy
    if name == "softmax":
        return (softmax.make_inputs(rows, width, dtype=dtype)[0],)
    if name.startswith("swiglu"):
        return tuple(swiglu.make_inputs(rows, width, dtype=dtype)[: 3 if "backward" in name else 2])
    if name == "layernorm":
        x, _, weight, bias = layernorm.make_inputs(rows, width, dtype=dtype)
        return x, weight, bias
    return tuple(rmsnorm.make_inputs(rows, width, dtype=dtype))


@pytest.mark.one_in(8)
@pytest.mark.sample(1)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("name", BUILDERS)
def test_as_without_a_queue(name: str, dtype: ScalarType, store: str) -> None:
    """The words are those of the same ring at a constant distance."""
    arrays = inputs(name, 11, 1024, dtype)
    static = BUILDERS[name](1024, dtype=dtype, **{**QUEUE, "queue": False, "store": store})
    queued = BUILDERS[name](1024, dtype=dtype, **QUEUE, store=store)
    expected = static.simulate(*arrays).outputs
    for schedule, seed in (("late", 0), ("random", 3)):
        report = queued.simulate(*arrays, schedule=schedule, seed=seed)
        assert report.verdict == "clean", str(report)
        for one, other in zip(report.outputs, expected, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("name", BUILDERS)
def test_assembles_without_spills(name: str, dtype: ScalarType, ptxas: Tool) -> None:
    tuning = {**QUEUE, "threads": 512, "ctas": 132}
    assembly = BUILDERS[name](8192, dtype=dtype, **tuning).assemble(M=8192)
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.gpu
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", BUILDERS)
def test_on_the_gpu(name: str, store: str, torch: Any) -> None:
    """Launched again and again, the counter begins at 0 each time."""
    for rows in (1, 7, 333):
        arrays = inputs(name, rows, 1024, bf16)
        static = BUILDERS[name](1024, dtype=bf16, **{**QUEUE, "queue": False, "store": store})
        queued = BUILDERS[name](1024, dtype=bf16, **QUEUE, store=store)
        expected = on_gpu(torch, static, *arrays)
        for _ in range(5):
            for one, other in zip(on_gpu(torch, queued, *arrays), expected, strict=True):
                assert np.array_equal(one, other)


def test_wide_rows_have_a_cta_each() -> None:
    """The default: a CTA for each row, while L2 gets a later one; with a queue, persistent CTAs."""
    for module, dtypes in ((rmsnorm, (f32, bf16)), (layernorm, (f32,)), (softmax, (f32, bf16))):
        for dtype in dtypes:
            sizes = getattr(module, "sizes", None) or module.forward_sizes
            plan = kit.RowPlan.make(8192, [dtype], [dtype], **sizes(8192, dtype, {}))
            found = plan.design, plan.stages, plan.threads, plan.resident, plan.prefetch, plan.store
            threads = 128 * dtype.nbytes
            assert found == ("ring", 1, threads, 1024 // threads, 66, "direct")
    plan = kit.RowPlan.make(8192, [f32], [f32], **rmsnorm.sizes(8192, f32, {"queue": True}))
    assert (plan.queue, plan.stages, plan.ctas, plan.prefetch) == (True, 2, 132, 66)
