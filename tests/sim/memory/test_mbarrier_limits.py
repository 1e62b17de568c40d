"""An mbarrier drops arrivals up to what it expects, and no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.sim.memory.mbarrier import MBarrier
from pyptx.sim.memory.segments import Fault

ACTOR: Any = SimpleNamespace(location=None, description=lambda lane=None: "a thread")


@pytest.mark.parametrize(("count", "left"), [(1, 2), (3, 0)])
def test_as_many_arrivals_as_are_expected_can_be_dropped(count: int, left: int) -> None:
    barrier = MBarrier(0, 3, "bar", None, completed_by=lambda barrier, actor: None)
    barrier.drop(count, ACTOR)
    assert barrier.expected == left


def test_more_cannot() -> None:
    barrier = MBarrier(0, 3, "bar", None, completed_by=lambda barrier, actor: None)
    with pytest.raises(Fault, match="dropped"):
        barrier.drop(4, ACTOR)
    assert barrier.expected == 3
