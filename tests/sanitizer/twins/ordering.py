"""Twins of ordinary accesses: barriers, lanes, flags, fences, scopes and sizes.

The second CTA, warp or lane reads what the first has written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .twin import Launch, Twin, arrays

__all__ = ["TWINS"]

_MODEL = "memory-consistency-model"
_STRONG = "morally-strong-operations"
_CAUSALITY = "causality-order"
_SYNC = "parallel-synchronization-and-communication-instructions-"
_BAR = _SYNC + "bar"
_WARP_BAR = _SYNC + "bar-warp-sync"
_ATOM = _SYNC + "atom"

# --- barriers of the CTA ----------------------------------------------------------------------

_BARRIERS = [
    Twin(
        name="barrier-between-warps",
        classes=("barriers",),
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
        name="barrier-before-overwrite",
        classes=("barriers", "reuse"),
        why="the second bar.sync orders the reads of the first round before the writes of the second",
        anchor=_BAR,
        launches=(
            Launch(
                """
.shared .align 4 .b32 tile[64];
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; xor.b32 x, tid, 32; mad.lo.u32 to, x, 4, base; mov.u32 n, 0; mov.u32 z, 0;
LOOP:
add.u32 y, tid, n;
st.shared.u32 [at], y; // @store
bar.sync 0;
ld.shared.u32 y, [to]; add.u32 z, z, y; // @load
-bar.sync 0;
+
add.u32 n, n, 1; setp.lt.u32 p, n, 2; @p bra LOOP;
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], z;
""",
                block=64,
            ),
        ),
        expect=2 * (np.arange(64, dtype=np.uint32) ^ 32) + 1,
        rules=("data-race",),
        severity="error",
        lines=("load", "store"),
    ),
    Twin(
        name="arrive-releases-only",
        classes=("barriers", "lanes are threads"),
        why="both warps wait at the barrier, so each sees what the other wrote before it",
        anchor=_BAR,
        launches=(
            Launch(
                """
.shared .align 4 .b32 tile[32];
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base;
setp.eq.u32 p, warp, 1;
@p bra OTHER;
st.shared.u32 [at], lane; // @store
bar.sync 1, 64;
bra END;
OTHER:
-bar.sync 1, 64;
+bar.arrive 1, 64;
ld.shared.u32 y, [at]; // @load
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
END:
""",
                block=64,
            ),
        ),
        expect=np.arange(32, dtype=np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="barrier-of-half-the-warps",
        classes=("barriers",),
        why="all four warps meet at barrier 1, the writer and the reader among them",
        anchor=_BAR,
        launches=(
            Launch(
                """
.shared .align 4 .b32 tile[128];
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; xor.b32 x, tid, 127; mad.lo.u32 to, x, 4, base; shr.u32 a, warp, 1; add.u32 a, a, 1;
st.shared.u32 [at], tid; // @store
-bar.sync 1, 128;
+bar.sync a, 64;
ld.shared.u32 y, [to]; // @load
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
""",
                block=128,
            ),
        ),
        expect=np.arange(128, dtype=np.uint32)[::-1].copy(),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
]

_BARRIERS += [
    Twin(
        name="barrier-of-one-more-warp",
        classes=("barriers", "arrival-count"),
        why="two warps arrive at the barrier, which counts 64 threads",
        anchor=_BAR,
        launches=(
            Launch(
                """
-bar.sync 1, 64;
+bar.sync 1, 96; // @bar
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], tid;
""",
                block=64,
            ),
        ),
        expect=np.arange(64, dtype=np.uint32),
        rules=("deadlock", "barrier-misuse"),
        severity="error",
        lines=("bar",),
    ),
    Twin(
        name="aligned-barrier-in-a-branch",
        classes=("wrong-lanes",),
        why="all lanes of the warp execute the aligned barrier together",
        anchor=_BAR,
        launches=(
            Launch(
                """
setp.ge.u32 p, lane, 16;
-bar.sync 0;
@p bra END;
+bar.sync 0; // @bar
END:
bar.sync 0; // @bar
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], tid;
""",
                block=64,
            ),
        ),
        expect=np.arange(64, dtype=np.uint32),
        rules=("divergent-collective",),
        severity="error",
        lines=("bar",),
    ),
]


def _swap(name: str, classes: tuple[str, ...], why: str, body: str, **arguments: Any) -> Twin:
    """Threads of two warps exchange words of ``tile``: ``at`` is the thread's own, ``to`` the other warp's."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        launches=(
            Launch(
                f"""
.shared .align 8 .b32 tile[64];
mov.u32 base, tile; mad.lo.u32 at, tid, 4, base; xor.b32 x, tid, 32; mad.lo.u32 to, x, 4, base;
{body}
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
""",
                block=64,
            ),
        ),
        **{
            "anchor": _BAR,
            "expect": np.arange(64, dtype=np.uint32) ^ 32,
            "rules": ("data-race",),
            "severity": "error",
            "lines": ("store", "load"),
            **arguments,
        },
    )


_BARRIERS += [
    _swap(
        "barrier-with-a-reduction",
        ("barriers",),
        "bar.red orders accesses as bar.sync does",
        """
st.shared.u32 [at], tid; // @store
-bar.red.popc.u32 z, 0, lead;
+
ld.shared.u32 y, [to]; // @load
""",
    ),
    _swap(
        "generic-addresses",
        ("barriers",),
        "bar.sync orders accesses by generic addresses too",
        """
cvt.u64.u32 wide, to; cvta.shared.u64 wide, wide;
st.shared.u32 [at], tid; // @store
-bar.sync 0;
+
ld.u32 y, [wide]; // @load
""",
    ),
    _swap(
        "neighboring-bytes",
        ("moral strength",),
        "two warps may write neighboring bytes of one word: the accesses do not overlap",
        """
mov.u16 mask, 7; mad.lo.u32 at, warp, 1, base;
-@lead st.shared.u8 [at], mask;
+setp.eq.u32 p, tid, 32; @lead st.shared.u8 [at], mask; // @store
+@p st.shared.u16 [base], mask; // @store
bar.sync 0;
mov.u32 y, x;
""",
        lines=("store",),
    ),
    _swap(
        "flag-acquired-by-one-thread",
        ("barriers", "chains of releases"),
        "thread 32 acquires, and the barrier of its warp hands that on to the other lanes",
        """
setp.eq.u32 p, tid, 32; setp.eq.u32 member, warp, 1;
@first st.shared.u32 [base+4], 0;
bar.sync 0;
@member bra CONSUME;
@first st.shared.u32 [base], 9; // @store
@first st.release.cta.shared.u32 [base+4], 1;
bra END;
CONSUME:
@!p bra MEET;
POLL: ld.acquire.cta.shared.u32 z, [base+4]; setp.eq.u32 q, z, 0; @q bra POLL;
MEET:
-bar.warp.sync -1;
+
ld.shared.u32 z, [base]; // @load
@never st.global.u32 [out], z;
END:
mov.u32 y, x;
""",
        anchor=_CAUSALITY,
    ),
]

# --- lanes are threads ------------------------------------------------------------------------


def _exchange(name: str, instead: str, why: str = "") -> Twin:
    """Lanes exchange a word through shared memory; ``instead`` replaces the barrier of the warp."""
    return Twin(
        name=name,
        classes=("lanes are threads",),
        why=why or "bar.warp.sync orders the accesses of the lanes in its mask",
        anchor=_WARP_BAR,
        launches=(
            Launch(f"""
.shared .align 4 .b32 tile[32];
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; xor.b32 x, lane, 31; mad.lo.u32 to, x, 4, base;
setp.lt.u32 member, lane, 16; selp.b32 b, 0xffff, 0xffff0000, member;
st.shared.u32 [at], lane; // @store
-bar.warp.sync -1;
+{instead}
ld.shared.u32 y, [to]; // @load
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""),
        ),
        expect=np.arange(32, dtype=np.uint32)[::-1].copy(),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    )


def _mask(name: str, right: str, wrong: str, after: str, expect: int) -> Twin:
    """All lanes execute an instruction with a member mask."""
    return Twin(
        name=name,
        classes=("member masks", "wrong-lanes"),
        why="the mask names every lane that executes the instruction",
        anchor=_WARP_BAR,
        launches=(
            Launch(f"""
-{right}
+{wrong} // @bug
{after}
@lead st.global.u32 [out], y;
"""),
        ),
        expect=np.array([expect], np.uint32),
        rules=("member-mask",),
        severity="error",
        lines=("bug",),
    )


_LANES = [
    _exchange("lanes-without-a-barrier", ""),
    _exchange("lanes-ordered-by-shfl", "shfl.sync.idx.b32 y, x, 0, 31, -1;"),
    _exchange("lanes-ordered-by-vote", "vote.sync.ballot.b32 y, member, -1;"),
    _exchange("lanes-ordered-by-match", "match.any.sync.b32 y, x, -1;"),
    _exchange("lanes-ordered-by-redux", "redux.sync.add.u32 y, x, -1;"),
    _exchange("lanes-ordered-by-elect", "elect.sync y|p, -1;"),
    _exchange("lanes-ordered-by-halves", "bar.warp.sync b;"),
    _exchange("lanes-ordered-by-a-fence", "membar.cta;"),
    Twin(
        name="lanes-after-a-branch",
        classes=("lanes are threads",),
        why="lanes that meet again after a branch are ordered by bar.warp.sync alone",
        anchor=_WARP_BAR,
        launches=(
            Launch("""
.shared .align 4 .b32 tile;
@!lead bra MEET;
st.shared.u32 [tile], 7; // @store
MEET:
-bar.warp.sync -1;
+
ld.shared.u32 y, [tile]; // @load
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""),
        ),
        expect=np.full(32, 7, np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    _mask("mask-of-a-warp-barrier", "bar.warp.sync -1;", "bar.warp.sync 0xffff;", "mov.u32 y, 3;", 3),
    _mask(
        "mask-of-a-shuffle",
        "shfl.sync.bfly.b32 y, lane, 1, 31, -1;",
        "shfl.sync.bfly.b32 y, lane, 1, 31, 0xffff;",
        "",
        1,
    ),
    _mask("mask-of-a-vote", "vote.sync.ballot.b32 y, lead, -1;", "vote.sync.ballot.b32 y, lead, 0xf;", "", 1),
    Twin(
        name="lanes-store-to-one-address",
        classes=("lanes are threads", "store collision"),
        why="one lane alone stores",
        anchor=_MODEL,
        launches=(
            Launch("""
setp.eq.u32 p, lane, 5;
add.u32 a, lane, 4;
-@p st.global.u32 [out], a;
+st.global.u32 [out], a; // @store
"""),
        ),
        expect=np.array([9], np.uint32),
        rules=("store-collision",),
        severity="review",
        lines=("store",),
        omitted=True,
    ),
    Twin(
        name="warps-store-to-one-address",
        classes=("lanes are threads", "store collision"),
        why="one thread alone stores; stores of two warps are two instructions that nothing orders",
        anchor=_MODEL,
        launches=(
            Launch(
                """
setp.eq.u32 p, tid, 0; add.u32 a, tid, 9;
-@p st.global.u32 [out], a;
+@lead st.global.u32 [out], a; // @store
""",
                block=64,
            ),
        ),
        expect=np.array([9], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store",),
    ),
]

# --- messages between CTAs --------------------------------------------------------------------

_FOUND = "message-passing"


def _message(
    name: str, why: str, publish: str, poll: str = "", after: str = "", *, anchor: str = _CAUSALITY
) -> Twin:
    """CTA 0 writes a word and raises a flag; CTA 1 polls the flag and reads the word."""
    poll = poll or "ld.acquire.gpu.global.u32 x, [flag];"
    return Twin(
        name=name,
        classes=("narrow-handover", _FOUND, "moral strength"),
        why=why,
        anchor=anchor,
        launches=(
            Launch(
                f"""
setp.eq.u32 p, cta, 1;
@p bra CONSUME;
st.global.u32 [data], 7; // @store
{publish}
bra END;
CONSUME:
POLL:
{poll}
setp.eq.u32 p, x, 0; @p bra POLL;
{after}
ld.global.u32 y, [data]; // @load
st.global.u32 [out], y;
END:
""",
                grid=2,
                block=1,
            ),
        ),
        arrays=arrays(data=1, flag=2),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    )


_PAIR = "st.release synchronizes with the ld.acquire that reads its value, if their scopes include both CTAs"
_FENCED = (
    "a fence before the strong store and one after the strong load make a release and an acquire pattern"
)
_RELEASE = "st.release.gpu.global.u32 [flag], 1;"
_SET = "st.relaxed.gpu.global.u32 [flag], 1;"
_GET = "ld.relaxed.gpu.global.u32 x, [flag];"
_FENCE = "fence.acq_rel.gpu;"

_MESSAGES = [
    _message("flag-stored-relaxed", _PAIR, f"-{_RELEASE}\n+{_SET}"),
    _message("flag-loaded-relaxed", _PAIR, _RELEASE, f"-ld.acquire.gpu.global.u32 x, [flag];\n+{_GET}"),
    _message(
        "flag-released-at-cta-scope",
        _PAIR,
        f"-{_RELEASE}\n+st.release.cta.global.u32 [flag], 1; // @store",
        "ld.acquire.gpu.global.u32 x, [flag]; // @load",
        anchor=_STRONG,
    ),
    _message(
        "flag-acquired-at-cta-scope",
        _PAIR,
        "st.release.gpu.global.u32 [flag], 1; // @store",
        "-ld.acquire.gpu.global.u32 x, [flag];\n+ld.acquire.cta.global.u32 x, [flag]; // @load",
        anchor=_STRONG,
    ),
    _message(
        "flag-released-at-cluster-scope",
        "the CTAs belong to two clusters, which the scope gpu includes",
        f"-{_RELEASE}\n+st.release.cluster.global.u32 [flag], 1; // @store",
        "ld.acquire.gpu.global.u32 x, [flag]; // @load",
        anchor=_STRONG,
    ),
    _message(
        "flag-stored-weakly",
        _PAIR,
        f"-{_RELEASE}\n+st.global.u32 [flag], 1; // @store",
        "ld.acquire.gpu.global.u32 x, [flag]; // @load",
        anchor=_STRONG,
    ),
    _message(
        "flag-loaded-weakly",
        _PAIR,
        "st.release.gpu.global.u32 [flag], 1; // @store",
        "-ld.acquire.gpu.global.u32 x, [flag];\n+ld.global.u32 x, [flag]; // @load",
        anchor=_STRONG,
    ),
    _message(
        "flag-read-by-a-wider-load",
        "accesses of one size to one address are morally strong; a wider load is not, so nothing synchronizes",
        "st.release.gpu.global.u32 [flag], 1; // @store",
        "-ld.acquire.gpu.global.u32 x, [flag];\n"
        "+ld.acquire.gpu.global.u64 wide, [flag]; cvt.u32.u64 x, wide; // @load",
        anchor=_STRONG,
    ),
    _message(
        "flag-in-a-vector",
        "a vector load counts as one load for each element, so the second element acquires what was released there",
        "st.release.gpu.global.u32 [flag+4], 1;",
        "-ld.acquire.gpu.global.v2.u32 {y, x}, [flag];\n+ld.relaxed.gpu.global.v2.u32 {y, x}, [flag];",
        anchor="vector-data-types",
    ),
    _message(
        "flag-volatile",
        "volatile is relaxed.sys: it makes the flag strong, but orders no other access",
        f"-{_RELEASE}\n+st.volatile.global.u32 [flag], 1;",
        "-ld.acquire.gpu.global.u32 x, [flag];\n+ld.volatile.global.u32 x, [flag];",
    ),
    _message("fence-of-the-writer", _FENCED, f"-{_FENCE}\n+\n{_SET}", _GET, _FENCE),
    _message("fence-of-the-reader", _FENCED, f"{_FENCE}\n{_SET}", _GET, f"-{_FENCE}\n+"),
    _message("fence-at-cta-scope", _FENCED, f"-{_FENCE}\n+fence.acq_rel.cta;\n{_SET}", _GET, _FENCE),
    _message(
        "fence-sc-at-cta-scope", _FENCED, "fence.sc.gpu;\n" + _SET, _GET, "-fence.sc.gpu;\n+fence.sc.cta;"
    ),
    _message("membar-of-the-cta", _FENCED, f"-membar.gl;\n+membar.cta;\n{_SET}", _GET, "membar.gl;"),
    _message(
        "fence-that-acquires-only",
        "fence.release before the store and fence.acquire after the load are enough",
        f"-fence.release.gpu;\n+fence.acquire.gpu;\n{_SET}",
        _GET,
        "fence.acquire.gpu;",
    ),
    _message(
        "fence-that-releases-only",
        "fence.release before the store and fence.acquire after the load are enough",
        f"fence.release.gpu;\n{_SET}",
        _GET,
        "-fence.acquire.gpu;\n+fence.release.gpu;",
    ),
    _message(
        "volatile-flag-and-fences",
        "volatile accesses are strong, so with fences they make a release and an acquire pattern",
        "-membar.gl;\n+\nst.volatile.global.u32 [flag], 1;",
        "ld.volatile.global.u32 x, [flag];",
        "membar.gl;",
    ),
    _message("fence-behind-the-flag", _FENCED, f"-{_FENCE}\n{_SET}\n+{_FENCE}", _GET, _FENCE),
    _message(
        "flag-exchanged-relaxed",
        "an atomic with .release is a write that an acquire can read",
        "-atom.exch.release.gpu.global.b32 x, [flag], 1;\n+atom.exch.relaxed.gpu.global.b32 x, [flag], 1;",
    ),
    _message(
        "flag-incremented-relaxed",
        "red.release is a write that an acquire can read",
        "-red.release.gpu.global.add.u32 [flag], 1;\n+red.relaxed.gpu.global.add.u32 [flag], 1;",
    ),
    _message(
        "flag-polled-by-a-relaxed-atomic",
        "atom.acquire reads the flag and acquires",
        _RELEASE,
        "-atom.or.acquire.gpu.global.b32 x, [flag], 0;\n+atom.or.relaxed.gpu.global.b32 x, [flag], 0;",
    ),
    Twin(
        name="flag-asked-once",
        classes=(_FOUND, "every schedule"),
        why="the loop ends only when the acquire has read the released value",
        anchor=_CAUSALITY,
        launches=(
            Launch(
                """
setp.eq.u32 p, cta, 1;
@p bra CONSUME;
st.global.u32 [data], 7;
st.release.gpu.global.u32 [flag], 1; // @store
bra END;
CONSUME:
POLL:
ld.acquire.gpu.global.u32 x, [flag]; // @load
-setp.eq.u32 p, x, 0; @p bra POLL;
+
ld.global.u32 y, [data];
st.global.u32 [out], y;
END:
""",
                grid=2,
                block=1,
            ),
        ),
        arrays=arrays(data=1, flag=1),
        expect=np.array([7], np.uint32),
        rules=("ordered-by-chance",),
        severity="review",
        lines=("store", "load"),
    ),
    Twin(
        name="answer-relaxed",
        classes=(_FOUND, "reuse"),
        why="the reader releases its read, and the writer acquires before it overwrites the word",
        anchor=_CAUSALITY,
        launches=(
            Launch(
                """
setp.eq.u32 p, cta, 1;
@p bra CONSUME;
st.global.u32 [data], 7;
st.release.gpu.global.u32 [flag], 1;
BACK: ld.acquire.gpu.global.u32 x, [flag+4]; setp.eq.u32 p, x, 0; @p bra BACK;
st.global.u32 [data], 8; // @store
bra END;
CONSUME:
POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra POLL;
ld.global.u32 y, [data]; // @load
-st.release.gpu.global.u32 [flag+4], 1;
+st.relaxed.gpu.global.u32 [flag+4], 1;
st.global.u32 [out], y;
END:
""",
                grid=2,
                block=1,
            ),
        ),
        arrays=arrays(data=1, flag=2),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("load", "store"),
    ),
    Twin(
        name="chain-of-releases",
        classes=(_FOUND, "chains of releases"),
        why="CTA 1 acquires from CTA 0 and releases to CTA 2: causality order is transitive",
        anchor=_CAUSALITY,
        launches=(
            Launch(
                """
setp.eq.u32 p, cta, 1; @p bra FORWARD;
setp.eq.u32 p, cta, 2; @p bra CONSUME;
st.global.u32 [data], 7; // @store
st.release.gpu.global.u32 [flag], 1;
bra END;
FORWARD:
-PASS: ld.acquire.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra PASS;
+PASS: ld.relaxed.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra PASS;
st.release.gpu.global.u32 [flag+4], 1;
bra END;
CONSUME:
POLL: ld.acquire.gpu.global.u32 x, [flag+4]; setp.eq.u32 p, x, 0; @p bra POLL;
ld.global.u32 y, [data]; // @load
st.global.u32 [out], y;
END:
""",
                grid=3,
                block=1,
            ),
        ),
        arrays=arrays(data=1, flag=2),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="release-continued-by-an-atomic",
        classes=(_FOUND, "chains of releases"),
        why="an atomic read-modify-write, relaxed too, stands in observation order after the release that it reads",
        anchor="observation-order",
        launches=(
            Launch(
                """
setp.eq.u32 p, cta, 1; @p bra FORWARD;
setp.eq.u32 p, cta, 2; @p bra CONSUME;
st.global.u32 [data], 7; // @store
st.release.gpu.global.u32 [flag], 1;
bra END;
FORWARD:
PASS: ld.relaxed.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra PASS;
-atom.add.relaxed.gpu.global.u32 x, [flag], 1;
+st.relaxed.gpu.global.u32 [flag], 2;
bra END;
CONSUME:
POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.ne.u32 p, x, 2; @p bra POLL;
ld.global.u32 y, [data]; // @load
st.global.u32 [out], y;
END:
""",
                grid=3,
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

# --- patterns of a whole grid -----------------------------------------------------------------


def _last(name: str, why: str, before: str, count: str) -> Twin:
    """The CTA that arrives last adds up what both CTAs wrote."""
    return Twin(
        name=name,
        classes=(_FOUND, "chains of releases"),
        why=why,
        anchor=_CAUSALITY,
        launches=(
            Launch(
                f"""
.shared .align 4 .b32 turn;
mad.lo.u32 a, cta, 64, tid; mad.wide.u32 ptr, a, 4, data;
st.global.u32 [ptr], tid; // @store
{before}
@!first bra JOIN;
{count}
fence.acq_rel.gpu;
st.shared.u32 [turn], x;
JOIN:
bar.sync 0;
ld.shared.u32 x, [turn]; setp.ne.u32 p, x, 1; @p bra END;
xor.b32 a, tid, 63; mad.wide.u32 ptr, a, 4, data;
ld.global.u32 y, [ptr]; // @load
ld.global.u32 z, [ptr+256]; // @load
add.u32 y, y, z; mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
END:
""",
                grid=2,
                block=64,
            ),
        ),
        arrays=arrays(data=128, flag=1),
        expect=2 * np.arange(64, dtype=np.uint32)[::-1],
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    )


def _lock(name: str, why: str, lock: str, unlock: str) -> Twin:
    """Three CTAs increment a word under a lock."""
    return Twin(
        name=name,
        classes=(_FOUND, "moral strength"),
        why=why,
        anchor=_ATOM,
        launches=(
            Launch(
                f"""
LOCK:
{lock}
setp.ne.u32 p, x, 0; @p bra LOCK;
ld.global.u32 y, [out]; // @word
add.u32 y, y, 1;
st.global.u32 [out], y; // @word
{unlock}
""",
                grid=3,
                block=1,
            ),
        ),
        arrays=arrays(flag=1),
        expect=np.array([3], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("word",),
    )


def _flag_of_a_warp(name: str, why: str, body: str) -> Twin:
    """The lanes of CTA 0 write a row, lane 0 raises a flag, and CTA 1 reads the row."""
    return Twin(
        name=name,
        classes=("message-passing", "one-lane-arrives", "lanes are threads"),
        why=why,
        anchor=_CAUSALITY,
        launches=(
            Launch(
                f"""
mad.wide.u32 ptr, tid, 4, data; setp.eq.u32 p, cta, 1;
@p bra CONSUME;
st.global.u32 [ptr], tid; // @store
{body}
bra END;
CONSUME:
@!first bra MEET;
POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra POLL;
MEET:
bar.warp.sync -1;
ld.global.u32 y, [ptr]; // @load
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
END:
""",
                grid=2,
            ),
        ),
        arrays=arrays(data=32, flag=1),
        expect=np.arange(32, dtype=np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    )


_CAS = "atom.cas.acquire.gpu.global.b32 x, [flag], 0, 1;"
_ADD = "atom.add.relaxed.gpu.global.u32 x, [flag], 1;"
_GRIDS = [
    _flag_of_a_warp(
        "one-lane-raises-the-flag",
        "bar.warp.sync orders the stores of all lanes before the release of lane 0",
        f"-bar.warp.sync -1;\n+\n@first {_RELEASE}",
    ),
    _flag_of_a_warp(
        "all-lanes-fence-and-one-raises-the-flag",
        "bar.warp.sync orders the stores of all lanes before the fence of lane 0, which covers no other lane",
        f"{_FENCE}\n-bar.warp.sync -1;\n+\n@first {_FENCE}\n@first {_SET}",
    ),
    _flag_of_a_warp(
        "all-lanes-raise-the-flag-by-one-fence",
        "bar.warp.sync orders the stores of all lanes before the fence of each, and lane 0 raises the flag",
        f"-bar.warp.sync -1;\n+\n{_FENCE}\n@first {_SET}",
    ),
    _last(
        "last-cta-without-a-fence",
        "the fence after bar.sync makes the stores of all threads visible before the count",
        "bar.sync 0;",
        f"-{_FENCE}\n+\n{_ADD}",
    ),
    _last(
        "last-cta-without-a-barrier",
        "bar.sync orders the stores of all threads before the fence of thread 0",
        "-bar.sync 0;\n+",
        f"{_FENCE}\n{_ADD}",
    ),
    _last(
        "last-cta-counts-relaxed",
        "the count is a release and an acquire",
        "bar.sync 0;",
        "-atom.add.acq_rel.gpu.global.u32 x, [flag], 1;\n+" + _ADD,
    ),
    _lock(
        "lock-freed-relaxed",
        "the unlock releases what the next atom.cas.acquire acquires",
        _CAS,
        "-atom.exch.release.gpu.global.b32 x, [flag], 0;\n+atom.exch.relaxed.gpu.global.b32 x, [flag], 0;",
    ),
    _lock(
        "lock-taken-relaxed",
        "the lock acquires what the unlock of another CTA released",
        f"-{_CAS}\n+atom.cas.relaxed.gpu.global.b32 x, [flag], 0, 1;",
        "atom.exch.release.gpu.global.b32 x, [flag], 0;",
    ),
    _lock(
        "lock-at-cta-scope",
        "the scope of the lock's atomics includes all CTAs",
        f"-{_CAS}\n+atom.cas.acquire.cta.global.b32 x, [flag], 0, 1; // @word",
        "-atom.exch.release.gpu.global.b32 x, [flag], 0;\n+atom.exch.release.cta.global.b32 x, [flag], 0; // @word",
    ),
    Twin(
        name="grid-barrier-polled-relaxed",
        classes=(_FOUND,),
        why="each CTA releases with its arrival and acquires the arrivals of all, through the chain of atomics",
        anchor=_CAUSALITY,
        launches=(
            Launch(
                """
mad.wide.u32 ptr, cta, 4, data;
add.u32 x, cta, 10;
st.global.u32 [ptr], x; // @store
red.release.gpu.global.add.u32 [flag], 1;
-POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.lt.u32 p, x, 3; @p bra POLL;
+POLL: ld.relaxed.gpu.global.u32 x, [flag]; setp.lt.u32 p, x, 3; @p bra POLL;
sub.u32 a, 2, cta; mad.wide.u32 ptr, a, 4, data;
ld.global.u32 y, [ptr]; // @load
mad.wide.u32 ptr, cta, 4, out; st.global.u32 [ptr], y;
""",
                grid=3,
                block=1,
            ),
        ),
        arrays=arrays(data=3, flag=1),
        expect=np.array([12, 11, 10], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
]

# --- moral strength ---------------------------------------------------------------------------


def _together(
    name: str, why: str, first: str, second: str, expect: list[int], *, classes: tuple[str, ...] = ()
) -> Twin:
    """Two CTAs access the output, and nothing orders them."""
    return Twin(
        name=name,
        classes=("moral strength", *classes),
        why=why,
        anchor=_STRONG,
        launches=(
            Launch(
                f"""
mov.b64 wide, 0; mov.f32 acc0, 0f3F800000; mov.f32 acc1, 0f00000000;
setp.eq.u32 p, cta, 1;
@p bra SECOND;
{first}
bra END;
SECOND:
{second}
END:
""",
                grid=2,
                block=1,
            ),
        ),
        expect=np.array(expect, np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("first", "second"),
    )


_STRENGTH = [
    _together(
        "atomic-at-cta-scope",
        "both atomics are relaxed and their scopes include both CTAs",
        "red.relaxed.gpu.global.add.u32 [out], 1; // @first",
        "-red.relaxed.gpu.global.add.u32 [out], 2;\n+red.relaxed.cta.global.add.u32 [out], 2; // @second",
        [3],
        classes=("cta-scope-atomic",),
    ),
    _together(
        "atomics-of-two-sizes",
        "both atomics have the same address and size",
        "red.relaxed.gpu.global.add.u64 [out], 1; // @first",
        "-red.relaxed.gpu.global.add.u64 [out], 2;\n+red.relaxed.gpu.global.add.u32 [out], 2; // @second",
        [3, 0],
        classes=("mixed-sizes",),
    ),
    _together(
        "vector-atomics",
        "a vector access counts as one access for each element, so elements of equal size overlap fully",
        "red.relaxed.gpu.global.add.v4.f32 [out], {acc0, acc0, acc1, acc1}; // @first",
        "-red.relaxed.gpu.global.add.v2.f32 [out+8], {acc1, acc1};\n+atom.exch.relaxed.gpu.global.b64 wide, [out+8], wide; // @second",
        [0x3F800000, 0x3F800000, 0, 0],
        classes=("vector atomics",),
    ),
    _together(
        "weak-store-of-the-same-value",
        "both stores are strong: the order is open, and the value is the same",
        "st.relaxed.gpu.global.u32 [out], 1; // @first",
        "-st.relaxed.gpu.global.u32 [out], 1;\n+st.global.u32 [out], 1; // @second",
        [1],
    ),
    _together(
        "volatile-and-weak",
        "volatile counts as relaxed.sys, which is strong against relaxed.gpu",
        "st.relaxed.gpu.global.u32 [out], 1; // @first",
        "-st.volatile.global.u32 [out], 1;\n+st.global.u32 [out], 1; // @second",
        [1],
    ),
    _together(
        "weak-load-of-a-counter",
        "a relaxed load beside an atomic is no race, whichever comes first",
        "red.relaxed.gpu.global.add.u32 [out], 1; // @first",
        "-ld.relaxed.gpu.global.u32 x, [out];\n+ld.global.u32 x, [out]; // @second\nand.b32 x, x, 0; st.global.u32 [out+4], x;",
        [1, 0],
    ),
    _together(
        "weak-reduction",
        "an atomic sum needs no order",
        "red.relaxed.gpu.global.add.u32 [out], 1; // @first",
        "-red.relaxed.gpu.global.add.u32 [out], 2;\n+ld.global.u32 x, [out]; add.u32 x, x, 2; st.global.u32 [out], x; // @second",
        [3],
    ),
]

# --- loads whose value does not matter ----------------------------------------------------------

_GUESS = "ld{0}.global.u32 x, [out]; // @load"
_SPECULATION = [
    Twin(
        name="guess-loaded-by-an-ordinary-load",
        classes=("moral strength",),
        why="the relaxed load and the compare-and-swaps of other threads are morally strong",
        anchor=_STRONG,
        launches=(
            Launch(
                f"""
-{_GUESS.format(".relaxed.gpu")}
+{_GUESS.format("")}
TRY: add.u32 z, x, 1;
mov.u32 y, x;
atom.global.cas.b32 x, [out], y, z; // @swap
setp.ne.u32 p, x, y; @p bra TRY;
""",
                block=64,
            ),
        ),
        expect=np.array([64], np.uint32),
        rules=("speculative-load",),
        severity="review",
        lines=("load", "swap"),
        omitted=True,
    ),
    Twin(
        name="scalar-loaded-by-all-threads",
        classes=("barriers",),
        why="the barrier orders the loads of all threads before the store of the one that uses the value",
        anchor=_BAR,
        launches=(
            Launch(
                """
ld.global.u32 x, [out]; add.u32 x, x, 5; // @load
-bar.sync 0;
+
setp.eq.u32 p, tid, 0;
@p st.global.u32 [out], x; // @store
""",
                block=64,
            ),
        ),
        expect=np.array([5], np.uint32),
        rules=("speculative-load",),
        severity="review",
        lines=("load", "store"),
        omitted=True,
    ),
]

TWINS = [*_BARRIERS, *_LANES, *_MESSAGES, *_GRIDS, *_STRENGTH, *_SPECULATION]
