"""Shadow memory: for each block of a segment, the last writes and the reads since then.

A block (:mod:`.partition`) has two values, for its writes and for its reads (:mod:`.value_sets`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Footprint
from ..memory.segments import Segment
from .partition import Partition, Places, distinct, grown

__all__ = ["Shadow"]

#: Accesses that wait at most.
_EARLY = 20_000


class Shadow:
    """The shadow of one segment.

    Attributes:
        segment: the segment; kept, so that no other one gets its identity.
        owner: the CTA whose shared memory it is, or None.
        writes, reads: values by block.
        early: accesses that conflict with nothing so far, and are not stored yet (:meth:`waits`).
        flags: places that strong writes have written (:mod:`.flags`), by offset.
        first: flags in shared memory: the write that initialized each place; 0 if it is not known.
        own_releases: what each thread that wrote a flag has released there, by offset and thread.
    """

    def __init__(self, segment: Segment, owner: tuple[int, int] | None, partition: Partition) -> None:
        self.segment, self.owner, self._partition = segment, owner, partition
        self.writes: NDArray[np.int64] = np.zeros(partition.blocks, np.int64)
        self.reads: NDArray[np.int64] = np.zeros(partition.blocks, np.int64)
        #: How many splits of the partition the values have followed.
        self._followed = len(partition.splits)
        self.early: list[Any] = []
        self._settled = False
        #: While writes wait: the grains that they have touched.
        self._touched: NDArray[np.bool_] | None = None
        self.flags: dict[int, Any] = {}
        self.first: dict[int, int] = {}
        self.own_releases: dict[int, dict[tuple[int, int], Any]] = {}

    @property
    def grain(self) -> int:
        """Bytes of one grain."""
        return self._partition.grain

    # --- early accesses -------------------------------------------------------------------------

    def waits(self, footprint: Footprint, *, reading: bool) -> bool:
        """True if the next access conflicts with nothing so far: it may wait in ``early``.

        All accesses have been weak reads, as those of an input; or all have been weak writes of bytes that
        nothing has touched, as those of an output.
        """
        if self._settled or len(self.early) >= _EARLY:
            return False
        if reading:
            return self._touched is None
        if self._touched is None:
            if self.early:
                return False
            self._touched = np.zeros(len(self._partition.block_of), np.bool_)
        grains = self._partition.grains_of(footprint)
        times = len(self._partition.block_of) // len(self._touched)
        if times > 1:
            self._touched = np.repeat(self._touched, times)
        if self._touched[grains].any():
            return False
        self._touched[grains] = True
        return True

    def settle(self) -> list[Any]:
        """End the wait of early accesses; return them."""
        early, self.early = self.early, []
        self._settled, self._touched = True, None
        return early

    # --- the blocks of an access ----------------------------------------------------------------

    def whole(self, footprint: Footprint) -> NDArray[np.int32]:
        """Return the blocks of a footprint whose pieces one agent accesses together."""
        blocks = self._partition.whole(footprint)
        self._follow()
        return blocks

    def pieces(self, footprint: Footprint) -> Places:
        """Return the blocks of a footprint of which every piece has a value of its own.

        Pieces with one start share their blocks.
        """
        places = self._partition.pieces(footprint)
        self._follow()
        return places

    def _follow(self) -> None:
        """Give blocks that were split off the values that their bytes had before."""
        partition = self._partition
        if self._followed == len(partition.splits):
            return
        self.writes, self.reads = grown(self.writes, partition.blocks), grown(self.reads, partition.blocks)
        writes, reads = self.writes, self.reads
        for first, number, olds in partition.splits[self._followed :]:
            writes[first : first + number] = writes[olds]
            reads[first : first + number] = reads[olds]
        if not partition.shared:
            partition.splits.clear()
        self._followed = len(partition.splits)

    # --- other questions ------------------------------------------------------------------------

    def offsets_of(self, footprint: Footprint, blocks: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the offsets of those grains of a footprint that are in ``blocks``."""
        grains = np.unique(self._partition.grains_of(footprint))
        return grains[np.isin(self._partition.block_of[grains], blocks)] * self.grain

    def writes_at(self, starts: NDArray[np.int64], size: int) -> list[int]:
        """Return the different values of writes of ``size`` bytes at each of ``starts``."""
        self._follow()
        if len(starts) == 1 and size <= self.grain:
            return [int(self.writes[self._partition.block_of[int(starts[0]) // self.grain]])]
        grains = starts // self.grain
        if size > self.grain:
            grains = (grains[:, None] + np.arange(size // self.grain)).ravel()
        return distinct(self.writes[self._partition.block_of[grains]])

    def forget(self, footprint: Footprint) -> None:
        """Forget the accesses to some bytes."""
        blocks = self.whole(footprint)
        self.writes[blocks] = 0
        self.reads[blocks] = 0
