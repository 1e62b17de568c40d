"""What a wait waits for, in the words of timelines and predictions.

Owns the map from waits and operations to :class:`~pyptx.timeline.Cause`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...timeline import Cause
from .events import AsyncOperation, Engine
from .waits import Awaited

__all__ = ["cause_of_operation", "cause_of_wait"]

_CAUSES: Mapping[Awaited, Cause] = {
    Awaited.CTA_BARRIER: Cause.BARRIER,
    Awaited.CLUSTER_BARRIER: Cause.CLUSTER,
    Awaited.LANES: Cause.LANES,
    Awaited.COPIES: Cause.COPIES,
    Awaited.PRODUCTS: Cause.MMA,
    Awaited.TENSOR_MEMORY: Cause.TENSOR_MEMORY,
    Awaited.REGISTERS: Cause.REGISTERS,
    Awaited.LAUNCH: Cause.LAUNCH,
}


def cause_of_wait(awaited: Awaited) -> Cause:
    """Return what a wait for ``awaited`` waits for; ``OTHER`` for a phase, whose completion decides."""
    return _CAUSES.get(awaited, Cause.OTHER)


def cause_of_operation(operation: AsyncOperation) -> Cause:
    """Return what a thread waits for that waits for a signal of an operation."""
    if operation.engine is Engine.MMA:
        return Cause.MMA
    return Cause.COPIES if operation.engine is Engine.CP else Cause.BYTES
