"""Sparse products: selects the elements of B that are multiplied by the stored elements of A."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layout.fragments import SelectedLayout
from .register_matrices import SelectedGather

__all__ = ["KeptElements"]

Array = NDArray[Any]


class KeptElements:
    """Selects, by the metadata, the elements of B that A's stored elements multiply: ``[stored, m, n]``.

    An index of two bits selects one of four elements, or one of four pairs for 4-bit types. For tf32 each
    element has two indices, which select two halves among the halves of two elements of B; an H200 combines
    any two halves (#warp-level-matrix-instructions-for-sparse-mma).

    Args:
        metadata: layout of the indices in the registers of a warp.
        k: number of elements in a row of A, including the dropped ones.
        bits: width of an element of A.
        selector: selects the threads of each group of four that supply the metadata.
    """

    def __init__(self, metadata: SelectedLayout, k: int, bits: int, selector: int) -> None:
        self.gather = SelectedGather(metadata, selector, turned=True)
        # tf32 is handled as halves: chunks of four halves, two kept; the halves of an element are adjacent.
        self.halves = bits == 32
        chunk, stored = (8, 4) if bits == 4 else (4, 2)
        self.chunk, place = np.divmod(np.arange(k * (2 if self.halves else 1) // 2), stored)
        which, within = np.divmod(place, 2) if bits == 4 else (place, 0)
        self.shift = (2 * which).astype(np.uint8)[:, None]
        self.first = (self.chunk * chunk + within).astype(np.intp)[:, None]
        self.step = 2 if bits == 4 else 1

    def __call__(self, words: Array, b: Array) -> Array:
        index = (self.gather(words)[self.chunk] >> self.shift & np.uint8(3)).astype(np.intp)
        index *= self.step
        index += self.first
        if not self.halves:
            return np.asarray(b[index])
        parts = np.stack([b & np.uint32(0xFFFF), b >> np.uint32(16)], 1).reshape(-1, b.shape[1])
        return np.asarray(parts[index[0::2]] | parts[index[1::2]] << np.uint32(16))
