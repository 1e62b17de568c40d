"""Twins of Blackwell's tensor cores: stages handed back, tensor memory, its fences and waits.

A and B have equal elements, so their layout does not matter: D is K = 16 times the product of two elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .twin import Launch, Twin, wait

__all__ = ["TWINS"]

_TCGEN05 = "tcgen05-instructions-"
_COMMIT = _TCGEN05 + "tcgen05-commit"
_ORDER = "tcgen05-memory-consistency-model"
_MEMORY = "tensor-memory-allocation"
_LANES = "tcgen05-tensor-memory-ld-st-access-restrictions"
_PROXY = "async-proxy"
_WAIT = "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait"

#: A is 128 x 16 and B 32 x 16, f16, without a swizzle: 4096 and 1024 bytes.
_BYTES = 5120
_N = 1 << 4 | 32 >> 3 << 17
_DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46


def _halves(*values: float) -> Any:
    """Return a function that makes ``src``: A and B of one value each, for each time that the stage is filled."""
    return lambda out: {"src": np.repeat(np.array(values, np.float16), _BYTES // 2)}


# --- pieces -----------------------------------------------------------------------------------

_BEFORE = "tcgen05.fence::before_thread_sync;"
_AFTER = "tcgen05.fence::after_thread_sync;"
_LOADED = "tcgen05.wait::ld.sync.aligned;"
_ALLOC = "@p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32; // @alloc"
_FREE = "@p tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32; // @free"
_DRAIN = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {x}, [at]; // @drain"
_PLACE = "shl.b32 at, warp, 21; add.u32 at, at, tm;"
_STORE = "mad.wide.u32 ptr, tid, 4, out; st.global.b32 [ptr], x;"
_MEET = "bar.sync 0;"


def _begin(*, m: int = 128, empty: int = 1, done: int = 1, alloc: str = _ALLOC, late: str = "") -> str:
    """Warp 0 allocates 32 columns at ``tm``; ``adesc`` and ``bdesc`` describe the stage.

    ``late`` stands behind the barrier that orders the initialization of the mbarriers.
    """
    return f"""
.shared .align 128 .b8 stage[{_BYTES}]; .shared .align 8 .b64 full, again, empty, done; .shared .align 4 .b32 slot;
setp.eq.u32 p, warp, 0;
{alloc}
@first mbarrier.init.shared::cta.b64 [full], 1;
@first mbarrier.init.shared::cta.b64 [again], 1;
@first mbarrier.init.shared::cta.b64 [empty], {empty};
@first mbarrier.init.shared::cta.b64 [done], {done};
mov.u32 base, stage; shr.u32 a, base, 4; cvt.u64.u32 adesc, a; or.b64 adesc, adesc, {_DESCRIPTOR:#x}; add.u64 bdesc, adesc, 256;
mov.u32 word, {_N | m >> 4 << 24:#x};
{_BEFORE}
{_MEET}
{_AFTER}
{late}
ld.shared.b32 tm, [slot]; // @slot
"""


def _end(
    *,
    observed: str = wait("done", 0),
    after: str = _AFTER,
    place: str = _PLACE,
    drain: str = _DRAIN,
    leave: str = f"{_BEFORE}\n{_MEET}\n{_AFTER}",
    free: str = _FREE,
) -> str:
    """All threads wait for D, and write its column 0 to ``out``; warp 0 frees."""
    return f"""
bar.warp.sync -1;
{observed}
{after}
{place}
{drain}
{_LOADED}
{_STORE}
{leave}
setp.eq.u32 p, warp, 0;
{free}
"""


_BULK = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{to}], [{source}], {size}, [{full}];"


def _fill(source: str = "src", full: str = "full") -> str:
    """The executing thread copies A and B to the stage."""
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{full}], {_BYTES};"
    return f"{expect} {_BULK.format(to='stage', source=source, size=_BYTES, full=full)}"


def _mma(flag: str = "never", d: str = "tm") -> str:
    return f"tcgen05.mma.cta_group::1.kind::f16 [{d}], adesc, bdesc, word, {flag};"


def _commit(barrier: str) -> str:
    return f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{barrier}];"


def _twin(
    name: str,
    classes: tuple[str, ...],
    why: str,
    body: str,
    *,
    lines: tuple[str, ...],
    rules: tuple[str, ...] = ("data-race",),
    anchor: str = _ORDER,
    begin: str = "",
    end: str = "",
    expect: Any = None,
    block: int = 128,
    **arguments: Any,
) -> Twin:
    """``body`` stands between the allocation and the output of D."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=anchor,
        target="sm_100a",
        launches=(Launch((begin or _begin()) + body.strip("\n") + (end or _end()), block=block),),
        expect=np.full(128, 16, np.float32) if expect is None else expect,
        rules=rules,
        lines=lines,
        **{"severity": "error", "arrays": _halves(1), **arguments},
    )


_REVIEW: dict[str, Any] = {"severity": "review", "omitted": True}

# --- stages -----------------------------------------------------------------------------------


def _stage(first: str, taken: str = wait("empty", 0), full: str = wait("full", 0)) -> str:
    """Thread 32 fills the stage twice; ``first`` is the first MMA of thread 0 and how it hands the stage back."""
    return f"""
setp.eq.u32 p, tid, 32;
@p bra PRODUCE;
@!first bra DRAIN;
{full}
{first}
{wait("again", 0)}
{_mma("always")}
{_commit("done")}
bra DRAIN;
PRODUCE:
{_fill()} // @copy @before
{taken}
add.u64 from, src, {_BYTES};
{_fill("from", "again")} // @refill
DRAIN:
"""


_TWO: dict[str, Any] = {"arrays": _halves(1, 2), "expect": np.full(128, 16 + 64, np.float32)}
_HAND_BACK = (
    "tcgen05.commit arrives on the barrier when the MMA has read A and B, and TMA fills the stage after that"
)
_STAGES = [
    _twin(
        "stage-handed-back-at-issue",
        ("stage-handed-back-at-issue", "commit"),
        _HAND_BACK,
        _stage(f"{_mma()} // @mma\n-{_commit('empty')}\n+mbarrier.arrive.shared::cta.b64 _, [empty];"),
        lines=("mma", "refill"),
        anchor=_COMMIT,
        **_TWO,
    ),
    _twin(
        "commit-before-the-mma",
        ("stage-handed-back-at-issue", "commit"),
        "commit covers the MMAs that its thread has issued before it",
        _stage(f"+{_commit('empty')}\n{_mma()} // @mma\n-{_commit('empty')}"),
        lines=("mma", "refill"),
        anchor=_COMMIT,
        **_TWO,
    ),
    _twin(
        "stage-refilled-without-a-wait",
        ("completion-not-observed",),
        "the producer waits for the phase that the commit completes",
        _stage(f"{_mma()} // @before\n{_commit('empty')}", f"-{wait('empty', 0)}\n+"),
        lines=("before", "refill"),
        anchor=_WAIT,
        **_TWO,
    ),
    _twin(
        "mma-stage-taken-back-relaxed",
        ("relaxed-wait", "moral strength"),
        "the producer's wait acquires what the commit released",
        _stage(
            f"{_mma()} // @before\n{_commit('empty')}",
            f"-{wait('empty', 0)}\n+{wait('empty', 0, '.relaxed.cta')}",
        ),
        rules=("relaxed-handover",),
        lines=("before", "refill"),
        anchor=_WAIT,
        **_TWO,
        **_REVIEW,
    ),
    _twin(
        "full-barrier-waited-relaxed-by-mma",
        ("relaxed-wait",),
        "the wait acquires the release of complete_tx",
        _stage(
            f"{_mma()} // @mma\n{_commit('empty')}",
            full=f"-{wait('full', 0)}\n+{wait('full', 0, '.relaxed.cta')}",
        ),
        lines=("copy", "mma"),
        anchor=_WAIT,
        **_TWO,
    ),
    _twin(
        "mma-before-the-copy",
        ("completion-not-observed",),
        "the issuing thread waits for the phase that the copy completes",
        f"@!first bra DRAIN;\n{_fill()} // @copy\n-{wait('full', 0)}\n+\n{_mma()} // @mma\n{_commit('done')}\n{wait('full', 0)}\nDRAIN:",
        lines=("copy", "mma"),
        anchor=_WAIT,
    ),
    _twin(
        "store-then-mma",
        ("store-without-proxy-fence", "proxy-fence"),
        "each storing thread executes the proxy fence before the barrier that the issuing thread passes",
        "mad.lo.u32 at, tid, 16, base; mov.u32 x, 0x3c003c00; setp.lt.u32 p, tid, 64;\n"
        "st.shared.v4.b32 [at], {x, x, x, x}; // @store\nst.shared.v4.b32 [at+2048], {x, x, x, x}; // @store\n"
        "@p st.shared.v4.b32 [at+4096], {x, x, x, x}; // @store\n"
        f"-fence.proxy.async.shared::cta;\n+\n{_MEET}\n@first {_mma()} // @mma\n@first {_commit('done')}",
        rules=("proxy-fence-missing",),
        lines=("store", "mma"),
        anchor=_PROXY,
        arrays=lambda out: {},
    ),
]

# --- completion -------------------------------------------------------------------------------

#: D begins as zero, so that a load that comes too early reads written bytes.
_ZEROED = (
    f"{_PLACE} mov.u32 x, 0;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [at], {{x}};\ntcgen05.wait::st.sync.aligned;\n"
    f"{_BEFORE}\n{_MEET}\n{_AFTER}\n"
)
_ISSUE = f"@!first bra DRAIN;\n{_fill()}\n{wait('full', 0)}\n{_mma()} // @mma\n{_commit('done')}\nDRAIN:"
_GUARDED = (
    f"setp.eq.u32 p, tid, 1; setp.eq.u32 member, warp, 0;\n@!first bra FILLED;\n{_fill()}\n"
    f"FILLED:\nbar.warp.sync -1;\n{wait('full', 0)}\n@first {_mma()} // @mma\n"
)
_COMPLETION = [
    _twin(
        "commit-by-another-lane",
        ("wrong-lanes",),
        "commit covers the MMAs of its own thread, so one lane issues both",
        f"{_GUARDED}-@first {_commit('done')}\n+@p {_commit('done')}",
        lines=("mma", "drain"),
        anchor=_COMMIT,
    ),
    _twin(
        "commit-by-all-lanes",
        ("wrong-lanes", "arrival-count"),
        "one lane commits: the barrier counts one arrival",
        f"{_GUARDED}-@first {_commit('done')}\n+@member {_commit('done')} // @mma",
        end=_end(observed=f"{wait('done', 0)} // @mma"),
        rules=("data-race", "mbarrier-misuse", "deadlock"),
        lines=("mma",),
        anchor=_COMMIT,
    ),
    _twin(
        "result-read-before-the-commit",
        ("completion-not-observed",),
        "the wait for the commit comes before the loads of D",
        _ZEROED + _ISSUE,
        end=_end(observed=f"-{wait('done', 0)}\n+", drain=f"{_DRAIN}\n-\n+{wait('done', 0)}"),
        lines=("mma", "drain"),
        anchor=_WAIT,
    ),
    _twin(
        "copy-to-tensor-memory-not-committed",
        ("completions",),
        "tcgen05.cp is observed through a commit that a thread has waited for",
        f"@!first bra DRAIN;\n{_fill()}\n{wait('full', 0)}\ntcgen05.cp.cta_group::1.128x256b [tm], adesc; // @cp\n"
        f"-{_commit('done')}\n+mbarrier.arrive.shared::cta.b64 _, [done];\nDRAIN:",
        lines=("cp", "drain"),
        anchor=_COMMIT,
        expect=np.full(128, 0x3C003C00, np.uint32),
    ),
    _twin(
        "store-to-tensor-memory-not-waited-for",
        ("completions", "tensor-waits"),
        "tcgen05.wait::st waits for the stores of the thread, which no later load of it does",
        f"{_PLACE}\ntcgen05.st.sync.aligned.32x32b.x1.b32 [at], {{tid}}; // @st\n-tcgen05.wait::st.sync.aligned;\n+",
        end=_end(observed="", after="").replace(_LOADED, f"{_LOADED}\ntcgen05.wait::st.sync.aligned;"),
        lines=("st", "drain"),
        expect=np.arange(128, dtype=np.uint32),
        arrays=lambda out: {},
    ),
]

_SCALE = "tcgen05.cp.cta_group::1.32x128b.warpx4 [{}], state; // @cp"
_SCALED = (
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [tm], adesc, bdesc, word, [y], [z], never; // @mma"
)


def _with_scales(out: Any) -> dict[str, Any]:
    """Return elements and scales of 1."""
    return {"src": np.repeat(np.array([0x38, 0x7F], np.uint8), [_BYTES, 512])}


def _scales(thread: str, commit: str) -> str:
    """The thread of a predicate copies the scales to tensor memory, and thread 0 issues the MMA."""
    return f"""
.shared .align 128 .b8 scales[512];
mov.u32 a, scales; shr.u32 a, a, 4; cvt.u64.u32 state, a; or.b64 state, state, {128 >> 4 << 16 | 128 >> 4 << 32 | 1 << 46:#x};
mov.u32 word, {32 >> 3 << 17 | 1 << 23 | 1 << 27:#x}; add.u32 y, tm, 32; add.u32 z, tm, 40; setp.eq.u32 p, tid, 32;
add.u64 from, src, {_BYTES};
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {_BYTES + 512};
@first {_BULK.format(to="stage", source="src", size=_BYTES, full="full")}
@first {_BULK.format(to="scales", source="from", size=512, full="full")}
{wait("full", 0)}
@{thread} {_SCALE.format("y")}
@{thread} {_SCALE.format("z")}
{commit}
@first {_SCALED}
@first {_commit("done")}
"""


_SCALING: dict[str, Any] = {
    "begin": _begin(alloc=_ALLOC.replace("], 32", "], 64")),
    "end": _end(free=_FREE.replace("tm, 32", "tm, 64")),
    "expect": np.full(128, 32, np.float32),
    "arrays": _with_scales,
}
_COMPLETION += [
    _twin(
        "scales-not-committed",
        ("completions",),
        "the commit of the copying thread, which the issuing thread waits for, comes after the copies of the scales",
        _scales(
            "p",
            f"-@p {_commit('empty')}\n+@p mbarrier.arrive.shared::cta.b64 _, [empty];\n{wait('empty', 0)}\n{_AFTER}",
        ),
        lines=("cp", "mma"),
        anchor=_COMMIT,
        **_SCALING,
    ),
    _twin(
        "a-in-tensor-memory",
        ("completions", "tensor-waits"),
        "tcgen05.wait::st, the fences and the barrier come between the stores of A and the MMA that reads them",
        f"""
shl.b32 at, warp, 21; add.u32 at, at, tm; add.u32 to, at, 32; add.u32 y, tm, 32; mov.u32 x, 0x3c003c00;
tcgen05.st.sync.aligned.32x32b.x8.b32 [to], {{x, x, x, x, x, x, x, x}}; // @st
-tcgen05.wait::st.sync.aligned;
+
{_BEFORE}
{_MEET}
{_AFTER}
@!first bra DRAIN;
{_fill()}
{wait("full", 0)}
tcgen05.mma.cta_group::1.kind::f16 [tm], [y], bdesc, word, never; // @mma
{_commit("done")}
DRAIN:
""",
        begin=_begin(alloc=_ALLOC.replace("], 32", "], 64")),
        end=_end(free=_FREE.replace("tm, 32", "tm, 64")),
        lines=("st", "mma"),
    ),
    _twin(
        "scales-of-the-issuing-thread",
        ("completions", "false-alarm"),
        "tcgen05.cp and tcgen05.mma of one thread are in order, with a commit between and without: no finding in either",
        _scales("first", f"-@first {_commit('empty')}\n-{wait('empty', 0)}\n-{_AFTER}\n+\n+\n+"),
        lines=(),
        rules=(),
        severity="none",
        **_SCALING,
    ),
]

# --- tensor memory handed over ----------------------------------------------------------------


def _again(
    *,
    loaded: str = _LOADED,
    use: str = "",
    before: str = _BEFORE,
    arrive: str = "mbarrier.arrive.shared::cta.b64 _, [empty];",
    behind: str = "",
    taken: str = wait("empty", 0),
    after: str = _AFTER,
) -> tuple[str, str]:
    """Warp 4 issues an MMA, and another one into the same D when four warps have loaded the first."""
    body = f"""
setp.lt.u32 p, tid, 128; setp.eq.u32 member, tid, 128;
@p bra DRAIN;
@!member bra LEAVE;
{_fill()}
{wait("full", 0)}
{_mma()}
{_commit("done")}
{taken}
{after}
{_mma("always")} // @mma
{_commit("done")}
bra LEAVE;
DRAIN:
{_PLACE} mad.wide.u32 ptr, tid, 4, out;
{wait("done", 0)}
{_AFTER}
{_DRAIN}
{loaded}
{use}
{before}
{arrive}
{behind}
st.global.b32 [ptr], x;
{wait("done", 1)}
{_AFTER}
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{x}}, [at];
{_LOADED}
st.global.b32 [ptr+512], x;
LEAVE:
bar.warp.sync -1;
"""
    return body, f"{_BEFORE}\n{_MEET}\n{_AFTER}\nsetp.eq.u32 p, warp, 0;\n{_FREE}\n"


_STORED = "st.global.b32 [ptr], x;"


def _handed(name: str, classes: tuple[str, ...], why: str, *, lines: tuple[str, ...] = ("drain", "mma"), **pieces: Any) -> Twin:  # fmt: skip
    rest = {key: pieces.pop(key) for key in ("rules", "severity", "omitted") if key in pieces}
    body, end = _again(**pieces)
    return _twin(
        name, classes, why, body, begin=_begin(empty=128), end=end, block=160, lines=lines,
        expect=np.repeat(np.array([16, 32], np.float32), 128), **rest,
    )  # fmt: skip


_FENCED = (
    "the fences before the arrival and after the wait order the loads before the MMA that overwrites them"
)
_HANDED = [
    _handed(
        "accumulator-overwritten-under-loads",
        ("accumulator-overwritten", "tensor-waits"),
        "tcgen05.wait::ld comes before the arrival that lets the next MMA overwrite the accumulator",
        loaded=f"-{_LOADED}\n+",
        behind=f"+{_LOADED}",
    ),
    _handed(
        "accumulator-handed-over-by-use-alone",
        ("accumulator-overwritten", "tensor-waits"),
        "tcgen05.wait::ld comes before the arrival; the use of the registers alone waits for the load in practice",
        loaded=f"-{_LOADED}\n+",
        use=_STORED,
        rules=("tcgen05-wait-missing",),
        **_REVIEW,
    ),
    _handed(
        "fence-before-the-arrival",
        ("tcgen05-fence", "tensor-fences"),
        _FENCED,
        before=f"-{_BEFORE}\n+",
        rules=("tcgen05-fence-missing",),
        **_REVIEW,
    ),
    _handed(
        "fence-after-the-wait",
        ("tcgen05-fence", "tensor-fences"),
        _FENCED,
        after=f"-{_AFTER}\n+",
        rules=("tcgen05-fence-missing",),
        **_REVIEW,
    ),
    _handed(
        "relaxed-arrivals-between-tcgen05",
        ("tcgen05-fence", "moral strength"),
        "tcgen05's fences compose with relaxed operations, as in the manual's own patterns: no finding in either",
        lines=(),
        arrive="-mbarrier.arrive.shared::cta.b64 _, [empty];\n+mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [empty];",
        taken=f"-{wait('empty', 0)}\n+{wait('empty', 0, '.relaxed.cta')}",
        rules=(),
        severity="none",
    ),
]
#: Warp 0 loads zeros, and its thread 0 commits an MMA with another accumulator; then thread 32 overwrites the zeros.
_LOADED_AND_COMMITTED = f"""
{_ZEROED}
setp.eq.u32 p, tid, 32; setp.eq.u32 member, warp, 0; add.u32 y, tm, 32;
@p bra TAKE;
@!member bra DRAIN;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{x}}, [at]; // @load
-{_LOADED}
+
@!first bra DRAIN;
{_fill()}
{wait("full", 0)}
{_mma(d="y")}
{_commit("empty")}
bra DRAIN;
TAKE:
{wait("empty", 0)}
{_AFTER}
{_mma()} // @mma
{_commit("done")}
DRAIN:
"""
_OWN = [
    _twin(
        "commit-behind-a-load",
        ("tensor-fences", "commit"),
        "commit executes fence::before_thread_sync, which orders the load that the thread has waited for",
        _LOADED_AND_COMMITTED,
        begin=_begin(alloc=_ALLOC.replace(", 32;", ", 64;")),
        end=_end(free=_FREE.replace("tm, 32", "tm, 64")),
        lines=("load", "mma"),
        anchor=_COMMIT,
    ),
    _twin(
        "warp-overwrites-what-it-has-used",
        ("tensor-waits", "accumulator-overwritten"),
        "an instruction that reads the loaded register waits for the load, so the warp's own store comes after it",
        f"{_ZEROED}tcgen05.ld.sync.aligned.32x32b.x1.b32 {{x}}, [at]; // @load\n-mov.b32 y, x;\n+\n"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {tid}; // @st\ntcgen05.wait::st.sync.aligned;",
        end=_end(observed="", after=""),
        lines=("load", "st"),
        expect=np.arange(128, dtype=np.uint32),
        arrays=lambda out: {},
    ),
]
_FENCES = [
    _twin(
        "fence-after-a-commit",
        ("tcgen05-fence", "tensor-fences"),
        "commit fences on its side; the waiting threads execute tcgen05.fence::after_thread_sync",
        _ISSUE,
        end=_end(after=f"-{_AFTER}\n+"),
        rules=("tcgen05-fence-missing",),
        lines=("mma", "drain"),
        **_REVIEW,
    ),
]

# --- allocation and addresses -----------------------------------------------------------------

_TENSOR: dict[str, Any] = {"rules": ("tensor-memory",), "anchor": _MEMORY}
_RELINQUISH = "@p tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
#: The slot holds a number before tcgen05.alloc stores the address.
_UNKNOWN = "@first st.shared.b32 [slot], 0;"
_TRIPS = "-mov.u32 n, 1;\n+mov.u32 n, 0;"
_LOOP = "LOOP: setp.eq.u32 q, n, 0; @q bra OUT;\nbar.sync 0;\nsub.u32 n, n, 1; bra LOOP;\nOUT:"
_ALLOCATION = [
    _twin(
        "freed-under-loads",
        ("tensor-memory-lifetime", "free-without-barrier"),
        "the barrier comes after the loads of all warps and before tcgen05.dealloc",
        _ISSUE,
        end=_end(leave=f"{_BEFORE}\n-{_MEET}\n+\n{_AFTER}"),
        rules=("data-race", "tensor-memory"),
        lines=("drain", "free"),
        anchor=_MEMORY,
    ),
    _twin(
        "freed-under-loads-in-flight",
        ("tensor-memory-lifetime", "tensor-waits", "accumulator-overwritten"),
        "tcgen05.wait::ld comes before the barrier that lets warp 0 free the columns",
        _ISSUE,
        end=_end(
            drain=f"{_DRAIN}\n-{_LOADED}\n+\n{_BEFORE}\n{_MEET}\n{_AFTER}", leave="setp.eq.u32 p, warp, 0;"
        ).replace(f"{_LOADED}\n{_STORE}\n", "").replace(_FREE, f"{_FREE}\n+{_LOADED}\n{_STORE}"),
        rules=("data-race", "tensor-memory"),
        lines=("drain", "free"),
        anchor=_MEMORY,
    ),
    _twin(
        "freed-by-use-alone",
        ("tensor-memory-lifetime", "tensor-waits"),
        "tcgen05.wait::ld comes before the barrier; the use of the registers alone waits for the load in practice",
        _ISSUE,
        end=_end().replace(_LOADED, f"-{_LOADED}\n+"),
        rules=("tcgen05-wait-missing",),
        lines=("drain", "free"),
        anchor=_MEMORY,
        **_REVIEW,
    ),
    _twin(
        "freed-behind-a-barrier-without-fences",
        ("tensor-memory-lifetime", "free-without-barrier"),
        "tcgen05.dealloc is synchronous: the threads that loaded synchronize before it, and need no tcgen05.fence",
        _ISSUE,
        end=_end(leave=f"-{_MEET}\n+"),
        rules=("data-race", "tensor-memory"),
        lines=("drain", "free"),
        anchor=_MEMORY,
    ),
    _twin(
        "not-freed",
        ("tensor-memory-lifetime",),
        "tcgen05.dealloc frees what was allocated before the CTA ends",
        _ISSUE,
        end=_end(free=f"-{_FREE}\n+"),
        lines=("alloc",),
        **_TENSOR,
    ),
    _twin(
        "allocated-after-relinquish",
        ("tensor-memory-lifetime",),
        "tcgen05.relinquish_alloc_permit stands after the last tcgen05.alloc",
        _ISSUE,
        begin=_begin(alloc=f"+{_RELINQUISH}\n{_ALLOC}\n-{_RELINQUISH}"),
        lines=("alloc",),
        **_TENSOR,
    ),
    _twin(
        "columns-beyond-the-allocation",
        ("tensor-memory-place",),
        "the load names one of the 32 columns that were allocated",
        _ISSUE,
        end=_end(drain=f"-{_DRAIN}\n+{_DRAIN.replace('[at]', '[at+32]')}"),
        lines=("drain",),
        **_TENSOR,
    ),
    _twin(
        "lanes-of-another-warp",
        ("tensor-memory-place",),
        "warp w addresses lanes 32 * (w % 4) and up",
        _ISSUE,
        end=_end(place=f"-{_PLACE}\n+mov.u32 at, tm;"),
        rules=("tensor-memory-lane",),
        lines=("drain",),
        anchor=_LANES,
        **_REVIEW,
    ),
    _twin(
        "address-read-before-the-barrier",
        ("address-behind-a-loop", "completions"),
        "tcgen05.alloc stores the address, and the other warps read it after a barrier",
        _ISSUE,
        begin=_begin(alloc=_UNKNOWN, late=f"{_ALLOC}\n{_BEFORE}\n-{_MEET}\n+\n{_AFTER}"),
        rules=("data-race",),
        lines=("alloc", "slot"),
        anchor=_MEMORY,
    ),
    _twin(
        "address-behind-a-loop-of-no-trips",
        ("address-behind-a-loop",),
        "the loop runs once, so the barrier in it orders tcgen05.alloc before the reads of the address",
        _ISSUE,
        begin=_begin(alloc=_UNKNOWN, late=f"{_ALLOC}\n{_BEFORE}\n{_TRIPS}\n{_LOOP}\n{_AFTER}"),
        rules=("data-race",),
        lines=("alloc", "slot"),
        anchor=_MEMORY,
    ),
]  # fmt: skip

# --- footprints -------------------------------------------------------------------------------


def _two_threads(first: str, second: str) -> str:
    """Threads 0 and 32 issue one MMA each, in no order."""
    return f"""
@first {_fill().replace("; cp.async", "; @first cp.async")}
setp.eq.u32 p, tid, 32;
{wait("full", 0)}
@first {first} // @mma
@first {_commit("done")}
@p {second} // @other
@p {_commit("done")}
"""


def _masked(mask: str) -> str:
    return f"tcgen05.mma.cta_group::1.kind::f16 [tm], adesc, bdesc, word, {{{mask}}}, never;"


_FOOTPRINTS = [
    _twin(
        "footprints-of-m64",
        ("completions", "footprints"),
        "an MMA of M = 64 writes 16 of each 32 lanes, so base lanes 0 and 16 do not overlap",
        _ZEROED + "-add.u32 to, tm, 0x100000;\n+mov.u32 to, tm;\n" + _two_threads(_mma(), _mma(d="to")),
        begin=_begin(m=64, done=2),
        lines=("mma", "other"),
        anchor="tcgen05-data-path-layout-f",
    ),
    _twin(
        "footprints-of-disabled-lanes",
        ("completions", "footprints"),
        "the masks leave each MMA its own 64 lanes",
        "mov.u32 y, 0; mov.u32 z, -1;\n-mov.u32 n, -1;\n+mov.u32 n, 0;\n"
        + _two_threads(_masked("y, y, z, z"), _masked("z, n, y, y")),
        begin=_begin(done=2),
        lines=("mma", "other"),
        anchor=_TCGEN05 + "tcgen05-mma",
    ),
]

_FOOTPRINTS += [
    _twin(
        "accumulators-side-by-side",
        ("completions", "footprints"),
        "the next MMA writes columns 32 and up while the warps load column 0",
        f"{_ISSUE}\n-add.u32 to, tm, 32;\n+mov.u32 to, tm;\n{_BEFORE}\n{_MEET}\n{_AFTER}\n"
        f"bar.warp.sync -1;\n{wait('done', 0)}\n{_AFTER}\n@first {_mma(d='to')} // @other\n@first {_commit('empty')}",
        begin=_begin(alloc=_ALLOC.replace("], 32", "], 64")),
        end=_end(free=f"{wait('empty', 0)}\n{_AFTER}\n{_FREE.replace('tm, 32', 'tm, 64')}"),
        lines=("other", "drain"),
    ),
]
_WS = "tcgen05.mma.ws.cta_group::1.kind::f16 [{}], adesc, bdesc, word, never;"
_FOOTPRINTS += [
    _twin(
        "footprints-of-ws",
        ("completions", "footprints"),
        "an MMA of .ws with M = 64 and N = 64 writes 32 columns of all lanes, so columns 0 and 32 do not overlap",
        f"mov.u32 word, {1 << 4 | 64 >> 3 << 17 | 64 >> 4 << 24:#x}; add.u64 bdesc, adesc, 128;\n"
        "-add.u32 to, tm, 32;\n+add.u32 to, tm, 16;\n" + _two_threads(_WS.format("tm"), _WS.format("to")),
        begin=_begin(alloc=_ALLOC.replace("], 32", "], 64"), done=2),
        end=_end(free=_FREE.replace("tm, 32", "tm, 64")),
        lines=("mma", "other"),
        anchor="tcgen05-data-path-layout-e",
    ),
    _twin(
        "mmas-of-two-shapes",
        ("assumed order", "completions"),
        "MMAs of one thread into one accumulator are in order if their shapes are the same",
        f"mov.u32 c, word;\n-\n+mov.u32 c, {1 << 4 | 16 >> 3 << 17 | 128 >> 4 << 24:#x};\n@!first bra DRAIN;\n{_fill()}\n"
        f"{wait('full', 0)}\n{_mma()} // @mma\n{_mma('always').replace('word', 'c')} // @other\n{_commit('done')}\nDRAIN:",
        rules=("assumed-order",),
        lines=("mma", "other"),
        expect=np.full(128, 32, np.float32),
        **_REVIEW,
    ),
]

TWINS = [*_STAGES, *_COMPLETION, *_HANDED, *_OWN, *_FENCES, *_ALLOCATION, *_FOOTPRINTS]
