"""Control flow: branches, indirect branches, returns and exits, with lanes that take different ways."""

from __future__ import annotations

import numpy as np

from ..case import In, KernelCase, Out, kernel
from ..words import uniform

#: Every lane stores %r0 at its place.
_STORE = """
mad.wide.u32 %d31, %index, 4, %out;
st.global.u32 [%d31], %r0;
"""


def _lanes(name: str, body: str, *covers: str, block: int = 64, **options: str) -> KernelCase:
    """A kernel whose lanes each compute %r0."""
    return KernelCase(
        name, kernel(body + _STORE, **options), (Out(np.uint32, block),), block=(block,), covers=covers
    )


def _choosing(name: str, uni: str) -> KernelCase:
    """brx.idx: every lane (or the whole warp) goes to the label that its word chooses."""
    words = uniform(name, 128, 16).astype(np.uint32) % 5
    if uni:
        words = np.repeat(words[:4], 32)
    body = f"""
    mad.wide.u32 %d0, %index, 4, %given;
    ld.global.u32 %r1, [%d0];
    mov.u32 %r0, 1;
    TARGETS: .branchtargets A, B, C, D, E;
    brx.idx{uni} %r1, TARGETS;
    A: add.u32 %r0, %r0, 10;
    bra END;
    B: add.u32 %r0, %r0, 100;
    C: mul.lo.u32 %r0, %r0, 7;
    bra END;
    D: xor.b32 %r0, %r0, %lane;
    bra C;
    E: shl.b32 %r0, %r0, 4;
    END:
    """
    text = kernel(body + _STORE, "given:u64 out:u64")
    return KernelCase(name, text, (In(words), Out(np.uint32, 128)), block=(128,), covers=("brx.idx",))


CASES = [
    _lanes(
        "a loop of another length for each lane",
        """
        mov.u32 %r0, 0;
        mov.u32 %r1, 0;
        LOOP:
        setp.ge.u32 %p0, %r1, %lane;
        @%p0 bra DONE;
        mad.lo.u32 %r0, %r0, 3, %r1;
        add.u32 %r1, %r1, 1;
        bra LOOP;
        DONE:
        """,
        "bra",
    ),
    _lanes(
        "branches within branches",
        """
        and.b32 %r1, %lane, 1;
        and.b32 %r2, %lane, 2;
        and.b32 %r3, %lane, 4;
        setp.ne.u32 %p0, %r1, 0;
        setp.ne.u32 %p1, %r2, 0;
        setp.ne.u32 %p2, %r3, 0;
        mov.u32 %r0, %lane;
        @%p0 bra ODD;
        @%p1 bra TWO;
        mul.lo.u32 %r0, %r0, 11;
        bra JOIN;
        TWO:
        mul.lo.u32 %r0, %r0, 13;
        @!%p2 bra JOIN;
        add.u32 %r0, %r0, 1000;
        bra JOIN;
        ODD:
        @%p2 bra FOUR;
        add.u32 %r0, %r0, 5;
        bra TWO;
        FOUR:
        xor.b32 %r0, %r0, 0x55;
        JOIN:
        add.u32 %r0, %r0, 7;
        """,
        "bra",
    ),
    _lanes(
        "a loop that is entered in the middle",
        """
        mov.u32 %r0, 1;
        mov.u32 %r1, 0;
        and.b32 %r2, %lane, 3;
        setp.eq.u32 %p0, %r2, 0;
        @%p0 bra MIDDLE;
        TOP:
        mad.lo.u32 %r0, %r0, 5, 1;
        MIDDLE:
        xor.b32 %r0, %r0, %lane;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, 6;
        @%p1 bra TOP;
        """,
        "bra",
    ),
    _lanes(
        "warps that part and lanes that do not",
        """
        and.b32 %r1, %warp, 1;
        setp.eq.u32 %p0, %r1, 0;
        mov.u32 %r0, 3;
        @%p0 bra.uni EVEN;
        add.u32 %r0, %r0, %lane;
        bra.uni END;
        EVEN:
        shl.b32 %r0, %r0, 5;
        END:
        """,
        "bra",
        block=128,
    ),
    _choosing("lanes choose a label", ""),
    _choosing("warps choose a label", ".uni"),
    KernelCase(
        "lanes that return early",
        kernel(
            """
            mad.wide.u32 %d0, %index, 4, %out;
            st.global.u32 [%d0], %lane;
            setp.lt.u32 %p0, %lane, 11;
            @%p0 ret;
            mul.lo.u32 %r0, %lane, 3;
            st.global.u32 [%d0], %r0;
            and.b32 %r1, %lane, 1;
            setp.eq.u32 %p1, %r1, 0;
            @%p1 exit;
            add.u32 %r0, %r0, 1000;
            st.global.u32 [%d0], %r0;
            """
        ),
        (Out(np.uint32, 64),),
        block=(64,),
        covers=("ret", "exit"),
    ),
    KernelCase(
        "a barrier after some warps have left",
        kernel(
            """
            setp.ge.u32 %p0, %warp, 2;
            @%p0 exit;
            mov.u32 %r2, board;
            mad.lo.u32 %r3, %thread, 4, %r2;
            st.shared.u32 [%r3], %thread;
            barrier.sync 0, 64;
            xor.b32 %r4, %thread, 63;
            mad.lo.u32 %r4, %r4, 4, %r2;
            ld.shared.u32 %r0, [%r4];
            """
            + _STORE,
            registers=".shared .b32 board[64];",
        ),
        (Out(np.uint32, 128),),
        block=(128,),
        covers=("exit",),
    ),
    KernelCase(
        "uniform returns",
        kernel(
            """
            setp.eq.u32 %p0, %warp, 1;
            mov.u32 %r0, 77;
            @%p0 bra.uni STORE;
            ret.uni;
            STORE:
            """
            + _STORE
        ),
        (Out(np.uint32, 96),),
        block=(96,),
        covers=("ret", "bra"),
    ),
]
