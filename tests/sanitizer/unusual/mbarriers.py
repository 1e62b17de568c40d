"""mbarriers among the threads of one CTA: tokens, drops, partial arrivals, re-use of their memory, relaxed operations."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Out

from .table import unusual

__all__ = ["MBARRIERS"]

_ROOM = ".shared .align 16 .b8 room[512]; .shared .align 8 .b64 bar; .shared .align 8 .b64 empty;"
_BEGIN = """
mov.u32 %r1, room;
mad.lo.u32 %r2, %thread, 4, %r1;
setp.eq.u32 %p1, %thread, 0;
"""

_TOKENS = unusual(
    "mbarrier that all threads poll by test_wait with their tokens",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 128;
    bar.sync 0;
    mov.u32 %r20, 0;
    mov.u32 %r10, %thread;
    xor.b32 %r3, %thread, 96;
    mad.lo.u32 %r3, %r3, 4, %r1;
    TURN:
    st.shared.u32 [%r2], %r10;
    mbarrier.arrive.shared.b64 %d1, [bar];
    add.u32 %r11, %r20, 1;
    FIRST:
    mbarrier.test_wait.shared.b64 %p2, [bar], %d1;
    @!%p2 bra FIRST;
    ld.shared.u32 %r4, [%r3];
    mbarrier.arrive.shared.b64 %d1, [bar];
    mad.lo.u32 %r10, %r4, 3, %r11;
    SECOND:
    mbarrier.test_wait.shared.b64 %p2, [bar], %d1;
    @!%p2 bra SECOND;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p3, %r20, 3;
    @%p3 bra TURN;
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r10;
    """,
    [Out(np.uint32, 128)],
    lambda found: found[0].tolist() == [27 * (n ^ 96) + 9 + 6 + 3 for n in range(128)],
    """Each thread arrives with release and waits with acquire (the defaults) for the phase that its token names
    (#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait); as every thread counts in
    every phase, none can be lapped. Between arrival and wait it computes.""",
    block=(128,),
    registers=_ROOM,
)

_RING = unusual(
    "box between two warps with a full and an empty mbarrier",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 32;
    @%p1 mbarrier.init.shared.b64 [empty], 1;
    bar.sync 0;
    mad.lo.u32 %r2, %lane, 4, %r1;
    mov.u32 %r20, 0;
    setp.eq.u32 %p2, %warp, 0;
    setp.eq.u32 %p5, %lane, 0;
    TURN:
    and.b32 %r21, %r20, 1;
    xor.b32 %r22, %r21, 1;
    @!%p2 bra TAKE;
    FREE:
    mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r22;
    @!%p3 bra FREE;
    mad.lo.u32 %r4, %r20, 100, %lane;
    st.shared.u32 [%r2], %r4;
    mbarrier.arrive.shared.b64 _, [bar];
    bra NEXT;
    TAKE:
    mbarrier.try_wait.parity.shared.b64 %p3, [bar], %r21, 1000;
    @!%p3 bra TAKE;
    xor.b32 %r5, %lane, 31;
    mad.lo.u32 %r5, %r5, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    bar.warp.sync 0xffffffff;
    @%p5 mbarrier.arrive.shared.b64 _, [empty];
    mad.lo.u32 %r7, %r20, 32, %lane;
    mad.wide.u32 %d2, %r7, 4, %out;
    st.global.u32 [%d2], %r6;
    NEXT:
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p4, %r20, 5;
    @%p4 bra TURN;
    """,
    [Out(np.uint32, (5, 32))],
    lambda found: bool(np.array_equal(found[0], 100 * np.arange(5)[:, None] + 31 - np.arange(32))),
    """The full barrier counts 32 producers, the empty one a single lane that bar.warp.sync puts after the loads of all lanes
    (#parallel-synchronization-and-communication-instructions-bar-warp-sync). Parity of a fresh barrier's preceding phase
    is complete at once, which lets the first round pass.""",
    block=(64,),
    registers=_ROOM,
)

_PARTIAL = unusual(
    "arrivals that are known not to complete the phase",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 192;
    bar.sync 0;
    mul.lo.u32 %r3, %thread, 9;
    st.shared.u32 [%r2], %r3;
    mbarrier.arrive.noComplete.shared.b64 %d1, [bar], 1;
    mbarrier.arrive.shared.b64 %d1, [bar], 2;
    WAIT:
    mbarrier.try_wait.shared.b64 %p2, [bar], %d1;
    @!%p2 bra WAIT;
    xor.b32 %r4, %thread, 63;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r5;
    """,
    [Out(np.uint32, 64)],
    lambda found: found[0].tolist() == [9 * (63 - n) for n in range(64)],
    """Each thread has three arrivals in the phase; the one with .noComplete comes before its own last two, so it never
    completes the phase (#parallel-synchronization-and-communication-instructions-mbarrier-arrive).""",
    block=(64,),
    registers=_ROOM,
)

#: Warp k writes its words and drops out in phase k; those that are left read them.
_DROPS = unusual(
    "warps that drop out of an mbarrier one after the other",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 128;
    bar.sync 0;
    mov.u32 %r20, 0;
    mov.u32 %r10, 0;
    mad.lo.u32 %r3, %lane, 4, %r1;
    TURN:
    setp.eq.u32 %p4, %warp, %r20;
    @%p4 bra LEAVE;
    mbarrier.arrive.shared.b64 %d1, [bar];
    WAIT:
    mbarrier.try_wait.shared.b64 %p2, [bar], %d1;
    @!%p2 bra WAIT;
    ld.shared.u32 %r5, [%r3];
    add.u32 %r10, %r10, %r5;
    add.u32 %r3, %r3, 128;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p3, %r20, 3;
    @%p3 bra TURN;
    bra DONE;
    LEAVE:
    mad.lo.u32 %r4, %thread, 5, 1;
    st.shared.u32 [%r2], %r4;
    mbarrier.arrive_drop.shared.b64 _, [bar];
    DONE:
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r10;
    """,
    [Out(np.uint32, 128)],
    lambda found: (
        found[0].tolist() == [sum(5 * (32 * k + n % 32) + 1 for k in range(n // 32)) for n in range(128)]
    ),
    """arrive_drop is an arrival with release that also lowers the count of later phases
    (#parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop): phase k counts the warps from k on,
    and whoever waits for it acquires warp k's words.""",
    block=(128,),
    registers=_ROOM,
)

_REUSED = unusual(
    "memory of an mbarrier that becomes data and an mbarrier again",
    "out:u64",
    _BEGIN
    + """
    mov.u32 %r20, 0;
    TURN:
    @%p1 mbarrier.init.shared.b64 [bar], 64;
    bar.sync 0;
    st.shared.u32 [%r2], %thread;
    mbarrier.arrive.shared.b64 %d1, [bar];
    WAIT:
    mbarrier.try_wait.shared.b64 %p2, [bar], %d1;
    @!%p2 bra WAIT;
    xor.b32 %r4, %thread, 63;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    bar.sync 0;
    @%p1 mbarrier.inval.shared.b64 [bar];
    @%p1 st.shared.u64 [bar], 77;
    bar.sync 0;
    ld.shared.u32 %r6, [bar];
    add.u32 %r5, %r5, %r6;
    bar.sync 0;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p3, %r20, 3;
    @%p3 bra TURN;
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r5;
    """,
    [Out(np.uint32, 64)],
    lambda found: found[0].tolist() == [63 - n + 77 for n in range(64)],
    """A barrier of the CTA stands between the last wait and inval, and between the data's last read and the next init: the
    object's memory is free after inval
    (#parallel-synchronization-and-communication-instructions-mbarrier-inval).""",
    block=(64,),
    registers=_ROOM,
)

_RELAXED = unusual(
    "relaxed mbarrier operations between fences",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 64;
    bar.sync 0;
    mul.lo.u32 %r3, %thread, 6;
    st.shared.u32 [%r2], %r3;
    fence.acq_rel.cta;
    mbarrier.arrive.relaxed.cta.shared.b64 %d1, [bar];
    WAIT:
    mbarrier.try_wait.relaxed.cta.shared.b64 %p2, [bar], %d1;
    @!%p2 bra WAIT;
    fence.acq_rel.cta;
    xor.b32 %r4, %thread, 62;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r5;
    """,
    [Out(np.uint32, 64)],
    lambda found: found[0].tolist() == [6 * (n ^ 62) for n in range(64)],
    """The relaxed arrival and wait order nothing by themselves, but fence; arrive.relaxed is a release pattern and
    try_wait.relaxed; fence an acquire pattern (#release-acquire-patterns, form 3; an mbarrier's operations are strong).""",
    block=(64,),
    registers=_ROOM,
)

_ONE_EACH = unusual(
    "one arrival for each warp, and one that counts for 32",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 35;
    bar.sync 0;
    mul.lo.u32 %r3, %thread, 2;
    st.shared.u32 [%r2], %r3;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p4, %lane, 0;
    setp.eq.u32 %p5, %warp, 0;
    mov.u32 %r6, 1;
    @%p5 mov.u32 %r6, 32;
    @%p4 mbarrier.arrive.shared.b64 _, [bar], %r6;
    WAIT:
    mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    xor.b32 %r4, %thread, 101;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r5;
    """,
    [Out(np.uint32, 128)],
    lambda found: found[0].tolist() == [2 * (n ^ 101) for n in range(128)],
    """bar.warp.sync orders the lanes' stores before the arrival of lane 0, whose release is cumulative (#causality-order);
    three warps count once and one counts 32 times. All threads wait, with no arrival of their own.""",
    block=(128,),
    registers=_ROOM,
)

_CHAIN = unusual(
    "words that a third warp reads after two mbarriers in a row",
    "out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [bar], 32;
    @%p1 mbarrier.init.shared.b64 [empty], 32;
    bar.sync 0;
    setp.eq.u32 %p3, %warp, 1;
    @%p3 bra MIDDLE;
    setp.eq.u32 %p3, %warp, 2;
    @%p3 bra LAST;
    mul.lo.u32 %r3, %thread, 3;
    st.shared.u32 [%r2], %r3;
    mbarrier.arrive.shared.b64 _, [bar];
    ret;
    MIDDLE:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra MIDDLE;
    mbarrier.arrive.shared.b64 _, [empty];
    ret;
    LAST:
    mbarrier.try_wait.parity.shared.b64 %p2, [empty], 0;
    @!%p2 bra LAST;
    ld.shared.u32 %r5, [%r2+-256];
    mad.wide.u32 %d2, %lane, 4, %out;
    st.global.u32 [%d2], %r5;
    """,
    [Out(np.uint32, 32)],
    lambda found: found[0].tolist() == [3 * n for n in range(32)],
    """The warp in the middle acquires the first phase and releases the second; base causality order is transitive
    (#causality-order), so the last warp sees the first one's words. Warps end when they have arrived.""",
    block=(96,),
    registers=_ROOM,
)

MBARRIERS = (_TOKENS, _RING, _PARTIAL, _DROPS, _REUSED, _RELAXED, _ONE_EACH, _CHAIN)
