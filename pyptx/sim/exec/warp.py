"""Warp-level instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..semantics import Op, executes
from ..warp import Split


@executes("elect.sync", per="warp", collective="membermask")
def elect(s: Split, op: Op, lanes: Any, membermask: Any) -> tuple[Any, Any]:
    mask = int(np.atleast_1d(membermask)[0]) & s.warp.live
    leader = s.warp.cta.machine.policy.elect(mask)
    return np.full(len(lanes), leader, np.uint32), np.asarray(lanes) == leader


@executes("shfl.sync", per="warp", collective="membermask")
def shfl(s: Split, op: Op, lanes: Any, a: Any, b: Any, c: Any, membermask: Any) -> Any:
    """PTX ISA #data-movement-and-conversion-instructions-shfl-sync, its pseudocode."""
    lane = np.asarray(lanes)
    amount = np.broadcast_to(b, lane.shape).astype(np.int64) & 31
    control = np.broadcast_to(c, lane.shape).astype(np.int64)
    clamp, segment = control & 31, control >> 8 & 31
    lowest = lane & segment
    highest = lowest | (clamp & ~segment)
    mode = op.chosen["mode"]
    if mode == "up":
        source = lane - amount
        inside = source >= highest
    elif mode == "down":
        source = lane + amount
        inside = source <= highest
    elif mode == "bfly":
        source = lane ^ amount
        inside = source <= highest
    else:
        source = lowest | (amount & ~segment)
        inside = source <= highest
    source = np.where(inside, source, lane)
    full = np.zeros(32, np.uint32)
    full[lane] = a
    values = full[source]
    return (values, inside) if op.pair else values
