"""The Hopper GEMM with scales of blocks: right for sizes that fill no tile, more exact than one long fp8 sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, bf16, e4m3, e5m2, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example

blockwise = load_example("hopper/gemm_blockwise.py")
gemm = load_example("hopper/gemm.py")
harness = load_example("hopper/gemm_harness.py")

Shape = tuple[int, int, int]
KINDS = ("a_type", "b_type", "scales_major")


def _wrong(shape: Shape, chosen: dict[str, Any], schedule: str = "eager", any_m: bool = False) -> str:
    kernel = blockwise.build_gemm_blockwise(None if any_m else shape[0], *shape[1:], **chosen)
    kinds = {name: chosen[name] for name in KINDS if name in chosen}
    report, error = blockwise.simulated(
        kernel, shape, schedule=schedule, out_type=chosen.get("out_type", bf16), **kinds
    )
    if report.verdict != "clean" or report.holds != "every schedule":
        return str(report)
    return "" if error <= 1 else f"{error} times the bound"


@pytest.mark.one_in(6)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        ((72, 72, 400), {"tile": (128, 64), "cluster": (1, 1)}),
        ((136, 40, 272), {"tile": (128, 32), "cluster": (1, 1), "sms": 1, "scales_major": "K", "stages": 2}),
        ((72, 72, 400), {"tile": (128, 64), "cluster": (1, 1), "scales_major": None, "out_type": f32}),
        ((60, 160, 400), {"tile": (64, 96), "cluster": (1, 1), "sms": 1}),
        ((3, 136, 144), {"tile": (128, 64), "cluster": (1, 2), "a_type": e5m2, "out_type": f32}),
        ((72, 72, 400), {"tile": (64, 64), "split": 2, "resident": 2}),
        ((136, 40, 272), {"tile": (64, 32), "resident": 2, "sms": 1, "scales_major": "K"}),
        ((60, 104, 400), {"tile": (64, 96), "split": 3, "hints": {"A": "evict_last", "B": "evict_first"}}),
    ],
)
def test_right(shape: Shape, chosen: dict[str, Any]) -> None:
    assert not _wrong(shape, chosen)


@pytest.mark.full
@pytest.mark.one_in(22)
@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        ((264, 264, 400), {"tile": (256, 128), "cluster": (1, 2)}),
        ((264, 264, 400), {"tile": (128, 128), "cluster": (2, 1), "scales_in": "registers"}),
        ((72, 136, 2176), {"tile": (64, 128), "cluster": (1, 1)}),  # two turns of eight stages, and a stage
        ((200, 400, 400), {"tile": (128, 192), "cluster": (1, 2), "sms": 2}),
        ((136, 200, 400), {"tile": (128, 96), "cluster": (1, 1), "sms": 1, "stagger": True, "stages": 3}),
        ((264, 264, 272), {"tile": (128, 128), "cluster": (2, 2), "a_type": e4m3, "b_type": e5m2}),
        ((200, 136, 912), {"tile": (256, 64), "cluster": (1, 1), "sms": 1, "ahead": True, "stages": 3}),
        (
            (136, 72, 2000),
            {"tile": (128, 64), "cluster": (1, 2), "sms": 2, "ahead": True},
        ),  # 16 stages: two turns
        ((136, 72, 1424), {"tile": (128, 64), "cluster": (1, 1), "sms": 2, "ahead": True}),  # 12: one
        ((60, 136, 400), {"tile": (64, 128), "cluster": (1, 1), "sms": 1, "ahead": True, "stages": 2}),
        ((264, 264, 144), {"tile": (256, 64), "cluster": (1, 2), "out_type": f16}),
        ((200, 264, 1424), {"tile": (192, 128), "cluster": (1, 2), "sms": 2}),
        ((264, 136, 1424), {"tile": (256, 128), "cluster": (1, 2), "sms": 2}),
        ((264, 72, 912), {"tile": (256, 64), "cluster": (1, 1), "sms": 1, "stages": 2}),
        ((264, 72, 400), {"tile": (192, 64), "cluster": (2, 1), "scales_major": "K", "a_type": e5m2}),
        ((264, 72, 912), {"tile": (192, 64), "cluster": (1, 1), "sms": 1, "ahead": True, "stages": 3}),
        ((200, 136, 400), {"tile": (192, 112), "cluster": (1, 1), "scales_major": None, "out_type": f32}),
        ((72, 136, 912), {"tile": (128, 64), "split": 2}),
        ((12, 136, 1424), {"tile": (64, 128), "split": 4}),
        ((72, 72, 400), {"tile": (64, 64), "split": 4, "scales_major": None, "out_type": f32}),
        ((520, 136, 144), {"cluster": (4, 1), "sms": 4, "out_type": f32}),
    ],
)
def test_right_at_full_size(shape: Shape, chosen: dict[str, Any]) -> None:
    assert not _wrong(shape, chosen)


@pytest.mark.full
@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", ["late", "starve:tma", "random"])
def test_any_m_under_other_schedules(schedule: str) -> None:
    assert not _wrong((136, 72, 272), {"tile": (128, 64), "sms": 2}, schedule, any_m=True)
    assert not _wrong((72, 40, 400), {"tile": (64, 32), "split": 2, "resident": 2}, schedule)


@pytest.mark.parametrize(
    ("k_blocks", "whole", "stages"), [(12, 0, 6), (12, 12, 12), (16, 12, 8), (13, 12, 8), (3, 0, 3)]
)
def test_stages_of_a_turn(k_blocks: int, whole: int, stages: int) -> None:
    assert blockwise.stages_of_turn(k_blocks, blockwise.UNROLLED, whole) == stages


@pytest.mark.full
def test_promotion_keeps_what_a_long_sum_of_fp8_loses() -> None:
    """A sum that grows over K: in one accumulator of 13 bits its small addends are cut."""
    M, N, K = 64, 32, 2048
    a, b = np.ones((M, K), harness.NUMPY[e4m3]), np.ones((N, K), harness.NUMPY[e4m3])
    a[:, 0] = 448
    b[:, 0] = 448
    a[:, 1:] = 0.140625  # products of 0.14 beside a sum of 200,704
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    blocks = np.ones((K // 128, M), np.float32), np.ones((1, K // 128), np.float32)
    scaled = blockwise.build_gemm_blockwise(M, N, K, tile=(128, 32), cluster=(1, 1), out_type=f32)
    plain = gemm.build_gemm(M, N, K, a_type=e4m3, tile=(64, 32), cluster=(1, 1), out_type=f32)
    promoted = np.abs(scaled(a, b, *blocks) - exact).max()
    cut = np.abs(plain(a, b) - exact).max()
    assert promoted < cut / 8


@pytest.mark.full
def test_assembles_as_it_was_meant(ptxas: Tool, nvdisasm: Tool) -> None:
    for chosen in (
        {},
        {"tile": (256, 128), "stagger": True},
        {"tile": (128, 192), "cluster": (2, 1)},
        {"tile": (128, 128), "cluster": (2, 2), "scales_in": "registers"},
        {"tile": (64, 192)},
        {"tile": (256, 96), "ahead": True},
        {"tile": (128, 128), "cluster": (1, 1), "ahead": True},
        {"tile": (64, 112), "cluster": (1, 1), "ahead": True},
        {"tile": (256, 96), "ahead": True, "scales_major": None},
        {"tile": (192, 128)},
        {"tile": (192, 128), "scales_major": "K"},
        {"tile": (192, 128), "scales_major": None},
        {"tile": (192, 80), "cluster": (1, 1), "ahead": True},
        {"tile": (256, 64), "cluster": (1, 2)},
        {"tile": (64, 64), "resident": 2, "split": 2},
        {"tile": (128, 64), "split": 2},
        {"tile": (64, 32), "resident": 4},
        {"scales_major": "K"},
        {"scales_major": None},
    ):
        kernel = blockwise.build_gemm_blockwise(8192, 8192, 8192, **chosen)
        assembly = kernel.assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes
    sass = blockwise.build_gemm_blockwise(8192, 8192, 8192, tile=(256, 128)).sass()
    # In each of eight stages: four products for each of two halves, one fma for each of the 128 numbers of a
    # thread, and nothing cleared in between.
    assert sass.count("QGMMA.64x128x32") == 8 * 8 and sass.count(" FFMA ") == 8 * 128


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"a_type": bf16}, "expected e4m3 or e5m2"),
        ({"tile": (128, 96)}, "scales that TMA loads"),
        ({"tile": (256, 192)}, "are the largest"),
        ({"tile": (192, 192)}, "are the largest"),
        ({"tile": (192, 128), "ahead": True}, "192 rows and at most 80"),
        ({"tile": (192, 64), "stagger": True}, "expected two warpgroups"),
        ({"scales_in": "shared"}, "multiples of 4"),
        ({"scales_in": "global"}, "expected 'shared'"),
        ({"tile": (256, 128), "ahead": True}, "at most 96 columns"),
        ({"tile": (128, 128), "stagger": True}, "no fewer blocks than stages"),
        ({"scales_major": "N"}, "scales_major"),
        ({"hints": {"D": "evict_first"}}, "policies of 'A' and 'B'"),
        ({"tile": (64, 64), "split": 2}, "no more than there are"),
        ({"tile": (128, 64), "resident": 2}, "one consumer warpgroup"),
        ({"tile": (64, 64), "resident": 5}, "1 to 4 CTAs"),
        ({"tile": (128, 128), "sms": 1}, "a cluster has 2 CTAs"),
    ],
)
def test_refusals(chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        blockwise.build_gemm_blockwise(128, 128, 128, **chosen)


def test_what_does_not_go_with_split() -> None:
    for chosen in ({"scales_major": "K"}, {"stagger": True}, {"tile": (256, 64), "ahead": True}):
        with pytest.raises(SpecError, match="expected neither"):
            blockwise.build_gemm_blockwise(128, 128, 512, **{"tile": (128, 64), "split": 2, **chosen})


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        ((264, 264, 400), {}),
        ((136, 136, 912), {"tile": (64, 64), "split": 2, "resident": 2}),
        ((128, 4096, 7168), {}),
        ((4096, 7168, 2048), {}),
    ],
)
def test_words_of_the_gpu(shape: Shape, chosen: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    given = blockwise.make_inputs(*shape)
    kernel = blockwise.build_gemm_blockwise(*shape, **chosen)
    there = kernel(*(harness.to_gpu(torch, x) for x in given))
    if shape[1] < 1024:
        assert np.array_equal(harness.words_of(torch, there), kernel(*given).view(np.uint16))
    exact, error = blockwise.reference(*given)
    assert harness.worst_error(exact, error, there.float().cpu().numpy().astype(harness.NUMPY[bf16])) <= 1
