"""Loads and stores of undefined bits: from the marks of unwritten bytes to registers, and back.

Owns :class:`FlagsView`, which stands for a split when the function of a load or store runs on marks instead
of bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op
from ..memory.access import AccessKind, StateSpace
from ..memory.segments import Segment
from .warp import Split

__all__ = ["FlagsView"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]


class FlagsView:
    """Stands for a split when the function of a load or store runs on the flags of unwritten bytes.

    Its segments hold 255 for an unwritten byte and 0 for any other.
    """

    def __init__(self, s: Split, op: Op, origins: Array | None = None) -> None:
        self._s, self._op, self._origins = s, op, origins
        self.acting: Any = None
        self.actors: Array = np.asarray(s.lanes)
        #: For a store: the origin of bytes if it is not known for each lane, and the lanes that store
        #: undefined values to global memory.
        self.first = 0
        self.in_global: set[int] = set()
        #: What was loaded: the threads, bytes of each, their segments and offsets, and the unwritten bytes.
        self.lanes: Array = np.zeros(0, np.int64)
        self.size = 0
        self.segments: list[Segment] = []
        self.offsets: Array = np.zeros(0, np.int64)
        self.flags: Mask = np.zeros((0, 0), np.bool_)

    def access(
        self, kind: AccessKind, op: Op, lanes: Array, address: Array, size: int, align: int | None = None
    ) -> list[tuple[Any, Any, Array]]:
        """Return the spans of an access that the split has already made, with segments of flags."""
        spans = self._s.access(AccessKind.PROBE, op, lanes, address, size, align=align, check_written=False)
        if kind is AccessKind.READ:
            self._note(lanes, size, spans)
        return [(which, Flags(self, segment), offsets) for which, segment, offsets in spans]

    def _note(self, lanes: Array, size: int, spans: list[tuple[Any, Segment, Array]]) -> None:
        self.lanes, self.size = lanes, size
        count = len(lanes)
        segments: list[Any] = [None] * count
        self.offsets = np.zeros(count, np.int64)
        self.flags = np.zeros((count, size), np.bool_)
        for which, segment, offsets in spans:
            for position in np.arange(count)[which].tolist():
                segments[position] = segment
            self.offsets[which] = offsets
            self.flags[which] = segment.missing(offsets[:, None] + np.arange(size))
        self.segments = segments

    def missing(self, lanes: Array, address: Array, size: int) -> Mask:
        """Return which bytes of a load by each lane are unwritten."""
        self.access(AccessKind.READ, self._op, lanes, address, size)
        return self.flags

    def put(self, lanes: Array, address: Array, undefined: Mask, kept: Mask) -> None:
        """Record which bytes of a store by each lane are undefined; only ``kept`` ones are stored."""
        assert self._origins is not None
        size = undefined.shape[1]
        spans = self._s.access(AccessKind.PROBE, self._op, lanes, address, size, check_written=False)
        each = np.flatnonzero(kept)
        for which, segment, offsets in spans:
            stored, origins = undefined[which][:, each], self._origins[which]
            segment.store_undefined(offsets[:, None] + each, stored, origins)
            if segment.space is StateSpace.GLOBAL:
                self.in_global.update(self._wrong(lanes[which], stored, origins))

    def _wrong(self, lanes: Array, undefined: Mask, origins: Array) -> list[int]:
        """Return the lanes whose store to global memory is an error.

        It is none if the lane stores defined bytes, too, and the undefined ones come from a load of written
        and unwritten bytes: a copy of a structure with padding.
        """
        known = self._s.warp.cta.machine.origins
        some: Mask = np.logical_or.reduce(undefined, axis=1)
        mixed: Mask = ~np.logical_and.reduce(undefined, axis=1)
        return [
            lane
            for lane, any_bytes, padding, origin in zip(
                lanes.tolist(), some.tolist(), mixed.tolist(), origins.tolist(), strict=True
            )
            if any_bytes and not (padding and known.partial(origin))
        ]


class Flags:
    """The flags of a segment's bytes in place of the segment; ``data`` is this object itself."""

    def __init__(self, view: FlagsView, segment: Segment) -> None:
        self._view, self._segment = view, segment

    @property
    def data(self) -> Flags:
        return self

    def __getitem__(self, places: Array) -> Array:
        return self._segment.missing(places) * np.uint8(255)

    def __setitem__(self, places: Array, value: Array) -> None:
        undefined = value != 0
        self._segment.store_undefined(places, undefined, np.array([self._view.first]))
        if self._segment.space is StateSpace.GLOBAL and undefined.any():
            self._view.in_global.update(self._view.actors.tolist())
