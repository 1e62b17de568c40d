"""Accumulators of ``wgmma`` that are added to sums in global memory, by the copy engine or by warps.

Owns the order in which these sums lie: that of the registers, so that neither side shuffles.  A warp's
accumulator of n columns takes ``16 * n`` f32 words in a row: for each four registers 32 pieces of 16 bytes,
one of each lane::

    words       0 .. 127             128 .. 255         ...
                registers 0 .. 3     registers 4 .. 7
                of lane 0, 1 ... 31  of lane 0, 1 ...

A kernel that reads the sums loads them into an accumulator of the same shape.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import f32
from ..dsl import Buffer, Reg, Tile, ptx, reg, smem
from ..dsl.operands import Addr
from ..dsl.units.fragments import Fragment
from .outputs import settle
from .wgmma_epilogue import check_accumulator

__all__ = ["SummedAccumulator"]

_PIECE = 4
_LANES = 32
_WARP_ROWS = 16


class SummedAccumulator:
    """Adds accumulators to sums in global memory. The constructor records nothing.

    ::

        sums = kit.SummedAccumulator(64, warps=8)
        @kernel(..., out_specs=(sums.spec(blocks),))
        def products(..., SUMS):
            staging = sums.staging()
            ...                                     # acc: the products, complete
            sums.stage(acc, staging.rows(warp, 1), leader)
            sums.add(SUMS.at(block, warp, 0), staging.rows(warp, 1), leader)
            ...
            settle(leader)                          # before the CTA ends

    A warp may also add its registers itself, with :meth:`add_registers` in place of both steps.  The sums
    depend on the order of the additions, in their last bits, wherever more than one accumulator goes to one
    place.

    Args:
        columns: columns of the accumulator, a multiple of 8.
        warps: number of warps that have an accumulator, 4 for each warpgroup.

    Attributes:
        nbytes: bytes of one warp's part.

    Raises:
        SpecError: numbers that no accumulator has.
    """

    def __init__(self, columns: int, *, warps: int) -> None:
        if type(columns) is not int or columns % 8 or not 8 <= columns <= 256:
            raise SpecError(f"columns is {columns!r}: expected a multiple of 8 up to 256")
        if type(warps) is not int or warps < 1:
            raise SpecError(f"warps is {warps!r}: expected a positive number")
        self.columns, self.warps = columns, warps
        self.words = _WARP_ROWS * columns
        self.nbytes = self.words * f32.nbytes

    def spec(self, *outer: int) -> Tile:
        """Return the spec of the sums: dims ``outer``, then the warps, then the words of a warp."""
        return Tile(*outer, self.warps, self.words, f32)

    def staging(self, name: str | None = None) -> Buffer:
        """Allocate a row of shared memory for each warp. Records nothing."""
        return smem.alloc((self.warps, self.words), f32, name=name)

    def _check(self, acc: Fragment) -> None:
        check_accumulator(acc)
        if acc.layout.columns != self.columns:
            raise SpecError(f"the accumulator has {acc.layout.columns} columns: expected {self.columns}")

    def stage(self, acc: Fragment, part: Buffer, leader: Reg) -> None:
        """Copy the warp's accumulator to its row of shared memory, when the engine has read the row before.

        Records the two instructions of ``settle``, two for the address of the lane, a ``st.shared.v4`` for
        each four registers, ``fence.proxy.async`` and ``bar.warp.sync``.

        Args:
            acc: the accumulator; its products have completed.
            part: the warp's row of :meth:`staging`.
            leader: predicate that is true in one lane, the same one at each call.
        """
        self._check(acc)
        settle(leader)
        place = ptx.special.laneid() * (_PIECE * f32.nbytes) + part.addr
        for number in range(0, len(acc), _PIECE):
            at = ptx.addr(place, number * _LANES * f32.nbytes)
            ptx.inst.st.shared.v4.f32(at, acc[number : number + _PIECE])
        ptx.fence.proxy_async("shared::cta")
        ptx.warp.sync()

    def add(self, target: Reg | Addr, part: Buffer, leader: Reg) -> None:
        """Let the engine add the staged accumulator to its sums, asynchronously.

        Records a guarded ``cp.reduce.async.bulk`` and its ``commit_group``.

        Args:
            target: global address of the warp's words, u64.
            part, leader: as for :meth:`stage`.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-reduce-async-bulk`.
        """
        ptx.cp.async_.bulk.reduce(target, part, self.nbytes, "add", f32, pred=leader)
        ptx.cp.async_.bulk.commit_group(pred=leader)

    def add_registers(self, acc: Fragment, target: Reg) -> None:
        """Add the accumulator to its sums by the warp itself, without shared memory.

        Records an instruction for the address of the lane, and a ``red.v4`` for each four registers.

        Args:
            acc: the accumulator; its products have completed.
            target: global address of the warp's words, u64.

        PTX ISA: `#parallel-synchronization-and-communication-instructions-red`.
        """
        self._check(acc)
        place = reg.scalar(target.type)
        ptx.inst.mad.wide.u32(place, ptx.special.laneid(), _PIECE * f32.nbytes, target)
        for number in range(0, len(acc), _PIECE):
            at = ptx.addr(place, number * _LANES * f32.nbytes)
            ptx.inst.red.relaxed.gpu.global_.add.v4.f32(at, list(acc[number : number + _PIECE]))

    def load(self, source: Reg) -> Fragment:
        """Load a warp's sums into an accumulator. Records one instruction for the address of the lane and a
        ``ld.global.nc.v4`` for each four registers.

        Args:
            source: global address of the warp's words, u64.
        """
        acc = ptx.wgmma.accumulator(n=self.columns)
        place = reg.scalar(source.type)
        ptx.inst.mad.wide.u32(place, ptx.special.laneid(), _PIECE * f32.nbytes, source)
        for number in range(0, len(acc), _PIECE):
            at = ptx.addr(place, number * _LANES * f32.nbytes)
            ptx.inst.ld.global_.nc.v4.f32(acc[number : number + _PIECE], at)
        return acc
