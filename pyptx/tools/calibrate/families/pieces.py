"""A stream of bulk copies: pieces of an array that one thread of a CTA keeps in flight.

Owns :class:`Pieces`, the slots in shared memory and the loop's body. Microbenchmarks of rates and of power
share it.
"""

from __future__ import annotations

from collections.abc import Callable

from ....core.types import u8, u64
from ....dsl import Reg, ptx, reg, smem
from ..kernels import initialized, wait

__all__ = ["DEPTH", "PIECE", "TURN", "Pieces", "place_of"]

#: Copies in flight of a multiprocessor, bytes of each, and bytes of all of them. They take more than half of
#: its shared memory, so that it runs one CTA.
DEPTH, PIECE = 8, 16384
TURN = DEPTH * PIECE


def place_of(base: Reg, nbytes: int) -> Reg:
    """Return the address of the CTA's part, of so many bytes, of an array. Records one instruction."""
    place = reg.scalar(u64)
    ptx.inst.mad.wide.u32(place, ptx.special.ctaid.x(), nbytes, base)
    return place


class Pieces:
    """Slots for pieces that are on their way. All threads of the CTA must make it; one uses it.

    Records what :func:`~..kernels.initialized` does.
    """

    def __init__(self) -> None:
        self.stages = smem.alloc(PIECE, u8, align=128, stages=DEPTH)
        self._full = initialized(DEPTH)

    def load(
        self,
        place: Reg,
        parity: Reg | int | None = None,
        *,
        offset: int = 0,
        done: Callable[[int], None] | None = None,
    ) -> None:
        """Load a turn: a piece into each slot. Records the waits, and the copies.

        Args:
            place: the address of the first piece, less ``offset`` bytes. The others lie behind it.
            parity: of the phase in which the turn before has loaded into these slots; None for the first one.
            offset: bytes.
            done: called for each slot when its piece of the turn before is there.
        """
        for slot, barrier in enumerate(self._full):
            if parity is not None:
                wait(barrier, parity)
            if done is not None:
                done(slot)
            ptx.mbarrier.arrive_expect_tx(barrier, PIECE)
            source = ptx.addr(place, offset + slot * PIECE)
            ptx.cp.async_.bulk.load(self.stages[slot], source, PIECE, barrier)

    def finish(self, parity: Reg | int, done: Callable[[int], None] | None = None) -> None:
        """Wait for the last turn; ``done`` is called for each slot when its piece is there."""
        for slot, barrier in enumerate(self._full):
            wait(barrier, parity)
            if done is not None:
                done(slot)
