"""Finds the bytes of global memory that a tensor copy moves: boxes, four rows, or the pixels under a filter.

A copy consists of parts that lie one after the other in shared memory. A load fills a whole part, and uses
the map's fill value for elements outside the tensor. A store does not write elements outside the tensor.
Sources: PTX ISA, `#tensor-tiled-mode`_ and ``#tensor-im2col-mode``.

.. _#tensor-tiled-mode: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tiled-mode
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layout.tensor_map_image import DecodedMap
from ..engine.work import LINE
from ..memory.access import AccessKind, Footprint, Proxy, StateSpace
from ..memory.segments import Actor
from .elements import fill, loaded

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["Combine", "CopyPart", "LoadMode", "parts_of"]

Bytes = NDArray[np.uint8]
#: Computes the new bytes of the tensor from its old bytes and those of the copy.
Combine = Callable[[Bytes, Bytes], Bytes]


class LoadMode(enum.Enum):
    """Which elements of a tensor a copy moves (the modifier ``.load_mode``)."""

    TILE = "tile"
    GATHER4 = "tile::gather4"
    SCATTER4 = "tile::scatter4"
    IM2COL = "im2col"
    IM2COL_NO_OFFS = "im2col_no_offs"

    @property
    def im2col(self) -> bool:
        """True for pixels under a filter, False for boxes and rows."""
        return self in (LoadMode.IM2COL, LoadMode.IM2COL_NO_OFFS)

    @property
    def four_rows(self) -> bool:
        """True for four rows of a matrix, each of which has its own coordinate."""
        return self in (LoadMode.GATHER4, LoadMode.SCATTER4)


def parts_of(
    decoded: DecodedMap, coordinates: tuple[int, ...], mode: LoadMode, offsets: Sequence[int]
) -> list[CopyPart]:
    """Return the parts of a copy. Coordinates and offsets are innermost first."""
    if mode.im2col:
        return [_Pixels(decoded, coordinates, tuple(offsets))]
    if mode.four_rows:
        return [_Box(decoded, (coordinates[0], row)) for row in coordinates[1:]]
    return [_Box(decoded, coordinates)]


def _lines(starts: NDArray[np.int64], size: int) -> int:
    """Return how many lines of global memory pieces of ``size`` bytes at the addresses ``starts`` touch."""
    return int(((starts % LINE + size - 1) // LINE + 1).sum()) if size else 0


class CopyPart(ABC):
    """A part of a tensor copy whose elements are contiguous in shared memory.

    ``nbytes`` is their size in global memory.
    """

    nbytes: int

    @abstractmethod
    def read(self, cta: CTA, actor: Actor) -> Bytes:
        """Read the bytes. Elements outside the tensor get the fill value."""

    @abstractmethod
    def write(self, cta: CTA, data: Bytes, actor: Actor, combine: Combine | None = None) -> None:
        """Write the bytes inside the tensor; with ``combine``, combine them with the old bytes first."""

    @property
    @abstractmethod
    def lines(self) -> int:
        """Lines of global memory that the elements inside the tensor touch, counted for each row."""

    @abstractmethod
    def kept(self) -> NDArray[np.bool_] | None:
        """Return flags of the bytes inside the tensor, which a store writes, or None if all are inside."""


class _Box(CopyPart):
    """A box of a tensor. ``inside`` has for each axis (outermost first) the part inside the tensor."""

    __slots__ = ("decoded", "empty", "inside", "nbytes", "shape", "start", "strides", "whole")

    def __init__(self, decoded: DecodedMap, coordinates: tuple[int, ...]) -> None:
        self.decoded = decoded
        steps = (1, *decoded.element_strides[1:])
        box, bits = decoded.box_shape, decoded.kind.bits
        self.inside: list[slice] = []
        #: Distance in bytes from one element of the box to the next; along the innermost axis, from byte to
        #: byte.
        self.strides: list[int] = []
        self.start = decoded.address
        self.whole, self.empty = True, False
        self.shape: list[int] = []
        for axis in reversed(range(decoded.rank)):
            length, extent, first, step = (
                box[axis],
                decoded.dims[axis],
                coordinates[axis],
                steps[axis],
            )
            low = max(0, -(first // step))
            high = max(low, min(length, -(-(extent - first) // step)))
            self.whole &= low == 0 and high == length
            self.empty |= low == high
            if axis == 0:
                low, high, length = low * bits // 8, high * bits // 8, length * bits // 8
                self.start += first * bits // 8 + low
                self.strides.append(1)
            else:
                self.start += (first + low * step) * decoded.strides[axis]
                self.strides.append(step * decoded.strides[axis])
            self.inside.append(slice(low, high))
            self.shape.append(length)
        self.nbytes = math.prod(self.shape)

    def _view(self, cta: CTA, kind: AccessKind, actor: Actor, *, announce: bool = True) -> Bytes:
        """Check the access to the part of the box that is inside the tensor.

        Returns this part as a strided view of global memory.
        """
        lengths = tuple(part.stop - part.start for part in self.inside)
        extent = sum((n - 1) * stride for n, stride in zip(lengths, self.strides, strict=True)) + 1
        memory = cta.machine.memory
        segment, offset = memory.access(
            kind,
            StateSpace.GLOBAL,
            self.start,
            extent,
            actor,
            cta.cluster_memory,
            Proxy.ASYNC,
            align=1,
            check_written=False,
            announce=False,
        )
        if announce:
            memory.announce(kind, segment, lambda: self._footprint(int(offset), lengths), actor, Proxy.ASYNC)
        if segment.written is not None:
            written: Bytes = np.ndarray(lengths, np.uint8, segment.written.data, offset, self.strides)
            if kind is AccessKind.WRITE:
                written[...] = 1
            elif not written.all():
                first = np.argwhere(written == 0)[0]
                position = offset + sum(int(i) * s for i, s in zip(first, self.strides, strict=True))
                memory.report_unwritten(segment, int(position), self.nbytes, written, actor)
        return np.ndarray(lengths, np.uint8, segment.data.data, offset, self.strides)

    def _footprint(self, offset: int, lengths: tuple[int, ...]) -> Footprint:
        """Return which bytes of the tensor's segment the rows of the box take, from ``offset`` on."""
        starts = np.array([offset])
        for length, stride in zip(lengths[:-1], self.strides[:-1], strict=True):
            starts = (starts[:, None] + stride * np.arange(length)).reshape(-1)
        return Footprint(starts, lengths[-1])

    @property
    def lines(self) -> int:
        if self.empty:
            return 0
        rows = self._footprint(self.start, tuple(part.stop - part.start for part in self.inside))
        return _lines(rows.starts, rows.size)

    def read(self, cta: CTA, actor: Actor) -> Bytes:
        if self.whole:
            # Copied, since the tensor may change after the read.
            return loaded(self.decoded.kind, self._view(cta, AccessKind.READ, actor).copy()).reshape(-1)
        data = fill(self.decoded.kind, self.decoded.oob_fill, self.nbytes)
        if not self.empty:
            inside = loaded(self.decoded.kind, self._view(cta, AccessKind.READ, actor))
            data.reshape(self.shape)[tuple(self.inside)] = inside
        return data

    def write(self, cta: CTA, data: Bytes, actor: Actor, combine: Combine | None = None) -> None:
        if self.empty:
            return
        given = np.ascontiguousarray(data.reshape(self.shape)[tuple(self.inside)])
        if combine is not None:
            old = np.ascontiguousarray(self._view(cta, AccessKind.RMW, actor))
            given = combine(old.reshape(-1), given.reshape(-1)).view(np.uint8).reshape(given.shape)
        self._view(cta, AccessKind.WRITE, actor, announce=combine is None)[...] = given

    def kept(self) -> NDArray[np.bool_] | None:
        if self.whole:
            return None
        found = np.zeros(self.shape, np.bool_)
        found[tuple(self.inside)] = True
        return found.reshape(-1)


@lru_cache(maxsize=1024)
def _walk(
    decoded: DecodedMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """Find the pixels inside the tensor for an im2col copy.

    Returns the numbers of these pixels in the copy, the offset of each in the tensor, and whether some other
    pixel is outside of its image (and not only past the last image).

    The base of the filter moves through the bounding box, W fastest, and starts at the coordinates. At the
    end of an axis it continues at the lower corner. The offsets select the element of the filter that is
    read.
    """
    spatial = decoded.rank - 2
    position = list(coordinates[1:])
    shift = (*offsets, *([0] * (spatial + 1 - len(offsets))))
    last = [decoded.dims[axis + 1] - 1 + decoded.upper[axis] for axis in range(spatial)]
    found, places = [], []
    beside = False
    for number in range(decoded.box[1]):
        at = [first + more for first, more in zip(position, shift, strict=True)]
        beside |= not all(0 <= at[axis] < decoded.dims[axis + 1] for axis in range(spatial))
        if all(0 <= one < extent for one, extent in zip(at, decoded.dims[1:], strict=True)):
            found.append(number)
            places.append(sum(one * stride for one, stride in zip(at, decoded.strides[1:], strict=True)))
        for axis in range(spatial):
            position[axis] += decoded.element_strides[axis + 1]
            if position[axis] <= last[axis]:
                break
            position[axis] = decoded.lower[axis]
        else:
            position[spatial] += 1
    return np.array(found, np.int64), np.array(places, np.int64), beside


class _Pixels(CopyPart):
    """Pixels of a bounding box, one after the other, and some channels of each."""

    __slots__ = ("addresses", "beside", "decoded", "high", "low", "nbytes", "numbers", "row")

    def __init__(self, decoded: DecodedMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> None:
        self.decoded = decoded
        bits, channels = decoded.kind.bits, decoded.box[0]
        first = coordinates[0]
        self.row = channels * bits // 8
        self.low = max(0, -first) * bits // 8
        self.high = max(self.low, min(channels, decoded.dims[0] - first) * bits // 8)
        self.numbers, places, self.beside = _walk(decoded, (0, *coordinates[1:]), offsets)
        self.addresses = places + (decoded.address + first * bits // 8 + self.low)
        self.nbytes = self.row * decoded.box[1]

    def _access(
        self, cta: CTA, kind: AccessKind, actor: Actor, *, announce: bool = True
    ) -> Iterator[tuple[Any, Any, NDArray[np.int64]]]:
        """Yield, for each allocation, the pixels in it, the segment, and the byte offsets of these pixels."""
        size = self.high - self.low
        if not size or not len(self.numbers):
            return
        for which, segment, offsets in cta.machine.memory.access_each(
            kind,
            StateSpace.GLOBAL,
            self.addresses,
            size,
            actor,
            cta.cluster_memory,
            proxy=Proxy.ASYNC,
            align=1,
            announce=announce,
        ):
            yield which, segment, offsets[:, None] + np.arange(size)

    @property
    def lines(self) -> int:
        return _lines(self.addresses, self.high - self.low)

    def read(self, cta: CTA, actor: Actor) -> Bytes:
        data = fill(self.decoded.kind, self.decoded.oob_fill, self.nbytes)
        rows = data.reshape(-1, self.row)
        for which, segment, places in self._access(cta, AccessKind.READ, actor):
            inside = loaded(self.decoded.kind, segment.data[places])
            rows[self.numbers[which], self.low : self.high] = inside
        return data

    def write(self, cta: CTA, data: Bytes, actor: Actor, combine: Combine | None = None) -> None:
        if self.beside:
            # Measured on an H200: a store drops pixels past the last image, but pixels outside an image make
            # it an illegal instruction.
            raise cta.machine.fault("bad-tensor-map", "an im2col store writes pixels outside an image", actor)
        given = np.ascontiguousarray(data.reshape(-1, self.row)[self.numbers, self.low : self.high])
        if combine is not None:
            for which, segment, places in self._access(cta, AccessKind.RMW, actor):
                old, new = segment.data[places].reshape(-1), np.ascontiguousarray(given[which])
                given[which] = combine(old, new.reshape(-1)).view(np.uint8).reshape(new.shape)
        for which, segment, places in self._access(cta, AccessKind.WRITE, actor, announce=combine is None):
            segment.data[places] = given[which]

    def kept(self) -> NDArray[np.bool_] | None:
        found = np.zeros((self.decoded.box[1], self.row), np.bool_)
        found[self.numbers, self.low : self.high] = True
        return None if found.all() else found.reshape(-1)
