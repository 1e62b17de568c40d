"""What lies close together or is looked at in other sizes: neighbors that no two threads share, and many readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Out, kernel

from .table import Unusual, unusual

__all__ = ["BYTES"]

_ROOM = ".shared .align 128 .b8 room[1024]; .shared .align 8 .b64 full;"
_BEGIN = """
mov.u32 %r1, room;
mov.u32 %r3, full;
mad.lo.u32 %r2, %thread, 4, %r1;
setp.eq.u32 %p1, %thread, 0;
"""
_LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"

_NEIGHBORS = unusual(
    "bytes of one word that lanes of two warps write",
    "out:u64",
    _BEGIN
    + """
    shr.u32 %r4, %thread, 5;
    mad.lo.u32 %r5, %lane, 2, %r4;
    add.u32 %r5, %r5, %r1;
    add.u32 %r6, %thread, 1;
    st.shared.u8 [%r5], %r6;
    bar.sync 0;
    and.b32 %r7, %thread, 15;
    mad.lo.u32 %r7, %r7, 4, %r1;
    ld.shared.u32 %r8, [%r7];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r8;
    """,
    [Out(np.uint32, (4, 16))],
    lambda found: _interleaved(found[0]),
    """A memory operation accesses its own bytes only (#memory-operations): writes of neighboring bytes do not overlap
    (#overlap), so they need no order. The words are read after a barrier.""",
    block=(64,),
    registers=_ROOM,
)


def _interleaved(found: NDArray[Any]) -> bool:
    room = np.stack([np.arange(1, 33), np.arange(33, 65)], axis=1).astype(np.uint8).ravel().view(np.uint32)
    return bool((found == room).all())


_CTA_NEIGHBORS = unusual(
    "bytes of one word that different CTAs write",
    "out:u64",
    """
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %thread, 4, %r1;
    cvt.u64.u32 %d1, %r2;
    add.u64 %d1, %d1, %out;
    mad.lo.u32 %r3, %r1, 50, %thread;
    st.global.u8 [%d1], %r3;
    ld.global.u8 %r4, [%d1];
    add.u32 %r4, %r4, 1;
    st.global.u8 [%d1], %r4;
    """,
    [Out(np.uint8, (32, 4))],
    lambda found: bool(np.array_equal(found[0], np.arange(32)[:, None] + 50 * np.arange(4) + 1)),
    """Every thread reads and writes one byte that no other thread accesses (#overlap); that four CTAs share each word does
    not matter.""",
    grid=(4,),
)

_OTHER_SIZES = unusual(
    "words written in one size and read in others",
    "out:u64",
    _BEGIN
    + """
    mad.lo.u32 %r4, %thread, 8, %r1;
    mul.wide.u32 %d1, %thread, 0x01010101;
    st.shared.u64 [%r4], %d1;
    bar.sync 0;
    xor.b32 %r5, %thread, 21;
    mad.lo.u32 %r6, %r5, 8, %r1;
    ld.shared.u8 %r7, [%r6+1];
    ld.shared.u16 %r8, [%r6+2];
    ld.shared.v2.u32 {%r9, %r10}, [%r6];
    add.u32 %r7, %r7, %r8;
    add.u32 %r9, %r9, %r10;
    bar.sync 0;
    st.shared.u8 [%r6+3], %r7;
    bar.sync 0;
    atom.relaxed.cta.shared.add.u32 %r11, [%r4], 1;
    add.u32 %r9, %r9, %r11;
    mad.wide.u32 %d2, %thread, 4, %out;
    st.global.u32 [%d2], %r9;
    """,
    [Out(np.uint32, 64)],
    lambda found: _resized(found[0]),
    """Accesses of different sizes may overlap as long as causality order relates them (#mixed-size-limitations speaks of
    races alone): a barrier stands between any two that do.""",
    block=(64,),
    registers=_ROOM,
)


def _resized(found: NDArray[Any]) -> bool:
    word = np.arange(64, dtype=np.uint64) * 0x01010101
    other = word[np.arange(64) ^ 21]
    small = (other >> 8 & 0xFF) + (other >> 16 & 0xFFFF)
    back = np.zeros(64, np.uint64)
    back[np.arange(64) ^ 21] = small & 0xFF
    now = (word & 0x00FFFFFF) | back << 24
    return bool(np.array_equal(found, (other + now).astype(np.uint32)))


_BESIDE_A_COPY = unusual(
    "ordinary words beside the bytes of a bulk load in flight",
    "given:u64 out:u64",
    _BEGIN
    + """
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 240;
    """
    + f"@%p1 {_LOAD} [%r1+16], [%given], 240, [%r3];"
    + """
    setp.ge.u32 %p2, %thread, 8;
    @%p2 bra WAIT;
    setp.ge.u32 %p3, %thread, 4;
    mul.lo.u32 %r4, %thread, 3;
    @%p3 add.u32 %r2, %r2, 240;
    st.shared.u32 [%r2], %r4;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0;
    @!%p4 bra WAIT;
    bar.sync 0;
    mad.lo.u32 %r5, %thread, 4, %r1;
    ld.shared.u32 %r6, [%r5];
    mad.wide.u32 %d1, %thread, 4, %out;
    st.global.u32 [%d1], %r6;
    """,
    [In(np.arange(100, 160, dtype=np.uint32)), Out(np.uint32, 68)],
    lambda found: found[0].tolist() == [0, 3, 6, 9, *range(100, 160), 12, 15, 18, 21],
    """The copy writes bytes 16 to 255; threads write the 16 bytes before and the 16 after meanwhile. They do not overlap
    (#overlap), so there is neither a race nor a change of proxy.""",
    block=(68,),
    registers=_ROOM,
)

_MATRICES = unusual(
    "rows exchanged by stmatrix and ldmatrix between lanes",
    "out:u64",
    _BEGIN
    + """
    mad.lo.u32 %r4, %lane, 16, %r1;
    mov.u32 %r10, %lane;
    add.u32 %r11, %lane, 100;
    add.u32 %r12, %lane, 200;
    add.u32 %r13, %lane, 300;
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r4], {%r10, %r11, %r12, %r13};
    bar.warp.sync 0xffffffff;
    xor.b32 %r5, %lane, 8;
    mad.lo.u32 %r5, %r5, 16, %r1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r14, %r15, %r16, %r17}, [%r5];
    mad.wide.u32 %d1, %lane, 16, %out;
    st.global.v4.u32 [%d1], {%r14, %r15, %r16, %r17};
    """,
    [Out(np.uint32, (32, 4))],
    lambda found: bool(np.array_equal(found[0], np.arange(32)[:, None] + np.array([100, 0, 300, 200]))),
    """stmatrix and ldmatrix are weak accesses of rows whose addresses the lanes give
    (#warp-level-matrix-instructions-stmatrix); bar.warp.sync orders the stores before the loads.""",
    registers=_ROOM,
)

_GENERIC = unusual(
    "flag in shared memory by its generic address",
    "out:u64",
    _BEGIN
    + """
    cvt.u64.u32 %d1, %r1;
    cvta.shared.u64 %d1, %d1;
    add.u64 %d2, %d1, 512;
    @%p1 st.relaxed.cta.u32 [%d2], 0;
    bar.sync 0;
    setp.eq.u32 %p2, %warp, 1;
    @%p2 bra RECEIVER;
    mad.wide.u32 %d3, %lane, 4, %d1;
    mul.lo.u32 %r4, %lane, 9;
    st.u32 [%d3], %r4;
    bar.warp.sync 0xffffffff;
    @%p1 st.release.cta.u32 [%d2], 1;
    ret;
    RECEIVER:
    ld.acquire.cta.shared.u32 %r5, [%r1+512];
    setp.eq.u32 %p3, %r5, 0;
    @%p3 bra RECEIVER;
    mad.lo.u32 %r6, %lane, 4, %r1;
    ld.shared.u32 %r7, [%r6];
    mad.wide.u32 %d4, %lane, 4, %out;
    st.global.u32 [%d4], %r7;
    """,
    [Out(np.uint32, 32)],
    lambda found: found[0].tolist() == [9 * n for n in range(32)],
    """A generic address and a shared one name the same location (#generic-addressing) and one virtual address, so operations
    through both synchronize. All 32 lanes acquire for themselves.""",
    block=(64,),
    registers=_ROOM,
)

#: CTAs 1 to 5 read the words; CTA 0 overwrites them when all have.
_MANY_READERS = unusual(
    "words overwritten after five CTAs have read them",
    "data:u64 count:u64 out:u64",
    """
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %thread, 0;
    mad.wide.u32 %d1, %thread, 4, %data;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra WRITER;
    ld.global.u32 %r2, [%d1];
    bar.sync 0;
    @%p1 red.release.gpu.global.add.u32 [%count], 1;
    mad.wide.u32 %d2, %index, 4, %out;
    st.global.u32 [%d2], %r2;
    ret;
    WRITER:
    @!%p1 bra READY;
    POLL:
    ld.acquire.gpu.global.u32 %r3, [%count];
    setp.ne.u32 %p3, %r3, 5;
    @%p3 bra POLL;
    READY:
    bar.sync 0;
    st.global.u32 [%d1], %thread;
    """,
    [
        Out(np.uint32, 64, initial=np.arange(64, dtype=np.uint32) + 500),
        Out(np.uint32, 1),
        Out(np.uint32, (6, 64)),
    ],
    lambda found: bool(
        np.array_equal(found[0], np.arange(64)) and (found[2][1:] == np.arange(64) + 500).all()
    ),
    """A release also orders earlier reads of the CTA (bar.sync, then red.release): base causality order includes reads
    (#causality-order), and the writer has acquired all five counts.""",
    grid=(6,),
    block=(64,),
)

#: Two CTAs hand one word to and fro.
_TO_AND_FRO = unusual(
    "word that two CTAs hand to and fro",
    "word:u64 turn:u64",
    """
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra DONE;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %r1;
    TURN:
    ld.acquire.gpu.global.u32 %r3, [%turn];
    setp.ne.u32 %p2, %r3, %r2;
    @%p2 bra TURN;
    ld.global.u32 %r4, [%word];
    mad.lo.u32 %r4, %r4, 3, %r1;
    st.global.u32 [%word], %r4;
    add.u32 %r3, %r3, 1;
    st.release.gpu.global.u32 [%turn], %r3;
    add.u32 %r2, %r2, 2;
    setp.lt.u32 %p2, %r2, 8;
    @%p2 bra TURN;
    DONE:
    """,
    [Out(np.uint32, 1, initial=1), Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == _handed(8) and int(found[1][0]) == 8,
    """Each turn's st.release is read by the other CTA's ld.acquire (#release-acquire-patterns), so all weak accesses of the
    word lie in one causality order.""",
    grid=(2,),
)


def _handed(turns: int) -> int:
    word = 1
    for turn in range(turns):
        word = 3 * word + turn % 2
    return word


#: All lanes that find a multiple of 7 raise one flag.
_ANY = unusual(
    "flag that many lanes raise by st.relaxed",
    "given:u64 found:u64",
    """
    mad.wide.u32 %d1, %index, 4, %given;
    ld.global.u32 %r1, [%d1];
    rem.u32 %r2, %r1, 7;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 st.relaxed.gpu.global.u32 [%found], 1;
    """,
    [In(np.arange(128, dtype=np.uint32)), Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == 1,
    """The stores are strong, of one size and scope gpu: morally strong to each other, so not in a data race
    (#conflict-and-data-races); all write the same value.""",
    grid=(2,),
    block=(64,),
)

_MIXED_SCOPES = unusual(
    "counter of one CTA by atomics of scope cta, gpu and sys",
    "out:u64",
    _BEGIN
    + """
    @%p1 st.shared.u32 [%r1], 0;
    bar.sync 0;
    red.relaxed.cta.shared.add.u32 [%r1], 1;
    red.shared.add.u32 [%r1], 1;
    atom.relaxed.sys.shared.add.u32 %r4, [%r1], 1;
    ld.relaxed.cta.shared.u32 %r5, [%r1];
    setp.lt.u32 %p2, %r5, %r4;
    @%p2 trap;
    bar.sync 0;
    @%p1 ld.shared.u32 %r6, [%r1];
    @%p1 st.global.u32 [%out], %r6;
    """,
    [Out(np.uint32, 1)],
    lambda found: int(found[0][0]) == 192,
    """Each scope includes the CTA's threads (#scope), which are the only ones that access the word: all pairs are morally
    strong. The load cannot return less than the thread's own atomic saw (#sc-per-loc-axiom).""",
    block=(64,),
    registers=_ROOM,
)

_LOCAL = unusual(
    "local memory, whose addresses all threads share",
    "out:u64",
    """
    .local .align 16 .b8 stack[64];
    mov.u64 %d1, stack;
    mov.u32 %r1, 0;
    FILL:
    mad.wide.u32 %d2, %r1, 4, %d1;
    add.u32 %r2, %r1, %thread;
    st.local.u32 [%d2], %r2;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra FILL;
    and.b32 %r3, %thread, 15;
    mad.wide.u32 %d2, %r3, 4, %d1;
    cvta.local.u64 %d2, %d2;
    ld.u32 %r4, [%d2];
    mad.wide.u32 %d3, %index, 4, %out;
    st.global.u32 [%d3], %r4;
    """,
    [Out(np.uint32, (2, 64))],
    lambda found: bool((found[0] == np.arange(64) + np.arange(64) % 16).all()),
    """Local memory is private to each thread (#local-state-space): equal addresses of two threads are different
    locations.""",
    grid=(2,),
    block=(64,),
)

_FUNCTION = """
.global .align 4 .u32 total = 10;
.func meet(.reg .u32 id, .reg .u32 count)
{
    bar.sync id, count;
    ret;
}
"""

#: A barrier inside a function, and a counter that is a variable of the module.
_CALLED = Unusual(
    "barrier in a function, counter in a module variable",
    kernel(
        _BEGIN
        + """
        st.shared.u32 [%r2], %thread;
        mov.u32 %r4, 3;
        mov.u32 %r5, 64;
        call meet, (%r4, %r5);
        xor.b32 %r6, %thread, 32;
        mad.lo.u32 %r6, %r6, 4, %r1;
        ld.shared.u32 %r7, [%r6];
        red.global.add.u32 [total], 1;
        call meet, (%r4, %r5);
        ld.relaxed.gpu.global.u32 %r8, [total];
        setp.lt.u32 %p2, %r8, 74;
        @%p2 trap;
        mad.wide.u32 %d1, %index, 4, %out;
        st.global.u32 [%d1], %r7;
        """,
        declarations=_FUNCTION,
        registers=_ROOM,
    ),
    (Out(np.uint32, (2, 64)),),
    check=lambda found: bool((found[0] == np.arange(64) ^ 32).all()),
    why="""The barrier's number and count are arguments; both calls meet at the same place in all threads
    (#parallel-synchronization-and-communication-instructions-bar). The variable is accessed by relaxed operations
    alone.""",
    target="sm_90a",
    grid=(2,),
    block=(64,),
)

BYTES: Sequence[Unusual] = (
    *(_NEIGHBORS, _CTA_NEIGHBORS, _OTHER_SIZES, _BESIDE_A_COPY, _MATRICES, _GENERIC, _MANY_READERS),
    *(_TO_AND_FRO, _ANY, _MIXED_SCOPES, _LOCAL, _CALLED),
)
