"""The softmax of attention, block by block: running maximum and sum of each row, exponentials in place.

Owns the state of a thread's rows between blocks of keys, and the order of its sums.  With ``c = scale *
log2(e)`` the exponentials are powers of two, ``exp(scale * (s - m)) = 2 ** (c * s - c * m)``, one FFMA and
one ``ex2`` for each element.  Lanes that share a row add their partial sums once, behind the last block.
"""

from __future__ import annotations

import functools

import numpy as np

from ..core.errors import SpecError
from ..core.types import b32, f32, pred
from ..dsl import Reg, RegArray, ptx, reg
from ..dsl.operands import Addr
from ..dsl.units.fragments import Fragment
from .row_reductions import across_lanes, row_reduce
from .softmax_rows import Base2, divide_rows, finite_or_zero, scale_rows
from .wgmma_epilogue import check_accumulator

__all__ = ["OnlineSoftmax", "exp2_coefficients", "exp2_polynomial"]

_INFINITY = float("inf")
#: Adding it rounds a float below 2**22 to an integer, which the low bits of the sum then hold.
_ROUNDER = 12582912.0
#: Exponents of the polynomial path are clamped here: the result is a normal number for every polynomial.
_LEAST_EXPONENT = -125.0
_GROUP = 16
_DEGREES = (3, 4, 5)


@functools.cache
def exp2_coefficients(degree: int) -> tuple[float, ...]:
    """Return the coefficients of a polynomial for ``2 ** x`` in -0.5..0.5, that of ``x ** 0`` first, as f32.

    It interpolates at Chebyshev's nodes.  The largest relative error is 2**-13.0 for degree 3, 2**-17.6 for
    4 and 2**-22.0 for 5, without the roundings of its evaluation.

    Raises:
        SpecError: a degree other than 3, 4 or 5.
    """
    if degree not in _DEGREES:
        raise SpecError(f"degree is {degree!r}: expected {', '.join(map(str, _DEGREES))}")
    nodes = 0.5 * np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    exact = np.linalg.solve(np.vander(nodes, increasing=True), 2.0**nodes)
    return tuple(float(np.float32(each)) for each in exact)


def exp2_polynomial(value: Reg, degree: int = 3) -> None:
    """Compute ``2 ** value`` in place on the FMA pipe, by range reduction and a polynomial.

    Records ``max.NaN``, two ``add.rn`` (to the nearest integer n and back), a ``sub.rn``, ``degree``
    ``fma.rn``, a ``shl`` and an ``add``, which adds n to the exponent.  Below -125 the result is that of
    -125, about 2**-125 instead of a smaller number or 0.  NaN gives a finite number.

    Args:
        value: an f32 register, below 127.
        degree: 3, 4 or 5, as for :func:`exp2_coefficients`.

    Raises:
        SpecError: another degree, or a register that is no f32.
    """
    coefficients = exp2_coefficients(degree)
    if value.type is not f32:
        raise SpecError(f"value is {value!r}: expected an f32 register")
    shifted, whole, power = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32)
    ptx.inst.max.NaN.f32(value, value, _LEAST_EXPONENT)
    ptx.inst.add.rn.f32(shifted, value, _ROUNDER)
    ptx.inst.add.rn.f32(whole, shifted, -_ROUNDER)
    ptx.inst.sub.rn.f32(whole, value, whole)
    ptx.inst.fma.rn.f32(power, whole, coefficients[-1], coefficients[-2])
    for coefficient in coefficients[-3::-1]:
        ptx.inst.fma.rn.f32(power, power, whole, coefficient)
    exponent = reg.scalar(b32)
    ptx.inst.shl.b32(exponent, shifted.view(b32), 23)
    ptx.inst.add.s32(value.view(b32), power.view(b32), exponent)


class OnlineSoftmax:
    """Running softmax of the rows of S. The constructor records nothing.

    ::

        softmax = kit.OnlineSoftmax(s, scale=1 / math.sqrt(D))
        ...                                         # the products of the first block of keys: S
        softmax.block(first=True)                   # s now holds exponentials
        ...                                         # O = P V
        ...                                         # in a loop: the next block's S
        softmax.block()
        ...                                         # when the products into O have completed:
        softmax.rescale(o)
        ...                                         # O += P V
        lse = softmax.finish(o)                     # behind the loop

    Sums: element ``i`` of a thread's part of a row goes to chain ``i % ways`` of its block, in the order of
    columns; the chains are added in order; the block's sum is added to the running sum times the factor by
    which the maximum moved, in one FMA; :meth:`finish` adds the four lanes of a row as a tree.

    Special values: a score of NaN or +infinity makes its row NaN, and so does a row without mask whose scores
    are all -infinity, as in a softmax by the book.  Elements that a mask has set to -infinity count as 0
    (``masked=True``); a row that has only such elements has the sum 0.

    Args:
        s: the accumulator of S, 64 rows of the warpgroup, in f32.
        scale: factor of the scores, positive; or an f32 register with it, which may change from tile to tile.
        offset: the exponentials of a block are ``2 ** offset`` times those of the definition, up to the
            division by their sum: for types of P that have few numbers below 1.
        lazy: None rescales O whenever the maximum of a row moves. With a number, the maximum of a row is
            moved only if it would grow by more than so many powers of two; until then exponentials are
            up to ``2 ** lazy`` instead of 1, and warps of which no row moves skip :meth:`rescale`.
        polynomials: number of elements, of 16 neighbors in a thread, whose exponentials are polynomials
            (:func:`exp2_polynomial`) in blocks without a mask; 0 to 16. The maximum then keeps NaN.
        degree: degree of the polynomials.
        ways: number of chains of maximum and sum.

    Raises:
        SpecError: an accumulator that is not whole, a scale or another number out of range.
    """

    def __init__(
        self,
        s: Fragment,
        *,
        scale: float | Reg,
        offset: float = 0.0,
        lazy: float | None = None,
        polynomials: int = 0,
        degree: int = 3,
        ways: int = 4,
    ) -> None:
        check_accumulator(s)
        if lazy is not None and not 0 <= lazy <= 16:
            raise SpecError(
                f"lazy is {lazy!r}: expected None, or powers of two, 0..16",
                hint="exponentials in f16 overflow above 2 ** 16",
            )
        if type(polynomials) is not int or not 0 <= polynomials <= _GROUP:
            raise SpecError(f"polynomials is {polynomials!r}: expected a number of {_GROUP} elements")
        exp2_coefficients(degree)
        self.s = s
        self.scale = scale
        self.offset = offset
        self._powers = Base2(scale)
        #: The factor of scores whose powers of two are the exponentials.
        self.base2 = self._powers.factor
        self.lazy = lazy
        self.ways = ways
        self.degree = degree
        #: Places in each group of 16 elements, spread evenly.
        self._by_polynomial = {
            i for i in range(_GROUP) if (i + 1) * polynomials // _GROUP > i * polynomials // _GROUP
        }
        self._rows = [0 if s.row(i) == s.row(0) else 1 for i in range(s.elements)]
        self.maximum = reg.array(f32, 2, name="row_max")
        self.total = reg.array(f32, 2, name="row_sum")
        self.factor = reg.array(f32, 2, name="row_factor")
        self._moves: Reg | None = None

    def reset(self) -> None:
        """Begin a tile: no element yet. Records four ``mov``, and two
        instructions for a scale in a register; then no :meth:`block` is the first.

        The blocks need ``masked=True``, as the maximum before the first one is -infinity.
        """
        self._powers.take()
        for maximum, total in zip(self.maximum, self.total, strict=True):
            ptx.inst.mov.f32(maximum, -_INFINITY)
            ptx.inst.mov.f32(total, 0.0)

    def block(self, *, first: bool = False, masked: bool = False) -> None:
        """Turn the scores of a block into exponentials, in place; update maximum, sum and factor.

        Records for each element ``max``, ``fma.rn``, ``ex2.approx.ftz`` (or :func:`exp2_polynomial`) and
        ``add.rn``; for each row the exchange of the maximum between four lanes (two ``shfl`` and ``max``) and
        2 to 12 instructions for factor and sum; with ``lazy`` a vote.

        Args:
            first: True for the first block of a tile: the state is written, not updated.
            masked: True if elements may have been set to -infinity by a mask.
        """
        s = self.s
        if first:
            self._powers.take()
        found = row_reduce(
            s,
            "max_nan" if self._by_polynomial else "max",
            start=None if first else self.maximum,
            ways=self.ways,
        )
        scaled = reg.array(f32, 2)
        for row, new in enumerate(found):
            if not first:
                self._move(row, new, masked)
            ptx.inst.mov.f32(self.maximum[row], new)
            safe = finite_or_zero(new) if masked else new
            if self.offset:
                ptx.inst.fma.rn.f32(scaled[row], safe, self._powers.opposite, self.offset)
            else:
                ptx.inst.mul.rn.f32(scaled[row], safe, self._powers.opposite)
        if self.lazy is not None and not first:
            moved = reg.scalar(pred)
            ptx.inst.setp.neu.f32(moved, self.factor[0], 1.0)
            ptx.inst.setp.neu.or_.f32(moved, self.factor[1], 1.0, moved)
            self._moves = ptx.warp.vote_any(moved)
        for number, (value, row) in enumerate(zip(s, self._rows, strict=True)):
            ptx.inst.fma.rn.f32(value, value, self.base2, scaled[row])
            if number % _GROUP in self._by_polynomial and not masked:
                exp2_polynomial(value, self.degree)
            else:
                ptx.inst.ex2.approx.ftz.f32(value, value)
        sums = row_reduce(s, "add", across=False, ways=self.ways)
        for row, part in enumerate(sums):
            total, factor = self.total[row], self.factor[row]
            if self._by_polynomial and not masked:
                # A polynomial of NaN is a number: NaN and infinity reach the sum as their difference.
                undefined = reg.scalar(f32)
                ptx.inst.sub.rn.f32(undefined, self.maximum[row], self.maximum[row])
                ptx.inst.add.rn.f32(part, part, undefined)
            if first:
                ptx.inst.mov.f32(total, part)
            else:
                ptx.inst.fma.rn.f32(total, total, factor, part)

    def _move(self, row: int, new: Reg, masked: bool) -> None:
        """Compute the factor of a row whose maximum becomes ``new``, which lazy keeps where it can."""
        old, factor = self.maximum[row], self.factor[row]
        distance = reg.scalar(f32)
        ptx.inst.sub.rn.f32(distance, old, finite_or_zero(new) if masked else new)
        ptx.inst.mul.rn.f32(distance, distance, self.base2)
        ptx.inst.ex2.approx.ftz.f32(factor, distance)
        if self.lazy is not None:
            near = reg.scalar(pred)
            ptx.inst.setp.ge.f32(near, distance, -self.lazy)
            ptx.inst.mov.f32(new, old, pred=near)
            ptx.inst.mov.f32(factor, 1.0, pred=near)

    def pin(self, scratch: Reg | Addr) -> None:
        """Keep ptxas from moving exponentials of the last :meth:`block` behind the next wait.

        Records two ``setp`` and a guarded ``st.volatile.shared`` that no thread executes: a sum is never
        negative. Without, ptxas sinks most exponentials below the ``wgmma.wait_group`` that follows, and
        they begin only when the products that they should hide under have completed (seen with ptxas 13.0).

        Args:
            scratch: a shared address of 4 bytes.
        """
        negative = reg.scalar(pred)
        ptx.inst.setp.lt.f32(negative, self.total[0], 0.0)
        ptx.inst.setp.lt.or_.f32(negative, self.total[1], 0.0, negative)
        ptx.inst.st.volatile.shared.f32(ptx.addr(scratch), self.total[0], pred=negative)

    def rescale(self, o: Fragment) -> None:
        """Multiply O by the factors of the last :meth:`block`; its products must have completed.

        Records a ``mul.rn`` for each element; with ``lazy`` in a block that a warp skips if no factor of its
        rows differs from 1.
        """
        check_accumulator(o)
        if self._moves is None:
            scale_rows(o, self.factor)
        else:
            with ptx.if_(self._moves):
                scale_rows(o, self.factor)

    def add_lanes(self) -> None:
        """Add the sums of the lanes that share a row, behind the last block. Records two ``shfl`` and ``add``
        for each row.

        Then ``maximum`` and ``total`` are those of whole rows; :meth:`finish` calls it.
        """
        across_lanes(self.total, self.s, "add")

    def finish(self, o: Fragment, *, factor: Reg | None = None) -> RegArray:
        """Divide O by the sums; return the natural logarithm of each row's sum of exponentials.

        A row whose sum is 0 has the result 0 and the logarithm -infinity.  Records two ``shfl`` and ``add``
        for each row, ``rcp.approx.ftz``, a ``mul.rn`` for each element of O, and for the logarithms
        ``lg2.approx.ftz``, ``mul.rn`` and ``fma.rn``.

        Args:
            o: the accumulator, whose products have completed.
            factor: an f32 register with a further factor of O.
        """
        self.add_lanes()
        return divide_rows(o, self.maximum, self.total, self.scale, offset=self.offset, factor=factor)
