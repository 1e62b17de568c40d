"""Twins of Hopper's tensor cores: operands in shared memory, and registers in flight.

A and B have equal elements, so their layout does not matter: D is K = 16 times the product of two elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .twin import Launch, Twin, wait

__all__ = ["TWINS"]

_PROXY = "async-proxy"
_WGMMA = "asynchronous-warpgroup-level-matrix-instructions-"
_WAIT = _WGMMA + "wgmma-wait-group"
_FENCE = _WGMMA + "wgmma-fence"
_MBARRIER = "parallel-synchronization-and-communication-instructions-mbarrier-"
_DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32
#: A is 64 x 16 and B 8 x 16, f16, without a swizzle.
_BYTES = 2304

#: The stage at ``base``, its descriptors, its barriers, and registers for zero.
_BEGIN = f"""
.shared .align 128 .b8 stage[{_BYTES}]; .shared .align 8 .b64 full, empty;
mov.u32 base, stage; shr.u32 a, base, 4; cvt.u64.u32 adesc, a; or.b64 adesc, adesc, {_DESCRIPTOR:#x}; add.u64 bdesc, adesc, 128;
mad.lo.u32 at, tid, 16, base; mad.wide.u32 ptr, tid, 4, out; mov.u32 x, 0x3c003c00;
@first mbarrier.init.shared::cta.b64 [full], 1;
@first mbarrier.init.shared::cta.b64 [empty], 128;
bar.sync 0;
"""
_ONES = """
st.shared.v4.b32 [at], {x, x, x, x}; // @store
setp.lt.u32 p, tid, 16;
@p st.shared.v4.b32 [at+2048], {x, x, x, x}; // @store
"""
#: The stage begins as zeros, so that a wgmma that comes too early reads written bytes.
_ZEROS = """
mov.u32 y, 0; setp.lt.u32 p, tid, 16;
st.shared.v4.b32 [at], {y, y, y, y};
@p st.shared.v4.b32 [at+2048], {y, y, y, y};
fence.proxy.async.shared::cta;
bar.sync 0;
"""
_FENCED = "fence.proxy.async.shared::cta;\n"
_READY = "wgmma.fence.sync.aligned;"
_COMMIT = "wgmma.commit_group.sync.aligned;"
_DONE = "wgmma.wait_group.sync.aligned 0;"
_STORE = "st.global.f32 [ptr], acc0;"


def _mma(add: int = 0, registers: str = "acc0, acc1, acc2, acc3") -> str:
    return (
        f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{registers}}}, adesc, bdesc, {add}, 1, 1, 0, 0;"
    )


def _fill(source: str, guard: str = "@first") -> str:
    """One thread, by default thread 0, copies A and B to the stage."""
    return (
        f"{guard} mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {_BYTES}; "
        f"{guard} cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [stage], [{source}], {_BYTES}, [full];"
    )


def _halves(*values: float) -> Any:
    """Return a function that makes ``src``: A and B of one value each, for each time that the stage is filled."""
    return lambda out: {"src": np.repeat(np.array(values, np.float16), _BYTES // 2)}


def _wgmma(
    name: str,
    classes: tuple[str, ...],
    why: str,
    body: str,
    *,
    lines: tuple[str, ...],
    rules: tuple[str, ...] = ("data-race",),
    anchor: str = _WAIT,
    expect: float = 16,
    block: int = 128,
    count: int = 128,
    **arguments: Any,
) -> Twin:
    """``count`` threads, one warpgroup or two, write their D; ``block`` may add a warp for the copies."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=anchor,
        launches=(Launch(_BEGIN + body, block=block),),
        expect=np.full(count, expect, np.float32),
        rules=rules,
        lines=lines,
        **{"severity": "error", **arguments},
    )


_OPERANDS = [
    _wgmma(
        "store-then-wgmma",
        ("store-without-proxy-fence", "proxy-fence"),
        "each storing thread executes the proxy fence before the barrier that the warps of the wgmma pass",
        f"{_ONES}-{_FENCED}+\nbar.sync 0;\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n{_DONE}\n{_STORE}",
        rules=("proxy-fence-missing",),
        lines=("store", "mma"),
        anchor=_PROXY,
    ),
    _wgmma(
        "cp-async-then-wgmma",
        ("store-without-proxy-fence", "proxies"),
        "cp.async writes through the generic proxy: after its wait a proxy fence is owed",
        "mad.wide.u32 from, tid, 16, src; setp.lt.u32 p, tid, 16;\n"
        "cp.async.cg.shared.global [at], [from], 16; // @store\n"
        "@p cp.async.cg.shared.global [at+2048], [from+2048], 16; // @store\n"
        f"cp.async.wait_all;\n-{_FENCED}+\nbar.sync 0;\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n{_DONE}\n{_STORE}",
        rules=("proxy-fence-missing",),
        lines=("store", "mma"),
        anchor=_PROXY,
        arrays=_halves(1),
    ),
    _wgmma(
        "wgmma-before-the-barrier",
        ("store-without-proxy-fence",),
        "the stores of all threads pass the barrier before the wgmma reads them",
        f"{_ZEROS}{_ONES}{_FENCED}-bar.sync 0;\n+\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n{_DONE}\n{_STORE}",
        lines=("store", "mma"),
        anchor=_PROXY,
    ),
    _wgmma(
        "wgmma-before-the-copy",
        ("completion-not-observed",),
        "the warps wait for the phase that the copy completes",
        f"{_ZEROS}{_fill('src')} // @copy\n-{wait('full', 0)}\n+\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n{_DONE}\n"
        f"{wait('full', 0)}\n{_STORE}",
        lines=("copy", "mma"),
        arrays=_halves(1),
    ),
    _wgmma(
        "full-barrier-waited-relaxed-by-wgmma",
        ("relaxed-wait",),
        "the wait acquires the release of complete_tx",
        f"{_fill('src')} // @copy\n-{wait('full', 0)}\n+{wait('full', 0, '.relaxed.cta')}\n{_READY}\n{_mma()} // @mma\n"
        f"{_COMMIT}\n{_DONE}\n{_STORE}",
        lines=("copy", "mma"),
        arrays=_halves(1),
        anchor=_MBARRIER + "test-wait-try-wait",
    ),
    _wgmma(
        "operand-overwritten-in-flight",
        ("completions", "reuse"),
        "wgmma.wait_group waits until the wgmma has read A and B, and the barrier joins the warps",
        f"{_ONES}{_FENCED}bar.sync 0;\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n-{_DONE}\n+\nbar.sync 0;\n"
        f"@first st.shared.b32 [at], tid; // @over\n{_DONE}\n{_STORE}",
        lines=("mma", "over"),
    ),
    _wgmma(
        "stage-refilled-in-flight",
        ("stage-handed-back-at-issue", "completions"),
        "wgmma.wait_group and the barrier come before the next copy into the stage",
        f"{_fill('src')}\n{wait('full', 0)}\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n-{_DONE}\n+\nbar.sync 0;\n"
        f"add.u64 from, src, {_BYTES};\n{_fill('from')} // @refill\n{_DONE}\n{wait('full', 1)}\n{_READY}\n{_mma(1)}\n"
        f"{_COMMIT}\n{_DONE}\n{_STORE}",
        lines=("mma", "refill"),
        arrays=_halves(1, 2),
        expect=16 + 64,
    ),
    _wgmma(
        "stage-refilled-one-group-early",
        ("groups",),
        "wait_group 0 leaves no wgmma in flight, so the stage is free",
        f"{_fill('src')}\n{wait('full', 0)}\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n"
        f"-{_DONE}\n+{_DONE.replace('0', '1')}\nbar.sync 0;\n"
        f"add.u64 from, src, {_BYTES};\n{_fill('from')} // @refill\n{_DONE}\n{wait('full', 1)}\n{_READY}\n{_mma(1)}\n"
        f"{_COMMIT}\n{_DONE}\n{_STORE}",
        lines=("mma", "refill"),
        arrays=_halves(1, 2),
        expect=16 + 64,
    ),
]


def _ring(arrive: str, await_empty: str) -> str:
    """Warp 4 fills the stage twice; the warpgroup hands it back between."""
    return f"""
setp.ge.u32 p, tid, 128; setp.eq.u32 member, tid, 128;
@p bra PRODUCE;
{wait("full", 0)}
{_READY}
{_mma()} // @before
{_COMMIT}
{_DONE}
{arrive}
{wait("full", 1)}
{_READY}
{_mma(1)}
{_COMMIT}
{_DONE}
{_STORE}
bra END;
PRODUCE:
@!member bra END;
{_fill("src", "@member")} // @before
{await_empty}
add.u64 from, src, {_BYTES};
{_fill("from", "@member")} // @refill
END:
"""


_ARRIVAL = "mbarrier.arrive.shared::cta.b64 _, [empty];"
_HANDED: dict[str, Any] = {
    "rules": ("relaxed-handover",),
    "severity": "review",
    "lines": ("before", "refill"),
    "arrays": _halves(1, 2),
    "expect": 16 + 64,
    "block": 160,
    "omitted": True,
}
_RINGS = [
    _wgmma(
        "stage-handed-back-relaxed",
        ("moral strength", "narrow-handover"),
        "the arrivals release what the warps have waited for, and the producer's wait acquires",
        _ring(f"-{_ARRIVAL}\n+{_ARRIVAL.replace('arrive', 'arrive.relaxed.cta')}", wait("empty", 0)),
        **_HANDED,
        anchor=_MBARRIER + "arrive",
    ),
    _wgmma(
        "stage-taken-back-relaxed",
        ("moral strength", "relaxed-wait"),
        "the arrivals release what the warps have waited for, and the producer's wait acquires",
        _ring(_ARRIVAL, f"-{wait('empty', 0)}\n+{wait('empty', 0, '.relaxed.cta')}"),
        **_HANDED,
        anchor=_MBARRIER + "test-wait-try-wait",
    ),
]

_SHARED_STAGE = """
setp.ge.u32 p, tid, 256; setp.eq.u32 member, tid, 256;
@p bra PRODUCE;
{full}
{ready}
{first} // @before
{commit}
{done}
{arrive}
{again}
{ready}
{second}
{commit}
{done}
{store}
bra END;
PRODUCE:
@!member bra END;
{fill} // @before
{empty}
add.u64 from, src, {size};
{refill} // @refill
END:
"""
#: The second warpgroup arrives after the first one, so its arrivals are the last of the phase, or of the next one.
_IN_TURN = f"setp.ge.u32 q, tid, 128; @q bar.sync 2, 256;\n{_ARRIVAL}\nsetp.ge.u32 q, tid, 128; @!q bar.arrive 2, 256;"
_OPERANDS.append(
    _wgmma(
        "stages-side-by-side",
        ("footprints", "completions"),
        "the copy fills the second stage while the wgmma reads the first one: they do not overlap",
        f".shared .align 128 .b8 second[{_BYTES}]; mov.u32 n, second; shr.u32 a, n, 4; cvt.u64.u32 state, a; or.b64 state, state, {_DESCRIPTOR:#x};\n"
        f"{_fill('src')}\n{wait('full', 0)}\n{_READY}\n{_mma()} // @mma\n{_COMMIT}\n"
        f"add.u64 from, src, {_BYTES}; mov.u32 to, n;\n-\n+mov.u32 to, base; mov.b64 state, adesc;\n"
        f"{_fill('from').replace('[stage]', '[to]')} // @refill\n{_DONE}\n{wait('full', 1)}\n"
        f"mov.b64 adesc, state; add.u64 bdesc, adesc, 128;\n{_READY}\n{_mma(1)}\n{_COMMIT}\n{_DONE}\n{_STORE}",
        lines=("mma", "refill"),
        arrays=_halves(1, 2),
        expect=16 + 64,
    )
)
_RINGS.append(
    _wgmma(
        "stage-of-two-warpgroups",
        ("count-too-small", "stage-handed-back-at-issue"),
        "the empty barrier counts the threads of both warpgroups that read the stage",
        "-@first mbarrier.inval.shared::cta.b64 [empty];\n-@first mbarrier.init.shared::cta.b64 [empty], 256;\n+\n+\nbar.sync 0;\n"
        + _SHARED_STAGE.format(
            full=wait("full", 0),
            again=wait("full", 1),
            empty=wait("empty", 0),
            ready=_READY,
            first=_mma(),
            second=_mma(1),
            commit=_COMMIT,
            done=_DONE,
            store=_STORE,
            arrive=_IN_TURN,
            size=_BYTES,
            fill=_fill("src", "@member"),
            refill=_fill("from", "@member"),
        ),
        lines=("before", "refill"),
        rules=("data-race",),
        arrays=_halves(1, 2),
        expect=16 + 64,
        count=256,
        block=288,
    )
)

_REVIEW: dict[str, Any] = {"severity": "review", "omitted": True}
_ZERO = "mov.f32 acc0, 0f00000000; mov.f32 acc1, acc0; mov.f32 acc2, acc0; mov.f32 acc3, acc0;"
_REGISTERS = [
    _wgmma(
        "accumulator-read-in-flight",
        ("completions", "registers-repaired"),
        "wgmma.wait_group comes before the first access to the accumulator",
        f"{_ONES}{_FENCED}bar.sync 0;\n{_READY}\n{_mma()}\n{_COMMIT}\n-{_DONE}\n+\nst.global.f32 [ptr], acc0; // @read\n{_DONE}",
        rules=("wgmma-register",),
        lines=("read",),
        **_REVIEW,
    ),
    _wgmma(
        "a-registers-written-in-flight",
        ("completions", "registers-repaired"),
        "wgmma.wait_group comes before the registers of A are written again",
        f"{_ONES}{_FENCED}bar.sync 0;\nmov.b32 r0, x; mov.b32 r1, x; mov.b32 r2, x; mov.b32 r3, x;\n{_READY}\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {acc0, acc1, acc2, acc3}, {r0, r1, r2, r3}, bdesc, 0, 1, 1, 0;\n"
        f"{_COMMIT}\n-{_DONE}\n+\nmov.b32 r0, tid; // @write\n{_DONE}\nst.global.f32 [ptr], acc0;\n@never st.global.b32 [ptr], r0;",
        rules=("wgmma-register",),
        lines=("write",),
        **_REVIEW,
    ),
    _wgmma(
        "accumulator-set-without-a-fence",
        ("registers-repaired",),
        "wgmma.fence orders the ordinary writes of the accumulator before the wgmma",
        f"{_ONES}{_FENCED}bar.sync 0;\n{_ZERO}\n-{_READY}\n+\n{_mma(1)} // @mma\n{_COMMIT}\n{_DONE}\n{_STORE}",
        rules=("wgmma-fence",),
        lines=("mma",),
        anchor=_FENCE,
        **_REVIEW,
    ),
]

TWINS = [*_OPERANDS, *_RINGS, *_REGISTERS]
