"""Asynchronous copies: bulk and tensor copies, cp.async, wgmma, and how their data changes hands."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import In, Map, Out

from .table import unusual

__all__ = ["COPIES"]

_ROOM = ".shared .align 128 .b8 room[1024]; .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];"
_BEGIN = """
mov.u32 %r1, room;
mad.lo.u32 %r2, %thread, 4, %r1;
mov.u32 %r3, full;
mov.u32 %r4, empty;
setp.eq.u32 %p1, %thread, 0;
"""
_LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.global.shared::cta.bulk_group"
_WORDS = np.arange(6 * 64, dtype=np.uint32) * np.uint32(2654435761)

_RING = unusual(
    "ring of bulk loads whose readers fence before they give a stage back",
    "given:u64 out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 mbarrier.init.shared.b64 [%r3+8], 1;
    @%p1 mbarrier.init.shared.b64 [%r4], 64;
    @%p1 mbarrier.init.shared.b64 [%r4+8], 64;
    bar.sync 0;
    mov.u32 %r20, 0;
    setp.ge.u32 %p2, %thread, 32;
    @%p2 bra CONSUMER;
    @!%p1 bra DONE;
    PRODUCER:
    and.b32 %r5, %r20, 1;
    shr.u32 %r6, %r20, 1;
    and.b32 %r6, %r6, 1;
    xor.b32 %r6, %r6, 1;
    mad.lo.u32 %r7, %r5, 8, %r3;
    mad.lo.u32 %r8, %r5, 8, %r4;
    mad.lo.u32 %r9, %r5, 256, %r1;
    FREE:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r8], %r6;
    @!%p3 bra FREE;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r7], 256;
    """
    + f"{_LOAD} [%r9], [%given], 256, [%r7];"
    + """
    add.u64 %given, %given, 256;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p3, %r20, 6;
    @%p3 bra PRODUCER;
    bra DONE;
    CONSUMER:
    and.b32 %r5, %r20, 1;
    shr.u32 %r6, %r20, 1;
    and.b32 %r6, %r6, 1;
    mad.lo.u32 %r7, %r5, 8, %r3;
    mad.lo.u32 %r8, %r5, 8, %r4;
    mad.lo.u32 %r9, %r5, 256, %r2;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r7], %r6;
    @!%p3 bra WAIT;
    ld.shared.u32 %r10, [%r9+-128];
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared.b64 _, [%r8];
    mad.lo.u32 %r11, %r20, 64, %thread;
    mad.wide.u32 %d1, %r11, 4, %out;
    st.global.u32 [%d1+-128], %r10;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p3, %r20, 6;
    @%p3 bra CONSUMER;
    DONE:
    """,
    [In(_WORDS), Out(np.uint32, 6 * 64)],
    lambda found: bool(np.array_equal(found[0], _WORDS)),
    """The wait for the full barrier acquires the copy's complete-tx, which carries an implicit proxy fence (#async-proxy).
    Readers fence to the async proxy before they release the stage, so the next copy into it is ordered after their reads
    in both proxies.""",
    block=(96,),
    registers=_ROOM,
)

_STORES = unusual(
    "bulk stores from two buffers, each filled again when it was read",
    "out:u64",
    _BEGIN
    + """
    mov.u32 %r20, 0;
    TURN:
    and.b32 %r5, %r20, 1;
    mad.lo.u32 %r6, %r5, 256, %r2;
    mad.lo.u32 %r7, %r5, 256, %r1;
    setp.ge.and.u32 %p2, %r20, 2, %p1;
    @%p2 cp.async.bulk.wait_group.read 1;
    bar.sync 0;
    mad.lo.u32 %r8, %r20, 1000, %thread;
    st.shared.u32 [%r6], %r8;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra NEXT;
    """
    + f"{_STORE} [%out], [%r7], 256;"
    + """
    cp.async.bulk.commit_group;
    add.u64 %out, %out, 256;
    NEXT:
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 5;
    @%p2 bra TURN;
    @%p1 cp.async.bulk.wait_group.read 0;
    """,
    [Out(np.uint32, (5, 64))],
    lambda found: bool(np.array_equal(found[0], 1000 * np.arange(5)[:, None] + np.arange(64))),
    """wait_group.read 1 says that all groups but the newest have read their source
    (#data-movement-and-conversion-instructions-cp-async-bulk-wait-group): that is the store from the buffer that is filled
    next. bar.sync tells the other threads. The end of the kernel completes the writes.""",
    block=(64,),
    registers=_ROOM,
)

_REDUCED = unusual(
    "bulk reductions of several CTAs into the same words",
    "out:u64",
    _BEGIN
    + """
    mov.u32 %r5, %ctaid.x;
    mad.lo.u32 %r6, %r5, 1000, %thread;
    st.shared.u32 [%r2], %r6;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%r1], 256;
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;
    """,
    [Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], 3000 + 3 * np.arange(64))),
    """Each reduction of cp.reduce.async.bulk is relaxed at scope gpu
    (#data-movement-and-conversion-instructions-cp-reduce-async-bulk), so they are morally strong to each other.""",
    grid=(3,),
    block=(64,),
    registers=_ROOM,
)

_UNION = unusual(
    "one buffer for ordinary words and bulk loads in turn",
    "given:u64 out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    mov.u32 %r20, 0;
    mov.u32 %r10, 0;
    xor.b32 %r5, %thread, 63;
    mad.lo.u32 %r5, %r5, 4, %r1;
    TURN:
    st.shared.u32 [%r2], %thread;
    bar.sync 0;
    ld.shared.u32 %r6, [%r5];
    add.u32 %r10, %r10, %r6;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    """
    + f"@%p1 {_LOAD} [%r1], [%given], 256, [%r3];"
    + """
    and.b32 %r7, %r20, 1;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r3], %r7;
    @!%p2 bra WAIT;
    ld.shared.u32 %r6, [%r5];
    add.u32 %r10, %r10, %r6;
    bar.sync 0;
    add.u64 %given, %given, 256;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 3;
    @%p2 bra TURN;
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r10;
    """,
    [In(_WORDS), Out(np.uint32, 64)],
    lambda found: bool(
        np.array_equal(
            found[0],
            (
                3 * (63 - np.arange(64, dtype=np.uint32))
                + _WORDS[:192].reshape(3, 64).sum(0, np.uint32)[::-1]
            ).astype(np.uint32),
        )
    ),
    """All threads fence to the async proxy after their ordinary accesses and before bar.sync, which the issuing thread
    follows (#async-proxy); the way back needs only the wait and a barrier.""",
    block=(64,),
    registers=_ROOM,
)

_ELECTED = unusual(
    "bulk load by an elected lane",
    "given:u64 out:u64",
    _BEGIN
    + """
    setp.ne.u32 %p2, %warp, 0;
    @%p2 bra READY;
    elect.sync _|%p3, 0xffffffff;
    @!%p3 bra READY;
    mbarrier.init.shared.b64 [%r3], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;
    """
    + f"{_LOAD} [%r1], [%given], 256, [%r3]; {_LOAD} [%r1+256], [%given+256], 256, [%r3];"
    + """
    READY:
    bar.sync 0;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r5, [%r2+256];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r5;
    """,
    [In(_WORDS), Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], _WORDS[64:128])),
    """One lane, whichever elect.sync names, initializes, expects and copies in program order, before the CTA's barrier tells
    the others that the mbarrier exists. An mbarrier operand is accessed by the generic proxy
    (#data-movement-and-conversion-instructions-cp-async-bulk).""",
    block=(64,),
    registers=_ROOM,
)

_EXPECTED_ELSEWHERE = unusual(
    "bytes that other threads expect than the thread that copies",
    "given:u64 out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 2;
    bar.sync 0;
    setp.eq.u32 %p2, %thread, 32;
    """
    + f"@%p2 {_LOAD} [%r1], [%given], 256, [%r3]; @%p2 {_LOAD} [%r1+256], [%given+256], 128, [%r3];"
    + """
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    setp.eq.u32 %p3, %thread, 64;
    @%p3 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 128;
    @%p3 mbarrier.arrive.shared.b64 _, [%r3];
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0;
    @!%p4 bra WAIT;
    ld.shared.u32 %r5, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r5;
    """,
    [In(_WORDS), Out(np.uint32, 96)],
    lambda found: bool(np.array_equal(found[0], _WORDS[:96])),
    """The tx-count may be negative while arrivals are pending
    (#parallel-synchronization-and-communication-instructions-mbarrier-contents): each expecting thread arrives after
    it has expected, so the phase ends with the last byte and the last arrival, in any order.""",
    block=(96,),
    registers=_ROOM,
)

_GROUPS = unusual(
    "cp.async in groups, one ahead",
    "given:u64 out:u64",
    _BEGIN
    + """
    mad.wide.u32 %d1, %thread, 4, %given;
    mad.wide.u32 %d2, %thread, 4, %out;
    cp.async.ca.shared.global [%r2], [%d1], 4;
    cp.async.commit_group;
    mov.u32 %r20, 0;
    xor.b32 %r5, %thread, 63;
    TURN:
    add.u32 %r6, %r20, 1;
    and.b32 %r7, %r6, 1;
    mad.lo.u32 %r8, %r7, 256, %r2;
    add.u64 %d1, %d1, 256;
    setp.lt.u32 %p2, %r6, 6;
    @%p2 cp.async.ca.shared.global [%r8], [%d1], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    and.b32 %r7, %r20, 1;
    shl.b32 %r7, %r7, 6;
    add.u32 %r7, %r7, %r5;
    mad.lo.u32 %r7, %r7, 4, %r1;
    ld.shared.u32 %r9, [%r7];
    st.global.u32 [%d2], %r9;
    add.u64 %d2, %d2, 256;
    bar.sync 0;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 6;
    @%p2 bra TURN;
    """,
    [In(_WORDS), Out(np.uint32, (6, 64))],
    lambda found: bool(np.array_equal(found[0], _WORDS.reshape(6, 64)[:, ::-1])),
    """wait_group 1 leaves the newest group in flight and makes the older ones visible to the thread that issued them
    (#data-movement-and-conversion-instructions-cp-async-wait-group); bar.sync hands them to the others and, once more,
    protects the buffer that is filled next. The last group is empty.""",
    block=(64,),
    registers=_ROOM,
)

_NO_INCREMENT = unusual(
    "cp.async that arrive on an mbarrier with .noinc",
    "given:u64 out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 32;
    bar.sync 0;
    setp.eq.u32 %p2, %warp, 0;
    @!%p2 bra WAIT;
    mad.wide.u32 %d1, %thread, 16, %given;
    mad.lo.u32 %r5, %thread, 16, %r1;
    cp.async.cg.shared.global [%r5], [%d1], 16;
    cp.async.ca.shared.global [%r5+512], [%d1+512], 8;
    cp.async.ca.shared.global [%r5+520], [%d1+520], 8;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];
    cp.async.wait_all;
    ret;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    mad.lo.u32 %r6, %lane, 16, %r1;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r6];
    ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r6+512];
    mad.wide.u32 %d2, %lane, 16, %out;
    st.global.v4.u32 [%d2], {%r10, %r11, %r12, %r13};
    st.global.v4.u32 [%d2+512], {%r14, %r15, %r16, %r17};
    """,
    [In(_WORDS), Out(np.uint32, 256)],
    lambda found: bool(np.array_equal(found[0], _WORDS[:256])),
    """With .noinc the count of 32 includes the arrivals that the copies make when they complete
    (#data-movement-and-conversion-instructions-cp-async-mbarrier-arrive); the phase makes all earlier cp.async of these
    threads visible to who waits for it.""",
    block=(64,),
    registers=_ROOM,
)

_INCREMENT = unusual(
    "cp.async that arrive besides the threads that issued them",
    "given:u64 out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 64;
    bar.sync 0;
    mad.wide.u32 %d1, %thread, 4, %given;
    cp.async.ca.shared.global [%r2], [%d1], 4;
    cp.async.mbarrier.arrive.shared.b64 [%r3];
    st.shared.u32 [%r2+256], %thread;
    mbarrier.arrive.shared.b64 %d2, [%r3];
    WAIT:
    mbarrier.try_wait.shared.b64 %p3, [%r3], %d2;
    @!%p3 bra WAIT;
    xor.b32 %r5, %thread, 63;
    mad.lo.u32 %r5, %r5, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    ld.shared.u32 %r7, [%r5+256];
    add.u32 %r6, %r6, %r7;
    mad.wide.u32 %d3, %thread, 4, %out;
    st.global.u32 [%d3], %r6;
    """,
    [In(_WORDS), Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], _WORDS[63::-1] + 63 - np.arange(64, dtype=np.uint32))),
    """Without .noinc the instruction raises the pending count for the arrival that it makes later
    (#data-movement-and-conversion-instructions-cp-async-mbarrier-arrive), so the threads' own arrivals fill the count of
    64; the thread's arrival follows in program order, so the count is raised before the phase can end.""",
    block=(64,),
    registers=_ROOM,
)

_ASYNC_THEN_STORE = unusual(
    "words of cp.async that a bulk store takes",
    "given:u64 out:u64",
    _BEGIN
    + """
    mad.wide.u32 %d1, %thread, 4, %given;
    cp.async.ca.shared.global [%r2], [%d1], 4;
    cp.async.wait_all;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    """
    + f"@%p1 {_STORE} [%out], [%r1], 256;"
    + """
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group.read 0;
    """,
    [In(_WORDS), Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], _WORDS[:64])),
    """cp.async (non-bulk) writes by the generic proxy (#data-movement-and-conversion-instructions-cp-async): each thread
    waits for its copies and fences to the async proxy before the barrier.""",
    block=(64,),
    registers=_ROOM,
)

#: CTA 0 hands a tile of global memory to CTA 1 through a flag.
_TO_BULK_LOAD = unusual(
    "ordinary stores of one CTA that another one loads in bulk",
    "tile:u64 flag:u64 out:u64",
    _BEGIN
    + """
    mov.u32 %r5, %ctaid.x;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra RECEIVER;
    mad.wide.u32 %d1, %thread, 4, %tile;
    mul.lo.u32 %r6, %thread, 13;
    st.global.u32 [%d1], %r6;
    bar.sync 0;
    @%p1 st.release.gpu.global.u32 [%flag], 1;
    ret;
    RECEIVER:
    @!%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1;
    POLL:
    ld.acquire.gpu.global.u32 %r7, [%flag];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra POLL;
    fence.proxy.async.global;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    """
    + f"{_LOAD} [%r1], [%tile], 256, [%r3];"
    + """
    READY:
    bar.sync 0;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    ld.shared.u32 %r6, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [Out(np.uint32, 64), Out(np.uint32, 1), Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[2], 13 * np.arange(64))),
    """The flag orders the stores before the receiving thread, whose fence.proxy.async.global stands on the path before its
    bulk load (#async-proxy): the proxy fence is in the CTA of the asynchronous access.""",
    grid=(2,),
    block=(64,),
    registers=_ROOM,
)

_FROM_BULK_STORE = unusual(
    "bulk store of one CTA that another one reads by ordinary loads",
    "tile:u64 flag:u64 out:u64",
    _BEGIN
    + """
    mov.u32 %r5, %ctaid.x;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra RECEIVER;
    mul.lo.u32 %r6, %thread, 17;
    st.shared.u32 [%r2], %r6;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 ret;
    """
    + f"{_STORE} [%tile], [%r1], 256;"
    + """
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    fence.proxy.async.global;
    st.release.gpu.global.u32 [%flag], 1;
    ret;
    RECEIVER:
    @!%p1 bra READY;
    POLL:
    ld.acquire.gpu.global.u32 %r7, [%flag];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra POLL;
    READY:
    bar.sync 0;
    mad.wide.u32 %d1, %thread, 4, %tile;
    ld.global.u32 %r6, [%d1];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [Out(np.uint32, 64), Out(np.uint32, 1), Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[2], 17 * np.arange(64))),
    """wait_group without .read makes the written bytes visible to the issuing thread
    (#data-movement-and-conversion-instructions-cp-async-bulk-wait-group), which then releases the flag; its proxy fence
    is in the CTA of the asynchronous access.""",
    grid=(2,),
    block=(64,),
    registers=_ROOM,
)

_TENSOR = np.arange(32 * 32, dtype=np.uint32).reshape(32, 32)
_BOX = {"box": (8, 16)}

_ROUND_TRIP = unusual(
    "tensor copy in, ordinary change in place, tensor copy out",
    "in:u64 out:u64 source:map target:map",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    bar.sync 0;
    mov.u32 %r5, %ctaid.x;
    mul.lo.u32 %r5, %r5, 8;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%source, {16, %r5}], [%r3];
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    ld.shared.u32 %r6, [%r2];
    mad.lo.u32 %r6, %r6, 3, 1;
    st.shared.u32 [%r2], %r6;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%target, {0, %r5}], [%r1];
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group.read 0;
    """,
    [In(_TENSOR), Out(np.uint32, (32, 32)), Map(0, _BOX), Map(1, _BOX)],
    lambda found: bool(
        np.array_equal(found[0][:, :16], 3 * _TENSOR[:, 16:] + 1) and not found[0][:, 16:].any()
    ),
    """The load's completion needs no proxy fence, the store does: every thread fences after its ordinary accesses and before
    the barrier that the storing thread follows (#async-proxy).""",
    grid=(4,),
    block=(128,),
    registers=_ROOM,
)

#: CTA 0 edits a copy of the map so that it shows the second half of the tensor; both CTAs load through it.
_EDITED_MAP = unusual(
    "tensor map that one CTA edits and another one uses",
    "tensor:u64 place:u64 flag:u64 out:u64 map:map",
    _BEGIN
    + """
    .shared .align 128 .b8 image[128];
    mov.u32 %r5, %ctaid.x;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra RECEIVER;
    mov.u32 %r8, image;
    mad.wide.u32 %d6, %thread, 4, %map;
    ld.b32 %r9, [%d6];
    mad.lo.u32 %r10, %thread, 4, %r8;
    st.shared.b32 [%r10], %r9;
    bar.warp.sync 0xffffffff;
    add.u64 %d7, %tensor, 2048;
    @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r8], %d7;
    @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r8], 1, 16;
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%place], [%r8], 128;
    bar.warp.sync 0xffffffff;
    @%p1 st.release.gpu.global.u32 [%flag], 1;
    ret;
    RECEIVER:
    @!%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1;
    POLL:
    ld.acquire.gpu.global.u32 %r7, [%flag];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra POLL;
    fence.proxy.tensormap::generic.acquire.gpu [%place], 128;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%place, {16, 8}], [%r3];
    READY:
    bar.warp.sync 0xffffffff;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    mad.lo.u32 %r6, %thread, 16, %r1;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r6];
    mad.wide.u32 %d1, %thread, 16, %out;
    st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};
    """,
    [
        In(_TENSOR),
        Out(np.uint8, 128),
        Out(np.uint32, 1),
        Out(np.uint32, (8, 16)),
        Map(0, _BOX),
    ],
    lambda found: bool(np.array_equal(found[2], _TENSOR[24:, 16:])),
    """cp_fenceproxy releases the edited map from the generic to the tensormap proxy; the receiver acquires the flag and then
    the map, 128 bytes at scope gpu, before it uses it
    (#parallel-synchronization-and-communication-instructions-membar, fence.proxy.tensormap).""",
    grid=(2,),
    block=(32,),
    registers=_ROOM,
)

#: A is 64 rows of 1; B has 8 columns of 1, then 2, then of 3, in two stages. Layouts do not matter for equal elements.
_WGMMA = unusual(
    "wgmma of which one group stays in flight while a stage is filled again",
    "out:u64",
    """
    .shared .align 128 .b8 a[2048];
    .shared .align 128 .b8 b[512];
    .reg .b64 %adesc, %bdesc;
    mov.u32 %r1, a;
    mov.u32 %r2, b;
    mad.lo.u32 %r3, %thread, 16, %r1;
    mov.u32 %r4, 0x3c003c00;
    st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};
    setp.ge.u32 %p1, %thread, 64;
    mov.u32 %r5, 0x40004000;
    @!%p1 mov.u32 %r5, 0x3c003c00;
    mad.lo.u32 %r6, %thread, 4, %r2;
    st.shared.u32 [%r6], %r5;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %r7, %r1, 4;
    cvt.u64.u32 %adesc, %r7;
    or.b64 %adesc, %adesc, 0x0000001000080000;
    shr.u32 %r7, %r2, 4;
    cvt.u64.u32 %bdesc, %r7;
    or.b64 %bdesc, %bdesc, 0x0000001000080000;
    add.u64 %d1, %bdesc, 16;
    mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
    mov.f32 %f5, %f1; mov.f32 %f6, %f1; mov.f32 %f7, %f1; mov.f32 %f8, %f1;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %adesc, %bdesc, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f5, %f6, %f7, %f8}, %adesc, %d1, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    bar.sync 0;
    mov.u32 %r5, 0x42004200;
    @!%p1 st.shared.u32 [%r6], %r5;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %adesc, %bdesc, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mad.wide.u32 %d2, %thread, 32, %out;
    st.global.v4.f32 [%d2], {%f1, %f2, %f3, %f4};
    st.global.v4.f32 [%d2+16], {%f5, %f6, %f7, %f8};
    """,
    [Out(np.float32, (128, 8))],
    lambda found: bool((found[0][:, :4] == 16 * (1 + 3)).all() and (found[0][:, 4:] == 32).all()),
    """wait_group 1 completes the first product in every warp, and bar.sync collects the warps, before the first stage is
    written again; the second product, of another stage and other registers, may still run
    (#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group). Writers fence to the async proxy.""",
    block=(128,),
)

COPIES = (
    *(_RING, _STORES, _REDUCED, _UNION, _ELECTED, _EXPECTED_ELSEWHERE, _GROUPS, _NO_INCREMENT, _INCREMENT),
    *(_ASYNC_THEN_STORE, _TO_BULK_LOAD, _FROM_BULK_STORE, _ROUND_TRIP, _EDITED_MAP, _WGMMA),
)
