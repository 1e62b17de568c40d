"""Tiles of two widths, so that all clusters of a persistent kernel have about as many columns to compute.

The tiles of a matrix rarely fill the last round of the clusters that share them.  Where room is left there,
some strips of rows get narrow tiles behind their first wide ones, and so a tile or two more.  Each cluster
that computes a narrow tile instead of a wide one has less to do, and the launch ends earlier::

       +-----+-----+-----+-----+      whole strips
       |  0  |  1  |  2  |  3  |
       +-----+-----+---+---+---+      strips with narrow tiles: ``leading`` wide ones, then narrow ones,
       |  4  |  5  | 6 | 7 | 8 |      of which the last may reach beyond the matrix
       +-----+-----+---+---+---+

Wide tiles have the lower numbers: a cluster that takes every n-th tile computes its narrow ones last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from ..core.errors import SpecError
from ..core.types import u32
from ..dsl import Reg, ptx, reg

__all__ = ["TwoWidths"]

#: A narrow tile has so much of a wide one's columns at least: it reads as much of the other operand.
_LEAST = 0.75


@dataclass(frozen=True)
class TwoWidths:
    """How a matrix is divided into tiles of two widths.

    Attributes:
        columns: columns of the matrix.
        wide, narrow: columns of a tile.
        strips: rows of tiles.
        narrow_strips: strips that have narrow tiles, the last ones.
        leading: wide tiles in each of these, to the left of the narrow ones.

    Raises:
        SpecError: numbers that are no such division.
    """

    columns: int
    wide: int
    narrow: int
    strips: int
    narrow_strips: int
    leading: int

    def __post_init__(self) -> None:
        for name in ("columns", "wide", "narrow", "strips"):
            _check_positive(name, getattr(self, name))
        if not (
            self.narrow <= self.wide
            and 0 <= self.narrow_strips <= self.strips
            and 0 <= self.leading * self.wide < self.columns
        ):
            raise SpecError(
                f"{self!r}: expected narrow tiles that are no wider than wide ones, in some of the strips, "
                "and wide tiles in front of them that leave columns"
            )

    @property
    def across(self) -> int:
        """Return the number of tiles in a whole strip."""
        return -(-self.columns // self.wide)

    @property
    def narrow_across(self) -> int:
        """Return the number of narrow tiles in a strip that has some."""
        return -(-(self.columns - self.leading * self.wide) // self.narrow)

    @property
    def wide_tiles(self) -> int:
        """Return the number of wide tiles, which have the lower numbers."""
        return (self.strips - self.narrow_strips) * self.across + self.narrow_strips * self.leading

    @property
    def tiles(self) -> int:
        """Return the number of all tiles."""
        return self.wide_tiles + self.narrow_strips * self.narrow_across

    @property
    def computed(self) -> int:
        """Return the columns of all tiles, with those that are outside of the matrix."""
        return self.wide_tiles * self.wide + (self.tiles - self.wide_tiles) * self.narrow

    def loads(self, clusters: int) -> list[tuple[int, int, int]]:
        """Return what clusters have to do, each of which takes every ``clusters``-th tile.

        A list of ``(columns, tiles, number of clusters that have these)``.
        """
        wide, tiles = self.wide_tiles, self.tiles
        # Clusters between these have as many tiles of each width as the first of them.
        firsts = sorted({0, wide % clusters, tiles % clusters, clusters})
        found = []
        for first, end in pairwise(firsts):
            own, own_wide = -(-(tiles - first) // clusters), max(0, -(-(wide - first) // clusters))
            found.append((own_wide * self.wide + (own - own_wide) * self.narrow, own, end - first))
        return found

    def busiest(self, clusters: int, matrices: int = 1) -> int:
        """Return the columns of the cluster that has most, if each takes every ``clusters``-th tile."""
        if matrices == 1:
            return max(self.loads(clusters))[0]
        numbers = np.arange(self.tiles * matrices)
        widths = np.where(numbers % self.tiles < self.wide_tiles, self.wide, self.narrow)
        return int(np.bincount(numbers % clusters, widths).max())

    @classmethod
    @cache
    def choose(
        cls, columns: int, strips: int, wide: int, *, clusters: int, step: int, matrices: int = 1
    ) -> TwoWidths | None:
        """Return the division whose busiest cluster has the fewest columns; None if one width is as good.

        Of equal ones it is that whose tiles reach least beyond the matrix. A launch of a single round keeps
        its tiles.

        Args:
            columns, strips: columns, and rows of tiles, of one matrix.
            wide: columns of a wide tile.
            clusters: number of clusters, each of which takes every ``clusters``-th tile.
            step: the narrow width is a multiple of it.
            matrices: number of matrices whose tiles follow each other.

        Raises:
            SpecError: a number below 1.
        """
        _check_positive("clusters", clusters)
        _check_positive("step", step)
        _check_positive("matrices", matrices)
        best, one = None, cls(columns, wide, wide, strips, 0, 0)
        if one.tiles * matrices <= clusters:
            return None
        least = one.busiest(clusters, matrices), 0
        for plan in cls._plans(one, step):
            # The busiest cluster has all rounds.
            if -(-plan.tiles * matrices // clusters) * plan.narrow <= least[0]:
                most = plan.busiest(clusters, matrices), plan.computed
                if most < least:
                    least, best = most, plan
        return best

    @classmethod
    def _plans(cls, one: TwoWidths, step: int) -> Iterator[TwoWidths]:
        for narrow in range((one.wide - 1) // step * step, 0, -step):
            if narrow < _LEAST * one.wide:
                return
            for narrow_strips in range(1, one.strips + 1):
                for leading in reversed(range(one.across)):
                    yield cls(one.columns, one.wide, narrow, one.strips, narrow_strips, leading)

    def place(self, tile: Reg, order: Callable[[Reg, int, int], tuple[Reg, Reg]]) -> tuple[Reg, Reg, Reg]:
        """Return a tile's strip, its first column, and a predicate that is true if it is narrow.

        ``order`` (of :mod:`.tile_order`) orders each of up to three parts by itself: whole strips, the wide
        tiles of the others, the narrow ones.  Records for each part but the last a ``setp`` and an
        ``if_`` with ``else_``, and in each part up to 3 instructions beside those of the order.

        Args:
            tile: number of the tile, a u32 register, below :attr:`tiles`.
            order: returns row and column of a tile by its number and the extents.
        """
        strip, column = reg.scalar(u32), reg.scalar(u32)
        whole = self.strips - self.narrow_strips
        parts = [
            _Part(0, whole, self.across, 0, 0, self.wide),
            _Part(whole * self.across, self.narrow_strips, self.leading, whole, 0, self.wide),
            _Part(
                self.wide_tiles,
                self.narrow_strips,
                self.narrow_across,
                whole,
                self.leading * self.wide,
                self.narrow,
            ),
        ]
        _record([part for part in parts if part.strips * part.across], tile, order, strip, column)
        return strip, column, tile >= self.wide_tiles


@dataclass(frozen=True)
class _Part:
    """A rectangle of tiles: its first tile, strips, tiles across, first strip and column, and their width."""

    first: int
    strips: int
    across: int
    top: int
    left: int
    width: int


def _record(
    parts: list[_Part],
    tile: Reg,
    order: Callable[[Reg, int, int], tuple[Reg, Reg]],
    strip: Reg,
    column: Reg,
) -> None:
    part, *others = parts
    if others:
        with ptx.if_(tile < others[0].first):
            _record([part], tile, order, strip, column)
        with ptx.else_():
            _record(others, tile, order, strip, column)
        return
    row, across = order(tile - part.first if part.first else tile, part.strips, part.across)
    ptx.inst.add.u32(strip, row, part.top)
    ptx.inst.mad.lo.u32(column, across, part.width, part.left)


def _check_positive(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise SpecError(f"{name} is {value!r}: expected a positive number")
