"""The cost of code, as the timed machine asks for it: what a warp takes for a block, and when it loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...timing.access_order import AccessOrder
from ..code.function import CodeBlock

__all__ = ["BlockCost", "Costs"]


class BlockCost(Protocol):
    """What a warp takes for a block: cycles alone, issue slots, and cycles of each pipe."""

    @property
    def cycles(self) -> float:
        """Cycles from the first issue to that of the next block."""

    @property
    def issues(self) -> float:
        """Issue slots of the scheduler."""

    @property
    def runs(self) -> float:
        """The sum over these of how many are issued in a row before another warp that is ready goes on."""

    @property
    def pipes(self) -> Mapping[str, float]:
        """Cycles of each pipe of the scheduler's part of the multiprocessor."""

    @property
    def dense(self) -> Mapping[str, float]:
        """Of these, the ones that follow the instruction before in the pipe at once."""

    @property
    def behind(self) -> Mapping[int, float]:
        """For each statement, cycles from the end of its issue to that of the block."""

    @property
    def lines(self) -> Sequence[int]:
        """The numbers of the lines of machine code that the block lies in, in their order."""

    @property
    def order(self) -> AccessOrder:
        """When the accesses of the function are issued, and how wide they are."""

    @property
    def serialized(self) -> bool:
        """Whether each product of ``wgmma`` in it waits for the one before, and its warp for each."""


#: The cost of a block of code.
Costs = Callable[[CodeBlock], BlockCost]
