"""Findings of the sanitizer: both accesses, the bytes by their buffer's name, and what would order them."""

from __future__ import annotations

from ...core.findings import RULES, Finding
from ...core.remedies import Remedy
from ..memory.access import AccessKind, Proxy, StateSpace
from ..memory.segments import Segment
from .advice.adviser import advise
from .advice.pair import Pair
from .advice.sides import place
from .agents import CtaAgent
from .examine import Conflict
from .records import ALL_LANES, Record

__all__ = ["conflict_finding", "lifetime_finding"]

#: Bytes of one lane of tensor memory: 512 columns of 4 bytes.
_LANE_BYTES = 2048
_VERBS = {
    AccessKind.READ: "read",
    AccessKind.WRITE: "write",
    AccessKind.RMW: "atomic operation",
    AccessKind.INIT: "mbarrier.init",
    AccessKind.INVAL: "mbarrier.inval",
}


def _what(record: Record, lane: int) -> str:
    """Return what accessed the bytes, and how, for a text."""
    verb = "operation on the mbarrier" if record.barrier else _VERBS[record.kind]
    if record.kind is AccessKind.INVAL and record.proxy is Proxy.TENSOR:
        verb = "dealloc"
    if record.issue is not None:
        proxy = " (async proxy)" if record.proxy is Proxy.ASYNC else ""
        verb += f" by {record.issue.short}{proxy} of"
    else:
        verb += " by"
    return f"{verb} {_who(record, lane)}"


def _who(record: Record, lane: int) -> str:
    """Return the threads that accessed the bytes, or that issued the operation."""
    if record.issue is not None:
        return record.name.removeprefix(f"{record.issue.name} by ")
    return record.name if lane in (ALL_LANES, -1) else f"{record.name} lane {lane}"


def conflict_finding(conflict: Conflict, pair: Pair) -> Finding:
    """Return the finding for two accesses that break a rule. The later line of the text comes first."""
    check = conflict.check
    rule, record = RULES[conflict.rule], conflict.later
    lane, my_lane = conflict.lanes
    named = [(record, my_lane), (conflict.record, lane)]
    named.sort(key=lambda side: (-_line(side[0]), side[0].kind.value))
    (first, first_lane), (second, second_lane) = named
    where = _where(check.shadow.segment, int(conflict.offsets[0]))
    why, remedy = advise(conflict.rule, pair)
    return Finding(
        rule,
        f"{where}: {_what(first, first_lane)}: {rule.summary}",
        first.location,
        _who(first, first_lane),
        ((_what(second, second_lane), second.location),),
        why=why,
        remedy=remedy,
    )


def _where(segment: Segment, offset: int) -> str:
    """Return the place of a byte for a text: in its buffer, or in tensor memory."""
    if segment.parts is not None:
        return segment.parts.describe(offset)
    if segment.space is StateSpace.TENSOR:
        lane, byte = divmod(offset, _LANE_BYTES)
        return f"tensor memory, lane {lane}, column {byte // 4}"
    return f"{segment.name} + {offset:#x}"


def _line(record: Record) -> int:
    return 0 if record.location is None else record.location.line


def lifetime_finding(record: Record, owner: CtaAgent, ends: bool) -> Finding:
    """Return the finding for an access to another CTA's shared memory outside of that CTA's life.

    ``ends`` is True if the access may come after the end, False if it may come before the start.
    """
    when = "before the end" if ends else "after the start"
    line = place(record.location)
    where = f"after {line}, before any of them ends" if ends else f"before {line}"
    return Finding(
        RULES["cluster-lifetime"],
        f"{_what(record, ALL_LANES)} in shared memory of CTA {owner.coordinates}: nothing orders it {when} "
        "of this CTA",
        record.location,
        record.name,
        remedy=Remedy(
            f"let all threads of the cluster's CTAs meet {where}",
            "ptx.cluster.sync(aligned=True)",
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        ),
    )
