"""CTA and warp barriers, and fences.

Fences have no effect on values here: the machine's memory is sequentially consistent within a proxy. A
fence is an event for the observers of the machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code.semantic import Op, executes
from ..engine.stream import FenceKind, SyncKind
from ..engine.waits import Awaited, Condition
from ..memory.access import AccessKind, MemoryOrder, Scope, StateSpace
from ..memory.segments import Fault
from ..threads.collectives import unnamed_lanes
from ..threads.events import announce_fence, announce_sync
from ..threads.named_barrier import BARRIERS, BarrierMisuse, NamedBarrier, Round, RoundKind
from ..threads.warp import Split, mask_of_lanes

#: The memory orders of a barrier's arrival and of its wait.
_RELEASE, _ACQUIRE = (MemoryOrder.RELEASE, Scope.CTA), (MemoryOrder.ACQUIRE, Scope.CTA)

# --- CTA barriers -------------------------------------------------------------------------------


def _misuse(s: Split, text: str) -> Fault:
    assert s.op is not None
    return s.warp.cta.machine.fault("barrier-misuse", f"{s.op.name}: {text}", s)


def _uniform(s: Split, name: str, value: Any) -> int:
    """Return a value that must be the same in all lanes; raise a fault if it is not."""
    if isinstance(value, np.generic):
        return int(value)
    values = np.ravel(value)
    if (values != values[0]).any():
        raise _misuse(s, f"the {name} is not the same in all lanes: {values.min()} to {values.max()}")
    return int(values[0])


def _arrive(
    s: Split, op: Op, lanes: Any, kind: RoundKind, barrier: Any, threads: Any, votes: Any = None
) -> tuple[NamedBarrier, Round]:
    cta = s.warp.cta
    number = _uniform(s, "barrier", barrier)
    if number >= BARRIERS:
        raise _misuse(s, f"barrier {number}; a CTA has barriers 0 to {BARRIERS - 1}")
    count = None if threads is None else _uniform(s, "thread count", threads)
    bars: dict[int, Any] = cta.bars
    named: NamedBarrier = bars.get(number) or bars.setdefault(number, NamedBarrier(cta, number))
    yes = 0 if votes is None else mask_of_lanes(np.asarray(lanes)[np.broadcast_to(votes, (len(lanes),))])
    place = op.statement if op.semantic.collective or "aligned" in op.chosen else None
    try:
        round_ = named.arrive(s.warp.index, mask_of_lanes(lanes), kind, count, yes=yes, place=place)
    except BarrierMisuse as misuse:
        raise _misuse(s, str(misuse)) from None
    announce_sync(s, SyncKind.BAR_ARRIVE, named.key, round_.number, lanes, order=_RELEASE)
    return named, round_


def _wait(s: Split, op: Op, lanes: Any, named: NamedBarrier, round_: Round, finish: Any = None) -> Condition:
    def text() -> str:
        missing = s.warp.live & ~round_.partial.get(s.warp.index, s.warp.live)
        elsewhere = f"; lanes {missing:#010x} of the same warp have not arrived" if missing else ""
        return f"waits at {op.name} {named.number}: {named.progress(round_)}{elsewhere}"

    acting = np.array(lanes)

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.BAR_WAIT, named.key, round_.number, acting, order=_ACQUIRE)
        if finish is not None:
            finish()

    label = f"barrier {named.number}"
    return Condition(
        lambda: named.advance(round_),
        text,
        leave,
        awaited=Awaited.CTA_BARRIER,
        label=label,
        warps=lambda: round_.arrivals,
    )


@executes("bar.sync", per="warp", yields=True, collective="warp")
@executes("barrier.sync", per="warp", yields=True)
def bar_sync(s: Split, op: Op, lanes: Any, barrier: Any, threads: Any) -> Condition:
    """Arrive and wait. Lanes of a warp may execute ``barrier`` at different places, unless it is .aligned."""
    return _wait(s, op, lanes, *_arrive(s, op, lanes, RoundKind.SYNC, barrier, threads))


@executes("bar.arrive", per="warp", yields=True, collective="warp")
@executes("barrier.arrive", per="warp", yields=True)
def bar_arrive(s: Split, op: Op, lanes: Any, barrier: Any, threads: Any) -> Condition:
    """Arrive, and wait only for the live lanes of the thread's own warp."""
    named, round_ = _arrive(s, op, lanes, RoundKind.SYNC, barrier, threads)
    warp = s.warp

    def arrived() -> bool:
        return named.advance(round_) or warp.index not in round_.partial

    return Condition(
        arrived,
        lambda: f"waits at {op.name} {named.number} for the other lanes of the warp",
        awaited=Awaited.LANES,
    )


@executes("bar.red", "bar.red.popc", per="warp", yields=True, collective="warp")
@executes("barrier.red", "barrier.red.popc", per="warp", yields=True)
def bar_red(s: Split, op: Op, lanes: Any, barrier: Any, threads: Any, votes: Any) -> Condition:
    """Arrive with a vote, and wait; the result is written when the round is complete."""
    kind = RoundKind(op.chosen.get("op", "popc"))
    counts = kind is RoundKind.POPC
    named, round_ = _arrive(s, op, lanes, kind, barrier, threads, votes)
    acting = np.array(lanes)

    def finish() -> None:
        s.put("d" if counts else "p", round_.result if counts else bool(round_.result), acting)

    return _wait(s, op, lanes, named, round_, finish)


# --- warp barrier -------------------------------------------------------------------------------


@executes("bar.warp.sync", per="warp", yields=True)
def bar_warp_sync(s: Split, op: Op, lanes: Any, membermask: Any) -> Condition | None:
    """Wait until all lanes of the mask have arrived; they may arrive at different ``bar.warp.sync``."""
    masks = np.broadcast_to(membermask, (len(lanes),))
    waits = [
        wait
        for mask in dict.fromkeys(masks.tolist())
        if (wait := _meet(s, op, mask, np.asarray(lanes)[masks == mask])) is not None
    ]
    if not waits:
        return None

    def leave() -> None:
        for wait in waits:
            wait.finish()

    return Condition(
        lambda: all(wait.over() for wait in waits), waits[0].describe, leave, awaited=Awaited.LANES
    )


def _meet(s: Split, op: Op, mask: int, lanes: Any) -> Condition | None:
    warp, machine = s.warp, s.warp.cta.machine
    executing = mask_of_lanes(lanes)
    unnamed = executing & ~mask
    if unnamed:
        s.acting = lanes[(unnamed >> np.asarray(lanes) & 1).astype(np.bool_)]
        raise unnamed_lanes(s, op, unnamed, mask)
    state = warp.syncs.setdefault(mask, [0, 0])
    state[0] |= executing
    generation = state[1]
    key = (*s.cta_key, warp.index, mask)
    announce_sync(s, SyncKind.WARP_ARRIVE, key, generation, lanes, order=_RELEASE)

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.WARP_WAIT, key, generation, lanes, order=_ACQUIRE)

    def complete() -> bool:
        if state[1] == generation and not mask & warp.live & ~state[0]:
            state[0] = 0
            state[1] += 1
            machine.memory.version += 1
        return state[1] != generation

    if complete():
        leave()
        return None

    def text() -> str:
        return f"waits at {op.name} for lanes {mask & warp.live & ~state[0]:#010x} of the warp"

    return Condition(complete, text, leave, awaited=Awaited.LANES)


# --- fences -------------------------------------------------------------------------------------

_BOTH = (StateSpace.SHARED, StateSpace.GLOBAL)
_LEVELS = {"cta": Scope.CTA, "gl": Scope.GPU, "sys": Scope.SYS}


@executes("fence", fidelity="ordering", per="warp", team=True)
@executes(
    "fence.acquire.sync_restrict", fidelity="ordering", per="warp", team=True, traits=MemoryOrder.ACQUIRE
)
@executes(
    "fence.release.sync_restrict", fidelity="ordering", per="warp", team=True, traits=MemoryOrder.RELEASE
)
def fence(s: Split, op: Op, lanes: Any) -> None:
    """Send observers the fence. The default order is acq_rel; sync_restrict has the cluster's scope."""
    restricted = op.traits is not None
    announce_fence(
        s,
        op,
        lanes,
        FenceKind.MEMORY,
        order=(op.order or op.traits or MemoryOrder.ACQ_REL, op.scope or Scope.CLUSTER),
        spaces=(StateSpace.SHARED,) if restricted else (),
        own_memory=op.traits is MemoryOrder.RELEASE,
    )


@executes("membar", fidelity="ordering", per="warp", team=True)
def membar(s: Split, op: Op, lanes: Any) -> None:
    order = (MemoryOrder.SC, _LEVELS[op.chosen["level"]])
    announce_fence(s, op, lanes, FenceKind.MEMORY, order=order)


@executes("fence.mbarrier_init", fidelity="ordering", per="warp", team=True)
def fence_mbarrier_init(s: Split, op: Op, lanes: Any) -> None:
    announce_fence(s, op, lanes, FenceKind.MBARRIER_INIT, order=(MemoryOrder.RELEASE, Scope.CLUSTER))


@executes(
    "fence.proxy.alias",
    "fence.proxy.alias.sem",
    "fence.proxy.fabric",
    fidelity="ordering",
    per="warp",
    team=True,
)
def fence_alias(s: Split, op: Op, lanes: Any) -> None:
    announce_fence(s, op, lanes, FenceKind.ALIAS_PROXY)


@executes("fence.proxy.async", fidelity="ordering", per="warp", team=True)
def fence_async(s: Split, op: Op, lanes: Any) -> None:
    named = op.chosen.get("space")
    spaces = _BOTH if named is None else (StateSpace(named.partition("::")[0]),)
    own = named == "shared::cta"
    announce_fence(s, op, lanes, FenceKind.ASYNC_PROXY, spaces=spaces, own_memory=own)


@executes("membar.proxy", fidelity="ordering", per="warp", team=True)
def membar_proxy(s: Split, op: Op, lanes: Any) -> None:
    if op.chosen["kind"] == "async":
        announce_fence(s, op, lanes, FenceKind.ASYNC_PROXY, spaces=_BOTH)
    else:
        announce_fence(s, op, lanes, FenceKind.ALIAS_PROXY)


@executes(
    "fence.proxy.async_generic.acquire",
    "fence.proxy.async_generic.release",
    "fence.proxy.async_generic.release.read",
    fidelity="ordering",
    per="warp",
    team=True,
)
def fence_async_generic(s: Split, op: Op, lanes: Any) -> None:
    """Send observers a one-way fence between the two proxies, in shared memory."""
    announce_fence(s, op, lanes, FenceKind.ASYNC_PROXY, spaces=(StateSpace.SHARED,))


@executes("fence.proxy.tensormap.release", fidelity="ordering", per="warp", team=True)
def fence_tensormap_release(s: Split, op: Op, lanes: Any) -> None:
    order = (MemoryOrder.RELEASE, op.scope or Scope.CTA)
    announce_fence(s, op, lanes, FenceKind.TENSORMAP_RELEASE, order=order)


@executes("fence.proxy.tensormap.acquire", fidelity="ordering", per="warp", team=True)
def fence_tensormap(s: Split, op: Op, lanes: Any, address: Any, size: Any) -> None:
    """Send observers the fence. The bytes that it names must be in an allocation."""
    order = (MemoryOrder.ACQUIRE, op.scope or Scope.CTA)
    for number, one in enumerate(np.asarray(address).tolist()):
        footprint = (one, int(size))
        lane = lanes[number : number + 1]
        announce_fence(s, op, lane, FenceKind.TENSORMAP_ACQUIRE, order=order, footprint=footprint)
    s.access(AccessKind.PROBE, op, lanes, address, int(size), align=1)
