"""Intervals and latencies of tensor-core instructions against published rows."""

from __future__ import annotations

import pytest

from pyptx.core.errors import SpecError
from pyptx.timing.constants import gpu
from pyptx.timing.tensor import (
    mma_interval,
    mma_latency,
    mma_port_bytes,
    tensor_pace,
    wgmma_interval,
    wgmma_latency,
    wgmma_port_bytes,
    with_pace,
)

# SemiAnalysis, microbench-blackwell (B200, 2026): clk per instruction with 256 in flight, and of one alone.
# cta_group, M, N, A in tensor memory, interval, latency.
PUBLISHED = [
    (1, 128, 64, False, 48.3, 168),
    (1, 128, 128, False, 64.3, 200),
    (1, 128, 256, False, 128.3, 264),
    (1, 64, 64, False, 32.3, 152),
    (1, 64, 256, False, 128.3, 248),
    (1, 128, 256, True, 128.2, 232),
    (1, 64, 64, True, 32.2, 136),
    (2, 256, 64, False, 43.4, 202),
    (2, 256, 96, False, 49.7, 218),
    (2, 256, 256, False, 128.4, 298),
    (2, 256, 128, True, 64.3, 202),
    (2, 128, 64, False, 25.3, 173),
    (2, 128, 112, False, 30.4, 191),
    (2, 128, 256, False, 64.4, 229),
    (2, 128, 64, True, 18.3, 162),
    (2, 128, 256, True, 64.3, 210),
]


@pytest.mark.parametrize(("group", "m", "n", "tensor", "interval", "latency"), PUBLISHED)
@pytest.mark.sample(16)
def test_mma_takes_what_was_published(group, m, n, tensor, interval, latency):
    assert mma_interval(gpu("b200"), group, m, n, tensor) == pytest.approx(interval, abs=2)
    assert mma_latency(gpu("b200"), group, m, n, tensor) == pytest.approx(latency, abs=1)


def test_the_port_binds_narrow_tiles_only():
    b200 = gpu("b200")
    wide = b200.with_values({"mma.port_bytes_per_clk": float("inf"), "mma.interval.g2_m256_ss.extra_clk": 0})
    assert mma_interval(wide, 1, 128, 64) == 32 < mma_interval(b200, 1, 128, 64)
    assert mma_interval(wide, 1, 128, 256) == mma_interval(b200, 1, 128, 256)
    # 256 x 128 of A and B by one SM of a pair: 128 rows of A, 128 of B, 32 bytes each.
    assert mma_port_bytes(b200, 2, 256, 256) == 256 * 32
    assert mma_port_bytes(b200, 2, 256, 256, True) == 128 * 32


def test_wgmma_runs_at_the_peak_from_n_64():
    h200 = gpu("h200")
    for n in (64, 128, 256):
        flops = 2 * 64 * n * 16 / wgmma_interval(h200.with_values({"wgmma.pace": 1.0}), n)
        assert flops == h200.value("tensor.flops_per_clk_16bit")
    # A long stream keeps a share of it.
    assert 2 * 64 * 256 * 16 / wgmma_interval(h200, 256) == pytest.approx(4096 * h200.value("wgmma.pace"))
    # N = 32: operand reads take longer than the products, (64 + 32) x 32 / 128 = 24 clk.
    assert wgmma_interval(h200, 32) == 24 > 16
    # A in registers spares the port; below N = 32 there is a floor. Three warpgroups on an H200 took 13, 16,
    # 32, 64 clk (2026-11-29).
    zeros = with_pace(h200, 0.0)
    assert [wgmma_interval(zeros, n, a_in_registers=True) for n in (16, 32, 64, 128)] == [13, 16, 32, 64]
    assert wgmma_interval(zeros, 8, a_in_registers=True) == h200.value("wgmma.interval.floor_rs_clk")
    # Zeros keep all of the rate, and data between zeros and normal numbers a part of what is lost.
    lost = 1 - h200.value("wgmma.pace")
    assert tensor_pace(zeros) == 1 and tensor_pace(with_pace(h200, 0.5)) == pytest.approx(1 - lost / 2)
    assert with_pace(gpu("b200"), 0.0) is gpu("b200")
    assert wgmma_port_bytes(h200, 256) == 320 * 32
    assert wgmma_latency(h200, 256) > wgmma_interval(h200, 256)


def test_an_instruction_that_does_not_exist_is_refused():
    with pytest.raises(SpecError, match=r"cta_group::1, M = 256.*cta_group::2 with M = 256"):
        mma_interval(gpu("b200"), 1, 256, 64)
    with pytest.raises(SpecError, match="has no constant"):
        wgmma_interval(gpu("b200"), 64)
