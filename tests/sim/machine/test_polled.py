"""Many waiting warps cost a random schedule nothing: a wait is asked again once its own cluster did something."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pyptx.sim.engine.waits import Condition
from pyptx.sim.machine.machine import Machine
from pyptx.sim.machine.schedule import Random
from tests.sim.build import Kernel

pytestmark = pytest.mark.full

#: Thread 0 of each CTA spins until the CTA before it is through; the other warps wait at a barrier.
CHAIN = Kernel("""
.reg u32 c v t
.reg u64 a
.reg pred p q
mov.u32 t, %tid.x
mov.u32 c, %ctaid.x
mul.wide.u32 a, c, 4
add.u64 a, a, flags
setp.ne.u32 q, t, 0
@q bra REST
SPIN:
ld.global.acquire.gpu.u32 v, [a]
setp.eq.u32 p, v, 0
@p bra SPIN
REST:
bar.sync 0
@q bra DONE
st.global.release.gpu.u32 [a+4], 1
DONE:
ret
""", "flags:u64")  # fmt: skip


def _chain(seed: int) -> None:
    flags = np.zeros(65, np.uint32)
    flags[0] = 1
    CHAIN.clean(flags, grid=64, block=128, schedule="random", seed=seed)
    assert flags.all()


@pytest.mark.parametrize("seed", range(3))
def test_waits_are_asked_where_something_happened(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    calls: Counter[str] = Counter()
    over, turn = Condition.over, Machine.turn

    def counted_over(wait: Condition) -> bool:
        calls["asked"] += 1
        return over(wait)

    def counted_turn(machine: Machine) -> bool:
        calls["turns"] += 1
        return turn(machine)

    monkeypatch.setattr(Condition, "over", counted_over)
    monkeypatch.setattr(Machine, "turn", counted_turn)
    _chain(seed)
    assert calls["asked"] < 3 * calls["turns"], calls


def test_threads_that_are_held_back_are_not_drawn_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    is_held, split = Random._is_held, Random.split

    def counted(policy: Random, s: Any) -> bool:
        calls["drawn"] += 1
        return is_held(policy, s)

    def counted_split(policy: Random, machine: Machine) -> Any:
        calls["turns"] += 1
        return split(policy, machine)

    monkeypatch.setattr(Random, "_is_held", counted)
    monkeypatch.setattr(Random, "split", counted_split)
    for seed in range(6):
        _chain(seed)
    assert 0 < calls["drawn"] < 3 * calls["turns"], calls
