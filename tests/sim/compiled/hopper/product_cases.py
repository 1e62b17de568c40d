"""The launches of the CUDA texts that multiply, and what they must compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Map, Number

from ..inputs import F32, I32, bits, floats, ints
from ..launches import Bound, i32, out
from .launches import Case, Expected, flat, near, product, products, tiled

Array = NDArray[Any]
BF16, F16 = ml_dtypes.bfloat16, np.float16


def _matrix(name: str, rows: int, columns: int, dtype: Any = F16) -> In:
    return In(floats(f"hopper.{name}", rows * columns).astype(dtype).reshape(rows, columns))


def _cluster_gemm(a: Any, b: Any, d: Any, depth: int, x: Array, y: Array, z: Array) -> list[Expected]:
    return [product(x, y, "f16")]


def _stream_k(*given: Any) -> list[Expected]:
    x, y = given[-3:-1]
    return [flat((x.astype(np.float64) @ y.astype(np.float64).T).astype(F32))]


def _scaled(
    a: Any, b: Any, x_scale: Array, y_scale: Array, d: Array, n: int, depth: int, x: Array, y: Array
) -> list[Expected]:
    kind = ml_dtypes.float8_e4m3fn
    wide_x, wide_y = x.view(kind).astype(np.float64), y.view(kind).astype(np.float64)
    total, radius = np.zeros((len(x), n)), np.zeros((len(x), n))
    for block in range(depth // 128):
        part = slice(block * 128, block * 128 + 128)
        scale = x_scale[block][:, None].astype(np.float64) * np.repeat(y_scale[:, block], 64)[None, :]
        total += scale * (wide_x[:, part] @ wide_y[:, part].T)
        # Sums of eights are cut below 2**-13 of their largest addend, of 33 in each of four products.
        radius += scale * 4 * 33 * 2.0**-13 * (np.abs(wide_x[:, part]) @ np.abs(wide_y[:, part]).T)
    return [near(total, "bf16", radius)]


def _quantised(
    a: Any, b: Any, sums: Array, d: Array, n: int, depth: int, scale: float, x: Array, y: Array
) -> list[Expected]:
    exact = x.astype(I32) @ y.astype(I32).T
    return [flat(exact), flat(np.clip(np.rint(exact.astype(F32) * F32(scale)), -128, 127).astype(np.int8))]


_GEMMS = [
    Case(
        "gemms",
        "cluster_gemm",
        lambda: (
            tiled(4, 128, 64),
            tiled(5, 32, 64),
            tiled(6, 64, 64),
            i32(320),
            _matrix("cluster.a", 256, 320),
            _matrix("cluster.b", 64, 320),
            out(F16, 256, 64),
        ),
        _cluster_gemm,
        grid=(2, 1),
        block=(384,),
        cluster=(2,),
        dynamic_smem=91136,
        parameters=4,
    ),
    Case(
        "gemms",
        "ping_pong_gemm",
        lambda: (
            tiled(6, 64, 64),
            tiled(7, 64, 64),
            out(F32, 64, 256),
            i32(64),
            i32(256),
            i32(192),
            _matrix("turns.a", 64, 192, BF16),
            _matrix("turns.b", 256, 192, BF16),
        ),
        lambda a, b, d, m, n, depth, x, y: [product(x, y, "f32")],
        block=(384,),
        dynamic_smem=66560,
        parameters=6,
    ),
    Case(
        "gemms",
        "stream_k_gemm",
        lambda: (
            tiled(7, 64, 32),
            tiled(8, 64, 32),
            tiled(9, 64, 32),
            i32(2),
            i32(5),
            i32(4 * 5),
            i32(7),
            In((ints("stream.a", 128 * 160, -8, 9) * 0.25).astype(F32).reshape(128, 160)),
            In((ints("stream.b", 128 * 160, -8, 9) * 0.25).astype(F32).reshape(128, 160)),
            out(F32, 128, 128),
        ),
        _stream_k,
        grid=(3,),
        dynamic_smem=50176,
        parameters=7,
    ),
    Case(
        "gemms",
        "scaled_gemm",
        lambda: (
            tiled(7, 64, 128),
            tiled(8, 64, 128),
            In(floats("scaled.a.scale", 3 * 64, 0.5, 2).reshape(3, 64)),
            In(floats("scaled.b.scale", 2 * 3, 0.5, 2).reshape(2, 3)),
            out(np.uint16, 64, 128),
            i32(128),
            i32(384),
            In(
                floats("scaled.a", 64 * 384, -4, 4)
                .astype(ml_dtypes.float8_e4m3fn)
                .view(np.uint8)
                .reshape(64, 384)
            ),
            In(
                floats("scaled.b", 128 * 384, -4, 4)
                .astype(ml_dtypes.float8_e4m3fn)
                .view(np.uint8)
                .reshape(128, 384)
            ),
        ),
        _scaled,
        grid=(2, 1),
        block=(160,),
        dynamic_smem=33792,
        parameters=7,
    ),
    Case(
        "gemms",
        "quantised_gemm",
        lambda: (
            tiled(7, 64, 64, swizzle="64B"),
            tiled(8, 64, 64, swizzle="64B"),
            out(I32, 128, 64),
            out(np.int8, 128, 64),
            i32(64),
            i32(192),
            Number(0.00078125, "f32"),
            In(bits("quantised.a", 128 * 192, np.int8).reshape(128, 192)),
            In(bits("quantised.b", 64 * 192, np.int8).reshape(64, 192)),
        ),
        _quantised,
        grid=(1, 2),
        parameters=7,
    ),
]


def _free_tiles(*given: Any) -> list[Expected]:
    x, y = (array.astype(np.float64) for array in given[-3:-1])
    # Every 16 of K are added up in one sum, which is rounded to f16.
    return [
        flat(np.array([6 + 2], I32)),
        near(x.T @ y, "f16", len(x) / 16 * 2.0**-11 * (np.abs(x).T @ np.abs(y))),
    ]


_TILES = [
    Case(
        "tiles",
        "free_tiles",
        lambda: (
            tiled(7, 64, 64),
            tiled(8, 64, 64),
            tiled(9, 64, 64),
            out(I32, 1),
            i32(3),
            i32(6),
            i32(192),
            _matrix("tiles.a", 192, 128),
            _matrix("tiles.b", 192, 192),
            out(F16, 128, 192),
        ),
        _free_tiles,
        grid=(2,),
        block=(160,),
        dynamic_smem=41 * 1024 + 1024,
        parameters=7,
    ),
]


# Products inside larger kernels.


def _attention(causal: bool) -> Case:
    n, heads = 128, 1 if causal else 2

    def expected(q: Any, k: Any, v: Any, o: Any, n: int, scale: float, *arrays: Array) -> Sequence[Expected]:
        x, y, z = (array.astype(np.float64) for array in arrays[:3])
        scores = x @ y.swapaxes(1, 2) * scale * np.log(2)
        if causal:
            scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        # Weights are rounded to f16 (2**-11), so is the result; ex2.approx and sums in f32 are finer.
        return [near(weights @ z, "f16", 2.0**-10 * (weights @ np.abs(z)))]

    def arrays() -> list[In]:
        count = heads * n * 64
        return [In(floats(f"heads.{w}", count, -2, 2, F16).reshape(heads, n, 64)) for w in "qkv"]

    bound = Bound("weights through ex2.approx, rounded to f16", ulps=1, absolute=5e-4)
    return Case(
        "products",
        "causal_attention" if causal else "attention",
        lambda: (
            *(tiled(at, 1, 64, 64) for at in range(6, 10)),
            i32(n),
            Number(0.18033688, "f32"),
            *arrays(),
            out(F16, heads, n, 64, bound=bound),
        ),
        expected,
        grid=(1, heads),
        block=(384,),
        dynamic_smem=50176,
        parameters=6,
    )


def _convolution(
    images: Any, filters: Any, bias: Array, o: Array, h: int, w: int, x: Array, y: Array
) -> list[Expected]:
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [padded[:, i : i + h, j : j + w].reshape(-1, 32) for i in range(3) for j in range(3)]
    total, radius = products(np.concatenate(taps, 1), y)
    return [near(np.maximum(total + bias, 0), "f32", radius + 288 * 2.0**-23 * np.abs(bias))]


def _grouped(
    a: Any, b: Any, x: Array, rows: Array, maps: Any, d: Array, depth: int, y: Array
) -> list[Expected]:
    total, radius = np.zeros(d.shape), np.zeros(d.shape)
    start = 0
    for group, count in enumerate(rows):
        part = slice(start, start + int(count))
        total[part], radius[part] = products(x[part], y[group * 64 : group * 64 + 64])
        start += int(count)
    return [near(total, "f32", radius)]


_PRODUCTS = [
    _attention(causal=False),
    _attention(causal=True),
    Case(
        "products",
        "convolution",
        lambda: (
            Map(6, {"pixels": 64, "channels": 32, "lower": (-1, -1), "upper": (-1, -1), "swizzle": "64B"}),
            tiled(7, 64, 32, swizzle="64B"),
            In(floats("conv.bias", 64)),
            out(F32, 2 * 12 * 8, 64),
            i32(12),
            i32(8),
            In(floats("conv.x", 2 * 12 * 8 * 32).astype(BF16).reshape(2, 12, 8, 32)),
            _matrix("conv.w", 64, 9 * 32, BF16),
        ),
        _convolution,
        grid=(3,),
        parameters=6,
    ),
    Case(
        "products",
        "grouped_gemm",
        lambda: (
            tiled(2, 64, 64),
            tiled(7, 64, 64),
            _matrix("grouped.a", 70 + 5 + 64, 128, BF16),
            In(np.array([70, 5, 64], I32)),
            In(np.zeros(6 * 128, np.uint8)),
            out(F32, 70 + 5 + 64, 64),
            i32(128),
            _matrix("grouped.b", 3 * 64, 128, BF16),
        ),
        _grouped,
        grid=(2, 3),
        parameters=7,
    ),
]

PRODUCT_CASES = [*_GEMMS, *_TILES, *_PRODUCTS]
