"""Locks and semaphores: mutual exclusion of threads of several CTAs, and what it protects."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Out

from .table import Unusual, unusual

__all__ = ["LOCKS"]

CTAS, TURNS = 4, 3

#: Thread 0 of each CTA takes the lock {turns} times and increments a counter by ordinary loads and stores.
#: The lock itself is in ``take`` and ``give``.
_COUNT = """
setp.ne.u32 %p1, %thread, 0;
@%p1 bra DONE;
mov.u32 %r20, 0;
TURN:
{take}
ld.global.u32 %r10, [%count];
add.u32 %r10, %r10, 1;
st.global.u32 [%count], %r10;
{give}
add.u32 %r20, %r20, 1;
setp.lt.u32 %p2, %r20, {turns};
@%p2 bra TURN;
DONE:
"""


def _lock(name: str, take: str, give: str, why: str, *, words: int = 1, ctas: int = CTAS) -> Unusual:
    """A lock of ``words`` words in global memory, which protects a counter."""
    return unusual(
        name,
        "count:u64 lock:u64",
        _COUNT.format(take=take, give=give, turns=TURNS),
        (Out(np.uint32, 1), Out(np.uint32, words)),
        lambda found: int(found[0][0]) == ctas * TURNS,
        why,
        grid=(ctas,),
    )


CAS = _lock(
    "lock by cas.acquire and st.release",
    """
    TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [%lock], 0, 1;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra TAKE;
    """,
    "st.release.gpu.global.u32 [%lock], 0;",
    """The compare-and-swap reads the 0 of the last owner's st.release: release and acquire pattern of scope gpu
    (#release-acquire-patterns, #memory-synchronization), so the counter's weak accesses are in causality order.""",
)

EXCHANGE = _lock(
    "lock by relaxed exch and fences",
    """
    TAKE:
    atom.relaxed.gpu.global.exch.b32 %r0, [%lock], 1;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra TAKE;
    fence.acq_rel.gpu;
    """,
    """
    fence.acq_rel.gpu;
    st.relaxed.gpu.global.u32 [%lock], 0;
    """,
    """fence; st.relaxed is a release pattern and exch.relaxed; fence an acquire pattern (the third form of each in
    #release-acquire-patterns). A spinning CTA's exchange overwrites the 0 only when it takes the lock.""",
)

MEMBAR = _lock(
    "lock by atom without qualifiers and membar.gl",
    """
    TAKE:
    atom.global.cas.b32 %r0, [%lock], 0, 1;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra TAKE;
    membar.gl;
    """,
    """
    membar.gl;
    atom.global.exch.b32 %r0, [%lock], 0;
    """,
    """atom without .sem is .relaxed.gpu (#parallel-synchronization-and-communication-instructions-atom), membar.gl is
    fence.sc.gpu (#parallel-synchronization-and-communication-instructions-membar): fence patterns on both sides.""",
)

TEST_FIRST = _lock(
    "lock that is looked at by ld.relaxed before exch.acquire",
    """
    LOOK:
    ld.relaxed.gpu.global.u32 %r0, [%lock];
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra LOOK;
    atom.acquire.gpu.global.exch.b32 %r0, [%lock], 1;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra LOOK;
    """,
    "st.release.gpu.global.u32 [%lock], 0;",
    """The relaxed loads only decide when to try; order comes from the exchange that reads the owner's st.release.
    All accesses to the lock are strong, of one size, of scope gpu (#morally-strong-operations).""",
)

TICKET = _lock(
    "ticket lock",
    """
    atom.relaxed.gpu.global.add.u32 %r1, [%lock], 1;
    TAKE:
    ld.acquire.gpu.global.u32 %r0, [%lock+4];
    setp.ne.u32 %p3, %r0, %r1;
    @%p3 bra TAKE;
    """,
    """
    add.u32 %r0, %r1, 1;
    st.release.gpu.global.u32 [%lock+4], %r0;
    """,
    """Tickets are relaxed atomics; only the ticket's owner writes the next number, by st.release, which the next
    owner's ld.acquire reads (#release-acquire-patterns).""",
    words=2,
)

MCS = _lock(
    "queue lock of Mellor-Crummey and Scott",
    """
    mov.u32 %r5, %ctaid.x;
    add.u32 %r5, %r5, 1;
    mad.wide.u32 %d5, %r5, 8, %lock;
    mov.u32 %r6, 0;
    st.relaxed.gpu.global.u32 [%d5], %r6;
    mov.u32 %r7, 1;
    st.relaxed.gpu.global.u32 [%d5+4], %r7;
    atom.acq_rel.gpu.global.exch.b32 %r0, [%lock], %r5;
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra TAKEN;
    mad.wide.u32 %d6, %r0, 8, %lock;
    st.release.gpu.global.u32 [%d6], %r5;
    WAIT:
    ld.acquire.gpu.global.u32 %r1, [%d5+4];
    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra WAIT;
    TAKEN:
    """,
    """
    ld.acquire.gpu.global.u32 %r1, [%d5];
    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra PASS;
    atom.release.gpu.global.cas.b32 %r2, [%lock], %r5, 0;
    setp.eq.u32 %p3, %r2, %r5;
    @%p3 bra GIVEN;
    LINK:
    ld.acquire.gpu.global.u32 %r1, [%d5];
    setp.eq.u32 %p3, %r1, 0;
    @%p3 bra LINK;
    PASS:
    mad.wide.u32 %d6, %r1, 8, %lock;
    mov.u32 %r6, 0;
    st.release.gpu.global.u32 [%d6+4], %r6;
    GIVEN:
    """,
    """The owner hands over by st.release to the successor's own flag, or by cas.release on the tail, which the next
    exch.acq_rel reads, directly or through other atomics (#observation-order). Nodes are written by strong stores.""",
    words=2 * (CTAS + 1),
)

#: Two threads of two CTAs; %r5 is the own number, %r6 the other's.
_TWO = "mov.u32 %r5, %ctaid.x; xor.b32 %r6, %r5, 1; mad.wide.u32 %d5, %r5, 4, %lock; mad.wide.u32 %d6, %r6, 4, %lock;"

PETERSON = _lock(
    "Peterson's lock with fence.sc",
    f"""
    {_TWO}
    st.relaxed.gpu.global.u32 [%d5], 1;
    fence.sc.gpu;
    st.relaxed.gpu.global.u32 [%lock+8], %r6;
    fence.sc.gpu;
    TAKE:
    ld.acquire.gpu.global.u32 %r0, [%d6];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra TAKEN;
    ld.acquire.gpu.global.u32 %r1, [%lock+8];
    setp.eq.u32 %p3, %r1, %r6;
    @%p3 bra TAKE;
    TAKEN:
    """,
    "st.release.gpu.global.u32 [%d5], 0;",
    """fence.sc stands between the flag and the turn, and between the turn and the look at the other's flag: Fence-SC
    order (#fence-sc-order) then excludes that both enter. Who enters read the other's release of its flag, or its
    turn, which follows a fence (#release-acquire-patterns, form 3).""",
    words=3,
    ctas=2,
)

PETERSON_EXCHANGE = _lock(
    "Peterson's lock with exch.acq_rel",
    f"""
    {_TWO}
    st.relaxed.gpu.global.u32 [%d5], 1;
    atom.acq_rel.gpu.global.exch.b32 %r0, [%lock+8], %r6;
    TAKE:
    ld.acquire.gpu.global.u32 %r0, [%d6];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra TAKEN;
    ld.acquire.gpu.global.u32 %r1, [%lock+8];
    setp.eq.u32 %p3, %r1, %r6;
    @%p3 bra TAKE;
    TAKEN:
    """,
    "st.release.gpu.global.u32 [%d5], 0;",
    """The two exchanges of the turn are ordered by atomicity (#atomicity-axiom): the later one acquires the earlier one,
    sees its flag, and waits for a release of the flag or for a later exchange. No fence.sc is needed.""",
    words=3,
    ctas=2,
)

DEKKER = _lock(
    "Dekker's lock with fence.sc",
    f"""
    {_TWO}
    RAISE:
    st.relaxed.gpu.global.u32 [%d5], 1;
    fence.sc.gpu;
    TAKE:
    ld.acquire.gpu.global.u32 %r0, [%d6];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra TAKEN;
    ld.acquire.gpu.global.u32 %r1, [%lock+8];
    setp.eq.u32 %p3, %r1, %r5;
    @%p3 bra TAKE;
    st.relaxed.gpu.global.u32 [%d5], 0;
    YIELD:
    ld.acquire.gpu.global.u32 %r1, [%lock+8];
    setp.ne.u32 %p3, %r1, %r5;
    @%p3 bra YIELD;
    bra RAISE;
    TAKEN:
    """,
    """
    st.release.gpu.global.u32 [%lock+8], %r6;
    st.release.gpu.global.u32 [%d5], 0;
    """,
    """Each raises its flag, then fence.sc, then looks at the other's flag: they cannot both see 0 (store buffering with
    fence.sc, #fence-sc-order). A flag's 0 is a release or a strong write after one by the same thread
    (#release-acquire-patterns, form 2).""",
    words=3,
    ctas=2,
)

_SHARED_LOCK = unusual(
    "lock in shared memory that the lanes of two warps take",
    "count:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra READY;
    st.shared.u32 [lock], 0;
    st.shared.u32 [lock+4], 0;
    READY:
    bar.sync 0;
    mov.pred %p2, 0;
    TRY:
    atom.acquire.cta.shared.cas.b32 %r0, [lock], 0, 1;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra NEXT;
    ld.shared.u32 %r1, [lock+4];
    add.u32 %r1, %r1, 1;
    st.shared.u32 [lock+4], %r1;
    atom.release.cta.shared.exch.b32 %r2, [lock], 0;
    mov.pred %p2, 1;
    NEXT:
    @!%p2 bra TRY;
    bar.sync 0;
    @%p1 bra DONE;
    ld.shared.u32 %r3, [lock+4];
    st.global.u32 [%count], %r3;
    DONE:
    """,
    [Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == 64,
    """Lanes are threads: each takes the lock by cas.acquire.cta and gives it back by exch.release.cta inside one pass of
    the loop, so that no lane waits for another lane of its own pass. Scope cta includes all of them (#scope).""",
    block=(64,),
    registers=".shared .align 8 .b8 lock[8];",
)

#: CTAs 0 and 1 write both words of a pair, the others compare the words. %r20 counts.
_READERS = unusual(
    "lock of readers and writers",
    "pair:u64 state:u64 torn:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.u32 %r20, 0;
    mov.u32 %r5, %ctaid.x;
    setp.ge.u32 %p5, %r5, 2;
    @%p5 bra READER;
    WRITER:
    atom.acquire.gpu.global.cas.b32 %r0, [%state], 0, 0x80000000;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra WRITER;
    ld.global.u32 %r1, [%pair];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%pair], %r1;
    st.global.u32 [%pair+4], %r1;
    atom.release.gpu.global.exch.b32 %r0, [%state], 0;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 3;
    @%p2 bra WRITER;
    bra DONE;
    READER:
    ld.relaxed.gpu.global.u32 %r0, [%state];
    and.b32 %r1, %r0, 0x80000000;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra READER;
    add.u32 %r1, %r0, 1;
    atom.acquire.gpu.global.cas.b32 %r2, [%state], %r0, %r1;
    setp.ne.u32 %p2, %r2, %r0;
    @%p2 bra READER;
    ld.global.u32 %r3, [%pair];
    ld.global.u32 %r4, [%pair+4];
    atom.release.gpu.global.add.u32 %r2, [%state], 0xFFFFFFFF;
    setp.ne.u32 %p2, %r3, %r4;
    @%p2 red.relaxed.gpu.global.add.u32 [%torn], 1;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 3;
    @%p2 bra READER;
    DONE:
    """,
    [Out(np.uint32, 2), Out(np.uint32, 1), Out(np.uint32, 1)],
    lambda found: found[0].tolist() == [6, 6] and not found[1].any() and not found[2].any(),
    """A reader's release is an atomic, so a writer's cas.acquire that reads the 0 of the last reader observes all readers
    through the chain of atomics (#observation-order), and readers observe the writer's exch.release likewise.""",
    grid=(5,),
)

#: CTA 0 puts 6 numbers into a ring of 2, CTA 1 takes them. Words of ``count``: free places, full places.
_SEMAPHORE = unusual(
    "ring of two places between two semaphores",
    "ring:u64 count:u64 out:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r20, 0;
    xor.b32 %r6, %r5, 1;
    mad.wide.u32 %d0, %r5, 4, %count;
    mad.wide.u32 %d1, %r6, 4, %count;
    TURN:
    ld.relaxed.gpu.global.s32 %r0, [%d0];
    setp.le.s32 %p2, %r0, 0;
    @%p2 bra TURN;
    sub.u32 %r1, %r0, 1;
    atom.acquire.gpu.global.cas.b32 %r2, [%d0], %r0, %r1;
    setp.ne.u32 %p2, %r2, %r0;
    @%p2 bra TURN;
    and.b32 %r7, %r20, 1;
    mad.wide.u32 %d2, %r7, 4, %ring;
    mul.lo.u32 %r8, %r20, 3;
    setp.eq.u32 %p3, %r5, 0;
    @%p3 st.global.u32 [%d2], %r8;
    @!%p3 ld.global.u32 %r9, [%d2];
    mad.wide.u32 %d3, %r20, 4, %out;
    @!%p3 st.global.u32 [%d3], %r9;
    red.release.gpu.global.add.u32 [%d1], 1;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 6;
    @%p2 bra TURN;
    DONE:
    """,
    [Out(np.uint32, 2), Out(np.uint32, 2, initial=np.array([2, 0], np.uint32)), Out(np.uint32, 6)],
    lambda found: found[2].tolist() == [0, 3, 6, 9, 12, 15],
    """P is cas.acquire, V is red.release. Both are atomics on one word, so each P observes every V before it, also
    through other Ps (#observation-order, form 2): full and free places hand the ring's words over both ways.""",
    grid=(2,),
)

_LIMIT = unusual(
    "semaphore that lets two of six CTAs in",
    "permits:u64 inside:u64 most:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    TAKE:
    ld.relaxed.gpu.global.s32 %r0, [%permits];
    setp.le.s32 %p2, %r0, 0;
    @%p2 bra TAKE;
    sub.u32 %r1, %r0, 1;
    atom.acquire.gpu.global.cas.b32 %r2, [%permits], %r0, %r1;
    setp.ne.u32 %p2, %r2, %r0;
    @%p2 bra TAKE;
    atom.relaxed.gpu.global.add.u32 %r1, [%inside], 1;
    add.u32 %r1, %r1, 1;
    red.relaxed.gpu.global.max.u32 [%most], %r1;
    red.relaxed.gpu.global.add.u32 [%inside], 0xFFFFFFFF;
    red.release.gpu.global.add.s32 [%permits], 1;
    DONE:
    """,
    [Out(np.int32, 1, initial=2), Out(np.uint32, 1), Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == 2 and int(found[1][0]) == 0 and int(found[2][0]) in (1, 2),
    """Every access is strong, of scope gpu and of one size, so none races (#conflict-and-data-races); the chain of atomics
    on the permits orders the leaving of one CTA before the entry of the next (#observation-order).""",
    grid=(6,),
)

_WIDE = unusual(
    "counter of 128 bits by compare-and-swap",
    "pair:u64",
    """
    .reg .b128 %old, %new, %seen;
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.b64 %d1, 0;
    mov.b128 %old, {%d1, %d1};
    AGAIN:
    mov.b128 {%d2, %d3}, %old;
    add.u64 %d4, %d2, 1;
    add.u64 %d5, %d3, 3;
    mov.b128 %new, {%d4, %d5};
    atom.relaxed.gpu.global.cas.b128 %seen, [%pair], %old, %new;
    mov.b128 {%d6, %d7}, %seen;
    setp.eq.u64 %p2, %d6, %d2;
    setp.eq.and.u64 %p2, %d7, %d3, %p2;
    mov.b128 %old, %seen;
    @!%p2 bra AGAIN;
    DONE:
    """,
    [Out(np.uint64, 2)],
    lambda found: found[0].tolist() == [CTAS, 3 * CTAS],
    """The pair is accessed by atomics of 128 bits and scope gpu alone
    (#parallel-synchronization-and-communication-instructions-atom): they overlap completely and are morally strong, also
    the failing ones, whose value is the next guess.""",
    grid=(CTAS,),
)

LOCKS = (
    *(CAS, EXCHANGE, MEMBAR, TEST_FIRST, TICKET, MCS, PETERSON, PETERSON_EXCHANGE, DEKKER),
    *(_SHARED_LOCK, _READERS, _SEMAPHORE, _LIMIT, _WIDE),
)
