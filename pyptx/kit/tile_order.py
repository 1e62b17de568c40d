"""Tile orders: each maps a CTA's index to the tile of the output that the CTA computes.

CTAs with neighboring indices run at the same time, so the order decides which data they share in L2. Every
function takes the index of a tile and the extents of the grid of tiles, and returns (row, column) in u32
registers; different indices give different tiles. ``tiles_m`` and ``tiles_n`` are ints; if the docstring says
so, they can also be u32 registers.

:func:`swizzle_2d` and :func:`swizzle_2d_from_bid` take the extents of the matrix and of a tile instead, as
cuTile's examples have them.  :func:`cdiv` and :func:`num_tiles` count tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ..core.errors import SpecError
from ..core.types import u32
from ..dsl import Reg, TileParam, ptx, reg

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

    Records nothing for an int, ``add`` and ``div`` for a u32 register.

    Watch out: the sum of a register's value and ``size`` must be below 2**32.

    Raises:
        SpecError: the size, or an extent that is an int, is below 1.
    """
    _positive(extent=extent, size=size)
    if isinstance(extent, Reg):
        return (extent + (size - 1)) // size
    return -(-extent // size)


def num_tiles(source: TileParam, axis: int, shape: Sequence[int]) -> Extent:
    """Return how many tiles of ``shape`` cover a tensor along ``axis``.

    An int for a dim that is a number. For a named dim a u32 register, and :func:`cdiv` records its two
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
    """Order the tiles by rows, from left to right. Records ``div`` and ``rem``. Extents may be registers.

    Raises:
        SpecError: an extent is below 1.
    """
    _positive(tiles_m=tiles_m, tiles_n=tiles_n)
    row = tile // tiles_n
    column = tile % tiles_n
    return row, column


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


def _lowered(tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int) -> tuple[Reg, Reg, Reg, Reg]:
    """Return a tile's band of ``group`` rows, the band's first row and height, and the tile's index in it."""
    _positive(tiles_m=tiles_m, tiles_n=tiles_n, group=group)
    span = tiles_n * group
    band = tile // span
    within = tile % span
    first = band * group
    height = reg.scalar(u32)
    ptx.inst.sub.u32(height, tiles_m, first)
    ptx.inst.min.u32(height, height, group)  # the last band may be lower
    return band, first, height, within


def _band(tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int) -> tuple[Reg, Reg, Reg]:
    """Return the band, row and column of a tile, for bands of ``group`` rows that are ordered by columns."""
    band, first, height, within = _lowered(tile, tiles_m, tiles_n, group)
    column = within // height
    row = first + within % height
    return band, row, column


def grouped(tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int = 8) -> tuple[Reg, Reg]:
    """Order the tiles by bands of ``group`` rows, and within a band by columns from the left.

    Records 8 instructions. Extents may be registers (one instruction more if ``tiles_n`` is one).

    Raises:
        SpecError: an extent or the group is below 1.
    """
    _, row, column = _band(tile, tiles_m, tiles_n, group)
    return row, column


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

    Records 8 instructions (one more if N is a register, and those of :func:`cdiv` for each register).

    Args:
        M, N: rows and columns of the matrix, ints or u32 registers.
        tm, tn: rows and columns of a tile.
        GROUP_SIZE_M: rows of tiles in a band.
        bid: index of the CTA, u32, below the number of tiles.

    Raises:
        SpecError: an extent, a tile's extent or the group is below 1.
    """
    tiles_m, tiles_n = cdiv(M, tm), cdiv(N, tn)
    _, first, height, within = _lowered(bid, tiles_m, tiles_n, GROUP_SIZE_M)
    row = first + bid % height
    column = within // height
    return row, column


def boustrophedon(tile: Reg, tiles_m: Extent, tiles_n: Extent, group: int = 8) -> tuple[Reg, Reg]:
    """Order the tiles like :func:`grouped`, with every other band from right to left.

    So each band begins at the column where the band before it ended.

    Records 12 instructions. Extents may be registers (two instructions more if ``tiles_n`` is one).

    Raises:
        SpecError: an extent or the group is below 1.
    """
    band, row, forward = _band(tile, tiles_m, tiles_n, group)
    return row, _turned(forward, tiles_n, band)


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
