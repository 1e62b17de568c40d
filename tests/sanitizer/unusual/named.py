"""Barriers of a CTA and of a warp: named barriers, partial counts, partial masks, threads that leave early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Out

from .table import Unusual, unusual

__all__ = ["NAMED"]

_GIVEN = (np.arange(6 * 32, dtype=np.uint32) * np.uint32(2246822519)).reshape(6, 32)

#: Warp w reads box w - 1 and writes box w. Barrier 1 + w: box w is full; barrier 4 + w: box w is empty.
_CHAIN = unusual(
    "three warps in a row, between them named barriers",
    "given:u64 out:u64",
    """
    mov.u32 %r1, room;
    shl.b32 %r2, %warp, 7;
    mad.lo.u32 %r2, %lane, 4, %r2;
    add.u32 %r2, %r1, %r2;
    mov.u32 %r20, 0;
    add.u32 %r3, %warp, 1;
    add.u32 %r4, %warp, 4;
    add.u32 %r6, %warp, 3;
    mad.wide.u32 %d1, %lane, 4, %given;
    mad.wide.u32 %d2, %lane, 4, %out;
    setp.eq.u32 %p1, %warp, 0;
    setp.eq.u32 %p2, %warp, 2;
    TURN:
    @!%p1 bra TAKE;
    ld.global.u32 %r10, [%d1];
    bra TAKEN;
    TAKE:
    bar.sync %warp, 64;
    xor.b32 %r7, %lane, 5;
    sub.u32 %r8, %r2, 128;
    mad.lo.u32 %r9, %lane, 4, 0;
    sub.u32 %r8, %r8, %r9;
    mad.lo.u32 %r8, %r7, 4, %r8;
    ld.shared.u32 %r10, [%r8];
    setp.eq.u32 %p4, %r20, 5;
    @!%p4 bar.arrive %r6, 64;
    TAKEN:
    add.u32 %r10, %r10, %warp;
    @%p2 bra LAST;
    setp.eq.u32 %p3, %r20, 0;
    @%p3 bra PUT;
    bar.sync %r4, 64;
    PUT:
    st.shared.u32 [%r2], %r10;
    bar.arrive %r3, 64;
    bra NEXT;
    LAST:
    st.global.u32 [%d2], %r10;
    NEXT:
    add.u64 %d1, %d1, 128;
    add.u64 %d2, %d2, 128;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p4, %r20, 6;
    @%p4 bra TURN;
    """,
    [In(_GIVEN), Out(np.uint32, (6, 32))],
    lambda found: bool(np.array_equal(found[0], _GIVEN + np.uint32(3))),
    """bar.arrive and bar.sync of two warps (64 threads) pair up on each barrier: an arrival synchronizes with the waits on
    the same barrier (#memory-synchronization, item 2), for full boxes one way and for empty boxes the other.""",
    block=(96,),
    registers=".shared .align 16 .b8 room[256];",
)

_OVERLAPPING = unusual(
    "barriers of overlapping groups of warps",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %thread, 4, %r1;
    st.shared.u32 [%r2], %thread;
    mov.u32 %r3, %thread;
    setp.eq.u32 %p1, %warp, 3;
    @%p1 bra SECOND;
    bar.sync 1, 96;
    add.u32 %r4, %thread, 32;
    setp.ge.u32 %p2, %r4, 96;
    @%p2 sub.u32 %r4, %r4, 96;
    mad.lo.u32 %r5, %r4, 4, %r1;
    ld.shared.u32 %r3, [%r5];
    setp.eq.u32 %p1, %warp, 0;
    @%p1 bra STORE;
    SECOND:
    bar.sync 2, 96;
    add.u32 %r4, %thread, 32;
    setp.ge.u32 %p2, %r4, 128;
    @%p2 sub.u32 %r4, %r4, 96;
    mad.lo.u32 %r5, %r4, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    mad.lo.u32 %r3, %r6, 1000, %r3;
    STORE:
    mad.wide.u32 %d1, %index, 4, %out;
    st.global.u32 [%d1], %r3;
    """,
    [Out(np.uint32, 128)],
    lambda found: _overlapped(found[0]),
    """Warps 0 to 2 meet at barrier 1, warps 1 to 3 at barrier 2, each with the count of its 96 threads
    (#parallel-synchronization-and-communication-instructions-bar): every read is of a warp of the same group.""",
    block=(128,),
    registers=".shared .align 16 .b8 room[512];",
)


def _overlapped(found: NDArray[Any]) -> bool:
    threads = np.arange(128)
    first = np.where(threads < 96, (threads + 32) % 96, threads)
    second = np.where(threads + 32 >= 128, threads + 32 - 96, threads + 32)
    return bool(np.array_equal(found, np.where(threads < 32, first, second * 1000 + first)))


_VOTES = unusual(
    "votes by bar.red, which also order memory",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %thread, 4, %r1;
    mov.u32 %r20, 0;
    mov.u32 %r10, 0;
    xor.b32 %r3, %thread, 64;
    mad.lo.u32 %r3, %r3, 4, %r1;
    TURN:
    add.u32 %r4, %thread, %r20;
    st.shared.u32 [%r2], %r4;
    and.b32 %r5, %r4, 3;
    setp.eq.u32 %p1, %r5, 0;
    bar.red.popc.u32 %r6, 0, %p1;
    ld.shared.u32 %r7, [%r3];
    add.u32 %r10, %r10, %r7;
    add.u32 %r10, %r10, %r6;
    setp.lt.u32 %p2, %r7, 1000;
    bar.red.and.pred %p3, 0, %p2;
    @%p3 add.u32 %r10, %r10, 1;
    add.u32 %r20, %r20, 1;
    setp.eq.u32 %p4, %r20, 3;
    setp.eq.and.u32 %p4, %thread, 77, %p4;
    bar.red.or.pred %p5, 1, 128, %p4;
    @!%p5 bra TURN;
    mad.wide.u32 %d1, %index, 4, %out;
    st.global.u32 [%d1], %r10;
    """,
    [Out(np.uint32, 128)],
    lambda found: bool(np.array_equal(found[0], 3 * (np.arange(128) ^ 64) + 0 + 1 + 2 + 3 * 32 + 3)),
    """bar.red synchronizes as bar.sync does (#memory-synchronization, item 2): the first vote orders the stores before the
    loads, the second the loads before the next round's stores; the third ends the loop in all threads alike.""",
    block=(128,),
    registers=".shared .align 16 .b8 room[512];",
)

_DIVERGED = unusual(
    "lanes of one warp that meet at a barrier from two places",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %thread, 4, %r1;
    xor.b32 %r3, %thread, 33;
    mad.lo.u32 %r3, %r3, 4, %r1;
    and.b32 %r4, %lane, 1;
    setp.eq.u32 %p1, %r4, 0;
    @%p1 bra EVEN;
    mul.lo.u32 %r5, %thread, 3;
    st.shared.u32 [%r2], %r5;
    barrier.sync 1, 64;
    ld.shared.u32 %r6, [%r3];
    bra JOIN;
    EVEN:
    mul.lo.u32 %r5, %thread, 7;
    st.shared.u32 [%r2], %r5;
    barrier.sync 1, 64;
    ld.shared.u32 %r6, [%r3];
    JOIN:
    mad.wide.u32 %d1, %index, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [Out(np.uint32, 64)],
    lambda found: found[0].tolist() == [n * (3 if n & 1 else 7) for n in (np.arange(64) ^ 33).tolist()],
    """barrier without .aligned counts threads wherever they execute it
    (#parallel-synchronization-and-communication-instructions-bar): even and odd lanes arrive at barrier 1 from two
    branches.""",
    block=(64,),
    registers=".shared .align 16 .b8 room[256];",
)

_LEAVERS = unusual(
    "warps that end before the barriers of the others",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %thread, 4, %r1;
    st.shared.u32 [%r2], %thread;
    setp.ge.u32 %p1, %warp, 2;
    @!%p1 bra STAY;
    bar.arrive 1, 128;
    ret;
    STAY:
    bar.sync 1, 128;
    add.u32 %r3, %thread, 64;
    mad.lo.u32 %r3, %r3, 4, %r1;
    ld.shared.u32 %r4, [%r3];
    st.shared.u32 [%r2], %r4;
    bar.sync 2, 64;
    xor.b32 %r5, %thread, 32;
    mad.lo.u32 %r5, %r5, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [Out(np.uint32, 64)],
    lambda found: found[0].tolist() == [64 + (n ^ 32) for n in range(64)],
    """Warps 2 and 3 arrive once and end; later barriers name the count of the 64 threads that are left, so they wait for no
    thread that has ended (#parallel-synchronization-and-communication-instructions-bar).""",
    block=(128,),
    registers=".shared .align 16 .b8 room[512];",
)

_TURNS = unusual(
    "two groups that take turns by arriving at each other's barrier",
    "out:u64",
    """
    mov.u32 %r1, room;
    and.b32 %r2, %thread, 63;
    shr.u32 %r3, %thread, 6;
    add.u32 %r4, %r3, 1;
    xor.b32 %r5, %r3, 1;
    add.u32 %r5, %r5, 1;
    mad.lo.u32 %r6, %r2, 4, %r1;
    mov.u32 %r20, 0;
    setp.eq.u32 %p1, %r3, 0;
    @!%p1 bra BEGIN;
    st.shared.u32 [%r6], %r2;
    bra TURN;
    BEGIN:
    bar.arrive 1, 128;
    TURN:
    bar.sync %r4, 128;
    xor.b32 %r7, %r2, %r20;
    xor.b32 %r7, %r7, 32;
    ld.shared.u32 %r8, [%r6];
    mad.lo.u32 %r8, %r8, 3, %r4;
    st.shared.u32 [%r6], %r8;
    add.u32 %r20, %r20, 1;
    setp.eq.u32 %p2, %r20, 4;
    @!%p2 bra HAND;
    @!%p1 bra OUT;
    HAND:
    bar.arrive %r5, 128;
    @!%p2 bra TURN;
    ret;
    OUT:
    mad.wide.u32 %d1, %r2, 4, %out;
    st.global.u32 [%d1], %r8;
    """,
    [Out(np.uint32, 64)],
    lambda found: _in_turns(found[0]),
    """Each group waits at its own barrier, updates the words and arrives at the other's: bar.arrive synchronizes with bar.sync
    (#memory-synchronization, item 2), so the updates alternate. Each barrier has 64 arrivals and 64 waits a turn.""",
    block=(128,),
    registers=".shared .align 16 .b8 room[256];",
)


def _in_turns(found: NDArray[Any]) -> bool:
    words = np.arange(64)
    for turn in range(8):
        words = words * 3 + 1 + turn % 2
    return bool(np.array_equal(found, words))


#: Warp 3 waits for what three warps announce at different times and work on.
_EVENT = unusual(
    "barrier as an event that three warps announce and go on",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %thread, 4, %r1;
    setp.eq.u32 %p1, %warp, 3;
    @%p1 bra WAIT;
    mul.lo.u32 %r3, %thread, 11;
    st.shared.u32 [%r2], %r3;
    bar.arrive 5, 128;
    add.u32 %r4, %thread, 1;
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r4;
    ret;
    WAIT:
    bar.sync 5, 128;
    mad.lo.u32 %r5, %lane, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    ld.shared.u32 %r7, [%r5+128];
    ld.shared.u32 %r8, [%r5+256];
    add.u32 %r6, %r6, %r7;
    add.u32 %r6, %r6, %r8;
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [Out(np.uint32, 128)],
    lambda found: found[0].tolist() == [n + 1 for n in range(96)] + [33 * n + 11 * 96 for n in range(32)],
    """Three warps arrive without waiting, the fourth waits for 128 threads, its own among them
    (#parallel-synchronization-and-communication-instructions-bar).""",
    block=(128,),
    registers=".shared .align 16 .b8 room[512];",
)

_TREE = unusual(
    "tree of a warp by bar.warp.sync with shrinking masks",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %lane, 4, %r1;
    add.u32 %r3, %lane, 1;
    st.shared.u32 [%r2], %r3;
    bar.warp.sync 0xffffffff;
    setp.ge.u32 %p1, %lane, 16;
    @%p1 bra DONE;
    ld.shared.u32 %r4, [%r2+64];
    add.u32 %r3, %r3, %r4;
    st.shared.u32 [%r2], %r3;
    bar.warp.sync 0x0000ffff;
    setp.ge.u32 %p1, %lane, 8;
    @%p1 bra DONE;
    ld.shared.u32 %r4, [%r2+32];
    add.u32 %r3, %r3, %r4;
    st.shared.u32 [%r2], %r3;
    bar.warp.sync 0x000000ff;
    setp.ge.u32 %p1, %lane, 4;
    @%p1 bra DONE;
    ld.shared.u32 %r4, [%r2+16];
    add.u32 %r3, %r3, %r4;
    st.shared.u32 [%r2], %r3;
    bar.warp.sync 0x0000000f;
    setp.ne.u32 %p1, %lane, 0;
    @%p1 bra DONE;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];
    add.u32 %r4, %r4, %r5;
    add.u32 %r6, %r6, %r7;
    add.u32 %r4, %r4, %r6;
    st.global.u32 [%out], %r4;
    DONE:
    """,
    [Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == 528,
    """bar.warp.sync orders memory among the lanes of its mask
    (#parallel-synchronization-and-communication-instructions-bar-warp-sync); each step reads only what lanes of the last
    mask wrote, and lanes that have ended are in no later mask.""",
    registers=".shared .align 16 .b8 room[128];",
)

_HALVES = unusual(
    "halves of a warp that run apart, each with its own mask",
    "out:u64",
    """
    mov.u32 %r1, room;
    mad.lo.u32 %r2, %lane, 4, %r1;
    mov.u32 %r20, 0;
    setp.ge.u32 %p1, %lane, 16;
    @%p1 bra HIGH;
    LOW:
    add.u32 %r3, %lane, %r20;
    st.shared.u32 [%r2], %r3;
    bar.warp.sync 0x0000ffff;
    xor.b32 %r4, %lane, 9;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    bar.warp.sync 0x0000ffff;
    add.u32 %r20, %r20, %r5;
    setp.lt.u32 %p2, %r20, 40;
    vote.sync.all.pred %p2, %p2, 0x0000ffff;
    @%p2 bra LOW;
    bra JOIN;
    HIGH:
    st.shared.u32 [%r2], %lane;
    bar.warp.sync 0xffff0000;
    xor.b32 %r4, %lane, 3;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    mov.u32 %r20, %r5;
    JOIN:
    bar.warp.sync 0xffffffff;
    st.shared.u32 [%r2], %r20;
    bar.warp.sync 0xffffffff;
    xor.b32 %r4, %lane, 16;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.shared.u32 %r6, [%r4];
    mad.wide.u32 %d1, %lane, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [Out(np.uint32, 32)],
    lambda found: _halved(found[0]),
    """Each half exchanges words under its own mask while the other is elsewhere; the full mask joins them before the halves
    read each other's words (#parallel-synchronization-and-communication-instructions-bar-warp-sync).""",
    registers=".shared .align 16 .b8 room[128];",
)


def _halved(found: NDArray[Any]) -> bool:
    lanes = np.arange(16)
    low = np.zeros(16, np.int64)
    while True:
        low = low + (lanes + low)[lanes ^ 9]
        if not (low < 40).all():
            break
    high = np.arange(16, 32) ^ 3
    return bool(np.array_equal(found, np.concatenate([high, low])))


#: Two warpgroups of 128 threads with 168 registers each.
_REGISTERS = unusual(
    "registers handed from one warpgroup to the other",
    "out:u64",
    """
    mov.u32 %r1, room;
    and.b32 %r2, %thread, 127;
    mad.lo.u32 %r2, %r2, 4, %r1;
    setp.ge.u32 %p1, %thread, 128;
    @%p1 bra TAKER;
    mul.lo.u32 %r3, %thread, 5;
    st.shared.u32 [%r2], %r3;
    bar.arrive 1, 256;
    setmaxnreg.dec.sync.aligned.u32 40;
    bar.sync 2, 256;
    setmaxnreg.inc.sync.aligned.u32 160;
    ret;
    TAKER:
    setmaxnreg.inc.sync.aligned.u32 232;
    bar.sync 1, 256;
    ld.shared.u32 %r4, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1+-512], %r4;
    setmaxnreg.dec.sync.aligned.u32 104;
    bar.arrive 2, 256;
    """,
    [Out(np.uint32, 128)],
    lambda found: found[0].tolist() == [5 * n for n in range(128)],
    """setmaxnreg.inc waits until the other warpgroup has released enough registers of the CTA's pool
    (#miscellaneous-instructions-setmaxnreg): 168 + 168 hold 40 + 232 and 160 + 104. It orders no memory; the named
    barriers do.""",
    block=(256,),
    registers=".shared .align 16 .b8 room[512];",
    directives=".maxntid 256 .maxnreg 168",
)

NAMED: Sequence[Unusual] = (
    *(_CHAIN, _OVERLAPPING, _VOTES, _DIVERGED, _LEAVERS, _TURNS, _EVENT, _TREE, _HALVES, _REGISTERS),
)
