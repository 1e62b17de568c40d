"""Tiles of two widths, so that all clusters of a persistent kernel have about as many columns to compute.

The tiles of a matrix rarely fill the last round of the clusters that share them.  Where room is left there,
some neighboring tiles are replaced by one more with fewer columns: seven of 256 columns by eight of 224.
Each cluster that computes a narrow tile instead of a wide one has less to do, and the launch ends earlier::

            whole strips                 strips with narrow tiles
       +-----+-----+-----+-----+
       |  0  |  1  |  2  |  3  |         wide tiles first, then the narrow ones at the right:
       +-----+-----+---+---+---+         a cluster that takes every n-th tile has its narrow ones last
       |  4  |     9    10  11 |
       +-----+-----+---+---+---+
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..core.errors import SpecError
from ..core.types import u32
from ..dsl import Reg, ptx, reg

__all__ = ["TwoWidths"]

#: Wide tiles that are replaced by one more narrow one. Half as wide is left out: it reads A twice as often.
_REPLACED = (3, 7, 15)


@dataclass(frozen=True)
class TwoWidths:
    """How a matrix is divided into tiles of two widths.

    Attributes:
        strips: rows of tiles.
        across: wide tiles that a strip would have.
        wide: columns of a wide tile.
        narrow: columns of a narrow tile.
        narrow_strips: strips that have narrow tiles, the last ones.
        narrow_across: narrow tiles in each of these, at the right.
    """

    strips: int
    across: int
    wide: int
    narrow: int
    narrow_strips: int
    narrow_across: int

    @property
    def replaced(self) -> int:
        """Return how many wide tiles the narrow ones of a strip replace."""
        return self.narrow_across * self.narrow // self.wide

    @property
    def wide_tiles(self) -> int:
        """Return the number of wide tiles, which have the lower numbers."""
        return self.strips * self.across - self.narrow_strips * self.replaced

    @property
    def tiles(self) -> int:
        """Return the number of all tiles."""
        return self.wide_tiles + self.narrow_strips * self.narrow_across

    def most_columns(self, clusters: int, matrices: int = 1) -> int:
        """Return the columns of the cluster that has most, if each takes every ``clusters``-th tile."""
        numbers = np.arange(self.tiles * matrices)
        widths = np.where(numbers % self.tiles < self.wide_tiles, self.wide, self.narrow)
        return int(np.bincount(numbers % clusters, widths).max())

    @classmethod
    def choose(
        cls, strips: int, across: int, wide: int, *, clusters: int, step: int, matrices: int = 1
    ) -> TwoWidths | None:
        """Return the division whose busiest cluster has the fewest columns; None if one width is as good.

        A launch of a single round keeps its tiles.

        Args:
            strips, across: rows of tiles, and wide tiles in each, of one matrix.
            wide: columns of a wide tile.
            clusters: number of clusters, each of which takes every ``clusters``-th tile.
            step: the narrow width is a multiple of it.
            matrices: number of matrices whose tiles follow each other.

        Raises:
            SpecError: a number below 1.
        """
        for name, value in (
            ("strips", strips),
            ("across", across),
            ("wide", wide),
            ("clusters", clusters),
            ("step", step),
            ("matrices", matrices),
        ):
            if type(value) is not int or value < 1:
                raise SpecError(f"{name} is {value!r}: expected a positive number")
        whole = strips * across * matrices
        if whole <= clusters:
            return None
        least, best = -(-whole // clusters) * wide, None
        for plan in cls._plans(strips, across, wide, step):
            # Of one matrix, each cluster has this many wide tiles at least; the busiest has all rounds.
            full = plan.wide_tiles // clusters if matrices == 1 else 0
            rounds = -(-plan.tiles * matrices // clusters)
            if full * wide + (rounds - full) * plan.narrow > least:
                continue
            most = plan.most_columns(clusters, matrices)
            if most < least or (best is not None and most == least and plan.tiles < best.tiles):
                least, best = most, plan
        return best

    @classmethod
    def _plans(cls, strips: int, across: int, wide: int, step: int) -> Iterator[TwoWidths]:
        for replaced in _REPLACED:
            narrow, rest = divmod(wide * replaced, replaced + 1)
            if rest or narrow % step:
                continue
            for blocks in range(1, across // replaced + 1):
                for narrow_strips in range(1, strips + 1):
                    yield cls(strips, across, wide, narrow, narrow_strips, blocks * (replaced + 1))

    def place(self, tile: Reg, order: Callable[[Reg, int, int], tuple[Reg, Reg]]) -> tuple[Reg, Reg, Reg]:
        """Return a tile's strip, its first column, and a predicate that is true if it is narrow.

        ``order`` (of :mod:`.tile_order`) orders each of up to three parts by itself: whole strips, the wide
        tiles of the others, the narrow ones.  Records for each part but the last a ``setp`` and an
        ``if_`` with ``else_``, and in each part up to 5 instructions beside those of the order.

        Args:
            tile: number of the tile, a u32 register, below :attr:`tiles`.
            order: returns row and column of a tile by its number and the extents.
        """
        strip, column = reg.scalar(u32), reg.scalar(u32)
        whole, above = self.strips - self.narrow_strips, self.across - self.replaced
        parts = [
            (0, whole, self.across, 0, 0, self.wide),
            (whole * self.across, self.narrow_strips, above, whole, 0, self.wide),
            (
                self.wide_tiles,
                self.narrow_strips,
                self.narrow_across,
                whole,
                above * self.wide,
                self.narrow,
            ),
        ]
        self._record([each for each in parts if each[1] and each[2]], tile, order, strip, column)
        return strip, column, tile >= self.wide_tiles

    def _record(
        self,
        parts: list[tuple[int, int, int, int, int, int]],
        tile: Reg,
        order: Callable[[Reg, int, int], tuple[Reg, Reg]],
        strip: Reg,
        column: Reg,
    ) -> None:
        (first, rows, columns, top, left, width), *others = parts
        if others:
            with ptx.if_(tile < others[0][0]):
                self._record(parts[:1], tile, order, strip, column)
            with ptx.else_():
                self._record(others, tile, order, strip, column)
            return
        row, place = order(tile - first if first else tile, rows, columns)
        ptx.inst.add.u32(strip, row, top)
        ptx.inst.mad.lo.u32(column, place, width, left)
