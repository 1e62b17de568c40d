"""The printed kernel: builds and assembles as spelled, right under eager, wrong under late beyond its ring."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx.toolchain import Tool
from tests.examples.racy_gemm import build_racy_gemm


def _run(K: int, schedule: str) -> tuple[float, object]:
    """Largest error as a fraction of the bound, and the report."""
    rng = np.random.default_rng(K)
    a = rng.standard_normal((128, K), np.float32).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((256, K), np.float32).astype(ml_dtypes.bfloat16)
    d = np.full((128, 256), np.nan, np.float32)
    report = build_racy_gemm(128, 256, K).simulate(a, b, out=d, schedule=schedule)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    bound = K * 2.0**-23 * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T)
    return float(np.max(np.abs(d - exact) / bound)), report


def test_it_assembles_as_spelled(ptxas: Tool) -> None:
    assembly = build_racy_gemm(256, 512, 512).assemble()
    assert assembly.spills == 0


@pytest.mark.parametrize("K", [64, 256, 320, 512])
def test_right_under_eager(K: int) -> None:
    error, _ = _run(K, "eager")
    assert error <= 1


@pytest.mark.parametrize("K", [64, 256])
def test_right_under_late_within_the_ring(K: int) -> None:
    error, _ = _run(K, "late")
    assert error <= 1


@pytest.mark.parametrize("K", [320, 384, 1024])
def test_wrong_under_late_beyond_the_ring(K: int) -> None:
    """The slot is handed back when the MMAs are issued, not when they have read it."""
    error, _ = _run(K, "late")
    assert error > 1000
