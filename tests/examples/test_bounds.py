"""The bounds of the Blackwell kernels: they describe these kernels, and nothing that was measured is above them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.blackwell.registry import PRODUCTS, Product

from .loading import load_example

bounds = load_example("blackwell/bounds.py")
SIZE = 4096
#: What a copy is called that brings a tile into shared memory.
_LOAD = re.compile(r"cp\.async\.bulk\.tensor\.\dd\.shared")


def _product(name: str) -> Product:
    return next(each for each in PRODUCTS if each.name == name)


def _tilus(name: str, tiling: Any) -> Any:
    """Build a version with the tiles of its bound; N = K = 4096."""
    tiles = {"block_m": tiling.rows, "block_n": tiling.columns, "block_k": tiling.depth, "e_block_n": 16}
    if name in ("tilus-v0", "tilus-v1"):
        module = load_example(f"blackwell/tilus/matmul_{name[-2:]}.py")
        if name == "tilus-v0":
            del tiles["e_block_n"]
        return getattr(module, f"build_matmul_{name[-2:]}").what(SIZE, SIZE, **tiles)
    module = load_example("blackwell/tilus/matmul.py")
    fixed, _ = module.VERSIONS[name[-2:]]
    options = module.CHOSEN[name[-2:]] | fixed | tiles | {"stages": tiling.stages}
    return module.build_matmul(SIZE, SIZE, **options)


def test_every_product_has_a_bound() -> None:
    assert list(bounds.KERNELS) == [each.name for each in PRODUCTS]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", bounds.KERNELS)
def test_stages_and_tiles_are_those_of_the_kernel(name: str) -> None:
    tiling = bounds.KERNELS[name]
    built = _tilus(name, tiling) if name.startswith("tilus") else _product(name).build(SIZE, SIZE, SIZE)
    launch = built.specialize(**({"M": SIZE} if "M" in built.options.dims else {})).launch
    ring = tiling.stages * tiling.stage_bytes
    # Beside the ring there are barriers, and staging tiles of at most 32 KiB.
    assert ring <= launch.dynamic_smem + 1024 <= min(ring + 36 * 1024, bounds.SHARED + 1024)
    assert launch.dynamic_smem * tiling.resident <= bounds.SHARED
    assert tiling.columns * tiling.resident <= bounds.COLUMNS
    ctas = int(np.prod(launch.grid))
    tiles = bounds.bound(tiling, SIZE, SIZE, SIZE).tiles
    assert ctas in (tiles * tiling.ctas, 148, (222 + 68) * 2)  # a CTA for each tile, persistent, v7's halves


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", ["gemm", "gemm-2sm", "persistent", "launch-control", "v1a", "v2b", "v4", "v6"]
)
def test_loads_are_the_bytes_that_a_run_copies(name: str) -> None:
    product = _product(name)
    M, N, K = product.shape
    kernel = product.build(M, N, K)
    a, b = product.inputs(M, N, K)
    d = np.full((M, N), np.nan, product.dtype)
    report = kernel.simulate(a, b, out=d, sanitize=False, timeline=True)
    assert report.timeline is not None
    loads = [event.detail for event in report.timeline.events if _LOAD.match(event.name)]
    copied = sum(int(found[1]) for found in map(re.compile(r"(\d+) bytes").search, loads) if found)
    assert copied == bounds.bound(bounds.KERNELS[name], M, N, K).loads


@pytest.mark.parametrize("name", [name for name, each in bounds.KERNELS.items() if each.published])
def test_nothing_that_was_published_is_above_its_bound(name: str) -> None:
    tiling = bounds.KERNELS[name]
    for size, tflops in tiling.published.items():
        assert tflops <= bounds.bound(tiling, size, size, size).tflops


def test_the_persistent_kernel_has_the_best_tiles() -> None:
    chosen = bounds.KERNELS["persistent"]
    for size in (4096, 8192, 16384):
        assert bounds.ranked(size, size, size)[0] == replace(chosen, published={})


def test_even_rounds_do_better() -> None:
    """4096 cubed in tiles of 256x256 by 74 pairs: 3.46 rounds, so at most 86.5% of four."""
    v6, v7 = (bounds.bound(bounds.KERNELS[name], SIZE, SIZE, SIZE) for name in ("v6", "v7"))
    assert v6.even == pytest.approx(256 / 74 / 4)
    assert v7.even == pytest.approx(256 / 74 / 3.5)
    for clock in (1.93, 1.38):
        v6, v7 = (bounds.bound(bounds.KERNELS[name], SIZE, SIZE, SIZE, clock) for name in ("v6", "v7"))
        assert v7.tflops > v6.tflops


def test_a_bound_by_hand() -> None:
    """One tile of 256x256 by a pair, K = 640: ten stages of four products of 128 clocks."""
    found = bounds.bound(bounds.KERNELS["persistent"], 256, 256, 640, clock=1.0)
    assert (found.tiles, found.rounds, found.loads) == (1, 1, 10 * 2 * 32768)
    assert found.computing == pytest.approx(10 * 4 * 128e-9)
    assert found.fabric == pytest.approx(655_360 / 19e12)
    assert found.hbm == pytest.approx((512 * 640 * 2 + 256 * 256 * 4) / 7.2e12)
    assert (found.rate, found.port) == (64, 0.5)


def test_rows_of_16_bytes_and_a_single_stage() -> None:
    """v1a: 384 rows of 512 bytes are 12,288 rows of 16; copies and products of a stage do not overlap."""
    clocks, limit = bounds.stage_clocks(bounds.KERNELS["v1a"], 256, clock=2.0)
    assert (clocks, limit) == (690 + 12_288 + 2048 + 136, "waiting")
    overlapped = replace(bounds.KERNELS["v1a"], overlap=True)
    assert bounds.stage_clocks(overlapped, 256, clock=2.0) == (12_288, "rows")
