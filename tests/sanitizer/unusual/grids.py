"""What CTAs of one grid do together: barriers of the grid, last-block reductions, scans, queues and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Out

from .table import Unusual, unusual

__all__ = ["GRIDS"]

CTAS, THREADS, ROUNDS = 4, 64, 3

#: In each round every thread adds its left neighbor's number, which another CTA may have written in the round before.
_ROUNDS = """
mov.u32 %r30, 0;
mov.u32 %r31, 0;
mov.u32 %r29, %index;
mad.wide.u32 %d20, %index, 4, %data;
setp.eq.u32 %p15, %thread, 0;
ROUND:
st.global.u32 [%d20], %r29;
{barrier}
add.u32 %r28, %index, 255;
and.b32 %r28, %r28, 255;
mad.wide.u32 %d21, %r28, 4, %data;
ld.global.u32 %r27, [%d21];
add.u32 %r29, %r29, %r27;
{second}
add.u32 %r30, %r30, 1;
setp.lt.u32 %p14, %r30, 3;
@%p14 bra ROUND;
mad.wide.u32 %d22, %index, 4, %out;
st.global.u32 [%d22], %r29;
"""


def _summed(found: Sequence[NDArray[Any]]) -> bool:
    numbers = np.arange(CTAS * THREADS, dtype=np.uint32)
    for _ in range(ROUNDS):
        numbers = numbers + np.roll(numbers, 1)
    return bool(np.array_equal(found[2], numbers))


def _barrier(name: str, code: str, why: str, *, words: int = 4, **more: Any) -> Unusual:
    """A barrier of the grid in ``code``, in which ``{n}`` is 0 or 1: it stands twice in each round."""
    body = _ROUNDS.format(barrier=code.replace("{n}", "0"), second=code.replace("{n}", "1"))
    size = CTAS * THREADS
    arguments = (Out(np.uint32, size), Out(np.uint32, words), Out(np.uint32, size))
    return unusual(
        name,
        "data:u64 state:u64 out:u64",
        body,
        arguments,
        _summed,
        why,
        grid=(CTAS,),
        block=(THREADS,),
        **more,
    )


SENSE = _barrier(
    "grid barrier that reverses its sense",
    """
    bar.sync 0;
    @!%p15 bra OUT{n};
    ld.relaxed.gpu.global.u32 %r1, [%state+4];
    atom.acq_rel.gpu.global.add.u32 %r0, [%state], 1;
    setp.ne.u32 %p1, %r0, 3;
    @%p1 bra WAIT{n};
    st.relaxed.gpu.global.u32 [%state], 0;
    xor.b32 %r2, %r1, 1;
    st.release.gpu.global.u32 [%state+4], %r2;
    bra OUT{n};
    WAIT{n}:
    ld.acquire.gpu.global.u32 %r2, [%state+4];
    setp.eq.u32 %p1, %r2, %r1;
    @%p1 bra WAIT{n};
    OUT{n}:
    bar.sync 0;
    """,
    """Arrivals are atom.acq_rel on one word, so the last one observes all (#observation-order); it releases the new sense,
    which the others acquire. bar.sync extends the order to the threads of each CTA (#causality-order). The sense cannot
    turn while a CTA has yet to arrive, so its relaxed read is of the current one.""",
)

COUNTER = _barrier(
    "grid barrier that counts on",
    """
    bar.sync 0;
    @!%p15 bra OUT{n};
    atom.add.release.gpu.global.u32 %r0, [%state], 1;
    or.b32 %r0, %r0, 3;
    WAIT{n}:
    ld.acquire.gpu.global.u32 %r2, [%state];
    setp.le.u32 %p1, %r2, %r0;
    @%p1 bra WAIT{n};
    OUT{n}:
    bar.sync 0;
    """,
    """The counter only grows; who reads the round's last value or a later one observes all releases through the chain of
    atomics (#observation-order).""",
)

REDUCTION = _barrier(
    "grid barrier by red.release and ld.acquire",
    """
    bar.sync 0;
    add.u32 %r31, %r31, 4;
    @!%p15 bra OUT{n};
    red.release.gpu.global.add.u32 [%state], 1;
    WAIT{n}:
    ld.acquire.gpu.global.u32 %r2, [%state];
    setp.lt.u32 %p1, %r2, %r31;
    @%p1 bra WAIT{n};
    OUT{n}:
    bar.sync 0;
    """,
    """red is an atomic operation (#operation-types): its releases form a chain that the polling ld.acquire observes. Each
    thread counts the arrivals that it waits for in a register.""",
)

COOPERATIVE = _barrier(
    "grid barrier of cooperative groups",
    """
    bar.sync 0;
    @!%p15 bra OUT{n};
    mov.u32 %r3, %ctaid.x;
    setp.eq.u32 %p2, %r3, 0;
    selp.b32 %r4, 0x7ffffffd, 1, %p2;
    fence.acq_rel.gpu;
    atom.relaxed.gpu.global.add.u32 %r0, [%state], %r4;
    WAIT{n}:
    ld.relaxed.gpu.global.u32 %r2, [%state];
    xor.b32 %r2, %r2, %r0;
    and.b32 %r2, %r2, 0x80000000;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra WAIT{n};
    fence.acq_rel.gpu;
    OUT{n}:
    bar.sync 0;
    """,
    """CTA 0 adds 2**31 - 3, the others 1, so the top bit turns when all have arrived. fence; atom.relaxed and ld.relaxed;
    fence are release and acquire pattern (#release-acquire-patterns, form 3).""",
)

VOLATILE = _barrier(
    "grid barrier by membar.gl, atom and ld.volatile",
    """
    bar.sync 0;
    @!%p15 bra OUT{n};
    membar.gl;
    atom.global.inc.u32 %r0, [%state], 3;
    setp.ne.u32 %p1, %r0, 3;
    @%p1 bra WAIT{n};
    membar.gl;
    atom.global.add.u32 %r0, [%state+4], 1;
    WAIT{n}:
    ld.volatile.global.u32 %r2, [%state+4];
    setp.le.u32 %p1, %r2, %r31;
    @%p1 bra WAIT{n};
    membar.gl;
    add.u32 %r31, %r31, 1;
    OUT{n}:
    bar.sync 0;
    """,
    """atom.inc wraps at the last arrival, which counts a generation; membar.gl is fence.sc.gpu
    (#parallel-synchronization-and-communication-instructions-membar), ld.volatile is relaxed.sys
    (#volatile-operation).""",
)

DISSEMINATION = _barrier(
    "grid barrier by dissemination",
    """
    bar.sync 0;
    @!%p15 bra OUT{n};
    add.u32 %r31, %r31, 1;
    mov.u32 %r3, %ctaid.x;
    mad.wide.u32 %d1, %r3, 4, %state;
    add.u32 %r4, %r3, 1;
    and.b32 %r4, %r4, 3;
    mad.wide.u32 %d2, %r4, 4, %state;
    st.release.gpu.global.u32 [%d2], %r31;
    FIRST{n}:
    ld.acquire.gpu.global.u32 %r2, [%d1];
    setp.lt.u32 %p1, %r2, %r31;
    @%p1 bra FIRST{n};
    add.u32 %r4, %r3, 2;
    and.b32 %r4, %r4, 3;
    mad.wide.u32 %d2, %r4, 4, %state;
    st.release.gpu.global.u32 [%d2+16], %r31;
    SECOND{n}:
    ld.acquire.gpu.global.u32 %r2, [%d1+16];
    setp.lt.u32 %p1, %r2, %r31;
    @%p1 bra SECOND{n};
    OUT{n}:
    bar.sync 0;
    """,
    """CTA i tells i + 1, then i + 2, and waits for i - 1, then i - 2: every CTA is reached by a path of releases and acquires
    (#causality-order is transitive). Each flag has one writer, which counts up.""",
    words=8,
)

CLUSTERED = _barrier(
    "grid barrier of clusters, whose first CTAs count",
    """
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    add.u32 %r31, %r31, 2;
    mov.u32 %r3, %cluster_ctarank;
    setp.ne.or.u32 %p1, %r3, 0, !%p15;
    @%p1 bra OUT{n};
    red.release.gpu.global.add.u32 [%state], 1;
    WAIT{n}:
    ld.acquire.gpu.global.u32 %r2, [%state];
    setp.lt.u32 %p1, %r2, %r31;
    @%p1 bra WAIT{n};
    OUT{n}:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    """,
    """barrier.cluster orders the threads of both CTAs (#memory-synchronization, item 3), red.release and ld.acquire the
    clusters; causality composes the three.""",
    cluster=(2,),
)

#: Each CTA sums its 64 numbers, writes its partial sum, and counts; the last CTA adds the partial sums.
_LAST = """
mad.wide.u32 %d1, %index, 4, %given;
ld.global.u32 %r1, [%d1];
red.relaxed.cta.shared.add.u32 [room], %r1;
bar.sync 0;
setp.eq.u32 %p1, %thread, 0;
@!%p1 bra COUNTED;
ld.shared.u32 %r2, [room];
mov.u32 %r3, %ctaid.x;
mad.wide.u32 %d2, %r3, 4, %part;
st.global.u32 [%d2], %r2;
{count}
st.shared.u32 [room+4], %r4;
COUNTED:
bar.sync 0;
ld.shared.u32 %r4, [room+4];
setp.ne.u32 %p2, %r4, 3;
@%p2 bra DONE;
setp.ge.u32 %p2, %thread, 4;
@%p2 bra DONE;
mad.wide.u32 %d2, %thread, 4, %part;
ld.global.u32 %r5, [%d2];
red.relaxed.gpu.global.add.u32 [%out], %r5;
DONE:
"""
_NUMBERS = np.arange(CTAS * THREADS, dtype=np.uint32) * np.uint32(2654435761) >> np.uint32(20)


def _last(name: str, count: str, why: str) -> Unusual:
    begin = """
    setp.eq.u32 %p1, %thread, 0;
    @%p1 st.shared.u32 [room], 0;
    bar.sync 0;
    """
    return unusual(
        name,
        "given:u64 part:u64 count:u64 out:u64",
        begin + _LAST.format(count=count),
        [In(_NUMBERS), Out(np.uint32, 4), Out(np.uint32, 1), Out(np.uint32, 1)],
        lambda found: int(found[2][0]) == int(_NUMBERS.sum()),
        why,
        grid=(CTAS,),
        block=(THREADS,),
        registers=".shared .align 8 .b8 room[8];",
    )


LAST_FENCE = _last(
    "last block adds up, after membar.gl",
    "membar.gl; atom.global.inc.u32 %r4, [%count], 3; membar.gl;",
    """membar.gl; atom is a release pattern and atom; membar.gl an acquire pattern; the last count observes all others
    through the atomics between (#observation-order). bar.sync hands the order on to the CTA's other threads.""",
)

LAST_ATOMIC = _last(
    "last block adds up, by atom.acq_rel",
    "atom.acq_rel.gpu.global.add.u32 %r4, [%count], 1;",
    """Each count releases the CTA's partial sum and acquires those counted before (#observation-order); bar.sync hands the
    order on to the threads that read the sums.""",
)

#: Each CTA of 32 threads scans its numbers and looks back over its predecessors' words for the sum before it.
_SCAN = """
mad.wide.u32 %d1, %index, 4, %given;
ld.global.u32 %r1, [%d1];
mov.u32 %r2, 1;
SHIFT:
shfl.sync.up.b32 %r3|%p1, %r1, %r2, 0, 0xffffffff;
@%p1 add.u32 %r1, %r1, %r3;
shl.b32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, 32;
@%p2 bra SHIFT;
shfl.sync.idx.b32 %r4, %r1, 31, 31, 0xffffffff;
mov.u32 %r5, %ctaid.x;
mov.u32 %r6, 0;
setp.ne.u32 %p3, %lane, 0;
@%p3 bra KNOWN;
{lookback}
KNOWN:
shfl.sync.idx.b32 %r6, %r6, 0, 31, 0xffffffff;
add.u32 %r1, %r1, %r6;
mad.wide.u32 %d2, %index, 4, %out;
st.global.u32 [%d2], %r1;
"""
_SCAN_CTAS = 6
_SCANNED = (np.arange(_SCAN_CTAS * 32, dtype=np.uint32) * np.uint32(40503)) >> np.uint32(8)


def _scan(name: str, lookback: str, words: int, dtype: Any, why: str) -> Unusual:
    return unusual(
        name,
        "given:u64 state:u64 out:u64",
        _SCAN.format(lookback=lookback),
        [In(_SCANNED), Out(dtype, words), Out(np.uint32, _SCANNED.size)],
        lambda found: bool(np.array_equal(found[1], np.cumsum(_SCANNED, dtype=np.uint32))),
        why,
        grid=(_SCAN_CTAS,),
    )


SCAN_PACKED = _scan(
    "look-back scan whose state and value are one relaxed word",
    """
    mad.wide.u32 %d3, %r5, 8, %state;
    mov.b64 %d4, {%r4, 1};
    setp.eq.u32 %p4, %r5, 0;
    @%p4 mov.b64 %d4, {%r4, 2};
    st.relaxed.gpu.global.b64 [%d3], %d4;
    @%p4 bra KNOWN;
    mov.b64 %d5, %d3;
    BACK:
    ld.relaxed.gpu.global.b64 %d6, [%d5+-8];
    mov.b64 {%r7, %r8}, %d6;
    setp.eq.u32 %p5, %r8, 0;
    @%p5 bra BACK;
    add.u32 %r6, %r6, %r7;
    sub.u64 %d5, %d5, 8;
    setp.eq.u32 %p5, %r8, 1;
    @%p5 bra BACK;
    add.u32 %r9, %r6, %r4;
    mov.b64 %d4, {%r9, 2};
    st.relaxed.gpu.global.b64 [%d3], %d4;
    """,
    _SCAN_CTAS,
    np.uint64,
    """The 64-bit word carries the value itself and is read and written with single-copy atomicity by strong operations of
    one size (#atomicity-axiom), so no other data must be ordered. Lane 0 passes the sum on in a register.""",
)

SCAN_WORDS = _scan(
    "look-back scan whose values are handed over by a released state",
    """
    mad.wide.u32 %d3, %r5, 16, %state;
    st.global.u32 [%d3+4], %r4;
    mov.u32 %r10, 1;
    setp.eq.u32 %p4, %r5, 0;
    @!%p4 bra FIRST;
    st.global.u32 [%d3+8], %r4;
    mov.u32 %r10, 2;
    FIRST:
    st.release.gpu.global.u32 [%d3], %r10;
    @%p4 bra KNOWN;
    mov.b64 %d5, %d3;
    BACK:
    ld.acquire.gpu.global.u32 %r8, [%d5+-16];
    setp.eq.u32 %p5, %r8, 0;
    @%p5 bra BACK;
    sub.u64 %d5, %d5, 16;
    setp.eq.u32 %p5, %r8, 1;
    @!%p5 ld.global.u32 %r7, [%d5+8];
    @%p5 ld.global.u32 %r7, [%d5+4];
    add.u32 %r6, %r6, %r7;
    @%p5 bra BACK;
    add.u32 %r9, %r6, %r4;
    st.global.u32 [%d3+8], %r9;
    st.release.gpu.global.u32 [%d3], 2;
    """,
    4 * _SCAN_CTAS,
    np.uint32,
    """Sum of the tile and sum up to the tile are different words, each written once before the state that announces it is
    released; readers read only the word whose state they acquired (#release-acquire-patterns).""",
)

_QUEUE = unusual(
    "tiles drawn from an atomic counter",
    "next:u64 out:u64",
    """
    setp.eq.u32 %p1, %thread, 0;
    DRAW:
    @!%p1 bra DRAWN;
    atom.relaxed.gpu.global.add.u32 %r1, [%next], 1;
    st.shared.u32 [tile], %r1;
    DRAWN:
    bar.sync 0;
    ld.shared.u32 %r2, [tile];
    bar.sync 0;
    setp.ge.u32 %p2, %r2, 10;
    @%p2 bra DONE;
    mad.lo.u32 %r3, %r2, 64, %thread;
    mad.wide.u32 %d1, %r3, 4, %out;
    mul.lo.u32 %r4, %r3, 5;
    st.global.u32 [%d1], %r4;
    bra DRAW;
    DONE:
    """,
    [Out(np.uint32, 1), Out(np.uint32, 640)],
    lambda found: (
        bool(np.array_equal(found[1], np.arange(640, dtype=np.uint32) * 5)) and int(found[0][0]) == 13
    ),
    """Atomicity gives each tile to one CTA (#atomicity-axiom), so the CTAs write different words and no order between CTAs is
    needed. One bar.sync hands the number to the threads, the other protects it until all have read it.""",
    grid=(3,),
    block=(64,),
    registers=".shared .align 4 .b8 tile[4];",
)

#: CTAs 0 and 1 put 6 numbers each into a ring of 4 cells (sequence number, value), CTAs 2 and 3 take 6 each.
_RING = unusual(
    "ring of several producers and consumers with a number for each cell",
    "cells:u64 ends:u64 out:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.u32 %r5, %ctaid.x;
    shr.u32 %r6, %r5, 1;
    and.b32 %r7, %r5, 1;
    mad.wide.u32 %d1, %r6, 4, %ends;
    setp.eq.u32 %p2, %r6, 0;
    mov.u32 %r20, 0;
    TURN:
    atom.relaxed.gpu.global.add.u32 %r1, [%d1], 1;
    and.b32 %r2, %r1, 3;
    mad.wide.u32 %d2, %r2, 8, %cells;
    add.u32 %r3, %r1, %r6;
    WAIT:
    ld.acquire.gpu.global.u32 %r4, [%d2];
    setp.ne.u32 %p3, %r4, %r3;
    @%p3 bra WAIT;
    mad.lo.u32 %r8, %r7, 100, %r20;
    add.u32 %r9, %r3, 1;
    add.u32 %r10, %r1, 4;
    @!%p2 bra TAKE;
    st.global.u32 [%d2+4], %r8;
    st.release.gpu.global.u32 [%d2], %r9;
    bra NEXT;
    TAKE:
    ld.global.u32 %r8, [%d2+4];
    st.release.gpu.global.u32 [%d2], %r10;
    mad.wide.u32 %d3, %r1, 4, %out;
    st.global.u32 [%d3], %r8;
    NEXT:
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p3, %r20, 6;
    @%p3 bra TURN;
    DONE:
    """,
    [
        Out(np.uint32, (4, 2), initial=np.array([[n, 0] for n in range(4)], np.uint32)),
        Out(np.uint32, 2),
        Out(np.uint32, 12),
    ],
    lambda found: sorted(found[2].tolist()) == [*range(6), *range(100, 106)],
    """A cell's number says whose turn it is: producer of round k, consumer of round k, producer of round k + 1. Each hands the
    cell's weak word on by st.release to the next one's ld.acquire (#release-acquire-patterns).""",
    grid=(4,),
)

_KEYS = (np.arange(128, dtype=np.uint32) * np.uint32(7) % np.uint32(23)) + np.uint32(1)


def _counted(found: Sequence[NDArray[Any]]) -> bool:
    table = {int(key): int(count) for key, count in found[0] if key}
    keys, counts = np.unique(_KEYS, return_counts=True)
    return table == dict(zip(keys.tolist(), counts.tolist(), strict=True))


_HASH = unusual(
    "hash table of counters filled by compare-and-swap",
    "table:u64 given:u64",
    """
    mad.wide.u32 %d1, %index, 4, %given;
    ld.global.u32 %r1, [%d1];
    mul.lo.u32 %r2, %r1, 11;
    PROBE:
    and.b32 %r2, %r2, 31;
    mad.wide.u32 %d2, %r2, 8, %table;
    ld.relaxed.gpu.global.u32 %r3, [%d2];
    setp.eq.u32 %p1, %r3, %r1;
    @%p1 bra FOUND;
    add.u32 %r2, %r2, 1;
    setp.ne.u32 %p2, %r3, 0;
    @%p2 bra PROBE;
    atom.relaxed.gpu.global.cas.b32 %r3, [%d2], 0, %r1;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra FOUND;
    setp.ne.u32 %p1, %r3, %r1;
    @%p1 bra PROBE;
    FOUND:
    red.relaxed.gpu.global.add.u32 [%d2+4], 1;
    """,
    [Out(np.uint32, (32, 2)), In(_KEYS)],
    _counted,
    """Keys are written once by compare-and-swap and read by strong loads; counts are relaxed reductions. All conflicting
    accesses are strong, of one size and scope gpu (#conflict-and-data-races); nothing else is handed over.""",
    grid=(2,),
    block=(64,),
)


def _stacked(found: Sequence[NDArray[Any]]) -> bool:
    values = found[2]
    return int(values[-1]) == 64 and sorted(values[:-1].tolist()) == [3 * n for n in range(64)]


#: All threads of CTAs 0 to 3 push; the CTA that counts last pops everything and walks the list.
_STACK = unusual(
    "stack that threads push onto by compare-and-swap, taken whole",
    "nodes:u64 head:u64 out:u64",
    """
    mad.wide.u32 %d1, %index, 8, %nodes;
    mul.lo.u32 %r1, %index, 3;
    st.global.u32 [%d1+4], %r1;
    add.u32 %r2, %index, 1;
    ld.relaxed.gpu.global.u32 %r3, [%head];
    mov.pred %p1, 0;
    PUSH:
    st.global.u32 [%d1], %r3;
    atom.release.gpu.global.cas.b32 %r4, [%head], %r3, %r2;
    setp.eq.u32 %p1, %r4, %r3;
    mov.u32 %r3, %r4;
    @!%p1 bra PUSH;
    bar.sync 0;
    setp.ne.u32 %p2, %thread, 0;
    @%p2 bra DONE;
    atom.relaxed.gpu.global.add.u32 %r5, [%head+4], 1;
    setp.ne.u32 %p2, %r5, 3;
    @%p2 bra DONE;
    mov.u32 %r7, 0;
    POP:
    atom.acquire.gpu.global.exch.b32 %r6, [%head], 0;
    WALK:
    setp.eq.u32 %p3, %r6, 0;
    @%p3 bra EMPTY;
    sub.u32 %r8, %r6, 1;
    mad.wide.u32 %d2, %r8, 8, %nodes;
    ld.global.u32 %r6, [%d2];
    ld.global.u32 %r9, [%d2+4];
    mad.wide.u32 %d3, %r7, 4, %out;
    st.global.u32 [%d3], %r9;
    add.u32 %r7, %r7, 1;
    bra WALK;
    EMPTY:
    setp.lt.u32 %p3, %r7, 64;
    @%p3 bra POP;
    st.global.u32 [%out+256], %r7;
    DONE:
    """,
    [Out(np.uint32, (64, 2)), Out(np.uint32, 2), Out(np.uint32, 65)],
    _stacked,
    """Each push releases its node by cas.release; the exchange that takes the list observes every push in it through the
    chain of atomics on the head (#observation-order). The count is relaxed, so the taker repeats until it has all.""",
    grid=(4,),
    block=(16,),
)

_PROGRESS = unusual(
    "relaxed counter that others look at",
    "count:u64 seen:u64",
    """
    mov.u32 %r5, %ctaid.x;
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra LOOK;
    red.relaxed.gpu.global.add.u32 [%count], 1;
    bra DONE;
    LOOK:
    setp.ne.u32 %p2, %thread, 0;
    @%p2 bra DONE;
    ld.relaxed.gpu.global.u32 %r1, [%count];
    ld.relaxed.gpu.global.u32 %r2, [%count];
    setp.gt.u32 %p3, %r1, %r2;
    @%p3 st.global.u32 [%seen], 1;
    DONE:
    """,
    [Out(np.uint32, 1), Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == 96 and not found[1].any(),
    """Strong loads beside strong reductions are no race (#conflict-and-data-races), and two loads of one thread see a counter
    that never falls (coherence of reads, #sc-per-loc-axiom).""",
    grid=(4,),
)

_FLOATS = unusual(
    "sums of floats in open order",
    "sums:u64 given:u64",
    """
    mad.wide.u32 %d1, %index, 16, %given;
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];
    red.relaxed.gpu.global.add.v4.f32 [%sums], {%f1, %f2, %f3, %f4};
    red.relaxed.gpu.global.add.f32 [%sums+16], %f1;
    atom.relaxed.gpu.global.add.f32 %f5, [%sums+20], %f2;
    cvt.rn.f16x2.f32 %r1, %f4, %f3;
    red.relaxed.gpu.global.add.noftz.f16x2 [%sums+24], %r1;
    """,
    [
        Out(np.float32, 8),
        In(np.arange(512, dtype=np.uint32).reshape(128, 4).astype(np.float32) % np.float32(5)),
    ],
    lambda found: _float_sums(found[0]),
    """A vector reduction is scalar reductions in unspecified order (#vector-data-types of the model), a packed one a pair
    (#packed-data-types): all are relaxed atomics of scope gpu. The sums are of small integers, so every order gives the
    same bits.""",
    grid=(2,),
    block=(64,),
)


def _float_sums(sums: NDArray[Any]) -> bool:
    given = (np.arange(512).reshape(128, 4) % 5).sum(axis=0).tolist()
    halves = sums[6:7].view(np.float16).tolist()
    return bool(sums[:6].tolist() == [*given, *given[:2]] and halves == given[2:])


#: Two or four CTAs, one thread each; the outcome is read back and must be one that the model allows.
_LITMUS = """
setp.ne.u32 %p1, %thread, 0;
@%p1 bra DONE;
mov.u32 %r5, %ctaid.x;
xor.b32 %r6, %r5, 1;
mad.wide.u32 %d1, %r5, 4, %x;
mad.wide.u32 %d2, %r6, 4, %x;
mad.wide.u32 %d3, %r5, 8, %out;
{code}
DONE:
"""


def _litmus(
    name: str, code: str, allowed: Callable[[list[int], list[list[int]]], bool], why: str, ctas: int = 2
) -> Unusual:
    return unusual(
        name,
        "x:u64 out:u64",
        _LITMUS.format(code=code),
        [Out(np.uint32, 2), Out(np.uint32, (ctas, 2))],
        lambda found: allowed(found[0].tolist(), found[1].tolist()),
        why,
        grid=(ctas,),
    )


SB_RELAXED = _litmus(
    "store buffering by relaxed operations",
    """
    st.relaxed.gpu.global.u32 [%d1], 1;
    ld.relaxed.gpu.global.u32 %r1, [%d2];
    st.global.u32 [%d3], %r1;
    """,
    lambda _x, out: {out[0][0], out[1][0]} <= {0, 1},
    """All four outcomes are allowed: relaxed operations order nothing (#causality-order), and strong ones do not race
    (#conflict-and-data-races).""",
)

SB_FENCED = _litmus(
    "store buffering with fence.sc",
    """
    st.relaxed.gpu.global.u32 [%d1], 1;
    fence.sc.gpu;
    ld.relaxed.gpu.global.u32 %r1, [%d2];
    st.global.u32 [%d3], %r1;
    """,
    lambda _x, out: (out[0][0], out[1][0]) != (0, 0),
    """Fence-SC order relates the two fences (#fence-sc-order): one of the loads sees the other's store.""",
)

LB_RELAXED = _litmus(
    "load buffering by relaxed operations",
    """
    ld.relaxed.gpu.global.u32 %r1, [%d2];
    st.relaxed.gpu.global.u32 [%d1], 1;
    st.global.u32 [%d3], %r1;
    """,
    lambda _x, out: {out[0][0], out[1][0]} <= {0, 1},
    """Both loads may even return 1: the model permits load buffering without dependencies (#no-thin-air-axiom).""",
)

TWO_WRITES = _litmus(
    "two writers of the same two words",
    """
    add.u32 %r1, %r5, 1;
    st.relaxed.gpu.global.u32 [%d1], %r1;
    st.relaxed.gpu.global.u32 [%d2], %r1;
    st.global.u32 [%d3], %r1;
    """,
    lambda x, _out: set(x) <= {1, 2},
    """Strong stores to one word are ordered by coherence (#coherence-order) and race with none, but not across words: every
    mixture may remain.""",
)

READS = _litmus(
    "two loads of a word that another thread counts up",
    """
    setp.eq.u32 %p2, %r5, 0;
    @%p2 st.relaxed.gpu.global.u32 [%x], 1;
    @%p2 st.relaxed.gpu.global.u32 [%x], 2;
    @%p2 bra DONE;
    ld.relaxed.gpu.global.u32 %r1, [%x];
    ld.relaxed.gpu.global.u32 %r2, [%x];
    st.global.u32 [%d3], %r1;
    st.global.u32 [%d3+4], %r2;
    """,
    lambda _x, out: all(first <= second for first, second in out),
    """Morally strong operations on one location are sequentially consistent (#sc-per-loc-axiom): the second load never
    returns an older value.""",
    ctas=3,
)

IRIW = _litmus(
    "independent reads of independent writes with fence.sc",
    """
    shr.u32 %r7, %r5, 1;
    setp.eq.u32 %p2, %r7, 0;
    @%p2 st.relaxed.gpu.global.u32 [%d1], 1;
    @%p2 bra DONE;
    and.b32 %r6, %r5, 1;
    xor.b32 %r7, %r6, 1;
    mad.wide.u32 %d1, %r6, 4, %x;
    mad.wide.u32 %d2, %r7, 4, %x;
    ld.relaxed.gpu.global.u32 %r1, [%d1];
    fence.sc.gpu;
    ld.relaxed.gpu.global.u32 %r2, [%d2];
    st.global.u32 [%d3], %r1;
    st.global.u32 [%d3+4], %r2;
    """,
    lambda _x, out: [out[2], out[3]] != [[1, 0], [1, 0]],
    """All accesses to the two words are strong. With fence.sc between the loads the readers agree on the order of the two
    writes (#fence-sc-order, #causality-order: base causality after observation).""",
    ctas=4,
)

GRIDS = (
    *(SENSE, COUNTER, REDUCTION, COOPERATIVE, VOLATILE, DISSEMINATION, CLUSTERED, LAST_FENCE, LAST_ATOMIC),
    *(SCAN_PACKED, SCAN_WORDS, _QUEUE, _RING, _HASH, _STACK, _PROGRESS, _FLOATS),
    *(SB_RELAXED, SB_FENCED, LB_RELAXED, TWO_WRITES, READS, IRIW),
)
