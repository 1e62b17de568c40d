"""Tile orders: each maps a CTA's index to the tile of the output that the CTA computes.

CTAs with neighboring indices run at the same time, so the order decides which data they share in L2. Every
function takes the index of a tile and the extents of the grid of tiles, and returns (row, column) in u32
registers; different indices give different tiles. ``tiles_m`` and ``tiles_n`` are ints; if the docstring says
so, they can also be u32 registers.  Indices are below 2**31, as a grid's.

Divisions by ints are those of :mod:`.division`: a shift and a mask for a power of two, a multiplication for
another number.  Where a docstring counts instructions, ints are powers of two above 1; another divisor adds
one or two instructions.

:func:`swizzle_2d` and :func:`swizzle_2d_from_bid` take the extents of the matrix and of a tile instead, as
cuTile's examples have them.  :func:`cdiv` and :func:`num_tiles` count tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from ..core.errors import SpecError
from ..core.types import u32
from ..dsl import Reg, TileParam, ptx, reg
from .division import fast_divmod, quotient, remainder

__all__ = [
    "boustrophedon",
    "cdiv",
    "grouped",
    "hilbert",
    "num_tiles",
    "row_major",
    "snake",
    "swizzle_2d",
    "swizzle_2d_from_bid",
]

Extent = Reg | int

#: Indices of tiles are below this limit, and so are indices of CTAs in a grid's x.
_TILES = 1 << 31


def _positive(**values: Extent) -> None:
    for name, value in values.items():
        if not isinstance(value, Reg) and (isinstance(value, bool) or value < 1):
            raise SpecError(f"{name} is {value!r}: expected a positive number")


@overload
def cdiv(extent: int, size: int) -> int: ...


@overload
def cdiv(extent: Reg, size: int) -> Reg: ...


@overload
def cdiv(extent: Extent, size: int) -> Extent: ...


def cdiv(extent: Extent, size: int) -> Extent:
    """Divide and round up: the number of pieces of ``size`` that cover ``extent``.

    Records nothing for an int, ``add`` and :func:`.division.quotient` for a u32 register.

    Watch out: the sum of a register's value and ``size`` must be below 2**32.

    Raises:
        SpecError: the size, or an extent that is an int, is below 1.
    """
    _positive(extent=extent, size=size)
    if isinstance(extent, Reg):
        return quotient(extent + (size - 1), size)
    return -(-extent // size)


def num_tiles(source: TileParam, axis: int, shape: Sequence[int]) -> Extent:
    """Return how many tiles of ``shape`` cover a tensor along ``axis``.

    An int for a dim that is a number. For a named dim a u32 register, and :func:`cdiv` records its
    instructions.

    Raises:
        SpecError: the shape has another rank than the tensor, or an extent below 1.
        OperandError: the tensor has no such axis.
    """
    rank = len(source.spec.dims)
    if len(shape) != rank:
        raise SpecError(
            f"shape is {tuple(shape)}: expected {rank} extents, one for each dim of {source.name}"
        )
    return cdiv(source.extent(axis), shape[axis])


def row_major(tile: Reg, tiles_m: Extent, tiles_n: Extent) -> tuple[Reg, Reg]:
    """Order the tiles by rows, from left to right. Records :func:`.division.fast_divmod`, 2 instructions.

    Extents may be registers.

    Raises:
        SpecError: an extent is below 1.
    """
    _positive(tiles_m=tiles_m, tiles_n=tiles_n)
    return fast_divmod(tile, tiles_n, limit=_TILES)


def snake(tile: Reg, tiles_m: Extent, tiles_n: Extent) -> tuple[Reg, Reg]:
    """Order the tiles by rows, with every other row from right to left.

    Records 6 instructions (7 if the extents are registers).

    Raises:
        SpecError: an extent is below 1.
    """
    row, forward = row_major(tile, tiles_m, tiles_n)
    return row, _turned(forward, tiles_n, row)


def _turned(forward: Reg, count: Extent, line: Reg) -> Reg:
    """Return the position ``forward`` of ``count`` positions, counted from the other end if ``line`` is odd.

    Records 4 instructions, 5 if ``count`` is a register.
    """
    column = reg.scalar(u32)
    ptx.inst.sub.u32(column, count - 1, forward)
    ptx.inst.selp.b32(column, column, forward, (line & 1) != 0)
    return column


class _Band:
    """The band of ``group`` rows in which a tile lies, for bands that are ordered by columns.

    ``index`` is the band's number, ``first`` its first row, ``within`` the tile's index in it.  The last band
    may be lower than the others.  If ``tiles_m`` is an int, both heights are numbers: the divisions by both
    are recorded, and ``selp`` picks.  If all bands are equally high, the division by one number is enough.

    Records a division and a ``mul.lo``, and

    * nothing if ``group`` divides ``tiles_m`` or is not below it,
    * ``setp`` if ``tiles_m`` is another int,
    * ``sub`` and ``min`` if ``tiles_m`` is a register.
    """

    def __init__(self, tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int) -> None:
        _positive(tiles_m=tiles_m, tiles_n=tiles_n, group=group)
        if not isinstance(tiles_m, Reg):
            group = min(group, tiles_m)
        self.index, self.within = fast_divmod(tile, tiles_n * group, limit=_TILES)
        self.first = self.index * group
        self._height: Extent = group
        self._low = 0
        if isinstance(tiles_m, Reg):
            self._height = reg.scalar(u32)
            ptx.inst.sub.u32(self._height, tiles_m, self.first)
            ptx.inst.min.u32(self._height, self._height, group)
        elif tiles_m % group:
            self._low = tiles_m % group
            self._is_last = self.index == tiles_m // group

    def column(self) -> Reg:
        """Return the tile's column. Records a division by the height."""
        return self._pick(lambda height: quotient(self.within, height, limit=_TILES))

    def row(self, index: Reg) -> Reg:
        """Return the row for an index within the band. Records a remainder by the height, and ``add``."""
        return self.first + self._pick(lambda height: remainder(index, height, limit=_TILES))

    def place(self) -> tuple[Reg, Reg]:
        """Return the tile's row and column. Records quotient and remainder by the height, and ``add``."""
        column, row = fast_divmod(self.within, self._height, limit=_TILES)
        if self._low:
            others = fast_divmod(self.within, self._low, limit=_TILES)
            column, row = self._choose(column, others[0]), self._choose(row, others[1])
        return self.first + row, column

    def _pick(self, divided: Callable[[Extent], Reg]) -> Reg:
        result = divided(self._height)
        return self._choose(result, divided(self._low)) if self._low else result

    def _choose(self, result: Reg, low: Reg) -> Reg:
        """Return ``low`` in the last band, else ``result``. Records ``selp``."""
        chosen = reg.scalar(u32)
        ptx.inst.selp.b32(chosen, low, result, self._is_last)
        return chosen


def grouped(tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int = 8) -> tuple[Reg, Reg]:
    """Order the tiles by bands of ``group`` rows, and within a band by columns from the left.

    Records 6 instructions (11 if the last band is lower than the others). Extents may be registers: 8
    instructions if ``tiles_m`` is one, one more if ``tiles_n`` is one.

    Raises:
        SpecError: an extent or the group is below 1.
    """
    return _Band(tile, tiles_m, tiles_n, group).place()


def swizzle_2d(M: Extent, N: Extent, tm: int, tn: int, GROUP_SIZE_M: int) -> tuple[Reg, Reg]:
    """Return the tile of this CTA, by its index in x: :func:`swizzle_2d_from_bid` of ``%ctaid.x``.

    Records one ``mov`` more.

    Raises:
        SpecError: an extent, a tile's extent or the group is below 1.
    """
    return swizzle_2d_from_bid(M, N, tm, tn, GROUP_SIZE_M, ptx.special.ctaid.x())


def swizzle_2d_from_bid(
    M: Extent, N: Extent, tm: int, tn: int, GROUP_SIZE_M: int, bid: Reg
) -> tuple[Reg, Reg]:
    """Order the tiles of an M x N matrix as cuTile's ``swizzle_2d_from_bid`` does.

    Bands of ``GROUP_SIZE_M`` rows of tiles, and within a band columns from the left, as :func:`grouped`.  In
    the last band, if it is lower than the others, the tiles of a column may begin with another row: the row
    is ``bid % height``, not the remainder of the index within the band.

    Records as many instructions as :func:`grouped`, and those of :func:`cdiv` for each register.

    Args:
        M, N: rows and columns of the matrix, ints or u32 registers.
        tm, tn: rows and columns of a tile.
        GROUP_SIZE_M: rows of tiles in a band.
        bid: index of the CTA, u32, below the number of tiles.

    Raises:
        SpecError: an extent, a tile's extent or the group is below 1.
    """
    tiles_m, tiles_n = cdiv(M, tm), cdiv(N, tn)
    band = _Band(bid, tiles_m, tiles_n, GROUP_SIZE_M)
    return band.row(bid), band.column()


def boustrophedon(tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int = 8) -> tuple[Reg, Reg]:
    """Order the tiles like :func:`grouped`, with every other band from right to left.

    So each band begins at the column where the band before it ended.

    Records 4 instructions more than :func:`grouped` (5 if ``tiles_n`` is a register).

    Raises:
        SpecError: an extent or the group is below 1.
    """
    band = _Band(tile, tiles_m, tiles_n, group)
    row, forward = band.place()
    return row, _turned(forward, tiles_n, band.index)


def hilbert(tile: Reg, tiles_m: int, tiles_n: int) -> tuple[Reg, Reg]:
    """Order the tiles by a Hilbert curve in each square, and the squares by rows as :func:`snake` does.

    The side of the squares is the largest power of two that divides both extents; if it is 1, the order is
    that of :func:`snake`.  Inside a square, and from a square to the next one of its row, each step goes to a
    neighboring tile.

    Records ``13 * log2(side) + 13`` instructions (6 if the side is 1). Extents must be ints.

    Raises:
        SpecError: an extent is a register or below 1.
    """
    extents: tuple[Extent, Extent] = (tiles_m, tiles_n)
    if any(isinstance(extent, Reg) for extent in extents):
        raise SpecError(
            "an extent is a register, but the Hilbert order needs ints: its recorded code depends on them",
            hint="use boustrophedon, which takes registers",
        )
    _positive(tiles_m=tiles_m, tiles_n=tiles_n)
    levels = min((n & -n).bit_length() for n in (tiles_m, tiles_n)) - 1
    if levels == 0:
        return snake(tile, tiles_m, tiles_n)
    side = 1 << levels
    square_row, square_column = row_major(tile >> (2 * levels), tiles_m // side, tiles_n // side)
    gray = tile ^ (tile >> 1)
    x = reg.scalar(u32, init=0)
    y = reg.scalar(u32, init=0)
    for level in range(levels):
        _hilbert_level(tile, gray, level, x, y)
    # The curve enters a square at its upper left corner and leaves at the upper right one. In rows of squares
    # that are walked from the right, it is mirrored.
    forward = reg.scalar(u32)
    ptx.inst.mad.lo.u32(forward, square_column, side, x)
    row = reg.scalar(u32)
    ptx.inst.mad.lo.u32(row, square_row, side, y)
    return row, _turned(forward, tiles_n, square_row)


def _hilbert_level(tile: Reg, gray: Reg, level: int, x: Reg, y: Reg) -> None:
    """Double the curve: rotate (x, y) for its quadrant and move it to the quadrant.

    Records 13 instructions.
    """
    right = (tile >> (2 * level + 1)) & 1
    down = (gray >> (2 * level)) & 1
    turned = down == 0
    flipped = right > down
    last = (1 << level) - 1
    ptx.inst.sub.u32(x, last, x, pred=flipped)
    ptx.inst.sub.u32(y, last, y, pred=flipped)
    before = x + 0
    ptx.inst.selp.b32(x, y, x, turned)
    ptx.inst.selp.b32(y, before, y, turned)
    ptx.inst.mad.lo.u32(x, right, 1 << level, x)
    ptx.inst.mad.lo.u32(y, down, 1 << level, y)
