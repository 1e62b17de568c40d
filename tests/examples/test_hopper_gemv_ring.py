"""A few rows times a matrix through a ring: right for every M, any N and ends of K, under every schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, bf16, e4m3, e5m2, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example

ring = load_example("hopper/gemv_ring.py")
harness = load_example("hopper/gemm_harness.py")

#: Several units of a CTA, more chunks than stages, a last chunk of any length, less than one chunk.
CASES = [
    ((1, 40, 1032), {"warps": 2, "sms": 2}),
    ((1, 33, 1536), {"warps": 1, "unroll": 2, "stages": 2, "sms": 1}),
    ((2, 9, 8), {"warps": 1, "unroll": 1}),
    ((5, 33, 4104), {"unroll": 2, "sms": 2}),
    ((8, 16, 2048), {"out_type": f32}),
    ((9, 70, 640), {"dtype": f16, "warps": 2, "unroll": 1, "stages": 3, "sms": 1}),
    ((16, 24, 3080), {"warps": 4, "evict_first": False, "sms": 2}),
    ((16, 40, 96), {"warps": 1, "unroll": 1, "stages": 2, "sms": 2}),
    ((3, 17, 1040), {"dtype": e4m3, "unroll": 1, "resident": 2}),
    ((4, 17, 4112), {"dtype": e5m2, "warps": 16, "unroll": 1, "out_type": f16, "sms": 1}),
]


@pytest.mark.one_in(2)
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "chosen"), CASES)
def test_right(shape: tuple[int, int, int], chosen: dict[str, Any]) -> None:
    kinds = {name: chosen[name] for name in ("dtype", "out_type") if name in chosen}
    report, error = ring.simulated(ring.build_gemv_ring(*shape, **chosen), shape, **kinds)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.one_in(12)
@pytest.mark.full
@pytest.mark.parametrize("chunks", range(1, 5))
@pytest.mark.parametrize("M", range(1, 17))
def test_every_m_and_number_of_chunks(M: int, chunks: int) -> None:
    K = chunks * 64 + 8 * (M % 3)
    shape = (M, 18, K)
    kernel = ring.build_gemv_ring(*shape, warps=2, unroll=1, stages=2, sms=2)
    report, error = ring.simulated(kernel, shape)
    assert report.verdict == "clean" and report.holds == "every schedule" and error <= 1, str(report)


@pytest.mark.full
@pytest.mark.parametrize("schedule", ["late", "starve:tma", "random"])
def test_other_schedules(schedule: str) -> None:
    shape = (3, 41, 328)
    kernel = ring.build_gemv_ring(*shape, warps=2, unroll=1, stages=2, sms=2)
    report, error = ring.simulated(kernel, shape, schedule=schedule)
    assert report.verdict == "clean" and error <= 1, str(report)


def test_special_values() -> None:
    x, w = ring.make_inputs(2, 24, 520)
    x[0, 100], w[3] = np.inf, 0
    w[5, 519] = np.nan
    found = ring.build_gemv_ring(2, 24, 520, out_type=f32, warps=2)(x, w)
    assert np.isnan(found[:, 5]).all() and np.isnan(found[0, 3]) and found[1, 3] == 0
    assert np.isinf(np.delete(found[0], [3, 5])).all()


@pytest.mark.full
def test_assembles_as_it_was_meant(ptxas: Tool, nvdisasm: Tool) -> None:
    for M in (1, 8, 16):
        for warps, unroll, resident in ((8, 4, 1), (4, 8, 1), (8, 4, 2), (16, 2, 1)):
            kernel = ring.build_gemv_ring(M, 7168, 18432, warps=warps, unroll=unroll, resident=resident)
            assembly = kernel.assemble()
            assert not assembly.spills and not assembly.warnings and not assembly.notes
    sass = ring.build_gemv_ring(1, 7168, 18432).sass()
    # Eight copies of a stage; each warp reads four vectors of W, which two products each take as they are.
    assert sass.count("UBLKCP") == 8 and sass.count("LDS.128") == 4 and sass.count("HMMA.16816") == 8
    # X is on its way before the wait for the stage.
    first_load, waits = sass.index("LDG.E.128"), sass.split("LDG.E.128")
    assert first_load > 0 and "TRYWAIT" in waits[-1] and "HMMA" not in waits[-1].split("TRYWAIT")[0]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"M": 17}, "M = 17"),
        ({"M": 0}, "M = 0"),
        ({"K": 100}, "multiple of 8"),
        ({"dtype": f32}, "dtype"),
        ({"warps": 3}, "warps = 3"),
        ({"unroll": 3}, "unroll = 3"),
        ({"resident": 5}, "resident = 5"),
        ({"sms": 0}, "sms = 0"),
        ({"stages": 1}, "at least 2"),
        ({"stages": 64}, "64 stages"),
        ({"warps": 16, "unroll": 8, "resident": 2}, "1 stages"),
        ({"M": 16, "warps": 8, "unroll": 8, "resident": 2}, "registers"),
    ],
)
def test_refusals(chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ring.build_gemv_ring(**{"M": 1, "N": 64, "K": 64, **chosen})


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "chosen"), [*CASES, ((1, 6144, 4096), {}), ((16, 4096, 14336), {})])
def test_words_of_the_gpu(shape: tuple[int, int, int], chosen: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    x, w = ring.make_inputs(*shape, dtype=chosen.get("dtype", bf16))
    kernel = ring.build_gemv_ring(*shape, **chosen)
    there = kernel(*(harness.to_gpu(torch, array) for array in (x, w)))
    kind = np.uint32 if chosen.get("out_type") is f32 else np.uint16
    if shape[1] < 1000:
        assert np.array_equal(harness.words_of(torch, there), kernel(x, w).view(kind))
    exact, magnitude = harness.reference(x, w)
    d = there.float().cpu().numpy().astype(harness.NUMPY[chosen.get("out_type", bf16)])
    assert harness.worst_error(exact, harness.bound(magnitude, shape[2], x.dtype), d) <= 1


def test_long_rows_take_the_ring() -> None:
    short, long = (ring.build_few_rows(2, 64, K) for K in (8184, 8192))
    assert (short.options.entry, long.options.entry) == ("gemv", "gemv_ring")


def test_one_row_takes_a_cta_for_each_row_of_weights() -> None:
    def chosen(K: int, **options: Any) -> str:
        return str(ring.build_few_rows(1, 64, K, **options).options.entry)

    assert chosen(4096) == chosen(18432, dtype=f16, out_type=f32) == "gemv_rows"
    assert chosen(4096, warps=8) == chosen(4096, dtype=e4m3) == "gemv"
    assert chosen(18440) == chosen(18432, dtype=e4m3, evict_first=False) == "gemv_ring"
