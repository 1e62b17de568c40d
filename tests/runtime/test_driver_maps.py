"""The driver at hand encodes tensor maps as :mod:`pyptx.layout.tensor_map_image` says."""

from __future__ import annotations

import pytest

from pyptx.layout import TensorMap
from pyptx.runtime.tensor_maps import encode

POINTER = 0x7F00_0000_0000
MAPS = {
    "rows": TensorMap.tiled(POINTER, shape=(300, 200), dtype="bf16", box=(64, 32), swizzle="64B"),
    "five": TensorMap.tiled(
        POINTER,
        shape=(2, 3, 4, 50, 64),
        dtype="f32",
        box=(1, 2, 3, 8, 16),
        element_strides=(1, 2, 1, 3, 1),
        oob_fill="nan",
        l2_promotion="256B",
    ),
    "large": TensorMap.tiled(
        POINTER, shape=(1 << 32, 1 << 31), dtype="u8", strides=(1 << 39, 1), box=(256, 64), l2_promotion="64B"
    ),
    "interleaved": TensorMap.tiled(
        POINTER, shape=(4, 32, 32, 64), dtype="f16", box=(1, 4, 4, 16), interleave="32B", swizzle="32B"
    ),
    "truncated": TensorMap.tiled(POINTER, shape=(64, 64), box=(8, 32), element="tf32.ftz", swizzle="128B"),
    "pixels": TensorMap.im2col(
        POINTER,
        shape=(3, 9, 9, 9, 64),
        dtype="f16",
        pixels=300,
        channels=32,
        lower=(-1, 2, -3),
        upper=(1, 0, 5),
    ),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", MAPS)
def test_the_driver_s_bytes(name: str) -> None:
    encoded = encode(MAPS[name], POINTER)
    words = b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque)
    assert words[:64] == MAPS[name].encode(POINTER)[:64]
