"""The launches of the texts of Triton and Gluon, and what they must compute."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Map, Number, Out

from ..inputs import F32, I32, bits, floats, ints
from ..launches import Bound, i32, out
from .kernels import GLUON, TRITON
from .launches import TEXTS, Case, Expected, flat, near, product, products

Array = NDArray[Any]
BF16, F16, F8 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn
_SWIZZLES = ("none", "32B", "64B", "128B")


@cache
def _about() -> Any:
    return json.loads((TEXTS / "texts.json").read_text())["launches"]


class Behind:
    """An array that the kernel knows through a descriptor of the host: map, extents, strides.

    Attributes:
        im2col: corners of the bounding box, if pixels are taken and no boxes.
    """

    def __init__(self, array: In | Out, **im2col: Any) -> None:
        self.array, self.im2col = array, im2col


Argument = In | Out | Number | Map


def _arguments(
    text: str, given: Sequence[Argument | Behind], programs: int
) -> tuple[tuple[Argument, ...], int]:
    """What the text's parameters are: those of the kernel, with descriptors spelled out, and two pointers to scratch."""
    about = _about()[text]
    maps = iter(about["maps"])
    passed: list[Any] = []
    hidden: list[In | Out] = []
    behind: list[int] = []
    for argument in given:
        if not isinstance(argument, Behind):
            passed.append(argument)
            continue
        (rows, columns), swizzle = next(maps)
        options = dict(argument.im2col) or {"box": (rows, columns)}
        if argument.im2col:
            options |= {"pixels": rows, "channels": columns}
        array = argument.array.array if isinstance(argument.array, In) else argument.array.before()
        if array.dtype == F8:
            options["dtype"] = "u8"
        behind.append(len(passed))
        passed.append({**options, "swizzle": _SWIZZLES[swizzle]})
        strides = [step // array.itemsize for step in array.strides]
        passed += [i32(extent) for extent in array.shape[-2:]] + [
            Number(step, "u64") for step in strides[-2:]
        ]
        hidden.append(argument.array)
    passed += [In(np.zeros(max(1, about["scratch"] * programs), np.uint8)), Number(0, "u64")]
    for number, at in enumerate(behind):
        passed[at] = Map(len(passed) + number, passed[at])
    return (*passed, *hidden), len(passed)


def _case(
    prefix: str,
    name: str,
    make: Callable[[], tuple[Argument | Behind, ...]],
    expected: Callable[..., Sequence[Expected]],
    grid: tuple[int, ...] = (1,),
    review: str = "",
) -> Case:
    """A launch. ``expected`` is given the arrays alone, those behind descriptors last."""
    text = f"{prefix}.{name}"
    about = _about()[text]
    cluster = about["cluster"]
    extents = (grid[0] * cluster, *grid[1:])
    programs = int(np.prod(extents))

    def arrays(*given: Any) -> Sequence[Expected]:
        return expected(*(value for value in given if isinstance(value, np.ndarray)))

    return Case(
        text,
        (TRITON if prefix == "triton" else GLUON)[name].function,
        lambda: _arguments(text, make(), programs)[0],
        arrays,
        grid=extents,
        block=(about["threads"],),
        cluster=(cluster,),
        dynamic_smem=about["dynamic_smem"],
        parameters=_arguments(text, make(), programs)[1],
        review=frozenset(review.split()),
    )


def _matrix(name: str, rows: int, columns: int, dtype: Any = F16) -> In:
    return In(floats(f"hopper.triton.{name}", rows * columns).astype(dtype).reshape(rows, columns))


def _product(kind: str, *, transposed: bool = False) -> Callable[..., list[Expected]]:
    """A B^T, or A B, of the last arrays but one."""

    def expected(*arrays: Array) -> list[Expected]:
        a, b = arrays[-3:-1]
        return [product(a, b.T if transposed else b, kind)]

    return expected


def _squares(name: str, m: int, n: int, k: int) -> tuple[Behind, ...]:
    return (
        Behind(_matrix(f"{name}.a", m, k)),
        Behind(_matrix(f"{name}.b", n, k)),
        Behind(out(F16, m, n)),
    )


def _persistent(a: Array, b: Array, d: Array, scratch: Array) -> list[Expected]:
    return [product(a, b.T, "bf16")]


def _eights(scratch: Array, a: Array, b: Array, d: Array) -> list[Expected]:
    x, y = a.astype(np.float64), b.astype(np.float64)
    # Every 64 of K are added by tensor cores, which cut below 2**-13 of the largest of 33 addends, twice.
    return [near(x @ y.T, "f16", 2 * 33 * 2.0**-13 * (np.abs(x) @ np.abs(y).T))]


def _bytes(bias: Array, scratch: Array, a: Array, b: Array, d: Array) -> list[Expected]:
    return [flat(np.maximum(a.astype(I32) @ b.astype(I32).T + bias, 0))]


def _attention(scratch: Array, q: Array, k: Array, v: Array, o: Array) -> list[Expected]:
    x, y, z = (array.astype(np.float64) for array in (q, k, v))
    scores = x @ y.T * 0.25
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return [near(weights @ z, "f16", 2.0**-10 * (weights @ np.abs(z)))]


def _groups(rows: Array, a: Array, b: Array, d: Array, scratch: Array) -> list[Expected]:
    values, radius = np.zeros(d.shape), np.zeros(d.shape)
    start = 0
    for group, count in enumerate(rows):
        part = slice(start, start + int(count))
        values[part], radius[part] = products(a[part], b[64 * group : 64 * group + 64])
        start += int(count)
    return [near(values, "f16", radius)]


def _reductions(scratch: Array, x: Array, *initial: Array) -> list[Expected]:
    tiles = x.reshape(2, 32, 32)
    return [
        flat(np.minimum(tiles.min(0), initial[0])),
        flat(np.maximum(tiles.max(0), initial[1])),
        flat(tiles.sum(0, dtype=I32)),
        flat(tiles[0] ^ tiles[1]),
    ]


def _softmax(x: Array, o: Array, scratch: Array) -> list[Expected]:
    wide = x.astype(np.float64)
    weights = np.exp(wide - wide.max(1, keepdims=True))
    result = weights / weights.sum(1, keepdims=True)
    return [near(result, "f32", 2.0**-19 * result)]


def _chained(x: Array, y: Array, z: Array, o: Array, scratch: Array) -> list[Expected]:
    first, radius = products(x, y.T)
    wide = np.abs(z.astype(np.float64))
    # The first product is rounded to bf16; the second adds up 64 products.
    between = radius + 2.0**-8 * np.abs(first)
    return [
        near(first @ z.astype(np.float64), "f32", between @ wide + 64 * 2.0**-23 * (np.abs(first) @ wide))
    ]


def _patches(o: Array, scratch: Array, images: Array, filters: Array) -> list[Expected]:
    _, height, width, channels = images.shape
    padded = np.pad(images.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [
        padded[:, i : i + height, j : j + width].reshape(-1, channels) for i in range(3) for j in range(3)
    ]
    return [product(np.concatenate(taps, 1), filters, "f32")]


_WEIGHTS = Bound("weights through ex2.approx, rounded to f16", ulps=1, absolute=5e-4)
_EIGHTS = [Behind(In(floats(f"eights.{side}", 64 * 256, -4, 4).astype(F8).reshape(64, 256))) for side in "ab"]

TRITON_CASES = [
    _case(
        "triton", "product", lambda: (*_squares("product", 128, 64, 320), i32(320)), _product("f16"), (2, 1)
    ),
    _case(
        "triton",
        "specialised",
        lambda: (*_squares("special", 64, 128, 320), i32(320)),
        _product("f16"),
        (1, 2),
    ),
    _case(
        "triton",
        "persistent",
        lambda: (
            _matrix("persistent.a", 128, 192, BF16),
            _matrix("persistent.b", 192, 256, BF16),
            out(np.uint16, 128, 256),
            i32(128),
            i32(256),
            i32(192),
        ),
        _persistent,
        (2,),
    ),
    # Triton adds sums that products are still making: ptxas has it wait (C7517).
    _case(
        "triton",
        "eights",
        lambda: (*_EIGHTS, Behind(out(F16, 64, 64)), i32(256)),
        _eights,
        review="wgmma-register",
    ),
    _case(
        "triton",
        "bytes",
        lambda: (
            *(Behind(In(bits(f"triton.bytes.{side}", 64 * 192, np.int8).reshape(64, 192))) for side in "ab"),
            In(ints("triton.bytes.bias", 64, -50000, 50000)),
            Behind(out(I32, 64, 64)),
            i32(192),
        ),
        _bytes,
    ),
    _case(
        "triton",
        "attention",
        lambda: (
            *(Behind(_matrix(f"attention.{which}", 128, 64)) for which in "qkv"),
            Behind(out(F16, 128, 64, bound=_WEIGHTS)),
            i32(128),
            Number(0.25, "f32"),
        ),
        _attention,
        (2,),
    ),
    _case(
        "triton",
        "groups",
        lambda: (
            In(np.array([70, 8, 40], I32)),
            _matrix("groups.a", 118, 128),
            _matrix("groups.b", 192, 128),
            out(F16, 118, 64),
            i32(128),
            i32(3),
        ),
        _groups,
        (2,),
    ),
    _case(
        "triton",
        "reductions",
        lambda: (
            Behind(In(bits("triton.reductions", 64 * 32, I32).reshape(64, 32))),
            Behind(out(I32, 32, 32, initial=1 << 30)),
            Behind(out(I32, 32, 32, initial=-(1 << 30))),
            Behind(out(I32, 32, 32)),
            Behind(out(I32, 32, 32)),
        ),
        _reductions,
        (2,),
    ),
    _case(
        "triton",
        "cluster_product",
        lambda: (*_squares("cluster", 128, 64, 128), i32(128)),
        _product("f16"),
        (2, 1),
    ),
    _case(
        "triton",
        "cluster_softmax",
        lambda: (
            In(floats("triton.softmax", 2 * 900, -8, 8).reshape(2, 900)),
            out(F32, 2, 900, bound=Bound("ex2.approx of each element and of all in the divisor", ulps=8)),
            i32(900),
        ),
        _softmax,
        (2,),
    ),
    _case(
        "gluon", "ring_product", lambda: (*_squares("ring", 64, 128, 320), i32(320)), _product("f16"), (1, 2)
    ),
    _case(
        "gluon",
        "roles",
        lambda: (
            Behind(_matrix("roles.a", 128, 192, BF16)),
            Behind(_matrix("roles.b", 192, 192, BF16)),
            Behind(out(np.uint16, 128, 192)),
            i32(128),
            i32(192),
            i32(192),
        ),
        _product("bf16", transposed=True),
        (2,),
    ),
    _case(
        "gluon",
        "chained",
        lambda: (*(_matrix(f"chained.{which}", 64, 64, BF16) for which in "xyz"), out(F32, 64, 64)),
        _chained,
    ),
    _case(
        "gluon",
        "patches",
        lambda: (
            Behind(
                In(floats("patches.x", 2 * 12 * 8 * 32, dtype=F16).reshape(2, 12, 8, 32)),
                lower=(-1, -1),
                upper=(-1, -1),
            ),
            Behind(_matrix("patches.w", 32, 288)),
            out(F32, 192, 32),
            i32(12),
            i32(8),
        ),
        _patches,
        (3,),
    ),
    _case(
        "gluon",
        "cluster_product",
        lambda: (
            Behind(_matrix("gluon.cluster.a", 128, 192)),
            Behind(_matrix("gluon.cluster.b", 192, 128)),
            Behind(out(F16, 128, 128)),
            i32(192),
        ),
        _product("f16", transposed=True),
        (2,),
    ),
]
