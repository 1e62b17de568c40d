"""The operands of a product that the CTAs of a cluster share: stages of A and B, their loads and hand-backs.

Owns what a producer records for one stage, and where a consumer's warps arrive when they have read it, for a
:class:`.cluster_grid.ClusterGrid` of any extents, one CTA included.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import ScalarType
from ..dsl import Buffer, Reg, TileParam, ptx, smem
from ..layout.tcgen05_smem_descriptor import Major
from .cluster_grid import ClusterGrid
from .ring import Consumer, Slot
from .tma_operand import TmaOperand

__all__ = ["SharedOperands"]

_SPAN = 128


class SharedOperands:
    """A and B of a product by ``wgmma``. The constructor records nothing.

    ::

        operands = kit.SharedOperands(kit.ClusterGrid(2, 1), (128, 256), bf16)
        @kernel(in_specs=(operands.a.spec(M, K), operands.b.spec(N, K)), ...)
        def gemm(A, B, ...):
            rank = ptx.cluster.rank()
            tile_a, tile_b = operands.stages(4)
            ring = kit.Ring(4, consumers=warps * operands.grid.readers)
            ...
            operands.join(rank)                                      # in the producer's thread
            slot = producer.acquire()
            operands.load(slot, A, B, row=m_base, column=n_base, k=k)
            ...
            operands.hand_back_as(rank, leader)                      # in each warp of the consumers
            operands.hand_back(read)                                 # after wgmma.wait_group

    Args:
        grid: the cluster.
        tile: rows of A and of B that a CTA multiplies.
        a_type, b_type: element types; B's is A's by default.
        a_major, b_major, batch, b_batch: as ``major`` and ``batch`` of :class:`.tma_operand.TmaOperand`; B's
            batch is A's by default.

    Attributes:
        a, b: a CTA's share of both as :class:`.tma_operand.TmaOperand`, which has the ``spec``.
        k: elements of K in a stage, 128 bytes.
        nbytes: bytes of a stage in each CTA.

    Raises:
        SpecError: extents that the cluster cannot share, types of different sizes, or a box that TMA does not
            have.

    PTX ISA: `#data-movement-and-conversion-instructions-cp-async-bulk-tensor`.
    """

    def __init__(
        self,
        grid: ClusterGrid,
        tile: tuple[int, int],
        a_type: ScalarType,
        b_type: ScalarType | None = None,
        *,
        a_major: Major = "K",
        b_major: Major = "K",
        batch: bool = False,
        b_batch: bool | None = None,
    ) -> None:
        b_type = a_type if b_type is None else b_type
        if a_type.nbytes != b_type.nbytes:
            raise SpecError(f"A has {a_type!r} and B {b_type!r}: expected types of one size")
        for what, rows, ctas in (("A", tile[0], grid.columns), ("B", tile[1], grid.rows)):
            if rows % ctas:
                raise SpecError(f"{ctas} CTAs cannot share {rows} rows of {what} evenly")
        self.grid, self.tile = grid, tile
        self.k = _SPAN // a_type.nbytes
        self.a = TmaOperand(tile[0] // grid.columns, self.k, a_type, major=a_major, batch=batch)
        own = batch if b_batch is None else b_batch
        self.b = TmaOperand(tile[1] // grid.rows, self.k, b_type, major=b_major, batch=own)
        self.nbytes = self.a.nbytes * grid.columns + self.b.nbytes * grid.rows

    def stages(self, count: int) -> tuple[Buffer, Buffer]:
        """Allocate ``count`` stages of A and of B, whole tiles. Records nothing."""
        width = _SPAN // self.a.dtype.nbytes
        lines = self.a.nbytes * self.grid.columns // _SPAN, self.b.nbytes * self.grid.rows // _SPAN
        tile_a = smem.alloc(
            (lines[0], width), self.a.dtype, swizzle=self.a.swizzle, stages=count, name="tile_a"
        )
        tile_b = smem.alloc(
            (lines[1], width), self.b.dtype, swizzle=self.b.swizzle, stages=count, name="tile_b"
        )
        self._stages = tile_a, tile_b
        return self._stages

    def join(self, rank: Reg) -> None:
        """Compute what this CTA loads, in the thread that loads. Records up to eleven instructions."""
        grid = self.grid
        row, column = grid.place(rank)
        self._masks = grid.row_mask(row), grid.column_mask(column)
        self._firsts = column * self.a.rows, row * self.b.rows

    def load(
        self,
        slot: Slot,
        A: TileParam,
        B: TileParam,
        *,
        row: Reg | int,
        column: Reg | int,
        k: Reg | int,
        batch: Reg | int | None = None,
        b_batch: Reg | int | None = None,
        cache_hint: Reg | None = None,
        b_cache_hint: Reg | None = None,
        beside: int = 0,
    ) -> None:
        """Expect the stage's bytes, and load this CTA's shares into the CTAs that need them.

        Records ``mbarrier.arrive.expect_tx``, the copies of :meth:`.tma_operand.TmaOperand.load` for A and B,
        and for an operand that is shared an ``add`` and the address of the share.

        Args:
            slot: the stage, which :meth:`.ring.Producer.acquire` returned.
            A, B: the parameters with the specs of :attr:`a` and :attr:`b`.
            row, column: first row of A and of B of this CTA's tile.
            k: first element of K.
            batch, b_batch: number of the matrix; B's is A's by default.
            cache_hint, b_cache_hint: L2 policies of A and of B; None is the usual one.
            beside: bytes of other copies that signal the stage's mbarrier, to expect them too.
        """
        ptx.mbarrier.arrive_expect_tx(slot.full, self.nbytes + beside)
        matrices = batch, batch if b_batch is None and self.b.batch else b_batch
        shares, hints = (self.grid.columns, self.grid.rows), (cache_hint, b_cache_hint)
        for i, (operand, array, first) in enumerate(((self.a, A, row), (self.b, B, column))):
            stage = self._stages[i][slot.index]
            if shares[i] > 1:
                # A stage is 128 bytes of K, so that a share has a line of 128 bytes for each row.
                stage, first = stage.rows(self._firsts[i], operand.rows), first + self._firsts[i]
            operand.load(
                stage,
                array,
                row=first,
                k=k,
                mbar=slot.full,
                batch=matrices[i],
                multicast=self._masks[i],
                cache_hint=hints[i],
            )

    def hand_back_as(self, rank: Reg, leader: Reg) -> None:
        """Compute where this warp hands stages back. Records up to seven instructions.

        Args:
            rank: this CTA's rank in the cluster.
            leader: predicate that is true in one lane, which arrives if the CTA is alone.
        """
        self._peer: Reg | None = None
        self._arrives = leader
        if self.grid.size > 1:
            lane = ptx.special.laneid()
            self._peer = self.grid.peer(rank, lane)
            self._arrives = lane < self.grid.readers

    def hand_back(self, read: Consumer) -> None:
        """Free the stage of ``read`` at each CTA that loads for this one, and go to the next stage.

        Lane ``i`` of the warp arrives at reader ``i``; see :meth:`.ring.Consumer.release`.
        """
        read.release(cta=self._peer, pred=self._arrives)
