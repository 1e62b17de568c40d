"""Sums of products that tensor memory owes.

MMA after MMA adds to one accumulator, and nothing reads it before the last.  What they would add is kept
here and computed in one product, when something else touches the accumulator's columns or enough has come
together.  Which MMAs share a product depends on their order alone, so that schedules agree bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numbers.single import canonical

__all__ = ["DeferredSum"]

F32 = NDArray[np.float32]

#: Elements of K after which a sum is computed: as many as one product computes well.
_MOST = 256


class DeferredSum:
    """``D = A @ B.T``, plus D where it ``accumulates``; A and B come in parts along K."""

    __slots__ = ("_a", "_b", "_k", "accumulates", "checked", "first", "lanes")

    def __init__(self, lanes: Any, first: int) -> None:
        self.lanes, self.first = lanes, first
        self.accumulates = True
        #: State of the allocations for which an access to the accumulator was checked.
        self.checked = -1
        self._a: list[F32] = []
        self._b: list[F32] = []
        self._k = 0

    @property
    def columns(self) -> int:
        return len(self._b[0]) if self._b else 0

    def add(self, a: F32, b: F32, accumulate: bool) -> bool:
        """One MMA more; whether the sum should be computed now."""
        if not accumulate:
            self._a, self._b, self._k, self.accumulates = [], [], 0, False
        self._a.append(a)
        self._b.append(b)
        self._k += a.shape[1]
        return self._k >= _MOST

    def flush(self, cells: NDArray[np.uint32]) -> None:
        """Compute the cells of D."""
        if not self._a:
            return
        at = (self.lanes, slice(self.first, self.first + self.columns))
        result = np.concatenate(self._a, 1) @ np.concatenate(self._b, 1).T
        if self.accumulates:
            result += cells[at].view(np.float32)
        cells[at] = canonical(result).view(np.uint32)
        self._a, self._b, self._k, self.accumulates = [], [], 0, True
