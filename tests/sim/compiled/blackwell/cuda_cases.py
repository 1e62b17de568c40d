"""The launches of the CUDA texts, and what they must compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conformance.case import In, Number

from ..hopper.launches import Expected, flat, near, product
from ..inputs import F32, I32, U32, ints
from ..launches import i32, out
from .launches import (
    BF16,
    E3M2,
    E4M3,
    E5M2,
    Array,
    Case,
    attended,
    box,
    dense,
    few,
    fours,
    nibbles,
    scale_bytes,
    spread_scales,
    uniform,
)

F16 = np.float16


def _exact(dtype: Any) -> Any:
    """The product of the last two arguments, which are small integers, in the type of the output."""
    return lambda *given: [flat(dense(*given[-2:]).astype(dtype))]


def _bounded(*given: Any) -> Sequence[Expected]:
    return [product(*given[-2:], "f32")]


# One product of each kind: a ring of three stages, the tile of D that one CTA computes, bytes of K.


def _kind(
    name: str, m: int, n: int, tiles: tuple[int, int], a: Array, b: Array, result: Any, expected: Any
) -> Case:
    """``tiles``: of D across and down. Elements of one byte are copied as bytes."""
    pitch = 128 // a.itemsize
    if a.itemsize == 1:
        given = In(a.view(np.uint8)), In(b.view(np.uint8))
    else:
        given = In(a), In(b)
    return Case(
        "kinds",
        name,
        lambda: (
            box(6, m, pitch),
            box(7, n, pitch),
            out(result, m * tiles[1], n * tiles[0]),
            i32(a.shape[1] // pitch),
            i32(n * tiles[0]),
            i32(pitch),
            *given,
        ),
        expected,
        grid=tiles,
        dynamic_smem=1024 + 3 * (m + n) * 128,
        parameters=6,
    )


def _of_bytes(a: Any, b: Any, result: Any) -> Any:
    return lambda *given: [flat(dense(given[-2].view(a), given[-1].view(b)).astype(result))]


_KINDS = [
    _kind(
        "bfloat",
        128,
        64,
        (1, 2),
        uniform("bfloat.a", 256, 256, BF16),
        uniform("bfloat.b", 64, 256, BF16),
        F32,
        _bounded,
    ),
    _kind(
        "half_sums",
        128,
        32,
        (1, 1),
        few("half.a", 128, 192, F16),
        few("half.b", 32, 192, F16),
        F16,
        _exact(F16),
    ),
    _kind("tf32", 64, 40, (2, 1), few("tf32.a", 64, 96, F32), few("tf32.b", 80, 96, F32), F32, _exact(F32)),
    _kind(
        "e4m3_e5m2",
        128,
        48,
        (1, 1),
        few("eights.a", 128, 384, E4M3),
        few("eights.b", 48, 384, E5M2),
        F32,
        _of_bytes(E4M3, E5M2, F32),
    ),
    _kind(
        "integers",
        128,
        32,
        (1, 1),
        few("integers.a", 128, 384, np.int8, -128, 128),
        few("integers.b", 32, 384, np.uint8, 0, 256),
        I32,
        _of_bytes(np.int8, np.uint8, I32),
    ),
]


def _sixes(values: Array) -> In:
    """Four numbers of six bits to three bytes, the first one lowest."""
    codes = (values.view(np.uint8) & 63).astype(U32).reshape(len(values), -1, 4)
    words = codes[..., 0] | codes[..., 1] << 6 | codes[..., 2] << 12 | codes[..., 3] << 18
    return In(np.stack([words, words >> 8, words >> 16], -1).astype(np.uint8).reshape(len(values), -1))


def _small_formats() -> Case:
    """Numbers of four and of six bits, which copies spread to a byte each."""
    depth = 3
    a = fours("small.a", 64, 128 * depth)
    b = ints("blackwell.small.b", 64 * 128 * depth, 0, 64, np.uint8).view(E3M2).reshape(64, -1)
    shape = (64, 128 * depth)
    return Case(
        "kinds",
        "e2m1_e3m2",
        lambda: (
            box(6, 64, 128, element="b4x16_p64", shape=shape),
            box(7, 64, 128, element="b6x16_p32", shape=shape),
            out(F32, 64, 64),
            i32(depth),
            i32(64),
            i32(128),
            nibbles(a),
            _sixes(b),
        ),
        lambda *given: [product(a, b, "f32")],
        dynamic_smem=1024 + 3 * 128 * 128,
        parameters=6,
    )


def _scaled(name: str, block: int) -> Case:
    """Three stages of 128 bytes of K; exact, since scales and elements have few bits."""
    eights = name == "mxf8"
    depth = 3 * (128 if eights else 256)
    if eights:
        a, b = few("mxf8.a", 128, depth, E4M3), few("mxf8.b", 128, depth, E5M2)
        stored = In(a.view(np.uint8)), In(b.view(np.uint8))
    else:
        a, b = fours(f"{name}.a", 128, depth), fours(f"{name}.b", 128, depth)
        stored = nibbles(a), nibbles(b)
    if name == "nvf4":
        # Multiples of a quarter.
        scales = [(few(f"nvf4.{s}.scale", 128, depth // block, F32, 1, 9) / 4).astype(E4M3) for s in "ab"]
        factors = [s.astype(np.float64) for s in scales]
    else:
        scales = [scale_bytes(f"{name}.{s}", 128, depth // block) for s in "ab"]
        factors = [2.0 ** (s.astype(np.float64) - 127) for s in scales]
    wide = [x.astype(np.float64) * np.repeat(f, block, 1) for x, f in zip((a, b), factors, strict=True)]
    return Case(
        "scaled",
        name,
        lambda: (
            box(6, 128, 128),
            box(7, 128, 128),
            spread_scales(scales[0]),
            spread_scales(scales[1]),
            out(F32, 128, 128),
            i32(3),
            *stored,
        ),
        lambda *given: [flat((wide[0] @ wide[1].T).astype(F32))],
        dynamic_smem=1024 + 2 * (2 * 128 * 128 + 8 * 512),
        parameters=6,
    )


def _persistent() -> Case:
    return Case(
        "persistent",
        "persistent",
        lambda: (
            box(6, 128, 64),
            box(7, 64, 64),
            box(8, 32, 64),
            i32(6),
            i32(2),
            i32(3),
            In(few("persistent.a", 384, 192, F16)),
            In(few("persistent.b", 128, 192, F16)),
            out(BF16, 384, 128),
        ),
        lambda *given: [flat(dense(*given[-3:-1]).astype(F32).astype(BF16))],
        grid=(2,),
        block=(192,),
        dynamic_smem=1024 + 3 * 192 * 128 + 8 * 4096,
        parameters=6,
    )


def _pair() -> Case:
    return Case(
        "pair",
        "pair",
        lambda: (
            box(5, 128, 64),
            box(6, 64, 64),
            out(F32, 256, 128),
            i32(4),
            i32(128),
            In(uniform("pair.a", 256, 256, BF16)),
            In(uniform("pair.b", 128, 256, BF16)),
        ),
        _bounded,
        grid=(2,),
        block=(192,),
        cluster=(2,),
        dynamic_smem=1024 + 3 * 192 * 128,
        parameters=5,
    )


def _attention() -> Case:
    def expected(*given: Any) -> list[Expected]:
        values, radius = attended(*given[-3:], given[5], 2.0**-11)
        return [near(values, "f16", radius)]

    return Case(
        "attention",
        "attention",
        lambda: (
            box(6, 128, 64),
            box(7, 64, 64),
            box(8, 64, 64),
            out(F16, 256, 64),
            i32(4),
            Number(0.18, "f32"),
            *(In(uniform(f"attention.{which}", 256, 64, F16, 2)) for which in "qkv"),
        ),
        expected,
        grid=(2,),
        block=(192,),
        dynamic_smem=1024 + 16384 + 4 * 8192,
        parameters=6,
    )


def _stationary() -> Case:
    return Case(
        "stationary",
        "stationary",
        lambda: (
            box(3, 64, 64),
            box(4, 128, 64),
            out(F32, 64, 128),
            In(few("stationary.a", 64, 64, F16)),
            In(few("stationary.b", 128, 64, F16)),
        ),
        _exact(F32),
        dynamic_smem=1024 + 192 * 128,
        parameters=3,
    )


#: The two of four that are kept.
_KEPT = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def _sparse() -> Case:
    """Which element of four a kept one is takes two bits; eight lanes' bits lie together (CUTLASS, tmem_e_frg)."""
    stages = 3
    kept = few("sparse.a", 128, 64 * stages, F16, 1, 7)
    chosen = ints("blackwell.sparse.which", 128 * 32 * stages, 0, 6).reshape(128, -1)
    whole = np.zeros((128, 128 * stages))
    words = np.zeros((stages, 128, 4), U32)
    for row in range(128):
        for four in range(32 * stages):
            first, second = _KEPT[chosen[row, four]]
            whole[row, 4 * four + first], whole[row, 4 * four + second] = kept[row, 2 * four : 2 * four + 2]
            stage, rest = divmod(four, 32)
            column, number = divmod(rest, 8)
            lane = row // 16 * 16 + row % 8 + number // 4 * 8
            bit = row % 16 // 8 * 16 + number % 4 * 4
            words[stage, lane, column] |= np.uint32((first | second << 2) << bit)
    return Case(
        "sparse",
        "sparse",
        lambda: (
            box(5, 128, 64),
            box(6, 64, 64),
            In(words),
            out(F32, 128, 64),
            i32(stages),
            In(kept),
            In(few("sparse.b", 64, 128 * stages, F16)),
        ),
        lambda *given: [flat(dense(whole, given[-1]).astype(F32))],
        dynamic_smem=1024 + 2 * (128 * 128 + 64 * 256 + 2048),
        parameters=5,
    )


def _multicast() -> Case:
    return Case(
        "multicast",
        "multicast",
        lambda: (
            box(4, 32, 64),
            box(5, 32, 64),
            box(6, 32, 64, "none"),
            i32(4),
            In(few("multicast.a", 256, 256, BF16)),
            In(few("multicast.b", 256, 128, BF16)),
            out(F32, 256, 128, initial=few("multicast.d", 256, 128, F32)),
        ),
        lambda *given: [flat((given[-1] + dense(given[-3].T, given[-2].T)).astype(F32))],
        grid=(2, 2, 2),
        cluster=(2,),
        dynamic_smem=1024 + 3 * 12288,
        parameters=4,
    )


def _gather() -> Case:
    rows = np.argsort(ints("blackwell.gather.rows", 300, 0, 1 << 30), kind="stable")[:128].astype(I32)

    def expected(*given: Any) -> list[Expected]:
        result = np.zeros((300, 32), F32)
        result[rows] = dense(given[4][rows], given[5])
        return [flat(result)]

    return Case(
        "gather",
        "gather",
        lambda: (
            box(4, 1, 64),
            box(5, 32, 64),
            box(6, 1, 32),
            In(rows),
            In(few("gather.x", 300, 64, F16)),
            In(few("gather.w", 32, 64, F16)),
            out(F32, 300, 32),
        ),
        expected,
        dynamic_smem=1024 + 160 * 128,
        parameters=4,
    )


def _fma(a: Array, b: Any, c: Any) -> Array:
    """Rounded once, but where a product of 48 bits and a sum are rounded to 53 first: none of these inputs."""
    return (a.astype(np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)).astype(F32)


def _packed(x: Array, *given: Any) -> list[Expected]:
    scale, bias = F32(given[-2]), F32(given[-1])
    value = _fma(x, scale, bias)
    square = value * value
    factor = _fma(_fma(square, 0.0625, -0.375), square, 0.5)
    result = _fma(factor, value, bias)
    sums = square[:, :2] + square[:, 2:]
    largest = result.reshape(-1, 128)
    largest = np.abs(largest).max(1)
    return [flat(result), flat(sums[:, 0] + sums[:, 1]), flat(largest)]


CUDA_CASES = [
    *_KINDS,
    _small_formats(),
    *(_scaled(name, block) for name, block in (("mxf8", 32), ("mxf4", 32), ("nvf4", 16))),
    _persistent(),
    _pair(),
    _attention(),
    _stationary(),
    _sparse(),
    _multicast(),
    _gather(),
    Case(
        "packed",
        "packed",
        lambda: (
            In(uniform("packed", 512, 4, F32, 3)),
            out(F32, 512, 4),
            out(F32, 512),
            out(F32, 16),
            Number(0.7, "f32"),
            Number(0.1, "f32"),
        ),
        _packed,
        grid=(4,),
    ),
    Case(
        "launch_control",
        "launch_control",
        lambda: (
            In(few("launch", 156, 128, F32)),
            out(F32, 156, 128),
            out(U32, 156),
        ),
        lambda x, y, tiles: [flat(2 * x + np.arange(156, dtype=F32)[:, None]), flat(np.ones(156, U32))],
        grid=(78, 2),
        dynamic_smem=200_000,
    ),
]
