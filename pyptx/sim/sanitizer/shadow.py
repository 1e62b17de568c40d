"""Shadow memory: for each block of a segment, the last writes and the reads since then.

The grain of a segment's shadow is the largest power of two, at most 16 bytes, that divides the starts and the
sizes of all accesses so far. Grains that all accesses so far have touched together form one block, so a tile
that TMA writes and the tensor cores read costs no more than one word. A block has two values, for its writes
and for its reads (:mod:`.value_sets`). An access to a part of a block splits the block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Footprint
from ..memory.segments import Segment

__all__ = ["Places", "Shadow", "distinct"]

_COARSE = 16
#: Accesses that wait at most.
_EARLY = 20_000
#: Footprints of engines that a shadow remembers.
_REMEMBERED = 1024
_ALL: Any = slice(None)
#: The block of all grains that nothing has accessed yet.
_UNTOUCHED = 0


def distinct(values: NDArray[Any]) -> list[int]:
    """Return the distinct elements, in any order."""
    first = values.flat[0]
    if (values == first).all():
        return [int(first)]
    found: list[int] = np.unique(values).tolist()
    return found


class Places(NamedTuple):
    """The blocks of an access. ``pieces`` has for each the piece of the footprint; None: its own position."""

    blocks: NDArray[np.int32]
    pieces: NDArray[np.intp] | None


class Shadow:
    """The shadow of one segment.

    Attributes:
        segment: the segment; kept, so that no other one gets its identity.
        owner: the CTA whose shared memory it is, or None.
        grain: bytes of one grain.
        writes, reads: values by block.
        early: accesses that conflict with nothing so far, and are not stored yet (:meth:`waits`).
        flags: places that strong writes have written (:mod:`.flags`), by offset.
        own_releases: what each thread that wrote a flag has released there, by offset and thread.
    """

    def __init__(self, segment: Segment, owner: tuple[int, int] | None) -> None:
        self.segment, self.owner = segment, owner
        self.grain = _COARSE
        count = -(-segment.size // self.grain)
        self._block_of: NDArray[np.int32] = np.zeros(count, np.int32)
        #: Number of grains by block, and the change of the shadow at which the block was split last.
        self._grains: NDArray[np.int32] = np.zeros(1, np.int32)
        self._split: NDArray[np.int32] = np.zeros(1, np.int32)
        self._grains[_UNTOUCHED] = count
        self._blocks, self._change = 1, 0
        #: For footprints of engines: the last change at which their blocks were right, and the blocks.
        self._known: dict[tuple[int, bytes], tuple[int, NDArray[np.int32]]] = {}
        self.writes: NDArray[np.int64] = np.zeros(1, np.int64)
        self.reads: NDArray[np.int64] = np.zeros(1, np.int64)
        self.early: list[Any] = []
        self._settled = False
        #: While writes wait: the grains that they have touched.
        self._touched: NDArray[np.bool_] | None = None
        self.flags: dict[int, Any] = {}
        self.own_releases: dict[int, dict[tuple[int, int], Any]] = {}

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
            self._touched = np.zeros(len(self._block_of), np.bool_)
        grains = self._grains_of(footprint)
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
        key = footprint.size, footprint.starts.tobytes()
        known = self._known.get(key)
        if known is not None:
            when, blocks = known
            if when != self._change and self._split[blocks].max() > when:
                known = None
        if known is None:
            grains = self._grains_of(footprint).ravel()
            found, where, counts = np.unique(self._block_of[grains], return_inverse=True, return_counts=True)
            blocks = self._separate(grains, found, where.reshape(-1), counts)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = -1, blocks
        if known[0] != self._change:
            self._known[key] = self._change, known[1]
        return known[1]

    def pieces(self, footprint: Footprint) -> Places:
        """Return the blocks of a footprint of which every piece has a value of its own.

        Pieces with one start share their blocks.
        """
        if len(footprint.starts) == 1:
            blocks = self.whole(footprint)
            return Places(blocks, None if len(blocks) == 1 else np.zeros(len(blocks), np.intp))
        grains = self._grains_of(footprint)
        count, width = grains.shape
        blocks = self._block_of[grains]
        first = blocks[:, 0]
        uniform = width == 1 or bool((blocks == first[:, None]).all())
        if uniform and first.all() and (self._grains[first] == width).all():
            return Places(first, None)
        starts, own = grains[:, 0], _ALL
        if count > 1 and not (starts[1:] - starts[:-1] >= width).all():
            different, index, own = np.unique(starts, return_index=True, return_inverse=True)
            if (different[1:] - different[:-1] < width).any():
                return self._single_grains(grains)
            own = own.reshape(-1)
            grains, blocks, first = grains[index], blocks[index], first[index]
        if uniform:
            numbers = np.arange(len(grains))
            where = numbers if width == 1 else np.repeat(numbers, width)
            made = self._separate(grains.ravel(), first, where, np.full(len(grains), width, np.int32))
            return Places(made[own], None)
        # Parts of one piece may lie in different blocks, and two pieces in one block.
        codes = (blocks.astype(np.int64) * len(grains) + np.arange(len(grains))[:, None]).ravel()
        found, where, counts = np.unique(codes, return_inverse=True, return_counts=True)
        where = where.reshape(-1)
        made = self._separate(grains.ravel(), found // len(grains), where, counts)[where]
        return Places(made.reshape(grains.shape)[own].ravel(), np.repeat(np.arange(count), width))

    def _single_grains(self, grains: NDArray[np.int64]) -> Places:
        """Return the blocks of pieces that overlap in part: each grain gets a block of its own."""
        single, where = np.unique(grains, return_inverse=True)
        made = self._separate(
            single, self._block_of[single], np.arange(len(single)), np.ones(len(single), int)
        )
        return Places(made[where.reshape(-1)], np.repeat(np.arange(len(grains)), grains.shape[1]))

    def _grains_of(self, footprint: Footprint) -> NDArray[np.int64]:
        """Return the numbers of the grains of each piece, (pieces, grains of a piece)."""
        starts, size = footprint.starts, footprint.size
        union = size | int(np.bitwise_or.reduce(starts))
        grain = union & -union
        if grain < self.grain:
            self._refine(grain)
        grain = self.grain
        first = starts // grain
        count = size // grain
        if count == 1:
            return first[:, None]
        return first[:, None] + np.arange(count)

    def _refine(self, grain: int) -> None:
        times = self.grain // grain
        self._block_of = np.repeat(self._block_of, times)
        if self._touched is not None:
            self._touched = np.repeat(self._touched, times)
        self._grains *= times
        self.grain = grain
        self._known.clear()

    def _separate(
        self,
        grains: NDArray[np.int64],
        found: NDArray[Any],
        where: NDArray[np.intp],
        counts: NDArray[np.intp],
    ) -> NDArray[np.int32]:
        """Give each group of grains a block of its own.

        Args:
            grains: numbers of grains.
            found: for each group, the block in which all of its grains are; groups have no grain in common.
            where: for each grain, its group.
            counts: for each group, the number of its grains.
        """
        blocks = found.astype(np.int32, copy=False)
        parts = (counts < self._grains[blocks]) | (blocks == _UNTOUCHED)
        new = int(np.count_nonzero(parts))
        if not new:
            return blocks
        every = new == len(parts)
        olds = blocks if every else blocks[parts]
        taken = counts if every else counts[parts]
        first = self._blocks
        self._reserve(first + new)
        news = np.arange(first, first + new, dtype=np.int32)
        self._change += 1
        self._grains[first : first + new] = taken
        self._split[olds] = self._change
        self._split[first : first + new] = self._change
        if (olds == olds[0]).all():
            self._grains[olds[0]] -= taken.sum()
            self.writes[first : first + new] = self.writes[olds[0]]
            self.reads[first : first + new] = self.reads[olds[0]]
        else:
            np.subtract.at(self._grains, olds, taken)
            self.writes[news], self.reads[news] = self.writes[olds], self.reads[olds]
        if every:
            self._block_of[grains] = news[where]
            return news
        blocks = blocks.copy()
        blocks[parts] = news
        self._block_of[grains] = blocks[where]
        return blocks

    def _reserve(self, count: int) -> None:
        self._blocks = count
        size = len(self.writes)
        if count <= size:
            return
        more = max(count, 2 * size, 64) - size
        for name in ("_grains", "_split", "writes", "reads"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(more, old.dtype)]))

    # --- other questions ------------------------------------------------------------------------

    def offsets_of(self, footprint: Footprint, blocks: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the offsets of those grains of a footprint that are in ``blocks``."""
        grains = np.unique(self._grains_of(footprint))
        return grains[np.isin(self._block_of[grains], blocks)] * self.grain

    def writes_at(self, starts: NDArray[np.int64], size: int) -> list[int]:
        """Return the different values of writes of ``size`` bytes at each of ``starts``."""
        if len(starts) == 1 and size <= self.grain:
            return [int(self.writes[self._block_of[int(starts[0]) // self.grain]])]
        grains = starts // self.grain
        if size > self.grain:
            grains = (grains[:, None] + np.arange(size // self.grain)).ravel()
        return distinct(self.writes[self._block_of[grains]])

    def forget(self, footprint: Footprint) -> None:
        """Forget the accesses to some bytes."""
        blocks = self.whole(footprint)
        self.writes[blocks] = 0
        self.reads[blocks] = 0
