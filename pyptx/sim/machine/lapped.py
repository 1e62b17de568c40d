"""Ends lapped waits on mbarriers, if no thread can run under a schedule that starves threads.

A wait is lapped if two phases completed before the thread tested the barrier: the thread then waits for a
phase that never comes. Hardware hardly ever delays a thread that long. So the run continues, and the wait is
a finding for review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.waits import BarrierPhase
from ..memory.mbarrier import MBarrier
from ..memory.phase_watch import PhaseWatch
from ..threads.warp import Split

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["let_lapped_pass"]


def let_lapped_pass(machine: Machine) -> bool:
    """Let one thread continue that may have been lapped. Return False if there is none."""
    for s, wait in machine.parked.items():
        if isinstance(wait, BarrierPhase) and wait.may_be_lapped:
            assert wait.watch is not None
            _pass(machine, s, wait.barrier, wait.watch)
            machine.end_wait(s, wait)
            return True
    for s in machine.spinning:
        for barrier, watch in _asked_by(s):
            if watch.may_be_lapped(barrier.phase):
                _pass(machine, s, barrier, watch)
                machine.spinning.remove(s)
                s.spin = None
                machine.wake(s)
                return True
    return False


def _asked_by(s: Split) -> list[tuple[MBarrier, PhaseWatch]]:
    """Return the mbarriers, with their phase records, whose current phase the lanes of ``s`` wait for."""
    return [
        (barrier, watch)
        for shared in s.warp.cta.cluster_memory.values()
        for barrier in shared.barriers.values()
        for (warp, mask), watch in barrier.watches.items()
        if warp is s.warp.issuer and mask & s.mask and watch.asked == barrier.phase
    ]


def _pass(machine: Machine, s: Split, barrier: MBarrier, watch: PhaseWatch) -> None:
    machine.charge(s.warp.issuer.account)
    machine.report(barrier.lapped(s))
    watch.let_pass(barrier.phase)
