"""Advice for threads that wait for a phase of an mbarrier which never completes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import replace

from ....core.remedies import Edit, Remedy
from ....core.source import SourceLocation
from ....ir import Immediate
from ...engine.stream import Sync, SyncKind
from ...memory.mbarrier import MBarrier
from .code import Code
from .history import History, Moment
from .pair import Advice, flip, replacing
from .sides import place

__all__ = ["deadlock_advice"]


def deadlock_advice(
    history: History,
    named: Callable[[Hashable], tuple[str, str]],
    code: Code,
    cta: tuple[int, int],
    threads: Collection[int],
    barrier: MBarrier,
    location: SourceLocation | None,
) -> Advice:
    """Return why the phase does not complete for some threads of a CTA, and what mends the kernel."""
    name, address = named(barrier.key)
    waits = [sync for sync in _on(history, cta, barrier, SyncKind.MBARRIER_WAIT) if _by(sync, threads)]
    seen = max((sync.phase for sync in waits), default=-1)
    now, line = barrier.phase, place(location)
    arrivals = _on(history, cta, barrier, SyncKind.MBARRIER_ARRIVE)
    if seen + 1 < now and (now - seen) % 2 == 0:
        return _wrong_parity(code, name, address, seen + 1, now, location)
    if barrier.tx > 0 or (barrier.tx < 0 and not barrier.pending):
        how = f"{abs(barrier.tx)} bytes {'more' if barrier.tx > 0 else 'fewer'}"
        return (
            f"phase {now} of {name} expects {how} than the copies bring that signal it",
            Remedy(
                f"let the expected bytes of {name} be those of its copies: a box beyond the edge of a "
                "tensor counts "
                "whole, and the copies of both CTAs of a pair count",
                f"ptx.mbarrier.arrive_expect_tx({name}, nbytes)",
                f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{address}], nbytes;",
                _right_bytes(code, arrivals, barrier.tx),
            ),
        )
    came = barrier.expected - barrier.pending
    lines = sorted({place(sync.location) for sync in arrivals})
    where = (
        f"; threads arrive at {', '.join(lines[:4])}" if lines else "; no thread of the CTA has arrived there"
    )
    why = f"phase {now} of {name} has {came} of the {barrier.expected} arrivals that it needs{where}"
    advice = f"let the missing {barrier.pending} arrivals come before {line}"
    if came:
        advice += f", or initialize {name} with a count of {came} at {place(barrier.location)}"
        return why, Remedy(
            advice,
            f"ptx.mbarrier.init({name}, {came})",
            f"mbarrier.init.shared::cta.b64 [{address}], {came};",
            _with_number(code, barrier.location, "init", barrier.expected, came),
        )
    return why, Remedy(
        advice,
        f"ptx.mbarrier.arrive({name})",
        f"mbarrier.arrive.shared::cta.b64 _, [{address}];",
    )


def _wrong_parity(
    code: Code, name: str, address: str, missed: int, now: int, location: SourceLocation | None
) -> Advice:
    return (
        f"the wait at {place(location)} has parity {now & 1}, so it is for phase {now} of {name}, counted "
        f"from 0, which is not complete; phase {missed} (parity {missed & 1}) is complete, and these threads "
        "have not waited for it",
        flip(code, location, name, address, missed),
    )


def _right_bytes(code: Code, arrivals: list[Sync], surplus: int) -> Edit | None:
    """Return the edit that lets the last arrival that expects bytes expect ``surplus`` fewer of them."""
    for sync in reversed(arrivals):
        for instruction in code.instructions(sync.location):
            last = instruction.operands[-1] if instruction.operands else None
            if "expect_tx" in instruction.modifiers and isinstance(last, Immediate):
                expected = int(last.value)
                return _with_number(code, sync.location, "expect_tx", expected, expected - surplus)
    return None


def _with_number(code: Code, location: SourceLocation | None, what: str, old: int, new: int) -> Edit | None:
    """Return the edit that puts ``new`` in place of the last operand ``old`` of an mbarrier's instruction."""
    found = code.find(location, "mbarrier", lambda i: what in i.modifiers)
    last = None if found is None else found.operands[-1]
    if found is None or not isinstance(last, Immediate) or last.value != old or new <= 0:
        return None
    operands = (*found.operands[:-1], replace(last, value=new))
    return replacing(found, str(replace(found, operands=operands)))


def _on(history: History, cta: tuple[int, int], barrier: MBarrier, kind: SyncKind) -> list[Sync]:
    events = history.before(cta, None)
    found = [event.sync for event in events if isinstance(event, Moment) and event.sync.kind is kind]
    return [sync for sync in found if sync.object == barrier.key]


def _by(sync: Sync, threads: Collection[int]) -> bool:
    return not set(threads).isdisjoint(sync.threads.tolist())
