"""Loads tiles of a row-major matrix into swizzled shared memory, with ``cp.async`` by a group of threads.

TMA needs a pitch (bytes from one row to the next) that is a multiple of 16.  These copies need none: where
the pitch allows 16, 8 or 4 bytes, each copy is one ``cp.async`` of so many bytes; otherwise a thread copies
single elements through a register.  The tile lies in shared memory as TMA would write it: panels one after
the other, each as wide as the swizzle, with all rows of the tile.  ``tcgen05.mma``, ``wgmma`` and
``ldmatrix`` read it there.

A copy is either inside of the matrix or outside: the matrix's last column ends where a copy ends.
"""

from __future__ import annotations

import enum

from ..core.errors import SpecError
from ..core.types import b16, b32, s32, u32, u64
from ..dsl import Buffer, Reg, TileParam, ptx, reg
from ..dsl.operands import Addr
from ..layout import COPY_SWIZZLES, SWIZZLE_PERIOD, swizzle, swizzle_pattern

__all__ = ["Padding", "TileLoader"]

#: Sizes of cp.async in bytes, the largest first.
_COPIES = (16, 8, 4)
#: Elements that a thread holds in registers at a time, where no cp.async fits.
_BATCH = 16
#: Most copies of a thread that are recorded one by one; more are a PTX loop over at least so many.
_UNROLLED, _LOOPED = 32, 8
#: Places of a thread's copies whose bytes to read stay in registers from tile to tile; more are computed in
#: each tile.
_HELD = 16
#: Bits of a NaN, repeated to 32 bits, by the bytes of an element.
_NAN = {2: 0x7FFF7FFF, 4: 0x7FFFFFFF}


class Padding(enum.Enum):
    """What a tile holds outside of the matrix.

    ``ZERO`` and ``NAN`` write these values.  ``UNDETERMINED`` promises no value: use it where no output
    depends on what lies outside.
    """

    ZERO = "zero"
    NAN = "nan"
    UNDETERMINED = "undetermined"


class _Piece:
    """One copy of each thread: where it lies, relative to the thread's first copy.

    Attributes:
        row, column: rows and elements further.
        flip: bits to XOR onto the shared address, below the swizzle's period.
        upper: bytes to add to the shared address then.
    """

    __slots__ = ("column", "flip", "row", "upper")

    def __init__(self, row: int, column: int, flip: int, upper: int) -> None:
        self.row, self.column, self.flip, self.upper = row, column, flip, upper


class TileLoader:
    """Copies successive tiles of a row-major matrix into shared memory.

    ::

        tile = smem.alloc((128, 64), f16, swizzle="128B")
        load = kit.TileLoader(A, tile, (m_base, 0), along=1, thread=tid, threads=128, ragged=(True, False))
        with ptx.for_(0, K, 64):
            load.copy()                          # this tile, and a step to the next one
            ptx.cp.async_.wait_all()
            ptx.fence.proxy_async("shared::cta")  # for tcgen05.mma, wgmma or TMA; ldmatrix needs none
            ptx.bar.sync(0)
            ...
            ptx.bar.sync(0)                      # before the next copies into the same tile

    The constructor records the address of the thread's first copy in both memories (some 12 instructions).
    For each of up to 16 rows (with ``along=1``; columns with ``along=0``) of the thread's copies that may
    be outside it records a ``setp`` and a ``selp``; if there are more, each tile records them.

    Args:
        source: the matrix, a parameter of two dims; the second must be a number. Its address must be a
            multiple of :attr:`width`.
        tile: shared memory of shape ``(rows, columns)`` with a swizzle, with or without stages. Columns
            fill whole widths of the swizzle.
        origin: row and column of the matrix where the first tile begins; the column, in bytes, is a
            multiple of :attr:`width`.
        along: the axis along which the tiles follow each other: 0 for rows, 1 for columns.
        thread: number of the thread in the group, u32.
        threads: number of threads in the group, a power of two that divides the tile's number of copies.
        ragged: for each axis, True if a tile may reach past the matrix there. Without it no guard is
            recorded.
        padding: what the tile holds outside of the matrix.

    Attributes:
        width: bytes of one copy: the largest of 16, 8 and 4 that divides the pitch, or the bytes of an
            element.
        copies: number of copies of each thread for a tile.

    Raises:
        SpecError: the matrix, tile or group does not fit.
    """

    def __init__(
        self,
        source: TileParam,
        tile: Buffer,
        origin: tuple[Reg | int, Reg | int],
        *,
        along: int,
        thread: Reg,
        threads: int,
        ragged: tuple[bool, bool] = (True, True),
        padding: Padding = Padding.ZERO,
    ) -> None:
        self.tile, self.along, self.ragged, self.padding = tile, along, ragged, padding
        self._mask, self._shift = swizzle_pattern(tile.swizzle)
        self._span = COPY_SWIZZLES[tile.swizzle]
        self._period = SWIZZLE_PERIOD[tile.swizzle]
        self._check(source, threads)
        nbytes = source.dtype.nbytes
        extent = source.extent(1)
        assert isinstance(extent, int)
        self._pitch = pitch = extent * nbytes
        self.width = next((size for size in _COPIES if pitch % size == 0), nbytes)
        rows, columns = tile.shape
        self._in_row = columns * nbytes // self.width
        count = rows * self._in_row
        if self._in_row & (self._in_row - 1) or count % threads:
            raise SpecError(
                f"a tile of {rows} x {columns} has {count} copies of {self.width} bytes, {self._in_row} in a "
                f"row: expected a power of two in a row, and a multiple of {threads} threads"
            )
        self.copies = count // threads
        self._element = nbytes
        self._pieces = [self._piece(number * threads) for number in range(self.copies)]
        if max(piece.row for piece in self._pieces) * pitch >= 1 << 31:
            raise SpecError(f"rows of {pitch} bytes: the tile's last row is 2 GiB or more from its first")
        self._repeat = self._repetition()
        self._begin(source, origin, thread)

    def _repetition(self) -> int:
        """Return after how many copies the others are the same some rows further; 0 to record all of them."""
        pieces = self._pieces
        count = len(pieces)
        if count <= _UNROLLED:
            return 0
        for repeat in (_LOOPED, 2 * _LOOPED, 4 * _LOOPED):
            first = pieces[repeat] if 2 * repeat <= count and count % repeat == 0 else None
            if first is not None and all(
                (b.flip, b.column, b.row - a.row, b.upper - a.upper)
                == (a.flip, a.column, first.row, first.upper)
                for a, b in zip(pieces, pieces[repeat:], strict=False)
            ):
                return repeat
        return 0

    def _check(self, source: TileParam, threads: int) -> None:
        if len(source.spec.dims) != 2 or not isinstance(source.spec.dims[1], int):
            raise SpecError(
                f"{source.name} has the dims {source.spec.dims}: expected two, the second one a number",
                hint='Tile("M", K, f16): the pitch decides how many bytes a copy has',
            )
        tile = self.tile
        if tile.dtype is not source.dtype or tile.dtype.nbytes not in _NAN:
            raise SpecError(
                f"{source.name} is {source.dtype} and {tile.name!r} is {tile.dtype}: expected one type, "
                "of 2 or 4 bytes"
            )
        span = self._span
        if len(tile.shape) != 2 or not span or tile.shape[1] * tile.dtype.nbytes % span:
            raise SpecError(
                f"{tile.name!r} has shape {tile.shape} and swizzle {tile.swizzle!r}: expected "
                "(rows, columns), a swizzle, and rows that fill whole widths of it",
                hint='smem.alloc((128, 64), f16, swizzle="128B")',
            )
        if tile.shape[0] * span % self._period or tile.stage_bytes % self._period:
            raise SpecError(f"{tile.name!r} has {tile.shape[0]} rows: expected a multiple of 8")
        if threads < 1 or threads & (threads - 1):
            raise SpecError(f"threads is {threads}: expected a power of two")
        if self.along not in (0, 1):
            raise SpecError(f"along is {self.along!r}: expected 0 (rows) or 1 (columns)")

    def _piece(self, number: int) -> _Piece:
        """Return where copy ``number`` of the tile lies, for the first thread of the group."""
        row, place = divmod(number, self._in_row)
        span, period = self._span, self._period
        panel, within = divmod(place * self.width, span)
        upper, lower = divmod(row * span + within, period)
        flip = swizzle(lower, self.tile.swizzle)
        return _Piece(
            row, place * self.width // self._element, flip, panel * self.tile.shape[0] * span + upper * period
        )

    def _begin(self, source: TileParam, origin: tuple[Reg | int, Reg | int], thread: Reg) -> None:
        """Record the thread's first addresses, and how much of the matrix lies beyond them."""
        place = thread % self._in_row
        row = thread // self._in_row
        column = place * (self.width // self._element)
        self._shared = self._shared_addresses(row, place)
        first = [start + within for start, within in zip(origin, (row, column), strict=True)]
        self._global = reg.scalar(u64)
        ptx.inst.mad.wide.u32(self._global, first[0], self._pitch, source.ptr)
        ptx.inst.mad.wide.u32(self._global, first[1], self._element, self._global)
        self._anywhere = source.ptr
        if self.padding is Padding.NAN:
            self._nan = reg.scalar(b32, init=_NAN[self._element])
        #: For each axis the number of rows or columns from this thread's first copy to the matrix's end, or
        #: None.
        self._left: list[Reg | None] = [None, None]
        for axis in (0, 1):
            if self.ragged[axis]:
                left = reg.scalar(s32)
                ptx.inst.sub.s32(left, source.extent(axis), first[axis].view(s32))
                self._left[axis] = left
        #: Bytes to read of a copy, by its place on the axis along which the tiles do not move; None if they
        #: are many.
        still = 1 - self.along
        held = len(self._places(still)) <= _HELD and not (self._repeat and still == 0)
        self._sizes = self._sizes_along(still) if held else None

    def _shared_addresses(self, row: Reg, place: Reg) -> dict[int, Reg]:
        """Return the shared address of the thread's first copy, XORed with each ``flip`` of its copies."""
        span = self._span
        in_panel = span // self.width
        offset = row * span
        if self._in_row > in_panel:
            ptx.inst.mad.lo.u32(offset, place // in_panel, self.tile.shape[0] * span, offset)
            place = place % in_panel
        ptx.inst.mad.lo.u32(offset, place, self.width, offset)
        # The row's address bits 7 and up are XORed onto the bits of its 16-byte chunk: the tile begins
        # at a multiple of the pattern's period, so the offset's bits are the address's.
        offset ^= ((offset >> 7) & self._mask) << self._shift
        first = offset + (self.tile[0] if self.tile.stages is not None else self.tile).addr
        flips = sorted({piece.flip for piece in self._pieces})
        return {flip: first ^ flip if flip else first for flip in flips}

    def _sizes_along(self, axis: int, left: Reg | None = None) -> dict[int, Reg]:
        """Return the bytes to read, the copy's or 0, for each place of the thread's copies on an axis.

        Of a loop's copies only those of one pass count; ``left`` is then what remains at the pass.
        """
        left = self._left[axis] if left is None else left
        if left is None:
            return {}
        found = {}
        for place in self._places(axis):
            size = reg.scalar(u32)
            ptx.inst.selp.b32(size, self.width, 0, left > place)
            found[place] = size
        return found

    def _places(self, axis: int) -> list[int]:
        """Return the places of the thread's copies on an axis, without repetitions."""
        return sorted({self._on(axis, piece) for piece in self._pieces[: self._repeat or None]})

    @staticmethod
    def _on(axis: int, piece: _Piece) -> int:
        return piece.column if axis else piece.row

    def copy(self, stage: Reg | int | None = None) -> None:
        """Start the copies of a tile by this thread, and step to the next tile.

        Records for each of the thread's copies one ``cp.async`` (one ``ld.global.b16`` and one
        ``st.shared.b16`` if :attr:`width` is 2), and a ``selp`` if tiles may end on both axes. Records an
        ``add`` for the step, with ``ragged`` a ``sub``, and for each place of copies along the axis a
        ``setp`` and a ``selp``. A ``stage`` in a register costs a ``mad`` for each of the addresses;
        ``Padding.NAN`` two instructions for each copy, and ``Padding.UNDETERMINED`` three. More than 32
        copies of a thread are a PTX loop over 8, 16 or 32 of them.

        The copies are in the thread's open group: ``ptx.cp.async_.commit_group()``, ``wait_group`` or
        ``wait_all`` follow.

        Args:
            stage: stage of the tile to fill, if it has stages.

        Raises:
            OperandError: a number that is not a stage.
            TraceError: the tile has no stages, or a stage is missing.
        """
        shared, offset = self._stage(stage)
        if self._repeat:
            self._looped(shared, offset)
        else:
            still = 1 - self.along
            held = self._sizes if self._sizes is not None else self._sizes_along(still)
            sizes = {still: held, self.along: self._sizes_along(self.along)}
            for first in range(0, self.copies, _BATCH):
                self._batch(self._pieces[first : first + _BATCH], self._global, shared, offset, sizes)
        step = self.tile.shape[self.along]
        self._global += step * (self._element if self.along else self._pitch)
        left = self._left[self.along]
        if left is not None:
            left -= step

    def _looped(self, shared: dict[int, Reg], offset: int) -> None:
        """Record a loop over the thread's copies: the same ones in each pass, some rows further."""
        further = self._pieces[self._repeat]
        start = reg.scalar(u64, init=self._global)
        places = {flip: reg.scalar(u32, init=address, name="place") for flip, address in shared.items()}
        rows_left = None if self._left[0] is None else reg.scalar(s32, init=self._left[0])
        columns = self._sizes if self.along == 0 and self._sizes is not None else self._sizes_along(1)
        with ptx.for_(0, self.copies // self._repeat):
            sizes = {0: self._sizes_along(0, rows_left), 1: columns}
            for first in range(0, self._repeat, _BATCH):
                pieces = self._pieces[first : min(first + _BATCH, self._repeat)]
                self._batch(pieces, start, places, offset, sizes)
            ptx.inst.add.u64(start, start, further.row * self._pitch)
            for place in places.values():
                ptx.inst.add.u32(place, place, further.upper)
            if rows_left is not None:
                ptx.inst.sub.s32(rows_left, rows_left, further.row)

    def _stage(self, stage: Reg | int | None) -> tuple[dict[int, Reg], int]:
        """Return the addresses for a stage, and the bytes to add to them."""
        if stage is None:
            self.tile._one_stage("copy")
            return self._shared, 0
        chosen = self.tile.stage(stage) if not isinstance(stage, Reg) else None
        if chosen is not None:
            return self._shared, chosen.offset - self.tile.offset
        moved = {}
        for flip, address in self._shared.items():
            place = reg.scalar(u32)
            ptx.inst.mad.lo.u32(place, stage, self.tile.stage_bytes, address)
            moved[flip] = place
        return moved, 0

    def _batch(
        self,
        pieces: list[_Piece],
        start: Reg,
        shared: dict[int, Reg],
        offset: int,
        sizes: dict[int, dict[int, Reg]],
    ) -> None:
        """Record some of the thread's copies, from the global address ``start`` on."""
        held = []
        for piece in pieces:
            size = self._size(piece, sizes)
            target = ptx.addr(shared[piece.flip], piece.upper + offset)
            further = piece.row * self._pitch + piece.column * self._element
            if self.width == 2:
                held.append((target, self._element_of(start, further, size)))
            else:
                self._asynchronously(target, start, further, size)
        for target, value in held:
            ptx.inst.st.shared.b16(target, value)

    def _size(self, piece: _Piece, sizes: dict[int, dict[int, Reg]]) -> Reg | None:
        """Return the bytes that a copy reads, or None if it is inside of the matrix for sure."""
        found = [size for axis in (0, 1) if (size := sizes[axis].get(self._on(axis, piece))) is not None]
        return ptx.min(*found) if len(found) == 2 else found[0] if found else None

    def _asynchronously(self, target: Addr, start: Reg, further: int, size: Reg | None) -> None:
        """Record one ``cp.async``, and what pads it."""
        source = ptx.addr(start, further)
        cache = "cg" if self.width == 16 else "ca"
        if size is None:
            ptx.cp.async_(target, source, self.width, cache=cache)
        elif self.padding is Padding.ZERO:
            ptx.cp.async_(target, source, self.width, src_size=size, cache=cache)
        elif self.padding is Padding.NAN:
            outside = size == 0
            ptx.cp.async_(target, source, self.width, cache=cache, pred=~outside)
            words = [self._nan] * (self.width // 4)
            store = ptx.inst.st.shared
            if len(words) > 1:
                getattr(store, f"v{len(words)}").b32(target, words, pred=outside)
            else:
                store.b32(target, words[0], pred=outside)
        else:
            # Any address of the matrix will do.
            place = ptx.selp(start + further if further else start, self._anywhere, size != 0)
            ptx.cp.async_(target, place, self.width, cache=cache)

    def _element_of(self, start: Reg, further: int, size: Reg | None) -> Reg:
        """Record the load of one element and return its register."""
        value = reg.scalar(b16)
        if size is None:
            ptx.inst.ld.global_.b16(value, ptx.addr(start, further))
            return value
        ptx.inst.mov.b16(value, _NAN[2] & 0xFFFF if self.padding is Padding.NAN else 0)
        ptx.inst.ld.global_.b16(value, ptx.addr(start, further), pred=size != 0)
        return value
