"""Rows of attention heads as TMA loads and stores them: Q, K, V, O of ``[batch, position, head, element]``.

Owns the tensor maps of such arrays, how a tile of rows lies in shared memory, and the descriptors with which
``wgmma`` reads it.  A tile has all elements of a head: one copy loads slabs of 128 bytes, one behind the
other, each with all rows.  Heads that share their keys can be packed: row ``r`` of a tile is then head ``r %
packed`` at position ``r / packed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..core.errors import SpecError
from ..core.types import ScalarType, u64
from ..dsl import Buffer, Layout, Reg, Tile, TileParam, ptx, reg, smem
from ..dsl.operands import Addr
from ..dsl.units.fragments import Fragment
from ..layout import OperandTile
from ..layout.tcgen05_smem_descriptor import Major
from .division import fast_divmod

__all__ = ["HeadOperand", "StageDescriptors"]

_SPAN = 128
_CHUNK = 16
_WARPGROUP_ROWS = 64

Order = Literal["bshd", "bhsd"]


class HeadOperand:
    """How rows of heads are stored and loaded. The constructor records nothing.

    ::

        k = kit.HeadOperand(128, 64, bf16)          # 128 keys of a head of 64 elements
        @kernel(in_specs=(k.spec(B, S, H), ...), ...)
        def attention(K, ...):
            tiles = k.stages(2)
            k.load(tiles[slot.index], K, position=first, head=head, batch=batch, mbar=slot.full)

    Args:
        rows: rows of a tile, a multiple of 8 up to 256.
        elements: elements of a head; 128 bytes or a multiple.
        dtype: element type, of 8 or 16 bits.
        order: ``"bshd"`` for arrays ``[batch, position, head, element]``, ``"bhsd"`` for ``[batch, head,
            position, element]``.
        packed: heads in neighboring rows, a divisor of ``rows``.
        piece: rows of one copy, a multiple of 8 that divides ``rows``, for tiles whose rows come from several
            places, such as the pages of a cache; default: all. :meth:`load` then loads one piece.
        promotion: granularity of L2 fetches, ``"none"``, ``"64B"``, ``"128B"`` or ``"256B"``.

    Attributes:
        nbytes: bytes of one tile, which its loads announce on its mbarrier.

    Raises:
        SpecError: a tile that TMA or ``wgmma`` cannot read.

    PTX ISA: `#tensor-tiled-mode`.
    """

    def __init__(
        self,
        rows: int,
        elements: int,
        dtype: ScalarType,
        *,
        order: Order = "bshd",
        packed: int = 1,
        piece: int | None = None,
        promotion: str = "128B",
    ) -> None:
        if order not in ("bshd", "bhsd"):
            raise SpecError(f"order is {order!r}: expected 'bshd' or 'bhsd'")
        if elements * dtype.nbytes % _SPAN or elements <= 0:
            raise SpecError(f"heads of {elements} {dtype}: expected a multiple of {_SPAN} bytes")
        if type(rows) is not int or not 8 <= rows <= 256 or rows % 8:
            raise SpecError(f"rows is {rows!r}: expected a multiple of 8, up to the 256 of a box")
        if type(packed) is not int or packed < 1 or rows % packed:
            raise SpecError(f"packed is {packed!r}: expected a divisor of the {rows} rows")
        piece = rows if piece is None else piece
        if type(piece) is not int or piece < 8 or rows % piece or piece % 8 or (piece < rows and packed > 1):
            raise SpecError(
                f"piece is {piece!r}: expected a multiple of 8 that divides the {rows} rows, of one head"
            )
        self.rows, self.elements, self.dtype, self.order, self.packed = rows, elements, dtype, order, packed
        self.piece = piece
        self.promotion = promotion
        self.width = _SPAN // dtype.nbytes
        self.slabs = elements // self.width
        self.nbytes = rows * elements * dtype.nbytes

    def _view(self, batch: int, positions: int, heads: int) -> tuple[tuple[int, ...], dict[str, int]]:
        """Return the dims of the array and the bytes from a batch, position or head to the next."""
        row = self.elements * self.dtype.nbytes
        if self.order == "bshd":
            dims = (batch, positions, heads, self.elements)
            return dims, {"b": positions * heads * row, "s": heads * row, "h": row}
        dims = (batch, heads, positions, self.elements)
        return dims, {"b": heads * positions * row, "h": positions * row, "s": row}

    def spec(self, batch: int, positions: int, heads: int) -> Tile:
        """Return the spec of an array that :meth:`load` reads.

        Its map has five dims: batch, head, slab, position, element; with ``packed`` batch, slab, position,
        head, element.
        """
        dims, steps = self._view(batch, positions, heads)
        size, slabs = self.dtype.nbytes, self.slabs
        if self.packed == 1:
            shape = (batch, heads, slabs, positions, self.width)
            strides = (steps["b"], steps["h"], _SPAN, steps["s"], size)
            # Slabs of a tile lie apart by all of its rows, so that a piece takes a copy for each slab.
            box = (1, 1, slabs if self.piece == self.rows else 1, self.piece, self.width)
        else:
            shape = (batch, slabs, positions, heads, self.width)
            strides = (steps["b"], _SPAN, steps["s"], steps["h"], size)
            box = (1, slabs, self.rows // self.packed, self.packed, self.width)
        return self._tile(dims, box, shape, strides)

    def stored(self, batch: int, positions: int, heads: int, rows: int) -> Tile:
        """Return the spec of an array that is stored in boxes of ``rows`` rows of 128 bytes.

        Its map has four dims: batch, head, position, element; with ``packed`` batch, position, head, element.

        Raises:
            SpecError: ``rows`` is no multiple of ``packed``.
        """
        if rows % self.packed:
            raise SpecError(f"boxes of {rows} rows: expected a multiple of the {self.packed} packed heads")
        dims, steps = self._view(batch, positions, heads)
        size = self.dtype.nbytes
        if self.packed == 1:
            shape = (batch, heads, positions, self.elements)
            strides = (steps["b"], steps["h"], steps["s"], size)
            box = (1, 1, rows, self.width)
        else:
            shape = (batch, positions, heads, self.elements)
            strides = (steps["b"], steps["s"], steps["h"], size)
            box = (1, rows // self.packed, self.packed, self.width)
        return self._tile(dims, box, shape, strides)

    def _tile(
        self, dims: Sequence[int], box: Sequence[int], shape: Sequence[int], steps: Sequence[int]
    ) -> Tile:
        return Tile(
            *dims,
            self.dtype,
            Layout.TMA_128B,
            tma_box=box,
            tma_shape=shape,
            tma_strides=steps,
            tma_promotion=self.promotion,
        )

    def stages(self, count: int, name: str | None = None) -> Buffer:
        """Allocate ``count`` stages of shared memory. Records nothing."""
        return smem.alloc(
            (self.slabs * self.rows, self.width), self.dtype, swizzle="128B", stages=count, name=name
        )

    def load(
        self,
        stage: Buffer,
        array: TileParam,
        *,
        position: Reg | int,
        head: Reg | int,
        batch: Reg | int,
        mbar: Reg | Addr | Buffer,
        row: Reg | int = 0,
        cache_hint: Reg | None = None,
    ) -> None:
        """Load the rows, or one piece, from ``position`` on. Records one ``cp.async.bulk.tensor.5d``.

        For a piece it records one for each slab, and for a ``row`` in a register a ``mad.lo.u32`` for each.

        Args:
            stage: one stage of :meth:`stages`.
            array: the parameter with the spec of :meth:`spec`.
            position: first position, an s32 register or a number; rows outside the array are filled with 0.
            head: number of the head; with ``packed`` of the first one.
            batch: number of the batch.
            mbar: the mbarrier that counts the bytes.
            row: row of the tile where the piece begins, a multiple of 8.
            cache_hint: as for ``ptx.cp.async_.bulk.tensor_5d``.
        """
        if self.piece < self.rows:
            for slab, part in enumerate(stage.split(self.slabs)):
                ptx.cp.async_.bulk.tensor_5d(
                    dst=part.rows(row, self.piece),
                    src=array.tma_desc(),
                    coord=(0, position, slab, head, batch),
                    mbar=mbar,
                    cache_hint=cache_hint,
                )
            return
        coord = (0, position, 0, head, batch) if self.packed == 1 else (0, head, position, 0, batch)
        ptx.cp.async_.bulk.tensor_5d(
            dst=stage, src=array.tma_desc(), coord=coord, mbar=mbar, cache_hint=cache_hint
        )

    def clear(self, stage: Buffer, first: Reg, *, thread: Reg, threads: int) -> None:
        """Store zeros to the rows from ``first`` on, by ``threads`` threads.

        Records a ``ptx.for_`` with an ``st.shared.v4`` and up to 8 instructions for its address. wgmma sees
        the zeros after ``ptx.fence.proxy_async`` in each thread and a barrier of these threads.

        Args:
            stage: one stage of :meth:`stages`.
            first: the first row, a u32 register.
            thread: number of this thread, below ``threads``.
            threads: number of threads that share the work.
        """
        chunks = self.slabs * _SPAN // _CHUNK  # of a row; the swizzle exchanges them within their row
        with ptx.for_(first * chunks + thread, self.rows * chunks, threads) as number:
            row, chunk = fast_divmod(number, chunks)
            slab, place = fast_divmod(chunk, _SPAN // _CHUNK)
            address = stage.addr + slab * (self.rows * _SPAN) + row * _SPAN + place * _CHUNK
            ptx.inst.st.shared.v4.b32(ptx.addr(address), [0, 0, 0, 0])

    def fragments(self, stage: Buffer, *, warp: Reg, count: int | None = None) -> list[Fragment]:
        """Read 64 rows of a tile as operand A of ``wgmma``, one fragment for each 32 bytes of the elements.

        Records 10 instructions for the lane's place, and for each fragment up to three for its address and an
        ``ldmatrix.x4``.  The rows may be overwritten when all warps have executed it.

        Args:
            stage: the rows, 64 of :meth:`stages`; they have arrived.
            warp: number of the warp in its warpgroup, a u32 register.
            count: number of fragments, from the first element on; default: all.

        Raises:
            SpecError: a tile of other than 64 rows, or more fragments than it has.

        PTX ISA: `#asynchronous-warpgroup-level-matrix-register-fragment`.
        """
        if self.rows != _WARPGROUP_ROWS:
            raise SpecError(f"a tile of {self.rows} rows: expected the {_WARPGROUP_ROWS} of a warpgroup")
        most = self.elements * self.dtype.nbytes // (2 * _CHUNK)
        count = most if count is None else count
        if type(count) is not int or not 0 <= count <= most:
            raise SpecError(f"count is {count!r}: expected a number of fragments, up to {most}")
        lane = ptx.special.laneid()
        # Matrices 0 and 1 are 16 rows, 2 and 3 the same with the next 16 bytes.
        row = warp * 16 + (lane & 15)
        place, turn = stage.addr + row * _SPAN, ((lane & 7) ^ (lane >> 4)) << 4
        found = []
        for begin in range(0, count * 2 * _CHUNK, 2 * _CHUNK):
            slab, column = divmod(begin, _SPAN)
            words = ptx.wgmma.fragment(self.dtype)
            at = place + (turn ^ column if column else turn)
            ptx.ldmatrix(words, ptx.addr(at, slab * self.rows * _SPAN))
            found.append(words)
        return found

    def descriptors(
        self, stage: Buffer, major: Major = "K", *, first: Reg | int = 0, rows: int | None = None
    ) -> StageDescriptors:
        """Make the descriptors of a tile for ``wgmma``. Records four instructions, as its ``descriptor``.

        Args:
            stage: the first of the stages.
            major: ``"K"`` to sum over the elements of a head (Q and K), ``"MN"`` over the rows (V).
            first: row of the tile at which the operand begins, a multiple of 8; for ``"K"``.
            rows: rows of the operand; default: those of the tile.
        """
        count = self.rows if rows is None else rows
        bits = 8 * self.dtype.nbytes
        tile = (
            OperandTile(self.rows, self.elements, bits)
            if major == "K"
            else OperandTile(self.elements, self.rows, bits, "MN")
        )
        part = stage.rows(first, count) if count != self.rows else stage
        step = 32 // self.dtype.nbytes
        length = self.elements if major == "K" else self.rows
        offsets = [tile.k_offset(at) for at in range(0, length, step)]
        return StageDescriptors(ptx.wgmma.descriptor(part, tile), stage.stage_bytes, offsets)


class StageDescriptors:
    """The descriptors of an operand in each stage and at each step of K. Made by :class:`HeadOperand`.

    Attributes:
        first: the descriptor of stage 0 at the first step, a b64 register.
        offsets: bytes from the first step to each step.
    """

    def __init__(self, first: Reg, stage_bytes: int, offsets: Sequence[int]) -> None:
        self.first = first
        self.offsets = tuple(offsets)
        self._units = stage_bytes // 16

    def steps(self, stage: Reg | int = 0) -> list[Reg]:
        """Return the descriptors along K in a stage.

        Records a ``mad.wide.u32`` for a stage in a register, an ``add`` for a number above 0, and an ``add``
        for each step but the first.
        """
        start = self.first
        if isinstance(stage, Reg):
            start = reg.scalar(u64)
            ptx.inst.mad.wide.u32(start, stage, self._units, self.first)
        elif stage:
            start = ptx.wgmma.advance(self.first, 16 * stage * self._units)
        return [ptx.wgmma.advance(start, offset) if offset else start for offset in self.offsets]
