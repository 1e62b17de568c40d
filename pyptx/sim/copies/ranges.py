"""Plain ranges of bytes that a bulk copy reads, writes or combines.

Source: PTX ISA, `#data-movement-and-conversion-instructions-cp-async-bulk`_.

.. _#data-movement-and-conversion-instructions-cp-async-bulk:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..memory.address_space import Actor, Segment
from ..threads.cta import CTA

__all__ = ["Range"]

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Range:
    """``nbytes`` at ``address`` of ``space``; memory order and scope are for observers."""

    space: str
    address: int
    nbytes: int
    semantics: str = "weak"
    scope: str = ""

    def _access(
        self, cta: CTA, kind: str, actor: Actor, *, check_written: bool = True
    ) -> tuple[Segment, int]:
        segment, offset = cta.machine.memory.access(
            kind,
            self.space,
            self.address,
            self.nbytes,
            actor,
            cta.cluster_memory,
            "async",
            self.semantics,
            self.scope,
            align=1,
            check_written=check_written,
        )
        return segment, int(offset)

    def read(self, cta: CTA, actor: Actor) -> Bytes:
        """The bytes, as they are now."""
        segment, offset = self._access(cta, "read", actor)
        return segment.data[offset : offset + self.nbytes].copy()

    def write(self, cta: CTA, data: Bytes, actor: Actor, mask: int | None = None) -> None:
        """Write them; of each 16 those that ``mask`` names, the lowest bit the first."""
        if mask is None:
            segment, offset = self._access(cta, "write", actor)
            segment.data[offset : offset + self.nbytes] = data
            return
        chosen = np.resize(mask >> np.arange(16) & 1, self.nbytes).astype(np.bool_)
        segment, offset = self._access(cta, "write", actor, check_written=False)
        segment.data[offset : offset + self.nbytes][chosen] = data[chosen]
        if segment.written is not None:
            segment.written[offset : offset + self.nbytes][chosen] = 1

    def combine(self, cta: CTA, data: Bytes, combine: Callable[[Bytes, Bytes], Bytes], actor: Actor) -> None:
        """Replace the bytes by what they and ``data`` make."""
        new = combine(self.read(cta, actor), data).view(np.uint8)
        self.write(cta, new, actor)
