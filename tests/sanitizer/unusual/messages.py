"""Message passing: each legal way in which one thread hands ordinary data to another through a flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import Out

from .table import Unusual, unusual

__all__ = ["MESSAGES"]

#: One thread a CTA. CTA 0 writes data and raises the flag, the last CTA waits and reads the data.
_PASS = """
setp.ne.u32 %p1, %thread, 0;
@%p1 bra DONE;
mov.u32 %r5, %ctaid.x;
setp.ne.u32 %p2, %r5, 0;
@%p2 bra OTHERS;
st.global.u32 [%data], 41;
st.global.u32 [%data+4], 42;
{send}
bra DONE;
OTHERS:
{middle}
POLL:
{receive}
ld.global.u32 %r1, [%data];
ld.global.u32 %r2, [%data+4];
st.global.u32 [%out], %r1;
st.global.u32 [%out+4], %r2;
DONE:
"""
#: Repeats ``receive`` until the flag has the value.
_UNTIL = "setp.ne.u32 %p3, %r0, {value}; @%p3 bra POLL;"


def _read(found: Sequence[NDArray[Any]]) -> bool:
    return bool(found[2].tolist() == [41, 42])


def _message(
    name: str,
    send: str,
    receive: str,
    why: str,
    *,
    middle: str = "",
    ctas: int = 2,
    value: int = 1,
    after: str = "",
) -> Unusual:
    """A message from CTA 0 to the last CTA; ``middle`` is what CTAs between them do."""
    body = _PASS.format(send=send, receive=f"{receive}\n{_UNTIL.format(value=value)}\n{after}", middle=middle)
    arguments = (Out(np.uint32, 2), Out(np.uint32, 2), Out(np.uint32, 2))
    return unusual(name, "data:u64 flag:u64 out:u64", body, arguments, _read, why, grid=(ctas,))


_RELEASE = "st.release.gpu.global.u32 [%flag], 1;"
_ACQUIRE = "ld.acquire.gpu.global.u32 %r0, [%flag];"
_RELAXED = "ld.relaxed.gpu.global.u32 %r0, [%flag];"

STORE_LOAD = _message(
    "message by st.release and ld.acquire",
    _RELEASE,
    _ACQUIRE,
    """Release and acquire operation on the flag, both of scope gpu (#release-acquire-patterns, form 1 of each).""",
)

SYSTEM = _message(
    "message by st.release.sys and ld.acquire.gpu",
    "st.release.sys.global.u32 [%flag], 1;",
    _ACQUIRE,
    """Scopes may differ as long as each includes the thread of the other operation (#morally-strong-operations).""",
)

FENCES = _message(
    "message by relaxed operations between fences",
    "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%flag], 1;",
    _RELAXED,
    """fence; st.relaxed is a release pattern, ld.relaxed; fence an acquire pattern (#release-acquire-patterns, form 3).
    The fences are morally strong to each other.""",
    after="fence.acq_rel.gpu;",
)

ONE_WAY = _message(
    "message by relaxed operations between one-way fences",
    "fence.release.gpu; st.relaxed.gpu.global.u32 [%flag], 1;",
    _RELAXED,
    """fence.release and fence.acquire serve the patterns of #release-acquire-patterns, form 3
    (#parallel-synchronization-and-communication-instructions-membar).""",
    after="fence.acquire.gpu;",
)

SEQUENTIAL = _message(
    "message by relaxed operations between fence.sc",
    "fence.sc.gpu; st.relaxed.gpu.global.u32 [%flag], 1;",
    _RELAXED,
    """A fence.sc is also a fence.acq_rel (#parallel-synchronization-and-communication-instructions-membar), so the fence
    patterns of #release-acquire-patterns apply.""",
    after="fence.sc.gpu;",
)

VOLATILE = _message(
    "message by volatile operations and membar",
    "membar.gl; st.volatile.global.u32 [%flag], 1;",
    "ld.volatile.global.u32 %r0, [%flag];",
    """A volatile operation is relaxed at system scope (#volatile-operation), so membar.gl; st.volatile and ld.volatile;
    membar.gl are fence patterns.""",
    after="membar.gl;",
)

MIXED = _message(
    "message from a fence to ld.acquire",
    "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%flag], 1;",
    _ACQUIRE,
    """A release pattern that begins with a fence pairs with an acquire operation: the first operation of the one and the
    last of the other are morally strong (#memory-synchronization, item 4).""",
)

ATOMIC_READ = _message(
    "message from red.release to a polling atom.acquire",
    "red.release.gpu.global.or.b32 [%flag], 1;",
    "atom.acquire.gpu.global.or.b32 %r0, [%flag], 0;",
    """Atomics with .release and .acquire are release and acquire operations (#operation-types); the polling or of 0
    rewrites the value it read and keeps the chain of atomics (#observation-order).""",
)

OVERWRITTEN = _message(
    "message whose released flag the sender overwrites by st.relaxed",
    f"{_RELEASE} st.relaxed.gpu.global.u32 [%flag], 2;",
    _ACQUIRE,
    """st.release; st.relaxed on one location is a release pattern (#release-acquire-patterns, form 2): the receiver waits
    for the second value, which the relaxed store wrote.""",
    value=2,
)

LATE_ACQUIRE = _message(
    "message polled by ld.relaxed and acquired once",
    _RELEASE,
    _RELAXED,
    """ld.relaxed; ld.acquire on one location is an acquire pattern (#release-acquire-patterns, form 2); the acquiring load
    is after the polling loop and its value is not used.""",
    after="ld.acquire.gpu.global.u32 %r3, [%flag];",
)

SEQUENCE = _message(
    "message through the relaxed atomic of a third CTA",
    _RELEASE,
    _ACQUIRE,
    """CTA 1 turns the flag from 1 into 2 by a relaxed compare-and-swap: observation order goes from the release through
    this atomic to the acquire (#observation-order, form 2), although CTA 1 itself synchronizes with neither.""",
    middle="""
    setp.eq.u32 %p4, %r5, 2;
    @%p4 bra POLL;
    RELAY:
    atom.relaxed.gpu.global.cas.b32 %r0, [%flag], 1, 2;
    setp.ne.u32 %p3, %r0, 1;
    @%p3 bra RELAY;
    bra DONE;
    """,
    ctas=3,
    value=2,
)

CHAIN = _message(
    "message handed on by atom.acq_rel of two CTAs",
    _RELEASE,
    _ACQUIRE,
    """Each CTA in the middle acquires the flag and releases its successor value by one atom.acq_rel; causality is
    transitive over them (#causality-order).""",
    middle="""
    setp.eq.u32 %p4, %r5, 3;
    @%p4 bra POLL;
    add.u32 %r6, %r5, 1;
    RELAY:
    atom.acq_rel.gpu.global.cas.b32 %r0, [%flag], %r5, %r6;
    setp.ne.u32 %p3, %r0, %r5;
    @%p3 bra RELAY;
    bra DONE;
    """,
    ctas=4,
    value=3,
)

TWO_FLAGS = _message(
    "message over two flags of two CTAs",
    _RELEASE,
    "ld.acquire.gpu.global.u32 %r0, [%flag+4];",
    """CTA 1 acquires the first flag and releases the second: base causality order is transitive (#causality-order), so CTA 2
    sees what CTA 0 wrote (ISA2 of the litmus tests).""",
    middle="""
    setp.eq.u32 %p4, %r5, 2;
    @%p4 bra POLL;
    RELAY:
    ld.acquire.gpu.global.u32 %r0, [%flag];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra RELAY;
    st.release.gpu.global.u32 [%flag+4], 1;
    bra DONE;
    """,
    ctas=3,
)

#: Warp 0 of CTA 0 writes, its warp 1 takes the message at scope cta and passes it on at scope gpu.
_SCOPES = unusual(
    "message at scope cta handed on at scope gpu",
    "data:u64 flag:u64 out:u64",
    """
    setp.ne.u32 %p1, %lane, 0;
    @%p1 bra DONE;
    mov.u32 %r5, %ctaid.x;
    mad.lo.u32 %r5, %r5, 2, %warp;
    setp.eq.u32 %p2, %r5, 1;
    @%p2 bra MIDDLE;
    setp.eq.u32 %p2, %r5, 2;
    @%p2 bra LAST;
    setp.eq.u32 %p2, %r5, 3;
    @%p2 bra DONE;
    st.global.u32 [%data], 41;
    st.release.cta.global.u32 [%flag], 1;
    bra DONE;
    MIDDLE:
    ld.acquire.cta.global.u32 %r0, [%flag];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra MIDDLE;
    st.release.gpu.global.u32 [%flag+4], 1;
    bra DONE;
    LAST:
    ld.acquire.gpu.global.u32 %r0, [%flag+4];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra LAST;
    ld.global.u32 %r1, [%data];
    st.global.u32 [%out], %r1;
    DONE:
    """,
    [Out(np.uint32, 1), Out(np.uint32, 2), Out(np.uint32, 1)],
    lambda found: int(found[2][0]) == 41,
    """Each edge has scopes that include its two threads: cta inside the CTA, gpu between CTAs. Base causality order
    composes them (#causality-order): cumulativity carries the first thread's store across the wider edge.""",
    grid=(2,),
    block=(64,),
)

#: Each warp of the CTA passes a number to the next warp in shared memory.
_SHARED = unusual(
    "messages from warp to warp through flags in shared memory",
    "out:u64",
    """
    shl.b32 %r5, %warp, 2;
    mov.u32 %r6, flags;
    add.u32 %r6, %r6, %r5;
    mov.u32 %r7, rows;
    shl.b32 %r8, %warp, 7;
    shl.b32 %r9, %lane, 2;
    add.u32 %r7, %r7, %r8;
    add.u32 %r10, %r7, %r9;
    setp.eq.u32 %p1, %lane, 0;
    @%p1 st.relaxed.cta.shared.u32 [%r6], 0;
    mov.u32 %r11, 100;
    bar.sync 0;
    setp.eq.u32 %p2, %warp, 0;
    @%p2 bra WRITE;
    @!%p1 bra HERE;
    POLL:
    ld.acquire.cta.shared.u32 %r0, [%r6+-4];
    setp.eq.u32 %p3, %r0, 0;
    @%p3 bra POLL;
    HERE:
    bar.warp.sync 0xffffffff;
    xor.b32 %r12, %r9, 124;
    sub.u32 %r13, %r7, 128;
    add.u32 %r13, %r13, %r12;
    ld.shared.u32 %r11, [%r13];
    WRITE:
    add.u32 %r11, %r11, %lane;
    st.shared.u32 [%r10], %r11;
    bar.warp.sync 0xffffffff;
    @%p1 st.release.cta.shared.u32 [%r6], 1;
    mad.wide.u32 %d1, %index, 4, %out;
    st.global.u32 [%d1], %r11;
    """,
    [Out(np.uint32, (4, 32))],
    lambda found: _handed_on(found[0]),
    """bar.warp.sync orders all lanes' stores before the elected lane's st.release.cta and its ld.acquire.cta before their
    loads (#parallel-synchronization-and-communication-instructions-bar-warp-sync, #release-acquire-patterns).""",
    block=(128,),
    registers=".shared .align 16 .b8 rows[512]; .shared .align 16 .b8 flags[16];",
)


def _handed_on(found: NDArray[Any]) -> bool:
    lanes = np.arange(32, dtype=np.uint32)
    row, rows = np.full(32, 100, np.uint32) + lanes, []
    for _ in range(4):
        rows.append(row)
        row = row[::-1] + lanes
    return bool(np.array_equal(found, np.stack(rows)))


#: CTAs 0 to 3 each write a word and count; CTA 4 waits for the count.
_FAN_IN = unusual(
    "four senders that count by red.release",
    "data:u64 count:u64 out:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.u32 %r5, %ctaid.x;
    setp.eq.u32 %p2, %r5, 4;
    @%p2 bra POLL;
    mad.wide.u32 %d1, %r5, 4, %data;
    mul.lo.u32 %r6, %r5, 7;
    st.global.u32 [%d1], %r6;
    red.release.gpu.global.add.u32 [%count], 1;
    bra DONE;
    POLL:
    ld.acquire.gpu.global.u32 %r0, [%count];
    setp.ne.u32 %p3, %r0, 4;
    @%p3 bra POLL;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%data];
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};
    DONE:
    """,
    [Out(np.uint32, 4), Out(np.uint32, 1), Out(np.uint32, 4)],
    lambda found: found[2].tolist() == [0, 7, 14, 21],
    """Each red.release is an atomic operation, so the load that reads 4 observes all four writes through the chain of
    atomics (#operation-types, #observation-order) and synchronizes with each.""",
    grid=(5,),
)

#: CTA 0 writes; the others read the flag once, and the data only if the flag is up.
_ONCE = unusual(
    "flag that is looked at once",
    "data:u64 flag:u64 out:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.u32 %r5, %ctaid.x;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra LOOK;
    st.global.u32 [%data], 9;
    st.release.gpu.global.u32 [%flag], 1;
    bra DONE;
    LOOK:
    ld.acquire.gpu.global.u32 %r0, [%flag];
    mov.u32 %r1, 9;
    setp.eq.u32 %p3, %r0, 1;
    @%p3 ld.global.u32 %r1, [%data];
    mad.wide.u32 %d1, %r5, 4, %out;
    st.global.u32 [%d1], %r1;
    DONE:
    """,
    [Out(np.uint32, 1), Out(np.uint32, 1), Out(np.uint32, 4)],
    lambda found: found[2].tolist() == [0, 9, 9, 9],
    """The data is read only in executions in which the acquiring load returned the released value, so no execution has a
    race (#causality-order). No thread waits.""",
    grid=(4,),
)

_DOUBLE_CHECKED = unusual(
    "initialization that is checked twice",
    "state:u64 table:u64 out:u64 made:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    LOOK:
    ld.acquire.gpu.global.u32 %r0, [%state];
    setp.eq.u32 %p2, %r0, 2;
    @%p2 bra READY;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra LOOK;
    atom.relaxed.gpu.global.cas.b32 %r1, [%state], 0, 1;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra LOOK;
    st.global.u32 [%table], 5;
    st.global.u32 [%table+4], 6;
    red.relaxed.gpu.global.add.u32 [%made], 1;
    st.release.gpu.global.u32 [%state], 2;
    READY:
    ld.global.u32 %r2, [%table];
    ld.global.u32 %r3, [%table+4];
    mov.u32 %r5, %ctaid.x;
    mad.wide.u32 %d1, %r5, 8, %out;
    st.global.u32 [%d1], %r2;
    st.global.u32 [%d1+4], %r3;
    DONE:
    """,
    [Out(np.uint32, 1), Out(np.uint32, 2), Out(np.uint32, (5, 2)), Out(np.uint32, 1)],
    lambda found: bool((found[2] == [5, 6]).all()) and int(found[3][0]) == 1,
    """One CTA wins the compare-and-swap, writes the table and releases 2; all others read the table after they acquired 2
    (#release-acquire-patterns). The winner reads its own stores in program order.""",
    grid=(5,),
)

#: One writer, three readers of a value of two words; ``data`` holds sequence number and both words.
_SEQLOCK = """
setp.ne.u32 %p1, %thread, 0;
@%p1 bra DONE;
mov.u32 %r5, %ctaid.x;
mov.u32 %r20, 1;
setp.ne.u32 %p2, %r5, 0;
@%p2 bra AGAIN;
WRITE:
mul.lo.u32 %r0, %r20, 2;
sub.u32 %r1, %r0, 1;
{write}
add.u32 %r20, %r20, 1;
setp.lt.u32 %p2, %r20, 5;
@%p2 bra WRITE;
bra DONE;
AGAIN:
{read}
setp.ne.u32 %p3, %r0, %r3;
@%p3 bra AGAIN;
mad.wide.u32 %d1, %r5, 8, %out;
st.global.u32 [%d1], %r1;
st.global.u32 [%d1+4], %r2;
DONE:
"""


def _seqlock(name: str, write: str, read: str, why: str) -> Unusual:
    def check(found: Sequence[NDArray[Any]]) -> bool:
        pairs = found[1][1:].tolist()
        return all(first % 10 == 0 and second == first + 1 for first, second in ((a, b) for a, b in pairs))

    return unusual(
        name,
        "data:u64 out:u64",
        _SEQLOCK.format(write=write, read=read),
        [Out(np.uint32, 3, initial=np.array([0, 0, 1], np.uint32)), Out(np.uint32, (4, 2))],
        check,
        why,
        grid=(4,),
    )


SEQLOCK_FENCES = _seqlock(
    "seqlock with fences",
    """
    st.relaxed.gpu.global.u32 [%data], %r1;
    fence.acq_rel.gpu;
    mul.lo.u32 %r2, %r20, 10;
    add.u32 %r3, %r2, 1;
    st.relaxed.gpu.global.u32 [%data+4], %r2;
    st.relaxed.gpu.global.u32 [%data+8], %r3;
    fence.acq_rel.gpu;
    st.relaxed.gpu.global.u32 [%data], %r0;
    """,
    """
    ld.relaxed.gpu.global.u32 %r0, [%data];
    and.b32 %r4, %r0, 1;
    setp.ne.u32 %p3, %r4, 0;
    @%p3 bra AGAIN;
    fence.acq_rel.gpu;
    ld.relaxed.gpu.global.u32 %r1, [%data+4];
    ld.relaxed.gpu.global.u32 %r2, [%data+8];
    fence.acq_rel.gpu;
    ld.relaxed.gpu.global.u32 %r3, [%data];
    """,
    """The data is read and written by strong operations, so that overlapping copies are no race
    (#conflict-and-data-races). A reader that saw a word of a later write saw its odd number too, through the pair of
    fences around the data (#release-acquire-patterns, form 3), and tries again.""",
)

SEQLOCK_OPERATIONS = _seqlock(
    "seqlock with release stores and acquire loads of the data",
    """
    st.relaxed.gpu.global.u32 [%data], %r1;
    mul.lo.u32 %r2, %r20, 10;
    add.u32 %r3, %r2, 1;
    st.release.gpu.global.u32 [%data+4], %r2;
    st.release.gpu.global.u32 [%data+8], %r3;
    st.release.gpu.global.u32 [%data], %r0;
    """,
    """
    ld.acquire.gpu.global.u32 %r0, [%data];
    and.b32 %r4, %r0, 1;
    setp.ne.u32 %p3, %r4, 0;
    @%p3 bra AGAIN;
    ld.acquire.gpu.global.u32 %r1, [%data+4];
    ld.acquire.gpu.global.u32 %r2, [%data+8];
    ld.relaxed.gpu.global.u32 %r3, [%data];
    """,
    """Each word of the data is released after the odd number and acquired before the number is read again: who reads a word
    of a later write reads at least its odd number afterwards (#release-acquire-patterns, #causality-axiom).""",
)

MESSAGES = (
    *(
        STORE_LOAD,
        SYSTEM,
        FENCES,
        ONE_WAY,
        SEQUENTIAL,
        VOLATILE,
        MIXED,
        ATOMIC_READ,
        OVERWRITTEN,
        LATE_ACQUIRE,
    ),
    *(SEQUENCE, CHAIN, TWO_FLAGS, _SCOPES, _SHARED, _FAN_IN, _ONCE, _DOUBLE_CHECKED),
    *(SEQLOCK_FENCES, SEQLOCK_OPERATIONS),
)
