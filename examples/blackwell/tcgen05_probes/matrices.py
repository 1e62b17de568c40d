"""The numpy side of the probes: input numbers, their encoding in memory, and the cells that D takes.

This module does not use the simulator or pyptx's layouts: it has the manual's formulas, so that an error in
pyptx cannot hide in the expected results.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .stage import FILL

__all__ = ["blank", "bound", "encoded", "in_cells", "integers", "lanes_of", "normal", "placed"]

#: Element type of A or B -> the numpy type that represents it, and its bits.
_DTYPES = {
    "f16": (np.float16, 16),
    "bf16": (ml_dtypes.bfloat16, 16),
    "tf32": (np.float32, 32),
    "e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "e5m2": (ml_dtypes.float8_e5m2, 8),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4),
    "s8": (np.int8, 8),
    "u8": (np.uint8, 8),
}
#: Numbers that all of the float types represent exactly, and whose sums of products f32 represents exactly.
_EXACT = np.array([0.5, 1, 1.5, 2, 3, -0.5, -1, -1.5, -2, -3])


def integers(seed: int, rows: int, columns: int, element: str = "f16") -> np.ndarray:
    """Return a matrix of small numbers that ``element`` represents exactly.

    Sums of their products are exact in f32, in every order of summation.
    """
    generator = np.random.default_rng(seed)
    if element in ("s8", "u8"):
        low = -128 if element == "s8" else 0
        return generator.integers(low, low + 256, (rows, columns)).astype(np.float64)
    return generator.choice(_EXACT, (rows, columns))


def normal(seed: int, rows: int, columns: int, element: str) -> np.ndarray:
    """Return a matrix of normally distributed numbers, rounded to ``element``."""
    values = np.random.default_rng(seed).standard_normal((rows, columns))
    if element == "tf32":
        words = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return words.view(np.float32).astype(np.float64)
    return values.astype(_DTYPES[element][0]).astype(np.float64)


def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the largest allowed error of ``a @ b.T``: the tensor core adds in f32, in any order."""
    return a.shape[1] * 2.0**-23 * (np.abs(a) @ np.abs(b).T)


def encoded(values: np.ndarray, element: str, *, major: str = "K", pairs: bool = False) -> np.ndarray:
    """Return a matrix as the array of codes that a kernel gets in global memory.

    For types of 6 and 4 bits, 16 elements are packed together, beginning at the low bits, and padded to 16
    bytes. With ``pairs``, two elements of 4 bits share a byte without padding, as the mxf4 kinds require.
    With ``major`` "MN" the matrix is transposed.
    """
    if major == "MN":
        values = values.T
    dtype, bits = _DTYPES[element]
    if bits >= 16:
        return np.ascontiguousarray(values.astype(dtype))
    codes = np.ascontiguousarray(values.astype(dtype)).view(np.uint8)
    if pairs:
        return codes[:, 0::2] | codes[:, 1::2] << 4
    if bits == 8:
        return codes
    return packed(codes, bits)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Pack each 16 codes of 4 or 6 bits into 8 or 12 bytes, and pad them to 16 bytes."""
    stream = np.unpackbits(codes[:, :, None], axis=2, bitorder="little")[:, :, :bits]
    sixteens = np.packbits(stream.reshape(codes.shape[0], -1, 16 * bits), axis=2, bitorder="little")
    padding = np.full((*sixteens.shape[:2], 16 - 2 * bits), 0xA5, np.uint8)
    return np.concatenate([sixteens, padding], axis=2).reshape(codes.shape[0], -1)


def in_cells(values: np.ndarray, element: str) -> np.ndarray:
    """Return the rows of A as 32-bit cells of tensor memory.

    A cell holds one 32-bit, two 16-bit or four 8-bit elements. An e2m1 is in the middle of its byte:
    ``00SEEM00``.
    """
    if element == "e2m1":
        raw = np.ascontiguousarray(values.astype(_DTYPES[element][0])).view(np.uint8) << 2
    else:
        raw = encoded(values, element)
    return np.ascontiguousarray(raw).view("<u4")


def lanes_of(m: int) -> np.ndarray:
    """Return the lane of each row of D. M = 64 has 16 rows in each quarter of the lanes (layouts D and F)."""
    row = np.arange(m)
    return row if m == 128 else row % 16 + 32 * (row // 16)


def blank(columns: int) -> np.ndarray:
    """Return cells that all hold FILL, as :func:`.stage.fill` writes them."""
    return np.full((128, columns), FILL)


def placed(product: np.ndarray, columns: int | None = None) -> np.ndarray:
    """Return cells with a product in the lanes that D takes, and FILL in all other cells."""
    m, n = product.shape
    found = blank(columns or n)
    found[lanes_of(m), :n] = product
    return found
