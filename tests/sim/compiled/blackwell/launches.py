"""What the launches of both kinds of texts share: operands, products, scales as the tensor core wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Map

from ..hopper import launches
from ..inputs import floats, ints
from .texts_of import TEXTS

__all__ = [
    "BF16",
    "E3M2",
    "E4M3",
    "E5M2",
    "Array",
    "Case",
    "attended",
    "box",
    "dense",
    "few",
    "fours",
    "nibbles",
    "scale_bytes",
    "spread_scales",
    "uniform",
]

Array = NDArray[Any]
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
E2M1, E3M2 = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e3m2fn


class Case(launches.Case):
    """A launch of one of the texts here."""

    texts: ClassVar[Path] = TEXTS


def few(name: str, rows: int, columns: int, dtype: Any, low: int = -3, high: int = 4) -> Array:
    """Small integers: products of them, and their sums, are exact in every order."""
    return ints(f"blackwell.{name}", rows * columns, low, high).astype(dtype).reshape(rows, columns)


def uniform(name: str, rows: int, columns: int, dtype: Any, size: float = 1.0) -> Array:
    """Numbers that no format rounds to integers."""
    return floats(f"blackwell.{name}", rows * columns, -size, size).astype(dtype).reshape(rows, columns)


def box(of: int, rows: int, columns: int, swizzle: str = "128B", **options: Any) -> Map:
    """A map of the array at this position among the arguments."""
    return Map(of, {"box": (rows, columns), "swizzle": swizzle, **options})


def dense(a: Array, b: Array) -> Array:
    """A B^T, in double precision."""
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64).T)


def fours(name: str, rows: int, columns: int) -> Array:
    """Every number of four bits."""
    return ints(f"blackwell.{name}", rows * columns, 0, 16, np.uint8).view(E2M1).reshape(rows, columns)


def nibbles(values: Array) -> In:
    """Two numbers of four bits to a byte, the first one low."""
    codes = values.view(np.uint8) & 15
    return In(codes[:, ::2] | codes[:, 1::2] << 4)


def scale_bytes(name: str, rows: int, count: int) -> Array:
    """Scales from a quarter to four, as bytes of an exponent."""
    return ints(f"blackwell.{name}", rows * count, 125, 130, np.uint8).reshape(rows, count)


def spread_scales(codes: Array) -> In:
    """Scales (128, count) as the tensor core wants them: four columns at a time, [row % 32][row // 32][column]."""
    rows, count = codes.shape
    out = np.empty((count // 4, 32, rows // 32, 4), np.uint8)
    for row in range(rows):
        for column in range(count):
            out[column // 4, row % 32, row // 32, column % 4] = codes.view(np.uint8)[row, column]
    return In(out.reshape(-1))


def attended(
    q: Array, k: Array, v: Array, scale: float, unit: float, causal: bool = False
) -> tuple[Array, Array]:
    """Attention with weights of powers of two, and how far off it may be.

    A weight is off by what its score and the row's largest are (:func:`products`), by ex2.approx and some roundings
    in f32 (2**-20), and is rounded to the type of V: by ``unit`` of itself, or 2**-25 of the largest.
    """
    wide, size = v.astype(np.float64), np.abs(v.astype(np.float64))
    scores, off = (scale * x for x in launches.products(q, k))
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape)) > 0, scores, -np.inf)
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    total = weights.sum(1, keepdims=True)
    exponent = np.log(2) * (off + off.max(1, keepdims=True)) + 2.0**-20
    result = weights @ wide / total
    sums = weights * (exponent + unit + len(k) * 2.0**-23) @ size + 2.0**-25 * size.sum(0)
    return result, (sums + np.abs(result) * (weights * exponent).sum(1, keepdims=True)) / total
