"""CTA barriers and fences.

Fences have no effect on values here: the machine's memory is sequentially consistent within a proxy,
and what a missing fence allows is the sanitizer's business.
"""

from __future__ import annotations

from typing import Any

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


@executes("fence", "fence.mbarrier_init", "fence.proxy.async", fidelity="ordering", per="warp")
def fence(s: Split, op: Op, lanes: Any, *operands: Any) -> None:
    return None
