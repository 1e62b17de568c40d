"""One operand of a product as TMA loads it: boxes of the tensor map, stages in shared memory, copies.

Owns the two majors: of a matrix that is stored as ``[rows, K]`` (K-major) one box has all rows of the tile,
of one that is stored as ``[K, rows]`` (MN-major) one box has all of the tile's K.  A box is as wide as the
swizzle; a wider tile consists of several boxes, one behind the other in shared memory.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import ScalarType
from ..dsl import Buffer, Layout, Reg, Tile, TileParam, ptx, smem
from ..dsl.operands import Addr
from ..layout import OperandTile
from ..layout.tcgen05_smem_descriptor import ATOM_32B, Major

__all__ = ["TmaOperand"]

_SWIZZLES = {layout.swizzle: layout for layout in Layout if layout.swizzle != "none"}
#: TMA needs rows of global memory that are multiples of so many bytes.
_PITCH = 16


class TmaOperand:
    """How one operand of a product is stored and loaded. The constructor records nothing.

    ::

        a = kit.TmaOperand(128, 64, bf16)
        @kernel(in_specs=(a.spec(M, K), ...), ...)
        def gemm(A, ...):
            tile_a = a.stages(4)
            ...
            a.load(tile_a[slot.index], A, row=m_base, k=k, mbar=slot.full)

    Args:
        rows: rows of the tile (of M or N) that one CTA loads, at most 256.
        k: elements of K of the tile.
        dtype: element type.
        major: ``"K"`` for an array ``[rows, K]``, ``"MN"`` for ``[K, rows]``.
        swizzle: ``"32B"``, ``"64B"``, ``"128B"`` or ``"128B_ATOM_32B"``; default: ``"128B"``, and
            ``"128B_ATOM_32B"`` for MN-major elements of 32 bits, which take no other.
        batch: True if the array has one more dimension in front, of independent matrices.

    Attributes:
        nbytes: bytes of one tile, which a load announces on its mbarrier.
        swizzle: the swizzle of the boxes and of :meth:`stages`.

    Raises:
        SpecError: a tile that does not consist of whole boxes, or a box that TMA does not have.

    PTX ISA: `#tensor-tiled-mode`.
    """

    def __init__(
        self,
        rows: int,
        k: int,
        dtype: ScalarType,
        *,
        major: Major = "K",
        swizzle: str | None = None,
        batch: bool = False,
    ) -> None:
        if swizzle is None:
            swizzle = ATOM_32B if major == "MN" and dtype.bits == 32 else "128B"
        if swizzle not in _SWIZZLES:
            raise SpecError(f"swizzle is {swizzle!r}: expected {', '.join(map(repr, _SWIZZLES))}")
        tile = OperandTile(rows, k, dtype.bits, major, swizzle)
        along, across = (k, rows) if major == "K" else (rows, k)
        if across > 256:
            raise SpecError(f"a box has {across} rows: TMA has at most 256", see="tensor-tiled-mode")
        self.rows, self.k, self.dtype, self.major, self.batch = rows, k, dtype, major, batch
        self.swizzle = swizzle
        self.nbytes = tile.nbytes
        self._width = tile.span * 8 // dtype.bits
        self._height = across
        self._boxes = along // self._width

    def spec(
        self,
        rows: int | str,
        k: int | str,
        batch: int | str | None = None,
        *,
        pitch: int | None = None,
    ) -> Tile:
        """Return the spec of the whole array: ``[rows, k]`` or ``[k, rows]``, with ``batch`` in front.

        Args:
            rows, k: extents of the operand.
            batch: number of independent matrices.
            pitch: elements from one row of the array to the next, if they are more than those of a row: the
                array is ``[rows, pitch]`` or ``[k, pitch]``, and the rest of its rows counts as outside of
                the operand. All extents must be numbers, without ``batch``.

        Raises:
            SpecError: rows of the array that are no multiple of 16 bytes, a missing or excess ``batch``, or a
                pitch below the elements of a row, with ``batch`` or with an extent that is a name.
        """
        if (batch is not None) != self.batch:
            raise SpecError(f"batch is {batch!r}, and the operand was made with batch={self.batch}")
        dims = (rows, k) if self.major == "K" else (k, rows)
        if pitch is not None and pitch != dims[1]:
            return self._pitched(dims, pitch)
        if isinstance(dims[1], int) and dims[1] * self.dtype.nbytes % _PITCH:
            step = _PITCH // self.dtype.nbytes
            name = "K" if self.major == "K" else "the number of rows"
            raise SpecError(
                f"{name} is {dims[1]}: TMA needs rows of a multiple of {_PITCH} bytes, {step} {self.dtype}",
                hint=f"pad it to {-(-dims[1] // step) * step}, or load with kit.TileLoader",
                see="tensor-tiled-mode",
            )
        front, ones = ((), ()) if batch is None else ((batch,), (1,))
        return Tile(
            *front, *dims, self.dtype, _SWIZZLES[self.swizzle], tma_box=(*ones, self._height, self._width)
        )

    def _pitched(self, dims: tuple[int | str, int | str], pitch: int) -> Tile:
        """Return the spec of an array whose rows are longer than those of the operand."""
        height, width = dims
        if self.batch or not isinstance(height, int) or not isinstance(width, int):
            raise SpecError(f"pitch is {pitch!r} for {dims}: expected two numbers, and no batch")
        nbytes = self.dtype.nbytes
        step = _PITCH // nbytes
        if type(pitch) is not int or pitch < width or pitch % step:
            least = -(-width // step) * step
            raise SpecError(
                f"pitch is {pitch!r}: expected a multiple of {step} {self.dtype}, {_PITCH} bytes, and at "
                f"least the {width} of a row",
                hint=f"pitch={least}",
                see="tensor-tiled-mode",
            )
        return Tile(
            height,
            pitch,
            self.dtype,
            _SWIZZLES[self.swizzle],
            tma_box=(self._height, self._width),
            tma_shape=(height, width),
            tma_strides=(pitch * nbytes, nbytes),
        )

    def stages(self, count: int, name: str | None = None) -> Buffer:
        """Allocate ``count`` stages of shared memory. Records nothing."""
        shape = (self._boxes * self._height, self._width)
        return smem.alloc(shape, self.dtype, swizzle=self.swizzle, stages=count, name=name)

    def load(
        self,
        stage: Buffer,
        array: TileParam,
        *,
        row: Reg | int,
        k: Reg | int,
        mbar: Reg | Addr | Buffer,
        batch: Reg | int | None = None,
        cta_group: int | None = None,
        multicast: Reg | int | None = None,
        cache_hint: Reg | None = None,
    ) -> None:
        """Load the tile at ``(row, k)``. Records one ``cp.async.bulk.tensor`` for each box.

        For each box but the first it records an ``add`` of the coordinate too, and of the shared address if
        a register has chosen the stage.

        Args:
            stage: one stage of :meth:`stages`.
            array: the parameter with the spec of :meth:`spec`.
            row, k: first row and first element of K; parts of the tile that lie outside are filled with 0.
            mbar: the mbarrier that counts the bytes.
            batch: number of the matrix.
            cta_group, multicast, cache_hint: as for ``ptx.cp.async_.bulk.tensor_2d``.

        Raises:
            SpecError: a missing or excess ``batch``.
        """
        if (batch is not None) != self.batch:
            raise SpecError(f"batch is {batch!r}, and the operand was made with batch={self.batch}")
        copy = ptx.cp.async_.bulk.tensor_3d if self.batch else ptx.cp.async_.bulk.tensor_2d
        last = () if batch is None else (batch,)
        for box in range(self._boxes):
            x, y = (k, row) if self.major == "K" else (row, k)
            copy(
                dst=stage.rows(box * self._height, self._height) if self._boxes > 1 else stage,
                src=array.tma_desc(),
                coord=(x + box * self._width if box else x, y, *last),
                mbar=mbar,
                cta_group=cta_group,
                multicast=multicast,
                cache_hint=cache_hint,
            )
