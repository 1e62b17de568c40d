"""Kernels for sm_100a: tcgen05 by the manual's canonical patterns, CTA pairs, cluster launch control.

All elements of A and of each B are equal, so that it does not matter which element lies where in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import Out

from .table import BLACKWELL, Unusual, unusual

__all__ = ["BLACKWELLS"]

#: Instruction descriptors for f16 in, f32 out, N = 32; M = 128 or, of a pair, 256.
_ONE, _PAIR = 0x08080010, 0x10080010
_SHARED = """
.shared .align 1024 .b8 a[4096];
.shared .align 1024 .b8 b[4096];
.shared .align 8 .b64 done;
.shared .align 8 .b64 full;
.shared .align 8 .b64 empty;
.shared .align 4 .b32 slot;
.reg .b32 %tmem, %mine;
.reg .b64 %adesc, %bdesc;
"""


def _setup(group: int, arrivals: int) -> str:
    """Allocate 32 columns, fill A with 1 and B with rows of 1, 2, 3 and 4, make descriptors; all threads of 4 warps.

    ``full`` and ``empty`` count ``arrivals``.
    """
    sync = "bar.sync 0;"
    if group == 2:
        sync = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
    return f"""
    mov.u32 %r1, a;
    mov.u32 %r2, b;
    mov.u32 %r3, done;
    mov.u32 %r4, full;
    mov.u32 %r5, empty;
    mov.u32 %r6, slot;
    setp.ne.u32 %p1, %warp, 0;
    setp.eq.u32 %p2, %thread, 0;
    @%p1 bra ALLOCATED;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r6], 32;
    ALLOCATED:
    @%p2 mbarrier.init.shared.b64 [%r3], 1;
    @%p2 mbarrier.init.shared.b64 [%r4], 1;
    @%p2 mbarrier.init.shared.b64 [%r5], {arrivals};
    fence.mbarrier_init.release.cluster;
    mov.u32 %r10, 0;
    mad.lo.u32 %r11, %thread, 4, %r1;
    mad.lo.u32 %r12, %thread, 4, %r2;
    mov.u32 %r13, 0x3c003c00;
    FILL:
    st.shared.u32 [%r11], %r13;
    shr.u32 %r14, %r10, 1;
    setp.eq.u32 %p3, %r14, 0;
    mov.u32 %r15, 0x44004400;
    @%p3 mov.u32 %r15, 0x3c003c00;
    setp.eq.u32 %p3, %r14, 1;
    @%p3 mov.u32 %r15, 0x40004000;
    setp.eq.u32 %p3, %r14, 2;
    @%p3 mov.u32 %r15, 0x42004200;
    st.shared.u32 [%r12], %r15;
    add.u32 %r11, %r11, 512;
    add.u32 %r12, %r12, 512;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p3, %r10, 8;
    @%p3 bra FILL;
    fence.proxy.async.shared::cta;
    tcgen05.fence::before_thread_sync;
    {sync}
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %tmem, [%r6];
    shl.b32 %mine, %warp, 21;
    add.u32 %mine, %mine, %tmem;
    shr.u32 %r16, %r1, 4;
    and.b32 %r16, %r16, 0x3fff;
    cvt.u64.u32 %adesc, %r16;
    or.b64 %adesc, %adesc, 0x0000401000080000;
    shr.u32 %r16, %r2, 4;
    and.b32 %r16, %r16, 0x3fff;
    cvt.u64.u32 %bdesc, %r16;
    or.b64 %bdesc, %bdesc, 0x0000401000080000;
    """


def _free(group: int) -> str:
    sync = "bar.sync 0;"
    if group == 2:
        sync = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
    return f"""
    tcgen05.fence::before_thread_sync;
    {sync}
    tcgen05.fence::after_thread_sync;
    @%p1 bra FREED;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tmem, 32;
    FREED:
    """


_MMA = "tcgen05.mma.cta_group::{group}.kind::f16 [%tmem], %adesc, %bdesc, {word}, {more};"
_COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{bar}];"
_LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%mine];"
_KEEP = """
add.u32 %r22, {row}, 0;
mad.wide.u32 %d1, %r22, 8, %out;
st.global.v2.u32 [%d1], {{%r20, %r21}};
"""


def _wait(label: str, bar: str, parity: str) -> str:
    """The manual's wait of a thread that next accesses tensor memory."""
    return f"""
    {label}:
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p4, [{bar}], {parity};
    @!%p4 bra {label};
    tcgen05.fence::after_thread_sync;
    """


def _all(expected: Sequence[float]) -> Any:
    """Each row of the output has one number in all places."""

    def check(found: Sequence[NDArray[Any]]) -> bool:
        return all(bool((row == number).all()) for row, number in zip(found[0], expected, strict=True))

    return check


def _blackwell(
    name: str, body: str, rounds: Sequence[float], why: str, *, group: int = 1, arrivals: int = 128
) -> Unusual:
    more: dict[str, Any] = {"cluster": (2,), "grid": (2,)} if group == 2 else {}
    return unusual(
        name,
        "out:u64",
        _setup(group, arrivals) + body + _free(group),
        [Out(np.float32, (len(rounds), 128, 2))],
        _all(rounds),
        why,
        block=(128,),
        target=BLACKWELL,
        registers=_SHARED,
        **more,
    )


_PRODUCT = _blackwell(
    "tcgen05 product that a relaxed wait hands to all warps",
    f"""
    @%p1 bra ISSUED;
    elect.sync _|%p5, 0xffffffff;
    @!%p5 bra ISSUED;
    {_MMA.format(group=1, word=_ONE, more="0")}
    add.u64 %bdesc, %bdesc, 64;
    {_MMA.format(group=1, word=_ONE, more="1")}
    {_COMMIT.format(bar="%r3")}
    ISSUED:
    bar.warp.sync 0xffffffff;
    {_wait("WAIT", "%r3", "0")}
    {_LOAD}
    tcgen05.wait::ld.sync.aligned;
    {_KEEP.format(row="%thread")}
    """,
    (16 * (1 + 2),),
    """mma; commit and try_wait.relaxed; fence::after_thread_sync; ld is the manual's canonical pattern
    (#tcgen05-memory-consistency-model-canonical-sync-patterns-non-pipelined-diff-thread); the two products into one
    accumulator are pipelined.""",
)

#: Warp 0 multiplies four times; the warps say each time when they have loaded.
_ROUNDS = _blackwell(
    "tcgen05 accumulator that goes to and fro by relaxed arrivals",
    f"""
    mov.u32 %r30, 0;
    ROUND:
    and.b32 %r31, %r30, 1;
    xor.b32 %r32, %r31, 1;
    @!%p2 bra LOAD;
    {_wait("FREE", "%r5", "%r32")}
    {_MMA.format(group=1, word=_ONE, more="0")}
    add.u64 %bdesc, %bdesc, 64;
    {_COMMIT.format(bar="%r3")}
    {_wait("DONE", "%r3", "%r31")}
    tcgen05.fence::before_thread_sync;
    mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%r4];
    LOAD:
    bar.warp.sync 0xffffffff;
    {_wait("FULL", "%r4", "%r31")}
    {_LOAD}
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%r5];
    mad.lo.u32 %r23, %r30, 128, %thread;
    {_KEEP.format(row="%r23")}
    add.u32 %r30, %r30, 1;
    setp.lt.u32 %p6, %r30, 4;
    @%p6 bra ROUND;
    """,
    (16, 32, 48, 64),
    """Both directions are patterns of the manual: commit, wait and an arrival of the issuing thread for the product; ld,
    wait::ld, fence::before_thread_sync and a relaxed arrival for the way back
    (#tcgen05-memory-consistency-model-canonical-sync-patterns-non-pipelined-diff-thread).""",
)

_STORED = _blackwell(
    "tcgen05 product that adds to what the warps stored",
    f"""
    mov.u32 %r20, 0x40a00000;
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%mine], {{{", ".join(["%r20"] * 32)}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p2 bra ISSUED;
    {_MMA.format(group=1, word=_ONE, more="1")}
    {_COMMIT.format(bar="%r3")}
    ISSUED:
    bar.warp.sync 0xffffffff;
    {_wait("WAIT", "%r3", "0")}
    {_LOAD}
    tcgen05.wait::ld.sync.aligned;
    {_KEEP.format(row="%thread")}
    """,
    (21,),
    """wait::st completes each warp's stores, fence::before_thread_sync and fence::after_thread_sync order them around bar.sync
    before the product that accumulates onto them (#tcgen05-fence, #tcgen05-wait).""",
)

_PAIRED = _blackwell(
    "tcgen05 product of a CTA pair, committed to both",
    f"""
    mov.u32 %r17, %cluster_ctarank;
    mov.b16 %h1, 3;
    setp.eq.and.u32 %p5, %r17, 0, %p2;
    @!%p5 bra ISSUED;
    fence.proxy.async;
    {_MMA.format(group=2, word=_PAIR, more="0")}
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r3], %h1;
    ISSUED:
    bar.warp.sync 0xffffffff;
    {_wait("WAIT", "%r3", "0")}
    {_LOAD}
    tcgen05.wait::ld.sync.aligned;
    mad.lo.u32 %r23, %r17, 128, %thread;
    {_KEEP.format(row="%r23")}
    """,
    (16, 16),
    """One thread issues for the pair and commits to the mbarrier at the same offset in both CTAs (#tcgen05-commit,
    multicast); each CTA waits for its own. The cluster barrier before dealloc keeps both CTAs until all warps have loaded
    (#tcgen05-issue-granularity).""",
    group=2,
)

#: Thread 0 asks for another CTA's place while all work on the present one.
_PERSISTENT = unusual(
    "persistent CTAs that take over the places of CTAs not yet started",
    "counts:u64",
    """
    .shared .align 16 .b8 answer[16];
    .shared .align 8 .b64 bar;
    .reg .b128 %response;
    setp.eq.u32 %p1, %thread, 0;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    TILE:
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
    mad.lo.u32 %r3, %r1, 64, %thread;
    mad.wide.u32 %d1, %r3, 4, %counts;
    ld.global.u32 %r4, [%d1];
    add.u32 %r4, %r4, 1;
    st.global.u32 [%d1], %r4;
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2;
    @!%p2 bra WAIT;
    ld.shared.b128 %response, [answer];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %response;
    @%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, _, _, _}, %response;
    xor.b32 %r2, %r2, 1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p3 bra TILE;
    """,
    [Out(np.uint32, (24, 64))],
    lambda found: bool((found[0] == 1).all()),
    """Each place is given to one CTA only, so the counts are updated by ordinary loads and stores. All threads read the
    answer, fence to the async proxy and meet before the next request may overwrite it
    (#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel).""",
    grid=(24,),
    block=(64,),
    target=BLACKWELL,
    memory=24_000,
)

BLACKWELLS = (_PRODUCT, _ROUNDS, _STORED, _PAIRED, _PERSISTENT)
