"""Advice about fences: of proxies, and of tcgen05."""

from __future__ import annotations

from ....core.remedies import Place, Remedy
from ...memory.access import AccessKind, Proxy, StateSpace
from .pair import WAIT_LD, Advice, Pair, insert, opcode_of

__all__ = ["assumed_order", "by_chance", "proxy_fence", "tensor_fence", "tensor_wait"]

_SHARED = ('ptx.fence.proxy_async("shared::cta")', "fence.proxy.async.shared::cta;")
_GLOBAL = ('ptx.fence.proxy_async("global")', "fence.proxy.async.global;")
_BEFORE = ("ptx.tcgen05.fence_before_thread_sync()", "tcgen05.fence::before_thread_sync;")
_AFTER = ("ptx.tcgen05.fence_after_thread_sync()", "tcgen05.fence::after_thread_sync;")


def proxy_fence(pair: Pair) -> Advice:
    """Advise a fence between the generic proxy and the one of the second access."""
    first, second = pair.first, pair.second
    if second.record.proxy is Proxy.TENSORMAP:
        return _map_fence(pair)
    verb = "read" if first.record.kind is AccessKind.READ else "write"
    engine = first.record.proxy is Proxy.ASYNC
    kind = f"ordinary {verb}" if first.issue is None else first.issue.short
    why = (
        f"the synchronization of the threads orders the {kind} at {first.at} before the operation at "
        f"{second.at}, which accesses the bytes through the async proxy, but no fence between the proxies "
        "stands on the path"
    )
    call = _GLOBAL if pair.space is StateSpace.GLOBAL else _SHARED
    if engine:
        return why, Remedy(
            f"let {second.who} execute {opcode_of(call)} before {second.at}, behind its wait",
            *call,
            insert(call[1], Place.BEFORE, second.location),
        )
    there = pair.handover()
    return why, Remedy(
        f"let all threads that {verb} at {first.at} execute {opcode_of(call)} {there.text}",
        *call,
        there.edit(call[1]),
    )


def _map_fence(pair: Pair) -> Advice:
    first, second = pair.first, pair.second
    return (
        f"{second.who} uses the tensor map, and no fence of the tensor-map proxy stands between",
        Remedy(
            f"let {first.who} execute the release fence {pair.handover().text}, and {second.who} the acquire "
            f"fence before {second.at}",
            'ptx.fence.proxy_tensormap_release("gpu"); ptx.fence.proxy_tensormap_acquire(tensor_map, "gpu")',
            "fence.proxy.tensormap::generic.release.gpu; and "
            "fence.proxy.tensormap::generic.acquire.gpu [map], 128;",
        ),
    )


def tensor_wait(pair: Pair) -> Advice:
    """Advise ``tcgen05.wait::ld`` before the tensor memory is handed over."""
    there = pair.handover(by_warp=True)
    return (
        "the warp waits for the load only by using the loaded registers, which orders no access of another "
        "thread to the tensor memory",
        Remedy(
            f"let each warp that loads there execute {opcode_of(WAIT_LD)} {there.text}",
            *WAIT_LD,
            there.edit(WAIT_LD[1]),
        ),
    )


def tensor_fence(pair: Pair) -> Advice:
    """Advise the one of the two ``tcgen05.fence`` that is missing."""
    first, second = pair.first, pair.second
    if pair.sent:
        why = f"no tcgen05.fence::after_thread_sync stands between the synchronization and {second.at}"
        return why, Remedy(
            f"let {second.who} execute {opcode_of(_AFTER)} behind its wait, before {second.at}",
            *_AFTER,
            insert(_AFTER[1], Place.BEFORE, second.location),
        )
    there = pair.handover()
    why = f"no tcgen05.fence::before_thread_sync stands between {first.at} and the synchronization"
    advice = f"let {first.who} execute {opcode_of(_BEFORE)} {there.text}"
    return why, Remedy(advice, *_BEFORE, there.edit(_BEFORE[1]))


def by_chance(pair: Pair) -> Advice:
    """Advise a loop around a load whose value nothing orders before it."""
    return (
        f"no branch depends on the value that {pair.second.at} loads, so nothing waits for {pair.first.at}",
        Remedy(
            f"repeat the load of {pair.second.at} until its value says that {pair.first.at} has happened, or "
            "put a fence behind the load that waits for it",
            "with ptx.loop() as L: load, and L.break_(value == expected)",
            "a loop of ld.acquire, or fence.acq_rel",
        ),
    )


def assumed_order(pair: Pair) -> Advice:
    """Advise a commit between two operations of one thread."""
    return (
        "the ISA does not list the two operations among those that execute in the order of issue",
        Remedy(
            f"commit the operation of {pair.first.at} to an mbarrier, and wait for its phase before "
            f"{pair.second.at}",
            "ptx.tcgen05.commit(mbar); ptx.mbarrier.wait(mbar, parity)",
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mbar]; and a loop of "
            "mbarrier.try_wait.parity",
        ),
    )
