"""Quantization to 8-bit floats: every bit of the results and scales, for every width, type and design."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, bf16, e4m3, e5m2, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example
from .row_designs import DESIGNS, GPU_SHAPES, on_gpu

quantize = load_example("hopper/quantize.py")
#: Designs for blocks, whose teams have whole warps.
WHOLE_WARPS = [name for name, tuning in DESIGNS.items() if tuning.get("threads", 32) % 32 == 0]


def right(M: int, N: int, dtype: ScalarType, *, schedule: str = "random", **options: Any) -> bool:
    (x,) = quantize.make_inputs(M, N, dtype=dtype)
    kernel = quantize.build_quantize(N, dtype=dtype, **options)
    given = {name: options[name] for name in ("out_dtype", "block") if name in options}
    q, scales = quantize.simulated(kernel, x, schedule=schedule)
    return bool(quantize.is_right(x, q, scales.T if options.get("transposed") else scales, **given))


@pytest.mark.sample(6)
@pytest.mark.one_in(14)
@pytest.mark.parametrize("block", [128, 64, 32, None])
@pytest.mark.parametrize("out_dtype", [e4m3, e5m2])
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("width", [1, 128, 333, 1030, 2044, 2048])
def test_widths(width: int, dtype: ScalarType, out_dtype: ScalarType, block: int | None) -> None:
    assert right(3, width, dtype, out_dtype=out_dtype, block=block)


@pytest.mark.sample(1)
@pytest.mark.one_in(3)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs_by_rows(dtype: ScalarType, design: str) -> None:
    assert right(5, 1024, dtype, block=None, schedule="late", **DESIGNS[design])


@pytest.mark.sample(3)
@pytest.mark.one_in(3)
@pytest.mark.parametrize("design", WHOLE_WARPS)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_designs_by_blocks(dtype: ScalarType, design: str) -> None:
    assert right(5, 1024, dtype, schedule="late", transposed=True, **DESIGNS[design])


@pytest.mark.parametrize("block", [None, 128])
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_wide_rows_wait_in_shared_memory(dtype: ScalarType, block: int | None) -> None:
    assert quantize.plan_for(4104, dtype, e4m3, block, {}).design == "ring"
    assert right(2, 4104, dtype, block=block)


@pytest.mark.parametrize("block", [None, 128])
def test_rows_of_two_pieces_for_each_thread(block: int | None) -> None:
    plan = quantize.plan_for(7176, bf16, e4m3, block, {})
    assert plan.threads == 512 and plan.design == ("registers" if block is None else "ring")
    assert right(2, 7176, bf16, block=block)


def test_loops_over_long_rows() -> None:
    assert right(2, 5000, f32, threads=32) and right(2, 1031, bf16, held=1)


def test_special_numbers() -> None:
    """Zeros, NaN, infinities, tiny and huge numbers do what the formula does."""
    for block in (None, 128):
        x = np.zeros((6, 256), np.float32)
        x[1, 3], x[2, 200], x[3], x[4], x[5] = np.nan, np.inf, 1e-40, 3e38, -1e-20
        x[1, 4] = 1
        q, scales = quantize.simulated(quantize.build_quantize(256, dtype=f32, block=block), x)
        assert quantize.is_right(x, q, scales, block=block)
        assert (q[0].astype(np.float32) == 0).all() and np.isfinite(scales[0]).all()


def test_every_quotient_is_rounded_to_nearest() -> None:
    """Magnitudes of all sizes and many mantissas, with the largest ones and those where the range is moved."""
    from pyptx import Tile, kernel, ptx

    count = 1 << 14

    @kernel(
        in_specs=(Tile(count, f32),),
        out_specs=(Tile(count, f32),),
        grid=count // 256,
        block=256,
        arch="sm_90a",
    )
    def divide(X, Y):  # type: ignore[no-untyped-def]
        at = ptx.special.ctaid.x() * 256 + ptx.special.tid.x()
        x = ptx.load(f32, X.at(at), space="global")
        ptx.store(Y.at(at), quantize.quotient(448.0, x), space="global")
        ptx.ret()

    rng = np.random.default_rng(0)
    x = np.ldexp(1 + rng.random(count), rng.integers(-99, 128, count)).astype(np.float32)
    x[:6] = 1e-30, 2.0**100, np.nextafter(np.float32(2.0**100), np.float32(np.inf)), 3.4028235e38, np.inf, 448
    (y,) = divide.simulate(x).outputs
    assert np.array_equal(y, np.float32(448) / x)


def test_scales_restore_the_numbers() -> None:
    (x,) = quantize.make_inputs(4, 512, dtype=f32)
    q, scales = quantize.simulated(quantize.build_quantize(512, dtype=f32), x)
    restored = q.astype(np.float32).reshape(4, -1, 128) * scales[:, :, None]
    # A normal number of e4m3 has three bits behind the point; the smallest one is 2**-6.
    error = np.abs(restored.reshape(4, -1) - x)
    bound = 2.0**-4 * np.abs(x) + np.repeat(scales, 128, axis=1) * 2.0**-10
    assert (error <= 1.001 * bound).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"out_dtype": f16}, "e4m3 or e5m2"),
        ({"block": 100}, "block is 100"),
        ({"least": 0.0}, "least is 0.0"),
        ({"threads": 16}, "whole warps"),
        ({"N": 333, "threads": 64}, "one warp"),
        ({"N": 1200, "cluster": 2, "threads": 32}, "whole blocks"),
    ],
)
def test_what_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(PyptxError) as caught:
        quantize.build_quantize(options.pop("N", 1024), **options)
    assert word in str(caught.value)


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("block", [128, None])
@pytest.mark.parametrize(
    ("width", "tuning"),
    [
        (8192, {}),
        (8191, {}),
        (65536, {}),
        (8192, {"threads": 256, "design": "ring", "store": "bulk"}),
        (8192, {"threads": 256, "ctas": 264, "ahead": True, "resident": 1}),
    ],
)
def test_assembles_without_spills(
    width: int, tuning: dict[str, Any], block: int | None, dtype: ScalarType, ptxas: Tool
) -> None:
    assembly = quantize.build_quantize(width, dtype=dtype, block=block, **tuning).assemble(M=100)
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.gpu
@pytest.mark.parametrize("block", [128, None])
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize(("M", "N"), GPU_SHAPES)
def test_on_the_gpu(M: int, N: int, dtype: ScalarType, block: int | None) -> None:
    torch = pytest.importorskip("torch")
    (x,) = quantize.make_inputs(M, N, dtype=dtype)
    q, scales = on_gpu(torch, quantize.build_quantize(N, dtype=dtype, block=block), x)
    assert quantize.is_right(x, q.view(e4m3.dtype), scales, block=block)
