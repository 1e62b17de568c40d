"""Advice for an access behind an asynchronous operation for which the kernel does not wait well."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from ....core.remedies import Edit, Place, Remedy
from ....ir import Address
from ...engine.stream import GroupKind, Sync, SyncKind
from ...memory.access import AccessKind
from ..issue import Issue
from ..synchronization import ARRIVALS
from .history import Moment
from .pair import WAIT_LD, WAIT_ST, Advice, Handover, Pair, insert, opcode_of, replacing
from .sides import Signal, place, signal_of
from .threads import after_threads, fallback, stale, wait_for, weak

__all__ = ["after_operation"]

_COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"


def after_operation(pair: Pair, issue: Issue) -> Advice:
    """Return the advice if the first access is one of an operation."""
    group = issue.group
    if group is None:
        return _after_signal(pair, issue.signals, issue.short)
    if group is GroupKind.TCGEN05_COMMIT:
        return _after_commit(pair, issue)
    if group in (GroupKind.TCGEN05_LD, GroupKind.TCGEN05_ST):
        return _after_tensor_access(pair, group)
    return _after_group(pair, group, issue)


def _after_signal(pair: Pair, signals: Sequence[tuple[Hashable, int]], what: str) -> Advice:
    """The operation signals mbarriers, and the second threads have not waited for the signal."""
    if not signals:
        return fallback(pair)
    second = pair.second
    barrier, phase = signals[0]
    name = pair.name(barrier)
    waited = second.waited()
    key: Signal = ("mbarrier", barrier, phase)
    if key in waited:
        return weak(pair, None, waited[key])
    others = [sync for (kind, which, _), sync in waited.items() if (kind, which) == ("mbarrier", barrier)]
    if others:
        return stale(pair, barrier, phase, others[-1], f"{what} of {pair.first.at}")
    theirs = _waits_of_others(pair, barrier, phase)
    for wait in theirs:
        passed_on = [sync for sync in _arrivals_behind(pair, wait) if signal_of(sync) in waited]
        if passed_on:
            return weak(pair, passed_on[0], waited[signal_of(passed_on[0])])
    if theirs:
        warp = int(theirs[0].threads[0]) >> 5
        why = (
            f"only warp {warp} waits for the phase of {name} that the {what} completes "
            f"({place(theirs[0].location)}), and nothing orders {second.who} behind this wait"
        )
    else:
        why = f"the {what} signals {name}, and {second.who} has not waited for it"
    return why, wait_for(pair, barrier, phase)


def _waits_of_others(pair: Pair, barrier: Hashable, phase: int) -> list[Sync]:
    """Return waits for a phase by other threads of the second CTA."""
    second = pair.second
    return [
        event.sync
        for event in second.history.before(second.cta.key, None)
        if isinstance(event, Moment)
        and event.sync.kind is SyncKind.MBARRIER_WAIT
        and (event.sync.object, event.sync.phase) == (barrier, phase)
    ]


def _arrivals_behind(pair: Pair, wait: Sync) -> list[Sync]:
    """Return the arrivals of threads behind their wait: they pass on what the threads have seen."""
    second, threads, begun = pair.second, set(wait.threads.tolist()), False
    found: list[Sync] = []
    for event in second.history.before(second.cta.key, None):
        if isinstance(event, Moment):
            begun = begun or event.sync is wait
            if begun and event.sync.kind in ARRIVALS and threads & set(event.threads.tolist()):
                found.append(event.sync)
    return found


def _after_commit(pair: Pair, issue: Issue) -> Advice:
    """The operation is one of those that a ``tcgen05.commit`` covers."""
    first, second = pair.first, pair.second
    commits = [commit for commit in first.issued_after("tcgen05.commit") if commit.signals]
    waited = second.waited()
    for commit in commits:
        wait = waited.get(("mbarrier", *commit.signals[0]))
        if wait is not None:
            return weak(pair, None, wait)
    if commits:
        why, remedy = _after_signal(pair, commits[0].signals, "tcgen05.commit")
        return f"{why} (the commit is at {place(commits[0].location)})", remedy
    line = place(issue.location)
    arrived = [sync for sync in first.after(SyncKind.MBARRIER_ARRIVE) if signal_of(sync) in waited]
    if arrived:
        name, at = pair.name(arrived[0].object), place(arrived[0].location)
        why = (
            f"the arrival at {at} does not wait for the {issue.short} of {line}: at that time the thread has "
            "issued "
            "it, and the tensor core still works"
        )
        return why, Remedy(
            f"let a commit arrive at {name} instead of the thread, at {at}: a commit arrives when all "
            "earlier "
            "operations of its thread are complete",
            f"ptx.tcgen05.commit({name})",
            *_commit_there(pair, arrived[0], issue),
        )
    return f"no tcgen05.commit of {first.who} follows the {issue.short} at {line}", Remedy(
        f"commit behind {line}, in the thread that issued the {issue.short}, and wait for the phase of this "
        f"mbarrier before {second.at}",
        "ptx.tcgen05.commit(mbar); ptx.mbarrier.wait(mbar, parity)",
        f"{_COMMIT} [mbar]; and a loop of mbarrier.try_wait.parity",
    )


def _commit_there(pair: Pair, arrival: Sync, issue: Issue) -> tuple[str, Edit | None]:
    """Return the commit that takes the place of an arrival, and the edit."""
    commit = f"{_COMMIT} [{pair.address(arrival.object)}];"
    mma = next((i for i in pair.code.instructions(issue.location) if i.opcode == "tcgen05"), None)
    found = pair.code.find(arrival.location, "mbarrier", lambda i: "arrive" in i.modifiers)
    if found is None or mma is None or "expect_tx" in found.modifiers:
        return commit, None
    group = "cta_group::2" if "cta_group::2" in mma.modifiers else "cta_group::1"
    modifiers = ("commit", group, "mbarrier::arrive::one", "shared::cluster", "b64")
    address = next((o for o in found.operands if isinstance(o, Address)), None)
    if address is None:
        return commit, None
    text = str(replace(found, opcode="tcgen05", modifiers=modifiers, operands=(address,)))
    return text, replacing(found, text)


def _after_tensor_access(pair: Pair, group: GroupKind) -> Advice:
    first = pair.first
    loads = group is GroupKind.TCGEN05_LD
    waited, waits, late = pair.second.waited(), [], False
    for sync in first.after(SyncKind.GROUP_WAIT, *ARRIVALS, warp=True):
        if sync.kind is not SyncKind.GROUP_WAIT:
            # A wait behind the arrival that the second threads have waited for comes too late.
            late = late or signal_of(sync) in waited
        elif sync.object is group and not late:
            waits.append(sync)
    if waits:
        why, remedy = after_threads(_behind(pair, waits[0]))
        return f"warp {first.warp} waits for {first.at} at {place(waits[0].location)}; {why}", remedy
    call, verb = (WAIT_LD, "load") if loads else (WAIT_ST, "store")
    there = pair.handover(by_warp=True)
    return (
        f"warp {first.warp} does not wait for its {verb} of tensor memory at {first.at}, which may still be "
        "in "
        "flight",
        Remedy(
            f"let each warp that executes {first.at} execute {opcode_of(call)} {there.text}",
            *call,
            there.edit(call[1]),
        ),
    )


def _after_group(pair: Pair, group: GroupKind, issue: Issue) -> Advice:
    """The issuing threads wait for groups of these operations."""
    first = pair.first
    commits, waits = first.groups_after(group)
    writes = first.record.kind is not AccessKind.READ
    commit, wait = _spelled(group, max(0, len(commits) - 1), reads=not writes)
    line = place(issue.location)
    signals = [arrival for arrival in first.issued_after("cp.async.mbarrier.arrive") if arrival.signals]
    if group is GroupKind.CP_ASYNC and not waits and signals:
        return _after_signal(pair, signals[0].signals, signals[0].short)
    if not commits and waits:
        why = f"no commit_group follows the {issue.short} at {line}, so the wait covers other groups only"
        return why, Remedy(
            f"let {first.who} commit the operation behind {line}",
            *commit,
            insert(commit[1], Place.AFTER, issue.location),
        )
    enough = [sync for sync in waits if not (writes and sync.object is GroupKind.BULK_READ)]
    if not enough:
        why = f"no wait_group of {first.who} covers the {issue.short} at {line}"
        if waits:
            why = (
                f"the wait at {place(waits[0].location)} is for the reads of the {issue.short} alone "
                "(.read), "
                "and not for its writes"
            )
        if not commits:
            wait = (f"{commit[0]}; {wait[0]}", f"{commit[1]} {wait[1]}")
        there = pair.handover(by_warp=True)
        if there.where is Place.AFTER and (waits or commits):
            behind = (waits or commits)[-1].location
            there = Handover(f"behind {place(behind)}", Place.AFTER, behind)
        advice = f"let {first.who} execute {opcode_of(wait)} {there.text}"
        return why, Remedy(advice, *wait, there.edit(wait[1]))
    done = place(enough[0].location)
    if enough[0].amount > max(0, len(commits) - 1):
        return (
            f"the wait at {done} leaves out the newest {enough[0].amount} groups, and the group of {line} "
            "is one "
            "of them",
            Remedy(
                f"wait at {done} until fewer groups are left",
                *wait,
                insert(wait[1], Place.AFTER, enough[0].location),
            ),
        )
    why, remedy = after_threads(_behind(pair, enough[0]))
    return (
        f"{first.who} waits for the {issue.short} at {done}, but this wait orders no other thread; {why}",
        remedy,
    )


def _behind(pair: Pair, wait: Sync) -> Pair:
    """Return the pair with the wait's line in place of the operation's: what follows must follow the wait."""
    first = pair.first
    return replace(pair, first=replace(first, record=replace(first.record, location=wait.location)))


def _spelled(group: GroupKind, left: int, *, reads: bool) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the commit of a group, and the wait that leaves ``left`` groups, in the DSL and in PTX."""
    if group is GroupKind.WGMMA:
        return (
            ("ptx.wgmma.commit_group()", "wgmma.commit_group.sync.aligned;"),
            (f"ptx.wgmma.wait_group({left})", f"wgmma.wait_group.sync.aligned {left};"),
        )
    if group is GroupKind.BULK:
        argument, modifier = (", read=True", ".read") if reads else ("", "")
        return (
            ("ptx.cp.async_.bulk.commit_group()", "cp.async.bulk.commit_group;"),
            (
                f"ptx.cp.async_.bulk.wait_group({left}{argument})",
                f"cp.async.bulk.wait_group{modifier} {left};",
            ),
        )
    return (
        ("ptx.cp.async_.commit_group()", "cp.async.commit_group;"),
        (f"ptx.cp.async_.wait_group({left})", f"cp.async.wait_group {left};"),
    )
