"""A cluster as a grid of CTAs that share the operands of a product: who is where, masks, and whom to tell.

The CTAs of a row of the grid need the same rows of A, and those of a column the same rows of B.  So each CTA
loads its share of both and multicasts it::

                       column 0                 column 1
    row 0        rank 0: A0/2, B0/2       rank 2: A0/2, B1/2        A0: loaded by ranks 0 and 2, for both
    row 1        rank 1: A1/2, B0/2       rank 3: A1/2, B1/2        B0: loaded by ranks 0 and 1, for both

A stage of a CTA may be filled again when all CTAs into which it multicasts have read the stage: those of its
row and those of its column.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.types import u16, u32
from ..dsl import Reg, ptx, reg

__all__ = ["ClusterGrid"]

_MOST = 16


class ClusterGrid:
    """The grid of a cluster; its rank counts down the columns. The constructor records nothing.

    Args:
        rows, columns: CTAs along M and along N, powers of two with a product of at most 16 (portable: 8).

    Attributes:
        size: CTAs of the cluster.
        readers: CTAs that read what a CTA multicasts, itself included.

    Raises:
        SpecError: other extents.
    """

    def __init__(self, rows: int, columns: int) -> None:
        for value in (rows, columns):
            if type(value) is not int or value < 1 or value & (value - 1) or rows * columns > _MOST:
                raise SpecError(
                    f"the cluster is {rows!r} x {columns!r}: expected powers of two with a product up to "
                    f"{_MOST}"
                )
        self.rows, self.columns = rows, columns
        self.size = rows * columns
        self.readers = rows + columns - 1

    def __repr__(self) -> str:
        return f"<cluster of {self.rows} x {self.columns} CTAs>"

    def place(self, rank: Reg) -> tuple[Reg | int, Reg | int]:
        """Return the row and the column of the CTA ``rank``. Records nothing, one or two instructions."""
        row: Reg | int = 0 if self.rows == 1 else rank if self.columns == 1 else rank & (self.rows - 1)
        shift = self.rows.bit_length() - 1
        column: Reg | int = 0 if self.columns == 1 else rank if self.rows == 1 else rank >> shift
        return row, column

    def row_mask(self, row: Reg | int) -> Reg | int | None:
        """Return the multicast mask of the CTAs of a row; None if there is one. Records up to two."""
        if self.columns == 1:
            return None
        return _shifted(sum(1 << (self.rows * i) for i in range(self.columns)), row)

    def column_mask(self, column: Reg | int) -> Reg | int | None:
        """Return the multicast mask of the CTAs of a column; None if there is one. Records up to three."""
        if self.rows == 1:
            return None
        shift = column * self.rows if isinstance(column, Reg) else column
        return _shifted((1 << self.rows) - 1, shift)

    def peer(self, rank: Reg, index: Reg) -> Reg:
        """Return the rank of reader ``index`` of what CTA ``rank`` multicasts, for ``index < readers``.

        Reader 0 is the CTA itself; then come the others of its column, then the others of its row.  Records
        one ``xor``, and three instructions more if the cluster has several rows and several columns.
        """
        if self.columns == 1 or self.rows == 1:
            return rank ^ index
        distance = reg.scalar(u32)
        # Index rows + i is column i + 1 further, so rank `rows * (i + 1)` further.
        ptx.inst.mad.lo.u32(distance, index, self.rows, -self.rows * (self.rows - 1) & 0xFFFFFFFF)
        ptx.inst.selp.b32(distance, index, distance, index < self.rows)
        return rank ^ distance


def _shifted(mask: int, by: Reg | int) -> Reg | int:
    if not isinstance(by, Reg):
        return mask << by
    wide = reg.scalar(u32, init=mask) << by
    narrow = reg.scalar(u16)
    ptx.inst.cvt.u16.u32(narrow, wide)
    return narrow
