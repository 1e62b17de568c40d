"""The grouped GEMM for Hopper: ragged and empty groups, both layouts, nothing written that is not a group's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, bf16, e4m3, f16, f32
from pyptx.toolchain import Tool

from .loading import load_example

grouped = load_example("hopper/grouped_gemm.py")
harness = load_example("hopper/gemm_harness.py")

SMALL = {"tile": (64, 64), "cluster": (1, 1)}
KINDS = ("a_type", "b_type", "b_major", "scales_major")


def _wrong(counts: tuple[int, ...], N: int, K: int, chosen: dict[str, Any], **run: Any) -> str:
    kinds = {name: chosen[name] for name in KINDS if name in chosen}
    slab = 1 + max(counts) if chosen.get("layout") == "masked" else None
    given = grouped.make_inputs(counts, N, K, slab=slab, **kinds)
    kernel = grouped.build_grouped_gemm(len(counts), N, K, **chosen)
    report, error = grouped.simulated(
        kernel,
        given,
        out_type=chosen.get("out_type", bf16),
        b_major=chosen.get("b_major", "K"),
        scales_major=chosen.get("scales_major"),
        **run,
    )
    if report.verdict != "clean" or report.holds != "every schedule":
        return str(report)
    return "" if error <= 1 else f"{error} times the bound"


@pytest.mark.one_in(4)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("counts", "N", "K", "chosen"),
    [
        ((3, 0, 70, 20), 72, 72, {**SMALL, "sms": 3}),
        ((3, 0, 70), 72, 72, {**SMALL, "layout": "masked", "sms": 2}),
        ((3, 0, 70, 20), 72, 72, {**SMALL, "sms": 3, "deferred": True}),
        ((3, 0, 70), 72, 136, {**SMALL, "sms": 3, "deferred": True, "layout": "masked"}),
        ((65, 1), 136, 136, {**SMALL, "cluster": (1, 2), "out_type": f32, "sms": 4}),
        ((3, 0, 70), 200, 72, {"tile": (64, 96), "deferred": True, "narrow": 72, "sms": 4}),
        (
            (70, 0, 3),
            200,
            72,
            {"tile": (64, 96), "deferred": True, "narrow": 72, "sms": 4, "layout": "masked"},
        ),
        ((0, 40), 72, 80, {**SMALL, "a_type": f16, "out_type": f16, "b_major": "MN", "sms": 2}),
        ((3, 0, 70), 72, 272, {**SMALL, "a_type": e4m3, "scales_major": "M", "sms": 2}),
        ((3, 0, 70), 72, 272, {**SMALL, "a_type": e4m3, "scales_major": "K", "layout": "masked", "sms": 2}),
    ],
)
def test_right(counts: tuple[int, ...], N: int, K: int, chosen: dict[str, Any]) -> None:
    assert not _wrong(counts, N, K, chosen)


@pytest.mark.full
@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("counts", "N", "K", "chosen"),
    [
        ((3, 0, 257, 40), 264, 136, {}),
        ((130, 1, 0, 300), 520, 136, {"cluster": (2, 2), "tile": (128, 128), "sms": 8}),
        ((130, 1, 0, 200), 264, 136, {"cluster": (2, 1), "tile": (128, 256), "layout": "masked"}),
        (
            (3, 0, 257, 40),
            264,
            272,
            {"tile": (128, 128), "deferred": True, "narrow": 72, "sms": 7},
        ),
        (
            (130, 0, 200, 64),
            264,
            136,
            {
                "tile": (64, 128),
                "cluster": (2, 1),
                "deferred": True,
                "narrow": 72,
                "layout": "masked",
                "sms": 8,
            },
        ),
        ((1, 1, 1, 1, 1, 300, 0, 64), 136, 392, {"tile": (256, 128), "cluster": (1, 2), "sms": 4}),
        (
            (130, 1, 200),
            264,
            400,
            {"tile": (128, 128), "cluster": (2, 1), "a_type": e4m3, "scales_major": "M"},
        ),
        ((70, 3, 135), 264, 400, {"a_type": e4m3, "scales_major": "M", "M": 208, "sms": 4}),
        (
            (70, 6),
            264,
            1424,
            {"a_type": e4m3, "scales_major": "M", "M": 76, "tile": (64, 128), "ahead": True, "sms": 2},
        ),
        (
            (5, 0, 131),
            264,
            400,
            {"a_type": e4m3, "scales_major": "M", "M": 132, "layout": "masked", "tile": (256, 128), "sms": 4},
        ),
        ((100, 90), 144, 272, {"tile": (192, 128), "cluster": (1, 1), "a_type": e4m3}),
        (
            (199, 3, 14),
            264,
            400,
            {"a_type": e4m3, "scales_major": "M", "M": 216, "tile": (192, 128), "cluster": (1, 2), "sms": 2},
        ),
    ],
)
def test_right_at_full_size(counts: tuple[int, ...], N: int, K: int, chosen: dict[str, Any]) -> None:
    assert not _wrong(counts, N, K, chosen)


@pytest.mark.full
@pytest.mark.one_in(3)
@pytest.mark.parametrize("schedule", ["late", "starve:tma", "random"])
@pytest.mark.parametrize("layout", ["contiguous", "masked"])
def test_right_under_other_schedules(layout: str, schedule: str) -> None:
    chosen = {**SMALL, "cluster": (1, 2), "sms": 4, "layout": layout}
    assert not _wrong((3, 0, 130, 20), 136, 136, chosen, schedule=schedule)


def test_all_groups_empty_writes_nothing() -> None:
    kernel = grouped.build_grouped_gemm(2, 72, 72, M=64, layout="masked", sms=2, **SMALL)
    a, b, sizes = grouped.make_inputs((0, 0), 72, 72, slab=64)
    d = np.full((2, 64, 72), 7, harness.NUMPY[bf16])
    kernel(a, b, sizes, out=d)
    assert (d == 7).all()


def test_rows_behind_the_last_group_keep_what_they_hold() -> None:
    """The last group ends before A does: D is not written there."""
    kernel = grouped.build_grouped_gemm(2, 72, 72, sms=2, **SMALL)
    a, b, sizes = grouped.make_inputs((10, 60), 72, 72)
    sizes[1] -= 7
    d = np.full((70, 72), 7, harness.NUMPY[bf16])
    kernel(a, b, sizes, out=d)
    assert (d[63:] == 7).all() and not (d[:63] == 7).all(axis=1).any()


TUNINGS = [
    {},
    {"cluster": (2, 1)},
    {"cluster": (2, 2)},
    {"layout": "masked"},
    {"deferred": True},
    {"deferred": True, "narrow": 232},
    {"deferred": True, "narrow": 208, "layout": "masked"},
    {"deferred": True, "layout": "masked", "tile": (256, 128)},
    {"tile": (128, 192)},
    {"tile": (256, 128)},
    {"tile": (64, 256), "layout": "masked"},
    {"out_type": f32, "b_major": "MN"},
    {"a_type": e4m3, "scales_major": "M"},
    {"a_type": e4m3, "scales_major": "M", "M": 32768},
    {"a_type": e4m3, "scales_major": "M", "stagger": True},
    {"a_type": e4m3, "scales_major": "M", "layout": "masked"},
    {"a_type": e4m3, "scales_major": "M", "tile": (64, 128), "ahead": True, "layout": "masked"},
    {"a_type": e4m3, "scales_major": "M", "tile": (192, 128), "cluster": (1, 2)},
    {"a_type": e4m3, "scales_major": "M", "tile": (256, 128), "cluster": (1, 2)},
    {"a_type": e4m3, "scales_major": "M", "tile": (128, 128), "scales_in": "registers"},
    {"a_type": e4m3, "scales_major": "M", "tile": (256, 128), "layout": "masked"},
    {"a_type": e4m3, "scales_major": "M", "tile": (64, 128), "cluster": (1, 1), "layout": "masked"},
    {"a_type": e4m3, "scales_major": "M", "tile": (128, 128), "layout": "masked", "cluster": (2, 1)},
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chosen", TUNINGS)
def test_assembles_as_it_was_meant(chosen: dict[str, Any], ptxas: Tool) -> None:
    assembly = grouped.build_grouped_gemm(8, 4096, 4096, **{"M": 8192, **chosen}).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_three_warpgroups_multiply_groups_of_many_rows() -> None:
    def threads(M: int | None, **chosen: Any) -> int:
        chosen = {"a_type": e4m3, "scales_major": "M", **chosen}
        return int(grouped.build_grouped_gemm(8, 4096, 4096, M=M, **chosen).options.block[0])

    assert threads(8 * 4096) == 512
    for chosen in ({"M": 8192}, {"M": None}, {"M": 32768, "ahead": True}, {"M": 32768, "layout": "masked"}):
        assert threads(**chosen) == 384  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"groups": 0}, "groups = 0"),
        ({"layout": "padded"}, "layout = 'padded'"),
        ({"N": 65}, "N = 65"),
        ({"scales_major": "M"}, "expected 8-bit floats"),
        ({"scales_major": "M", "deferred": True}, "deferred with scales"),
        ({"narrow": 232}, "expected deferred stores and clusters"),
        ({"narrow": 232, "deferred": True, "cluster": (1, 2)}, "clusters of one column"),
        ({"narrow": 192, "deferred": True}, "more than 192"),
        ({"stagger": True}, "without scales of blocks: there is nothing"),
        ({"ahead": True}, "without scales of blocks: there is nothing"),
        (
            {"a_type": e4m3, "scales_major": "M", "M": 128, "K": 512, "tile": (128, 192), "ahead": True},
            "at most 128 columns",
        ),
        (
            {"scales_major": "M", "scales_in": "shared", "tile": (256, 128), "M": 512, "K": 512},
            "expected at most 192 rows",
        ),
    ],
)
def test_refusals(chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        grouped.build_grouped_gemm(**{"groups": 2, "N": 64, "K": 64, **chosen})


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["contiguous", "masked"])
def test_words_of_the_gpu_are_the_simulator_s(layout: str) -> None:
    torch = pytest.importorskip("torch")
    counts = (3, 0, 257, 40)
    given = grouped.make_inputs(counts, 136, 136, slab=300 if layout == "masked" else None)
    kernel = grouped.build_grouped_gemm(4, 136, 136, layout=layout, tile=(128, 128))
    there = harness.words_of(torch, kernel(*(harness.to_gpu(torch, x) for x in given)))
    here = kernel(*given).view(np.uint16)
    if layout == "masked":
        for group, count in enumerate(counts):
            assert np.array_equal(there[group, :count], here[group, :count])
    else:
        assert np.array_equal(there, here)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"out_type": f32}, {"deferred": True, "narrow": 216}])
@pytest.mark.parametrize("counts", [(1024,) * 8, (17, 3000, 0, 900, 1, 2500, 1000, 774)])
def test_right_on_the_gpu(counts: tuple[int, ...], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    N = K = 4096
    a = torch.randn(sum(counts), K, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(len(counts), N, K, device="cuda", dtype=torch.bfloat16)
    ends = torch.tensor(np.cumsum(counts), dtype=torch.int32, device="cuda")
    kernel = grouped.build_grouped_gemm(len(counts), N, K, **options)
    d = kernel(a, b, ends)
    for part, rows, weights in zip(d.split(list(counts)), a.split(list(counts)), b, strict=True):
        exact = rows.double() @ weights.double().T
        bound = K * 2.0**-23 * (rows.double().abs() @ weights.double().abs().T)
        if "out_type" not in options:
            bound += 2.0**-8 * (exact.abs() + bound)  # rounding to bf16
        assert bool(((part.double() - exact).abs() <= bound).all())
    assert torch.equal(kernel(a, b, ends), d)
