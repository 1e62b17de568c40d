"""A few rows times a matrix: right for every M, any N and ends of K, and read from memory once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, bf16, e4m3, e5m2, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example

gemv = load_example("hopper/gemv.py")
harness = load_example("hopper/gemm_harness.py")

CASES = [
    ((1, 40, 1032), {}),
    ((2, 9, 8), {"warps": 1, "tiles": 1}),
    ((5, 33, 4104), {"unroll": 2}),
    ((8, 16, 2048), {"out_type": f32}),
    ((9, 70, 640), {"dtype": f16, "warps": 2, "tiles": 4, "unroll": 1}),
    ((16, 24, 3080), {"warps": 4, "tiles": 1, "evict_first": False}),
    ((3, 17, 1040), {"dtype": e4m3, "unroll": 1}),
    ((4, 17, 4112), {"dtype": e5m2, "warps": 16, "unroll": 1, "out_type": f16}),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "chosen"), CASES)
def test_right(shape: tuple[int, int, int], chosen: dict[str, Any]) -> None:
    kinds = {name: chosen[name] for name in ("dtype", "out_type") if name in chosen}
    report, error = gemv.simulated(gemv.build_gemv(*shape, **chosen), shape, **kinds)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.one_in(12)
@pytest.mark.full
@pytest.mark.parametrize("turns", range(1, 6))
@pytest.mark.parametrize("M", range(1, 17))
def test_every_m_and_number_of_turns(M: int, turns: int) -> None:
    K = turns * 2 * 64 + 8 * (M % 3)
    shape = (M, 10, K)
    report, error = gemv.simulated(gemv.build_gemv(*shape, warps=2, unroll=2, tiles=1), shape)
    assert report.verdict == "clean" and error <= 1, str(report)


def test_special_values() -> None:
    x, w = gemv.make_inputs(2, 24, 520)
    x[0, 100], w[3] = np.inf, 0
    w[5, 519] = np.nan
    found = gemv.build_gemv(2, 24, 520, out_type=f32)(x, w)
    assert np.isnan(found[:, 5]).all() and np.isnan(found[0, 3]) and found[1, 3] == 0
    assert np.isinf(np.delete(found[0], [3, 5])).all()


@pytest.mark.full
def test_assembles_without_spills(ptxas: Tool, nvdisasm: Tool) -> None:
    for M in (1, 8, 16):
        for warps, tiles, unroll in ((16, 1, 8), (8, 2, 4), (8, 4, 4)):
            options = {"warps": warps, "tiles": tiles, "unroll": unroll}
            assembly = gemv.build_gemv(M, 7168, 18432, **options).assemble()
            assert not assembly.spills and not assembly.warnings and not assembly.notes
    sass = gemv.build_gemv(1, 7168, 18432).sass()
    # 16 bytes at a time, past L1; the tensor cores do all the arithmetic.
    assert "LDG.E.NA.128" in sass and "HMMA.16816" in sass and " FFMA " not in sass


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"M": 17}, "M = 17"),
        ({"M": 0}, "M = 0"),
        ({"K": 100}, "multiple of 8"),
        ({"dtype": f32}, "dtype"),
        ({"warps": 3}, "warps = 3"),
        ({"tiles": 3}, "tiles = 3"),
    ],
)
def test_refusals(chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        gemv.build_gemv(**{"M": 1, "N": 64, "K": 64, **chosen})


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "chosen"), [*CASES, ((1, 6144, 4096), {}), ((16, 4096, 14336), {"tiles": 4})]
)
def test_words_of_the_gpu(shape: tuple[int, int, int], chosen: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    x, w = gemv.make_inputs(*shape, dtype=chosen.get("dtype", bf16))
    kernel = gemv.build_gemv(*shape, **chosen)
    there = kernel(*(harness.to_gpu(torch, array) for array in (x, w)))
    kind = np.uint32 if chosen.get("out_type") is f32 else np.uint16
    if shape[1] < 1000:
        assert np.array_equal(harness.words_of(torch, there), kernel(x, w).view(kind))
    exact, magnitude = harness.reference(x, w)
    d = there.float().cpu().numpy().astype(harness.NUMPY[chosen.get("out_type", bf16)])
    assert harness.worst_error(exact, harness.bound(magnitude, shape[2], x.dtype), d) <= 1
