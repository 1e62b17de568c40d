"""Exact footprints: they are computed only for observers, and contain each byte of an access once."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np

from pyptx.sim.memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from pyptx.sim.memory.address_space import Memory


def test_a_footprint_is_computed_only_for_observers() -> None:
    memory = Memory(report=Mock())
    segment = memory.map_global("data", np.zeros(64, np.uint8))
    actor = Mock()
    actor.thread_numbers.return_value = None
    footprint = Mock(return_value=Footprint(np.array([0, 32]), 16))
    memory.announce(AccessKind.WRITE, segment, footprint, actor, Proxy.ASYNC)
    assert not footprint.called

    found: list[Access] = []
    memory.observers = [found.append]
    memory.announce(AccessKind.WRITE, segment, footprint, actor, Proxy.ASYNC, MemoryOrder.RELAXED, Scope.GPU)
    (access,) = found
    assert (access.kind, access.space, access.segment) == (AccessKind.WRITE, StateSpace.GLOBAL, segment)
    assert (access.proxy, access.semantics, access.scope) == (Proxy.ASYNC, MemoryOrder.RELAXED, Scope.GPU)
    assert access.footprint.offsets().tolist() == [*range(16), *range(32, 48)]
