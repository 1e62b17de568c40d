"""Which sectors of global memory L1 of a multiprocessor holds, and what it has asked L2 for.

L1 has what shared memory leaves of the same storage. Source: CUDA C++ Programming Guide, compute capabilities
9.0 and 10.0, shared memory. It gives places to lines, and fills of a line the sectors that threads read.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ..engine.work import LINE
from ..memory.segments import Segment
from .units import SECTOR, Units

__all__ = ["LINE_SECTORS", "L1"]

#: Sectors of a line.
LINE_SECTORS = LINE // SECTOR
#: Bytes of L1 and shared memory together, and the sizes that shared memory can have, in KiB.
_STORAGE, _CARVEOUTS = 256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)
_KIB = 1024
#: Lines that L1 keeps of what loads mark for eviction first. Measured by ncu on an H200, 2026-11-30: of a row
#: of 196 KiB that 1024 threads read backwards and then again by ``ld.cs``, the second time L1 has 14 KiB.
_PASSING = 32 * _KIB // LINE


class L1:
    """The sectors that threads have read last, and all that L2 was asked for so far.

    Args:
        shared: bytes of shared memory that all CTAs of the multiprocessor have together.
    """

    def __init__(self, shared: int) -> None:
        taken = next((size for size in _CARVEOUTS if size * _KIB >= shared), _CARVEOUTS[-1])
        self.capacity = (_STORAGE - taken) * _KIB // LINE
        #: For each line, when each sector that is here arrives; the lines that go first lie apart.
        self._held: OrderedDict[int, dict[int, float]] = OrderedDict()
        self._passing: OrderedDict[int, dict[int, float]] = OrderedDict()
        #: For each sector that L2 was asked for, how many bytes had come into L2 then.
        self._asked: dict[int, float] = {}
        #: How many different ones of each array, by its address.
        self._different: dict[int, int] = {}

    def read(self, sectors: Iterable[int]) -> tuple[list[int], float]:
        """Read sectors. Return those that are not here, and when the last of the others arrives."""
        missed, arrives = [], 0.0
        for sector in sectors:
            line = sector // LINE_SECTORS
            for lines in (self._held, self._passing):
                there = lines.get(line)
                if there is not None and sector in there:
                    lines.move_to_end(line)
                    arrives = max(arrives, there[sector])
                    break
            else:
                missed.append(sector)
        return missed, arrives

    def fill(self, sectors: Iterable[int], arrives: float, *, passing: bool = False) -> None:
        """Keep sectors that arrive from L2 then; of those that are ``passing``, only the last ones."""
        lines = self._passing if passing else self._held
        for sector in sectors:
            line = sector // LINE_SECTORS
            if line in lines:
                lines[line][sector] = arrives
                lines.move_to_end(line)
            else:
                lines[line] = {sector: arrives}
        while len(self._passing) > _PASSING or (
            self._passing and len(self._passing) + len(self._held) > self.capacity
        ):
            self._passing.popitem(last=False)
        while len(self._held) > self.capacity:
            self._held.popitem(last=False)

    def ask(self, sectors: Sequence[int], segment: Segment, units: Units) -> bool:
        """Ask L2 for sectors of an array, or store them there. Return whether L2 may not hold one of them.

        What others ask for, too, L2 keeps longer: it was asked for by one of them last.
        """
        asked, brought = self._asked, units.brought
        before = [brought - asked.get(sector, -math.inf) for sector in sectors]
        different = self._different.get(segment.base, 0) + before.count(math.inf)
        self._different[segment.base] = different
        asked.update(dict.fromkeys(sectors, brought))
        askers = units.sharers * different * SECTOR / segment.size
        return max(before) / max(1.0, askers) > units.kept
