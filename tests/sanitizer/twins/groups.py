"""Twins of groups: bulk copies that write to global memory, cp.async, and copies in flight when a CTA ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from .twin import Launch, Twin, arrays, wait

__all__ = ["TWINS"]

_MOVES = "data-movement-and-conversion-instructions-"
_BULK = _MOVES + "cp-async-bulk-wait-group"
_GROUP = _MOVES + "cp-async-bulk-commit-group"
_REDUCE = _MOVES + "cp-reduce-async-bulk"
_CP = _MOVES + "cp-async-wait-group"
_ARRIVE = _MOVES + "cp-async-mbarrier-arrive"
_LANES = np.arange(32, dtype=np.uint32)

# --- bulk copies to global memory -------------------------------------------------------------


def _bulk(name: str, classes: tuple[str, ...], why: str, body: str, **arguments: Any) -> Twin:
    """One thread copies 16 bytes at ``base`` to the output."""
    return Twin(
        name=name,
        classes=("completions", *classes),
        why=why,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[8];
mov.u32 base, tile; add.u64 ptr, out, 16;
st.shared.v4.u32 [base], {{5, 6, 7, 8}};
st.shared.v4.u32 [base+16], {{1, 2, 3, 4}};
fence.proxy.async.shared::cta;
{body}
""",
                block=1,
            ),
        ),
        rules=("data-race",),
        severity="error",
        **{
            "anchor": _BULK,
            "lines": ("copy", "store"),
            "expect": np.array([5, 6, 7, 8], np.uint32),
            **arguments,
        },
    )


_COPY = "cp.async.bulk.global.shared::cta.bulk_group [out], [base], 16; // @copy"
_COMMIT = "cp.async.bulk.commit_group;"
_READ = "cp.async.bulk.wait_group.read 0;"
_DONE = "cp.async.bulk.wait_group 0;"
_TWO = np.array([5, 6, 7, 8, 1, 2, 3, 4], np.uint32)
_STORES = [
    _bulk(
        "source-overwritten",
        ("groups",),
        "wait_group.read waits until the copies of the thread have read their sources",
        f"{_COPY}\n{_COMMIT}\n-{_READ}\n+\nst.shared.u32 [base], 9; // @store\n{_DONE}",
    ),
    _bulk(
        "group-of-one-more",
        ("groups",),
        "wait_group.read 0 leaves no group in flight, so both sources are free",
        f"{_COPY}\n{_COMMIT}\ncp.async.bulk.global.shared::cta.bulk_group [ptr], [base+16], 16; // @copy\n{_COMMIT}\n"
        f"-{_READ}\n+cp.async.bulk.wait_group.read 1;\nst.shared.u32 [base+16], 9; // @store\n{_DONE}",
        expect=_TWO,
    ),
    _bulk(
        "group-not-committed",
        ("groups",),
        "the copy belongs to a committed group, which wait_group covers",
        f"{_COPY}\n-{_COMMIT}\n+\n{_READ}\nst.shared.u32 [base], 9; // @store\n{_COMMIT}\n{_DONE}",
        anchor=_GROUP,
    ),
    _bulk(
        "group-committed-before-the-copy",
        ("groups",),
        "the copy stands before the commit, so wait_group covers it",
        f"+{_COMMIT}\n{_COPY}\n-{_COMMIT}\n{_READ}\nst.shared.u32 [base], 9; // @store\n{_COMMIT}\n{_DONE}",
        anchor=_GROUP,
    ),
    _bulk(
        "written-after-read-alone",
        (),
        "wait_group waits for the writes too: the thread reads what its copy has written",
        f"{_COPY}\n{_COMMIT}\n-{_DONE}\n+{_READ}\nld.global.u32 x, [out]; // @load\nst.global.u32 [ptr], x;\n{_DONE}",
        lines=("copy", "load"),
        expect=np.array([5, 6, 7, 8, 5], np.uint32),
    ),
    Twin(
        name="exit-before-the-copy-has-read",
        classes=("exit-in-flight", "exit-under-remote-access"),
        why="wait_group.read comes before the end of the CTA, whose shared memory the copy reads",
        anchor=_BULK,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[4];
mov.u32 base, tile;
st.shared.v4.u32 [base], {{5, 6, 7, 8}};
fence.proxy.async.shared::cta;
{_COPY}
{_COMMIT}
-{_READ}
+
""",
                block=1,
            ),
        ),
        expect=np.array([5, 6, 7, 8], np.uint32),
        rules=("exit-in-flight",),
        severity="error",
        lines=("copy",),
    ),
]


def _tile(name: str, classes: tuple[str, ...], why: str, body: str, lines: tuple[str, str]) -> Twin:
    """Thread 0 of two warps stores a tile of 64 words, which all write again."""
    return Twin(
        name=name,
        classes=("completions", *classes),
        why=why,
        anchor=_BULK,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[64];
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; mad.wide.u32 ptr, tid, 4, out;
st.shared.u32 [at], tid;
fence.proxy.async.shared::cta;
bar.sync 0;
@first cp.async.bulk.global.shared::cta.bulk_group [data], [base], 256; // @copy
@first {_COMMIT}
{body}
@first {_DONE}
bar.sync 0;
""",
                block=64,
            ),
        ),
        arrays=arrays(data=64),
        expect=np.arange(64, dtype=np.uint32),
        rules=("data-race",),
        severity="error",
        lines=lines,
    )


_TILES = [
    _tile(
        "epilogue-tile-overwritten",
        ("store-tile-overwritten",),
        "the committing thread waits for its group, and then the barrier frees the tile for all",
        f"{_READ}\n-bar.sync 0;\n+\nadd.u32 x, tid, 1; st.shared.u32 [at], x; // @store\nst.global.u32 [ptr], tid;",
        ("copy", "store"),
    ),
    _tile(
        "group-of-another-thread",
        ("store-tile-overwritten",),
        "groups belong to the thread that committed them: this thread alone can wait for them",
        f"-@first {_READ}\n+@!first {_READ}\nbar.sync 0;\nadd.u32 x, tid, 1; st.shared.u32 [at], x; // @store\nst.global.u32 [ptr], tid;",
        ("copy", "store"),
    ),
    _tile(
        "written-bytes-without-a-barrier",
        (),
        "wait_group makes the writes visible to its thread, and the barrier to the other threads",
        f"@first {_DONE}\n-bar.sync 0;\n+\n"
        "xor.b32 a, tid, 32; mad.wide.u32 from, a, 4, data; ld.global.u32 x, [from]; // @load\n"
        "xor.b32 x, x, 32; st.global.u32 [ptr], x;",
        ("copy", "load"),
    ),
]

_SUM = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [out], [base], 16; // @copy"
_REDUCTIONS = [
    Twin(
        name="bulk-reductions",
        classes=("completions", "moral strength"),
        why="the reductions of bulk copies are relaxed atomics, which need no order among themselves",
        anchor=_REDUCE,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[4];
mov.u32 base, tile;
mov.u32 x, cta; setp.eq.u32 p, cta, 1;
+sub.u32 x, 1, cta; setp.eq.u32 p, cta, 1;
st.shared.v4.u32 [base], {{x, x, x, x}};
fence.proxy.async.shared::cta;
-{_SUM}
+@p {_SUM}
+@!p {_COPY.replace("@copy", "@store")}
{_COMMIT}
{_DONE}
""",
                grid=2,
                block=1,
            ),
        ),
        expect=np.full(4, 1, np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("copy", "store"),
    ),
    Twin(
        name="bulk-reduction-and-atomic",
        classes=("completions", "moral strength"),
        why="both CTAs add by bulk copies; an atomic of a thread is of another proxy, so it is a race",
        anchor=_REDUCE,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[4];
mov.u32 base, tile; setp.eq.u32 p, cta, 1;
@p bra OTHER;
st.shared.v4.u32 [base], {{1, 2, 3, 0}};
fence.proxy.async.shared::cta;
{_SUM}
{_COMMIT}
{_DONE}
bra END;
OTHER:
st.shared.v4.u32 [base], {{0, 0, 0, 4}};
fence.proxy.async.shared::cta;
-{_SUM.replace("@copy", "")}
+red.relaxed.gpu.global.add.u32 [out+12], 4; // @store
{_COMMIT}
{_DONE}
END:
""",
                grid=2,
                block=1,
            ),
        ),
        expect=np.array([1, 2, 3, 4], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("copy", "store"),
    ),
]

# --- cp.async ---------------------------------------------------------------------------------


def _cp(name: str, classes: tuple[str, ...], why: str, body: str, **arguments: Any) -> Twin:
    """Each lane of two warps copies a word to shared memory."""
    return Twin(
        name=name,
        classes=("completions", *classes),
        why=why,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[128]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; xor.b32 a, tid, 63; mad.lo.u32 to, a, 4, base;
mad.wide.u32 from, tid, 4, data; mad.wide.u32 ptr, tid, 4, out;
{body}
st.global.u32 [ptr], y;
""",
                block=64,
            ),
        ),
        arrays=arrays(data=np.arange(128, dtype=np.uint32)),
        **{
            "expect": np.arange(64, dtype=np.uint32),
            "anchor": _CP,
            "rules": ("data-race",),
            "severity": "error",
            "lines": ("copy", "load"),
            **arguments,
        },
    )


_ASYNC = "cp.async.ca.shared.global [at], [from], 4; // @copy"
_MIRRORED = np.arange(64, dtype=np.uint32)[::-1].copy()
_INIT = "@first mbarrier.init.shared::cta.b64 [bar], 64;\nbar.sync 0;\n"
_TAKE = "ld.shared.u32 y, [to]; // @load"
_ARRIVES = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"
_ASYNCS = [
    _cp(
        "cp-async-not-waited-for",
        ("groups",),
        "cp.async.wait_all waits for all earlier copies of the thread",
        f"{_ASYNC}\n-cp.async.wait_all;\n+\nld.shared.u32 y, [at]; // @load\ncp.async.wait_all;",
    ),
    _cp(
        "cp-async-group-of-one-more",
        ("groups",),
        "cp.async.wait_group 0 leaves no group in flight",
        f"{_ASYNC}\ncp.async.commit_group;\n-cp.async.wait_group 0;\n+cp.async.wait_group 1;\nld.shared.u32 y, [at]; // @load\ncp.async.wait_all;",
    ),
    _cp(
        "cp-async-group-not-committed",
        ("groups",),
        "the copy belongs to a committed group, which wait_group covers",
        f"{_ASYNC}\n-cp.async.commit_group;\n+\ncp.async.wait_group 0;\nld.shared.u32 y, [at]; // @load\ncp.async.wait_all;",
    ),
    _cp(
        "cp-async-without-a-barrier",
        (),
        "the wait makes the bytes visible to the thread that copied them, and the barrier to the others",
        f"{_ASYNC}\ncp.async.wait_all;\n-bar.sync 0;\n+\n{_TAKE}",
        expect=_MIRRORED,
    ),
    _cp(
        "cp-async-waited-after-the-barrier",
        (),
        "each thread waits for its copies before the barrier",
        f"{_ASYNC}\n-cp.async.wait_all;\nbar.sync 0;\n+cp.async.wait_all;\n{_TAKE}",
        expect=_MIRRORED,
    ),
    _cp(
        "cp-async-arrival-of-the-thread",
        ("stage-handed-back-at-issue",),
        "cp.async.mbarrier.arrive arrives when the copies of the thread are complete; mbarrier.arrive does not wait",
        f"{_INIT}{_ASYNC}\n-{_ARRIVES}\n+mbarrier.arrive.shared::cta.b64 _, [bar];\n{wait('bar', 0)}\n{_TAKE}\ncp.async.wait_all;",
        anchor=_ARRIVE,
        expect=_MIRRORED,
    ),
    _cp(
        "noinc-dropped",
        ("arrival-count",),
        "with .noinc the arrivals count among those of mbarrier.init; without it they add one each",
        f"{_INIT}{_ASYNC}\n-{_ARRIVES}\n+{_ARRIVES.replace('.noinc', '')}\n{wait('bar', 0)} // @wait\n{_TAKE}\ncp.async.wait_all;",
        anchor=_ARRIVE,
        rules=("deadlock",),
        lines=("wait",),
        expect=_MIRRORED,
    ),
    _cp(
        "two-copies-into-one-buffer",
        ("two-loads",),
        "each copy has its own buffer",
        f"{_ASYNC}\nadd.u64 from, from, 256;\n-cp.async.ca.shared.global [at+256], [from], 4;\n"
        "+cp.async.ca.shared.global [at], [from], 4; // @load\ncp.async.wait_all;\nmov.u32 y, tid;",
    ),
]

_ZERO_FILL = Twin(
    name="cp-async-of-no-bytes",
    classes=("completions", "footprints", "across CTAs"),
    why="with a source size of 0, cp.async fills with zeros and reads no byte of global memory",
    anchor=_MOVES + "cp-async",
    launches=(
        Launch(
            """
.shared .align 16 .b32 tile[4];
mov.u32 base, tile; setp.eq.u32 p, cta, 1;
@p bra OTHER;
-cp.async.cg.shared.global [base], [data], 16, 0;
+cp.async.cg.shared.global [base], [data], 16, 16; // @copy
cp.async.wait_all;
ld.shared.u32 y, [base]; and.b32 y, y, 0; st.global.u32 [out], y;
bra END;
OTHER:
st.global.u32 [data], 7; // @store
END:
""",
            grid=2,
            block=1,
        ),
    ),
    arrays=arrays(data=4),
    expect=np.zeros(1, np.uint32),
    rules=("data-race",),
    severity="error",
    lines=("copy", "store"),
)

_EXITS = [
    _cp(
        "cp-async-at-the-end",
        ("exit-in-flight",),
        "the thread waits for its copies before it ends",
        f"{_ASYNC}\n-cp.async.wait_all;\n+\nmov.u32 y, tid;",
        rules=("copy-never-waited",),
        severity="review",
        lines=("copy",),
    ),
    Twin(
        name="bulk-load-at-the-end",
        classes=("exit-in-flight", "completions"),
        why="the thread waits for the bytes before the CTA, whose shared memory they fill, ends",
        anchor=_MOVES + "cp-async-bulk",
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[4]; .shared .align 8 .b64 bar;
mov.u32 base, tile;
mbarrier.init.shared::cta.b64 [bar], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base], [data], 16, [bar]; // @copy
-{wait("bar", 0)}
+
st.global.u32 [out], 5;
""",
                block=1,
            ),
        ),
        arrays=arrays(data=4),
        expect=np.array([5], np.uint32),
        rules=("exit-in-flight",),
        severity="error",
        lines=("copy",),
    ),
]

_TWO_LOADS = Twin(
    name="two-bulk-loads-into-one-buffer",
    classes=("two-loads",),
    why="each copy has its own buffer, and the phase completes when both have come",
    anchor=_MOVES + "cp-async-bulk",
    launches=(
        Launch(
            f"""
.shared .align 16 .b32 tile[64]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mad.wide.u32 ptr, lane, 4, out; add.u64 from, data, 128;
@first mbarrier.init.shared::cta.b64 [bar], 1;
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
@first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base], [data], 128, [bar]; // @copy
-@first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base+128], [from], 128, [bar];
+@first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [base], [from], 128, [bar]; // @again
bar.warp.sync -1;
{wait("bar", 0)}
ld.shared.u32 y, [at]; and.b32 y, y, 31; st.global.u32 [ptr], y;
"""
        ),
    ),
    arrays=arrays(data=np.arange(64, dtype=np.uint32)),
    expect=_LANES,
    rules=("data-race",),
    severity="error",
    lines=("copy", "again"),
)

TWINS = [*_STORES, *_TILES, *_REDUCTIONS, *_ASYNCS, *_EXITS, _ZERO_FILL, _TWO_LOADS]
