"""Twins of mbarriers: what an arrival releases, which phase a wait acquires, counts and bytes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pyptx.layout.tensor_map import TensorMap

from .twin import Launch, Twin, arrays, wait

__all__ = ["TWINS"]

_SYNC = "parallel-synchronization-and-communication-instructions-"
_ARRIVE = _SYNC + "mbarrier-arrive"
_WAIT = _SYNC + "mbarrier-test-wait-try-wait"
_CONTENTS = _SYNC + "mbarrier-contents"
_INIT = _SYNC + "mbarrier-init"
_WARP_BAR = _SYNC + "bar-warp-sync"
_MODEL = "memory-consistency-model"


def _handover(
    name: str,
    classes: tuple[str, ...],
    why: str,
    *,
    produce: str,
    consume: str = wait("bar", 0),
    init: str = "@first mbarrier.init.shared::cta.b64 [bar], 1;",
    ready: str = "bar.sync 0;",
    anchor: str = _WAIT,
    rules: tuple[str, ...] = ("data-race",),
    severity: Literal["error", "review", "none"] = "error",
    lines: tuple[str, ...] = ("store", "load"),
) -> Twin:
    """Thread 0 writes a word and arrives; thread 32 waits and reads the word."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=anchor,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bar; .shared .align 4 .b32 tile;
@first st.shared.u32 [tile], 0;
{init}
{ready}
setp.eq.u32 p, tid, 32;
@p bra CONSUME;
@!first bra END;
{produce}
bra END;
CONSUME:
{consume}
ld.shared.u32 y, [tile]; // @load
st.global.u32 [out], y;
END:
""",
                block=64,
            ),
        ),
        expect=np.array([7], np.uint32),
        rules=rules,
        severity=severity,
        lines=lines,
    )


_STORE = "st.shared.u32 [tile], 7; // @store\n"
_ARRIVAL = "mbarrier.arrive.shared::cta.b64 _, [bar];"
_ONCE = "mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0;"

_ORDERS = [
    _handover(
        "arrival-relaxed",
        ("relaxed-arrival", "moral strength"),
        "mbarrier.arrive has release semantics by default, and the wait has acquire semantics",
        produce=_STORE + f"-{_ARRIVAL}\n+mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar];",
        anchor=_ARRIVE,
    ),
    _handover(
        "wait-relaxed",
        ("relaxed-wait", "moral strength"),
        "mbarrier.try_wait has acquire semantics by default, and the arrival has release semantics",
        produce=_STORE + _ARRIVAL,
        consume=f"-{wait('bar', 0)}\n+{wait('bar', 0, '.relaxed.cta')}",
    ),
    _handover(
        "last-arrival-relaxed",
        ("relaxed-arrival", "moral strength"),
        "mbarrier.arrive_drop releases as mbarrier.arrive does",
        produce=_STORE
        + "-mbarrier.arrive_drop.shared::cta.b64 _, [bar];\n+mbarrier.arrive_drop.relaxed.cta.shared::cta.b64 _, [bar];",
        anchor=_ARRIVE,
    ),
    _handover(
        "wait-for-a-state-relaxed",
        ("relaxed-wait",),
        "a wait for the state of the waiting thread's own arrival acquires the other arrivals of the phase",
        init="@first mbarrier.init.shared::cta.b64 [bar], 2;",
        produce=_STORE + _ARRIVAL,
        consume="mbarrier.arrive.shared::cta.b64 state, [bar];\n"
        "-WAIT: mbarrier.try_wait.shared::cta.b64 q, [bar], state; @!q bra WAIT;\n"
        "+WAIT: mbarrier.try_wait.relaxed.cta.shared::cta.b64 q, [bar], state; @!q bra WAIT;",
    ),
    _handover(
        "arrival-before-the-store",
        ("completion-not-observed",),
        "the arrival releases what its thread did before it",
        produce=f"+{_ARRIVAL}\n{_STORE}-{_ARRIVAL}",
        anchor=_ARRIVE,
    ),
    _handover(
        "wait-asked-once",
        ("wait-asked-once", "completion-not-observed"),
        "try_wait may answer false at any time: the loop ends only when it answers true",
        produce=_STORE + _ARRIVAL,
        consume=f"-{wait('bar', 0)}\n+{_ONCE}",
    ),
    _handover(
        "wait-on-a-fresh-parity",
        ("completion-not-observed", "phase-parity"),
        "the first phase has parity 0; parity 1 of a fresh barrier counts as complete at once",
        produce=_STORE + _ARRIVAL,
        consume=f"-{wait('bar', 0)}\n+{wait('bar', 1)}",
    ),
    _handover(
        "init-not-ordered",
        ("init-not-ordered", "reuse"),
        "bar.sync orders mbarrier.init before every use by another thread",
        init="@first mbarrier.init.shared::cta.b64 [bar], 2; // @init",
        ready="-bar.sync 0;\n+",
        produce=_STORE + _ARRIVAL,
        consume=f"{_ARRIVAL} // @arrive\n{wait('bar', 0)}",
        anchor=_INIT,
        lines=("init", "arrive"),
    ),
    _handover(
        "count-of-one-more",
        ("arrival-count",),
        "the barrier counts one arrival, and one thread arrives once",
        init="-@first mbarrier.init.shared::cta.b64 [bar], 1;\n+@first mbarrier.init.shared::cta.b64 [bar], 2;",
        produce=_STORE + _ARRIVAL,
        consume=f"{wait('bar', 0)} // @wait",
        anchor=_CONTENTS,
        rules=("deadlock",),
        lines=("wait",),
    ),
]


def _rounds(
    name: str,
    classes: tuple[str, ...],
    why: str,
    *,
    first: str,
    second: str,
    rules: tuple[str, ...] = ("data-race",),
) -> Twin:
    """Thread 0 writes a word in each of two phases; thread 32 reads both.

    A thread that asks for a wrong phase reads too early, or waits forever if that phase has passed.
    """
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=_WAIT,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bar, empty; .shared .align 4 .b32 tile[2];
@first mbarrier.init.shared::cta.b64 [bar], 1;
@first mbarrier.init.shared::cta.b64 [empty], 1;
mov.u32 base, tile; @first st.shared.u32 [base+4], 0;
bar.sync 0;
setp.eq.u32 p, tid, 32;
@p bra CONSUME;
@!first bra END;
st.shared.u32 [base], 7;
{_ARRIVAL}
{first}
{wait("empty", 0)}
st.shared.u32 [base+4], 8; // @store
{_ARRIVAL}
bra END;
CONSUME:
{wait("bar", 0)}
ld.shared.u32 x, [base];
mbarrier.arrive.shared::cta.b64 _, [empty];
{second}
ld.shared.u32 y, [base+4]; // @load
st.global.v2.u32 [out], {{x, y}};
END:
""",
                block=64,
            ),
        ),
        expect=np.array([7, 8], np.uint32),
        rules=rules,
        severity="error",
        lines=("store", "load"),
    )


_PHASES = [
    _rounds(
        "phase-not-flipped",
        ("phase-parity", "completions"),
        "the second wait asks for the second phase, whose parity is 1",
        first="",
        second=f"-{wait('bar', 1)}\n+{wait('bar', 0)} // @store @load",
        rules=("data-race", "deadlock"),
    ),
    _rounds(
        "wait-acquires-its-phase-only",
        ("moral strength", "completions"),
        "a wait acquires the arrivals of the phase that it waits for, so each phase needs its wait",
        first="",
        second=f"-{wait('bar', 1)}\n+",
    ),
    _rounds(
        "one-arrival-too-many",
        ("arrival-count",),
        "one arrival completes each phase: the second phase completes after the second store",
        first=f"-\n+{_ARRIVAL}",
        second=f"{wait('bar', 1)} // @store @load",
        rules=("data-race", "deadlock"),
    ),
    Twin(
        name="count-of-one-fewer",
        classes=("count-too-small", "arrival-count"),
        why="both producers arrive in the phase that the consumer waits for",
        anchor=_CONTENTS,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bar; .shared .align 8 .b32 tile[2];
mov.u32 base, tile;
-@first mbarrier.init.shared::cta.b64 [bar], 2;
+@first mbarrier.init.shared::cta.b64 [bar], 1;
@first st.shared.v2.u32 [base], {{warp, warp}};
bar.sync 0;
@!lead bra END;
setp.eq.u32 p, warp, 2; @p bra CONSUME;
@!first bra OTHER;
st.shared.u32 [base], 7; // @store
{_ARRIVAL}
bra END;
OTHER:
st.shared.u32 [base+4], 8; // @store
{_ARRIVAL}
bra END;
CONSUME:
{wait("bar", 0)}
ld.shared.v2.u32 {{x, y}}, [base]; // @load
st.global.v2.u32 [out], {{x, y}};
END:
""",
                block=96,
            ),
        ),
        expect=np.array([7, 8], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="one-lane-arrives-for-all",
        classes=("one-lane-arrives", "lanes are threads"),
        why="bar.warp.sync orders the stores of all lanes before the arrival of one of them",
        anchor=_WARP_BAR,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bar; .shared .align 4 .b32 tile[32];
mov.u32 base, tile;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
setp.eq.u32 p, warp, 1;
@p bra CONSUME;
mad.lo.u32 at, lane, 4, base;
st.shared.u32 [at], lane; // @store
-bar.warp.sync -1;
+
elect.sync _|p, -1;
@p {_ARRIVAL}
bra END;
CONSUME:
{wait("bar", 0)}
xor.b32 a, lane, 31; mad.lo.u32 at, a, 4, base;
ld.shared.u32 y, [at]; // @load
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
END:
""",
                block=64,
            ),
        ),
        expect=np.arange(32, dtype=np.uint32)[::-1].copy(),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
]


def _ring(
    name: str, why: str, *, produce: str, consume: str, rules: tuple[str, ...], lines: tuple[str, ...]
) -> Twin:
    """Thread 0 sends four words through two stages; thread 32 collects them. ``b`` is the phase of the stage.

    A thread that asks for a wrong phase goes on too early, or waits forever.
    """
    place = "and.b32 a, n, 1; mad.lo.u32 at, a, 4, base; mad.lo.u32 d, a, 8, x; add.u32 e, d, 16; shr.u32 b, n, 1;"
    return Twin(
        name=name,
        classes=("phase-parity", "reuse"),
        why=why,
        anchor=_WAIT,
        launches=(
            Launch(
                f"""
.shared .align 8 .b64 bars[4]; .shared .align 4 .b32 tile[2];
mov.u32 base, tile; mov.u32 x, bars; mov.u32 n, 0; mov.u32 z, 0;
@first mbarrier.init.shared::cta.b64 [x], 1; @first mbarrier.init.shared::cta.b64 [x+8], 1;
@first mbarrier.init.shared::cta.b64 [x+16], 1; @first mbarrier.init.shared::cta.b64 [x+24], 1;
bar.sync 0;
setp.eq.u32 p, tid, 32;
@p bra CONSUME;
@!first bra END;
PRODUCE:
{place}
{produce}
add.u32 y, n, 5; st.shared.u32 [at], y; // @store
mbarrier.arrive.shared::cta.b64 _, [d];
add.u32 n, n, 1; setp.lt.u32 p, n, 4; @p bra PRODUCE;
bra END;
CONSUME:
{place}
{consume}
{wait("d", "b")} // @get
ld.shared.u32 y, [at]; // @load
mad.lo.u32 z, z, 16, y;
mbarrier.arrive.shared::cta.b64 _, [e];
add.u32 n, n, 1; setp.lt.u32 p, n, 4; @p bra CONSUME;
st.global.u32 [out], z;
END:
""",
                block=64,
            ),
        ),
        expect=np.array([0x5678], np.uint32),
        rules=rules,
        severity="error",
        lines=lines,
    )


_PHASES += [
    _ring(
        "ring-read-in-one-phase",
        "the consumer's phase of a stage changes each time around the ring",
        produce=f"xor.b32 b, b, 1; {wait('e', 'b')}",
        consume="-\n+mov.u32 b, 0;",
        rules=("deadlock",),
        lines=("get",),
    ),
    _ring(
        "ring-written-without-a-wait",
        "the producer waits until the consumer has handed the stage back, apart from the first time around the ring",
        produce=f"-xor.b32 b, b, 1; {wait('e', 'b')}\n+",
        consume="",
        rules=("data-race",),
        lines=("store", "load"),
    ),
    _ring(
        "ring-waits-for-a-stage-never-read",
        "a fresh barrier counts as if its phase of parity 1 were complete: the producer begins with this parity",
        produce=f"-xor.b32 b, b, 1;\n+\n{wait('e', 'b')} // @take",
        consume="",
        rules=("deadlock",),
        lines=("take", "get"),
    ),
]

# --- bytes ------------------------------------------------------------------------------------

_COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [data], 128, [bar];"


def _loaded(
    name: str,
    classes: tuple[str, ...],
    why: str,
    *,
    expect_tx: str,
    await_it: str,
    rules: tuple[str, ...],
    lines: tuple[str, ...],
    anchor: str,
) -> Twin:
    """A bulk copy fills a tile, and each lane reads a word of it."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=anchor,
        launches=(
            Launch(f"""
.shared .align 16 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.warp.sync -1;
@!first bra WAITS;
{expect_tx}
{_COPY} // @copy
WAITS:
bar.warp.sync -1;
{await_it}
ld.shared.u32 y, [at]; // @load
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
-
+{wait("bar", 0)}
"""),
        ),
        arrays=arrays(data=np.arange(32, dtype=np.uint32)),
        expect=np.arange(32, dtype=np.uint32),
        rules=rules,
        severity="error",
        lines=lines,
    )


_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};"
_BYTES = [
    _loaded(
        "copy-not-waited-for",
        ("completion-not-observed", "wait-asked-once"),
        "the wait acquires the release of complete_tx, which comes after the bytes",
        expect_tx=_EXPECT.format(128),
        await_it=f"-{wait('bar', 0)}\n+",
        rules=("data-race",),
        lines=("copy", "load"),
        anchor=_MODEL,
    ),
    _loaded(
        "copy-waited-for-by-one-lane",
        ("one-lane-arrives", "lanes are threads"),
        "one lane waits, and bar.warp.sync hands what it acquired to the other lanes",
        expect_tx=_EXPECT.format(128),
        await_it=f"@!first bra MEET;\n{wait('bar', 0)}\nMEET:\n-bar.warp.sync -1;\n+",
        rules=("data-race",),
        lines=("copy", "load"),
        anchor=_WARP_BAR,
    ),
    _loaded(
        "full-barrier-waited-relaxed",
        ("relaxed-wait", "narrow-handover"),
        "an ordinary load of bytes that a copy wrote needs a wait that acquires",
        expect_tx=_EXPECT.format(128),
        await_it=f"-{wait('bar', 0)}\n+{wait('bar', 0, '.relaxed.cta')}",
        rules=("data-race",),
        lines=("copy", "load"),
        anchor=_WAIT,
    ),
    _loaded(
        "copy-asked-once",
        ("wait-asked-once",),
        "try_wait may answer false at any time: the loop ends only when it answers true",
        expect_tx=_EXPECT.format(128),
        await_it=f"-{wait('bar', 0)}\n+{_ONCE}",
        rules=("data-race",),
        lines=("copy", "load"),
        anchor=_WAIT,
    ),
    _loaded(
        "bytes-expected-too-many",
        ("transaction-bytes",),
        "the copy completes exactly as many bytes as the arrival expects",
        expect_tx=f"-{_EXPECT.format(128)}\n+{_EXPECT.format(144)}",
        await_it=f"{wait('bar', 0)} // @wait",
        rules=("deadlock",),
        lines=("wait",),
        anchor=_CONTENTS,
    ),
    _loaded(
        "bytes-expected-too-few",
        ("transaction-bytes",),
        "the copy completes exactly as many bytes as the arrival expects",
        expect_tx=f"-{_EXPECT.format(128)}\n+{_EXPECT.format(112)}",
        await_it=f"{wait('bar', 0)} // @wait",
        rules=("deadlock",),
        lines=("wait",),
        anchor=_CONTENTS,
    ),
    Twin(
        name="bytes-of-a-clipped-box",
        classes=("transaction-bytes",),
        why="a box that hangs over the tensor's edge fills and counts all of its bytes, measured on an H200",
        anchor="data-movement-and-conversion-instructions-cp-async-bulk-tensor",
        launches=(
            Launch(f"""
.shared .align 128 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.warp.sync -1;
@!first bra WAITS;
-{_EXPECT.format(128)}
+{_EXPECT.format(96)} // @bug
mov.u32 x, 8;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [map, {{x}}], [bar];
WAITS:
bar.warp.sync -1;
{wait("bar", 0)} // @bug
ld.shared.u32 y, [at];
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""),
        ),
        arrays=lambda out: {"map": TensorMap.tiled(np.arange(32, dtype=np.uint32), box=(32,))},
        expect=np.array([*range(8, 32), *[0] * 8], np.uint32),
        rules=("deadlock", "mbarrier-misuse"),
        severity="error",
        lines=("bug",),
    ),
    Twin(
        name="bulk-copies-in-a-loop",
        classes=("false-alarm",),
        why="each copy is waited for, and the warp meets before the next one fills the tile: no finding in either",
        anchor=_MODEL,
        launches=(
            Launch(f"""
.shared .align 16 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mov.u32 n, 0; mov.u32 z, 0; mov.b64 from, data;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.warp.sync -1;
LOOP:
@!first bra WAITS;
{_EXPECT.format(128)}
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [from], 128, [bar];
WAITS:
bar.warp.sync -1;
and.b32 a, n, 1;
-{wait("bar", "a")}
+{wait("bar", "a").replace("try_wait", "test_wait")}
ld.shared.u32 y, [at]; add.u32 z, z, y;
fence.proxy.async.shared::cta;
bar.warp.sync -1;
add.u64 from, from, 128; add.u32 n, n, 1; setp.lt.u32 p, n, 3; @p bra LOOP;
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], z;
"""),
        ),
        arrays=arrays(data=np.arange(96, dtype=np.uint32)),
        expect=3 * np.arange(32, dtype=np.uint32) + 96,
        rules=(),
        severity="none",
        lines=(),
    ),
]

_HARMLESS = Twin(
    name="expecting-arrival-relaxed",
    classes=("moral strength", "false-alarm"),
    why="the arrival hands over no data of its thread: the bytes come with the release of complete_tx",
    anchor=_ARRIVE,
    launches=(
        Launch(f"""
.shared .align 16 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.warp.sync -1;
-@first {_EXPECT.format(128)}
+@first {_EXPECT.format(128).replace("expect_tx", "expect_tx.relaxed.cta")}
@first {_COPY}
bar.warp.sync -1;
{wait("bar", 0)}
ld.shared.u32 y, [at];
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""),
    ),
    arrays=arrays(data=np.arange(32, dtype=np.uint32)),
    expect=np.arange(32, dtype=np.uint32),
    rules=(),
    severity="none",
    lines=(),
)

TWINS = [_HARMLESS, *_ORDERS, *_PHASES, *_BYTES]
