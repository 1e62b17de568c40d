"""Instructions that the lanes of a mask execute together.

Each function computes on rows of 32 lanes, one row per warp and member mask (:mod:`..threads.collectives`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ..code.propagation import TOGETHER, copied
from ..code.semantic import Op, executes
from ..engine.stream import SyncKind
from ..threads.collectives import LaneGroups, collective
from ..threads.events import announce_sync
from ..threads.warp import Split

_executes = partial(executes, per="warp", team=True, registers_only=True)
_LANE = np.arange(32)
_CANONICAL_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def _masks(flags: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return one mask for each row of 32 booleans (the last axis, which gets length 1)."""
    return np.packbits(flags, axis=-1, bitorder="little").view("<u4")


@_executes("elect.sync", collective="membermask", varies="lane")
def elect(s: Split, op: Op, lanes: Any, membermask: Any) -> Any:
    policy = s.warp.cta.machine.policy

    def compute(op: Op, groups: LaneGroups) -> tuple[Any, Any]:
        leaders = np.array([[policy.elect(mask)] for mask in groups.masks[:, 0].tolist()], np.uint32)
        return leaders, leaders == _LANE

    return collective(s, op, lanes, membermask, (), compute)


# --- shuffle ------------------------------------------------------------------------------------


@_executes("shfl.sync", undefined=copied("a"), collective="membermask")
def shfl(s: Split, op: Op, lanes: Any, a: Any, b: Any, c: Any, membermask: Any) -> Any:
    if np.ndim(b) == np.ndim(c) == 0:
        # Both operands are immediates: every warp uses the same source lanes.
        amount, control = int(b), int(c)
        return collective(
            s,
            op,
            lanes,
            membermask,
            (a,),
            lambda op, groups, values: _taken(s, op, groups, values, amount, control),
        )
    return collective(
        s, op, lanes, membermask, (a, b, c), lambda op, groups, *operands: _exchange(s, op, groups, *operands)
    )


def _taken(s: Split, op: Op, groups: LaneGroups, values: Any, amount: int, control: int) -> Any:
    found = op.cache.get((amount, control))
    if found is None:
        found = op.cache[amount, control] = _sources(op.chosen["mode"], amount, control)
    source, inside = found
    _check_sources(s, op, groups, source)
    taken = values[:, source]
    return (taken, np.broadcast_to(inside, taken.shape)) if op.pair else taken


def _exchange(s: Split, op: Op, groups: LaneGroups, values: Any, amount: Any, control: Any) -> Any:
    source, inside = _sources(op.chosen["mode"], amount.astype(np.int64), control.astype(np.int64))
    _check_sources(s, op, groups, source)
    taken = np.take_along_axis(values, source, axis=1)
    return (taken, inside) if op.pair else taken


def _check_sources(s: Split, op: Op, groups: LaneGroups, source: NDArray[Any]) -> None:
    """Report each lane that reads a value from outside its group: this value is undefined."""
    member = groups.member
    if member is None or groups.asked is None:
        return
    source = np.broadcast_to(source, member.shape)
    wrong = member & ~np.take_along_axis(member, source, axis=1)
    if not wrong.any():
        return
    row, lane = (int(part) for part in np.argwhere(wrong)[0])
    there, mask = int(source[row, lane]), int(groups.asked[row])
    why = "has exited" if mask >> there & 1 else f"is not in the member mask {mask:#010x}"
    acting, s.acting = s.acting, groups.lanes_here[groups.positions(row, lane)]
    s.warp.cta.machine.report(
        Finding(
            RULES["shuffle-source"],
            f"{op.name}: lane {lane} reads from lane {there}, which {why}",
            op.location,
            s.description(),
        )
    )
    s.acting = acting


def _sources(mode: str, amount: Any, control: Any) -> tuple[Any, Any]:
    """Return the source lane of each lane, and whether that source was in range.

    Follows the pseudocode of PTX ISA #data-movement-and-conversion-instructions-shfl-sync.
    """
    amount = amount & 31
    clamp, segment = control & 31, control >> 8 & 31
    lowest = _LANE & segment
    bound = lowest | (clamp & ~segment)
    if mode == "up":
        source = _LANE - amount
    elif mode == "down":
        source = _LANE + amount
    elif mode == "bfly":
        source = _LANE ^ amount
    else:
        source = lowest | (amount & ~segment)
    inside = source >= bound if mode == "up" else source <= bound
    return np.where(inside, source, _LANE), inside


# --- vote ---------------------------------------------------------------------------------------


@_executes("vote.sync", undefined=TOGETHER, collective="membermask")
def vote(s: Split, op: Op, lanes: Any, a: Any, membermask: Any) -> Any:
    return collective(s, op, lanes, membermask, (a,), _vote)


def _vote(op: Op, groups: LaneGroups, flags: Any) -> Any:
    mode = op.chosen["mode"]
    # Lanes outside the member mask hold False.
    some = flags.any(1, keepdims=True)
    if mode == "any":
        return some
    every = (flags if groups.member is None else flags | ~groups.member).all(1, keepdims=True)
    return every if mode == "all" else every | ~some


@_executes("vote.sync.ballot", undefined=TOGETHER, collective="membermask")
def ballot(s: Split, op: Op, lanes: Any, a: Any, membermask: Any) -> Any:
    return collective(s, op, lanes, membermask, (a,), lambda op, groups, flags: _masks(flags))


@_executes("activemask", varies="value")
def activemask(s: Split, op: Op, lanes: Any) -> Any:
    """Return the lanes that execute the instruction in this step. An H200 may group the lanes differently."""
    flags = np.zeros(int(lanes[-1] >> 5) * 32 + 32, np.bool_)
    flags[lanes] = True
    return np.repeat(_masks(flags.reshape(-1, 32)), 32)[lanes]


# --- match --------------------------------------------------------------------------------------


@_executes("match.any.sync", undefined=TOGETHER, collective="membermask")
def match_any(s: Split, op: Op, lanes: Any, a: Any, membermask: Any) -> Any:
    found = collective(s, op, lanes, membermask, (a,), _same)
    _announce_match(s, lanes, membermask)
    return found


def _announce_match(s: Split, lanes: Any, membermask: Any) -> None:
    """Tell observers which lanes have waited for each other: those of each member mask."""
    if s.warp.cta.machine.stream.active:
        masks = np.broadcast_to(membermask, (len(lanes),))
        for mask in np.unique(masks).tolist():
            announce_sync(s, SyncKind.LANES_MATCH, s.cta_key, lanes=np.asarray(lanes)[masks == mask])


def _same(op: Op, groups: LaneGroups, values: Any) -> Any:
    equal = values[:, :, None] == values[:, None, :]
    if groups.member is not None:
        equal &= groups.member[:, None, :]
    return _masks(equal)[:, :, 0]


@_executes("match.all.sync", undefined=TOGETHER, collective="membermask")
def match_all(s: Split, op: Op, lanes: Any, a: Any, membermask: Any) -> Any:
    found = collective(s, op, lanes, membermask, (a,), _all_same)
    _announce_match(s, lanes, membermask)
    return found


def _all_same(op: Op, groups: LaneGroups, values: Any) -> Any:
    if groups.member is None:
        equal = (values == values[:, :1]).all(1, keepdims=True)
    else:
        first = np.take_along_axis(values, groups.member.argmax(1)[:, None], axis=1)
        equal = ((values == first) | ~groups.member).all(1, keepdims=True)
    found = np.where(equal, groups.masks, np.uint32(0))
    return (found, equal) if op.pair else found


# --- reduction ----------------------------------------------------------------------------------

_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@_executes("redux.sync", "redux.sync.bits", undefined=TOGETHER, collective="membermask")
def redux(s: Split, op: Op, lanes: Any, a: Any, membermask: Any) -> Any:
    return collective(s, op, lanes, membermask, (a,), _redux)


def _redux(op: Op, groups: LaneGroups, values: Any) -> Any:
    name = op.chosen["op"]
    if groups.member is not None and name in ("min", "max", "and"):
        limits = np.iinfo(values.dtype)
        neutral = limits.min if name == "max" else limits.max
        values = np.where(groups.member, values, values.dtype.type(neutral))
    return _REDUCTIONS[name].reduce(values, axis=1, keepdims=True, dtype=values.dtype)


@_executes("redux.sync.f32", undefined=TOGETHER, collective="membermask")
def redux_f32(s: Split, op: Op, lanes: Any, a: Any, membermask: Any) -> Any:
    return collective(s, op, lanes, membermask, (a,), _redux_f32)


def _redux_f32(op: Op, groups: LaneGroups, values: Any) -> Any:
    """Return the minimum or maximum of the floats of each group.

    It is NaN only with .NaN, or if all are NaN. +0 is above -0.
    """
    bits = values.view(np.uint32)
    if "abs" in op.chosen:
        bits = bits & np.uint32(0x7FFFFFFF)
    member = np.ones(bits.shape, np.bool_) if groups.member is None else groups.member
    nan = np.isnan(values) & member
    number = member & ~nan
    # Map the floats to signed integers of the same order, with -0 below +0.
    signed = bits.view(np.int32)
    ordered = np.where(signed < 0, signed ^ np.int32(0x7FFFFFFF), signed)
    lowest = op.chosen["op"] == "min"
    limits = np.iinfo(np.int32)
    ordered = np.where(number, ordered, np.int32(limits.max if lowest else limits.min))
    found = (ordered.min if lowest else ordered.max)(1, keepdims=True)
    result = np.where(found < 0, found ^ np.int32(0x7FFFFFFF), found).view(np.float32)
    missing = nan.any(1, keepdims=True) if "NaN" in op.chosen else ~number.any(1, keepdims=True)
    return np.where(missing, _CANONICAL_NAN, result)
