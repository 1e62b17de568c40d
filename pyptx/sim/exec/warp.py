"""Instructions that the lanes of a mask execute together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..semantics import Op, executes
from ..warp import Split


def _members(s: Split, op: Op, lanes: Any, membermask: Any) -> int:
    """The live members. Raises a fault unless exactly they execute the instruction."""
    mask = int(np.ravel(membermask)[0]) & s.warp.live
    executing = sum(1 << lane for lane in np.asarray(lanes).tolist())
    if executing != mask:
        raise s.warp.cta.machine.fault(
            "divergent-collective",
            f"{op.name}: executed by lanes {executing:#010x}, its mask and the live lanes give {mask:#010x}",
            s,
        )
    return mask


@executes("elect.sync", per="warp", collective="membermask")
def elect(s: Split, op: Op, lanes: Any, membermask: Any) -> tuple[Any, Any]:
    mask = _members(s, op, lanes, membermask)
    leader = s.warp.cta.machine.policy.elect(mask)
    return np.full(len(lanes), leader, np.uint32), np.asarray(lanes) == leader


@executes("shfl.sync", per="warp", collective="membermask")
def shfl(s: Split, op: Op, lanes: Any, a: Any, b: Any, c: Any, membermask: Any) -> Any:
    """PTX ISA #data-movement-and-conversion-instructions-shfl-sync, its pseudocode."""
    _members(s, op, lanes, membermask)
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
