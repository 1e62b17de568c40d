"""Which machine code a multiprocessor has fetched, and what fetching the rest takes.

Owns the instruction cache of one multiprocessor. A launch begins with the code of the last one in it, unless
all caches are empty (``l2="cold"``): then each line is fetched when a warp comes to it first.
"""

from __future__ import annotations

from collections.abc import Sequence

from .servers import Server

__all__ = ["InstructionCache"]


class InstructionCache:
    """The lines of machine code that a multiprocessor has, from an empty cache on.

    Args:
        line: cycles for a line behind one that is there.
        jump: cycles for a line elsewhere.
    """

    def __init__(self, line: float, jump: float) -> None:
        self._line, self._jump = line, jump
        self._arrived: dict[int, float] = {}
        self._port = Server()

    def fetch(self, time: float, lines: Sequence[int]) -> float:
        """Return when the lines of code are there that a warp comes to at ``time``, in this order."""
        ready = time
        for number in lines:
            arrived = self._arrived.get(number)
            if arrived is None:
                near = number - 1 in self._arrived
                arrived = self._port.serve(time, self._line if near else self._jump)
                self._arrived[number] = arrived
            ready = max(ready, arrived)
        return ready
