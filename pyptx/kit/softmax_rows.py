"""What a running softmax does to the two rows of a thread in an accumulator of ``wgmma``.

Owns the factor of the scores in powers of two, the product of O with a factor of each row, and the end of a
tile: O is divided by the sums, and the logarithms of the sums are those of whole rows.
"""

from __future__ import annotations

import math

from ..core.errors import SpecError
from ..core.types import f32, pred
from ..dsl import Reg, RegArray, ptx, reg
from ..dsl.units.fragments import Fragment

__all__ = ["Base2", "divide_rows", "finite_or_zero", "scale_rows"]

_INFINITY = float("inf")


class Base2:
    """The factor of scores whose powers of two are the exponentials, ``scale * log2(e)``, and its opposite.

    Args:
        scale: a positive number; or an f32 register, which may change from tile to tile.

    Attributes:
        factor, opposite: numbers, or f32 registers, which :meth:`take` computes.

    Raises:
        SpecError: another scale.
    """

    def __init__(self, scale: float | Reg) -> None:
        if scale.type is not f32 if isinstance(scale, Reg) else not 0 < scale < _INFINITY:
            raise SpecError(f"scale is {scale!r}: expected a positive number or an f32 register")
        self.scale = scale
        self.factor: float | Reg = 0.0
        self.opposite: float | Reg = 0.0
        if isinstance(scale, Reg):
            self.factor, self.opposite = reg.array(f32, 2, name="base2")
        else:
            self.factor = scale * math.log2(math.e)
            self.opposite = -self.factor

    def take(self) -> None:
        """Compute the factors of a scale in a register: records a ``mul.rn`` and a ``neg``, else nothing."""
        if isinstance(self.scale, Reg) and isinstance(self.factor, Reg) and isinstance(self.opposite, Reg):
            ptx.inst.mul.rn.f32(self.factor, self.scale, math.log2(math.e))
            ptx.inst.neg.f32(self.opposite, self.factor)


def finite_or_zero(maximum: Reg) -> Reg:
    """Return the maximum, or 0 for a row that is masked altogether: -infinity minus itself is NaN.

    Records a ``setp`` and a ``selp``.
    """
    safe, empty = reg.scalar(f32), reg.scalar(pred)
    ptx.inst.setp.eq.f32(empty, maximum, -_INFINITY)
    ptx.inst.selp.f32(safe, 0.0, maximum, empty)
    return safe


def scale_rows(o: Fragment, factors: RegArray) -> None:
    """Multiply each element of an accumulator by the factor of its row. Records a ``mul.rn`` for each."""
    for i, value in enumerate(o):
        ptx.inst.mul.rn.f32(value, value, factors[0 if o.row(i) == o.row(0) else 1])


def divide_rows(
    o: Fragment,
    maximum: RegArray,
    total: RegArray,
    scale: float | Reg,
    *,
    offset: float = 0.0,
    factor: Reg | None = None,
) -> RegArray:
    """Divide O by the sums; return the natural logarithm of each row's sum of exponentials.

    A row whose sum is 0 has the result 0 and the logarithm -infinity.  Records for each row
    ``rcp.approx.ftz``, ``lg2.approx.ftz`` and 5 to 7 instructions, and a ``mul.rn`` for each element of O.

    Args:
        o: the accumulator, whose products have completed.
        maximum, total: two f32 registers each: the maxima of the scores, and the sums of their exponentials
            relative to them, of whole rows.
        scale: factor of the scores.
        offset: the exponentials are ``2 ** offset`` times those of the definition.
        factor: an f32 register with a further factor of O.
    """
    inverse, lse = reg.array(f32, 2), reg.array(f32, 2)
    for row in range(2):
        empty = reg.scalar(pred)
        ptx.inst.setp.eq.f32(empty, total[row], 0.0)
        ptx.inst.rcp.approx.ftz.f32(inverse[row], total[row])
        ptx.inst.mov.f32(inverse[row], 0.0, pred=empty)
        if factor is not None:
            ptx.inst.mul.rn.f32(inverse[row], inverse[row], factor)
        ptx.inst.lg2.approx.ftz.f32(lse[row], total[row])
        if offset:
            ptx.inst.sub.rn.f32(lse[row], lse[row], offset)
        ptx.inst.mul.rn.f32(lse[row], lse[row], math.log(2))
        ptx.inst.fma.rn.f32(lse[row], maximum[row], scale, lse[row])
        ptx.inst.mov.f32(lse[row], -_INFINITY, pred=empty)
    scale_rows(o, inverse)
    return lse
