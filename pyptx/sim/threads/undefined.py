"""Undefined bits: which bits of registers come from memory that nothing wrote.

Owns :class:`UndefinedBits`, the flags of the registers of one activation, which exist only while there are
any. A number for each register and thread names the load that the bits come from (:mod:`.origins`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.emitter import CLASS_BITS
from ..code.semantic import RegisterPlace

__all__ = ["ALL_BITS", "UndefinedBits", "UnwrittenLoad"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]

#: All bits of a register, by class; a register of 128 bits has two words.
ALL_BITS = {cls: np.uint64((1 << min(bits, 64)) - 1) for cls, bits in CLASS_BITS.items()}


class UnwrittenLoad(Exception):
    """Raised where code that does not follow undefined bits is about to load them.

    Nothing has changed yet: the instruction then executes again, in code that follows undefined bits.
    """


class _Row:
    """Flags of one register: its undefined bits in each thread, and the origin of them."""

    __slots__ = ("bits", "origins")

    def __init__(self, cls: str, columns: int) -> None:
        self.bits = np.zeros((columns, 2) if cls == "128" else columns, np.uint64)
        self.origins = np.zeros(columns, np.int64)


class UndefinedBits:
    """The undefined bits of the registers of one activation of a function; empty if all are defined.

    Registers are named by the index of their place, threads by their column.
    """

    __slots__ = ("columns", "rows")

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: dict[int, _Row] = {}

    def __bool__(self) -> bool:
        return bool(self.rows)

    def in_threads(self, span: slice) -> bool:
        """True if a register of these threads has undefined bits."""
        return any(row.bits[span].any() for row in self.rows.values())

    def flags(self, index: int, span: slice) -> Mask | None:
        """Return which threads have undefined bits in a register, or None if none has."""
        row = self.rows.get(index)
        if row is None:
            return None
        flags: Mask = row.bits[span] != 0
        return flags if flags.ndim == 1 else np.logical_or.reduce(flags, axis=1)

    def bits(self, index: int, span: slice) -> Array | None:
        """Return the undefined bits of a register in each thread, or None if all bits are defined."""
        row = self.rows.get(index)
        return None if row is None else row.bits[span]

    def origins(self, index: int, span: slice) -> Array:
        """Return the origin of a register's undefined bits in each thread. There must be such bits."""
        return self.rows[index].origins[span]

    def define(self, index: int, span: slice, lanes: Mask) -> None:
        """Record that a register has no undefined bits in these threads."""
        row = self.rows.get(index)
        if row is not None:
            row.bits[span][lanes] = 0
            if not row.bits.any():
                del self.rows[index]

    def set(self, place: RegisterPlace, span: slice, lanes: Mask, bits: Array, origins: Array) -> None:
        """Record the undefined bits of a register in these threads; ``bits`` may be 0 in some of them."""
        if not bits[lanes].any():
            self.define(place.index, span, lanes)
            return
        row = self.rows.get(place.index)
        if row is None:
            row = self.rows[place.index] = _Row(place.cls, self.columns)
        row.bits[span][lanes] = bits[lanes]
        row.origins[span][lanes] = origins[lanes]
