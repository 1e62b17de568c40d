"""Plain ranges of bytes that a bulk copy reads, writes or combines.

Source: PTX ISA, `#data-movement-and-conversion-instructions-cp-async-bulk`_.

.. _#data-movement-and-conversion-instructions-cp-async-bulk:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ..memory.access import AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from ..memory.segments import Actor, Segment
from ..threads.cta import CTA

__all__ = ["Range"]

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Range:
    """``nbytes`` bytes at ``address`` in ``space``, and the memory order and scope for observers."""

    space: StateSpace
    address: int
    nbytes: int
    semantics: MemoryOrder = MemoryOrder.WEAK
    scope: Scope = Scope.NONE

    def _access(
        self, cta: CTA, kind: AccessKind, actor: Actor, *, check_written: bool = True, announce: bool = True
    ) -> tuple[Segment, int]:
        segment, offset = cta.machine.memory.access(
            kind,
            self.space,
            self.address,
            self.nbytes,
            actor,
            cta.cluster_memory,
            Proxy.ASYNC,
            self.semantics,
            self.scope,
            align=1,
            check_written=check_written,
            announce=announce,
        )
        return segment, int(offset)

    def read(self, cta: CTA, actor: Actor) -> Bytes:
        """Return a copy of the bytes."""
        segment, offset = self._access(cta, AccessKind.READ, actor)
        return segment.data[offset : offset + self.nbytes].copy()

    def write(self, cta: CTA, data: Bytes, actor: Actor, mask: int | None = None) -> None:
        """Write ``data``.

        With ``mask``, write only those of each 16 bytes whose bit in the mask is 1; bit 0 is the first byte.
        """
        if mask is None:
            segment, offset = self._access(cta, AccessKind.WRITE, actor)
            segment.data[offset : offset + self.nbytes] = data
            return
        chosen = np.resize(mask >> np.arange(16) & 1, self.nbytes).astype(np.bool_)
        segment, offset = self._access(cta, AccessKind.WRITE, actor, check_written=False, announce=False)
        cta.machine.memory.announce(
            AccessKind.WRITE,
            segment,
            lambda: Footprint(offset + np.flatnonzero(chosen), 1),
            actor,
            Proxy.ASYNC,
            self.semantics,
            self.scope,
        )
        segment.data[offset : offset + self.nbytes][chosen] = data[chosen]
        if segment.written is not None:
            segment.written[offset : offset + self.nbytes][chosen] = 1

    def combine(self, cta: CTA, data: Bytes, combine: Callable[[Bytes, Bytes], Bytes], actor: Actor) -> None:
        """Replace the bytes by the result of ``combine(old bytes, data)``."""
        segment, offset = self._access(cta, AccessKind.RMW, actor)
        span = slice(offset, offset + self.nbytes)
        new = combine(segment.data[span].copy(), data).view(np.uint8)
        cta.machine.memory.changed(segment, offset, self.nbytes, actor)
        segment.data[span] = new
