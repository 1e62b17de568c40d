"""Clusters: distributed shared memory, split cluster barriers, remote arrivals, multicast, stores that signal."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import In, Out

from .table import unusual

__all__ = ["CLUSTERS"]

_ROOM = ".shared .align 128 .b8 room[1024]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;"
#: %r5 is the rank, %r6 the next rank's, %r1 the room; %r2 the thread's word, %r7 the same word of the next CTA.
_BEGIN = """
mov.u32 %r1, room;
mov.u32 %r3, full;
mov.u32 %r4, empty;
mad.lo.u32 %r2, %thread, 4, %r1;
mov.u32 %r5, %cluster_ctarank;
mov.u32 %r30, %cluster_nctarank;
add.u32 %r6, %r5, 1;
setp.eq.u32 %p1, %r6, %r30;
@%p1 mov.u32 %r6, 0;
mapa.shared::cluster.u32 %r7, %r2, %r6;
mapa.shared::cluster.u32 %r8, %r3, %r6;
mapa.shared::cluster.u32 %r9, %r4, %r6;
setp.eq.u32 %p1, %thread, 0;
"""
_MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
_STORE_RESULT = "mad.wide.u32 %d1, %index, 4, %out; st.global.u32 [%d1], %r10;"

_SPLIT = unusual(
    "cluster barrier split around work of its own",
    "out:u64",
    _BEGIN
    + f"""
    mad.lo.u32 %r11, %r5, 1000, %thread;
    st.shared.u32 [%r2], %r11;
    barrier.cluster.arrive.release.aligned;
    mul.lo.u32 %r12, %thread, 5;
    st.shared.u32 [%r2+512], %r12;
    barrier.cluster.wait.acquire.aligned;
    ld.shared::cluster.u32 %r10, [%r7];
    barrier.cluster.arrive.release.aligned;
    ld.shared.u32 %r13, [%r2+512];
    add.u32 %r10, %r10, %r13;
    {_STORE_RESULT}
    barrier.cluster.wait.acquire.aligned;
    """,
    [Out(np.uint32, (4, 64))],
    lambda found: bool(np.array_equal(found[0], 1000 * np.array([[1], [2], [3], [0]]) + 6 * np.arange(64))),
    """An arrival synchronizes with the waits of its phase (#memory-synchronization, item 3); between the two a CTA touches
    only words that no other CTA accesses. The second barrier keeps each CTA until its words were read.""",
    grid=(4,),
    block=(64,),
    cluster=(4,),
    registers=_ROOM,
)

_RELAXED = unusual(
    "relaxed cluster arrival after a fence",
    "out:u64",
    _BEGIN
    + f"""
    mad.lo.u32 %r11, %r5, 100, %thread;
    {_MEET}
    st.shared::cluster.u32 [%r7], %r11;
    fence.acq_rel.cluster;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.acquire.aligned;
    ld.shared.u32 %r10, [%r2];
    {_STORE_RESULT}
    """,
    [Out(np.uint32, (2, 64))],
    lambda found: bool(np.array_equal(found[0], 100 * np.array([[1], [0]]) + np.arange(64))),
    """arrive.relaxed orders no memory by itself; the manual's example puts a fence before it
    (#parallel-synchronization-and-communication-instructions-barrier-cluster). After the last barrier a CTA reads only its
    own memory, so no CTA must outlive another.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

#: A number goes around the ring of CTAs three times; each CTA adds its words.
_RING = unusual(
    "ring of CTAs with remote stores and remote arrivals",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 32;
    mov.u32 %r20, 0;
    mov.u32 %r10, %thread;
    {_MEET}
    setp.eq.u32 %p2, %r5, 0;
    TURN:
    and.b32 %r21, %r20, 1;
    setp.eq.and.u32 %p3, %r20, 0, %p2;
    @%p3 bra SEND;
    mov.u32 %r22, %r21;
    @%p2 xor.b32 %r22, %r21, 1;
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r3], %r22;
    @!%p4 bra WAIT;
    ld.shared.u32 %r10, [%r2];
    mad.lo.u32 %r10, %r10, 3, %r5;
    setp.eq.and.u32 %p3, %r20, 3, %p2;
    @%p3 bra DONE;
    SEND:
    st.shared::cluster.u32 [%r7], %r10;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p4, %r20, 3;
    @%p4 bra TURN;
    @%p2 bra TURN;
    DONE:
    {_STORE_RESULT}
    {_MEET}
    """,
    [Out(np.uint32, (4, 32))],
    lambda found: _around(found[0]),
    """Every lane stores remotely and arrives with release.cluster at the next CTA's mbarrier, whose waits acquire at scope
    cluster (#parallel-synchronization-and-communication-instructions-mbarrier-arrive). A CTA writes its neighbor again
    only after the number came around. The last barrier keeps the CTAs for arrivals on their way.""",
    grid=(4,),
    block=(32,),
    cluster=(4,),
    registers=_ROOM,
)


def _around(found: np.ndarray) -> bool:
    word, last = np.arange(32), {}
    for hop in range(1, 13):
        rank = hop % 4
        word = word * 3 + rank
        last[rank] = word
    return all(bool(np.array_equal(found[rank], last[rank])) for rank in range(4))


_FLAGS = unusual(
    "message through a flag in the other CTA's shared memory",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 st.shared.u32 [%r3], 0;
    {_MEET}
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra RECEIVER;
    mad.lo.u32 %r11, %thread, 7, 1;
    st.shared::cluster.u32 [%r7], %r11;
    bar.sync 0;
    @%p1 st.release.cluster.shared::cluster.u32 [%r8], 1;
    bra DONE;
    RECEIVER:
    @!%p1 bra READY;
    POLL:
    ld.acquire.cluster.shared::cta.u32 %r12, [%r3];
    setp.eq.u32 %p3, %r12, 0;
    @%p3 bra POLL;
    READY:
    bar.sync 0;
    ld.shared.u32 %r10, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r10;
    DONE:
    """,
    [Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], 7 * np.arange(64) + 1)),
    """st.release.cluster and ld.acquire.cluster on one word of distributed shared memory (#release-acquire-patterns);
    the receiver's CTA outlives all accesses to it, for it waits for the flag that follows them.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

_HISTOGRAM = unusual(
    "histogram in the first CTA's shared memory",
    "given:u64 out:u64",
    _BEGIN
    + f"""
    mapa.shared::cluster.u32 %r11, %r1, 0;
    setp.eq.u32 %p2, %r5, 0;
    @%p2 st.shared.u32 [%r2], 0;
    {_MEET}
    mad.wide.u32 %d2, %index, 4, %given;
    ld.global.u32 %r12, [%d2];
    and.b32 %r12, %r12, 15;
    mad.lo.u32 %r12, %r12, 4, %r11;
    red.relaxed.cluster.shared::cluster.add.u32 [%r12], 1;
    {_MEET}
    setp.lt.and.u32 %p3, %thread, 16, %p2;
    @!%p3 bra DONE;
    ld.shared.u32 %r10, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r10;
    DONE:
    """,
    [In(np.arange(256, dtype=np.uint32) ** 2 // 3), Out(np.uint32, 16)],
    lambda found: bool(np.array_equal(found[0], np.bincount(np.arange(256) ** 2 // 3 % 16, minlength=16))),
    """Relaxed reductions of scope cluster are morally strong to each other (#morally-strong-operations); cluster barriers
    order them after the zeros and before the reads. Only the first CTA's memory is accessed remotely, before the
    second barrier.""",
    grid=(4,),
    block=(64,),
    cluster=(4,),
    registers=_ROOM,
)

_STORE_ASYNC = unusual(
    "stores that signal the next CTA's mbarrier",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;
    {_MEET}
    mad.lo.u32 %r11, %r5, 500, %thread;
    mad.lo.u32 %r12, %thread, 4, %r7;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r12], {{%r11, %r5}}, [%r8];
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra WAIT;
    mad.lo.u32 %r13, %thread, 4, %r2;
    ld.shared.v2.u32 {{%r10, %r14}}, [%r13];
    mad.lo.u32 %r10, %r14, 10000, %r10;
    {_STORE_RESULT}
    """,
    [Out(np.uint32, (4, 64))],
    lambda found: bool(np.array_equal(found[0], 10500 * np.array([[3], [0], [1], [2]]) + np.arange(64))),
    """The complete-tx of each st.async releases its store at scope cluster, the wait acquires it
    (#data-movement-and-conversion-instructions-st-async). Each CTA waits for all stores into it before it ends.""",
    grid=(4,),
    block=(64,),
    cluster=(4,),
    registers=_ROOM,
)

_REDUCE_ASYNC = unusual(
    "asynchronous reductions into the first CTA",
    "out:u64",
    _BEGIN
    + f"""
    mapa.shared::cluster.u32 %r7, %r1, 0;
    mapa.shared::cluster.u32 %r8, %r3, 0;
    setp.eq.u32 %p2, %r5, 0;
    setp.lt.and.u32 %p3, %thread, 8, %p2;
    @%p3 st.shared.u32 [%r2], 0;
    setp.eq.and.u32 %p4, %r5, 0, %p1;
    @%p4 mbarrier.init.shared.b64 [%r3], 1;
    @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 1024;
    {_MEET}
    and.b32 %r11, %thread, 7;
    mad.lo.u32 %r11, %r11, 4, %r7;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r11], %index, [%r8];
    @!%p2 bra DONE;
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r3], 0;
    @!%p5 bra WAIT;
    @!%p3 bra DONE;
    ld.shared.u32 %r10, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r10;
    DONE:
    """,
    [Out(np.uint32, 8)],
    lambda found: bool(np.array_equal(found[0], np.arange(256).reshape(32, 8).sum(axis=0))),
    """red.async is relaxed at scope cluster, so reductions of one word do not race; each one's complete-tx counts 4 bytes on
    the first CTA's mbarrier (#parallel-synchronization-and-communication-instructions-red-async). Other CTAs may end: nothing
    is on its way to them.""",
    grid=(4,),
    block=(64,),
    cluster=(4,),
    registers=_ROOM,
)

#: Mask 0b1011: rank 2 gets a copy of its own, from other words.
_MULTICAST = unusual(
    "multicast to three of four CTAs",
    "given:u64 out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.acquire.aligned;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    mov.b16 %h1, 11;
    setp.eq.and.u32 %p2, %r5, 1, %p1;
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%given], 256, [%r3], %h1;
    setp.eq.and.u32 %p2, %r5, 2, %p1;
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%given+256], 256, [%r3];
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    ld.shared.u32 %r10, [%r2];
    {_STORE_RESULT}
    """,
    [In(np.arange(128, dtype=np.uint32)), Out(np.uint32, (4, 64))],
    lambda found: bool(np.array_equal(found[0], np.arange(64) + 64 * np.array([[0], [0], [1], [0]]))),
    """fence.mbarrier_init with a relaxed cluster arrival hands over the initialization alone, which is all that the copies
    need (#parallel-synchronization-and-communication-instructions-membar). A receiver may expect after the bytes came: its
    own arrival is pending until then. Each CTA waits for all that is written into it.""",
    grid=(4,),
    block=(64,),
    cluster=(4,),
    registers=_ROOM,
)

_PEER_COPY = unusual(
    "bulk copies from shared memory to the next CTA, stage by stage",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 mbarrier.init.shared.b64 [%r4], 64;
    mov.u32 %r20, 0;
    sub.u32 %r23, %r30, 1;
    add.u32 %r24, %r5, %r23;
    rem.u32 %r24, %r24, %r30;
    mapa.shared::cluster.u32 %r25, %r4, %r24;
    mov.u32 %r10, 0;
    {_MEET}
    TURN:
    and.b32 %r21, %r20, 1;
    xor.b32 %r22, %r21, 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    mad.lo.u32 %r11, %r20, 100, %thread;
    mad.lo.u32 %r11, %r5, 1000, %r11;
    st.shared.u32 [%r2+512], %r11;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra WAIT;
    FREE:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r4], %r22;
    @!%p3 bra FREE;
    fence.proxy.async;
    mapa.shared::cluster.u32 %r12, %r1, %r6;
    add.u32 %r13, %r1, 512;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12], [%r13], 256, [%r8];
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], %r21;
    @!%p3 bra WAIT;
    ld.shared.u32 %r14, [%r2];
    mad.lo.u32 %r10, %r10, 7, %r14;
    fence.proxy.async;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r25];
    DRAINED:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r4], %r21;
    @!%p3 bra DRAINED;
    bar.sync 0;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p4, %r20, 4;
    @%p4 bra TURN;
    {_STORE_RESULT}
    {_MEET}
    """,
    [Out(np.uint32, (4, 64))],
    lambda found: _copied(found[0]),
    """Each reader arrives with release.cluster at the sender's mbarrier; the sender acquires it and fences to the async proxy
    before it copies again (#async-proxy), as the readers do on their side: the manual asks for a fence on the path. The same arrival tells the sender that its source was read, for the copy was complete before it
    (#data-movement-and-conversion-instructions-cp-async-bulk).""",
    grid=(4,),
    block=(64,),
    cluster=(4,),
    registers=_ROOM,
)


def _copied(found: np.ndarray) -> bool:
    expected = []
    for rank in range(4):
        word = np.zeros(64, np.uint64)
        for turn in range(4):
            word = (
                word * np.uint64(7)
                + np.uint64(1000 * ((rank + 3) % 4) + 100 * turn)
                + np.arange(64, dtype=np.uint64)
            )
        expected.append(word)
    return bool(np.array_equal(found, np.array(expected).astype(np.uint32)))


#: Rank 1 ends as soon as rank 0 says that it has read its words.
_RELEASED = unusual(
    "CTA that ends when a remote arrival lets it go",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 64;
    mul.lo.u32 %r11, %thread, 21;
    st.shared.u32 [%r2], %r11;
    {_MEET}
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra OWNER;
    ld.shared::cluster.u32 %r10, [%r7];
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
    {_STORE_RESULT}
    ret;
    OWNER:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra OWNER;
    """,
    [Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], 21 * np.arange(64))),
    """The owner's wait orders its end after every remote read, and after the arrivals themselves (#state-spaces-shared-state-space:
    shared memory must exist while it is accessed). No trailing cluster barrier is needed, for nothing else targets
    either CTA.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

_RESTRICTED = unusual(
    "remote arrival released by a fence that is restricted to shared memory",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 64;
    {_MEET}
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra READER;
    mul.lo.u32 %r11, %thread, 19;
    st.shared.u32 [%r2], %r11;
    fence.release.sync_restrict::shared::cta.cluster;
    mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r8];
    bra DONE;
    READER:
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra READER;
    fence.acquire.sync_restrict::shared::cluster.cluster;
    ld.shared::cluster.u32 %r10, [%r7];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r10;
    DONE:
    {_MEET}
    """,
    [Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], 19 * np.arange(64))),
    """fence.release restricted to .shared::cta covers the stores to the own shared memory, the acquiring fence those to
    .shared::cluster (#parallel-synchronization-and-communication-instructions-membar): with the relaxed operations between
    them they are release and acquire pattern.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

_LEAVERS = unusual(
    "threads that end before the cluster's barriers",
    "out:u64",
    _BEGIN
    + """
    mad.lo.u32 %r11, %r5, 100, %thread;
    st.shared.u32 [%r2], %r11;
    setp.ge.u32 %p2, %thread, 40;
    @%p2 exit;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    ld.shared::cluster.u32 %r10, [%r7];
    barrier.cluster.arrive.release;
    mad.wide.u32 %d1, %index, 4, %out;
    st.global.u32 [%d1], %r10;
    barrier.cluster.wait.acquire;
    """,
    [Out(np.uint32, (2, 64))],
    lambda found: bool(
        np.array_equal(found[0][:, :40], np.array([[100], [0]]) + np.arange(40))
        and not found[0][:, 40:].any()
    ),
    """The cluster barrier counts the threads that have not ended
    (#parallel-synchronization-and-communication-instructions-barrier-cluster). The others read only words of threads that
    arrive.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

_LATE_ACQUIRE = unusual(
    "local wait of scope cta, then one acquire of scope cluster",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 64;
    {_MEET}
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra READER;
    mul.lo.u32 %r11, %thread, 23;
    st.shared::cluster.u32 [%r7], %r11;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
    bra DONE;
    READER:
    mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra READER;
    mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra READER;
    ld.shared.u32 %r10, [%r2];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r10;
    DONE:
    """,
    [Out(np.uint32, 64)],
    lambda found: bool(np.array_equal(found[0], 23 * np.arange(64))),
    """The relaxed wait of scope cta only tells when the phase is complete; the test_wait after it acquires the remote
    arrivals at scope cluster (#release-acquire-patterns, form 1), so its scope alone decides.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

_ONE_WAY_PROXY = unusual(
    "one-way proxy fences around an arrival",
    "out:u64",
    _BEGIN
    + f"""
    @%p1 mbarrier.init.shared.b64 [%r3], 64;
    {_MEET}
    mad.lo.u32 %r11, %r5, 1000, %thread;
    st.shared.u32 [%r2], %r11;
    fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
    mbarrier.arrive.release.cluster.shared::cta.b64 _, [%r3];
    @!%p1 bra DONE;
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
    mad.wide.u32 %d1, %r5, 256, %out;
    cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    DONE:
    """,
    [Out(np.uint32, (2, 64))],
    lambda found: bool(np.array_equal(found[0], 1000 * np.arange(2)[:, None] + np.arange(64))),
    """fence.proxy.async::generic with release covers the ordinary stores to .shared::cta, the one with acquire the bulk
    copy's reads of .shared::cluster (#parallel-synchronization-and-communication-instructions-membar); a proxy fence is
    no memory fence (#operation-types), so the arrival releases and the wait acquires.""",
    grid=(2,),
    block=(64,),
    cluster=(2,),
    registers=_ROOM,
)

CLUSTERS = (
    *(_SPLIT, _RELAXED, _RING, _FLAGS, _HISTOGRAM, _STORE_ASYNC, _REDUCE_ASYNC, _MULTICAST, _PEER_COPY),
    *(_RELEASED, _RESTRICTED, _LEAVERS, _LATE_ACQUIRE, _ONE_WAY_PROXY),
)
