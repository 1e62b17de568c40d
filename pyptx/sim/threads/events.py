"""Sends the synchronization and fences of threads to the observers of a machine.

Both functions cost one test if the machine has no observers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ..code.semantic import Op
from ..engine.stream import Fence, FenceKind, Sync, SyncKind
from ..memory.access import MemoryOrder, Scope, StateSpace
from .warp import Split

__all__ = ["announce_fence", "announce_sync"]

_RELAXED = (MemoryOrder.RELAXED, Scope.CTA)


def announce_sync(
    s: Split,
    kind: SyncKind,
    object: Hashable,
    phase: int = 0,
    lanes: Any = None,
    *,
    order: tuple[MemoryOrder, Scope] = _RELAXED,
    amount: int = 0,
    steps: tuple[int, ...] = (),
) -> None:
    """Send observers an event for the lanes that take part in a synchronization; see :class:`Sync`.

    ``lanes`` defaults to the lanes that execute the instruction. ``order`` is (semantics, scope).
    """
    stream = s.warp.cta.machine.stream
    if stream.active:
        chosen = s.actors if lanes is None else lanes
        threads = np.asarray(chosen, np.int64) + 32 * s.warp.index
        stream.sync(Sync(kind, object, phase, s.cta_key, threads, *order, amount, steps, s.location))


def announce_fence(
    s: Split,
    op: Op,
    lanes: Any,
    kind: FenceKind,
    *,
    order: tuple[MemoryOrder, Scope] = (MemoryOrder.ACQ_REL, Scope.CTA),
    spaces: tuple[StateSpace, ...] = (),
    own_memory: bool = False,
    footprint: tuple[int, int] | None = None,
) -> None:
    """Send observers an event for a fence that ``lanes`` execute; see :class:`Fence`.

    ``order`` is (semantics, scope).
    """
    stream = s.warp.cta.machine.stream
    if stream.active:
        threads = np.asarray(lanes, np.int64) + 32 * s.warp.index
        form, chosen = op.binding.form_id, dict(op.chosen)
        stream.fence(
            Fence(
                op.name,
                kind,
                form,
                chosen,
                s.cta_key,
                threads,
                *order,
                spaces,
                own_memory,
                footprint,
                op.location,
            )
        )
