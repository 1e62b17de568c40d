"""The launches of the CUDA texts for clusters and copies, and what they must compute."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Number

from ..inputs import F32, I32, U32, bits, floats, ints
from ..launches import Bound, i32, out
from .launches import Case, Expected, flat, near, tiled

Array = NDArray[Any]
BF16, F16 = ml_dtypes.bfloat16, np.float16


# Clusters.


def _softmax(x: Array, o: Array, width: int) -> list[Expected]:
    wide = x.reshape(-1, width).astype(np.float64)
    weights = np.exp(wide - wide.max(1, keepdims=True))
    result = weights / weights.sum(1, keepdims=True)
    # ex2.approx has two units, its argument 16 bits before the point and one rounding.
    return [near(result, "f32", 2.0**-19 * result)]


def _histogram(x: Array, counts: Array, n: int, bins: int) -> list[Expected]:
    return [flat(np.bincount(np.clip(x, 0, bins - 1), minlength=bins).astype(I32))]


def _ring(x: Array, sums: Array, most: Array) -> list[Expected]:
    ranks = x.astype(np.int64).reshape(4, 64, 4)
    total = np.zeros((4, 64), np.int64)
    for step in range(3):
        got = np.roll(ranks, step + 1, axis=0)
        total = total * 3 + (got[..., 0] ^ got[..., 1]) + got[..., 2] * got[..., 3]
    return [flat(total.astype(I32)), flat(np.tile(ranks[:, :, 0].max(0).astype(I32), 4))]


def _rms_norm(x: Array, weights: Array, o: Array, width: int, epsilon: float) -> list[Expected]:
    rows = x.reshape(-1, width).astype(np.float64)
    result = rows / np.sqrt((rows**2).mean(1, keepdims=True) + np.float64(F32(epsilon))) * weights
    # Every sum of `width` squares is of positive numbers; the factors are rounded three times.
    return [near(result, "f32", (width / 128 + 16) * 2.0**-24 * np.abs(result))]


_CLUSTERS = [
    Case(
        "clusters",
        "softmax",
        lambda: (
            In(floats("cluster.softmax", 2 * 640, -8, 8)),
            out(F32, 2, 640, bound=Bound("ex2.approx of each element and of all in the divisor", ulps=8)),
            i32(640),
        ),
        _softmax,
        grid=(4, 2),
        cluster=(4,),
    ),
    Case(
        "clusters",
        "histogram",
        lambda: (In(ints("cluster.histogram", 2 * 500, -9, 140)), out(I32, 128), i32(500), i32(128)),
        _histogram,
        grid=(2, 2),
        block=(64,),
        cluster=(2,),
        dynamic_smem=256,
    ),
    Case(
        "clusters",
        "scan",
        lambda: (In(bits("cluster.scan", 1024)), out(U32, 1024)),
        lambda x, o: [flat(np.cumsum(x.reshape(2, 512), axis=1, dtype=U32))],
        grid=(8,),
        cluster=(4,),
    ),
    Case(
        "clusters",
        "ring",
        lambda: (In(bits("cluster.ring", 4 * 64 * 4, I32)), out(I32, 256), out(I32, 256)),
        _ring,
        grid=(4,),
        block=(64,),
        cluster=(4,),
    ),
    Case(
        "clusters",
        "rms_norm",
        lambda: (
            In(floats("cluster.rms", 4 * 512, -4, 4)),
            In(floats("cluster.rms.w", 512)),
            out(F32, 4, 512),
            i32(512),
            Number(1e-5, "f32"),
        ),
        _rms_norm,
        grid=(4,),
        cluster=(2,),
        dynamic_smem=4096,
    ),
    Case(
        "clusters",
        "sort",
        lambda: (In(bits("cluster.sort", 512)), out(U32, 2, 256)),
        lambda x, o: [flat(np.sort(x.reshape(2, 256)))],
        grid=(2, 2),
        cluster=(2,),
    ),
]


# Copies.


def _bulk_reductions(x: Array, *_: Array) -> list[Expected]:
    blocks = x.reshape(3, 256)
    pairs = blocks.view(np.uint64)
    joined = np.concatenate(
        [
            np.bitwise_xor.reduce(blocks[:, :128]),
            np.bitwise_and.reduce(blocks[:, 128:192]),
            np.full(64, 3, U32),
        ]
    )
    quarters = 0.25 * (blocks % 32)
    return [
        flat(blocks.sum(0, dtype=U32)),
        flat(blocks.view(I32).min(0)),
        flat(pairs.max(0)),
        flat(joined),
        flat(quarters.sum(0).astype(F16)),
        flat((0.25 * (blocks % 16)).max(0).astype(BF16).view(np.uint16)),
    ]


def _stencil(a: Any, b: Any, depth: int, x: Array, o: Array) -> list[Expected]:
    p = np.pad(x.astype(np.float64), 1)
    inner = slice(1, -1)
    beside = [p[:-2, inner, inner], p[2:, inner, inner], p[inner, :-2, inner], p[inner, 2:, inner]]
    beside += [p[inner, inner, :-2], p[inner, inner, 2:]]
    centre = p[inner, inner, inner]
    size = sum(np.abs(part) for part in beside) + 6 * np.abs(centre)
    return [near(sum(beside) - 6 * centre, "f32", 7 * 2.0**-24 * size)]


def _filled(x: Array, o: Array, rounds: int) -> list[Expected]:
    y = x[:, np.arange(64) ^ 33]
    words = x[..., 0] + y[..., 3], x[..., 1] ^ y[..., 2], x[..., 2] - y[..., 1], x[..., 3] & y[..., 0]
    return [flat(np.stack(words, -1))]


def _pipeline(x: Array, o: Array, batches: int) -> list[Expected]:
    total = np.zeros(128, np.int64)
    for batch in x.astype(np.int64).reshape(batches, 128):
        total = total * 5 + batch[np.arange(128) ^ 37]
    return [flat((total + x[:128].astype(np.int64) * x[255:127:-1]).astype(I32))]


_COPIES = [
    Case(
        "copies",
        "ring_copy",
        lambda: (In(bits("ring copy", 9008, np.uint8)), out(np.uint8, 9008), i32(9008)),
        lambda x, o, n: [flat(x)],
        grid=(3,),
        block=(32,),
    ),
    Case(
        "copies",
        "bulk_reductions",
        lambda: (
            In(bits("bulk reductions", 3 * 256)),
            out(U32, 256),
            out(I32, 256, initial=2**31 - 1),
            out(np.uint64, 128),
            out(U32, 256, initial=np.repeat(np.array([0, 2**32 - 1, 0], U32), [128, 64, 64])),
            out(F16, 256),
            out(np.uint16, 256),
        ),
        _bulk_reductions,
        grid=(3,),
        block=(256,),
    ),
    Case(
        "copies",
        "sums_at_first",
        lambda: (In(bits("sums at first", 1024, I32)), out(I32, 256)),
        lambda x, o: [flat(x.reshape(2, 4, 128).sum(1, dtype=I32))],
        grid=(8,),
        cluster=(4,),
    ),
    Case(
        "copies",
        "transpose",
        lambda: (
            tiled(2, 32, 32),
            tiled(3, 32, 32),
            In(bits("swizzled transpose", 64 * 96).reshape(64, 96)),
            out(U32, 96, 64),
        ),
        lambda a, b, x, o: [flat(x.T)],
        grid=(3, 2),
        block=(32, 4),
        parameters=2,
    ),
    Case(
        "copies",
        "stencil",
        lambda: (
            tiled(3, 3, 6, 24, swizzle="none"),
            tiled(4, 1, 4, 16, swizzle="none"),
            i32(5),
            In(floats("stencil", 5 * 7 * 24).reshape(5, 7, 24)),
            out(F32, 5, 7, 24),
        ),
        _stencil,
        grid=(2, 2),
        parameters=3,
    ),
    Case(
        "copies",
        "gather_rows",
        lambda: (
            In(floats("gather", 50 * 32).reshape(50, 32)),
            In(ints("gather.index", 45, 0, 50)),
            out(F32, 45, 32),
            i32(45),
        ),
        lambda table, index, o, count: [flat(table[index] * table[index])],
        grid=(2,),
        block=(32,),
    ),
    Case(
        "copies",
        "filled",
        lambda: (In(bits("filled", 5 * 256).reshape(5, 64, 4)), out(U32, 5, 64, 4), i32(5)),
        _filled,
    ),
    Case(
        "copies",
        "block_pipeline",
        lambda: (In(bits("block pipeline", 7 * 128, I32)), out(I32, 128), i32(7)),
        _pipeline,
    ),
]

EXCHANGE_CASES = [*_CLUSTERS, *_COPIES]
