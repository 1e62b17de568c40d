"""Advice for accesses that a flag in memory should have ordered."""

from __future__ import annotations

from ....core.remedies import Place, Remedy
from ...memory.access import AccessKind, MemoryOrder, Scope
from .history import Flag
from .pair import Advice, Pair, insert, replacing, swapped
from .sides import Side, place

__all__ = ["flag_advice", "speculative_load", "strength_advice"]

_LIVES = (AccessKind.INIT, AccessKind.INVAL)


def flag_advice(pair: Pair) -> Advice | None:
    """Return the advice if the first threads raised a flag that the second ones read; else None."""
    raised = [f for f in pair.first.flags() if f.access.kind is not AccessKind.READ]
    for seen in reversed(pair.second.flags()):
        for flag in raised:
            if flag.places & seen.places and seen.access.kind is not AccessKind.WRITE:
                return _weak_flag(pair, flag, seen)
    return None


def _weak_flag(pair: Pair, flag: Flag, seen: Flag) -> Advice:
    first, second = pair.first, pair.second
    why = (
        f"the flag that {first.who} raises at {place(flag.location)} and {second.who} reads at "
        f"{place(seen.location)} orders no accesses: "
    )
    near = "cta" if first.near else "cluster"
    far = "gpu" if first.cta.cluster != second.cta.cluster else near
    fence = (f'ptx.fence.acq_rel("{far}")', f"fence.acq_rel.{far};")
    for side, which, wanted in ((first, flag, MemoryOrder.RELEASE), (second, seen, MemoryOrder.ACQUIRE)):
        if which.access.semantics not in (wanted, MemoryOrder.ACQ_REL) and not side.fenced(wanted):
            how = Place.BEFORE if which is flag else Place.AFTER
            line = place(which.location)
            return f"{why}the access at {line} is no {wanted.value}, and no fence stands there", Remedy(
                f"use .{wanted.value} at {line}, or execute a fence {how} it",
                *fence,
                insert(fence[1], how, which.location),
            )
    for which in (flag, seen):
        found = pair.code.find(which.location, "", lambda i: "cta" in i.modifiers)
        if not first.near and which.access.scope in (Scope.CTA, Scope.NONE) and found is not None:
            text, line = swapped(found, "cta", far), place(which.location)
            return f"{why}the scope at {line} is the CTA", Remedy(
                f"use the scope .{far} at {line}",
                f'scope="{far}"',
                text,
                replacing(found, text),
            )
    return f"{why}a scope is too narrow, or a fence stands at the wrong place", Remedy(
        f"release after {first.at} and before {place(flag.location)}, and acquire after "
        f"{place(seen.location)} and before {second.at}, at scope .{far}",
        *fence,
    )


def strength_advice(pair: Pair) -> Advice | None:
    """Return the advice if one access is strong, and why the two are not morally strong; else None."""
    first, second = pair.first, pair.second
    records = (first.record, second.record)
    strong = [record.semantics is not MemoryOrder.WEAK for record in records]
    if not any(strong) or any(record.barrier or record.kind in _LIVES for record in records):
        return None
    far = "cta" if first.near else "gpu"
    if first.cta is not second.cta and first.cta.cluster == second.cta.cluster:
        far = "cluster"
    if not all(strong):
        side = first if strong[1] else second
        other = second if strong[1] else first
        return f"the access at {side.at} is weak, and the one at {other.at} alone is strong", Remedy(
            f"make the access at {side.at} strong, too, at scope .{far}",
            f'sem="relaxed", scope="{far}"',
            f".relaxed.{far}",
        )
    if records[0].size != records[1].size:
        sizes = f"{records[0].size} and {records[1].size}"
        return f"the two strong accesses have different sizes, {sizes} bytes", Remedy(
            f"access the same bytes with the same size at {first.at} and {second.at}"
        )
    side = first if first.record.scope in (Scope.CTA, Scope.NONE) or not _reaches(second, far) else second
    found = pair.code.find(side.location, "", lambda i: "cta" in i.modifiers)
    text = "" if found is None else swapped(found, "cta", far)
    edit = None if found is None else replacing(found, text)
    return f"the scope of the strong access at {side.at} does not include {_other(pair, side).who}", Remedy(
        f"use the scope .{far} at {side.at}",
        f'scope="{far}"',
        text or f".{far}",
        edit,
    )


def speculative_load(pair: Pair) -> Advice:
    """Advise a load that does not race, where the value of the load does not matter."""
    read, write = pair.first, pair.second
    if read.record.kind is not AccessKind.READ:
        read, write = write, read
    why = (
        f"nothing orders the load of {read.who} at {read.at} and the write at {write.at}, but nothing that "
        f"{read.who} does depends on the value, unless a compare-and-swap confirms it"
    )
    near = "cta" if pair.first.near else "gpu"
    return why, Remedy(
        f"load at {read.at} only in the threads that use the value; if it is the guess of a "
        "compare-and-swap, load it with relaxed order",
        f'sem="relaxed", scope="{near}"',
        f".relaxed.{near}",
    )


def _reaches(side: Side, far: str) -> bool:
    """True if the scope of an access is at least as wide as ``far``."""
    return side.record.scope.value in (far, "gpu", "sys")


def _other(pair: Pair, side: Side) -> Side:
    return pair.second if side is pair.first else pair.first
