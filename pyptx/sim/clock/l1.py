"""Which lines of global memory L1 of a multiprocessor holds.

L1 has what shared memory leaves of the same storage. Source: CUDA C++ Programming Guide, compute capabilities
9.0 and 10.0, shared memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable

from ..engine.work import LINE

__all__ = ["L1"]

#: Bytes of L1 and shared memory together, and the sizes that shared memory can have, in KiB.
_STORAGE, _CARVEOUTS = 256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)
_KIB = 1024


class L1:
    """The lines that threads have read last, and all that they have read so far.

    Args:
        shared: bytes of shared memory that all CTAs of the multiprocessor have together.
    """

    def __init__(self, shared: int) -> None:
        taken = next((size for size in _CARVEOUTS if size * _KIB >= shared), _CARVEOUTS[-1])
        self.capacity = (_STORAGE - taken) * _KIB // LINE
        self._held: OrderedDict[int, None] = OrderedDict()
        self._read: set[int] = set()

    def pass_by(self, lines: Collection[int]) -> bool:
        """Read lines past L1, from L2. Return whether one is read here for the first time."""
        fresh = not self._read.issuperset(lines)
        self._read.update(lines)
        return fresh

    def read(self, lines: Iterable[int]) -> tuple[int, bool]:
        """Read lines. Return how many are not here, and whether one is read here for the first time."""
        missed, fresh = 0, False
        held = self._held
        for line in lines:
            if line in held:
                held.move_to_end(line)
                continue
            missed += 1
            fresh |= line not in self._read
            self._read.add(line)
            held[line] = None
            if len(held) > self.capacity:
                held.popitem(last=False)
        return missed, fresh
