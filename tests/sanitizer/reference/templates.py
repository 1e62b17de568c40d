"""Pieces of synchronization from which random programs are made, right or with flaws.

A template appends its statements to a :class:`~.building.Builder`.  Its flaws never change how often a barrier is
arrived at, so that every program ends under every schedule.
"""

from __future__ import annotations

from .building import Builder
from .program import Operand, Thread

__all__ = ["TEMPLATES"]


def _two(b: Builder) -> tuple[Thread, Thread]:
    """Two threads of one CTA, mostly of different warps."""
    cta = b.chance.randrange(b.ctas)
    if b.warps == 1 or b.maybe(0.1):
        return (cta, 0, 0), (cta, 0, 1)
    first, second = b.chance.sample(range(b.warps), 2)
    return (cta, first, 0), (cta, second, 0)


def mbarrier_handover(b: Builder) -> None:
    """Ordinary stores, an arrival, a wait, ordinary loads."""
    producer, consumer = _two(b)
    data, bar = b.shared(16, clear=True), b.mbarrier(1)
    b.emit(producer, "st", to=Operand(data), value=1)
    b.emit(
        producer,
        "mbarrier.arrive",
        mbarrier=Operand(bar),
        **({"sem": "relaxed", "scope": "cta"} if b.flaw() else {}),
    )
    if not b.flaw():
        b.emit(consumer, "mbarrier.wait", mbarrier=Operand(bar), number=0)
    b.emit(consumer, "ld", to=Operand(data))


#: The templates and their weights.
TEMPLATES = {mbarrier_handover: 1.0}
