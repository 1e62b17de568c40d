"""The blocks of a segment's shadow: grains that all accesses so far have touched together.

The grain is the largest power of two, at most 16 bytes, that divides the starts and the sizes of all accesses
so far. A tile that TMA writes and the tensor cores read is one block. An access to a part of a block splits
the block. The CTAs of a launch share one partition of their shared memory: where one of them has split, the
others find blocks that fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.tuples import NamedTuple
from ..memory.access import Footprint

__all__ = ["Partition", "Places", "Split", "distinct", "grown"]

_COARSE = 16
#: Footprints of engines that a partition remembers.
_REMEMBERED = 1024
#: Of so many values, a set is the fastest way to the distinct ones.
_FEW = 128
_ALL: Any = slice(None)
#: The block of all grains that nothing has accessed yet.
_UNTOUCHED = 0


def distinct(values: NDArray[Any]) -> list[int]:
    """Return the distinct elements in ascending order: so a finding names the first lane and byte."""
    if values.size <= _FEW:
        return sorted(set(values.ravel().tolist()))
    first = values.flat[0]
    if (values == first).all():
        return [int(first)]
    found: list[int] = np.unique(values).tolist()
    return found


class Places(NamedTuple):
    """The blocks of an access. ``pieces`` has for each the piece of the footprint; None: its own position."""

    blocks: NDArray[np.int32]
    pieces: NDArray[np.intp] | None


class Split(NamedTuple):
    """A number of new blocks, from ``first``, were split off from blocks: one for all, or one for each."""

    first: int
    number: int
    olds: int | NDArray[np.int32]


class Partition:
    """The blocks of a segment of ``size`` bytes, or of all segments of one kind.

    Attributes:
        grain: bytes of one grain.
        block_of: the block of each grain.
        blocks: the number of blocks. Block 0 has the grains that nothing has accessed.
        splits: the splits so far, in order; a shadow follows them.
        shared: True if several shadows use the partition.
    """

    def __init__(self, size: int, *, shared: bool = False) -> None:
        self.grain, self.shared = _COARSE, shared
        count = -(-size // self.grain)
        self.block_of: NDArray[np.int32] = np.zeros(count, np.int32)
        self.blocks = 1
        self.splits: list[Split] = []
        #: Number of grains by block, and the change of the partition at which the block was split last.
        self._grains: NDArray[np.int32] = np.zeros(1, np.int32)
        self._split: NDArray[np.int32] = np.zeros(1, np.int32)
        self._grains[_UNTOUCHED] = count
        self._change = 0
        #: For footprints of engines: the last change at which their blocks were right, and the blocks.
        self._known: dict[tuple[int, bytes], tuple[int, NDArray[np.int32]]] = {}

    def whole(self, footprint: Footprint) -> NDArray[np.int32]:
        """Return the blocks of a footprint whose pieces one agent accesses together."""
        key = footprint.size, footprint.starts.tobytes()
        known = self._known.get(key)
        if known is not None:
            when, blocks = known
            if when != self._change and self._split[blocks].max() > when:
                known = None
        if known is None:
            grains = self.grains_of(footprint).ravel()
            found, where, counts = np.unique(self.block_of[grains], return_inverse=True, return_counts=True)
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
        grains = self.grains_of(footprint)
        count, width = grains.shape
        blocks = self.block_of[grains]
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
            single, self.block_of[single], np.arange(len(single)), np.ones(len(single), int)
        )
        return Places(made[where.reshape(-1)], np.repeat(np.arange(len(grains)), grains.shape[1]))

    def grains_of(self, footprint: Footprint) -> NDArray[np.int64]:
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
        self.block_of = np.repeat(self.block_of, times)
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
        first = self.blocks
        self._reserve(first + new)
        news = np.arange(first, first + new, dtype=np.int32)
        self._change += 1
        self._grains[first : first + new] = taken
        self._split[olds] = self._change
        self._split[first : first + new] = self._change
        if (olds == olds[0]).all():
            self._grains[olds[0]] -= taken.sum()
            self.splits.append(Split(first, new, int(olds[0])))
        else:
            np.subtract.at(self._grains, olds, taken)
            self.splits.append(Split(first, new, olds))
        if every:
            self.block_of[grains] = news[where]
            return news
        blocks = blocks.copy()
        blocks[parts] = news
        self.block_of[grains] = blocks[where]
        return blocks

    def _reserve(self, count: int) -> None:
        self.blocks = count
        self._grains, self._split = grown(self._grains, count), grown(self._split, count)


def grown(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the array with room for at least ``count`` elements, zeros at its end."""
    size = len(values)
    if count <= size:
        return values
    return np.concatenate([values, np.zeros(max(count, 2 * size, 64) - size, values.dtype)])
