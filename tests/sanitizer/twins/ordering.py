"""Twins of ordinary accesses: barriers, lanes, flags, fences, scopes and sizes.

The second CTA, warp or lane reads what the first has written.
"""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin, arrays

__all__ = ["TWINS"]

_MODEL = "memory-consistency-model"
_BAR = "parallel-synchronization-and-communication-instructions-bar"
_WARP_BAR = "parallel-synchronization-and-communication-instructions-bar-warp-sync"

TWINS = [
    Twin(
        name="barrier-between-warps",
        classes=("ordering",),
        why="bar.sync orders the accesses of all participating threads before it and after it",
        anchor=_BAR,
        launches=(
            Launch(
                """
.shared .align 4 .b32 tile[64];
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; xor.b32 x, tid, 32; mad.lo.u32 to, x, 4, base;
st.shared.u32 [at], tid; // @store
-bar.sync 0;
+
ld.shared.u32 y, [to]; // @load
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
""",
                block=64,
            ),
        ),
        expect=np.arange(64, dtype=np.uint32) ^ 32,
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="flag-released",
        classes=("found: message passing", "moral strength"),
        why="st.release synchronizes with the ld.acquire that reads its value",
        anchor=_MODEL,
        launches=(
            Launch(
                """
setp.eq.u32 p, cta, 1;
@p bra CONSUME;
st.global.u32 [data], 7; // @store
-st.release.gpu.global.u32 [flag], 1;
+st.relaxed.gpu.global.u32 [flag], 1;
bra END;
CONSUME:
POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra POLL;
ld.global.u32 y, [data]; // @load
st.global.u32 [out], y;
END:
""",
                grid=2,
                block=1,
            ),
        ),
        arrays=arrays(data=1, flag=1),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
]
