"""Twins of reuse: mbarriers invalidated or overwritten, unions of shared memory, initialization by order, registers."""

from __future__ import annotations

import numpy as np

from .twin import Launch, Twin, arrays, wait

__all__ = ["TWINS"]

_SYNC = "parallel-synchronization-and-communication-instructions-"
_INVAL = _SYNC + "mbarrier-inval"
_INIT = _SYNC + "mbarrier-init"
_MODEL = "memory-consistency-model"
_NREG = "miscellaneous-instructions-setmaxnreg"
_BULK = "data-movement-and-conversion-instructions-cp-async-bulk"
_THREADS = np.arange(64, dtype=np.uint32)

_SETUP = ".shared .align 8 .b64 bar;\n@first mbarrier.init.shared::cta.b64 [bar], 1;\nbar.sync 0;\n"
_ARRIVAL = "@first mbarrier.arrive.shared::cta.b64 _, [bar];"
_OUT = "mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], tid;"


def _barrier(name: str, classes: tuple[str, ...], why: str, body: str, lines: tuple[str, str]) -> Twin:
    """Thread 0 of two warps arrives, and all threads wait."""
    return Twin(
        name=name,
        classes=("reuse", *classes),
        why=why,
        anchor=_INVAL,
        launches=(Launch(f"{_SETUP}{_ARRIVAL}\n{wait('bar', 0)} // @wait\n{body}\n{_OUT}", block=64),),
        expect=_THREADS,
        rules=("data-race",),
        severity="error",
        lines=lines,
    )


_LAST = "the barrier of the CTA comes after the last wait of every thread, and before {}"
_BARRIERS = [
    _barrier(
        "invalidated-under-a-wait",
        ("init-not-ordered",),
        _LAST.format("mbarrier.inval"),
        "-bar.sync 0;\n+\n@first mbarrier.inval.shared::cta.b64 [bar]; // @inval",
        ("wait", "inval"),
    ),
    _barrier(
        "initialized-again-under-a-wait",
        ("init-not-ordered",),
        _LAST.format("mbarrier.inval and the second mbarrier.init"),
        "-bar.sync 0;\n+\n@first mbarrier.inval.shared::cta.b64 [bar]; // @inval\n@first mbarrier.init.shared::cta.b64 [bar], 2; // @inval",
        ("wait", "inval"),
    ),
    _barrier(
        "overwritten-under-a-wait",
        ("unions",),
        _LAST.format("mbarrier.inval and the ordinary store"),
        "-bar.sync 0;\n+\n@first mbarrier.inval.shared::cta.b64 [bar]; // @inval\n@first st.shared.u32 [bar], 5; // @inval",
        ("wait", "inval"),
    ),
    _barrier(
        "invalidated-memory-not-handed-over",
        ("unions",),
        "the barrier of the CTA orders mbarrier.inval before the ordinary store of another thread",
        "bar.sync 0;\n@first mbarrier.inval.shared::cta.b64 [bar]; // @wait\n-bar.sync 0;\n+\n"
        "setp.eq.u32 p, tid, 32;\n@p st.shared.u32 [bar], 5; // @inval",
        ("wait", "inval"),
    ),
    Twin(
        name="invalidated-behind-match",
        classes=("reuse",),
        why="bar.warp.sync orders the waits of the lanes before mbarrier.inval; match.sync orders execution alone",
        anchor=_INVAL,
        launches=(
            Launch(
                f"""{_SETUP}{_ARRIVAL}
setp.eq.u32 p, warp, 0;
@!p bra END;
{wait("bar", 0)} // @wait
-bar.warp.sync -1;
+match.any.sync.b32 x, 1, -1;
@first mbarrier.inval.shared::cta.b64 [bar]; // @inval
END: bar.sync 0;
{_OUT}""",
                block=64,
            ),
        ),
        expect=_THREADS,
        rules=("relaxed-handover",),
        severity="review",
        lines=("wait", "inval"),
        omitted=True,
    ),
]

_UNIONS = [
    Twin(
        name="union-without-a-barrier",
        classes=("reuse", "unions"),
        why="the barrier stands between the last read of the tile and the first write of the sums at its place",
        anchor=_MODEL,
        launches=(
            Launch(
                """
.shared .align 16 .b32 room[64];
mov.u32 base, room; mad.lo.u32 at, tid, 4, base; xor.b32 a, tid, 63; mad.lo.u32 to, a, 4, base;
st.shared.u32 [at], tid;
bar.sync 0;
ld.shared.u32 x, [to]; // @load
redux.sync.add.u32 y, x, -1;
-bar.sync 0;
+
mad.lo.u32 at, warp, 4, base;
@lead st.shared.u32 [at], y; // @store
bar.sync 0;
ld.shared.v2.u32 {x, y}, [base]; add.u32 x, x, y;
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], x;
""",
                block=64,
            ),
        ),
        expect=np.full(64, 63 * 32, np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("load", "store"),
    ),
    Twin(
        name="refilled-before-the-last-read",
        classes=("reuse", "read-then-refill"),
        why="the barrier, after the readers' proxy fences, comes before the next copy into the tile",
        anchor=_BULK,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[64]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; add.u64 from, data, 256;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
@first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [data], 256, [bar];
{wait("bar", 0)}
ld.shared.u32 x, [at]; // @load
fence.proxy.async.shared::cta;
-bar.sync 0;
+
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
@first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [from], 256, [bar]; // @copy
{wait("bar", 1)}
ld.shared.u32 y, [at]; sub.u32 y, y, x;
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
""",
                block=64,
            ),
        ),
        arrays=arrays(data=np.arange(128, dtype=np.uint32)),
        expect=np.full(64, 64, np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("load", "copy"),
    ),
    Twin(
        name="initialized-by-another-warp",
        classes=("reuse", "uninitialized values"),
        why="warp 0 writes zero before the barrier, and warp 1 reads after the barrier",
        anchor=_MODEL,
        launches=(
            Launch(
                """
.shared .align 4 .b32 count;
@first st.shared.u32 [count], 5; // @store
-bar.sync 0;
+
setp.eq.u32 p, tid, 32;
@p ld.shared.u32 y, [count]; // @load
@p st.global.u32 [out], y;
""",
                block=64,
            ),
        ),
        expect=np.array([5], np.uint32),
        rules=("data-race", "uninitialized-read"),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="unwritten-word-used",
        classes=("reuse", "uninitialized values"),
        why="all four words are written before the vector load reads them",
        anchor=_MODEL,
        launches=(
            Launch(
                """
.shared .align 16 .b32 tile[4];
mov.u32 base, tile;
st.shared.v2.u32 [base], {5, 6};
-st.shared.v2.u32 [base+8], {7, 8};
+st.shared.u32 [base+8], 7;
ld.shared.v4.u32 {x, y, z, n}, [base]; // @load
add.u32 x, x, n;
st.global.u32 [out], x; // @load
""",
                block=1,
            ),
        ),
        expect=np.array([13], np.uint32),
        rules=("uninitialized-read",),
        severity="error",
        lines=("load",),
    ),
    Twin(
        name="unwritten-word-unused",
        classes=("reuse", "uninitialized values"),
        why="all four words are written before the vector load reads them; a word that no code uses is for review",
        anchor=_MODEL,
        launches=(
            Launch(
                """
.shared .align 16 .b32 tile[4];
mov.u32 base, tile;
st.shared.v2.u32 [base], {5, 6};
-st.shared.v2.u32 [base+8], {7, 8};
+st.shared.u32 [base+8], 7;
ld.shared.v4.u32 {x, y, z, n}, [base]; // @load
add.u32 x, x, z;
st.global.u32 [out], x;
""",
                block=1,
            ),
        ),
        expect=np.array([12], np.uint32),
        rules=("padding-read",),
        severity="review",
        lines=("load",),
        omitted=True,
    ),
    Twin(
        name="discarded-bytes-read",
        classes=("completions", "uninitialized values"),
        why="discard leaves 128 bytes undefined, and the reads are of other bytes",
        anchor="data-movement-and-conversion-instructions-discard",
        launches=(
            Launch(
                """
mad.wide.u32 ptr, lane, 4, data; add.u64 from, data, 128;
st.global.u32 [ptr], lane;
bar.warp.sync -1;
-@first discard.global.L2 [from], 128;
+@first discard.global.L2 [data], 128;
bar.warp.sync -1;
ld.global.u32 y, [ptr]; // @load
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""
            ),
        ),
        arrays=arrays(data=64),
        expect=np.arange(32, dtype=np.uint32),
        rules=("uninitialized-read",),
        severity="error",
        lines=("load",),
    ),
    Twin(
        name="last-tile-not-guarded",
        classes=("out-of-range-tile",),
        why="threads beyond the end of the array do nothing",
        anchor="state-spaces",
        launches=(
            Launch(
                """
mad.lo.u32 a, cta, 64, tid; setp.lt.u32 p, a, 100;
-@!p bra END;
+
mad.wide.u32 ptr, a, 4, data; ld.global.u32 x, [ptr]; // @load
add.u32 x, x, 1; mad.wide.u32 ptr, a, 4, out; st.global.u32 [ptr], x;
END:
""",
                grid=2,
                block=64,
            ),
        ),
        arrays=arrays(data=np.arange(100, dtype=np.uint32)),
        expect=np.arange(1, 101, dtype=np.uint32),
        rules=("out-of-bounds",),
        severity="error",
        lines=("load",),
    ),
]

_POOL = """
setp.ge.u32 p, tid, 128;
@p bra CONSUME;
-setmaxnreg.dec.sync.aligned.u32 40;
+setmaxnreg.dec.sync.aligned.u32 120;
bra END;
CONSUME:
setmaxnreg.inc.sync.aligned.u32 {}; // @inc
END:
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], tid;
"""
_REGISTERS = [
    Twin(
        name="registers-never-free",
        classes=("register-pool", "registers-repaired"),
        why="one warpgroup gives up 88 registers of each thread, and the other takes 80 more",
        anchor=_NREG,
        launches=(Launch(_POOL.format(208), block=256),),
        expect=np.arange(256, dtype=np.uint32),
        rules=("register-pool",),
        severity="error",
        lines=("inc",),
        directives=".reqntid 256 .minnctapersm 1 .maxnreg 128",
    ),
    Twin(
        name="registers-without-a-directive",
        classes=("registers-repaired",),
        why=".maxnreg, or .minnctapersm beside the block's size, lets ptxas keep setmaxnreg",
        anchor=_NREG,
        launches=(
            Launch(
                """
setmaxnreg.dec.sync.aligned.u32 40; // @dec
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], tid;
""",
                block=128,
            ),
        ),
        expect=np.arange(128, dtype=np.uint32),
        rules=("setmaxnreg",),
        severity="review",
        lines=("dec",),
        directives=".reqntid 128\n- .minnctapersm 1\n+",
    ),
]

TWINS = [*_BARRIERS, *_UNIONS, *_REGISTERS]
