"""The softmax of attention relative to a maximum that stays until a sum of exponentials is too large.

Owns the state of a thread's rows, the test, and the order of the sums.  Exponentials are taken relative to
the maximum that earlier keys left; nothing is known of the new scores then.  Exponentials are positive, so a
thread's sum of them bounds each: while it is at most ``2 ** limit``, none is larger, and neither the maximum
of the scores nor its exchange between lanes is needed.  If a sum in the warp is larger, the warp computes the
maxima, rescales what it has, and takes the exponentials of these keys again::

    P = 2 ** (c * S - reference)        c = scale * log2(e), reference = c * maximum - offset
    sum of each thread and row  <= 2 ** (limit + offset) in all lanes:   go on           (nearly always)
    otherwise:                  maximum of S, O and total times 2 ** (old - new), P again

The scores are read and never written, which is why their exponentials can be taken twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.errors import SpecError
from ..core.types import ScalarType, bf16, f32, pred
from ..dsl import Reg, RegArray, ptx, reg
from ..dsl.units.fragments import Fragment
from .operand_a import a_fragments
from .row_reductions import across_lanes, row_reduce
from .softmax_rows import Base2, divide_rows, finite_or_zero, scale_rows
from .wgmma_epilogue import check_accumulator

__all__ = ["GuardedSoftmax"]

_INFINITY = float("inf")
_MOST = 16


class GuardedSoftmax:
    """Running softmax of rows whose keys come in parts, with P rounded as operand A. Records nothing.

    ::

        softmax = kit.GuardedSoftmax(scale=1 / math.sqrt(D))
        softmax.reset()                             # a tile begins, with O = 0
        ...                                         # in a loop: the products of some keys: S
        softmax.part(s, p, o, known=started, settle=lambda: ptx.wgmma.wait_group(0))
        ...                                         # O += P V
        lse = softmax.finish(o)                     # behind the loop

    Sums: element ``i`` of a thread's part of a row goes to chain ``i % ways`` of its keys, in the order of
    columns; the chains are added in order, and their sum to the running one; :meth:`finish` adds the four
    lanes of a row as a tree.

    Special values: as of :class:`.online_softmax.OnlineSoftmax`.  Scores that exceed the maximum so far by
    more than floats can hold are as right as any others: their sum is infinite, so the maximum moves.

    Args:
        scale: factor of the scores, positive; or an f32 register with it, which may change from tile to tile.
        limit: a thread's sum of a row may be ``2 ** limit`` times the exponential of its maximum before the
            maximum moves, from 0 on.
        offset: exponentials are ``2 ** offset`` times those of the definition, up to the division by their
            sum: for types of P that have few numbers below 1.  Limit and offset together are below 16, where
            exponentials in f16 overflow; in e4m3 a sum of 448 is the most, so that none is cut.
        ways: number of chains of a maximum and a sum.

    Raises:
        SpecError: a number out of range.
    """

    def __init__(self, *, scale: float | Reg, limit: float = 8.0, offset: float = 0.0, ways: int = 2) -> None:
        if not (limit >= 0 and limit + offset < _MOST):
            raise SpecError(
                f"limit is {limit!r}, offset {offset!r}: expected powers of two, a limit from 0 on, together "
                f"below {_MOST}"
            )
        self.scale, self.limit, self.offset, self.ways = scale, limit, offset, ways
        self._powers = Base2(scale)
        self._bound = 2.0 ** (limit + offset)
        self.maximum = reg.array(f32, 2, name="row_max")
        self.total = reg.array(f32, 2, name="row_sum")
        #: What is added to ``c * S``; +infinity before a row has a maximum, which makes its sum infinite.
        self._offset = reg.array(f32, 2, name="row_offset")

    def reset(self) -> None:
        """Begin a tile: no element yet. Records six ``mov``, and two instructions for a scale in a register.

        O must be 0 in the first :meth:`part`, which scales it.
        """
        self._powers.take()
        for maximum, total, offset in zip(self.maximum, self.total, self._offset, strict=True):
            ptx.inst.mov.f32(maximum, -_INFINITY)
            ptx.inst.mov.f32(total, 0.0)
            ptx.inst.mov.f32(offset, _INFINITY)

    def part(
        self,
        s: Fragment,
        p: Sequence[Fragment],
        o: Fragment,
        *,
        dtype: ScalarType = bf16,
        masked: bool = False,
        known: Reg,
        settle: Callable[[], None],
    ) -> None:
        """Round the exponentials of some keys to P, add them to the sums, and scale O where a maximum moves.

        Records for each element ``fma.rn``, ``ex2.approx.ftz`` and ``add.rn``, a ``cvt.rn`` for each two, two
        ``setp`` and a vote; and, under a branch that a warp takes where a maximum moves, the maxima, a
        ``mul.rn`` for each element of O, and the exponentials again.  With ``masked`` the maxima are always
        computed, and the exponentials once.

        Args:
            s: the accumulator of the scores, 64 rows of the warpgroup, in f32; it is not written.
            p: fragments of A for the columns of S; the products that read them must have completed.
            o: the accumulator of O.
            dtype: of P, as for :func:`.operand_a.a_fragments`.
            masked: True if elements may have been set to -infinity by a mask; scores of -infinity count as
                masked then.
            known: a predicate, the same in the warp: with False the first exponentials, which no maximum is
                known for, are not tried; with ``masked`` it must be True.  ptxas moves no exponentials over
                this branch, which keeps them behind products that have been started, if it cannot tell that
                it is always taken.
            settle: records the wait for the products into O, behind the exponentials.
        """
        check_accumulator(s)
        parts = reg.array(f32, 2)
        for part in parts:
            ptx.inst.mov.f32(part, _INFINITY)
        moves = reg.scalar(pred)
        factor = reg.array(f32, 2, name="row_factor")
        if masked:
            for each in factor:
                ptx.inst.mov.f32(each, 1.0)
            with ptx.if_(known):
                self._move(s, factor)
                self._exponentials(s, p, dtype, parts)
                for maximum, offset in zip(self.maximum, self._offset, strict=True):
                    empty = reg.scalar(pred)
                    ptx.inst.setp.eq.f32(empty, maximum, -_INFINITY)
                    ptx.inst.mov.f32(offset, _INFINITY, pred=empty)
            ptx.inst.setp.neu.f32(moves, factor[0], 1.0)
            ptx.inst.setp.neu.or_.f32(moves, factor[1], 1.0, moves)
            moves = ptx.warp.vote_any(moves)
            settle()
            with ptx.if_(moves):
                scale_rows(o, factor)
        else:
            with ptx.if_(known):
                self._exponentials(s, p, dtype, parts)
            ptx.inst.setp.gtu.f32(moves, parts[0], self._bound)
            ptx.inst.setp.gtu.or_.f32(moves, parts[1], self._bound, moves)
            moves = ptx.warp.vote_any(moves)
            settle()
            with ptx.if_(moves):
                self._move(s, factor, parts)
                scale_rows(o, factor)
                self._exponentials(s, p, dtype, parts)
        for total, more in zip(self.total, parts, strict=True):
            ptx.inst.add.rn.f32(total, total, more)

    def _exponentials(self, s: Fragment, p: Sequence[Fragment], dtype: ScalarType, parts: RegArray) -> None:
        """Compute P and this thread's sum of each row."""
        e = ptx.wgmma.accumulator(n=s.layout.columns)
        for i, (value, power) in enumerate(zip(s, e, strict=True)):
            offset = self._offset[0 if s.row(i) == s.row(0) else 1]
            ptx.inst.fma.rn.f32(power, value, self._powers.factor, offset)
            ptx.inst.ex2.approx.ftz.f32(power, power)
        a_fragments(e, dtype, out=p)
        for part, found in zip(parts, row_reduce(e, "add", across=False, ways=self.ways), strict=True):
            ptx.inst.mov.f32(part, found)

    def _move(self, s: Fragment, factor: RegArray, parts: RegArray | None = None) -> None:
        """Move the maxima to those of the scores, without ``parts``, the threads' sums, under a mask.

        With them only rows move of which a sum is too large, so that no row depends on its neighbors.  Sets
        ``factor`` to what the sums so far are multiplied by.
        """
        found = row_reduce(s, "max", start=self.maximum, ways=self.ways)
        if parts is not None:
            across_lanes(parts, s, "max_nan")
        for row, new in enumerate(found):
            old = self.maximum[row]
            if parts is not None:
                stays = reg.scalar(pred)
                ptx.inst.setp.le.f32(stays, parts[row], self._bound)
                ptx.inst.mov.f32(new, old, pred=stays)
            safe = new if parts is not None else finite_or_zero(new)
            distance = reg.scalar(f32)
            ptx.inst.sub.rn.f32(distance, old, safe)
            ptx.inst.mul.rn.f32(distance, distance, self._powers.factor)
            ptx.inst.ex2.approx.ftz.f32(factor[row], distance)
            if self.offset:
                ptx.inst.fma.rn.f32(self._offset[row], safe, self._powers.opposite, self.offset)
            else:
                ptx.inst.mul.rn.f32(self._offset[row], safe, self._powers.opposite)
            ptx.inst.mul.rn.f32(self.total[row], self.total[row], factor[row])
            ptx.inst.mov.f32(old, new)

    def finish(self, o: Fragment, *, factor: Reg | None = None) -> RegArray:
        """Divide O by the sums; return the natural logarithm of each row's sum of exponentials.

        Records two ``shfl`` and ``add`` for each row, and :func:`.softmax_rows.divide_rows`.

        Args:
            o: the accumulator, whose products have completed.
            factor: an f32 register with a further factor of O.
        """
        across_lanes(self.total, o, "add")
        return divide_rows(o, self.maximum, self.total, self.scale, offset=self.offset, factor=factor)
