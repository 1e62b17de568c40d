"""Order of tiles whose work differs, for persistent CTAs that take tiles at a constant distance.

Owns the choice of an order in which every CTA gets nearly the same work, made when the kernel is built, and
the arithmetic of that order.  Tiles have a row, which decides their work, and a head; heads of a *section*
are worked on together, so that what they read stays in L2::

    section 0, rows up      section 1, rows down    ...    last section, rows down
    row 0: all its heads    last row: all heads            last row first: the long tiles of a causal mask
    row 1: ...              ...                            row 0 last: the short ones fill the gaps

Two sections in opposite directions add up to the same work in each place.  With one direction alone the CTA
in the first place gets the longest tile of every round: at 4 x 16 heads of 4096 queries, head dim 128,
causal, CTAs wait for an eighth of the time; in turns, for 0.3% (arithmetic of :attr:`WorkOrder.balance`).
Tiles that wait for those before them in one order of rows need one direction, though.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.errors import SpecError
from ..dsl import Reg, ptx
from .division import fast_divmod
from .tile_loop import StaticTiles

__all__ = ["WorkOrder"]

#: Orders of so many tiles are compared; of more tiles the largest section is taken.
_MOST_TILES = 1 << 21


class WorkOrder:
    """An order of tiles, a row and a head each. The constructor records nothing.

    ::

        order = kit.WorkOrder([row + 1 for row in range(32)], 64, ctas=132, most=16)
        @kernel(..., grid=order.ctas)
        def attention(...):
            with order.tiles(ptx.special.ctaid.x()).loop() as index:
                row, head = order.place(index)

    Args:
        work: work of a tile in each row, in any unit.
        heads: number of heads.
        ctas: number of CTAs; fewer if there are fewer tiles.
        most: most heads of a section, those whose data fits into L2.
        together: heads that read the same data and stay in one section; a divisor of ``heads``.
        section: heads of a section, a divisor of ``heads``; default: the most even order, and of equally even
            ones that with the smallest section.
        turns: whether the sections go up and down in turns; otherwise rows of different work all go down.

    Attributes:
        ctas: number of CTAs of the grid.
        count: number of tiles.
        section: heads of a section.
        snake: whether each second round goes through the CTAs backwards.
        balance: mean work of a CTA as a fraction of the largest.

    Raises:
        SpecError: numbers that are not positive, or a section that does not divide the heads.
    """

    def __init__(
        self,
        work: Sequence[float],
        heads: int,
        *,
        ctas: int,
        most: int = 1,
        together: int = 1,
        section: int | None = None,
        turns: bool = True,
    ) -> None:
        if min(heads, ctas, most, together, len(work)) < 1 or heads % together:
            raise SpecError(
                f"{len(work)} rows, heads = {heads}, ctas = {ctas}, most = {most}, together = {together}: "
                "expected positive numbers, and heads in whole groups"
            )
        if section is not None and (section < 1 or heads % section):
            raise SpecError(f"section = {section}: expected a divisor of the {heads} heads")
        self.rows, self.heads = len(work), heads
        self.count = self.rows * heads
        self.ctas = min(ctas, self.count)
        self._uneven, self._turns = min(work) != max(work), turns
        self.section, self.snake = section or together, False
        if self._uneven:
            self._choose(np.array(work, np.float64), max(most, together), together, section)
        self.balance = self._balance(np.array(work, np.float64), self.section, self.snake)

    def _choose(self, work: np.ndarray, most: int, together: int, section: int | None) -> None:
        fitting = range(together, min(most, self.heads) + 1, together)
        sections = [n for n in fitting if self.heads % n == 0] if section is None else [section]
        self.section = sections[-1]
        if self.count > _MOST_TILES:
            return
        choices = [(n, snake) for n in sections for snake in (False, True)]
        scores = [round(self._balance(work, *choice), 3) for choice in choices]
        self.section, self.snake = choices[scores.index(max(scores))]

    def _balance(self, work: np.ndarray, section: int, snake: bool) -> float:
        index = np.arange(self.count)
        group, rest = np.divmod(index, section * self.rows)
        number = rest // section
        down = ((self.heads // section - 1 - group) % 2 == 0) | (not self._turns)
        turn, cta = np.divmod(index, self.ctas)
        cta = np.where(snake & (turn % 2 == 1), self.ctas - 1 - cta, cta)
        row = np.where(down, self.rows - 1 - number, number) if self._uneven else number
        load = np.bincount(cta, work[row], self.ctas)
        return float(load.mean() / load.max())

    def tiles(self, cta: Reg) -> StaticTiles:
        """Return the tiles of a CTA, whose number in the grid is given. Records nothing."""
        return StaticTiles(self.count, first=cta, step=self.ctas, snake=self.snake)

    def place(self, index: Reg) -> tuple[Reg, Reg]:
        """Return the row and the head of a tile, two u32 registers.

        Records two divisions by numbers and a ``mad.lo``; for rows of different work also a ``sub``, an
        ``and``, a ``setp`` and a ``selp`` where several sections take turns, else a ``sub``.
        """
        section, rows = self.section, self.rows
        group, rest = fast_divmod(index, section * rows, limit=self.count)
        row, head = fast_divmod(rest, section, limit=self.count)
        if self._uneven:
            up, row = row, rows - 1 - row
            sections = self.heads // section
            if sections > 1 and self._turns:
                # The last section goes down, and each one before in the other direction.
                row = ptx.selp(up, row, (group & 1) != (sections - 1) % 2)
        return row, group * section + head
