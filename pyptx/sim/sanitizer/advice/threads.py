"""Advice for an access behind one of threads: arrivals and waits that do not meet, or order too little."""

from __future__ import annotations

from collections.abc import Hashable

from ....core.remedies import Edit, Place, Remedy
from ....core.source import SourceLocation
from ...engine.stream import Sync, SyncKind
from ...memory.access import AccessKind, MemoryOrder, Scope
from ..synchronization import ARRIVALS
from .flags import flag_advice, strength_advice
from .pair import CLUSTER, CTA, WARP, Advice, Pair, flip, insert, opcode_of, replacing, swapped
from .sides import place, signal_of

__all__ = ["after_threads", "fallback", "stale", "wait_for", "weak"]

_LIVES = (AccessKind.INIT, AccessKind.INVAL)


def after_threads(pair: Pair) -> Advice:
    """Return the advice if the first access is one of threads, or was waited for by its issuer."""
    first, second = pair.first, pair.second
    if any(side.record.barrier or side.record.kind in _LIVES for side in (first, second)):
        return fallback(pair)
    waited = second.waited()
    after = first.after(*ARRIVALS, warp=True)
    own = [sync for sync in after if first.threads <= set(sync.threads.tolist())]
    for sync in own:
        if signal_of(sync) in waited:
            return weak(pair, sync, waited[signal_of(sync)])
    for sync in after:
        if signal_of(sync) in waited:
            return _other_lane(pair, sync)
    arrived = first.before(SyncKind.MBARRIER_ARRIVE, warp=True)
    early = [sync for sync in arrived if signal_of(sync) in waited]
    if early and _stands_before(early[-1].location, first.location):
        return _too_early(pair, early[-1])
    mbarriers = [sync for sync in own if sync.kind is SyncKind.MBARRIER_ARRIVE]
    for sync in mbarriers:
        others = [w for (kind, what, _), w in waited.items() if (kind, what) == ("mbarrier", sync.object)]
        if others:
            what = f"arrival at {place(sync.location)}, which follows the access,"
            return stale(pair, sync.object, sync.phase, others[-1], what)
    if early:
        return _too_early(pair, early[-1])
    if mbarriers:
        sync = mbarriers[0]
        why = (
            f"{first.who} arrives at {pair.name(sync.object)} behind the access ({place(sync.location)}), "
            "and "
            f"{second.who} has not waited for this phase"
        )
        return why, wait_for(pair, sync.object, sync.phase)
    return _nothing_waited_for(pair) or fallback(pair)


def _nothing_waited_for(pair: Pair) -> Advice | None:
    """Return the advice if the last wait of one side was for a fresh mbarrier's complete phase.

    The first side may have waited so in place of the second one, if it read what the second one writes.
    """
    waiting, other = pair.second, pair.first
    waits = waiting.before(SyncKind.MBARRIER_WAIT)
    reads = pair.first.record.kind is AccessKind.READ and pair.second.record.kind is AccessKind.WRITE
    if reads and not (waits and waits[-1].phase < 0):
        waiting, other = pair.first, pair.second
        waits = waiting.before(SyncKind.MBARRIER_WAIT)
    if not waits or waits[-1].phase >= 0:
        return None
    name, address = pair.name(waits[-1].object), pair.address(waits[-1].object)
    line = place(waits[-1].location)
    why = (
        f"the wait of {waiting.who} at {line} had parity {waits[-1].phase & 1}, for which a fresh mbarrier "
        "counts "
        f"as complete: it waited for no arrival at {name}"
    )
    return why, Remedy(
        f"let {other.who} arrive at {name} behind {other.at}, and wait at {line} with the parity of the "
        "phase in "
        "which it arrives: the first one has parity 0",
        f"ptx.mbarrier.wait({name}, 0)",
        f"WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [{address}], 0; @!p bra WAIT;",
    )


def _stands_before(one: SourceLocation | None, other: SourceLocation | None) -> bool:
    """True if a line stands before another one in the same file."""
    return one is not None and other is not None and (one.file, one.line) < (other.file, other.line)


def wait_for(pair: Pair, barrier: Hashable, phase: int) -> Remedy:
    """Return the remedy that the second threads wait for a phase of an mbarrier."""
    name, address, parity = pair.name(barrier), pair.address(barrier), phase & 1
    return Remedy(
        f"let {pair.second.who} wait for phase {phase} of {name} (parity {parity}) before {pair.second.at}",
        f"ptx.mbarrier.wait({name}, {parity})",
        f"WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [{address}], {parity}; @!p bra WAIT;",
    )


def stale(pair: Pair, barrier: Hashable, phase: int, wait: Sync, what: str) -> Advice:
    """The second threads waited for another phase of the right mbarrier."""
    name, address = pair.name(barrier), pair.address(barrier)
    line, parity = place(wait.location), wait.phase & 1
    which = "the phase before the first one" if wait.phase < 0 else f"phase {wait.phase}"
    why = (
        f"the wait at {line} had parity {parity}, so it was for {which} of {name}, which was complete "
        "before; the "
        f"{what} belongs to phase {phase}"
    )
    if phase & 1 == parity:
        advice = f"wait for {name} at {line} once more for each phase: no wait may leave a phase out"
    else:
        return why, flip(pair.code, wait.location, name, address, phase)
    return why, Remedy(
        advice,
        f"ptx.mbarrier.wait({name}, {phase & 1})",
        f"WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [{address}], {phase & 1}; @!p bra WAIT;",
    )


def weak(pair: Pair, arrival: Sync | None, wait: Sync) -> Advice:
    """A synchronization orders the execution, and no accesses: it is relaxed, or its scope is too narrow."""
    sync, new = wait, "acquire"
    if arrival is not None and arrival.semantics is MemoryOrder.RELAXED:
        sync, new = arrival, "release"
    line = place(sync.location)
    opcode = "barrier" if sync.kind in (SyncKind.CLUSTER_ARRIVE, SyncKind.CLUSTER_WAIT) else "mbarrier"
    if sync.semantics is MemoryOrder.RELAXED:
        why = f"the synchronization at {line} is relaxed: it orders the execution, and no accesses"
        old, argument = "relaxed", f'sem="{new}"'
    elif pair.first.near:
        return fallback(pair)
    else:
        if arrival is not None and arrival.scope is not wait.scope:
            sync = min(arrival, wait, key=lambda one: one.scope.value != "cta")
            line = place(sync.location)
        if sync.scope is not Scope.CTA:
            return fallback(pair)
        why = (
            f"the scope of the synchronization at {line} is {sync.scope.value}, which does not include both "
            f"{pair.first.who} and {pair.second.who}"
        )
        old, new, argument = sync.scope.value, "cluster", 'scope="cluster"'
    found = pair.code.find(sync.location, opcode, lambda i: old in i.modifiers)
    if found is None:
        return why, Remedy(f"use .{new} at {line}", argument, f".{new}")
    text = swapped(found, old, new)
    return why, Remedy(
        f"use .{new} instead of .{old} at {line}",
        argument,
        text,
        replacing(found, text),
    )


def _other_lane(pair: Pair, sync: Sync) -> Advice:
    first = pair.first
    lanes = sorted(number & 31 for number in sync.threads.tolist() if number >> 5 == first.warp)
    line = place(sync.location)
    why = (
        f"lane {lanes[0]} of the warp arrives at {line} for all lanes, but an arrival releases the accesses "
        "of its "
        "own thread only"
    )
    meeting = pair.code.meeting(first.location, sync.location)
    return why, Remedy(
        f"let all lanes of warp {first.warp} meet after {first.at} and before "
        f"{place(meeting or sync.location)}",
        *WARP,
        insert(WARP[1], Place.BEFORE, meeting),
    )


def _too_early(pair: Pair, sync: Sync) -> Advice:
    first = pair.first
    name, line = pair.name(sync.object), place(sync.location)
    why = (
        f"{first.who} arrives at {name} at {line}, before the access at {first.at}: {pair.second.who} waits "
        "for the arrival, and not for the access"
    )
    advice = f"arrive after {first.at} instead of at {line}"
    found = pair.code.find(sync.location, "mbarrier", lambda i: "arrive" in i.modifiers)
    if found is None or first.location is None:
        arrive = f"mbarrier.arrive.shared::cta.b64 _, [{pair.address(sync.object)}];"
        return why, Remedy(advice, f"ptx.mbarrier.arrive({name})", arrive)
    text = str(found)
    return why, Remedy(
        advice,
        f"ptx.mbarrier.arrive({name})",
        text,
        Edit(text, Place.AFTER, first.location, origin=sync.location),
    )


def fallback(pair: Pair) -> Advice:
    """Return the advice if no arrival, wait or commit hints at the order that was meant."""
    first, second = pair.first, pair.second
    special = flag_advice(pair) or strength_advice(pair)
    if special is not None:
        return special
    why = f"no synchronization leads from {first.who} to {second.who}"
    if pair.same_warp:
        return why, pair.barrier(WARP, f"all lanes of warp {first.warp}")
    if first.cta is second.cta:
        return why, pair.barrier(CTA, "all warps of the CTA")
    if first.cta.launch != second.cta.launch:
        later = max(first, second, key=lambda side: side.cta.launch)
        call = ("ptx.griddepcontrol.wait()", "griddepcontrol.wait;")
        return (
            "the second launch may begin before the first one has ended, and these threads have not waited "
            "for "
            "its end",
            Remedy(
                f"let the threads of the second launch execute {opcode_of(call)} before {later.at}",
                *call,
                insert(call[1], Place.BEFORE, later.location),
            ),
        )
    if first.cta.cluster == second.cta.cluster:
        return why, pair.barrier(CLUSTER, "all CTAs of the cluster")
    return why, Remedy(
        f"let {first.who} raise a flag after {first.at}, with release, and {second.who} read it in a loop "
        "before "
        f"{second.at}, with acquire",
        'ptx.store(flag, 1, sem="release", scope="gpu"); ptx.load(u32, flag, sem="acquire", scope="gpu")',
        "st.release.gpu.u32 [flag], 1; and a loop of ld.acquire.gpu.u32 seen, [flag];",
    )
