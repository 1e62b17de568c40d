"""Expectations that several sites share, with the reason why these are harmless or only for review."""

from __future__ import annotations

from .expected import MEMORY, WAIT, error, harmless, review

__all__ = [
    "ALIVE",
    "ANSWER",
    "BARRIER_FOLLOWS",
    "COMPOSED",
    "COVERED",
    "DONE",
    "DRAINED",
    "EMPTY",
    "FRESH",
    "HANDED_BACK",
    "IN_ORDER",
    "KEPT",
    "LAST_GROUP",
    "NEVER_WRAPS",
    "NO_TENSOR",
    "OTHER_FENCE",
    "REJOINED",
    "UNREAD",
    "WAITED",
    "WHOLE_WARP",
]

EMPTY = review(
    "relaxed-handover",
    WAIT,
    "tensor cores have read the stage, and TMA fills it again: no ordinary access is handed over",
)
DONE = harmless("tcgen05's order needs no acquire: the manual's own patterns wait with .relaxed")
UNREAD = harmless("no thread waits for this phase of the barrier")
FRESH = harmless("the wait is for the phase before a fresh barrier's first, which hands nothing over")
DRAINED = harmless("the phase is not used after this flip")
NO_TENSOR = harmless("no tcgen05 operation comes before the fence, or none after it but a dealloc")
COVERED = harmless(
    "a later tcgen05.wait::ld of the warp covers this load, too, before the tensor memory is handed over, "
    "and the instructions that use the registers wait for it"
)
REJOINED = harmless("the lanes only rejoin: nothing passes between them here")

IN_ORDER = harmless(
    "all threads wait for the MMA thread's last commit, and the commits of a thread arrive in order"
)
ALIVE = harmless("the wait only keeps the CTA alive: execution order is enough")
KEPT = harmless("the barrier of the cluster behind the last arrivals keeps the CTA alive")
COMPOSED = harmless("tcgen05's fences compose with any synchronization of threads")
WHOLE_WARP = harmless("tcgen05.wait::ld before it waits for the loads of the whole warp")
OTHER_FENCE = harmless(
    "the fence behind the wait for the accumulator covers the first products, or the one behind the wait for the stage; "
    "with later stages no tcgen05 operation is handed over"
)
ANSWER = review(
    "proxy-fence-open",
    "async-proxy",
    "the answer was read: hardware does not let a later write overtake a read",
)
BARRIER_FOLLOWS = harmless("a barrier of the CTA follows")
WAITED = harmless(
    "the thread has waited for its products, and the fence behind the barrier comes before the loads"
)
NEVER_WRAPS = harmless("the ring never wraps at this place")
#: No instruction uses the registers before the arrival that lets the next tile's products overwrite the accumulator.
HANDED_BACK = error(MEMORY, "data-race")
LAST_GROUP = harmless(
    "the copy goes into the last group, and nothing fills its source again before the wait for all groups"
)
