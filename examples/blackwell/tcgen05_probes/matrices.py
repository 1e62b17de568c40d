"""The numpy side of the probes: numbers, their codes in memory, and where D lies in tensor memory.

Nothing here asks the simulator or pyptx's layouts: the formulas are the manual's, written out.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .stage import FILL

__all__ = ["blank", "bound", "encoded", "in_cells", "integers", "lanes_of", "normal", "placed"]

#: Element types of A and B: what holds a number of them, and their bits.
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
#: Numbers that every one of the floats has, so that sums of products are exact.
_EXACT = np.array([0.5, 1, 1.5, 2, 3, -0.5, -1, -1.5, -2, -3])


def integers(seed: int, rows: int, columns: int, element: str = "f16") -> np.ndarray:
    """Small numbers that ``element`` holds exactly, and whose products every order of summation adds
    exactly."""
    generator = np.random.default_rng(seed)
    if element in ("s8", "u8"):
        low = -128 if element == "s8" else 0
        return generator.integers(low, low + 256, (rows, columns)).astype(np.float64)
    return generator.choice(_EXACT, (rows, columns))


def normal(seed: int, rows: int, columns: int, element: str) -> np.ndarray:
    """Normal numbers, rounded to ``element``."""
    values = np.random.default_rng(seed).standard_normal((rows, columns))
    if element == "tf32":
        words = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return words.view(np.float32).astype(np.float64)
    return values.astype(_DTYPES[element][0]).astype(np.float64)


def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far ``a @ b.T`` may be off: the tensor core adds in f32, in an order of its own."""
    return a.shape[1] * 2.0**-23 * (np.abs(a) @ np.abs(b).T)


def encoded(values: np.ndarray, element: str, *, major: str = "K", pairs: bool = False) -> np.ndarray:
    """Rows of numbers as they lie in global memory.

    6 and 4 bits lie by sixteens, packed from the low bits on and padded to 16 bytes; with ``pairs``, as the
    mxf4 kinds have it, two elements of 4 bits fill a byte.
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
    """Sixteen codes of 4 or 6 bits: 8 or 12 bytes, and padding up to 16."""
    stream = np.unpackbits(codes[:, :, None], axis=2, bitorder="little")[:, :, :bits]
    sixteens = np.packbits(stream.reshape(codes.shape[0], -1, 16 * bits), axis=2, bitorder="little")
    padding = np.full((*sixteens.shape[:2], 16 - 2 * bits), 0xA5, np.uint8)
    return np.concatenate([sixteens, padding], axis=2).reshape(codes.shape[0], -1)


def in_cells(values: np.ndarray, element: str) -> np.ndarray:
    """Rows of A as 32-bit cells of tensor memory.

    Wide elements side by side, bytes by fours; e2m1 in the middle of its byte, ``00SEEM00``.
    """
    if element == "e2m1":
        raw = np.ascontiguousarray(values.astype(_DTYPES[element][0])).view(np.uint8) << 2
    else:
        raw = encoded(values, element)
    return np.ascontiguousarray(raw).view("<u4")


def lanes_of(m: int) -> np.ndarray:
    """The lane of each row of D: M = 64 has 16 rows in each quarter of the lanes (layouts D and F)."""
    row = np.arange(m)
    return row if m == 128 else row % 16 + 32 * (row // 16)


def blank(columns: int) -> np.ndarray:
    """Cells as :func:`.stage.fill` leaves them."""
    return np.full((128, columns), FILL)


def placed(product: np.ndarray, columns: int | None = None) -> np.ndarray:
    """A product in the lanes where D lies, all other cells as they were."""
    m, n = product.shape
    found = blank(columns or n)
    found[lanes_of(m), :n] = product
    return found
