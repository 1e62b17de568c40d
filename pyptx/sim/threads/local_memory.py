"""Local memory of a CTA's threads: every thread has its own bytes at the same addresses.

A thread's stack grows with each function call. The storage grows with the stack, up to the hardware's limit
for a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import AccessKind, StateSpace
from ..memory.address_space import LOCAL_LIMIT
from ..memory.segments import Segment

if TYPE_CHECKING:
    from .cta import CTA
    from .warp import Split

__all__ = ["LocalMemory"]

_STEP = 256


class LocalMemory:
    """Bytes ``[thread, address]``, allocated at the first use."""

    def __init__(self, cta: CTA, nbytes: int) -> None:
        self.cta = cta
        self.threads = 32 * ((cta.threads + 31) // 32)
        self.capacity = nbytes
        #: Bytes of this storage that the machine counts.
        self._held = 0
        self._segment: Segment | None = None

    @property
    def segment(self) -> Segment:
        if self._segment is None:
            self._segment = self._made(self.capacity)
        return self._segment

    def _made(self, capacity: int) -> Segment:
        self.capacity = max(_STEP, -(-capacity // _STEP) * _STEP)
        nbytes = self.threads * self.capacity
        # Allocating a large block takes long while few turns of the run pass, so the time is checked here.
        self.cta.machine.check_time()
        self.cta.machine.take(2 * nbytes - self._held)
        self._held = 2 * nbytes
        data = np.zeros(nbytes, np.uint8)
        return Segment(f"local memory of CTA {self.cta.coordinates}", StateSpace.LOCAL, 0, data, tracked=True)

    def release(self) -> None:
        """Free the storage. Called when the CTA has ended."""
        self.cta.machine.take(-self._held)
        self._held = 0
        self._segment = None

    def ensure(self, s: Split, nbytes: int) -> None:
        """Make room for ``nbytes`` for each thread. Raise a fault above the limit of a thread."""
        if nbytes > LOCAL_LIMIT:
            raise self.cta.machine.fault(
                "stack-overflow",
                f"the thread needs {nbytes} bytes of local memory, but a thread has at most {LOCAL_LIMIT}",
                s,
            )
        if self._segment is None:
            self.capacity = max(self.capacity, nbytes)
        elif nbytes > self.capacity:
            old, before = self._segment, self.capacity
            self._segment = self._made(min(LOCAL_LIMIT, max(2 * before, nbytes)))
            self.table()[:, :before] = old.data.reshape(self.threads, before)
            assert old.written is not None
            self.written()[:, :before] = old.written.reshape(self.threads, before)
            if old.origins is not None:
                origins = np.zeros((self.threads, self.capacity), np.int64)
                origins[:, :before] = old.origins.reshape(self.threads, before)
                self._segment.origins = origins.reshape(-1)

    def discard(self, s: Split, lanes: Any, start: int, nbytes: int) -> None:
        """Forget what these lanes wrote to bytes that a new activation or allocation takes."""
        if self._segment is not None and nbytes:
            self.written()[32 * s.warp.index + lanes, start : start + nbytes] = 0

    def resolve(self, s: Split, lanes: Any, address: Any, size: int, kind: AccessKind) -> tuple[Segment, Any]:
        """Return the segment of local memory, and the offset in it of each lane's ``address``.

        Lane numbers count from the split's first warp.
        """
        segment = self.segment
        one = isinstance(address, int)
        low, high = (address, address) if one else (int(address.min()), int(address.max()))
        if not one and len(address) != len(lanes):
            raise self.cta.machine.fault(
                "out-of-bounds",
                f"{kind.value} of {size} bytes at local address {low:#x} by a whole warp: "
                "every thread has its own local memory there",
                s,
            )
        if low < 0 or high + size > self.capacity:
            beyond = low if low < 0 else high
            raise self.cta.machine.fault(
                "out-of-bounds",
                f"{kind.value} of {size} bytes at local address {beyond:#x}: "
                f"the thread has {self.capacity} bytes",
                s,
            )
        threads = 32 * s.warp.index + np.asarray(lanes)
        if one:
            return segment, int(threads[0]) * self.capacity + address
        return segment, threads * self.capacity + address

    def written(self) -> NDArray[np.uint8]:
        """Return the flags of the written bytes as an array ``[thread, address]``."""
        flags = self.segment.written
        assert flags is not None
        return flags.reshape(self.threads, self.capacity)

    def table(self) -> NDArray[np.uint8]:
        """Return the bytes as an array ``[thread, address]``."""
        return self.segment.data.reshape(self.threads, self.capacity)
