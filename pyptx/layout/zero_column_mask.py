"""The zero-column mask descriptor of ``tcgen05.mma.ws``: 64 bits that select columns of B to treat as zero.

Owns the 64-bit descriptor and the mask that it stands for.  See `PTX ISA,
#tcgen05-zero-column-mask-descriptor`_; the fields agree with CUTLASS ``cute/arch/mma_sm100_desc.hpp``.  Watch
out: the manual's table exchanges the meanings of the two spans; this module follows the manual's examples and
CUTLASS.

.. _PTX ISA, #tcgen05-zero-column-mask-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-zero-column-mask-descriptor
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import SpecError
from ..core.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ZeroColumnMask"]

_SEE = "tcgen05-zero-column-mask-descriptor"
_PARTS = {128: 1, 64: 2, 32: 4}
_MAX_SHIFT = 32
_RESERVED = 0b111 << 36 | 0b11 << 62


@dataclass(frozen=True, slots=True)
class ZeroColumnMask:
    """A pattern of alternating runs of ``used`` and ``skipped`` columns of B; skipped columns count as zeros.

    N is divided into one part for M = 128, two for M = 64, four for M = 32.  Part ``i`` begins ``start[i]``
    columns into the pattern, which begins with a skipped run if ``skip_first[i]``, otherwise with a used run.

    Attributes:
        used: length of each run of used columns, 1..256.
        skipped: length of each run of skipped columns, 1..256.
        start: for each part, the number of columns of the pattern before its first column, 0..255.
        skip_first: for each part, True if the pattern begins with a skipped run.
        shift: the first column of B that is used, 0..32 (0..16 with M = 32).
        enabled: False for a mask without zeros.
    """

    used: int = 1
    skipped: int = 1
    start: tuple[int, int, int, int] = (0, 0, 0, 0)
    skip_first: tuple[bool, bool, bool, bool] = (False, False, False, False)
    shift: int = 0
    enabled: bool = True

    def encode(self) -> int:
        """Return the descriptor as a 64-bit number.

        Raises:
            SpecError: a field cannot hold its value.
        """
        for what, value, low, high in (
            ("used", self.used, 1, 256),
            ("skipped", self.skipped, 1, 256),
            ("shift", self.shift, 0, _MAX_SHIFT),
            *((f"start[{i}]", count, 0, 255) for i, count in enumerate(self.start)),
        ):
            if not low <= value <= high:
                raise SpecError(f"{what} = {value} is outside {low}..{high}", see=_SEE)
        for what, parts in (("start", len(self.start)), ("skip_first", len(self.skip_first))):
            if parts != 4:
                raise SpecError(f"{what} has {parts} values: expected 4, one for each part", see=_SEE)
        return (
            sum(count << 8 * i for i, count in enumerate(self.start))  # 0-31   start counts
            | sum(bool(skip) << 32 + i for i, skip in enumerate(self.skip_first))  # 32-35  first spans
            | self.enabled << 39  # 39     0: a mask of zeros
            | self.skipped - 1 << 40  # 40-47  skip span
            | self.used - 1 << 48  # 48-55  use span
            | self.shift << 56  # 56-61  column shift
        )

    @staticmethod
    def decode(word: int) -> ZeroColumnMask:
        """Return the mask that ``word`` encodes.

        Raises:
            SpecError: a reserved bit is set, or the shift is too large.
        """
        if not 0 <= word < 1 << 64:
            raise SpecError(f"a zero-column mask is an unsigned 64-bit word, got {word:#x}", see=_SEE)
        if word & _RESERVED:
            raise SpecError(
                f"reserved bits of the zero-column mask {word:#018x} are set ({word & _RESERVED:#018x}); "
                "bits 36-38 and 62-63 must be 0",
                see=_SEE,
            )
        shift = word >> 56 & 0x3F
        if shift > _MAX_SHIFT:
            raise SpecError(f"shift = {shift} is outside 0..{_MAX_SHIFT}", see=_SEE)
        first, second, third, fourth = (word >> 8 * i & 0xFF for i in range(4))
        skips = tuple(bool(word >> 32 + i & 1) for i in range(4))
        return ZeroColumnMask(
            used=(word >> 48 & 0xFF) + 1,
            skipped=(word >> 40 & 0xFF) + 1,
            start=(first, second, third, fourth),
            skip_first=(skips[0], skips[1], skips[2], skips[3]),
            shift=shift,
            enabled=bool(word >> 39 & 1),
        )

    def zeros(self, m: int, n: int) -> npt.NDArray[np.bool_]:
        """Return ``bool[n]``: True for the columns of the product for which B counts as zero.

        Args:
            m: M of the instruction: 32, 64 or 128.
            n: N of the instruction: 64, 128 or 256.

        Raises:
            SpecError: there is no such shape, or the shift is above 16 with M = 32.
        """
        if m not in _PARTS or n not in (64, 128, 256):
            raise SpecError(
                f"M x N = {m} x {n} does not exist for .ws: expected M 32, 64 or 128, N 64, 128 or 256",
                see="tcgen05-kind-shapes",
            )
        if m == 32 and self.shift > 16:
            raise SpecError(f"shift = {self.shift} with M = 32 is outside 0..16", see=_SEE)
        if not self.enabled:
            return np.zeros(n, np.bool_)
        column = np.arange(n // _PARTS[m])
        parts = []
        for start, skip_first in zip(self.start[: _PARTS[m]], self.skip_first, strict=False):
            place = (column + start) % (self.used + self.skipped)
            parts.append(place < self.skipped if skip_first else place >= self.used)
        return np.concatenate(parts)
