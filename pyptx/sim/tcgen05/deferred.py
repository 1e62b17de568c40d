"""Deferred sums: products of several MMAs to one accumulator, computed together.

Often many MMAs in sequence add to one accumulator, and no instruction reads it before the last MMA. This
module stores their operands. It computes one product for all of them when another operation accesses the
accumulator's columns, or when it has stored enough operands. Only the order of the MMAs decides which of them
share a product, so all schedules give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numbers.single import canonical

__all__ = ["DeferredSum"]

F32 = NDArray[np.float32]

#: Number of stored elements of K at which the sum is computed: a size that numpy multiplies efficiently.
_MOST = 256


class DeferredSum:
    """A matrix product ``D = A @ B.T`` (``+ D`` if it ``accumulates``) that is not computed yet.

    Each MMA that uses the accumulator adds a part along K.
    """

    __slots__ = ("_a", "_b", "_k", "accumulates", "checked", "first", "lanes")

    def __init__(self, lanes: Any, first: int) -> None:
        self.lanes, self.first = lanes, first
        self.accumulates = True
        #: ``TensorMemory.version`` when the access to the accumulator was last checked.
        self.checked = -1
        self._a: list[F32] = []
        self._b: list[F32] = []
        self._k = 0

    @property
    def columns(self) -> int:
        """Number of columns of D; 0 before the first MMA."""
        return len(self._b[0]) if self._b else 0

    def add(self, a: F32, b: F32, accumulate: bool) -> bool:
        """Add the operands of one MMA. Return True if the caller should compute the sum now."""
        if not accumulate:
            self._a, self._b, self._k, self.accumulates = [], [], 0, False
        self._a.append(a)
        self._b.append(b)
        self._k += a.shape[1]
        return self._k >= _MOST

    def flush(self, cells: NDArray[np.uint32]) -> None:
        """Compute D, write it to the cells, and forget the operands."""
        self.write(cells)
        self._a, self._b, self._k, self.accumulates = [], [], 0, True

    def write(self, cells: NDArray[np.uint32]) -> None:
        """Compute D and write it to the cells, without forgetting the operands."""
        if not self._a:
            return
        at = (self.lanes, slice(self.first, self.first + self.columns))
        result = np.concatenate(self._a, 1) @ np.concatenate(self._b, 1).T
        if self.accumulates:
            result += cells[at].view(np.float32)
        cells[at] = canonical(result).view(np.uint32)
