"""CTA and warp barriers, and fences.

Fences have no effect on values here: the machine's memory is sequentially consistent within a proxy,
and what a missing fence allows is the sanitizer's business.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..semantics import Op, executes
from ..waits import Condition
from ..warp import Split


@executes("bar.sync", per="warp", yields=True, collective="warp")
def bar_sync(s: Split, op: Op, lanes: Any, barrier: Any, threads: Any) -> Condition | None:
    cta = s.warp.cta
    number = _uniform(barrier)
    if number > 15:
        raise cta.machine.fault("divergent-collective", f"barrier {number}; a CTA has barriers 0 to 15", s)
    count = None if threads is None else _uniform(threads)
    state = cta.bars.setdefault(number, [0, 0])
    # Arrivals count whole warps.
    state[0] += 32
    generation = state[1]

    def complete() -> bool:
        expected = 32 * cta.live_warps if count is None else count
        if state[1] == generation and state[0] >= expected:
            state[0] -= expected
            state[1] += 1
            cta.machine.memory.version += 1
        return state[1] != generation

    if complete():
        return None

    def text() -> str:
        expected = 32 * cta.live_warps if count is None else count
        return f"waits at bar.sync {number}: {state[0]} of {expected} threads have arrived"

    return Condition(complete, text)


def _uniform(value: Any) -> int:
    return int(value if getattr(value, "ndim", 0) == 0 else value[0])


@executes("bar.warp.sync", per="warp", yields=True)
def bar_warp_sync(s: Split, op: Op, lanes: Any, membermask: Any) -> Condition | None:
    """Lanes meet at any ``bar.warp.sync`` of the same mask, not only at this one."""
    warp, machine = s.warp, s.warp.cta.machine
    mask = int(np.ravel(membermask)[0])
    executing = sum(1 << lane for lane in np.asarray(lanes).tolist())
    if executing & ~mask:
        raise machine.fault(
            "divergent-collective",
            f"{op.name}: executed by lanes {executing:#010x}, its mask is {mask:#010x}",
            s,
        )
    state = warp.syncs.setdefault(mask, [0, 0])
    state[0] |= executing
    generation = state[1]

    def complete() -> bool:
        if state[1] == generation and not mask & warp.live & ~state[0]:
            state[0] = 0
            state[1] += 1
            machine.memory.version += 1
        return state[1] != generation

    if complete():
        return None

    def text() -> str:
        return f"waits at {op.name} for lanes {mask & warp.live & ~state[0]:#010x} of its warp"

    return Condition(complete, text)


@executes("fence", "fence.mbarrier_init", "fence.proxy.async", fidelity="ordering", per="warp")
def fence(s: Split, op: Op, lanes: Any, *operands: Any) -> None:
    return None
