"""The roofline and the closed form of GEMMs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pyptx.core.errors import SpecError
from pyptx.timing.closed_form import Bound, Form, Gemm, Tile, closed_form, clusters_at_once, roofline
from pyptx.timing.constants import gpu

B200 = gpu("b200")
PAIR = Tile(256, 256, group=2, cluster_m=2)
IDEAL = Form(0, 0, 0, 0, math.inf, math.inf)


def test_the_roofline_of_a_large_gemm_is_the_tensor_core():
    # 8192 cubed: 0.907 million cycles if every tensor cycle counts.
    found = roofline(B200, 2 * 8192**3, 3 * 2 * 8192**2, 1000)
    assert found.bound is Bound.TENSOR
    assert found.ns == pytest.approx(2 * 8192**3 / (148 * 8192))
    assert found.ns == pytest.approx(0.907e6, rel=0.001)
    assert roofline(B200, 2 * 8192**3, 0, 1000, bits=8).ns == pytest.approx(found.ns / 2)


def test_the_roofline_of_a_copy_is_memory():
    found = roofline(B200, 0, 7.25e9, 1900)
    assert (found.bound, found.ns) == (Bound.HBM, pytest.approx(1e6))


@pytest.mark.parametrize(
    ("shape", "rounds"),
    # 4096 cubed is 256 tiles on 74 pairs; 8192 cubed 1024 tiles, 13.8 rounds of 74.
    [((4096, 4096, 4096), 4), ((8192, 8192, 8192), 14), ((256, 256, 64), 1), ((4096, 4097, 64), 4)],
)
@pytest.mark.sample(4)
def test_rounds_of_pairs(shape, rounds):
    assert closed_form(B200, Gemm(*shape), PAIR, 1300, IDEAL).rounds == rounds


def test_without_overheads_a_gemm_takes_its_products():
    found = closed_form(B200, Gemm(8192, 8192, 8192), PAIR, 1000, IDEAL)
    # 14 rounds, 128 k-blocks of four instructions of 128 clk.
    assert found.ns == pytest.approx(14 * 128 * 4 * 128)
    assert found.bound is Bound.TENSOR


def test_each_bound_has_its_gemm():
    form = Form.of(B200)
    square = Gemm(8192, 8192, 8192)
    assert closed_form(B200, square, PAIR, 1300, form).bound is Bound.TENSOR
    assert (
        closed_form(B200, square, Tile(128, 64), 1300, replace(form, fabric_bytes_per_ns=1e9)).bound
        is Bound.PORT
    )
    assert closed_form(B200, square, Tile(128, 128), 1900, form).bound is Bound.FABRIC
    assert closed_form(B200, Gemm(64, 65536, 8192), Tile(64, 256), 1900, form).bound is Bound.HBM
    assert (
        closed_form(
            B200, Gemm(8192, 8192, 64), replace(PAIR, k_bytes=64), 1300, replace(form, hbm_bytes_per_ns=1e9)
        ).bound
        is Bound.EPILOGUE
    )


@pytest.mark.parametrize("field", ["launch_ns", "turnaround_clk", "fill_clk", "epilogue_clk_per_column"])
@pytest.mark.sample(4)
def test_every_overhead_costs_time(field):
    base = Form(100, 100, 100, 1, 18000, 6800, 3.0, 0.5, 2e8)
    gemm = Gemm(4096, 4096, 4096)
    more = replace(base, **{field: getattr(base, field) * 2})
    assert closed_form(B200, gemm, PAIR, 1300, more).ns > closed_form(B200, gemm, PAIR, 1300, base).ns


def test_a_higher_sharpness_comes_closer_to_the_larger_term():
    form = Form(0, 0, 0, 0, 18000, math.inf)
    gemm, tile = Gemm(4096, 4096, 4096), Tile(128, 128)
    times = [
        closed_form(B200, gemm, tile, 1300, replace(form, sharpness=q)).ns for q in (1.0, 2.0, 8.0, math.inf)
    ]
    assert times == sorted(times, reverse=True) and times[0] > times[-1]


def test_misses_cost_what_clusters_do_not_share():
    form = Form(0, 0, 0, 0, math.inf, 1000, miss_share=1.0, miss_bytes=1.0)
    gemm = Gemm(4096, 4096, 4096)
    # Of 256 tiles each asks for 512 rows of K; a pair of pairs side by side in N shares the rows of A.
    alone = closed_form(B200, gemm, PAIR, 1300, form).ns
    assert alone == pytest.approx((256 * 512 * 8192 + 2 * 4096**2) / 1000)
    shared = closed_form(B200, gemm, replace(PAIR, cluster_n=2), 1300, form).ns
    assert shared == pytest.approx((256 * 384 * 8192 + 2 * 4096**2) / 1000)


# hbarclay, gemm-model (B200, SMs locked at 1300 MHz, CuTe DSL, fp16): microseconds.  The parameters are those that
# benchmarks/closed_form_b200.py fits to other shapes than these.
FITTED = Form(8259, 774, 527, 12.40, 18588, 5592, 4.076, 0.592, 3.91e8)


@pytest.mark.parametrize(
    ("shape", "tile", "us"),
    [
        ((4096, 512, 16384), Tile(256, 256, 2, 2, 1), 118.8),
        ((4096, 512, 16384), Tile(128, 256, 2, 2, 2), 72.7),
        ((4096, 7168, 16384), Tile(256, 192, 2, 2, 2), 769.2),
        ((4096, 7168, 16384), Tile(128, 128, 2, 2, 1), 1046.5),
    ],
)
@pytest.mark.sample(4)
def test_the_fitted_form_beside_shapes_that_it_never_saw(shape, tile, us):
    assert closed_form(B200, Gemm(*shape), tile, 1300, FITTED).ns / 1000 == pytest.approx(us, rel=0.08)


def test_a_hopper_gemm():
    h200 = gpu("h200")
    found = closed_form(h200, Gemm(8192, 8192, 8192), Tile(128, 256, cluster_m=2), 1755, Form.of(h200))
    # 2048 tiles on 132 SMs are 16 rounds, each 128 k-blocks of 1024 clk.
    assert found.rounds == 16
    assert found.ns > 16 * 128 * 1024 / 1.755
    slower = closed_form(
        h200, Gemm(8192, 8192, 8192), Tile(128, 256, cluster_m=2), 1755, Form.of(h200, persistent=False)
    )
    assert slower.ns > found.ns


def test_clusters_lie_in_one_gpc():
    assert clusters_at_once(B200, 2) == 74
    assert clusters_at_once(gpu("h200"), 4) == 30
    with pytest.raises(SpecError, match="no GPC of NVIDIA B200 has 32 SMs"):
        clusters_at_once(B200, 32)


def test_what_the_forms_do_not_know_is_refused():
    with pytest.raises(SpecError, match="elements of 6 bits"):
        roofline(B200, 1, 1, 1000, bits=6)
    with pytest.raises(SpecError, match="a clock of 0 MHz"):
        closed_form(B200, Gemm(64, 64, 64), PAIR, 0, IDEAL)
    with pytest.raises(SpecError, match="its timing is known for"):
        closed_form(B200, Gemm(64, 64, 64), Tile(256, 64), 1300, IDEAL)
