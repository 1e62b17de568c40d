"""Scales of blocks in the stages of a ring: TMA loads them beside A and B, threads read them there.

Owns the same arithmetic as :mod:`.block_scales` for scales whose rows TMA can load.  A scale that a thread
loads from global memory arrives about as late as a stage is multiplied, so that every stage waits for it; a
stage of the ring has been on its way for several blocks of K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import f32, u32
from ..dsl import Buffer, Layout, Reg, RegArray, Tile, TileParam, ptx, reg, smem
from ..dsl.units.fragments import Fragment
from .block_scales import BLOCK
from .ring import Slot

__all__ = ["StagedScales", "StagedScalesReader"]

_ROWS = 64
_THREADS = 128
#: Elements of the least box that TMA loads: 16 bytes. It has scales of B of four blocks of K.
_LEAST = 4
#: Bytes to which TMA's destination is aligned.
_ALIGN = 128


class StagedScales:
    """The scales of a CTA's tile, one block of K in each stage. The constructor records nothing.

    ::

        scales = kit.StagedScales((256, 128))
        @kernel(in_specs=(..., scales.a_spec(K // 128, M), scales.b_spec(N // 128, K // 128)), ...)
        def gemm(A, B, scales_A, scales_B, ...):
            scales.stages(4)
            ...
            operands.load(slot, A, B, row=m_base, column=n_base, k=k, beside=scales.nbytes)
            scales.load(slot, scales_A, scales_B, row=m_base, column=n_base, k=k)

    TMA loads from multiples of 16 bytes, so that a stage has B's scales of four blocks of K, and, if a tile
    may begin at any row, A's scales of up to three rows above it.

    Args:
        tile: rows and columns of D that the CTA computes.
        batch, b_batch: True if the scales of A, of B, have one more dimension in front; B's is A's by
            default.
        aligned: False if a tile may begin at a row that is no multiple of 4.

    Attributes:
        nbytes: bytes of a stage's copies, in each CTA.
        stage_bytes: shared memory that a stage takes.
        interleave_bytes: what :meth:`reader` takes beside the stages with ``interleave``.

    Raises:
        SpecError: rows that are no multiple of 64 up to 256 (192 if not aligned), or columns that may lie in
            three blocks.

    PTX ISA: `#tensor-tiled-mode`.
    """

    def __init__(
        self,
        tile: tuple[int, int],
        *,
        batch: bool = False,
        b_batch: bool | None = None,
        aligned: bool = True,
    ) -> None:
        self.tile = rows, columns = tile
        self.aligned = aligned
        #: Rows of A whose scales a stage has.
        self.rows = rows if aligned else rows + _LEAST
        self.batch, self.b_batch = batch, batch if b_batch is None else b_batch
        #: Columns that are in the same block wherever the tile begins.
        self.piece = math.gcd(columns, BLOCK)
        if rows % _ROWS or rows < 1 or self.rows > 256:
            raise SpecError(
                f"{rows} rows: expected a multiple of {_ROWS}, up to {256 if aligned else 256 - _ROWS}"
            )
        if columns < 1 or columns > BLOCK + self.piece:
            raise SpecError(
                f"{columns} columns may lie in three blocks of {BLOCK}: expected at most {BLOCK + self.piece}"
            )
        #: Blocks of N in which the columns of a tile may lie.
        self.blocks = 1 if BLOCK % columns == 0 else 2
        self.nbytes = 4 * (self.rows + self.blocks * _LEAST)
        self.stage_bytes = -(-4 * self.rows // _ALIGN) * _ALIGN + _ALIGN
        self.interleave_bytes = 16 * rows

    def a_spec(self, k_blocks: int, rows: int | str, batch: int | str | None = None) -> Tile:
        """Return the spec of A's scales: f32 ``[k_blocks, rows]``, with ``batch`` in front.

        Raises:
            SpecError: rows of the array that are no multiple of 16 bytes, or a missing or excess ``batch``.
        """
        return _spec((k_blocks, rows), (1, self.rows), batch, self.batch)

    def b_spec(self, n_blocks: int, k_blocks: int, batch: int | str | None = None) -> Tile:
        """Return the spec of B's scales: f32 ``[n_blocks, k_blocks]``, with ``batch`` in front.

        Raises:
            SpecError: rows of the array that are no multiple of 16 bytes, or a missing or excess ``batch``.
        """
        return _spec((n_blocks, k_blocks), (self.blocks, _LEAST), batch, self.b_batch)

    def stages(self, count: int) -> tuple[Buffer, Buffer]:
        """Allocate ``count`` stages of A's scales and of B's. Records nothing."""
        a_shape, b_shape = ((1, self.rows), (self.blocks, _LEAST))
        self._a = smem.alloc(a_shape, f32, align=_ALIGN, stages=count, name="scales_of_a")
        self._b = smem.alloc(b_shape, f32, align=_ALIGN, stages=count, name="scales_of_b")
        return self._a, self._b

    def load(
        self,
        slot: Slot,
        a: TileParam,
        b: TileParam,
        *,
        row: Reg | int,
        column: Reg | int,
        k: Reg | int,
        batch: Reg | int | None = None,
        b_batch: Reg | int | None = None,
    ) -> None:
        """Load the scales of a stage. The caller has announced :attr:`nbytes` on ``slot.full``.

        Records two ``shr``, an ``and`` (two if the rows are not aligned), for each operand the address of its
        stage, and two copies.

        Args:
            slot: the stage, which :meth:`.ring.Producer.acquire` returned.
            a, b: the parameters with the specs of :meth:`a_spec` and :meth:`b_spec`.
            row, column: first row of A and of B of this CTA's tile.
            k: first element of K of the stage, a multiple of 128.
            batch, b_batch: number of the matrix; B's is A's by default.
        """
        block = k >> (BLOCK.bit_length() - 1)
        given = ((batch, self.batch), (batch if b_batch is None and self.b_batch else b_batch, self.b_batch))
        first = row if self.aligned else row & -_LEAST
        places = (first, block), (block & -_LEAST, column >> (BLOCK.bit_length() - 1))
        for stages, array, place, (number, wanted) in zip(
            (self._a, self._b), (a, b), places, given, strict=True
        ):
            if (number is not None) != wanted:
                raise SpecError(f"batch is {number!r}, and the scales were made with batch={wanted}")
            bulk = ptx.cp.async_.bulk
            copy, last = (bulk.tensor_2d, ()) if number is None else (bulk.tensor_3d, (number,))
            copy(dst=stages[slot.index], src=array.tma_desc(), coord=(*place, *last), mbar=slot.full)

    def reader(self, *, first: Reg | int, blocks: int, interleave: bool = False) -> StagedScalesReader:
        """Return what one warpgroup reads. Records the thread's row and its address: 10 instructions.

        With ``interleave``, ptxas adds sums of a thread's two rows in turns. Otherwise it adds all sums of
        one row first: all these ``fma`` read a factor and an addend from the same bank of registers, and wait
        for each other while another warpgroup's ``wgmma`` reads both banks. The factors then stay in an
        aligned vector of registers until the sums of the next stage have begun, by a store to
        :attr:`interleave_bytes` of shared memory, which no thread reads. Seen with ptxas 13.0; on an H200
        tiles of 256 x 128 take 0.7 to 2% fewer cycles. It needs a tile in one block of N.

        Args:
            first: the warpgroup's first row in the tile.
            blocks: number of accumulators of 64 rows, one below the other: 1 or 2 with ``interleave``.
            interleave: whether sums of two rows are added in turns. Records four instructions more.

        Raises:
            SpecError: ``interleave`` with a tile that may lie in two blocks of N, or more accumulators.
        """
        if interleave and (self.blocks > 1 or blocks > 2):
            raise SpecError(
                f"interleave with {self.tile[1]} columns and {blocks} accumulators: expected columns that "
                f"divide {BLOCK}, and at most two accumulators"
            )
        return StagedScalesReader(self, self._a, self._b, first, blocks, interleave)


def _spec(dims: tuple[int | str, ...], box: tuple[int, int], batch: int | str | None, wanted: bool) -> Tile:
    if (batch is not None) != wanted:
        raise SpecError(f"batch is {batch!r}, and the scales were made with batch={wanted}")
    if isinstance(dims[1], int) and dims[1] % _LEAST:
        raise SpecError(
            f"rows of scales have {dims[1]} numbers: TMA needs a multiple of {_LEAST}",
            hint="load them with kit.BlockScales",
            see="tensor-tiled-mode",
        )
    front, ones = ((), ()) if batch is None else ((batch,), (1,))
    return Tile(*front, *dims, f32, Layout.TMA_NONE, tma_box=(*ones, *box))


class StagedScalesReader:
    """The scales of one warpgroup's rows and columns. Made by :meth:`StagedScales.reader`.

    ::

        mine = scales.reader(first=first_row, blocks=2)
        with tiles.loop() as tile:
            mine.begin(totals, row=m_base, column=n_base)
            with ptx.for_(0, K, 128) as k:
                slot = consumer.acquire()
                for block, multiply in enumerate(products):
                    multiply([acc], slot.index, accumulate=False)
                    ptx.wgmma.commit_group()
                    if block == 0:
                        mine.read(slot, k)
                    ptx.wgmma.wait_group(0)
                    if block == 1:
                        operands.hand_back(consumer)
                    mine.add(acc, totals[block], block)
    """

    def __init__(
        self, staged: StagedScales, a: Buffer, b: Buffer, first: Reg | int, blocks: int, interleave: bool
    ) -> None:
        self.blocks, self._staged, self._a, self._b = blocks, staged, a, b
        self._place = (ptx.wgmma.accumulator(n=8).origin().row + first) * 4 + a.addr
        self._row = self._place
        self._now = [reg.scalar(f32) for _ in range(2 * blocks + staged.blocks)]
        #: With ``interleave`` the factors of the stage that was read last, and where they are stored.
        self._factors: RegArray | None = None
        self._kept: Reg | None = None
        if interleave:
            kept = smem.alloc((staged.tile[0] // (_ROWS * blocks) * _THREADS, 2 * blocks), f32, align=16)
            thread = ptx.special.tid.x() & (_THREADS - 1)
            self._kept = thread * (8 * blocks) + first * 16 + kept.addr

    def begin(self, totals: Sequence[Fragment], *, row: Reg, column: Reg) -> None:
        """Begin a tile: clear the totals.

        Records a ``mov`` for each total. If the tile may lie in two blocks of N, it records an ``and``, and
        a ``setp`` for each piece of its columns that may be in either. If rows are not aligned, it records an
        ``and`` and two for the address.

        Args:
            totals: accumulators of the warpgroup's blocks.
            row, column: first row and first column of the tile.
        """
        if not self._staged.aligned:
            self._row = (row & (_LEAST - 1)) * 4 + self._place
        for total in totals:
            for value in total:
                value.set(0.0)
        piece, columns = self._staged.piece, self._staged.tile[1]
        self._second: list[Reg | bool] = []
        if self._staged.blocks == 2:
            within = column & (BLOCK - 1)
            for begin in range(0, columns, piece):
                certain = begin >= BLOCK or begin == 0
                self._second.append(begin >= BLOCK if certain else within >= BLOCK - begin)

    def read(self, slot: Slot, k: Reg | int) -> None:
        """Read the stage's scales. Afterwards any lane of the warp may hand the stage back.

        Call it between the products' ``commit_group`` and ``wait_group``, so that they hide its latency.
        Records two ``mad.lo.u32``, three instructions for the place of B's scales, a load for each scale,
        ``fence.proxy.async`` and ``bar.warp.sync``; with ``interleave`` what :meth:`keep` does, and a ``mul``
        for each scale of A.

        Args:
            slot: the stage.
            k: its first element of K.
        """
        places = reg.array(u32, 2)
        ptx.inst.mad.lo.u32(places[0], slot.index, self._a.stage_bytes, self._row)
        ptx.inst.mad.lo.u32(places[1], slot.index, self._b.stage_bytes, self._b.addr)
        # The scale's number of four, times 4 bytes.
        ptx.inst.add.u32(places[1], places[1], (k >> (BLOCK.bit_length() - 3)) & (4 * (_LEAST - 1)))
        for i in range(2 * self.blocks):
            below = i // 2 * _ROWS + i % 2 * 8
            ptx.inst.ld.shared.f32(self._now[i], ptx.addr(places[0], 4 * below))
        for i in range(self._staged.blocks):
            ptx.inst.ld.shared.f32(self._now[2 * self.blocks + i], ptx.addr(places[1], 4 * _LEAST * i))
        ptx.fence.proxy_async("shared::cta")  # TMA overwrites what was read
        ptx.warp.sync()
        self.keep()
        if self._kept is not None:
            self._factors = reg.array(f32, 2 * self.blocks)
            for factor, of_row in zip(self._factors, self._now[:-1], strict=True):
                ptx.inst.mul.f32(factor, of_row, self._now[-1])

    def keep(self) -> None:
        """Hold the factors of the last stage in their registers until here; call it at the end of a turn.

        With ``interleave`` it records a store, if a stage was read since the last call; otherwise nothing.
        """
        if self._factors is not None:
            assert self._kept is not None
            store = ptx.inst.st.shared.v2.f32 if self.blocks == 1 else ptx.inst.st.shared.v4.f32
            store(ptx.addr(self._kept), self._factors)
            self._factors = None

    def add(self, acc: Fragment, total: Fragment, block: int = 0) -> None:
        """Add the sums of a block of 64 rows to its totals.

        Records two ``mul`` for each block of N (not with ``interleave``), two ``selp`` for each piece of
        columns that may lie in either, and an ``fma`` for each element.
        """
        of_rows = self._now[2 * block : 2 * block + 2]
        of_columns = self._now[2 * self.blocks :]
        if self._factors is not None:
            products = [list(self._factors[2 * block : 2 * block + 2])]
        else:
            products = [[factor * other for factor in of_rows] for other in of_columns]
        choices = [products[0]]
        if self._second:
            choices = [self._chosen(products, second) for second in self._second]
        each = len(total) // len(choices)
        for j, (value, summand) in enumerate(zip(total, acc, strict=True)):
            ptx.inst.fma.rn.f32(value, summand, choices[j // each][j >> 1 & 1], value)

    def _chosen(self, products: list[list[Reg]], second: Reg | bool) -> list[Reg]:
        if isinstance(second, bool):
            return products[second]
        chosen = [reg.scalar(f32) for _ in products[0]]
        for value, low, high in zip(chosen, *products, strict=True):
            ptx.inst.selp.f32(value, high, low, second)
        return chosen
