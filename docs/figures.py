"""Writes the figures of the pages: ``python docs/figures.py``. A test compares the files with its figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

from pyptx import TensorMap, viz

TILUS = Path(__file__).parents[1] / "examples" / "blackwell" / "tilus"
sys.path.insert(0, str(TILUS))

import matmul  # noqa: E402
import matmul_v0  # noqa: E402
import matmul_v1  # noqa: E402
import tilus_harness  # noqa: E402

FOLDER = Path(__file__).parent / "assets" / "figures"


@cache
def observed(version: str) -> viz.RunEvents:
    """Return the events of a simulated run of V0 or V1: one tile of 128x64, two slices of K."""
    tile = {"block_m": 128, "block_n": 64, "block_k": 32}
    if version == "V0":
        product = matmul_v0.build_matmul_v0.what(64, 64, **tile)
    else:
        product = matmul_v1.build_matmul_v1.what(64, 64, e_block_n=32, **tile)
    events = viz.RunEvents()
    tilus_harness.simulated(product, 128, 64, 64, observers=[events])
    return events


def stages() -> viz.Figure:
    """Draw the ring of three stages of V3, with six slices of K."""
    product = matmul.build_matmul(64, 64 * 6, block_n=64, stages=3)
    report, _ = tilus_harness.simulated(product, 128, 64, 64 * 6, timeline=True, schedule="late")
    return viz.pipeline(report.timeline)


def boxes(slabs: bool) -> viz.Figure:
    """Draw the tensor map of an operand of 320 x 192, as a matrix or as slabs of 64 columns."""
    operand = np.zeros((320, 192), ml_dtypes.bfloat16)
    if not slabs:
        return viz.tensor_map(TensorMap.tiled(operand, box=(128, 64), swizzle="128B"), (64, 256))
    map = TensorMap.tiled(
        operand, shape=(3, 320, 64), strides=(128, 384, 2), box=(2, 128, 64), swizzle="128B"
    )
    return viz.tensor_map(map, (0, 128, 0))


#: Name of the file without its ending -> what draws the figure.
FIGURES: dict[str, Callable[[], viz.Figure]] = {
    "block_tiling": viz.block_tiling,
    "core_matrices_k": lambda: viz.core_matrices(32, 32, 16, "K", "none"),
    "core_matrices_k_128b": lambda: viz.core_matrices(32, 64, 16, "K", "128B"),
    "core_matrices_mn": lambda: viz.core_matrices(64, 32, 16, "MN", "none"),
    "core_matrices_mn_128b": lambda: viz.core_matrices(128, 32, 16, "MN", "128B"),
    "swizzle": viz.swizzle,
    "layout_d": viz.accumulator,
    "layout_m64": lambda: viz.accumulator(64, 128),
    "layout_m64_ws": lambda: viz.accumulator(64, 128, ws=True),
    "layout_pair_m256": lambda: viz.accumulator(256, 256, cta_group=2),
    "layout_pair_m128": lambda: viz.accumulator(128, 256, cta_group=2),
    "load_32x32b": viz.fragment,
    "tensor_memory": viz.tensor_memory,
    "tensor_memory_pair": lambda: viz.tensor_memory(256, 256, 2, cta_group=2),
    "pair": viz.pair,
    "tensor_map": lambda: boxes(slabs=False),
    "tensor_map_slabs": lambda: boxes(slabs=True),
    "cp_async_and_tma": lambda: viz.copies(
        [observed("V0"), observed("V1")], ["V0: cp.async by 128 threads", "V1: TMA"]
    ),
    "data_flow": lambda: viz.data_flow([observed("V0")], ["V0"]),
    "tma_epilogue": lambda: viz.data_flow([observed("V1")], ["V1"]),
    "mbarrier": lambda: viz.mbarrier(observed("V1"), "loaded"),
    "pipeline": stages,
    "tile_order_wave": viz.tile_order,
    "tile_orders": lambda: viz.tile_order(("row_major", "grouped", "hilbert"), 8, 12, 2, 24, 4),
}


def main() -> None:
    """Write all figures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        draw().save(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
