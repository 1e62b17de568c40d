"""Sparse products: the elements of B that the stored elements of A meet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layout.fragments import SelectedLayout
from .register_matrices import SelectedGather

__all__ = ["KeptElements"]

Array = NDArray[Any]


class KeptElements:
    """The elements of B that the stored elements of A meet, by the words of metadata: ``[stored, m, n]``.

    An index of two bits chooses one of four elements, of 4-bit types one of four pairs.  Of tf32 there are
    two for each element, which choose halves among those of two elements of B; an H200 puts any two together
    (#warp-level-matrix-instructions-for-sparse-mma).

    Args:
        metadata: where the indices lie, for the threads of one warp.
        k: elements of a row of A, the dropped ones included.
        bits: width of an element of A.
    """

    def __init__(self, metadata: SelectedLayout, k: int, bits: int, selector: int) -> None:
        self.gather = SelectedGather(metadata, selector, turned=True)
        # Tf32 as halves: a chunk of four, two kept, and the halves of an element stand side by side.
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
