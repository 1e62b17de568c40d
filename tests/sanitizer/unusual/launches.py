"""Several launches of one stream, some of them by programmatic dependent launch."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import In, Number, Out, Step

from .table import unusual

__all__ = ["LAUNCHES"]

_SIZE = 4 * 64
_GIVEN = np.arange(_SIZE, dtype=np.uint32) * np.uint32(3)

#: Adds 1, rotated by 64: every CTA reads what another CTA of the launch before wrote.
_ADD = """
griddepcontrol.launch_dependents;
griddepcontrol.wait;
add.u32 %r1, %index, 64;
and.b32 %r1, %r1, 255;
mad.wide.u32 %d1, %r1, 4, %from;
ld.global.u32 %r2, [%d1];
add.u32 %r2, %r2, 1;
mad.wide.u32 %d2, %index, 4, %to;
st.global.u32 [%d2], %r2;
"""

_CHAIN = unusual(
    "chain of four dependent launches that use a buffer again",
    "from:u64 to:u64",
    _ADD,
    [In(_GIVEN), Out(np.uint32, _SIZE), Out(np.uint32, _SIZE), Out(np.uint32, _SIZE)],
    lambda found: bool(
        np.array_equal(found[2], np.roll(_GIVEN, -192) + 3)
        and np.array_equal(found[0], np.roll(_GIVEN, -256) + 4)
    ),
    """griddepcontrol.wait returns when the launch before has ended and its memory operations are visible
    (#parallel-synchronization-and-communication-instructions-griddepcontrol). Every launch waits before its first access, so
    each also follows all earlier ones: the last launch may overwrite what the second one read.""",
    grid=(4,),
    block=(64,),
    steps=(
        Step((0, 1)),
        Step((1, 2), dependent=True),
        Step((2, 3), dependent=True),
        Step((3, 1), dependent=True),
    ),
)

_PREAMBLE = unusual(
    "dependent launch that works on its own before it waits",
    "from:u64 to:u64 weights:u64 own:u64",
    """
    mad.wide.u32 %d3, %index, 4, %weights;
    ld.global.u32 %r3, [%d3];
    mad.wide.u32 %d4, %index, 4, %own;
    mul.lo.u32 %r4, %r3, %r3;
    st.global.u32 [%d4], %r4;
    """
    + _ADD
    + """
    ld.global.u32 %r5, [%d4];
    add.u32 %r5, %r5, %r2;
    st.global.u32 [%d2], %r5;
    """,
    [
        *(In(_GIVEN), Out(np.uint32, _SIZE), Out(np.uint32, _SIZE)),
        *(In(np.arange(_SIZE, dtype=np.uint32)), Out(np.uint32, _SIZE), Out(np.uint32, _SIZE)),
    ],
    lambda found: _preambled(found),
    """Before it waits a launch reads only what no launch writes and writes only a buffer that no other launch accesses
    (#parallel-synchronization-and-communication-instructions-griddepcontrol).""",
    grid=(4,),
    block=(64,),
    steps=(Step((0, 1, 3, 4)), Step((1, 2, 3, 5), dependent=True)),
)


def _preambled(found: list[np.ndarray]) -> bool:
    squares = np.arange(_SIZE, dtype=np.uint32) ** 2
    first = np.roll(_GIVEN, -64) + 1 + squares
    second = np.roll(first, -64) + 1 + squares
    return bool(np.array_equal(found[0], first) and np.array_equal(found[1], second))


_BOUNDARY = unusual(
    "launch whose words the next one reads by other proxies",
    "tile:u64 out:u64 phase:u32",
    """
    .shared .align 128 .b8 room[256];
    .shared .align 8 .b64 full;
    mad.wide.u32 %d1, %index, 4, %tile;
    setp.ne.u32 %p1, %phase, 0;
    @%p1 bra READ;
    mad.lo.u32 %r1, %index, 7, 3;
    st.global.u32 [%d1], %r1;
    ret;
    READ:
    mov.u32 %r2, room;
    mov.u32 %r3, full;
    setp.eq.u32 %p2, %thread, 0;
    @!%p2 bra READY;
    mbarrier.init.shared.b64 [%r3], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    mov.u32 %r4, %ctaid.x;
    mad.wide.u32 %d2, %r4, 256, %tile;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d2], 256, [%r3];
    READY:
    bar.sync 0;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    mad.lo.u32 %r5, %thread, 4, %r2;
    ld.shared.u32 %r6, [%r5];
    ld.global.nc.u32 %r7, [%d1];
    add.u32 %r6, %r6, %r7;
    mad.wide.u32 %d3, %index, 4, %out;
    st.global.u32 [%d3], %r6;
    """,
    [Out(np.uint32, _SIZE), Out(np.uint32, _SIZE), Number(0, "u32"), Number(1, "u32")],
    lambda found: bool(np.array_equal(found[1], 2 * (7 * np.arange(_SIZE) + 3))),
    """The end of a launch synchronizes with the start of the next one in the stream, for all proxies but the tensormap's
    (#memory-synchronization, API synchronization): bulk loads and ld.global.nc need no fence.""",
    grid=(4,),
    block=(64,),
    steps=(Step((0, 1, 2)), Step((0, 1, 3))),
)

LAUNCHES = (_CHAIN, _PREAMBLE, _BOUNDARY)
