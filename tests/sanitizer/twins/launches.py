"""Twins of launches: full boundaries, and programmatic dependent launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .twin import Launch, Twin, arrays, wait

__all__ = ["TWINS"]

_DEPENDENT = "parallel-synchronization-and-communication-instructions-griddepcontrol"
_CANCEL = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel"
_WAIT = "griddepcontrol.wait;"
_READ = """
{before}
ld.global.u32 y, [data]; // @load
st.global.u32 [out], y;
"""


def _reader(before: str) -> Launch:
    return Launch(_READ.format(before=before), block=1, dependent=True)


_DEPENDENTS = [
    Twin(
        name="full-boundary",
        classes=("launches", "false-alarm"),
        why="a launch that is not dependent starts when the one before it has completed: it needs no griddepcontrol",
        anchor=_DEPENDENT,
        launches=(
            Launch("st.global.u32 [data], 7;", block=1),
            Launch(f"-{_WAIT}\n+\nld.global.u32 y, [data]; st.global.u32 [out], y;", block=1),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=(),
        severity="none",
        lines=(),
    ),
    Twin(
        name="one-thread-waits-for-the-launch",
        classes=("launches", "barriers"),
        why="thread 0 waits for the launch before it, and bar.sync orders that before the reads of the other threads",
        anchor=_DEPENDENT,
        launches=(
            Launch(
                "griddepcontrol.launch_dependents;\nmad.wide.u32 ptr, tid, 4, data; st.global.u32 [ptr], tid; // @store",
                block=64,
            ),
            Launch(
                f"""
@first {_WAIT}
-bar.sync 0;
+
mad.wide.u32 ptr, tid, 4, data; ld.global.u32 y, [ptr]; // @load
mad.wide.u32 ptr, tid, 4, out; st.global.u32 [ptr], y;
""",
                block=64,
                dependent=True,
            ),
        ),
        arrays=arrays(data=64),
        expect=np.arange(64, dtype=np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="dependent-reads-too-early",
        classes=("launches",),
        why="griddepcontrol.wait waits until the launch before it has completed and its stores are visible",
        anchor=_DEPENDENT,
        launches=(
            Launch("griddepcontrol.launch_dependents;\nst.global.u32 [data], 7; // @store", block=1),
            _reader(f"-{_WAIT}\n+"),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="launch-dependents-releases-nothing",
        classes=("launches",),
        why="griddepcontrol.wait makes the stores visible; launch_dependents orders none, those before it neither",
        anchor=_DEPENDENT,
        launches=(
            Launch("st.global.u32 [data], 7; // @store\ngriddepcontrol.launch_dependents;", block=1),
            _reader(f"-{_WAIT}\n+"),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="dependent-waits-too-late",
        classes=("launches",),
        why="griddepcontrol.wait stands before the first access to the buffers of the launch before it",
        anchor=_DEPENDENT,
        launches=(
            Launch("griddepcontrol.launch_dependents;\nst.global.u32 [data], 7; // @store", block=1),
            Launch(
                f"-{_WAIT}\nld.global.u32 y, [data]; // @load\n+{_WAIT}\nst.global.u32 [out], y;",
                block=1,
                dependent=True,
            ),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="dependent-overwrites-too-early",
        classes=("launches",),
        why="griddepcontrol.wait comes before the stores to what the launch before it reads",
        anchor=_DEPENDENT,
        launches=(
            Launch(
                "griddepcontrol.launch_dependents;\nld.global.u32 y, [data]; // @load\nst.global.u32 [out], y;",
                block=1,
            ),
            Launch(f"-{_WAIT}\n+\nst.global.u32 [data], 9; // @store", block=1, dependent=True),
        ),
        arrays=arrays(data=np.array([7], np.uint32)),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("load", "store"),
    ),
    Twin(
        name="chain-of-three-launches",
        classes=("launches",),
        why="the second launch waits for the first, so its completion, which the third waits for, comes after both",
        anchor=_DEPENDENT,
        launches=(
            Launch("griddepcontrol.launch_dependents;\nst.global.u32 [data], 7; // @store", block=1),
            Launch(f"griddepcontrol.launch_dependents;\n-{_WAIT}\n+", block=1, dependent=True),
            _reader(_WAIT),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("store", "load"),
    ),
    Twin(
        name="boundary-orders-all-proxies",
        classes=("launches", "proxies"),
        why="the end of a launch and griddepcontrol.wait order ordinary stores before copies of the next launch",
        anchor=_DEPENDENT,
        launches=(
            Launch(
                "griddepcontrol.launch_dependents;\nst.global.v4.u32 [data], {5, 6, 7, 8}; // @store",
                block=1,
            ),
            Launch(
                f"""
.shared .align 16 .b32 tile[4]; .shared .align 8 .b64 bar;
mov.u32 base, tile;
mbarrier.init.shared::cta.b64 [bar], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
-{_WAIT}
+
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [data], 16, [bar]; // @load
{wait("bar", 0)}
ld.shared.v4.u32 {{x, y, z, n}}, [base]; st.global.v4.u32 [out], {{x, y, z, n}};
""",
                block=1,
                dependent=True,
            ),
        ),
        arrays=arrays(data=4),
        expect=np.array([5, 6, 7, 8], np.uint32),
        rules=("data-race", "proxy-fence-missing"),
        severity="error",
        lines=("store", "load"),
    ),
]


def _persistent(name: str, classes: tuple[str, ...], why: str, fence: str, meet: str) -> Twin:
    """CTAs take over the tiles of CTAs that have not started: each tile is counted once."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=_CANCEL,
        target="sm_100a",
        launches=(
            Launch(
                f"""
.shared .align 16 .b8 room[16]; .shared .align 8 .b64 bar;
mov.u32 n, cta; mov.u32 a, 0;
@first mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
TILE:
@!first bra ASKED;
mad.wide.u32 ptr, n, 4, out; red.relaxed.gpu.global.add.u32 [ptr], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [room], [bar]; // @ask
ASKED:
bar.warp.sync -1;
{wait("bar", "a")}
ld.shared.b128 answer, [room]; // @load
{fence}
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;
@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 n, answer;
xor.b32 a, a, 1;
{meet}
@p bra TILE;
""",
                grid=8,
                block=64,
            ),
        ),
        expect=np.ones(8, np.uint32),
        rules=("data-race",),
        severity="error",
        lines=("load", "ask"),
        options={"memory": 24_000},
    )


_FENCE = "fence.proxy.async.shared::cta;"
_CONTROL = [
    _persistent(
        "answer-overwritten-early",
        ("control-answer",),
        "all threads have read the answer, fenced and met before thread 0 asks again",
        _FENCE,
        "-bar.sync 0;\n+",
    ),
    replace(
        _persistent(
            "answer-overwritten-without-a-fence",
            ("read-then-refill", "proxies"),
            "each thread that has read the answer executes a proxy fence before the next answer is written",
            f"-{_FENCE}\n+",
            "bar.sync 0;",
        ),
        rules=("proxy-fence-open",),
        severity="review",
        omitted=True,
    ),
]

TWINS = [*_DEPENDENTS, *_CONTROL]
