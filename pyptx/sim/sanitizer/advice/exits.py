"""Advice for operations that may still need the memory of their CTA when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ....core.remedies import Place, Remedy
from ...engine.events import AsyncOperation
from ...engine.stream import GroupKind, SyncKind
from ..issue import Issue
from .history import History, Moment
from .pair import Advice, insert
from .sides import place

__all__ = ["exit_advice"]

_COMMIT = ("ptx.cp.async_.bulk.commit_group()", "cp.async.bulk.commit_group;")
_WAIT = ("ptx.cp.async_.bulk.wait_group(0)", "cp.async.bulk.wait_group 0;")


def exit_advice(
    history: History, named: Callable[[Hashable], tuple[str, str]], operation: AsyncOperation
) -> Advice:
    """Return why no wait ensures that an operation is complete, and what mends the kernel."""
    issue = getattr(operation.observed, "issue", None)
    if not isinstance(issue, Issue):
        return "", Remedy("wait for the operation before the last thread of its CTA ends")
    if not history.holds(issue):  # commits and waits behind the issue may be forgotten
        return "", Remedy(f"wait for the {issue.short} before the last thread of its CTA ends")
    if issue.group is GroupKind.BULK:
        return _bulk(history, issue)
    if issue.group is GroupKind.TCGEN05_COMMIT:
        return _committed(history, named, issue)
    if issue.signals:
        return _signaled(named, issue.signals[0], f"the {issue.short} of {place(issue.location)}")
    return "", Remedy(f"wait for the {issue.short} before the last thread of its CTA ends")


def _bulk(history: History, issue: Issue) -> Advice:
    """The operation is a bulk copy whose thread waits for groups."""
    threads = set(issue.threads.tolist())
    own = [
        event.sync
        for event in history.after(issue.cta, issue)
        if isinstance(event, Moment) and threads & set(event.threads.tolist())
    ]
    kinds = (GroupKind.BULK, GroupKind.BULK_READ)
    commits = [s for s in own if s.kind is SyncKind.GROUP_COMMIT and s.object in kinds]
    waits = [s for s in own if s.kind is SyncKind.GROUP_WAIT and s.object in kinds]
    line = place(issue.location)
    if not commits and waits:
        return (
            f"no commit_group follows the {issue.short} of {line}, so the wait covers other groups only",
            Remedy(
                f"let the thread commit the copy behind {line}",
                *_COMMIT,
                insert(_COMMIT[1], Place.AFTER, issue.location),
            ),
        )
    last = waits[-1] if waits else commits[-1] if commits else None
    why = f"no wait_group covers the {issue.short} of {line}"
    if waits:
        why = (
            f"the wait at {place(waits[-1].location)} leaves out the newest {waits[-1].amount} groups, and "
            "that of "
            f"{line} is one of them"
        )
    calls = _WAIT if commits else (f"{_COMMIT[0]}; {_WAIT[0]}", f"{_COMMIT[1]} {_WAIT[1]}")
    behind = issue.location if last is None else last.location
    return why, Remedy(
        f"let the thread that issued the copy wait for its group behind {place(behind)}",
        *calls,
        insert(calls[1], Place.AFTER, behind),
    )


def _committed(history: History, named: Callable[[Hashable], tuple[str, str]], issue: Issue) -> Advice:
    """The operation is one that a ``tcgen05.commit`` covers."""
    threads = set(issue.threads.tolist())
    for event in history.after(issue.cta, issue):
        commits = isinstance(event, Issue) and event.name.startswith("tcgen05.commit") and event.signals
        if commits and threads & set(event.threads.tolist()):
            assert isinstance(event, Issue)
            return _signaled(named, event.signals[0], f"the commit at {place(event.location)}")
    return f"no tcgen05.commit of its thread follows the {issue.short} of {place(issue.location)}", Remedy(
        f"commit the {issue.short} to an mbarrier behind {place(issue.location)}, and wait for its phase "
        "before the "
        "last thread of the CTA ends",
        "ptx.tcgen05.commit(mbar); ptx.mbarrier.wait(mbar, parity)",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mbar]; and a loop of "
        "mbarrier.try_wait.parity",
    )


def _signaled(
    named: Callable[[Hashable], tuple[str, str]], signal: tuple[Hashable, int], what: str
) -> Advice:
    (name, address), phase = named(signal[0]), signal[1]
    return f"{what} signals phase {phase} of {name}, and no thread has waited for this phase", Remedy(
        f"wait for phase {phase} of {name} (parity {phase & 1}) before the last thread of the CTA ends",
        f"ptx.mbarrier.wait({name}, {phase & 1})",
        f"WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [{address}], {phase & 1}; @!p bra WAIT;",
    )
