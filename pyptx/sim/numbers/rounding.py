"""Parts that the arithmetic of all float formats shares: the mode of an instruction, and sums rounded to odd.

Arithmetic is in :mod:`.single` (f32), :mod:`.double` (f64) and :mod:`.half` (f16 and bf16), the formats are
in :mod:`.formats`, the approximate functions in :mod:`.special`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.tuples import NamedTuple

__all__ = ["ArithmeticMode", "odd_sum", "signed_zero"]

Array = NDArray[Any]


class ArithmeticMode(NamedTuple):
    """The modifiers of an arithmetic instruction: rounding mode, ``.ftz``, ``.sat``."""

    rnd: str
    ftz: bool
    sat: bool


def odd_sum(a: Array, b: Array, rnd: str) -> Array:
    """Return a + b in double, rounded to odd, which determines every rounding to a narrower format.

    If the exact sum is zero and the operands are not both +0 or both -0, the mode gives the sign: minus for
    ``rm``.
    """
    a, b = np.broadcast_arrays(a, b)
    total = np.atleast_1d(a + b)
    # Two-sum: the exact error of the addition.
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (total > 0), bits + 1, bits - 1)
    result = np.where(inexact, toward, bits).view(np.float64)
    return signed_zero(result, a, b, rnd)


def signed_zero(total: Array, a: Array, b: Array, rnd: str) -> Array:
    """Give exact zeros in the sum ``total`` of a and b the sign of mode ``rnd``: minus for ``rm``."""
    if rnd != "rm":
        return total
    both_positive = (a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)
    return np.where((total == 0) & ~both_positive, -0.0, total)
